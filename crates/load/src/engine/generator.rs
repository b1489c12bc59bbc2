//! One loop's part of a run: it starts its connections, follows the phases, and returns its counts.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_loops::clock::{after, precise};
use anywire_sys::cpu::{self, CpuTime};
use anywire_wire::Dialer;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::engine::by_request::RequestShare;
use crate::engine::columns::Columns;
use crate::engine::event_times::EventTimes;
use crate::engine::loop_meter::{LoopCost, LoopMeter};
use crate::engine::monitor::Live;
use crate::engine::pace::{self, Begins, Pacing};
use crate::engine::tally::Tally;
use crate::engine::wire_watch::Watched;
use crate::engine::worker;
use crate::outcome::Totals;
use crate::pacer::Part;
use crate::plan::{Plan, Prepared};
use crate::script::{CookieFigures, Stride};

/// The phases of a run, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Connections are opened, nothing is sent.
    Connecting,
    /// Load that is in no figure.
    WarmUp,
    /// Load that is measured.
    Measuring,
    /// Connections are dropped.
    Ended,
}

/// An event that a loop reports to the controller of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopEvent {
    /// Each of its connections is open, or failed once, or is not waited for any longer.
    Attempted,
    /// None of its connections has anything left to do.
    Idle,
}

/// One loop's share of the run.
pub(crate) struct Share {
    pub(crate) plan: Arc<Plan>,
    pub(crate) prepared: Arc<Prepared>,
    /// Which of all loops this is.
    pub(crate) part: Stride,
    pub(crate) connections: usize,
    pub(crate) requests: u64,
    /// Its part of the schedule.
    pub(crate) paced: Part,
    pub(crate) begins: Arc<Begins>,
    pub(crate) phase: watch::Receiver<RunPhase>,
    pub(crate) events: mpsc::UnboundedSender<LoopEvent>,
    pub(crate) live: Arc<Live>,
}

/// The counts of one loop.
pub(crate) struct LoopResult {
    pub(crate) totals: Totals,
    pub(crate) columns: Columns,
    /// What became of each request of a script with several.
    pub(crate) requests: Vec<RequestShare>,
    /// The times of events, if they are timed.
    pub(crate) events: Option<EventTimes>,
    /// What became of the cookies of all its users, if they keep any.
    pub(crate) cookies: Option<CookieFigures>,
    /// The measured part here; zero if the run ended before it.
    pub(crate) measured: Duration,
    /// CPU time of the loop's thread in it.
    pub(crate) cpu: Option<CpuTime>,
    /// What else the thread has used in it; `None` if nothing was measured.
    pub(crate) cost: Option<LoopCost>,
    /// What the kernel saw of its connections; `None` on wires without segments.
    pub(crate) wire: Option<Watched>,
    /// With a schedule.
    pub(crate) open: Option<OpenResult>,
}

/// What became of a schedule on one loop.
#[derive(Debug, Clone)]
pub(crate) struct OpenResult {
    /// Requests that were due in the measured part, by the parts of its time.
    pub(crate) intended: Vec<u64>,
    /// When the next one would have been due then, from its begin.
    pub(crate) next_due: Option<Duration>,
    /// Requests of it that had left when its time was up.
    pub(crate) sent_in_time: u64,
    /// Whether no connection had room then.
    pub(crate) is_busy: bool,
    pub(crate) pacing: Pacing,
}

/// Runs this loop's part; called on the loop.
pub(crate) async fn generate(mut share: Share) -> LoopResult {
    let tally = Rc::new(Tally::new(
        share.plan,
        share.prepared,
        share.part,
        share.connections,
        share.requests,
        share.paced,
    ));
    let dialer = Rc::new(Dialer::new(tally.prepared.dial.clone()));
    let workers: Vec<_> = (0..share.connections)
        .map(|_| anywire_loops::spawn(worker::work(Rc::clone(&tally), Rc::clone(&dialer))))
        .collect();
    let watch = PhaseWatch::new(Rc::clone(&tally), share.live, share.events);

    let pacing = Rc::new(Cell::new(Pacing::default()));
    let pacer = anywire_loops::spawn(pace::keep(Rc::clone(&tally), Rc::clone(&pacing)));

    watch.until(&mut share.phase, RunPhase::WarmUp).await;
    tally.started.set(true);
    // With fewer connections than loops, a loop may have none; nothing waits for the notification then.
    if *share.phase.borrow() == RunPhase::WarmUp {
        tally.warm_up(share.begins.warm_up.get().copied().unwrap_or_else(precise));
        tally.go.notify_waiters();
        watch.until(&mut share.phase, RunPhase::Measuring).await;
    }

    tally.counts().connections.open_at_start = tally.open.get();
    // Nothing that was not measured has used any CPU time.
    let (mut measured, mut cpu, mut cost, mut open) = (Duration::ZERO, None, None, None);
    if *share.phase.borrow() == RunPhase::Measuring {
        let meter = LoopMeter::start(tally.plan.count_system_calls);
        // The time begins before the CPU time does and ends behind it, so that no loop has used more than its core.
        let (begun, before) = (precise(), cpu::current_thread_cpu());
        let begin = share.begins.measuring.get().copied().unwrap_or(begun);
        let spun_before = pacing.get().spun;
        tally.measure(begin);
        watch.measuring.set(Some(begun));
        tally.go.notify_waiters();
        watch.until(&mut share.phase, RunPhase::Ended).await;
        let used = cpu::current_thread_cpu();
        measured = precise().saturating_duration_since(begun);
        cost = Some(meter.end());
        cpu = before.ok().zip(used.ok()).map(|(before, used)| used - before);
        if tally.paced.is_some() {
            // By the schedule's own clock, whose begin lies a little behind that of the phase.
            let now = precise();
            measured =
                now.saturating_duration_since(begin).min(tally.plan.amount.time().unwrap_or(Duration::MAX));
            open = tally.open_result(now, pacing.get(), spun_before);
            settle(&tally, begin).await;
        }
    }
    tally.counts().connections.open_at_end = tally.open.get();

    pacer.abort();
    for worker in &workers {
        worker.abort();
    }
    for worker in workers {
        // Each ends as aborted, or as panicked, which the loop has logged; either way it has dropped its connection.
        let _ = worker.await;
    }
    watch.publish_last(measured);
    LoopResult {
        totals: tally.totals(),
        columns: tally.columns(),
        requests: tally.by_request(),
        events: tally.event_times(),
        cookies: tally.cookies(),
        measured,
        cpu,
        cost,
        wire: tally.wire(),
        open,
    }
}

