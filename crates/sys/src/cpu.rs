//! Cores and CPU time: where a thread may run, and how much of a core it has used.
//!
//! Two clocks are offered, because they answer different questions. [`current_thread_cpu`] splits user from system
//! time, but only for the thread that asks. [`thread_run_time`] gives one total in nanoseconds for any thread of
//! this process, so that a measuring thread need not disturb the one it measures.

use std::fs;
use std::io;
use std::ops::{Add, Sub};
use std::time::Duration;

use anywire_advice::Message;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// CPU time that a thread has used, split as the kernel splits it.
///
/// Both parts count from the start of the thread. The sum is exact; the split between the two is the kernel's
/// estimate, scaled to the sum.
///
/// ```
/// use anywire_sys::cpu::current_thread_cpu;
///
/// let before = current_thread_cpu()?;
/// let sum: u64 = (0..1000u64).sum();
/// let used = current_thread_cpu()? - before;
/// println!("{sum} took {:?} of CPU", used.total());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time spent in the program's own code.
    pub user: Duration,
    /// Time that the kernel spent on the thread's behalf: system calls, and the interrupts charged to it.
    pub system: Duration,
}

impl CpuTime {
    /// User and system time together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// The same split of another sum.
    fn scaled_to(self, total: Duration) -> Self {
        let (part, whole) = (self.system.as_nanos(), self.total().as_nanos());
        // A thread that has just started has not been split yet.
        let system = (total.as_nanos() * part).checked_div(whole).unwrap_or(0);
        let system = Duration::from_nanos(u64::try_from(system).unwrap_or(u64::MAX)).min(total);
        Self { user: total - system, system }
    }
}

impl Sub for CpuTime {
    type Output = Self;

    /// The time used between two samples: the sum exactly. Neither part is below zero, although a little may move from one to
    /// the other when they are scaled.
    fn sub(self, earlier: Self) -> Self {
        let total = self.total().saturating_sub(earlier.total());
        let user = self.user.saturating_sub(earlier.user).min(total);
        Self { user, system: total - user }
    }
}

impl Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { user: self.user + other.user, system: self.system + other.system }
    }
}

/// The numbers of the cores that this thread may run on, ascending. Never empty.
///
/// This is the affinity mask, so a container or `taskset` that leaves two cores of sixteen gives two. Where the mask
/// cannot be read (more than 1024 cores), the cores `0..n` are assumed.
pub fn available_cores() -> Vec<usize> {
    let cores: Vec<usize> = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => Vec::new(),
    };
    if !cores.is_empty() {
        return cores;
    }
    (0..std::thread::available_parallelism().map_or(1, Into::into)).collect()
}

/// Ties the calling thread to one core.
///
/// # Errors
///
/// `InvalidInput` if this process may not use such a core, with the cores that it may; else what
/// `sched_setaffinity(2)` said.
pub fn pin_current_thread(core: usize) -> io::Result<()> {
    let refused = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            Message::new(format!(
                "cannot pin a thread to core {core}: not among the cores this process may use"
            ))
            .with_help(format!("choose one of {:?}", available_cores())),
        )
    };
    if core >= CpuSet::MAX_CPU {
        return Err(refused());
    }
    let mut set = CpuSet::new();
    set.set(core);
    match sched_setaffinity(None, &set) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL) => Err(refused()),
        Err(other) => Err(other.into()),
    }
}

/// The kernel's number of the calling thread, as `top -H` and `/proc/self/task` show it.
pub fn thread_id() -> i32 {
    gettid().as_raw_nonzero().get()
}

/// CPU time of the calling thread since it started: the sum from the thread's own clock, to the nanosecond, and the split from
/// `getrusage(2)` (`RUSAGE_THREAD`), whose own sum may be behind by a tick of the scheduler.
///
/// # Errors
///
/// The error of the kernel. No cause is known.
pub fn current_thread_cpu() -> io::Result<CpuTime> {
    let split = usage_of(libc::RUSAGE_THREAD)?;
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let total =
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Ok(split.scaled_to(total))
}

/// CPU time of all threads of this process, including threads that have ended (`RUSAGE_SELF`). Resolution: one microsecond.
///
/// # Errors
///
/// The error of the kernel. No cause is known.
pub fn process_cpu() -> io::Result<CpuTime> {
    usage_of(libc::RUSAGE_SELF)
}

