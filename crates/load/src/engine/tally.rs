//! The counts of one loop's connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_advice::Message;
use anywire_http::StatusCode;
use anywire_http::h1::LastHead;
use anywire_loops::clock::precise;
use anywire_wire::DialLog;
use tokio::sync::{Notify, Semaphore};

use crate::engine::by_request::{ByRequest, RequestShare};
use crate::engine::columns::{Columns, Sample};
use crate::engine::event_times::EventTimes;
use crate::engine::generator::OpenResult;
use crate::engine::h1::Answer;
use crate::engine::monitor::{Counts, Published};
use crate::engine::pace::Pacing;
use crate::engine::paced::{Due, Paced, Slot, Taken};
use crate::engine::scripted::{Events, Fault};
use crate::engine::wire_watch::Watched;
use crate::errors::ErrorKind;
use crate::outcome::Totals;
use crate::pacer::Part;
use crate::plan::{Amount, Plan, Prepared};
use crate::script::{CookieFigures, Feed, Stride};

/// The shared state of one loop's connections.
pub(crate) struct Tally {
    pub(crate) plan: Arc<Plan>,
    pub(crate) prepared: Arc<Prepared>,
    /// What is sent next, if the plan has a script.
    pub(crate) feed: Option<Rc<RefCell<Feed>>>,
    /// What became of each request of the script, if it has several.
    by_request: Option<RefCell<ByRequest>>,
    /// Events of streamed bodies, if they are timed.
    events: Option<RefCell<EventTimes>>,
    /// The schedule, if the plan has one.
    pub(crate) paced: Option<Paced>,
    /// Connections dialling now, bounded by `Limits::dials_at_once`.
    pub(crate) dials: Semaphore,
    /// Notified when a worker's first attempt has its result, and when a worker ends.
    pub(crate) changed: Notify,
    /// Notified when load may begin.
    pub(crate) go: Notify,
    /// Notified when the last request of the measured part was drawn.
    spent: Notify,
    pub(crate) started: Cell<bool>,
    /// Workers whose first attempt has no result yet.
    pub(crate) unattempted: Cell<usize>,
    /// Workers that have not ended.
    pub(crate) working: Cell<usize>,
    /// Connections open now.
    pub(crate) open: Cell<u64>,
    measuring: Cell<bool>,
    /// Whether the time of a schedule is up: what has no response by now was due long ago.
    is_over: Cell<bool>,
    /// Requests of the measured part that may still be sent.
    budget: Cell<u64>,
    counts: RefCell<Totals>,
    /// Answers of the measured part; the index is the status.
    statuses: RefCell<Vec<u64>>,
    columns: RefCell<Columns>,
    /// The head that came last over HTTP/1, on any connection: to a plan without a script all answers are mostly the same.
    pub(crate) last_head: RefCell<LastHead<Answer>>,
    /// What was seen of connections on wires with segments.
    wire: Cell<Option<Watched>>,
}

impl Tally {
    pub(crate) fn new(
        plan: Arc<Plan>,
        prepared: Arc<Prepared>,
        part: Stride,
        workers: usize,
        requests: u64,
        paced: Part,
    ) -> Self {
        let budget = match plan.amount {
            Amount::Duration(_) => u64::MAX,
            Amount::Requests(_) => requests,
        };
        let dials = Semaphore::new(plan.limits.dials_at_once.clamp(1, Semaphore::MAX_PERMITS));
        let script = prepared.script.as_ref();
        let feed = script.map(|script| Rc::new(RefCell::new(Feed::new(Arc::clone(script), plan.seed, part))));
        let by_request =
            script.and_then(|script| ByRequest::new(script, &plan.limits.script)).map(RefCell::new);
        let columns = match &plan.schedule {
            Some(schedule) => Columns::with_parts(schedule.shape.parts()),
            None => Columns::new(),
        };
        Self {
            events: plan.events.then(RefCell::default),
            paced: Paced::of(&plan, paced),
            plan,
            prepared,
            feed,
            by_request,
            dials,
            changed: Notify::new(),
            go: Notify::new(),
            spent: Notify::new(),
            started: Cell::new(false),
            unattempted: Cell::new(workers),
            working: Cell::new(workers),
            open: Cell::new(0),
            measuring: Cell::new(false),
            is_over: Cell::new(false),
            budget: Cell::new(budget),
            counts: RefCell::default(),
            statuses: RefCell::new(vec![0; STATUSES]),
            columns: RefCell::new(columns),
            last_head: RefCell::default(),
            wire: Cell::new(None),
        }
    }

