//! The right to start listening somewhere: one server at a time has it, in this process or in another one.
//!
//! A server cannot look at an address and take it in one step. It has to find a stale socket file and replace it, and
//! it has to make the sockets of a TCP port a group. Servers that start at the same moment therefore take turns. A
//! claim is an abstract Unix name. The system gives it to one socket at a time, and takes it back when that is closed,
//! however its process ends: nothing is left behind. Like ports, such names belong to a network namespace; servers of
//! two of them that share a folder do not see each other's claims.
//!
//! Any user may bind such a name. So only the claims of those count who may disturb the start anyway: this user, root, and who may
//! write to the folder of a socket file. The system says whose a socket is, if it listens.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;
use socket2::{Domain, SockAddr, Socket, Type};

/// Held while a server starts to listen, or takes its file away; that of an interface as long as a process has it.
pub(crate) struct Claim {
    /// None where the system gives no Unix sockets to this process, or a stranger has the name.
    _socket: Option<Socket>,
}

/// A server has had the claim for much longer than starting to listen takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("process {pid} of user {uid} has held `@{name}` for more than {after:?}")]
pub(crate) struct ClaimHeld {
    pub(crate) name: String,
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    after: Duration,
}

impl ClaimHeld {
    /// That of an error, if it is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl Claim {
    /// The one for a TCP port.
    pub(crate) fn of_port(port: u16) -> io::Result<Self> {
        Self::take(format_args!("tcp:{port}"), None, PATIENCE)
    }

    /// The one for the folder that a socket file is in, however its path is written.
    pub(crate) fn of_folder(file: &Path) -> io::Result<Self> {
        Self::of_folder_within(file, PATIENCE)
    }

    /// The same for a caller that must not block for long, because it may run on a loop.
    pub(crate) fn of_folder_soon(file: &Path) -> io::Result<Self> {
        Self::of_folder_within(file, PATIENCE_ON_A_LOOP)
    }

    /// The one for a network interface of this thread's network namespace, to be held as long as its frames come to this process.
    #[cfg(feature = "stack")]
    pub(crate) fn of_interface(name: &str, index: u32) -> io::Result<Self> {
        Self::take(format_args!("interface:{index}:{name}"), None, PATIENCE_ON_A_LOOP)
    }

    fn of_folder_within(file: &Path, patience: Duration) -> io::Result<Self> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).metadata()?;
        let name = format_args!("unix:{:x}:{:x}", folder.dev(), folder.ino());
        Self::take(name, Some(&folder), patience)
    }

    /// Waits while another server has it. The error is [`ClaimHeld`] if that takes much longer than starting to listen.
    fn take(what: fmt::Arguments<'_>, folder: Option<&Metadata>, patience: Duration) -> io::Result<Self> {
        Self::take_pausing(what, folder, patience, || thread::sleep(PAUSE))
    }

    /// The same with a pause of one's own between looks at a socket that does not listen.
    fn take_pausing(
        what: fmt::Arguments<'_>,
        folder: Option<&Metadata>,
        patience: Duration,
        mut pause: impl FnMut(),
    ) -> io::Result<Self> {
        let name = format!("anywire-claim:{what}");
        let address = SockAddr::unix(format!("\0{name}"))?;
        // Of a kind that hardly anybody uses, so that a socket of another kind is no claim.
        let socket = match Socket::new(Domain::UNIX, Type::SEQPACKET, None) {
            Ok(socket) => socket,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => {
                return Ok(Self { _socket: None });
            }
            Err(error) => return Err(error),
        };
        let gives_up = Instant::now() + patience;
        // A stranger's socket that never listens must not block a loop any longer than one that does.
        let silent_looks_max = SILENT_LOOKS_MAX.min((patience.as_nanos() / PAUSE.as_nanos()) as u32);
        let mut silent_looks = 0;
        loop {
            match socket.bind(&address) {
                Ok(()) => {
                    // Tells others whose it is.
                    socket.listen(WAITING_MAX)?;
                    return Ok(Self { _socket: Some(socket) });
                }
                Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
            let left = gives_up.saturating_duration_since(Instant::now());
            match look_at_holder(&address)? {
                Holder::Listens(holder, socket) if is_trusted(&holder, folder) => {
                    if !ends_within(&socket, left)? {
                        let (pid, uid) = (holder.pid.as_raw_pid(), holder.uid.as_raw());
                        let held = ClaimHeld { name, pid, uid, after: patience };
                        return Err(io::Error::new(io::ErrorKind::AddrInUse, held));
                    }
                    silent_looks = 0;
                }
                // It has gone, or has not come to listen yet.
                Holder::IsSilent if silent_looks < silent_looks_max && !left.is_zero() => {
                    silent_looks += 1;
                    pause();
                }
                Holder::Listens(..) | Holder::IsSilent | Holder::IsNoClaim => {
                    tracing::warn!(%name, "a stranger has bound the name by which servers that start take turns");
                    return Ok(Self { _socket: None });
                }
            }
        }
    }
}

/// Who has a name that could not be bound.
enum Holder {
    /// With a connection to it, which ends with it.
    Listens(UCred, Socket),
    /// It is free by now, or its socket does not accept yet.
    IsSilent,
    /// A socket of another kind.
    IsNoClaim,
}

