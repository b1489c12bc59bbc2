//! The right to start listening somewhere: one server at a time has it, in this process or in another one.
//!
//! A server cannot look at an address and take it in one step. It has to find a stale socket file and replace it, and
//! it has to make the sockets of a TCP port a group. Servers that start at the same moment therefore take turns. A
//! claim is an abstract Unix name. The system gives it to one socket at a time, and takes it back when that is closed,
//! however its process ends: nothing is left behind. Like ports, such names belong to a network namespace; servers of
//! two of them that share a folder do not see each other's claims.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

/// Held while a server starts to listen, or takes its file away.
pub(crate) struct Claim {
    /// None where the system gives no Unix sockets to this process.
    _socket: Option<Socket>,
}

impl Claim {
    /// The one for a TCP port.
    pub(crate) fn of_port(port: u16) -> io::Result<Self> {
        Self::take(format_args!("tcp:{port}"), PATIENCE)
    }

    /// The one for the folder that a socket file is in, however its path is written.
    pub(crate) fn of_folder(file: &Path) -> io::Result<Self> {
        Self::of_folder_within(file, PATIENCE)
    }

    /// The same for a caller that must not block for long, because it may run on a loop.
    pub(crate) fn of_folder_soon(file: &Path) -> io::Result<Self> {
        Self::of_folder_within(file, PATIENCE_ON_A_LOOP)
    }

    fn of_folder_within(file: &Path, patience: Duration) -> io::Result<Self> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).metadata()?;
        Self::take(format_args!("unix:{:x}:{:x}", folder.dev(), folder.ino()), patience)
    }

    /// Waits while another server has it. The error is `AddrInUse` if that takes much longer than starting to listen.
    fn take(what: fmt::Arguments<'_>, patience: Duration) -> io::Result<Self> {
        let name = SockAddr::unix(format!("\0anywire-claim:{what}"))?;
        let socket = match Socket::new(Domain::UNIX, Type::STREAM, None) {
            Ok(socket) => socket,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => {
                return Ok(Self { _socket: None });
            }
            Err(error) => return Err(error),
        };
        let gives_up = Instant::now() + patience;
        loop {
            match socket.bind(&name) {
                Ok(()) => return Ok(Self { _socket: Some(socket) }),
                Err(taken) if taken.kind() == io::ErrorKind::AddrInUse && Instant::now() < gives_up => {
                    thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Starting to listen takes far less than a millisecond; a process that was stopped in the midst of it must not hold
/// up others for good.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };
/// A listener that is dropped removes its socket file under the claim. If the claim cannot be had, the file stays, and the
/// next server finds it stale.
const PATIENCE_ON_A_LOOP: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(1);

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
            Err(ListenError::InUse { .. }) => true,
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