    /// Begins the load that is in no figure. A schedule counts from `begin`.
    pub(crate) fn warm_up(&self, begin: Instant) {
        if let Some(paced) = &self.paced {
            paced.begin_warm_up(begin);
        }
    }

    /// Begins the measured part; a schedule counts from `begin`. Without one: requests sent from now on belong to it, and to a time those on their way: what is answered in
    /// the time and the time by which that is divided belong together.
    pub(crate) fn measure(&self, begin: Instant) {
        self.measuring.set(true);
        if let Some(paced) = &self.paced {
            paced.begin_measuring(begin, self.budget.get());
        }
        if self.takes_over() {
            let mut counts = self.counts.borrow_mut();
            let on_their_way = counts.warm_up.on_their_way();
            counts.warm_up.sent -= on_their_way;
            counts.measured.sent += on_their_way;
        }
        if self.is_spent() {
            self.say_spent();
        }
    }

    /// Whether what is on its way when the measured part begins belongs to it: if a time is measured, and not a number of requests,
    /// and no schedule says of each request where it belongs.
    fn takes_over(&self) -> bool {
        matches!(self.plan.amount, Amount::Duration(_)) && self.paced.is_none()
    }

    /// Whether what becomes of a request now belongs to the measured part.
    #[inline]
    pub(crate) fn belongs(&self, was_sent_in_it: bool) -> bool {
        was_sent_in_it || (self.takes_over() && self.measuring.get())
    }

    /// Whether requests that leave now belong to the measured part.
    pub(crate) fn is_measuring(&self) -> bool {
        self.measuring.get()
    }

    /// How many of `wanted` requests may be sent; they are counted as sent.
    #[inline]
    pub(crate) fn draw(&self, wanted: u32) -> u32 {
        if !self.measuring.get() {
            self.counts.borrow_mut().warm_up.sent += u64::from(wanted);
            return wanted;
        }
        let left = self.budget.get();
        let drawn = left.min(u64::from(wanted));
        if left != u64::MAX {
            self.budget.set(left - drawn);
            if left == drawn {
                self.say_spent();
            }
        }
        self.counts.borrow_mut().measured.sent += drawn;
        drawn as u32
    }

    /// A request that is due, for a connection that has room. It is counted as sent.
    pub(crate) fn take_due(&self, paced: &Paced, slot: &Rc<Slot>, now: Instant) -> Option<Batch> {
        let Taken { due, own_lag, shed } = paced.take(slot, now);
        if shed > 0 {
            self.shed(shed);
        }
        let due = due?;
        if self.draw(1) == 0 {
            return None;
        }
        if due.measured
            && let Some(open) = &mut self.columns.borrow_mut().open
        {
            open.sent(&due, now.saturating_duration_since(due.intended), own_lag);
        }
        let Due { intended, measured, step } = due;
        Some(Batch { intended, sent_at: now, requests: 1, measured, step })
    }

    /// Counts requests that are not sent, because they are older than the plan's deadline. Each is one of the plan's.
    #[cold]
    fn shed(&self, requests: u64) {
        let measured = self.measuring.get();
        self.counts.borrow_mut().part(measured).shed += requests;
        if measured && self.budget.get() != u64::MAX {
            self.budget.set(self.budget.get().saturating_sub(requests));
            if self.budget.get() == 0 {
                self.say_spent();
            }
        }
    }

    /// How much the loop has done: for who wants to know whether it did anything.
    pub(crate) fn work(&self) -> u64 {
        let counts = self.counts.borrow();
        counts.measured.sent + counts.measured.answered + counts.warm_up.sent + counts.warm_up.answered
    }

    /// What became of the schedule, now that its time is up.
    pub(crate) fn open_result(
        &self,
        now: Instant,
        pacing: Pacing,
        spun_before: Duration,
    ) -> Option<OpenResult> {
        let paced = self.paced.as_ref()?;
        Some(OpenResult {
            intended: paced.intended(now),
            next_due: paced.next_due(),
            sent_in_time: self.counts.borrow().measured.sent,
            is_busy: paced.is_busy(),
            pacing: Pacing { spun: pacing.spun - spun_before, ..pacing },
        })
    }

    /// Whether each request of the measured part that was due was sent, and something has become of it.
    pub(crate) fn is_settled(&self) -> bool {
        let is_exhausted = self.paced.as_ref().is_none_or(Paced::is_exhausted);
        is_exhausted && self.counts.borrow().measured.on_their_way() == 0
    }

