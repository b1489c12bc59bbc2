//! Starting loops, choosing among them, and stopping them.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anywire_advice::Advice;
use anywire_sys::cpu;

use crate::clock;
use crate::contained::dispose;
use crate::context::current;
use crate::counters::{LoopCounters, LoopState};
use crate::handle::{Job, LoopHandle, LoopId};
use crate::limits::Limits;
use crate::shutdown::{Shutdown, ShutdownError};
use crate::thread::LoopConfig;

/// A set of running loops. Cheap to clone; all clones are the same loops.
///
/// When the last clone is dropped the loops are stopped at once and their tasks cut, without waiting for it. A task
/// that itself holds a clone therefore keeps them all running; give tasks a [`LoopHandle`] instead.
///
/// ```
/// use anywire_loops::{Loops, Pinning};
/// use std::time::Duration;
///
/// let loops = Loops::builder().count(2).pinning(Pinning::None).name("app").start()?;
/// let tasks: Vec<_> = loops.iter().map(|one| one.spawn(|| async { anywire_loops::current() })).collect();
/// for (one, task) in loops.iter().zip(tasks) {
///     assert!(task.wait()?.is_some_and(|at| at.same_as(&one)));
/// }
/// assert!(loops.shutdown(Duration::from_secs(1))?.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Loops {
    inner: Arc<Inner>,
}

/// A reference to [`Loops`] that does not keep them running.
#[derive(Clone)]
pub struct WeakLoops {
    inner: Weak<Inner>,
}

impl WeakLoops {
    /// The loops, unless the last [`Loops`] of them is gone.
    pub fn upgrade(&self) -> Option<Loops> {
        self.inner.upgrade().map(|inner| Loops { inner })
    }
}

impl fmt::Debug for WeakLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakLoops")
    }
}

impl Loops {
    /// Starts `count` loops that are not pinned to cores: [`Loops::builder`] with its defaults.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; no loop is left running then.
    pub fn start(count: usize) -> Result<Self, StartError> {
        Self::builder().count(count).start()
    }

    /// Starts loops with options.
    pub fn builder() -> Builder {
        Builder { count: None, pinning: Pinning::None, name: "loop".into(), limits: Limits::default() }
    }

    /// How many loops there are; never 0.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one loop")]
    pub fn len(&self) -> usize {
        self.inner.loops.len()
    }

    /// The loop of that number, from 0.
    ///
    /// # Panics
    ///
    /// If there are not as many loops, as with the index of a slice.
    pub fn get(&self, index: usize) -> LoopHandle {
        self.inner.loops[index].clone()
    }

    /// All loops, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LoopHandle> + '_ {
        self.inner.loops.iter().cloned()
    }

    /// A loop for new work: the caller's own loop if it is one of these, which saves the hand-over, else the next in
    /// turn. Skips loops that no longer run, unless none does.
    pub fn pick(&self) -> LoopHandle {
        match current() {
            Some(present) if present.shared().group == self.inner.group && is_running(&present) => present,
            _ => self.next_in_turn(),
        }
    }

    /// The next loop in turn, also for a caller on a loop: spreads work evenly. Skips loops that no longer run, unless
    /// none does.
    pub fn next_in_turn(&self) -> LoopHandle {
        let loops = &self.inner.loops;
        let turn = self.inner.turn.fetch_add(1, Relaxed) % loops.len();
        let (before, from_turn) = loops.split_at(turn);
        from_turn.iter().chain(before).find(|one| is_running(one)).unwrap_or(&loops[turn]).clone()
    }

    /// A reference that does not keep the loops running.
    ///
    /// ```
    /// let loops = anywire_loops::Loops::start(1)?;
    /// let weak = loops.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(loops);
    /// assert!(weak.upgrade().is_none());
    /// # Ok::<(), anywire_loops::StartError>(())
    /// ```
    pub fn downgrade(&self) -> WeakLoops {
        WeakLoops { inner: Arc::downgrade(&self.inner) }
    }

    /// The counters of all loops, in the order of their numbers.
    pub fn counters(&self) -> Vec<LoopCounters> {
        self.inner.loops.iter().map(LoopHandle::counters).collect()
    }

    /// Stops all loops and waits for them. Blocks; for the thread that started them.
    ///
    /// Tasks are told by [`stopping`](crate::stopping). Each loop ends with its last task; at the deadline it drops the
    /// remaining ones. From then on new tasks end with [`TaskError::Stopped`](crate::TaskError::Stopped). A second call
    /// waits for the same end, or for an earlier one if its deadline is earlier.
    ///
    /// A loop whose thread a task blocks cannot be stopped. It is left behind one second after the deadline, and
    /// counted in [`Shutdown::loops_stuck`].
    ///
    /// # Errors
    ///
    /// [`ShutdownError::OnLoop`] if the caller runs on any loop.
    pub fn shutdown(&self, deadline: Duration) -> Result<Shutdown, ShutdownError> {
        if current().is_some() {
            return Err(ShutdownError::OnLoop);
        }
        let deadline = clock::after(Instant::now(), deadline);
        self.inner.stop(deadline);
        let mut result = Shutdown::default();
        for one in &self.inner.loops {
            match one.shared().wait_for_end(deadline + CUT_GRACE) {
                Some(tasks_cut) => result.tasks_cut += tasks_cut,
                None => result.loops_stuck += 1,
            }
            if one.state() == LoopState::Died {
                result.loops_died += 1;
            }
        }
        if result.loops_stuck == 0 {
            let threads =
                std::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
            for thread in threads {
                if let Err(payload) = thread.join() {
                    dispose(payload);
                }
            }
        }
        Ok(result)
    }
}

