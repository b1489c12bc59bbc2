//! The open loop of one loop: which requests are due, and which connection takes each. It reads no clock.
//!
//! Connections that have room stand in a list. When a request is due, the task that paces promises it to one of them and wakes
//! it. If no connection has room, requests wait, and a connection that gets room takes the oldest of them: it is late, and its
//! lateness is in its latency.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::pacer::{Arrival, Pacer, Part};
use crate::plan::{Plan, Reuse};
use crate::schedule::{Gaps, Schedule, Shape};

/// The schedule of one loop, and its connections that wait for a request.
pub(crate) struct Paced {
    schedule: Schedule,
    part: Part,
    /// How long the measured part takes; for ever, if requests are counted.
    time: Option<Duration>,
    reuse: Reuse,
    deadline: Option<Duration>,
    queue: RefCell<Option<Queue>>,
    free: RefCell<Free>,
    /// The connections that gave way to those that have to send.
    behind: RefCell<VecDeque<Rc<Slot>>>,
    /// Notified when the task that paces has to look again.
    pub(crate) changed: Notify,
    /// Whether that task waits for a connection that has room.
    waits_for_room: Cell<bool>,
}

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) intended: Instant,
    pub(crate) measured: bool,
    /// The part of the measured time to which it belongs, if the rate changes.
    pub(crate) step: u16,
}

/// What a connection gets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) due: Option<Due>,
    /// How late this end is: not counted is the time in which the connection had no room.
    pub(crate) own_lag: Duration,
    /// Requests that were older than the deadline: they are not sent.
    pub(crate) shed: u64,
}

/// What the task that paces waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A moment, at which a request is due.
    At(Instant),
    /// [`Paced::changed`].
    Change,
}

impl Paced {
    /// That of a plan with a schedule.
    pub(crate) fn of(plan: &Plan, part: Part) -> Option<Self> {
        Some(Self {
            schedule: plan.schedule?,
            part,
            time: plan.amount.time(),
            reuse: plan.reuse,
            deadline: plan.deadline,
            queue: RefCell::default(),
            free: RefCell::default(),
            behind: RefCell::default(),
            changed: Notify::new(),
            waits_for_room: Cell::new(false),
        })
    }

    /// Begins with the warm-up, at the rate with which the measured part will begin.
    pub(crate) fn begin_warm_up(&self, begin: Instant) {
        let shape = Shape::Constant { per_second: self.schedule.shape.first() };
        // Drawn otherwise than the measured part.
        let schedule = Schedule { shape, seed: !self.schedule.seed, ..self.schedule };
        self.begin(Queue::new(Pacer::new(&schedule, Duration::ZERO, self.part.clone()), begin));
    }

    /// Begins with the measured part. What was due before and has not been sent is dropped, as all of the warm-up is.
    pub(crate) fn begin_measuring(&self, begin: Instant, requests: u64) {
        let time = self.time.unwrap_or(Duration::MAX);
        let pacer = Pacer::new(&self.schedule, time, self.part.clone());
        let queue = Queue::new(pacer, begin);
        let parts = self.schedule.shape.parts();
        let taken = vec![0; parts as usize];
        self.begin(Queue { measured: true, ends: time, requests, parts, taken, ..queue });
    }

    fn begin(&self, mut queue: Queue) {
        let mut present = self.queue.borrow_mut();
        // Promises of the one before are none any more.
        queue.generation = present.as_ref().map_or(1, |before| before.generation + 1);
        *present = Some(queue);
        self.changed.notify_one();
    }

    /// The oldest request that is due, for a connection that has room. Without one, the connection waits in the list.
    pub(crate) fn take(&self, slot: &Rc<Slot>, now: Instant) -> Taken {
        let mut taken = Taken::default();
        let mut queue = self.queue.borrow_mut();
        let Some(queue) = queue.as_mut() else { return taken };
        let mut free = self.free.borrow_mut();
        // Others were there before, unless the latest one goes first.
        let may_go_first = self.reuse == Reuse::Mru || free.live == 0;
        if queue.keep_promise(slot) || (may_go_first && queue.unpromised().is_some_and(|at| at <= now)) {
            if let Some(deadline) = self.deadline {
                taken.shed = queue.shed(now, deadline);
            }
            if let Some(due) = queue.pop(now) {
                let free_since = slot.free_since.take().unwrap_or(now);
                taken.own_lag = now.saturating_duration_since(free_since.max(due.intended));
                taken.due = Some(due);
                free.delist(slot);
                return taken;
            }
        }
        free.list(slot, now);
        if self.waits_for_room.replace(false) {
            self.changed.notify_one();
        }
        taken
    }

