//! The threads of a pool and what they share: the queue, who sleeps, and what is counted.

use std::hint;
use std::io;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

use super::job::{Ended, Run, run_present};
use super::queue::{Next, Queue};
use super::queue_times::{QueueTimes, Recorder};
use super::{PoolCounters, PoolError, PoolLimits, PoolOrder};
use crate::contained::contain;

/// All that the threads of a pool share.
pub(super) struct Crew {
    name: String,
    arrivals: OwnLines<Mutex<Arrivals>>,
    /// Whether `arrivals` has functions: written under its lock, and read without it by the thread that searches.
    have_come: OwnLines<AtomicBool>,
    /// Locked before `arrivals` where both are.
    state: OwnLines<Mutex<State>>,
    times: Recorder,
    /// Held while waiting functions are refused at the end, so that whoever stops the pool as well waits for that.
    stopping: Mutex<()>,
}

/// Where functions come in. Apart from [`State`], so that giving and taking them share a lock once for many of them: a thread takes all
/// that have come when it has none left.
struct Arrivals {
    queue: Queue<Waiting>,
    /// So many more may come before the rules of [`State`] are asked again. By then functions may have ended, so there may be more room.
    room: usize,
    /// Threads that sleep and were not called. The one that came last is called first: its memory is in the cache.
    asleep: Vec<Arc<Seat>>,
    /// A thread that is awake searches for functions, so that none that sleeps is called.
    is_searched: bool,
}

struct State {
    queue: Queue<Waiting>,
    queue_max: usize,
    order: PoolOrder,
    is_stopped: bool,
    /// As many as there are to be.
    threads_wanted: usize,
    threads: usize,
    threads_started: u64,
    /// Threads that run a function.
    busy: usize,
    counters: PoolCounters,
}

/// Two lines of the cache, because processors fetch them in pairs.
#[repr(align(128))]
struct OwnLines<T>(T);

/// A function that waits.
struct Waiting {
    job: Arc<dyn Run>,
    queued_at: Instant,
}

/// Where a thread sleeps.
struct Seat {
    thread: Thread,
    is_called: AtomicBool,
}

/// What a thread does next.
enum Turn {
    /// Run this, at this time.
    Run(Waiting, Instant),
    /// Search for a moment, and look again.
    Search,
    /// Sleep until called.
    Sleep,
    /// Look again: too many late ones were in front.
    Again,
    End,
}

