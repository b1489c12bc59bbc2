//! `unix:PATH` and `unix:@NAME`: Unix stream sockets, by file or by abstract name.

use std::fs;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

use crate::address::Address;
use crate::connection::{Connection, Credentials, Transport};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::socket::{SocketAcceptor, tokio_stream};
use crate::wires::{Arrival, Bound, Dialing, Wire};

/// Unix sockets. One listening socket in all, whose arrivals are handed to the loops in turn: the system has no
/// SO_REUSEPORT for them.
pub(crate) struct Unix;

impl Wire for Unix {
    fn scheme(&self) -> &'static str {
        "unix"
    }

    fn summary(&self) -> &'static str {
        "Unix socket, by path or (with @) by abstract name, which has no file and no file permissions"
    }

    fn form(&self) -> &'static str {
        "a path of at most 107 bytes such as unix:/run/app.sock, or an abstract name such as unix:@app"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        if location.contains('\0') {
            return Err("a NUL byte is in it".to_owned());
        }
        match location.strip_prefix('@') {
            Some("") => return Err("the name is empty".to_owned()),
            None if location.is_empty() => return Err("the path is empty".to_owned()),
            _ => {}
        }
        if location.len() > PATH_MAX_BYTES {
            return Err(format!("it is {} bytes long", location.len()));
        }
        Ok(location.to_owned())
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        _: usize,
    ) -> Result<Bound, ListenError> {
        let failed = |cause| ListenError::of(address, cause);
        let path = file(address);
        if let Some(path) = path {
            make_room(path, address)?;
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        socket.bind(&SockAddr::unix(system_name(address)).map_err(failed)?).map_err(failed)?;
        let mut guard: Option<Box<dyn Send + Sync>> = None;
        if let Some(path) = path {
            let file = SocketFile::of(path).map_err(failed)?;
            guard = Some(Box::new(file));
            if let Some(mode) = options.unix_mode {
                // Nobody can connect before listen, so a wider mode is never open to use.
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
            }
        }
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX)).map_err(failed)?;
        let acceptor = SocketAcceptor::new(socket.into(), UnixListener::from_std, accept);
        Ok(Bound { local: address.clone(), acceptors: vec![Box::new(acceptor)], guard })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let connecting = async {
                loop {
                    match UnixStream::connect(system_name(address)).await {
                        // A full backlog: unlike TCP the system neither queues nor tells when there is room.
                        Err(full) if full.kind() == io::ErrorKind::WouldBlock => {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        done => return done.map_err(|cause| DialError::of(address, cause)),
                    }
                }
            };
            let after = options.connect_timeout;
            let connected = tokio::time::timeout(after, connecting).await;
            let stream =
                connected.unwrap_or_else(|_| Err(DialError::Timeout { address: address.clone(), after }))?;
            Ok(Connection::new(Box::new(UnixTransport { stream })))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anywire-{}-{number}.sock", std::process::id()));
        Address::new(self, path.to_str()?).ok()
    }
}

/// The path, unless the name is abstract.
fn file(address: &Address) -> Option<&Path> {
    (!address.location().starts_with('@')).then(|| Path::new(address.location()))
}

/// As the system wants it: an abstract name begins with NUL.
fn system_name(address: &Address) -> PathBuf {
    match address.location().strip_prefix('@') {
        Some(name) => format!("\0{name}").into(),
        None => address.location().into(),
    }
}

/// Takes a stale socket file away: one that nobody answers at.
fn make_room(path: &Path, address: &Address) -> Result<(), ListenError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket { address: address.clone() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|cause| ListenError::of(address, cause))
        }
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(forbidden) if forbidden.kind() == io::ErrorKind::PermissionDenied => {
            Err(ListenError::Permission { address: address.clone() })
        }
        _ => Err(ListenError::InUse { address: address.clone() }),
    }
}

/// The file of a socket that listens; unlinked when dropped, if it is still ours.
struct SocketFile {
    path: PathBuf,
    /// Device and inode: another server may have replaced the file meanwhile.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let still_ours = identity(&self.path).is_ok_and(|found| found == self.identity);
        if still_ours {
            // If it cannot be removed the next server finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn accept(listener: &UnixListener, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
    let (stream, _) = ready!(listener.poll_accept(cx))?;
    Poll::Ready(Ok(Box::new(Accepted(stream.into_std()?))))
}

/// Off the loop that accepted it, on its way to the one whose turn it is.
struct Accepted(std::os::unix::net::UnixStream);

impl Arrival for Accepted {
    fn settle(self: Box<Self>) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(UnixTransport { stream: UnixStream::from_std(self.0)? }))
    }
}

struct UnixTransport {
    stream: UnixStream,
}

impl Transport for UnixTransport {
    tokio_stream!();

    fn abort(&mut self) {
        // There is no reset on this wire: the peer reads the end, and its writes fail. What it sent and nobody read
        // makes its next read fail with "connection reset".
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Both);
    }

    fn local(&self) -> Address {
        named(SockRef::from(&self.stream).local_addr())
    }

    fn peer(&self) -> Address {
        named(SockRef::from(&self.stream).peer_addr())
    }

    fn credentials(&self) -> Option<Credentials> {
        let peer = socket_peercred(&self.stream).ok()?;
        // Process 0 is one that the namespace of this one does not show.
        let pid = Some(peer.pid.as_raw_pid()).filter(|&pid| pid != 0);
        Some(Credentials { pid, uid: peer.uid.as_raw(), gid: peer.gid.as_raw() })
    }
}

/// The name of one end; the dialling end mostly has none.
fn named(address: io::Result<SockAddr>) -> Address {
    let address = address.ok();
    let location = address.as_ref().and_then(|address| {
        let path = address.as_pathname().map(|path| path.to_string_lossy().into_owned());
        let name =
            || address.as_abstract_namespace().map(|name| format!("@{}", String::from_utf8_lossy(name)));
        path.or_else(name)
    });
    Address::known(&Unix, location.unwrap_or_default())
}

/// `sun_path` has 108 bytes, one of them for the NUL behind a path (or before an abstract name).
const PATH_MAX_BYTES: usize = 107;