    /// A connection has no room for what it was promised, or has ended.
    pub(crate) fn leave(&self, slot: &Slot) {
        self.free.borrow_mut().delist(slot);
        slot.free_since.take();
        slot.is_behind.set(false);
        if self.queue.borrow_mut().as_mut().is_some_and(|queue| queue.keep_promise(slot)) {
            self.changed.notify_one();
            // Others gave way to it, and it may have ended.
            self.turn_ended();
        }
    }

    /// A request that the peer has announced not to act on is due once more.
    pub(crate) fn take_back(&self, due: Due) {
        if let Some(queue) = self.queue.borrow_mut().as_mut()
            && queue.measured == due.measured
        {
            queue.again.push_back(due);
            self.changed.notify_one();
        }
    }

    /// Promises all that is due to connections that have room.
    pub(crate) fn promise(&self, now: Instant) -> Next {
        let mut queue = self.queue.borrow_mut();
        let Some(queue) = queue.as_mut() else { return Next::Change };
        let mut free = self.free.borrow_mut();
        while let Some(at) = queue.unpromised() {
            if free.live == 0 {
                self.waits_for_room.set(true);
                return Next::Change;
            }
            if at > now {
                return Next::At(at);
            }
            if let Some(slot) = free.pop(self.reuse) {
                slot.promise.set(queue.generation);
                queue.promised += 1;
                slot.wake();
            }
        }
        Next::Change
    }

    /// Whether this connection has to wait, because another one was promised a request that is due by now and has not sent it yet. It is
    /// woken for its turn.
    pub(crate) fn gives_way(&self, slot: &Rc<Slot>, context: &Context<'_>, now: Instant) -> bool {
        self.promise(now);
        let gives_way = !slot.is_promised() && self.has_promised();
        if gives_way && !slot.is_behind.get() {
            slot.waits(context);
            self.behind.borrow_mut().push_back(Rc::clone(slot));
        }
        slot.is_behind.set(gives_way);
        gives_way
    }

    /// A connection has had its turn. The next one of those that gave way has its own, unless there is something to send. One by one: were
    /// all woken, each request that becomes due meanwhile would send all of them back.
    pub(crate) fn turn_ended(&self) {
        if self.has_promised() {
            return;
        }
        let mut behind = self.behind.borrow_mut();
        // Some have had a turn for another reason, or have ended.
        while let Some(slot) = behind.pop_front() {
            if slot.is_behind.replace(false) {
                return slot.wake();
            }
        }
    }

    fn has_promised(&self) -> bool {
        self.queue.borrow().as_ref().is_some_and(|queue| queue.promised > 0)
    }

    /// Whether everything that is due in the measured part has been taken.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.queue
            .borrow()
            .as_ref()
            .is_some_and(|queue| queue.again.is_empty() && !queue.is_within(&queue.next))
    }

    /// When the next request would be due, from the begin of the measured part: so long takes what was sent before, with the gap
    /// behind each. `None` before that part. Jitter moves no request to another gap; what changes with the time, or is drawn,
    /// ends with the time of the plan.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let queue = self.queue.borrow();
        let queue = queue.as_ref().filter(|queue| queue.measured)?;
        let Schedule { shape, gaps, .. } = self.schedule;
        let next = match gaps {
            Gaps::Even | Gaps::Poisson => queue.next.at,
            Gaps::Jitter => {
                let even = Schedule { gaps: Gaps::Even, ..self.schedule };
                Pacer::new(&even, self.time.unwrap_or(Duration::MAX), self.part.clone())
                    .intended(queue.next.number)
            }
        };
        let is_even = matches!(shape, Shape::Constant { .. }) && gaps != Gaps::Poisson;
        Some(if is_even { next } else { next.min(queue.ends) })
    }

    /// How many requests of the measured part were due by now, in each part of its time.
    pub(crate) fn intended(&self, now: Instant) -> Vec<u64> {
        let queue = self.queue.borrow();
        let parts = self.schedule.shape.parts();
        let Some(queue) = queue.as_ref().filter(|queue| queue.measured) else {
            return vec![0; parts as usize];
        };
        let until = queue.until(now);
        if !queue.pacer.is_closed() {
            return queue.taken_and_due(until);
        }
        let mut before = 0;
        let each = (1..=parts).map(|part| {
            // What is due at the end belongs to the next part.
            let end = queue.begin_of(part).saturating_sub(NANOSECOND).min(until);
            let by_end = queue.pacer.due(end).min(queue.requests);
            by_end - std::mem::replace(&mut before, by_end)
        });
        each.collect()
    }

    /// The requests that were due by now and that no connection has taken: each with how many others it stands for.
    pub(crate) fn untaken(&self, now: Instant) -> Vec<(Due, u64)> {
        let queue = self.queue.borrow();
        let Some(queue) = queue.as_ref().filter(|queue| queue.measured) else { return Vec::new() };
        let mut all: Vec<(Due, u64)> = queue.again.iter().map(|due| (*due, 1)).collect();
        let end = queue.pacer.first_after(queue.until(now), &queue.next).number.min(queue.requests);
        let left = end.saturating_sub(queue.next.number);
        // Among a million it makes no difference which of some in a row is recorded.
        let each = left.div_ceil(UNTAKEN_MAX).max(1);
        let mut one = queue.next;
        while one.number < end {
            let count = each.min(end - one.number);
            all.push((queue.due_at(one.at), count));
            one = queue.pacer.skip(&one, count);
        }
        all
    }

    /// No request is left: the connections that wait for one may end.
    pub(crate) fn dismiss(&self) {
        self.free.borrow().list.iter().for_each(|(_, slot)| slot.wake());
    }

    /// Whether no connection of this loop has room.
    pub(crate) fn is_busy(&self) -> bool {
        self.free.borrow().live == 0
    }
}