fn look_at_holder(address: &SockAddr) -> io::Result<Holder> {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    socket.set_nonblocking(true)?;
    Ok(match socket.connect(address) {
        Ok(()) => Holder::Listens(socket_peercred(&socket)?, socket),
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => Holder::IsSilent,
        // As many wait for it as may.
        Err(full) if full.kind() == io::ErrorKind::WouldBlock => Holder::IsSilent,
        Err(_) => Holder::IsNoClaim,
    })
}

/// Whether somebody may hold up this process: by right, or because it could do so by other means.
fn is_trusted(holder: &UCred, folder: Option<&Metadata>) -> bool {
    let uid = holder.uid.as_raw();
    uid == 0
        || uid == rustix::process::geteuid().as_raw()
        || folder.is_some_and(|folder| {
            // In a folder with the sticky bit (1000), only the owner of a file may replace it.
            let may_write = folder.mode() & 0o1000 == 0
                && (folder.mode() & 0o002 != 0
                    || (folder.mode() & 0o020 != 0 && folder.gid() == holder.gid.as_raw()));
            folder.uid() == uid || may_write
        })
}

/// Whether the peer of this socket closes its own within this time.
fn ends_within(socket: &Socket, time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).ok();
    // Its end is always told.
    let ready =
        rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(socket, PollFlags::empty())], time.as_ref()))?;
    Ok(ready > 0)
}

/// Starting to listen takes far less than a millisecond; a process that was stopped in the midst of it must not hold
/// up others for good.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };
/// A listener that is dropped removes its socket file under the claim. If the claim cannot be had, the file stays, and the
/// next server finds it stale.
const PATIENCE_ON_A_LOOP: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(1);
/// A claim listens as soon as it is bound.
const SILENT_LOOKS_MAX: u32 = 200;
/// Servers that wait for one claim, and have looked whose it is.
const WAITING_MAX: i32 = 4096;

#[cfg(test)]
mod tests {
    use anywire_loops::Loops;

    use super::*;
    use crate::{Address, ListenError, ListenOptions, Listener};

    /// Whether a server comes to listen there.
    fn is_taken(address: &str) -> bool {
        let address: Address = address.parse().expect("an address");
        let bound = Listener::bind(&address, &ListenOptions::default(), &Loops::start(1).expect("a thread"));
        match bound {
            Ok(_) => false,
            Err(ListenError::Claimed { address: at, pid, .. }) => {
                assert_eq!((&at, pid), (&address, std::process::id() as i32));
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn nobody_starts_to_listen_on_a_port_while_another_one_does() {
        // Two ports of this process, at an address of this machine that no other test uses.
        let port = 10_000 + (std::process::id() as u16 % 5000) * 2;
        let claim = Claim::of_port(port).expect("nobody has it");
        assert!(is_taken(&format!("tcp:127.7.7.7:{port}")));
        assert!(!is_taken(&format!("tcp:127.7.7.7:{}", port + 1)), "the claim is to one port");
        drop(claim);
        assert!(!is_taken(&format!("tcp:127.7.7.7:{port}")));
    }

    #[test]
    fn who_cannot_have_the_claim_leaves_the_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("app.sock");
        let address: Address = format!("unix:{}", file.display()).parse().expect("an address");
        let loops = Loops::start(1).expect("a thread");
        let listener = Listener::bind(&address, &ListenOptions::default(), &loops).expect("nobody is there");
        let claim = Claim::of_folder(&file).expect("it listens already");
        drop(listener);
        assert!(file.exists(), "it may be about to be another one's");
        drop(claim);
        assert!(!is_taken(&address.to_string()), "the next one finds it stale");
    }

    /// The name of a folder's claim, bound by a socket that lets nobody in.
    #[test]
    fn a_stranger_that_is_silent_is_waited_for_no_longer_than_one_that_listens() {
        let silent = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
        let name = format!("test:{}", std::process::id());
        let address = SockAddr::unix(format!("\0anywire-claim:{name}")).expect("it is short");
        silent.bind(&address).expect("nobody has it");
        for (patience, pauses_max) in [(PATIENCE_ON_A_LOOP, 50), (Duration::ZERO, 0)] {
            let mut pauses = 0;
            let taken = Claim::take_pausing(format_args!("{name}"), None, patience, || pauses += 1);
            assert!(taken.is_ok_and(|claim| claim._socket.is_none()), "it goes on without");
            assert!(pauses <= pauses_max, "{pauses} ms in {patience:?}");
        }
    }

    #[test]
    fn nobody_starts_to_listen_in_a_folder_while_another_one_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("other")).expect("it is ours");
        let file = folder.path().join("app.sock");
        let claim = Claim::of_folder(&file).expect("nobody has it");
        let address = |file: &str| format!("unix:{}/{file}", folder.path().display());
        assert!(is_taken(&address("app.sock")));
        assert!(is_taken(&address("other/../app.sock")), "by whatever path");
        assert!(!is_taken(&address("other/app.sock")), "the claim is to one folder");
        assert!(!file.exists(), "who is refused leaves nothing behind");
        drop(claim);
        assert!(!is_taken(&address("app.sock")));
    }
}