#[allow(unsafe_code)]
fn usage_of(whom: libc::c_int) -> io::Result<CpuTime> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes of one `rusage` for the whole call, and the kernel keeps no pointer to it.
    if unsafe { libc::getrusage(whom, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were zeroed, which is a valid `rusage` (integers only), and the call has filled them in.
    let usage = unsafe { usage.assume_init() };
    Ok(CpuTime { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
}

/// CPU time that a thread of this process has used since it started, user and system together.
///
/// `tid` is the thread's [`thread_id`]. Exact, to the nanosecond, also while the thread runs: one system call reads its CPU
/// clock, and the thread itself is not disturbed.
///
/// # Errors
///
/// `NotFound` if this process has no such thread (any more).
#[allow(unsafe_code)]
pub fn thread_run_time(tid: i32) -> io::Result<Duration> {
    // The kernel's form of a clock id for a thread's own scheduled time (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED), as
    // `pthread_getcpuclockid` makes it.
    // Numbers of threads end at 2^22. A larger one would lose its highest bits, and become that of another clock.
    let clock = if (1..1 << 22).contains(&tid) { (!tid << 3) | 6 } else { libc::clockid_t::MAX };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call, which writes one timespec to it; a wrong id only gives an error.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result == -1 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            Message::new(format!(
                "cannot read the CPU time of thread {tid}: this process has no such thread"
            ))
            .with_help("give that of a running one"),
        ));
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// How often a thread has left its core.
///
/// ```
/// use anywire_sys::cpu;
///
/// let before = cpu::context_switches(cpu::thread_id())?;
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// let switches = cpu::context_switches(cpu::thread_id())? - before;
/// assert!(switches.voluntary >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// Because it waited for something: a socket, a lock, a timer.
    pub voluntary: u64,
    /// Because the scheduler gave its core to another thread.
    pub involuntary: u64,
}

impl Sub for ContextSwitches {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

impl Add for ContextSwitches {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
        }
    }
}

/// The context switches of a thread of this process since it started (its number: [`thread_id`]).
///
/// # Errors
///
/// `NotFound` if this process has no such thread (any more); `InvalidData` if the kernel does not say.
pub fn context_switches(tid: i32) -> io::Result<ContextSwitches> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/status"))?;
    switches_in(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            Message::new(format!(
                "cannot read the context switches of thread {tid}: its status in /proc does not hold them"
            ))
            .with_help("use a kernel of 2.6.23 or later"),
        )
    })
}

pub(crate) fn switches_in(status: &str) -> Option<ContextSwitches> {
    let of = |label: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(label))?.trim().parse().ok()
    };
    Some(ContextSwitches {
        voluntary: of("voluntary_ctxt_switches:")?,
        involuntary: of("nonvoluntary_ctxt_switches:")?,
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ms: u64, system_ms: u64) -> CpuTime {
        CpuTime { user: Duration::from_millis(user_ms), system: Duration::from_millis(system_ms) }
    }

    #[test]
    fn difference_never_goes_below_zero() {
        // What one part lost, the other has gained.
        assert_eq!(time(5, 1) - time(2, 3), time(1, 0));
        assert_eq!(time(2, 3) - time(5, 1), time(0, 0));
        assert_eq!(time(5, 1) + time(2, 3), time(7, 4));
        assert_eq!(time(5, 1).total(), Duration::from_millis(6));
    }

    #[test]
    fn a_split_is_scaled_to_the_sum() {
        assert_eq!(time(1, 3).scaled_to(Duration::from_millis(8)), time(2, 6));
        assert_eq!(time(0, 0).scaled_to(Duration::from_millis(8)), time(8, 0));
        let long = Duration::from_secs(1 << 32);
        assert_eq!(CpuTime { user: long, system: long }.scaled_to(long).total(), long);
    }

    #[test]
    fn the_sum_is_that_of_the_own_clock() {
        let id = thread_id();
        for _ in 0..100 {
            // The clock counts on, so that the sum is between what it says before and after.
            let before = thread_run_time(id).expect("own thread");
            let sum = current_thread_cpu().expect("own thread").total();
            let after = thread_run_time(id).expect("own thread");
            assert!((before..=after).contains(&sum), "{sum:?} is not between {before:?} and {after:?}");
        }
    }

    #[test]
    fn switches_are_found_by_their_whole_label() {
        let text = "Threads:\t1\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_in(text), Some(ContextSwitches { voluntary: 12, involuntary: 3 }));
        assert_eq!(switches_in("voluntary_ctxt_switches: x\n"), None);
    }

    #[test]
    fn the_process_has_used_what_its_threads_have() {
        let own = current_thread_cpu().expect("own thread");
        let all = process_cpu().expect("own process");
        assert!(own.total() <= all.total() + Duration::from_millis(1), "{own:?} of {all:?}");
    }

    #[test]
    fn an_impossible_core_is_refused_with_the_possible_ones() {
        for core in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = pin_current_thread(core).expect_err("no machine has this core");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("{:?}", available_cores())), "{error}");
        }
    }
}