/// The requests of a part of the run.
struct Queue {
    pacer: Pacer,
    begin: Instant,
    measured: bool,
    /// Requests belong to it that are due before this time, and have numbers below.
    ends: Duration,
    requests: u64,
    parts: u32,
    /// The next to be taken.
    next: Arrival,
    /// How many that are due are promised to connections.
    promised: u64,
    /// The next to be promised; a guess that [`Queue::unpromised`] puts right.
    ahead: Arrival,
    /// Due once more, before all others.
    again: VecDeque<Due>,
    /// With Poisson's gaps, those that were taken, by the parts of the time: to count them anew would take as long as a run of hours
    /// has requests.
    taken: Vec<u64>,
    generation: u32,
}

impl Queue {
    fn new(pacer: Pacer, begin: Instant) -> Self {
        let first = pacer.first();
        Self {
            pacer,
            begin,
            measured: false,
            ends: Duration::MAX,
            requests: u64::MAX,
            parts: 1,
            next: first,
            promised: 0,
            ahead: first,
            again: VecDeque::new(),
            taken: Vec::new(),
            generation: 0,
        }
    }

    fn is_within(&self, one: &Arrival) -> bool {
        one.at < self.ends.min(Pacer::NEVER) && one.number < self.requests
    }

    /// The latest time of this part that has come.
    fn until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begin).min(self.ends.saturating_sub(NANOSECOND))
    }

    fn due_at(&self, at: Duration) -> Due {
        // In whole nanoseconds, so that `begin_of` agrees.
        let step = at.as_nanos() * u128::from(self.parts) / self.ends.as_nanos().max(1);
        Due { intended: self.begin + at, measured: self.measured, step: step as u16 }
    }

    /// When a part of the time begins; the one behind the last is the end.
    fn begin_of(&self, part: u32) -> Duration {
        if part == self.parts {
            return self.ends;
        }
        let begin = (self.ends.as_nanos() * u128::from(part)).div_ceil(self.parts.into());
        Duration::from_nanos(u64::try_from(begin).unwrap_or(u64::MAX))
    }

    /// Takes the oldest that is due.
    fn pop(&mut self, now: Instant) -> Option<Due> {
        if let Some(due) = self.again.pop_front() {
            return Some(due);
        }
        let one = self.next;
        if !self.is_within(&one) || self.begin + one.at > now {
            return None;
        }
        self.next = self.pacer.after(&one);
        let due = self.due_at(one.at);
        self.count(&due);
        Some(due)
    }

    fn count(&mut self, due: &Due) {
        if let Some(count) = self.taken.get_mut(usize::from(due.step)) {
            *count += 1;
        }
    }

    /// Takes all that are later than the deadline. How many. Not one by one, if their times follow from their numbers: at a high rate
    /// more would become late meanwhile.
    fn shed(&mut self, now: Instant, deadline: Duration) -> u64 {
        let is_late = |due: &Due| now.saturating_duration_since(due.intended) > deadline;
        let again = self.again.len();
        self.again.retain(|due| !is_late(due));
        let shed = (again - self.again.len()) as u64;
        let since = now.saturating_duration_since(self.begin).saturating_sub(deadline).min(self.ends);
        let last = since.saturating_sub(NANOSECOND);
        if since.is_zero() || self.next.at > last || !self.is_within(&self.next) {
            return shed;
        }
        if !self.pacer.is_closed() {
            return shed + self.shed_one_by_one(last);
        }
        let next = self.pacer.first_after(last, &self.next);
        let before = std::mem::replace(&mut self.next, next);
        shed + next.number.min(self.requests) - before.number
    }

    fn shed_one_by_one(&mut self, last: Duration) -> u64 {
        let mut shed = 0;
        while self.next.at <= last && self.is_within(&self.next) {
            let due = self.due_at(self.next.at);
            self.count(&due);
            self.next = self.pacer.after(&self.next);
            shed += 1;
        }
        shed
    }

    /// Those that were taken and those that are due by this time, in each part.
    fn taken_and_due(&self, until: Duration) -> Vec<u64> {
        let mut each = self.taken.clone();
        let mut one = self.next;
        while one.at <= until && self.is_within(&one) {
            let step = self.due_at(one.at).step;
            if let Some(count) = each.get_mut(usize::from(step)) {
                *count += 1;
            }
            one = self.pacer.after(&one);
        }
        each
    }

    /// When the oldest is due that is promised to no connection.
    fn unpromised(&mut self) -> Option<Instant> {
        let again = self.again.len() as u64;
        if self.promised < again {
            return Some(self.begin);
        }
        let number = self.next.number.saturating_add(self.promised - again);
        if self.ahead.number < self.next.number || self.ahead.number > number {
            self.ahead = self.next;
        }
        while self.ahead.number < number {
            self.ahead = self.pacer.after(&self.ahead);
        }
        self.is_within(&self.ahead).then(|| self.begin + self.ahead.at)
    }

    /// Whether the connection was promised a request; then it is no longer.
    fn keep_promise(&mut self, slot: &Slot) -> bool {
        let is_promised = slot.promise.replace(0) == self.generation;
        self.promised -= u64::from(is_promised);
        is_promised
    }
}

