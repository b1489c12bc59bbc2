//! What belongs to the loop that the caller runs on.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use tokio::sync::Notify;

use crate::clock::precise;
use crate::contained::{Relay, contain, wake};
use crate::deadline::Registry;
use crate::guarded::{Guarded, of_one_type};
use crate::handle::{Job, LoopHandle};
use crate::inbox::BATCH;
use crate::shared::Shared;
use crate::sources::Sources;
use crate::task::LocalTask;

/// The loop that the caller runs on; `None` on any other thread.
pub fn current() -> Option<LoopHandle> {
    Local::try_with(|local| LoopHandle::new(Arc::clone(&local.shared)))
}

/// Runs a future on the present loop, beside the present task. It need not be `Send`.
///
/// A panic is caught, counted, logged, and returned by the [`LocalTask`].
///
/// ```
/// let loops = anywire_loops::Loops::start(1)?;
/// let sum = loops.get(0).spawn(|| async {
///     let (one, two) = (anywire_loops::spawn(async { 1 }), anywire_loops::spawn(async { 2 }));
///     one.await.unwrap_or(0) + two.await.unwrap_or(0)
/// });
/// assert_eq!(sum.wait()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the caller does not run on a loop; see [`LoopHandle::spawn`] for a way that works anywhere.
#[track_caller]
pub fn spawn<F>(future: F) -> LocalTask<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let guarded = Local::with(|local| Guarded::new(of_one_type(future), local));
    LocalTask::new(tokio::task::spawn_local(guarded))
}

/// The one value of type `T` that the present loop keeps, made by `init` when first asked for.
///
/// It lives until the loop ends. Then it is dropped on the loop: after the loop's tasks, and after the values that
/// were made later. So its destructor may use the values that its `init` asked for. A value is found by its type, so
/// wrap a common type in one of your own.
///
/// ```
/// use std::cell::Cell;
///
/// #[derive(Default)]
/// struct Visits(Cell<u32>);
///
/// let loops = anywire_loops::Loops::start(1)?;
/// for visit in 1..=3 {
///     let seen = loops.get(0).spawn(|| async {
///         let visits = anywire_loops::local(Visits::default);
///         visits.0.set(visits.0.get() + 1);
///         visits.0.get()
///     });
///     assert_eq!(seen.wait()?, visit);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the caller does not run on a loop.
#[track_caller]
pub fn local<T: 'static>(init: impl FnOnce() -> T) -> Rc<T> {
    Local::with(|local| local.value(init))
}

/// Runs the next hand-over, if one waits. A future that was spawned on the runtime directly, not by [`spawn`], and that is always ready
/// calls this after each poll. Otherwise the loop takes no hand-over, and cannot be stopped.
///
/// # Panics
///
/// If the caller does not run on a loop.
pub fn give_way() {
    Local::with(|local| local.after_poll());
}

/// Resolves when the present loop has been told to stop; at once if it has.
///
/// For tasks that would go on for ever: a loop that is shutting down waits for its tasks until the deadline, and then
/// cuts them.
///
/// # Panics
///
/// If the caller does not run on a loop.
pub async fn stopping() {
    let local = Local::with(Rc::clone);
    let mut told = pin!(local.told_to_stop.notified());
    if local.stop_at.get().is_none() {
        let mut waiter = Relay::default();
        poll_fn(|context| told.as_mut().poll(&mut Context::from_waker(&waiter.to(context.waker())))).await;
    }
}

/// The part of a loop that never leaves its thread.
pub(crate) struct Local {
    shared: Arc<Shared>,
    registry: Rc<Registry>,
    sources: Sources,
    /// A loop keeps few values, so a search from the start beats hashing.
    values: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    /// When tasks that still run are cut; `None` until the loop is told to stop.
    stop_at: Cell<Option<Instant>>,
    told_to_stop: Notify,
    /// Hand-overs that were taken out of the inbox and have not run yet.
    in_hand: RefCell<VecDeque<Job>>,
    /// How many ran since the main future was last polled.
    taken: Cell<usize>,
}

