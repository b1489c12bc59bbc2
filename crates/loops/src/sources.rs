//! Work that comes without a wake-up, so that a loop has to look for it itself.
//!
//! Bytes in shared memory, or frames in the ring of a device, raise no event that tokio could wait for. While a loop is awake
//! that is an advantage: whoever brings them makes no system call. So a loop does two things for each [`Source`]:
//! - **Before it sleeps** it has the source announce that, so that the next work comes with a wake-up.
//! - **If the source asks for it**, it does not sleep at once but looks for work for a while. It does so in a task of its own,
//!   so that other tasks, and each 61 polls timers and sockets, have their turns.
//!
//! How long it looks adapts itself: the time is halved if it passes in vain, down to a sixteenth of what was asked for, and grows
//! again when work comes that a longer look would have found.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::hint::spin_loop;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::contained::contain;
use crate::context::Local;

/// Where work comes from that raises no event. All calls are made on the loop.
pub trait Source {
    /// Looks for work, and wakes the tasks that wait for it. Returns whether there was some. Called very often, so it costs a
    /// few loads.
    fn look(&self) -> bool;

    /// The loop is about to sleep: whoever brings work from now on has to wake it, by something that tokio waits for.
    ///
    /// Announces that first, and then looks once more. Without this look, work that came just before the announcement would
    /// wait until something else wakes the loop.
    fn prepare_to_sleep(&self);
}

/// Adds a source to the present loop, for as long as the returned value lives.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::task::Waker;
/// use std::time::Duration;
///
/// /// Has work at the tenth look.
/// #[derive(Default)]
/// struct Tenth { looks: Cell<u32>, waiting: Cell<Option<Waker>> }
///
/// impl anywire_loops::Source for Tenth {
///     fn look(&self) -> bool {
///         self.looks.set(self.looks.get() + 1);
///         let task = self.waiting.take().filter(|_| self.looks.get() >= 10);
///         task.map(Waker::wake).is_some()
///     }
///     fn prepare_to_sleep(&self) {}
/// }
///
/// let loops = anywire_loops::Loops::start(1)?;
/// loops.get(0).spawn(|| async {
///     let source = Rc::new(Tenth::default());
///     let added = anywire_loops::add_source(source.clone());
///     std::future::poll_fn(|cx| {
///         if source.looks.get() >= 10 {
///             return std::task::Poll::Ready(());
///         }
///         source.waiting.set(Some(cx.waker().clone()));
///         added.spin(Duration::from_secs(1));
///         std::task::Poll::Pending
///     }).await;
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the caller does not run on a loop.
#[track_caller]
pub fn add_source(source: Rc<dyn Source>) -> AddedSource {
    Local::with(|local| {
        let sources = local.sources();
        let id = sources.next_id.replace(sources.next_id.get() + 1);
        sources.list.borrow_mut().push((id, source));
        AddedSource { id, local: Rc::downgrade(local) }
    })
}

/// A source that is looked at by its loop. Dropping this removes it.
#[must_use = "the source is removed when this is dropped"]
pub struct AddedSource {
    id: u64,
    local: Weak<Local>,
}

impl AddedSource {
    /// Work is expected soon: the loop looks for it for about so long before it sleeps, and less if that was in vain before.
    /// Costs a few writes to memory if the loop looks already.
    #[inline]
    pub fn spin(&self, longest: Duration) {
        if let Some(local) = self.local.upgrade() {
            local.sources().spin(&local, longest);
        }
    }
}

impl Drop for AddedSource {
    fn drop(&mut self) {
        let Some(local) = self.local.upgrade() else { return };
        let mut list = local.sources().list.borrow_mut();
        let at = list.iter().position(|(id, _)| *id == self.id);
        let removed = at.map(|at| list.remove(at));
        // Its destructor may come back here.
        drop(list);
        drop(removed);
    }
}

impl fmt::Debug for AddedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddedSource").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The sources of one loop.
#[derive(Default)]
pub(crate) struct Sources {
    list: RefCell<Vec<(u64, Rc<dyn Source>)>>,
    next_id: Cell<u64>,
    spinner: Spinner,
}