/// A connection, as far as it waits for requests.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Its entry in the list; 0 if it has none.
    ticket: Cell<u64>,
    /// The generation of the queue that has promised it a request; 0 if none has.
    promise: Cell<u32>,
    free_since: Cell<Option<Instant>>,
    /// It gave way to another one, and waits for its turn.
    is_behind: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    /// Whether a request was promised that it has not taken.
    #[inline]
    pub(crate) fn is_promised(&self) -> bool {
        self.promise.get() != 0
    }

    /// The task to wake.
    #[inline]
    pub(crate) fn waits(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// The connections that have room, in the order in which they got it.
#[derive(Default)]
struct Free {
    /// With tickets: an entry whose connection has another one is void.
    list: VecDeque<(u64, Rc<Slot>)>,
    live: usize,
    last_ticket: u64,
}

impl Free {
    fn list(&mut self, slot: &Rc<Slot>, now: Instant) {
        if slot.ticket.get() == 0 {
            self.last_ticket += 1;
            slot.ticket.set(self.last_ticket);
            slot.free_since.set(Some(slot.free_since.get().unwrap_or(now)));
            self.list.push_back((self.last_ticket, Rc::clone(slot)));
            self.live += 1;
        }
    }

    fn delist(&mut self, slot: &Slot) {
        if slot.ticket.replace(0) != 0 {
            self.live -= 1;
            if self.list.len() > 2 * self.live + VOID_MAX {
                self.list.retain(|(ticket, slot)| slot.ticket.get() == *ticket);
            }
        }
    }

    fn pop(&mut self, reuse: Reuse) -> Option<Rc<Slot>> {
        loop {
            let (ticket, slot) = match reuse {
                Reuse::Lru => self.list.pop_front(),
                Reuse::Mru => self.list.pop_back(),
            }?;
            if slot.ticket.get() == ticket {
                slot.ticket.set(0);
                self.live -= 1;
                return Some(slot);
            }
        }
    }
}

const NANOSECOND: Duration = Duration::from_nanos(1);
/// Void entries of the list that are let be.
const VOID_MAX: usize = 64;
/// The most requests that are recorded one by one when nobody took them.
const UNTAKEN_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests;
