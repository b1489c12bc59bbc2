//! The limit on open files and sockets (`RLIMIT_NOFILE`): raises it as far as the system allows, keeps low numbers free,
//! and refuses descriptors from strangers.
//!
//! Most systems start a process with a soft limit of 1024, far below the hard one, because some programs still use
//! `select(2)`. A server that holds many connections raises it once, at start.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many descriptors this process may have open, before and after [`raise_limit`].
///
/// `u64::MAX` stands for "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force before the call.
    pub soft_before: u64,
    /// The limit in force now.
    pub soft: u64,
    /// What the limit can be raised to without privilege.
    pub hard: u64,
}

/// Raises the soft limit of this process to its hard limit. Calling it again changes nothing.
///
/// ```
/// let limit = anywire_sys::descriptors::raise_limit()?;
/// assert_eq!(limit.soft, limit.hard);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `setrlimit(2)` said: a sandbox may forbid the call. The limit is then unchanged, and [`limit`] reads it.
pub fn raise_limit() -> io::Result<DescriptorLimit> {
    let before = limit();
    if before.soft == before.hard {
        return Ok(before);
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(DescriptorLimit { soft_before: before.soft, ..limit() })
}

/// The limit as it stands now, changing nothing; `soft_before` and `soft` are the same.
pub fn limit() -> DescriptorLimit {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current.unwrap_or(u64::MAX);
    DescriptorLimit { soft_before: soft, soft, hard: maximum.unwrap_or(u64::MAX) }
}

/// Has the system refuse descriptors that a peer wants to pass over this Unix socket (`SO_PASSRIGHTS`, Linux 6.16): its
/// `sendmsg` fails with `EPERM`. Connections inherit that from their listener.
///
/// Otherwise they arrive even if nothing in this process receives them, and this process closes them. That can block its
/// thread for as long as the peer likes: a TCP socket that lingers, a file of a FUSE file system. On older systems nothing
/// changes.
///
/// ```
/// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
/// anywire_sys::descriptors::refuse_passed(&here);
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(unsafe_code)]
pub fn refuse_passed(socket: impl AsFd) {
    let off: libc::c_int = 0;
    // SAFETY: the borrowed descriptor stays open for the call; the kernel reads one int from `off` and keeps no pointer.
    // An older kernel does not know the option, which is of no interest.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// As in `asm-generic/socket.h`.
const SO_PASSRIGHTS: libc::c_int = 83;

/// The same file under a number of 1024 or more, so that the low ones stay free for code that calls `select(2)`. Where the
/// limit allows no such number, the descriptor stays as it is.
///
/// ```
/// use std::os::fd::{AsRawFd, OwnedFd};
///
/// anywire_sys::descriptors::raise_limit()?;
/// let file = anywire_sys::descriptors::move_up(OwnedFd::from(std::fs::File::open("/dev/null")?));
/// assert!(file.as_raw_fd() >= 1024 || anywire_sys::descriptors::limit().soft <= 1024);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn move_up(descriptor: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&descriptor, LOW_NUMBERS).unwrap_or(descriptor)
}

/// The numbers that `select(2)` can watch: FD_SETSIZE of Linux's C libraries.
const LOW_NUMBERS: i32 = 1024;