    /// The time of a schedule is up. Requests that were due and were not sent have waited until now, and so have those that end
    /// now without a response: their ages are recorded, because a tail without them would be that of a better server.
    pub(crate) fn time_is_up(&self, now: Instant) {
        let Some(paced) = &self.paced else { return };
        self.is_over.set(true);
        if let Some(open) = &mut self.columns.borrow_mut().open {
            for (due, requests) in paced.untaken(now) {
                open.untaken(&due, now, requests);
            }
        }
    }

    /// Takes back requests that the peer has announced not to act on, so that the next connection which draws sends them again.
    #[cold]
    pub(crate) fn take_back(&self, batch: &Batch) {
        let (measured, requests) = (self.belongs(batch.measured), u64::from(batch.requests));
        if let Some(paced) = &self.paced {
            paced.take_back(Due { intended: batch.intended, measured, step: batch.step });
        }
        let mut counts = self.counts.borrow_mut();
        let part = counts.part(measured);
        part.sent -= requests;
        part.sent_again += requests;
        if measured && self.budget.get() != u64::MAX {
            self.budget.set(self.budget.get() + requests);
        }
    }

    /// Whether all requests of the measured part were sent.
    pub(crate) fn is_spent(&self) -> bool {
        self.measuring.get() && self.budget.get() == 0
    }

    /// Waits until all requests of the measured part were sent.
    pub(crate) async fn spent(&self) {
        let spent = self.spent.notified();
        if !self.is_spent() {
            spent.await;
        }
    }

    /// All requests were sent. Connections that are dialled, and those that wait for a request, end.
    #[cold]
    fn say_spent(&self) {
        self.spent.notify_waiters();
        if let Some(paced) = &self.paced {
            paced.dismiss();
        }
    }

