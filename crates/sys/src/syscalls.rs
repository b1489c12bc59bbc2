//! Counting the system calls of a thread, in all or each by its name, by the kernel's own tracepoint.
//!
//! `perf_event_open(2)` on `raw_syscalls:sys_enter` counts each entry into the kernel, without stopping the thread
//! and without a record of any call. Three things must hold: the kernel has the tracepoint, the file system that
//! names it (tracefs) is mounted, and this process may use it. [`CounterError`] says which does not, and what to do.

mod by_name;
mod of_process;

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anywire_advice::Advice;

pub use self::by_name::CallsByName;
pub use self::of_process::CallsOfThreads;
use crate::descriptors;

/// Counts the system calls of one thread while enabled.
///
/// A thread that counts itself sees one call of its own: the one that disables the counter.
///
/// ```
/// use anywire_sys::{cpu, syscalls::SyscallCounter};
///
/// match SyscallCounter::for_thread(cpu::thread_id()) {
///     Ok(counter) => {
///         counter.reset_and_enable()?;
///         std::fs::metadata("/")?;
///         counter.disable()?;
///         println!("{} system calls", counter.read()?);
///     }
///     Err(why_not) => println!("{why_not}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SyscallCounter {
    /// The perf event: the counter lives as long as this is open.
    event: fs::File,
}

impl SyscallCounter {
    /// Prepares a counter, disabled and at zero, for a thread of this process (its number: [`crate::cpu::thread_id`]).
    ///
    /// # Errors
    ///
    /// See [`CounterError`]. Counting is an extra that many systems forbid: callers go on without it.
    pub fn for_thread(tid: i32) -> Result<Self, CounterError> {
        Self::open(tid, FLAG_DISABLED, None)
    }

    /// The same, which also counts the threads that this thread starts from now on, and theirs. With a `leader` it counts
    /// while the leader does.
    fn for_thread_and_its_threads(tid: i32, leader: Option<&Self>) -> Result<Self, CounterError> {
        let disabled = if leader.is_none() { FLAG_DISABLED } else { 0 };
        Self::open(tid, disabled | FLAG_INHERIT, leader)
    }

    fn open(tid: i32, flags: u64, leader: Option<&Self>) -> Result<Self, CounterError> {
        let tracepoint = tracepoint_number(TRACEFS.map(Path::new))?;
        match open_event(tracepoint, tid, flags, leader) {
            // Counters live long, and a server on `select` needs the low numbers.
            Ok(event) => Ok(Self { event: descriptors::move_up(event).into() }),
            Err(source) => Err(CounterError::from_open(source, tid)),
        }
    }

    /// Counts only what this filter lets through, in the language of the kernel's event filters.
    #[allow(unsafe_code)]
    fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and the request reads a string that lives through the call.
        let result = unsafe { libc::ioctl(self.event.as_raw_fd(), SET_FILTER as _, filter.as_ptr()) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sets the counter to zero and starts counting.
    ///
    /// # Errors
    ///
    /// The error of `ioctl(2)`. No cause is known on an open counter.
    pub fn reset_and_enable(&self) -> io::Result<()> {
        self.control(RESET)?;
        self.enable()
    }

    fn enable(&self) -> io::Result<()> {
        self.control(ENABLE)
    }

    /// Stops counting; [`SyscallCounter::read`] then gives the same number each time.
    ///
    /// # Errors
    ///
    /// The error of `ioctl(2)`. No cause is known on an open counter.
    pub fn disable(&self) -> io::Result<()> {
        self.control(DISABLE)
    }

    /// System calls since the last [`SyscallCounter::reset_and_enable`], from all cores the thread ran on.
    ///
    /// # Errors
    ///
    /// What `read(2)` said; `UnexpectedEof` if the kernel has put the event into an error state.
    pub fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.event).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    #[allow(unsafe_code)]
    fn control(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and these three requests take a number, not a pointer.
        let result = unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Why system calls cannot be counted here. Always the system's doing, never a peer's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// tracefs, which gives the tracepoint its number, is mounted at neither usual place. Root can mount it.
    #[error(
        "cannot count system calls: tracefs is mounted neither at /sys/kernel/tracing nor at /sys/kernel/debug/tracing{help}",
        help = Advice("as root: mount -t tracefs tracefs /sys/kernel/tracing")
    )]
    NoTracefs,
    /// tracefs is there, but the kernel was built without the tracepoint.
    #[error(
        "cannot count system calls: no tracepoint raw_syscalls:sys_enter in {}{help}",
        .0.display(),
        help = Advice("a kernel built with CONFIG_FTRACE_SYSCALLS is needed")
    )]
    NoTracepoint(PathBuf),
    /// The file with the tracepoint's number exists and could not be read, mostly because only root may.
    #[error(
        "cannot count system calls: reading {} failed: {source}{help}",
        path.display(),
        help = Advice("run as root, or let this user read it")
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel forbids this process to use the tracepoint (`EACCES`, `EPERM`).
    #[error(
        "cannot count system calls: perf_event_open was denied, with kernel.perf_event_paranoid at {}{help}",
        match .paranoid { Some(level) => level.to_string(), None => "an unknown level".into() },
        help = Advice(
            "run as root, give the program CAP_PERFMON, or as root: sysctl kernel.perf_event_paranoid=-1"
        )
    )]
    Denied {
        /// The value of `/proc/sys/kernel/perf_event_paranoid`; `None` if that cannot be read.
        paranoid: Option<i32>,
    },
    /// The kernel has no `perf_event_open` at all, or a sandbox hides it (`ENOSYS`).
    #[error(
        "cannot count system calls: this kernel has no perf_event_open{help}",
        help = Advice("a kernel built with CONFIG_PERF_EVENTS, outside a sandbox that hides it, is needed")
    )]
    NoPerfEvents,
    /// There is no such thread in this process (any more). The caller's mistake.
    #[error(
        "cannot count system calls: there is no thread {tid}{help}",
        help = Advice("give the number of a running thread")
    )]
    NoSuchThread {
        /// The number asked for.
        tid: i32,
    },
    /// `perf_event_open` failed for another reason, for example a lack of descriptors.
    #[error(
        "cannot count system calls: perf_event_open failed: {0}{help}",
        help = Advice("see perf_event_open(2) for what it means")
    )]
    System(#[source] io::Error),
}

