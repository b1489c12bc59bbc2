//! Another process of this machine: what its threads have used of the processor, and what each of them waits for.
//!
//! All of it is read from `/proc`, so that the process is neither stopped nor slowed down.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

use anywire_advice::Message;

use crate::cpu::{ContextSwitches, switches_in};

/// A thread, as it is at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadUse {
    /// The number of its process.
    pub pid: i32,
    /// Its own number.
    pub tid: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// CPU time since it started, to the nanosecond (`schedstat`). `None` if the kernel does not count it.
    pub run_time: Option<Duration>,
    /// The part in its own code, in steps of 10 ms.
    pub user: Duration,
    /// The part in the kernel, in steps of 10 ms.
    pub system: Duration,
    /// How often it has left its core. `None` if the kernel does not say.
    pub switches: Option<ContextSwitches>,
    /// What it waits for. `None` if this process may not look (root may), or the thread runs.
    pub waits_for: Option<Wait>,
}

/// What a thread waits for, by its system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Any of several descriptors, as an event loop does (`epoll_wait`, `poll`, `select`, `io_uring_enter`).
    Events,
    /// A connection to accept, or bytes of one descriptor.
    Descriptor,
    /// The end of a time (`nanosleep`).
    Time,
    /// The end of a child process.
    Child,
    /// Something else: a lock, work from another thread.
    Other,
}

/// What a thread does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doing {
    /// It runs, or could if there was a core for it.
    Runs,
    /// It waits in a system call.
    Sleeps {
        /// For what.
        wait: Wait,
        /// The descriptor that several threads may wait on (`epoll_wait`, `io_uring_enter`).
        descriptor: Option<i32>,
    },
}

/// What each thread of a process does at this moment, by its number: quick enough to be asked again and again. Those that have ended, or
/// that this process may not look at (root may), are left out.
pub fn doing_of(pid: i32) -> Vec<(i32, Doing)> {
    let tids = tids_of(pid).unwrap_or_default().into_iter();
    let doing = |tid| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
        Some((tid, doing_in(&text)?))
    };
    tids.filter_map(doing).collect()
}

/// CPU time of a thread since it started: to the nanosecond, or in steps of 10 ms if the kernel has no `schedstat`. `None` if the thread
/// has ended.
pub fn run_time_of(pid: i32, tid: i32) -> Option<Duration> {
    run_time(pid, tid).or_else(|| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        times_in(&stat).map(|(_, user, system)| user + system)
    })
}

fn run_time(pid: i32, tid: i32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The threads of a process and of its child processes, at this moment. A thread that ends meanwhile is left out.
///
/// ```
/// use anywire_sys::process::threads_of;
///
/// let threads = threads_of(std::process::id() as i32)?;
/// assert!(threads.iter().any(|thread| thread.tid == anywire_sys::cpu::thread_id()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `NotFound` if there is no such process; else that its threads cannot be read.
pub fn threads_of(pid: i32) -> io::Result<Vec<ThreadUse>> {
    let mut threads = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![pid];
    while let Some(process) = waiting.pop() {
        if !seen.insert(process) || seen.len() > PROCESSES_MAX {
            continue;
        }
        match tids_of(process) {
            Ok(tids) => {
                for tid in tids {
                    threads.extend(thread(process, tid));
                    waiting.extend(children_of(process, tid));
                }
            }
            Err(error) if process == pid => return Err(unreadable(pid, error)),
            // A child that has ended.
            Err(_) => {}
        }
    }
    Ok(threads)
}

fn unreadable(pid: i32, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let message = Message::new(format!("cannot read the threads of process {pid}: there is no such process"))
        .with_help("give the number of one that runs on this machine, and in this namespace");
    io::Error::new(io::ErrorKind::NotFound, message)
}

fn tids_of(pid: i32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The processes that a thread has started and that are still its children. None if the kernel does not say
/// (`CONFIG_PROC_CHILDREN`).
fn children_of(pid: i32, tid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// `None` if the thread has ended.
fn thread(pid: i32, tid: i32) -> Option<ThreadUse> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let (name, user, system) = times_in(&read("stat")?)?;
    Some(ThreadUse {
        pid,
        tid,
        name,
        run_time: run_time(pid, tid),
        user,
        system,
        switches: read("status").and_then(|text| switches_in(&text)),
        waits_for: read("syscall").and_then(|text| wait_in(&text)),
    })
}

/// The name and both times in `/proc/PID/task/TID/stat` (proc(5)). The name is in brackets and may hold any byte.
fn times_in(stat: &str) -> Option<(String, Duration, Duration)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // The first of these is the state, which is the third of all.
    let fields: Vec<_> = after.split_ascii_whitespace().collect();
    let ticks = |at: usize| {
        fields.get(at - 3)?.parse().ok().map(|ticks: u64| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
    };
    Some((name.to_owned(), ticks(14)?, ticks(15)?))
}

/// The system call in `/proc/PID/task/TID/syscall`: its number first, `running` while the thread runs, -1 outside of a call.
fn wait_in(text: &str) -> Option<Wait> {
    let number: libc::c_long = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(match number {
        number if EVENTS.contains(&number) => Wait::Events,
        number if DESCRIPTOR.contains(&number) => Wait::Descriptor,
        number if TIME.contains(&number) => Wait::Time,
        number if CHILD.contains(&number) => Wait::Child,
        _ => Wait::Other,
    })
}

/// The same with what it waits on, which is the first argument.
fn doing_in(text: &str) -> Option<Doing> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Doing::Runs);
    }
    let wait = wait_in(text)?;
    let is_shared = first.parse().is_ok_and(|number: libc::c_long| SHARED.contains(&number));
    let argument = words.next().and_then(|word| i32::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    Some(Doing::Sleeps { wait, descriptor: argument.filter(|_| is_shared) })
}

