//! Callers outside the loops: a thread is woken once for all the responses of a batch, however many of its calls they end.
//!
//! A thread that sleeps is woken by a system call, and mostly by a switch of threads. With a wake-up for each response, the thread would
//! run, take one response and sleep again, before the loop has the next one for it. So the wakers of a thread's calls go into
//! its [`Batch`], and when the loop has done what was ready, it calls one of them. The call that is polled then calls the others, on their
//! own thread.
//!
//! A future may be woken and never polled, such as one that its task has lost interest in. It must not hold up the others: of a batch
//! that nobody has taken by the next one, or within [`TAKEN_WITHIN`], the loop calls all wakers itself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::contained::drop_caught;
use anywire_loops::deadline::Deadline;

/// The calls of one thread whose responses have come.
#[derive(Debug, Default)]
struct Batch(Mutex<Vec<Waker>>);

impl Batch {
    /// Wakes all of them.
    fn take(&self) {
        let mut waiting = self.lock();
        if waiting.is_empty() {
            return;
        }
        let wakers = mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(wake);
    }

    /// Adds a call. Whether it is the first one.
    fn add(&self, waker: Waker) -> bool {
        let mut waiting = self.lock();
        waiting.push(waker);
        waiting.len() == 1
    }

    /// Takes the first call out. Whether there are others.
    fn pop(&self) -> Option<(Waker, bool)> {
        let mut waiting = self.lock();
        let first = (!waiting.is_empty()).then(|| waiting.swap_remove(0))?;
        Some((first, !waiting.is_empty()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        // Nothing panics while the lock is held: it runs no waker.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a loop wakes when the response of a call from outside has come.
#[derive(Debug)]
pub(crate) struct Caller {
    task: Waker,
    batch: Arc<Batch>,
}

impl Caller {
    /// A call from the present thread, whose task this is. None if the thread is ending.
    pub(crate) fn new(task: &Waker) -> Option<Arc<Self>> {
        let batch = OF_THREAD.try_with(Arc::clone).ok()?;
        Some(Arc::new(Self { task: task.clone(), batch }))
    }

    /// The call, if another task waits for it now.
    pub(crate) fn of_task(self: &Arc<Self>, task: &Waker) -> Arc<Self> {
        match self.task.will_wake(task) {
            true => Arc::clone(self),
            false => Arc::new(Self { task: task.clone(), batch: Arc::clone(&self.batch) }),
        }
    }

    /// Wakes the other calls of the batch, because this one is polled, or never will be.
    pub(crate) fn wake_others(&self) {
        self.batch.take();
    }
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let joined = DUE.try_with(|due| due.borrow_mut().join(self)).unwrap_or(false);
        if !joined {
            self.task.wake_by_ref();
        }
    }
}

/// The batches of a loop.
#[derive(Default)]
struct Due {
    /// Of which one waker is to be called.
    new: Vec<Arc<Batch>>,
    /// Wakes the task that calls them. None on a thread that is no loop of a client.
    task: Option<Waker>,
}

impl Due {
    fn join(&mut self, caller: &Caller) -> bool {
        let Some(task) = &self.task else { return false };
        if caller.batch.add(caller.task.clone()) {
            self.new.push(Arc::clone(&caller.batch));
            task.wake_by_ref();
        }
        true
    }
}

/// Begins to wake callers outside by batches on the present loop, if it does not do so yet.
pub(crate) fn begin() {
    if DUE.with_borrow(|due| due.task.is_none()) {
        DUE.with_borrow_mut(|due| due.task = Some(Waker::noop().clone()));
        drop(anywire_loops::spawn(Waking { called: Vec::new(), deadline: Deadline::new() }.run()));
    }
}

/// Calls the wakers of callers outside, behind all that is ready when the first response of a batch has come.
struct Waking {
    /// Batches of which one waker was called, and which have others.
    called: Vec<Arc<Batch>>,
    /// When these are to be taken.
    deadline: Deadline,
}

impl Waking {
    async fn run(mut self) {
        let mut stopping = pin!(anywire_loops::stopping());
        poll_fn(|cx| {
            self.poll(cx);
            stopping.as_mut().poll(cx)
        })
        .await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        let mut is_late = false;
        let new = DUE.with_borrow_mut(|due| {
            due.task = Some(cx.waker().clone());
            mem::take(&mut due.new)
        });
        while self.deadline.poll_expired(cx).is_ready() {
            is_late = true;
            self.deadline.clear();
        }
        if new.is_empty() && !is_late {
            return;
        }
        self.called.drain(..).for_each(|batch| batch.take());
        for batch in new {
            let Some((first, has_others)) = batch.pop() else { continue };
            if has_others {
                self.called.push(batch);
            }
            wake(first);
        }
        if !self.called.is_empty() {
            self.deadline.set(TAKEN_WITHIN);
            // Registers the task for it.
            if self.deadline.poll_expired(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}

impl Drop for Waking {
    /// The loop ends. From here on each caller is woken at once.
    fn drop(&mut self) {
        let due = DUE.try_with(|due| mem::take(&mut *due.borrow_mut())).unwrap_or_default();
        due.new.iter().chain(&self.called).for_each(|batch| batch.take());
    }
}

/// Calls a waker of a caller's executor, whose panic ends here.
fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        drop_caught(payload);
    }
}

thread_local! {
    static OF_THREAD: Arc<Batch> = Arc::default();
    static DUE: RefCell<Due> = RefCell::default();
}

/// How long a thread may take to begin with a batch: it is woken within some tens of microseconds if it has nothing else to do. If it
/// has, waking it costs no system call.
const TAKEN_WITHIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;

    use anywire_loops::Loops;

    use super::*;

    /// A caller's task, which says when it is woken. The first one may take its batch, as a call does that is polled.
    struct Task {
        name: usize,
        takes: Option<Arc<Batch>>,
        is_taking: Arc<AtomicBool>,
        by_loop: Arc<AtomicUsize>,
        woken: mpsc::Sender<usize>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            if !self.is_taking.load(Ordering::SeqCst) {
                self.by_loop.fetch_add(1, Ordering::SeqCst);
            }
            self.woken.send(self.name).expect("the test listens");
            if let Some(batch) = &self.takes {
                let was_taking = self.is_taking.swap(true, Ordering::SeqCst);
                batch.take();
                self.is_taking.store(was_taking, Ordering::SeqCst);
            }
        }
    }

    /// The responses of ten calls of one thread come together: how many of the calls the loop has woken itself.
    fn woken_by_loop(is_taken: bool) -> usize {
        let loops = Loops::start(1).expect("loops start");
        let (woken, heard) = mpsc::channel();
        let (by_loop, is_taking) = (Arc::<AtomicUsize>::default(), Arc::default());
        let batch = Arc::<Batch>::default();
        let callers: Vec<_> = (0..10)
            .map(|name| {
                let takes = Some(Arc::clone(&batch)).filter(|_| is_taken);
                let (is_taking, by_loop, woken) =
                    (Arc::clone(&is_taking), Arc::clone(&by_loop), woken.clone());
                let task = Waker::from(Arc::new(Task { name, takes, is_taking, by_loop, woken }));
                Arc::new(Caller { task, batch: Arc::clone(&batch) })
            })
            .collect();
        let task = loops.get(0).spawn(move || async move {
            begin();
            // It runs once before.
            tokio::task::yield_now().await;
            callers.into_iter().for_each(|caller| Waker::from(caller).wake());
        });
        task.wait().expect("no panic");
        let mut names: Vec<_> = heard.iter().take(10).collect();
        names.sort_unstable();
        assert_eq!(names, (0..10).collect::<Vec<_>>(), "each is woken once");
        by_loop.load(Ordering::SeqCst)
    }

    #[test]
    fn a_thread_is_woken_once_for_a_batch() {
        assert_eq!(woken_by_loop(true), 1);
    }

    #[test]
    fn a_call_that_is_not_polled_holds_up_no_other() {
        assert_eq!(woken_by_loop(false), 10);
    }

    #[test]
    fn where_no_loop_is_each_is_woken_at_once() {
        let (woken, heard) = mpsc::channel();
        let batch = Arc::<Batch>::default();
        let (is_taking, by_loop) = (Arc::default(), Arc::default());
        let task = Arc::new(Task { name: 7, takes: None, is_taking, by_loop, woken });
        Waker::from(Arc::new(Caller { task: task.into(), batch })).wake();
        assert_eq!(heard.try_recv(), Ok(7));
    }
}
