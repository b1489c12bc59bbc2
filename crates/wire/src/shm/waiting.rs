//! The ends on one loop that wait for their peers.
//!
//! An end that waits is only listed here, because its peer need not wake a loop that is awake. Before the loop sleeps, each
//! listed end announces that to its peer, which then sends a wake-up. If an address asks for it, the loop looks at the rings
//! for a while before it sleeps.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use anywire_loops::{AddedSource, Source, add_source};
use anywire_sys::shm::Watch;

use super::counters::Counts;

/// The waiting ends of one loop.
pub(super) struct Waiting {
    list: RefCell<Vec<Rc<Waiter>>>,
    counts: Arc<Counts>,
    source: OnceCell<AddedSource>,
    /// How many connections of this loop may have it spin. [`SPINNING_LOOPS`] counts it while there are some.
    spinners: Cell<usize>,
}

impl Waiting {
    /// The list of the present loop; `None` on a thread without a loop.
    pub(super) fn here() -> Option<Rc<Self>> {
        anywire_loops::current()?;
        let here = anywire_loops::local(|| Self {
            list: RefCell::default(),
            counts: Counts::here(),
            source: OnceCell::new(),
            spinners: Cell::new(0),
        });
        here.source.get_or_init(|| add_source(Rc::clone(&here) as Rc<dyn Source>));
        Some(here)
    }

    /// Has the loop look for work: for so long before it sleeps, if there are cores for that, and now and then if it never sleeps.
    pub(super) fn spin(&self, longest: Duration) {
        if let Some(source) = self.source.get() {
            let spins = !longest.is_zero() && may_spin();
            source.spin(if spins { longest } else { Duration::ZERO });
        }
    }
}

/// A connection whose loop may spin for it. It counts while it lives.
pub(super) struct Spinning {
    waiting: Rc<Waiting>,
    is_peer_elsewhere: bool,
}