    pub(crate) fn counts(&self) -> std::cell::RefMut<'_, Totals> {
        self.counts.borrow_mut()
    }

    /// Counts bytes of requests that the wire has taken.
    #[inline]
    pub(crate) fn sent_bytes(&self, bytes: usize) {
        if self.is_measuring() {
            self.counts.borrow_mut().bytes_out += bytes as u64;
        }
    }

    /// Counts a response.
    #[inline]
    pub(crate) fn answered(&self, measured: bool, sample: &Sample) {
        debug_assert!(sample.intended <= sample.sent_at, "no request leaves before it is due");
        let Sample { status, bytes, body_bytes, .. } = *sample;
        if measured {
            let mut counts = self.counts.borrow_mut();
            counts.measured.answered += 1;
            counts.bytes_in += bytes;
            counts.body_bytes_in += body_bytes;
            drop(counts);
            self.count_status(status);
            self.columns.borrow_mut().record(sample);
        } else {
            self.counts.borrow_mut().warm_up.answered += 1;
        }
    }

    /// Counts what is wrong with a response.
    #[inline]
    pub(crate) fn judge(&self, measured: bool, fault: Option<Fault>) {
        if let Some((kind, message)) = fault {
            self.error(measured, kind, || message);
        }
    }

    /// Counts a response for the request of the script that it answers.
    pub(crate) fn answered_request(
        &self,
        request: usize,
        taken: Duration,
        status: StatusCode,
        is_good: bool,
    ) {
        if let Some(shares) = &self.by_request {
            shares.borrow_mut().answered(request, taken, status, is_good);
        }
    }

    /// Counts events that ended now, in the answer to a request that was sent then.
    pub(crate) fn events(&self, came: Events, sent_at: Instant, now: Instant) {
        if let Some(events) = &self.events {
            events.borrow_mut().add(came, sent_at, now);
        }
    }

    /// The figures of each request of the script; empty unless there are several.
    pub(crate) fn by_request(&self) -> Vec<RequestShare> {
        self.by_request.as_ref().map(|shares| shares.borrow().shares().to_vec()).unwrap_or_default()
    }

    /// What became of the cookies that answers set, if a sequence keeps them.
    pub(crate) fn cookies(&self) -> Option<CookieFigures> {
        self.feed.as_ref()?.borrow().cookie_figures()
    }

    /// The times of events, if they are timed.
    pub(crate) fn event_times(&self) -> Option<EventTimes> {
        self.events.as_ref().map(|events| events.borrow().clone())
    }

    /// Counts requests that waited for too long, and their age.
    #[cold]
    pub(crate) fn timed_out(&self, batch: &Batch, now: Instant, requests: u64) {
        let measured = self.belongs(batch.measured);
        if measured {
            self.columns.borrow_mut().record_given_up(batch, now, requests);
        }
        self.counts().part(measured).timed_out += requests;
        for _ in 0..requests {
            self.error(measured, ErrorKind::Timeout, || {
                format!("no answer came within {} ms", self.plan.timeout.as_millis())
            });
        }
    }

    /// Whether what concerns a whole connection belongs to the measured part: as its oldest request does.
    pub(crate) fn is_of_measured(&self, oldest: Option<&Batch>) -> bool {
        oldest.map_or_else(|| self.is_measuring(), |batch| self.belongs(batch.measured))
    }

    /// Counts requests as lost with their connection.
    pub(crate) fn lose(&self, in_flight: impl Iterator<Item = Batch>) {
        let mut counts = self.counts();
        for batch in in_flight {
            counts.part(self.belongs(batch.measured)).unanswered_at_close += u64::from(batch.requests);
        }
    }

    /// A connection is over. At the end of the run, requests in flight are no errors; the age of the oldest is recorded.
    pub(crate) fn close<'b>(&self, in_flight: impl Iterator<Item = &'b Batch>) {
        let now = precise();
        let mut counts = self.counts();
        for batch in in_flight {
            let part = counts.part(self.belongs(batch.measured));
            part.unanswered_at_end += u64::from(batch.requests);
            let age = now.saturating_duration_since(batch.sent_at);
            part.note_unanswered(Some(age.as_nanos() as f64 / 1000.0));
            if self.is_over.get() && batch.measured {
                self.columns.borrow_mut().record_given_up(batch, now, batch.requests.into());
            }
        }
        self.open.set(self.open.get() - 1);
    }

    /// Counts a response of the measured part by its status.
    fn count_status(&self, status: StatusCode) {
        // A status has three digits, and the decoder has seen to it: the slot is there.
        if let Some(count) = self.statuses.borrow_mut().get_mut(usize::from(status.as_u16())) {
            *count += 1;
        }
    }

    /// All that was counted.
    pub(crate) fn totals(&self) -> Totals {
        let statuses = self.statuses.borrow();
        let seen = (0..).zip(statuses.iter().copied()).filter(|(_, count)| *count > 0);
        Totals { statuses: seen.collect(), ..self.counts.borrow().clone() }
    }

    /// Adds what the kernel saw of a connection.
    pub(crate) fn watched(&self, one: &Watched) {
        let mut all = self.wire.get();
        match &mut all {
            Some(all) => all.merge(one),
            None => all = Some(*one),
        }
        self.wire.set(all);
    }

    /// What the kernel saw of all connections; `None` if none has segments.
    pub(crate) fn wire(&self) -> Option<Watched> {
        self.wire.get()
    }

    /// Records how long the steps of a dial took.
    pub(crate) fn dialled(&self, log: &DialLog) {
        self.columns.borrow_mut().record_dial(log);
    }

    /// The latencies so far.
    pub(crate) fn columns(&self) -> Columns {
        self.columns.borrow().clone()
    }

    /// Counts an error of a part of the run, and keeps the words of the first of its kind.
    #[cold]
    pub(crate) fn error<M: Into<Message>>(
        &self,
        measured: bool,
        kind: ErrorKind,
        message: impl FnOnce() -> M,
    ) {
        self.counts().part(measured).error(kind, message);
    }

    /// Writes the counts and the latencies where another thread reads them.
    pub(crate) fn publish(&self, published: &mut Published) {
        let counts = self.counts.borrow();
        let (measured, warm_up) = (&counts.measured, &counts.warm_up);
        let mut errors = measured.errors;
        errors.merge(&warm_up.errors);
        published.counts = Counts {
            sent: measured.sent,
            answered: measured.answered,
            bytes_out: counts.bytes_out,
            bytes_in: counts.bytes_in,
            errors,
            answered_in_warm_up: warm_up.answered,
            connections_lost: counts.connections.lost,
            connections_open: self.open.get(),
        };
        let samples = measured.error_samples.iter().chain(&warm_up.error_samples);
        if samples.clone().count() != published.error_samples.len() {
            published.error_samples = samples.cloned().collect();
        }
        self.columns.borrow().copy_to(&mut published.latency, &mut published.in_parts);
    }
}

/// Requests that left together; most often one entry is a whole window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// When they should have left; without a schedule, when they did.
    pub(crate) intended: Instant,
    pub(crate) sent_at: Instant,
    pub(crate) requests: u32,
    /// Whether they left in the measured part; with a schedule, whether they were due in it.
    pub(crate) measured: bool,
    /// The part of the measured time in which they were due, if the rate changes.
    pub(crate) step: u16,
}

/// Statuses have three digits (RFC 9112 section 4).
const STATUSES: usize = 1000;
