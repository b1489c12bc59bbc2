//! A loop as seen from anywhere: where it runs, and how to give it work.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::contained::{Contained, contain};
use crate::context::Local;
use crate::counters::{LoopCounters, LoopState};
use crate::guarded::{Delivering, Guarded, of_one_type};
use crate::inbox::Refused;
use crate::shared::Shared;
use crate::task::{Task, TaskError};

/// One loop. Cheap to clone, and usable from any thread.
///
/// A handle does not keep its loop running. After the loop's end, new tasks end with [`TaskError::Stopped`].
#[derive(Clone)]
pub struct LoopHandle {
    shared: Arc<Shared>,
}

impl LoopHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Runs a future on this loop. The closure is what travels; the future is made there, so it need not be `Send`.
    ///
    /// The output travels back to the awaiting thread, so it is `Send`; an error of any type is a
    /// `Box<dyn Error + Send + Sync>`.
    ///
    /// May be called from any thread, this loop's own included; the closure runs soon and never within this call.
    /// A loop that is asleep is woken once, however many hand-overs follow; one that is awake takes them without a
    /// system call. A panic of the closure or the future is caught, counted, logged, and returned by the [`Task`]. A
    /// panic of a destructor, of a captured value or of an output that was not awaited, is counted and logged.
    ///
    /// An awake loop takes a hand-over after each poll of a task started through this crate, and all of them before
    /// it sleeps. So they wait while a task blocks, or while tasks given straight to tokio never let the loop sleep.
    /// They never starve tasks, timers and sockets, which are polled between batches of hand-overs.
    ///
    /// ```
    /// use std::rc::Rc;
    ///
    /// let loops = anywire_loops::Loops::start(1)?;
    /// let task = loops.get(0).spawn(|| async {
    ///     let not_send = Rc::new(1);
    ///     tokio::task::yield_now().await;
    ///     *not_send
    /// });
    /// assert_eq!(task.wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn<M, F>(&self, make: M) -> Task<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let (task, job) = Self::job(make);
        match self.shared.inbox.push(job) {
            Ok(()) | Err(Refused::Closed(_)) => task,
            Err(Refused::Full(_)) => Task::refused(TaskError::Full),
        }
    }

    /// As [`spawn`](Self::spawn), past the limit of waiting hand-overs: for what ends or frees something, which a loop with too
    /// much to do must not miss. Not for what a peer or a request can ask for many times.
    pub fn spawn_always<M, F>(&self, make: M) -> Task<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let (task, job) = Self::job(make);
        // If the loop has ended, the task says so.
        let _ = self.shared.inbox.push_always(job);
        task
    }

    /// Calls a closure on this loop and discards its result. Cheaper than [`spawn`](Self::spawn), since there is no task. If the loop
    /// ends first, the closure is dropped.
    ///
    /// # Errors
    /// [`TaskError::Full`] and [`TaskError::Stopped`]: the closure was dropped.
    pub fn post(&self, act: impl FnOnce() + Send + 'static) -> Result<(), TaskError> {
        let mut act = Contained::new(act);
        let job = Job::HandOver(Box::new(move || {
            if let Some(act) = act.take() {
                // A panic is counted and logged.
                let _ = contain("a closure", act);
            }
        }));
        self.shared.inbox.push(job).map_err(|refused| match refused {
            Refused::Full(_) => TaskError::Full,
            Refused::Closed(_) => TaskError::Stopped,
        })
    }

    /// Wakes a task of this loop from any thread. The waker is called on the loop, so that many of them wake a loop once that sleeps.
    /// After the loop's end nothing is woken.
    pub(crate) fn wake(&self, waker: Waker) {
        // If the loop has ended, so has the task.
        let _ = self.shared.inbox.push_always(Job::Wake(Contained::new(waker)));
    }

    fn job<M, F>(make: M) -> (Task<F::Output>, Job)
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let (task, sender, stage) = Task::new();
        // If the job is dropped before it has run, so are the closure and the sender, which tells the task.
        let mut make = Contained::new(make);
        let job = Box::new(move || {
            if stage.is_aborted() {
                return;
            }
            let Some(make) = make.take() else {
                unreachable!("nobody else takes it");
            };
            Local::with(|local| match contain("a closure", make) {
                Ok(future) => {
                    let delivering = Delivering::new(Guarded::new(of_one_type(future), local), sender);
                    stage.begin(tokio::task::spawn_local(delivering).abort_handle());
                }
                Err(text) => {
                    // Fails if the handle was dropped, and the outcome with it.
                    let _ = sender.send(Contained::new(Err(TaskError::Panicked(text))));
                }
            });
        });
        (task, Job::HandOver(job))
    }

    /// Which loop of its [`Loops`](crate::Loops) this is.
    pub fn id(&self) -> LoopId {
        self.shared.id
    }

    /// The core that the loop's thread is pinned to, if it is.
    pub fn core(&self) -> Option<usize> {
        self.shared.core
    }

    /// The kernel's number of the loop's thread.
    pub fn thread_id(&self) -> i32 {
        self.shared.thread_id
    }

    /// The number of its [`Loops`](crate::Loops) among those that the process has started, from 0. Together with [`id`](Self::id) it names
    /// one loop of the process.
    pub fn loops_number(&self) -> u64 {
        self.shared.group
    }

    /// Whether both are the same loop, not merely loops of the same number.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether the caller runs on this loop.
    pub fn is_current(&self) -> bool {
        Local::try_with(|local| Arc::ptr_eq(&self.shared, local.shared())).unwrap_or(false)
    }

    /// Whether the loop runs, and how it ended if it does not.
    pub fn state(&self) -> LoopState {
        self.shared.state()
    }

    /// The loop's counters at this moment.
    pub fn counters(&self) -> LoopCounters {
        self.shared.counters()
    }
}

impl fmt::Debug for LoopHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LoopHandle")
            .field("id", &self.id())
            .field("core", &self.core())
            .field("thread_id", &self.thread_id())
            .finish()
    }
}

/// An entry of a loop's inbox.
pub(crate) enum Job {
    /// To be called on the loop. It catches its own panics, and can be dropped without one.
    HandOver(Box<dyn FnOnce() + Send>),
    /// A task of the loop is to be woken.
    Wake(Contained<Waker>),
    /// The loop is to end, and its tasks are cut at that time.
    Stop(Instant),
}

/// The number of a loop within its [`Loops`](crate::Loops), from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(pub(crate) u32);

impl LoopId {
    /// The number as an index, for [`Loops::get`](crate::Loops::get) or an array with one place a loop.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