impl Spinning {
    /// An end on this loop wants to spin; its peer is another process, or is not.
    pub(super) fn new(waiting: Rc<Waiting>, is_peer_elsewhere: bool) -> Self {
        if is_peer_elsewhere {
            SPINNERS_WITH_PEER_ELSEWHERE.fetch_add(1, Ordering::Relaxed);
        }
        let before = waiting.spinners.get();
        waiting.spinners.set(before + 1);
        if before == 0 {
            SPINNING_LOOPS.fetch_add(1, Ordering::Relaxed);
        }
        Self { waiting, is_peer_elsewhere }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if self.is_peer_elsewhere {
            SPINNERS_WITH_PEER_ELSEWHERE.fetch_sub(1, Ordering::Relaxed);
        }
        let left = self.waiting.spinners.get() - 1;
        self.waiting.spinners.set(left);
        if left == 0 {
            SPINNING_LOOPS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Source for Waiting {
    fn look(&self) -> bool {
        let (mut at, mut has_found) = (0, false);
        loop {
            let mut list = self.list.borrow_mut();
            // Without cores for it the loop stops spinning, though it has found something.
            let Some(waiter) = list.get(at) else { return has_found && may_spin() };
            if waiter.state.get() == State::Waits && !waiter.has_come() {
                at += 1;
                continue;
            }
            let waiter = list.swap_remove(at);
            // Waking may run code of users, which may come back here.
            drop(list);
            waiter.is_listed.set(false);
            if waiter.state.get() == State::Waits {
                has_found = true;
                // A loop that is too busy to sleep looks, too, though no end wants it to spin.
                if self.spinners.get() > 0 {
                    self.counts.spins.increment();
                }
                waiter.wake();
            }
        }
    }

    fn prepare_to_sleep(&self) {
        loop {
            let Some(waiter) = self.list.borrow_mut().pop() else { return };
            waiter.is_listed.set(false);
            if waiter.state.get() == State::Waits {
                waiter.sleep(&self.counts);
            }
        }
    }
}

/// One direction of one end.
#[derive(Default)]
pub(super) struct Waiter {
    state: Cell<State>,
    /// Whether it is in the list. It may be there although it does not wait any more.
    is_listed: Cell<bool>,
    /// The change that it waits for, and the task to wake then.
    awaited: RefCell<Option<(Watch, Waker)>>,
    /// How often it has announced its sleep since that was last asked.
    announced: Cell<u32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Awake,
    /// The peer does not know, because the loop is awake.
    Waits,
    /// The peer sends a wake-up.
    Asleep,
}

impl Waiter {
    /// Waits from now on. The task has to be registered with the socket, which brings the wake-up. False if the change has come
    /// already.
    pub(super) fn wait(self: &Rc<Self>, watch: Watch, waiting: Option<&Waiting>, cx: &Context<'_>) -> bool {
        let replaced = self.awaited.replace(Some((watch, cx.waker().clone())));
        drop(replaced);
        self.state.set(State::Waits);
        let Some(waiting) = waiting else { return self.sleep(&Counts::here()) };
        if !self.is_listed.replace(true) {
            waiting.list.borrow_mut().push(Rc::clone(self));
        }
        true
    }

    /// The end is awake, so that its peer need not wake it.
    ///
    /// A task may try twice in a turn and wait by the first answer, although the second attempt succeeded because the peer works
    /// meanwhile. So an attempt that was pending in the same turn still gets its wake-up: the waiter stays listed. Without a loop
    /// its announcement stands.
    #[inline]
    pub(super) fn stay_awake(&self, is_on_loop: bool) {
        if is_on_loop
            && self.state.get() == State::Asleep
            && let Some((watch, _)) = &*self.awaited.borrow()
        {
            self.state.set(State::Awake);
            watch.wake_up();
        }
    }

    /// Has its task look again if it sleeps.
    pub(super) fn rouse(&self) {
        if self.state.get() == State::Asleep {
            self.wake();
        }
    }

    /// How often it has announced its sleep, which is how many wake-ups may have come.
    pub(super) fn announced(&self) -> &Cell<u32> {
        &self.announced
    }

    /// Gives back all that it holds.
    pub(super) fn forget(&self) {
        self.state.set(State::Awake);
        drop(self.awaited.take());
    }

    fn has_come(&self) -> bool {
        self.awaited.borrow().as_ref().is_some_and(|(watch, _)| watch.has_come())
    }

    /// Tells the peer. If something has come before that, the task is told in its place, and this is false.
    fn sleep(&self, counts: &Counts) -> bool {
        // Also if it does not sleep then: the peer may have seen the announcement before it was withdrawn, and sends a wake-up.
        self.announced.set(self.announced.get() + 1);
        counts.parks.increment();
        let sleeps = self.awaited.borrow().as_ref().is_some_and(|(watch, _)| watch.sleep());
        if sleeps {
            self.state.set(State::Asleep);
        } else {
            self.wake();
        }
        sleeps
    }

    fn wake(&self) {
        self.state.set(State::Awake);
        let awaited = self.awaited.take();
        if let Some((_, waker)) = awaited {
            // Others wait behind it, and the loop may be about to sleep.
            anywire_loops::wake(waker);
        }
    }
}

/// Whether there are cores for all that spin: the loops of this process that have connections which do, and one of another process if a
/// peer of these is there. With fewer cores a spinning end keeps the one from running that it waits for.
fn may_spin() -> bool {
    let elsewhere = usize::from(SPINNERS_WITH_PEER_ELSEWHERE.load(Ordering::Relaxed) > 0);
    SPINNING_LOOPS.load(Ordering::Relaxed) + elsewhere <= cores()
}

/// Cores that the process may use. A loop may be pinned to one of them, so the main thread is asked.
fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| {
        let of_process = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
        of_process.map_or(1, |cores| cores.count() as usize)
    })
}

static SPINNING_LOOPS: AtomicUsize = AtomicUsize::new(0);
static SPINNERS_WITH_PEER_ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
