//! All deadlines of one loop: a slab of tick numbers that is scanned when the earliest is due.
//!
//! It knows no clock. Ticks are counted as they come, at least [`TICK`] apart from the second on.

use std::cell::{Cell, RefCell};
use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use super::TICK;
use crate::clock::Reading;
use crate::contained::{Contained, contain, wake};

/// The deadlines of one loop.
pub(crate) struct Registry {
    entries: RefCell<Slab<Entry>>,
    /// Ticks so far.
    now: Cell<u32>,
    /// No entry is due before this tick. It may be too early, never too late: clearing and setting later leave it.
    earliest: Cell<u32>,
    /// The clocks at the last tick; `None` while there are no ticks.
    reading: Cell<Option<Reading>>,
    /// The wakers of expired deadlines. Empty between ticks, and kept for its memory.
    due: Cell<Vec<Waker>>,
}

impl Registry {
    /// Adds an unset deadline.
    pub(crate) fn insert(&self) -> usize {
        self.entries.borrow_mut().insert(Entry::default())
    }

    /// Takes a deadline out.
    pub(crate) fn remove(&self, key: usize) {
        let entry = self.entries.borrow_mut().try_remove(key);
        // Not under the borrow: dropping a waker may drop a task and so another deadline.
        drop(entry);
    }

    /// Ticks so far.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.now.get()
    }

    /// Wakes the deadline's waiter once, at this tick and at no other.
    #[inline]
    pub(crate) fn set(&self, key: usize, due: u32) {
        self.entries.borrow()[key].due.set(due);
        if due < self.earliest.get() {
            self.earliest.set(due);
        }
    }

    /// Wakes this task from now on, instead of another one.
    pub(crate) fn wait(&self, key: usize, waker: &Waker) {
        let waker = Contained::new(waker.clone());
        let before = self.entries.borrow()[key].waker.replace(waker);
        // Not under the borrow: dropping a waker may drop a task and so another deadline.
        drop(before);
    }

    /// Called when ticks begin; false if they have begun already.
    pub(crate) fn start_ticking(&self, reading: Reading) -> bool {
        let started = self.reading.get().is_none();
        if started {
            self.reading.set(Some(reading));
        }
        started
    }

    /// One tick later: wakes the waiters of expired deadlines. False if no deadline is left: then the ticks end.
    pub(crate) fn tick(&self, reading: Reading) -> bool {
        if self.entries.borrow().is_empty() {
            self.reading.set(None);
            return false;
        }
        self.reading.set(Some(reading));
        let now = self.now.get() + 1;
        self.now.set(now);
        if self.earliest.get() <= now {
            self.wake_due(now);
        }
        true
    }

    /// The clocks at the last tick, while there are ticks.
    #[inline]
    pub(crate) fn reading(&self) -> Option<Reading> {
        self.reading.get()
    }

    #[cold]
    fn wake_due(&self, now: u32) {
        let mut due = self.due.take();
        let mut earliest = UNSET;
        for (_, entry) in self.entries.borrow().iter() {
            let at = entry.due.get();
            if at > now {
                earliest = earliest.min(at);
            } else {
                entry.due.set(UNSET);
                let waiter = contain("a waker", || entry.waker.borrow().get().cloned());
                due.extend(waiter.ok().flatten());
            }
        }
        self.earliest.set(earliest);
        // Not under the borrow: waking may run code that sets or drops deadlines.
        due.drain(..).for_each(wake);
        self.due.set(due);
    }

    /// The tick at which something set now is due.
    ///
    /// The present moment lies between tick `now` and the next, or up to a tick later if that is late. So the time
    /// from there to tick `now + 2 + n` is `n` ticks at least.
    #[inline]
    pub(crate) fn tick_after(&self, after: Duration) -> u32 {
        let ticks = after
            .as_secs()
            .saturating_mul(TICKS_PER_SECOND)
            .saturating_add(u64::from(after.subsec_nanos().div_ceil(TICK.subsec_nanos())));
        let due = ticks.saturating_add(u64::from(self.now.get()) + 2);
        u32::try_from(due).unwrap_or(UNSET)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            entries: RefCell::default(),
            now: Cell::new(0),
            earliest: Cell::new(UNSET),
            reading: Cell::new(None),
            due: Cell::default(),
        }
    }
}

struct Entry {
    /// The tick at which to wake, or [`UNSET`].
    due: Cell<u32>,
    /// The task that waits for it.
    waker: RefCell<Contained<Waker>>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { due: Cell::new(UNSET), waker: RefCell::default() }
    }
}

