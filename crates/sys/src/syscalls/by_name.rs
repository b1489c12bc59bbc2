//! The system calls of a thread and of the threads it starts, each by its name.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use super::{CounterError, SyscallCounter};

/// Counts the system calls of a thread, and of all threads that it starts from then on, by name.
///
/// The kernel has one counter for each of the calls that servers make, with a filter on the call's number, and one for all
/// calls. The difference is `other`. Each call passes some twenty counters: measure time without them.
///
/// ```
/// use anywire_sys::{cpu, syscalls::CallsByName};
///
/// match CallsByName::for_thread(cpu::thread_id()) {
///     Ok(mut counter) => {
///         counter.enable()?;
///         std::fs::read("/proc/self/stat")?;
///         counter.disable()?;
///         assert!(counter.read()?["read"] >= 1);
///     }
///     Err(why_not) => println!("{why_not}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct CallsByName {
    /// The leader of the group: while it counts, all do.
    all: Counted,
    named: Vec<(&'static str, Counted)>,
}

impl CallsByName {
    /// Prepares the counters, disabled, for a thread of this process (its number: [`crate::cpu::thread_id`]).
    ///
    /// # Errors
    ///
    /// See [`CounterError`]. Counting is an extra that many systems forbid: callers go on without it.
    pub fn for_thread(tid: i32) -> Result<Self, CounterError> {
        let all = Counted { counter: SyscallCounter::for_thread_and_its_threads(tid, None)?, start: 0 };
        let named = CALLS.iter().map(|&(name, number)| {
            let counter = SyscallCounter::for_thread_and_its_threads(tid, Some(&all.counter))?;
            let filter = CString::new(format!("id == {number}")).expect("digits and letters hold no NUL");
            counter.set_filter(&filter).map_err(CounterError::System)?;
            Ok((name, Counted { counter, start: 0 }))
        });
        Ok(Self { named: named.collect::<Result<_, CounterError>>()?, all })
    }

    /// Starts counting from zero.
    ///
    /// # Errors
    ///
    /// The error of the kernel. No cause is known on open counters.
    pub fn enable(&mut self) -> io::Result<()> {
        // Counts of threads that have ended cannot be reset, so the start is remembered.
        for counted in self.named.iter_mut().map(|(_, counted)| counted).chain([&mut self.all]) {
            counted.start = counted.counter.read()?;
        }
        self.all.counter.enable()
    }

    /// Stops counting; [`CallsByName::read`] then gives the same each time.
    ///
    /// # Errors
    ///
    /// As [`CallsByName::enable`].
    pub fn disable(&self) -> io::Result<()> {
        self.all.counter.disable()
    }

    /// The calls since it was enabled, by name; calls that were never made are left out.
    ///
    /// # Errors
    ///
    /// As [`SyscallCounter::read`].
    pub fn read(&self) -> io::Result<BTreeMap<&'static str, u64>> {
        let mut calls = BTreeMap::new();
        let mut others = self.all.read()?;
        for (name, counted) in &self.named {
            let count = counted.read()?;
            others = others.saturating_sub(count);
            calls.insert(*name, count);
        }
        calls.insert("other", others);
        calls.retain(|_, count| *count > 0);
        Ok(calls)
    }
}

/// A counter, and its value when it was enabled.
#[derive(Debug)]
struct Counted {
    counter: SyscallCounter,
    start: u64,
}

impl Counted {
    fn read(&self) -> io::Result<u64> {
        Ok(self.counter.read()?.saturating_sub(self.start))
    }
}

/// The calls that servers make on their way, with the numbers of this architecture.
const CALLS: &[(&str, libc::c_long)] = &[
    ("accept", libc::SYS_accept),
    ("accept4", libc::SYS_accept4),
    ("close", libc::SYS_close),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("epoll_pwait", libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", libc::SYS_epoll_wait),
    ("futex", libc::SYS_futex),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("madvise", libc::SYS_madvise),
    #[cfg(target_arch = "x86_64")]
    ("poll", libc::SYS_poll),
    ("ppoll", libc::SYS_ppoll),
    ("pselect6", libc::SYS_pselect6),
    ("read", libc::SYS_read),
    ("readv", libc::SYS_readv),
    ("recvfrom", libc::SYS_recvfrom),
    ("recvmsg", libc::SYS_recvmsg),
    ("sched_yield", libc::SYS_sched_yield),
    #[cfg(target_arch = "x86_64")]
    ("select", libc::SYS_select),
    ("sendmsg", libc::SYS_sendmsg),
    ("sendto", libc::SYS_sendto),
    ("write", libc::SYS_write),
    ("writev", libc::SYS_writev),
];