/// After the time of a schedule, waits until each request that was due has its response, but not for long.
async fn settle(tally: &Tally, begin: Instant) {
    let Some(time) = tally.plan.amount.time() else { return };
    let end = after(begin, time);
    if precise() < end {
        // It was stopped, and its user waits for the result.
        return;
    }
    let until = after(end, tally.plan.timeout.min(SETTLE_MAX));
    while !tally.is_settled() && precise() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tally.time_is_up(precise());
}

/// Waits for the phases of the run, and reports the events of this loop meanwhile.
struct PhaseWatch {
    tally: Rc<Tally>,
    live: Arc<Live>,
    events: mpsc::UnboundedSender<LoopEvent>,
    attempted_said: Cell<bool>,
    /// Connections that had opened, and when the last of them did.
    opened: Cell<(u64, tokio::time::Instant)>,
    idle_said: Cell<bool>,
    begun: Instant,
    /// When the measured part began here.
    measuring: Cell<Option<Instant>>,
    /// When the counts were published last.
    published: Cell<Instant>,
}

impl PhaseWatch {
    fn new(tally: Rc<Tally>, live: Arc<Live>, events: mpsc::UnboundedSender<LoopEvent>) -> Self {
        // All times of a loop are by the clock of its timers, which stands still where a test lets it.
        let begun = precise();
        Self {
            tally,
            live,
            events,
            attempted_said: Cell::new(false),
            opened: Cell::new((0, tokio::time::Instant::now())),
            idle_said: Cell::new(false),
            begun,
            measuring: Cell::new(None),
            published: Cell::new(begun),
        }
    }

    /// Waits until the run is in `phase` or past it; the run's own end counts as [`RunPhase::Ended`].
    async fn until(&self, phase: &mut watch::Receiver<RunPhase>, wanted: RunPhase) {
        let mut reached = pin!(async move {
            // An error means that the run was dropped, and this loop has to end.
            let _ = phase.wait_for(|now| *now >= wanted).await;
        });
        loop {
            if self.are_attempted() && !self.attempted_said.replace(true) {
                let _ = self.events.send(LoopEvent::Attempted);
            }
            if self.tally.working.get() == 0 && !self.idle_said.replace(true) {
                let _ = self.events.send(LoopEvent::Idle);
            }
            // Not with each connection that is opened or ends: there may be 100,000 of them.
            if precise().saturating_duration_since(self.published.get()) >= PUBLISH_EVERY {
                self.publish();
            }
            if self.first(reached.as_mut()).await {
                self.publish();
                return;
            }
        }
    }

    /// Whether each connection has been tried, or none has opened for as long as a dial may take. Then the others are not waited for: at
    /// an address that swallows what it gets, thousands of them would take their turns for minutes.
    fn are_attempted(&self) -> bool {
        let (opened, now) = (self.tally.counts().connections.opened, tokio::time::Instant::now());
        let (before, mut since) = self.opened.get();
        if opened > before {
            since = now;
            self.opened.set((opened, now));
        }
        let plan = &self.tally.plan;
        let patience = plan.connect_timeout.saturating_add(plan.handshake_timeout);
        self.tally.unattempted.get() == 0 || now - since >= patience
    }

    /// Whether the phase came; else something changed, or it is time to publish the counts.
    async fn first(&self, reached: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = reached => true,
            () = self.tally.changed.notified() => false,
            () = tokio::time::sleep_until(after(self.published.get(), PUBLISH_EVERY).into()) => false,
        }
    }

    /// Publishes what this loop has counted.
    fn publish(&self) {
        let now = precise();
        self.published.set(now);
        self.live.publish(|published| {
            published.up = now - self.begun;
            published.measured = self.measuring.get().map(|begun| now - begun);
            self.tally.publish(published);
        });
    }

    /// Publishes what the outcome has, too.
    fn publish_last(&self, measured: Duration) {
        self.live.publish_last(|published| {
            published.up = precise().saturating_duration_since(self.begun);
            published.measured = self.measuring.get().map(|_| measured);
            self.tally.publish(published);
        });
    }
}

/// Often enough for a screen, and nothing beside the load: some 20 us, most of them to copy the histogram.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);
/// How long the last responses of a schedule may take. What has none by then is recorded at its age.
const SETTLE_MAX: Duration = Duration::from_secs(1);