/// The state of the task that looks for work.
#[derive(Default)]
struct Spinner {
    state: Cell<State>,
    /// Wakes the task when it rests.
    waker: RefCell<Option<Waker>>,
    /// The longest time that was asked for.
    longest: Cell<Duration>,
    /// The present time to look in vain.
    window: Cell<Duration>,
    /// Work was found or is expected since the task looked at the clock.
    is_fresh: Cell<bool>,
    /// When it began to look in vain.
    since: Cell<Option<Instant>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no task yet.
    #[default]
    New,
    /// The task waits to be woken.
    Rests,
    Spins,
}

impl Sources {
    /// Called right before the loop sleeps.
    pub(crate) fn prepare_to_sleep(&self) {
        self.each(|source| {
            source.prepare_to_sleep();
            false
        });
    }

    #[inline]
    fn spin(&self, local: &Rc<Local>, longest: Duration) {
        let spinner = &self.spinner;
        spinner.is_fresh.set(true);
        if spinner.state.get() != State::Spins && !longest.is_zero() {
            self.start(local, longest);
        }
    }

    #[cold]
    fn start(&self, local: &Rc<Local>, longest: Duration) {
        let spinner = &self.spinner;
        if longest > spinner.longest.get() {
            spinner.longest.set(longest);
            spinner.window.set(longest);
        }
        if spinner.state.replace(State::Spins) == State::New {
            let local = Rc::downgrade(local);
            // Past the loop's own spawn, which counts tasks: the loop does not wait for it when it ends.
            drop(tokio::task::spawn_local(poll_fn(move |cx| match local.upgrade() {
                Some(local) => local.sources().poll_spinner(&local, cx),
                None => Poll::Ready(()),
            })));
        } else if let Some(waker) = spinner.waker.take() {
            spinner.began_anew();
            waker.wake();
        }
    }

    /// One turn: a few looks. Then other tasks have theirs.
    fn poll_spinner(&self, local: &Local, cx: &Context<'_>) -> Poll<()> {
        let spinner = &self.spinner;
        for _ in 0..LOOKS_A_TURN {
            if self.each(|source| source.look()) {
                spinner.is_fresh.set(true);
                break;
            }
            if local.shared().inbox.is_pending() {
                break;
            }
            spin_loop();
        }
        // As after each poll of a task. The loop stays awake, so hand-overs need no wake-up.
        local.after_poll();
        if !spinner.goes_on() {
            local.shared().counts.spins_in_vain.add(1);
            *spinner.waker.borrow_mut() = Some(cx.waker().clone());
            spinner.state.set(State::Rests);
            return Poll::Pending;
        }
        local.shared().counts.spins.add(1);
        // Straight back into the loop's queue. A deferred wake-up would cost a look at the sockets each time.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Asks the sources in turn, until one says so. A panic of one is counted and logged.
    fn each(&self, mut ask: impl FnMut(&dyn Source) -> bool) -> bool {
        let mut from = 0;
        loop {
            // Not under the borrow: asking may run code of users, which may add or remove sources. The next one is found by its
            // number, because a removed one shifts the places of all behind it, and one that is left out here sleeps on.
            let next = self.list.borrow().iter().find(|(id, _)| *id >= from).cloned();
            let Some((id, source)) = next else { return false };
            if contain("a source", || ask(&*source)) == Ok(true) {
                return true;
            }
            from = id + 1;
        }
    }
}

impl Spinner {
    /// Whether it looks on.
    fn goes_on(&self) -> bool {
        let now = Instant::now();
        if self.is_fresh.replace(false) {
            self.since.set(Some(now));
            return true;
        }
        let since = self.since.get().unwrap_or(now);
        if now.duration_since(since) < self.window.get() {
            return true;
        }
        self.window.set((self.window.get() / 2).max(self.longest.get() / WINDOW_SHARE_MIN));
        false
    }

    /// Work came after it had given up.
    fn began_anew(&self) {
        let waited = self.since.get().map_or(Duration::MAX, |since| since.elapsed());
        if waited < self.longest.get() {
            self.window.set((self.window.get() * 4).min(self.longest.get()));
        }
    }
}

/// Fewer than a microsecond's worth, so that other tasks hardly wait.
const LOOKS_A_TURN: usize = 16;
/// The least that it looks is this part of what was asked for.
const WINDOW_SHARE_MIN: u32 = 16;