fn is_running(one: &LoopHandle) -> bool {
    one.state() == LoopState::Running
}

impl fmt::Debug for Loops {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.inner.loops).finish()
    }
}

/// Options of loops that are to be started; made by [`Loops::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    count: Option<usize>,
    pinning: Pinning,
    name: String,
    limits: Limits,
}

impl Builder {
    /// How many loops: 1 to [`Builder::COUNT_MAX`]. Default: one for each core that this process may use.
    pub fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Whether each loop is tied to a core. Default: [`Pinning::None`].
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// What threads are called: `NAME-0`, `NAME-1` and so on; Linux shows the first 15 bytes. Default: `loop`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The limits of each loop. Default: [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the loops, and returns when all of them run.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; no loop is left running then.
    pub fn start(self) -> Result<Loops, StartError> {
        let count = self.count.unwrap_or_else(|| cpu::available_cores().len().min(Self::COUNT_MAX));
        if count == 0 || count > Self::COUNT_MAX {
            return Err(StartError::Count(count));
        }
        if matches!(&self.pinning, Pinning::Cores(cores) if cores.is_empty()) {
            return Err(StartError::NoCores);
        }
        let name = self.name.replace('\0', "");
        let group = GROUPS.fetch_add(1, Relaxed);
        let mut inner = Inner {
            group,
            loops: Vec::with_capacity(count),
            turn: AtomicUsize::new(0),
            threads: Mutex::new(Vec::with_capacity(count)),
        };
        // On an early return `inner` is dropped, which stops the loops that run already.
        for number in 0..count {
            let core = self.pinning.core(number);
            let config = LoopConfig { id: LoopId(number as u32), group, core, limits: self.limits };
            let (ready, answer) = mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || config.run(&ready))
                .map_err(StartError::Thread)?;
            inner.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
            let handle = answer.recv().map_err(|_| StartError::Died)??;
            inner.loops.push(handle);
        }
        Ok(Loops { inner: Arc::new(inner) })
    }

    /// The most loops: 1024, far beyond the cores of any machine, so that a typing error in a setting does not start
    /// ten thousand threads.
    pub const COUNT_MAX: usize = 1024;
}

/// Whether loops are tied to cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The scheduler places the threads, and moves them.
    #[default]
    None,
    /// Loop `i` runs on core `cores[i]`; with more loops than cores, the list starts again.
    Cores(Vec<usize>),
}

impl Pinning {
    fn core(&self, number: usize) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Cores(cores) => Some(cores[number % cores.len()]),
        }
    }
}

/// Why loops could not be started. The caller's mistake or the system's refusal; no loop is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A count of 0, or beyond [`Builder::COUNT_MAX`].
    #[error(
        "cannot start {0} loops: between 1 and {max} are possible{help}",
        max = Builder::COUNT_MAX,
        help = Advice("one for each core is usual")
    )]
    Count(usize),
    /// [`Pinning::Cores`] with an empty list.
    #[error(
        "cannot pin loops: the list of cores is empty{help}",
        help = Advice("name at least one core, or do not pin")
    )]
    NoCores,
    /// A thread could not be tied to its core: the process may not use it.
    #[error("cannot start a loop on core {core}: {source}")]
    Pin {
        /// The core asked for.
        core: usize,
        /// What the system said, with the cores that are possible.
        source: io::Error,
    },
    /// The system gave no thread.
    #[error(
        "cannot start a loop: the system gave no thread: {0}{help}",
        help = Advice("fewer loops, or a higher limit on tasks, would help")
    )]
    Thread(#[source] io::Error),
    /// The runtime got no epoll or eventfd, mostly because descriptors have run out.
    #[error(
        "cannot start a loop: its runtime could not be made: {0}{help}",
        help = Advice("a higher limit on open files may help")
    )]
    Runtime(#[source] io::Error),
    /// The thread ended before it could say anything: a panic, which has been printed.
    #[error(
        "cannot start a loop: its thread ended at once{help}",
        help = Advice("its panic message says why")
    )]
    Died,
}

/// What all clones of a [`Loops`] share.
struct Inner {
    group: u64,
    loops: Vec<LoopHandle>,
    turn: AtomicUsize,
    /// Empty once joined.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Inner {
    fn stop(&self, at: Instant) {
        for one in &self.loops {
            // A loop that has ended gives it back.
            let _ = one.shared().inbox.push_first(Job::Stop(at));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Told twice, a loop keeps the earlier time; told after its end, it hears nothing.
        self.stop(Instant::now());
    }
}

/// Numbers each set of loops, so that a loop can say to which it belongs.
static GROUPS: AtomicU64 = AtomicU64::new(0);
/// How long a loop may take to drop its tasks after the deadline before it counts as stuck.
const CUT_GRACE: Duration = Duration::from_secs(1);