impl CounterError {
    fn from_open(source: io::Error, tid: i32) -> Self {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::Denied { paranoid: paranoid_level() },
            Some(libc::ENOSYS) => Self::NoPerfEvents,
            Some(libc::ESRCH) => Self::NoSuchThread { tid },
            _ => Self::System(source),
        }
    }
}

fn paranoid_level() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

fn tracepoint_number(places: [&Path; 2]) -> Result<u64, CounterError> {
    for place in places {
        let path = place.join("events/raw_syscalls/sys_enter/id");
        match fs::read_to_string(&path) {
            Ok(text) => {
                return text.trim().parse().map_err(|error| CounterError::Unreadable {
                    path,
                    source: io::Error::new(io::ErrorKind::InvalidData, error),
                });
            }
            // The mount point exists without a mount: `events` tells an empty folder from a tracefs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if place.join("events").exists() {
                    return Err(CounterError::NoTracepoint(place.to_owned()));
                }
            }
            Err(source) => return Err(CounterError::Unreadable { path, source }),
        }
    }
    Err(CounterError::NoTracefs)
}

#[allow(unsafe_code)]
fn open_event(tracepoint: u64, tid: i32, flags: u64, leader: Option<&SyscallCounter>) -> io::Result<OwnedFd> {
    let attributes = PerfEventAttributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<PerfEventAttributes>() as u32,
        config: tracepoint,
        flags,
        ..PerfEventAttributes::default()
    };
    let any_core: libc::c_int = -1;
    let group: libc::c_int = leader.map_or(-1, |leader| leader.event.as_raw_fd());
    // SAFETY: `attributes` lives through the call and says its own size, so the kernel reads no further; the other
    // arguments are numbers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            tid,
            any_core,
            group,
            FLAG_CLOSE_ON_EXEC,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The first published form of `struct perf_event_attr` (64 bytes), which all kernels since 2.6.31 take.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<PerfEventAttributes>() == 64);

/// Where tracefs is mounted: its own place since Linux 4.1, and the older one within debugfs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const TYPE_TRACEPOINT: u32 = 2;
const FLAG_DISABLED: u64 = 1;
const FLAG_INHERIT: u64 = 2;
const FLAG_CLOSE_ON_EXEC: libc::c_ulong = 8;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const RESET: libc::c_ulong = 0x2403;
const SET_FILTER: libc::c_ulong = 0x4008_2406;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_the_kernel_has_its_variant() {
        let from = |code| CounterError::from_open(io::Error::from_raw_os_error(code), 7);
        assert!(matches!(from(libc::EACCES), CounterError::Denied { .. }));
        assert!(matches!(from(libc::EPERM), CounterError::Denied { .. }));
        assert!(matches!(from(libc::ENOSYS), CounterError::NoPerfEvents));
        assert!(matches!(from(libc::ESRCH), CounterError::NoSuchThread { tid: 7 }));
        assert!(matches!(from(libc::EMFILE), CounterError::System(_)));
    }

    #[test]
    fn a_missing_tracefs_is_told_from_a_missing_tracepoint() {
        let nowhere = Path::new("/nonexistent");
        assert!(matches!(tracepoint_number([nowhere, nowhere]), Err(CounterError::NoTracefs)));

        let tracefs = std::env::temp_dir().join(format!("anywire-sys-tracefs-{}", std::process::id()));
        let event = tracefs.join("events/raw_syscalls/sys_enter");
        fs::create_dir_all(tracefs.join("events")).expect("the temporary folder is ours");
        assert!(
            matches!(tracepoint_number([nowhere, &tracefs]), Err(CounterError::NoTracepoint(at)) if at == tracefs)
        );

        fs::create_dir_all(&event).expect("the temporary folder is ours");
        fs::write(event.join("id"), "garbage\n").expect("the temporary folder is ours");
        assert!(matches!(tracepoint_number([nowhere, &tracefs]), Err(CounterError::Unreadable { .. })));
        fs::write(event.join("id"), "341\n").expect("the temporary folder is ours");
        assert!(matches!(tracepoint_number([nowhere, &tracefs]), Ok(341)));
        fs::remove_dir_all(&tracefs).expect("the temporary folder is ours");
    }
}