impl Local {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            registry: Rc::new(Registry::new(precise())),
            sources: Sources::default(),
            values: RefCell::default(),
            stop_at: Cell::new(None),
            told_to_stop: Notify::new(),
            in_hand: RefCell::default(),
            taken: Cell::new(0),
        }
    }

    /// Makes the calling thread a loop, or no longer one.
    pub(crate) fn set_current(local: Option<Rc<Self>>) {
        let before = CURRENT.with(|current| current.replace(local));
        drop(before);
    }

    /// The present loop, or nothing on another thread.
    #[inline]
    pub(crate) fn try_with<R>(read: impl FnOnce(&Rc<Self>) -> R) -> Option<R> {
        // Cloned so that `read`, which may run code of users, finds the cell free. On a thread that is ending the
        // cell may be gone already.
        let local = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()?;
        Some(read(&local))
    }

    /// The present loop; panics elsewhere.
    #[track_caller]
    pub(crate) fn with<R>(read: impl FnOnce(&Rc<Self>) -> R) -> R {
        let Some(result) = Self::try_with(read) else {
            panic!(
                "this must be called on a loop, and the thread is none; use LoopHandle::spawn to get onto one"
            );
        };
        result
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn registry(&self) -> &Rc<Registry> {
        &self.registry
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Called by the main future: runs hand-overs, and returns whether more wait.
    ///
    /// The runtime polls the main future, then about as many tasks as one [`BATCH`], then timers and sockets. One batch
    /// a round keeps hand-overs from starving timers and sockets, and from making tasks faster than they are polled.
    pub(crate) fn take_hand_overs(&self) -> bool {
        let taken = self.taken.replace(0);
        for _ in taken.min(BATCH - 1)..BATCH {
            if !self.take_hand_over() {
                break;
            }
        }
        self.shared.inbox.is_pending()
    }

    /// Called after each poll of a task: a loop that never runs dry takes a hand-over here.
    #[inline]
    pub(crate) fn after_poll(&self) {
        if self.shared.inbox.is_pending() && self.take_hand_over() {
            self.taken.set(self.taken.get() + 1);
        }
    }

    /// Runs the next hand-over; false if there is none.
    fn take_hand_over(&self) -> bool {
        let mut in_hand = self.in_hand.borrow_mut();
        if in_hand.is_empty() {
            self.shared.inbox.take(&mut in_hand);
        }
        let next = in_hand.pop_front();
        // The job runs code of users, which may come back here.
        drop(in_hand);
        let Some(job) = next else {
            return false;
        };
        match job {
            Job::HandOver(run) => {
                self.shared.counts.hand_overs.add(1);
                run();
            }
            Job::Wake(mut waker) => {
                self.shared.counts.hand_overs.add(1);
                if let Some(waker) = waker.take() {
                    wake(waker);
                }
            }
            Job::Stop(at) => self.stop(at),
        }
        true
    }

    /// Refuses hand-overs from now on, unless some wait. Returns whether it refuses them.
    pub(crate) fn close_if_idle(&self) -> bool {
        self.in_hand.borrow().is_empty() && self.shared.inbox.close_if_empty()
    }

    /// Refuses hand-overs from now on, drops the waiting ones, and returns their number.
    pub(crate) fn close(&self) -> u64 {
        let in_hand = self.in_hand.take();
        let waiting = self.shared.inbox.close();
        in_hand.iter().chain(&waiting).filter(|job| matches!(job, Job::HandOver(_))).count() as u64
    }

    pub(crate) fn task_begins(&self) {
        self.shared.counts.tasks_live.add(1);
        self.shared.counts.tasks_spawned.add(1);
    }

    pub(crate) fn task_ends(&self) {
        self.shared.counts.tasks_live.subtract(1);
        if self.stop_at.get().is_some() && self.tasks_live() == 0 {
            self.shared.inbox.wake();
        }
    }

    pub(crate) fn tasks_live(&self) -> u64 {
        self.shared.counts.tasks_live.value()
    }

    pub(crate) fn count_panic(&self) {
        self.shared.counts.panics.add(1);
    }

    /// Tells the tasks that the loop is to end, and sets the time at which the remaining ones are dropped. An earlier
    /// time stays.
    fn stop(&self, at: Instant) {
        let at = self.stop_at.get().map_or(at, |before| before.min(at));
        self.stop_at.set(Some(at));
        self.told_to_stop.notify_waiters();
        self.shared.inbox.wake();
    }

    pub(crate) fn stop_at(&self) -> Option<Instant> {
        self.stop_at.get()
    }

    fn value<T: 'static>(&self, init: impl FnOnce() -> T) -> Rc<T> {
        if let Some(value) = self.find() {
            return value;
        }
        // Not under the borrow: `init` may ask for values of other types, or even of this one.
        let made = Rc::new(init());
        if let Some(value) = self.find() {
            return value;
        }
        self.values.borrow_mut().push((TypeId::of::<T>(), Rc::clone(&made) as Rc<dyn Any>));
        made
    }

    fn find<T: 'static>(&self) -> Option<Rc<T>> {
        let values = self.values.borrow();
        let (_, value) = values.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        Rc::clone(value).downcast().ok()
    }

    /// Drops the loop's values, the newest first. A destructor may add values; they are dropped too.
    pub(crate) fn drop_values(&self) {
        loop {
            let Some(value) = self.values.borrow_mut().pop() else {
                return;
            };
            // Each by itself: two panics during one unwinding would abort the process.
            let _ = contain("a destructor", || drop(value));
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}