/// Later than any tick: a loop would have to run for thirteen years to get there.
pub(crate) const UNSET: u32 = u32::MAX;
const TICKS_PER_SECOND: u64 = 10;
const _: () = assert!(TICKS_PER_SECOND * TICK.as_millis() as u64 == 1000);

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::task::{Context, Poll, Wake};

    use proptest::prelude::*;

    use super::*;
    use crate::Deadline;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn tick(registry: &Registry) -> bool {
        registry.tick(Reading::take())
    }

    fn poll(deadline: &Deadline, wakes: &Arc<Wakes>) -> Poll<()> {
        deadline.poll_expired(&mut Context::from_waker(&Arc::clone(wakes).into()))
    }

    #[test]
    fn only_the_task_that_polled_last_is_woken_and_once() {
        let (registry, first, last) = (Rc::<Registry>::default(), Arc::default(), Arc::default());
        let deadline = Deadline::on(Rc::clone(&registry));
        deadline.set(TICK);
        for wakes in [&first, &last, &last] {
            assert!(poll(&deadline, wakes).is_pending());
        }
        let ticks = (1..).find(|_| tick(&registry) && deadline.is_expired());
        assert_eq!(ticks, Some(3), "one for its length, and two since the present tick may be nearly over");
        assert_eq!((first.0.load(Relaxed), last.0.load(Relaxed)), (0, 1));
        tick(&registry);
        assert_eq!(last.0.load(Relaxed), 1);
        assert!(poll(&deadline, &last).is_ready(), "it stays expired");
        deadline.set(TICK);
        assert!(poll(&deadline, &last).is_pending(), "until set again");
        deadline.clear();
        assert!((0..10).all(|_| tick(&registry)));
        assert_eq!(last.0.load(Relaxed), 1, "cleared, it does not wake");
    }

    #[test]
    fn ticking_ends_with_the_last_deadline() {
        let registry = Registry::default();
        assert!(registry.reading().is_none());
        let (one, two) = (registry.insert(), registry.insert());
        assert!(registry.start_ticking(Reading::take()));
        assert!(!registry.start_ticking(Reading::take()));
        assert!(tick(&registry) && registry.reading().is_some());
        registry.remove(one);
        assert!(tick(&registry));
        registry.remove(two);
        assert!(!tick(&registry) && registry.reading().is_none());
        assert!(registry.start_ticking(Reading::take()));
    }

    #[test]
    fn endless_durations_never_expire() {
        let registry = Rc::<Registry>::default();
        let deadline = Deadline::on(Rc::clone(&registry));
        for endless in [Duration::MAX, Duration::from_secs(u64::from(u32::MAX))] {
            deadline.set(endless);
            assert!((0..10).all(|_| tick(&registry) && !deadline.is_expired()));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert,
        Remove(usize),
        Set(usize, u32),
        Clear(usize),
        Tick,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            1 => Just(Step::Insert),
            1 => (0..8usize).prop_map(Step::Remove),
            4 => (0..8usize, 0..20u32).prop_map(|(at, ticks)| Step::Set(at, ticks)),
            1 => (0..8usize).prop_map(Step::Clear),
            6 => Just(Step::Tick),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Compared with a plain list of deadlines: each waiter is woken at the tick at which its deadline is due. The
        /// only other wake-up is at an earlier tick, for which the deadline was set before it was moved to a later one.
        #[test]
        fn wakes_exactly_those_that_are_due(steps in steps()) {
            let registry = Rc::<Registry>::default();
            let mut now = 0;
            let mut model: Vec<Waiting> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert if model.len() < 8 => model.push(Waiting::on(&registry)),
                    Step::Remove(at) if at < model.len() => drop(model.remove(at)),
                    Step::Set(at, ticks) if at < model.len() => {
                        let waiting = &mut model[at];
                        let due = now + 2 + ticks;
                        waiting.deadline.set(TICK * ticks);
                        waiting.due = Some(due);
                        waiting.told = Some(waiting.told.filter(|told| (now + 1..due).contains(told)).unwrap_or(due));
                    }
                    Step::Clear(at) if at < model.len() => {
                        model[at].deadline.clear();
                        (model[at].due, model[at].told) = (None, None);
                    }
                    Step::Tick if !model.is_empty() => {
                        prop_assert!(tick(&registry));
                        now += 1;
                        for waiting in &mut model {
                            let is_due = waiting.due.is_some_and(|due| due <= now);
                            let is_woken = waiting.told == Some(now);
                            prop_assert_eq!(waiting.deadline.is_expired(), is_due);
                            prop_assert_eq!(waiting.wakes.0.swap(0, Relaxed), usize::from(is_woken));
                            prop_assert!(is_woken || waiting.due != Some(now));
                            if is_woken && !is_due {
                                prop_assert!(poll(&waiting.deadline, &waiting.wakes).is_pending());
                                waiting.told = waiting.due;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// A deadline that a task polled when it was made, and again whenever it was woken too early.
    struct Waiting {
        deadline: Deadline,
        wakes: Arc<Wakes>,
        due: Option<u32>,
        told: Option<u32>,
    }

    impl Waiting {
        fn on(registry: &Rc<Registry>) -> Self {
            let waiting = Self {
                deadline: Deadline::on(Rc::clone(registry)),
                wakes: Arc::default(),
                due: None,
                told: None,
            };
            assert!(poll(&waiting.deadline, &waiting.wakes).is_pending());
            waiting
        }
    }
}