impl Crew {
    /// Without a thread.
    pub(super) fn new(name: &str, queue_max: usize, order: PoolOrder) -> Self {
        let state = State {
            queue: Queue::new(),
            queue_max,
            order,
            is_stopped: false,
            threads_wanted: 0,
            threads: 0,
            threads_started: 0,
            busy: 0,
            counters: PoolCounters::default(),
        };
        let arrivals = Arrivals { queue: Queue::new(), room: 0, asleep: Vec::new(), is_searched: false };
        Self {
            name: name.replace('\0', ""),
            arrivals: OwnLines(Mutex::new(arrivals)),
            have_come: OwnLines(AtomicBool::new(false)),
            state: OwnLines(Mutex::new(state)),
            times: Recorder::new(),
            stopping: Mutex::new(()),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Queues a function, and calls a thread that sleeps, unless one searches. Returns its number.
    pub(super) fn push(
        &self,
        job: Arc<dyn Run>,
        queued_at: Instant,
        late_at: Option<Instant>,
    ) -> Result<u64, PoolError> {
        let mut arrivals = self.arrivals();
        if arrivals.room == 0 {
            drop(arrivals);
            arrivals = self.look_for_room()?;
        }
        arrivals.room -= 1;
        let number = arrivals.queue.push(Waiting { job, queued_at }, late_at);
        if !self.have_come.0.load(Relaxed) {
            self.have_come.0.store(true, Relaxed);
        }
        let sleeper = if arrivals.is_searched { None } else { arrivals.asleep.pop() };
        drop(arrivals);
        if let Some(seat) = sleeper {
            seat.call();
        }
        Ok(number)
    }

    /// Finds out how many more functions may come, at least one.
    fn look_for_room(&self) -> Result<MutexGuard<'_, Arrivals>, PoolError> {
        let mut state = self.state();
        if state.is_stopped {
            return Err(PoolError::Stopped);
        }
        let mut arrivals = self.arrivals();
        let waiting = state.queue.waiting() + arrivals.queue.waiting();
        // A function for which a thread is free does not count, though the thread may not have come yet.
        let free = state.threads.min(state.threads_wanted).saturating_sub(state.busy);
        arrivals.room = state.queue_max.saturating_add(free).saturating_sub(waiting);
        if arrivals.room == 0 {
            state.counters.rejected_full += 1;
            return Err(PoolError::Full);
        }
        Ok(arrivals)
    }

    /// A function was late before it was queued.
    pub(super) fn count_late(&self) {
        self.state().counters.rejected_late += 1;
    }

    /// Takes a function out of the queue that is late. Returns false if a thread has it.
    pub(super) fn remove_late(&self, number: u64) -> bool {
        let mut state = self.all();
        let removed = state.queue.remove(number);
        state.counters.rejected_late += u64::from(removed.is_some());
        drop(state);
        removed.is_some()
    }

    /// Takes a function out of the queue that nobody wants. Returns false if a thread has it.
    pub(super) fn remove_abandoned(&self, number: u64) -> bool {
        let mut state = self.all();
        let removed = state.queue.remove(number);
        state.counters.abandoned += u64::from(removed.is_some());
        drop(state);
        removed.is_some()
    }

    pub(super) fn resize(self: &Arc<Self>, threads: usize) -> io::Result<()> {
        let mut state = self.state();
        state.threads_wanted = threads;
        while state.threads < threads && !state.is_stopped {
            let number = state.threads_started;
            let crew = Arc::clone(self);
            let started = thread::Builder::new()
                .name(format!("{}-{number}", self.name))
                .spawn(move || Worker::new().work_on(&crew));
            if let Err(error) = started {
                state.threads_wanted = state.threads;
                return Err(error);
            }
            state.threads_started += 1;
            state.threads += 1;
        }
        // Those that run a function see it when that has ended.
        let mut arrivals = self.arrivals();
        arrivals.room = 0;
        let too_many = state.threads.saturating_sub(threads).min(arrivals.asleep.len());
        let keep = arrivals.asleep.len() - too_many;
        let called = arrivals.asleep.split_off(keep);
        drop((state, arrivals));
        called.iter().for_each(|seat| seat.call());
        Ok(())
    }

    pub(super) fn resize_queue(&self, queue: usize) {
        let mut state = self.state();
        state.queue_max = queue;
        self.arrivals().room = 0;
    }

    pub(super) fn limits(&self) -> PoolLimits {
        let state = self.state();
        PoolLimits { threads: state.threads_wanted, queue: state.queue_max, order: state.order }
    }

    pub(super) fn counters(&self) -> PoolCounters {
        let state = self.all();
        PoolCounters {
            threads: state.threads as u64,
            running: state.busy as u64,
            queued: state.queue.waiting() as u64,
            ..state.counters
        }
    }

    pub(super) fn queue_times(&self) -> QueueTimes {
        self.times.read()
    }

    /// Refuses what waits and all that comes, and ends the threads. Returns once all who waited have been told.
    pub(super) fn stop(&self) {
        let _alone = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.all();
        state.is_stopped = true;
        let waiting = state.queue.drain();
        let mut arrivals = self.arrivals();
        arrivals.room = 0;
        let called = mem::take(&mut arrivals.asleep);
        drop((state, arrivals));
        called.iter().for_each(|seat| seat.call());
        waiting.iter().for_each(|waiting| waiting.job.refuse(PoolError::Stopped));
    }

    /// The result of a function was not wanted.
    pub(super) fn count_abandoned(&self) {
        self.state().counters.abandoned += 1;
    }

    /// Waits awake for functions, as long as going to sleep and being called would take.
    fn search(&self) {
        let mut looks = 0..LOOKS;
        while !self.have_come.0.load(Relaxed) && looks.next().is_some() {
            hint::spin_loop();
        }
        let state = self.state();
        let mut arrivals = self.arrivals();
        arrivals.is_searched = false;
        // Functions that came meanwhile have called nobody. This thread takes one of them.
        let others = (state.queue.waiting() + arrivals.queue.waiting()).saturating_sub(1);
        let keep = arrivals.asleep.len().saturating_sub(others);
        let called = arrivals.asleep.split_off(keep);
        drop((state, arrivals));
        called.iter().for_each(|seat| seat.call());
    }

    /// What a thread does next, behind a function that has ended. Functions that are found late go to its `late`.
    fn next(&self, worker: &mut Worker, ended: Option<Ended>, now: Instant) -> Turn {
        let Worker { seat, late, may_search, .. } = worker;
        let mut state = self.state();
        if let Some(ended) = ended {
            state.busy -= 1;
            state.counters.ended += u64::from(ended != Ended::Unwanted);
            state.counters.panics += u64::from(ended == Ended::Panicked);
        }
        if state.threads > state.threads_wanted || state.is_stopped {
            state.threads -= 1;
            // Called for a function, it leaves that to another thread.
            let mut arrivals = self.arrivals();
            let is_left = state.queue.waiting() + arrivals.queue.waiting() > 0;
            let other = if is_left { arrivals.asleep.pop() } else { None };
            drop((state, arrivals));
            other.inspect(|seat| seat.call());
            return Turn::End;
        }
        let order = state.order;
        loop {
            if state.queue.waiting() == 0 || order == PoolOrder::LatestFirst {
                let mut arrivals = self.arrivals();
                state.queue.append(&mut arrivals.queue);
                self.have_come.0.store(false, Relaxed);
                if state.queue.waiting() == 0 && late.is_empty() {
                    if mem::take(may_search) && !arrivals.is_searched {
                        arrivals.is_searched = true;
                        return Turn::Search;
                    }
                    seat.is_called.store(false, Release);
                    arrivals.asleep.push(Arc::clone(seat));
                    return Turn::Sleep;
                }
            }
            match state.queue.pop(order, now) {
                Some(Next::Job(waiting)) => {
                    state.busy += 1;
                    return Turn::Run(waiting, now);
                }
                Some(Next::Late(waiting)) => {
                    state.counters.rejected_late += 1;
                    late.push(waiting);
                    if late.len() == LATE_AT_ONCE {
                        return Turn::Again;
                    }
                }
                None => return Turn::Again,
            }
        }
    }

    /// The state with all functions that have come.
    fn all(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.queue.append(&mut self.arrivals().queue);
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code of users runs under the lock.
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        // As above.
        self.arrivals.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn call(&self) {
        self.is_called.store(true, Release);
        // A system call only if the thread does sleep.
        self.thread.unpark();
    }

    fn sleep(&self) {
        while !self.is_called.load(Acquire) {
            thread::park();
        }
    }
}

/// What a thread has in hand.
struct Worker {
    seat: Arc<Seat>,
    /// It runs a function.
    is_busy: bool,
    /// It has run one since it searched last.
    may_search: bool,
    late: Vec<Waiting>,
}

impl Worker {
    fn new() -> Self {
        let seat = Seat { thread: thread::current(), is_called: AtomicBool::new(false) };
        Self { seat: Arc::new(seat), is_busy: false, may_search: false, late: Vec::new() }
    }

    /// The life of a thread.
    fn work_on(mut self, crew: &Crew) {
        // All code of users is contained where it is called. Should a panic get here, the thread is as good as a new one.
        while contain("a thread of a pool", || self.work(crew)).is_err() {}
    }

    fn work(&mut self, crew: &Crew) {
        let mut turn = Turn::Again;
        loop {
            turn = match turn {
                Turn::Run(Waiting { job, queued_at }, now) => {
                    crew.times.record(now.saturating_duration_since(queued_at));
                    let mut next = Turn::Again;
                    if run_present(job, &mut |ended| next = self.look(crew, Some(ended))) {
                        crew.count_abandoned();
                    }
                    next
                }
                Turn::Search => {
                    crew.search();
                    Turn::Again
                }
                Turn::Sleep => {
                    self.seat.sleep();
                    Turn::Again
                }
                Turn::Again => {
                    let ended = mem::take(&mut self.is_busy).then_some(Ended::Panicked);
                    self.look(crew, ended)
                }
                Turn::End => return,
            };
            self.late.drain(..).for_each(|late| late.job.refuse(PoolError::Late));
        }
    }

    /// Looks what follows.
    fn look(&mut self, crew: &Crew, ended: Option<Ended>) -> Turn {
        let turn = crew.next(self, ended, Instant::now());
        self.is_busy = matches!(turn, Turn::Run(..));
        self.may_search |= self.is_busy;
        turn
    }
}

/// About a microsecond, which is what a call of a thread that sleeps costs its caller. With 100 functions under way a thread slept
/// once for 28 of them without it.
const LOOKS: usize = 32;
/// So many late functions are taken out under the lock at once.
const LATE_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::job::{Awaited, Job};
    use super::*;

    fn wait_until(is_so: impl Fn() -> bool) {
        let hang = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < hang, "it never is");
            thread::yield_now();
        }
    }

    #[test]
    fn threads_that_sleep_end_when_there_are_too_many() {
        let crew = Arc::new(Crew::new("test", 1, PoolOrder::OldestFirst));
        crew.resize(3).expect("threads can be had");
        wait_until(|| crew.arrivals().asleep.len() == 3);
        crew.resize(1).expect("no thread is needed");
        wait_until(|| crew.counters().threads == 1);
        wait_until(|| crew.arrivals().asleep.len() == 1);
        crew.stop();
        wait_until(|| crew.counters().threads == 0);
    }

    /// Its thread had it already when its task gave it up.
    #[test]
    fn a_function_that_is_given_up_late_is_neither_run_nor_counted_as_run() {
        let crew = Arc::new(Crew::new("test", 1, PoolOrder::OldestFirst));
        let job = Arc::new(Job::<_, ()>::new(|| unreachable!("nobody wants it")));
        job.abandon();
        crew.push(job, Instant::now(), None).expect("there is room");
        crew.resize(1).expect("a thread can be had");
        wait_until(|| crew.counters().abandoned == 1);
        let PoolCounters { running, ended, panics, .. } = crew.counters();
        assert_eq!((running, ended, panics), (0, 0, 0));
        crew.stop();
    }
}