const EVENTS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_io_uring_enter,
];

/// Those that wait on a descriptor which stands for many, and which several threads may wait on.
const SHARED: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_io_uring_enter,
];

const TIME: &[libc::c_long] = &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep];

const CHILD: &[libc::c_long] = &[libc::SYS_wait4, libc::SYS_waitid];

const DESCRIPTOR: &[libc::c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
];

/// What `stat` counts in (`USER_HZ`), which is 1/100 s on every architecture that Rust has.
const TICK: Duration = Duration::from_millis(10);

/// More than a server has workers; a shell that has started everything is no server.
const PROCESSES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 90 0 0 0 12 34 0 0 20 0 1 0 5 0 0";
        let (user, system) = (Duration::from_millis(120), Duration::from_millis(340));
        assert_eq!(times_in(stat), Some(("a) b (c".to_owned(), user, system)));
        for cut in ["", "7", "7 (a", "7 (a)", "7 (a) S 1 2", "7 (a) S 1 7 7 0 -1 4194304 90 0 0 0 x 34"] {
            assert_eq!(times_in(cut), None, "{cut}");
        }
    }

    #[test]
    fn the_call_of_a_thread_says_what_it_waits_for() {
        let text = |number: libc::c_long| format!("{number} 0x4 0x7f 0x0 0x0 0x0 0x0 0x7ffd 0x7f12");
        assert_eq!(wait_in(&text(libc::SYS_epoll_pwait)), Some(Wait::Events));
        assert_eq!(wait_in(&text(libc::SYS_accept4)), Some(Wait::Descriptor));
        assert_eq!(wait_in(&text(libc::SYS_futex)), Some(Wait::Other));
        assert_eq!(wait_in(&text(libc::SYS_clock_nanosleep)), Some(Wait::Time));
        assert_eq!(wait_in(&text(libc::SYS_wait4)), Some(Wait::Child));
        let sleeps = |wait, descriptor| Some(Doing::Sleeps { wait, descriptor });
        assert_eq!(doing_in(&text(libc::SYS_epoll_pwait)), sleeps(Wait::Events, Some(4)));
        assert_eq!(doing_in(&text(libc::SYS_ppoll)), sleeps(Wait::Events, None));
        assert_eq!(doing_in(&text(libc::SYS_futex)), sleeps(Wait::Other, None));
        assert_eq!((doing_in("running\n"), doing_in("")), (Some(Doing::Runs), None));
        assert_eq!(wait_in("running\n"), None);
        assert_eq!(wait_in(""), None);
    }

    #[test]
    fn this_process_is_seen_at_work() {
        let own = |threads: Vec<ThreadUse>| {
            threads
                .into_iter()
                .find(|thread| thread.tid == crate::cpu::thread_id())
                .expect("this thread runs")
        };
        let pid = std::process::id() as i32;
        let before = own(threads_of(pid).expect("our own"));
        assert_eq!(before.pid, pid);
        while own(threads_of(pid).expect("our own")).run_time <= before.run_time {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
        let error = threads_of(i32::MAX).expect_err("numbers of processes end at 2^22");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no such process"), "{error}");
    }
    proptest! {
        #[test]
        fn any_name_is_read(name in "\\PC{0,15}", user in 0..1_u64 << 31, system in 0..1_u64 << 31) {
            let stat = format!("7 ({name}) S 1 7 7 0 -1 4194304 90 0 0 0 {user} {system} 0 0 20 0 1 0 5 0 0");
            let (read, user_time, system_time) = times_in(&stat).expect("the kernel writes so");
            prop_assert_eq!(read, name);
            prop_assert_eq!((user_time, system_time), (TICK * user as u32, TICK * system as u32));
        }

        #[test]
        fn any_text_is_read_or_unknown(
            text in "\\PC*|7 \\(a\\)( -?[0-9]{1,21}){0,20}|-?[0-9]{1,21}( 0x[0-9a-f]{1,16}){0,8}",
        ) {
            let _ = (times_in(&text), wait_in(&text), doing_in(&text), switches_in(&text));
        }
    }
}
