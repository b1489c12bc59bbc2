//! `unix:PATH` and `unix:@NAME`: Unix stream sockets, by file or by abstract name.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_sys::descriptors;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::UnixStream;

use crate::address::Address;
use crate::claim::Claim;
use crate::connection::{Connection, Credentials, Transport, cooperate};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::socket::{Fault, Moved, SocketAcceptor, tokio_stream};
use crate::socket_file::{Blocked, Guard, MODE_MAX, SocketFile, limit_mode, make_room};
use crate::wires::{Arrival, Bound, Dialing, Wire};

/// Unix sockets. There is one listening socket, because the system has no SO_REUSEPORT for them; its connections are
/// distributed round-robin.
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

    fn options(&self) -> &'static [&'static str] {
        &["mode"]
    }

    fn normalise_option(&self, location: &str, _: &str, value: &str) -> Result<String, String> {
        if location.starts_with('@') {
            return Err("an abstract name has no file, so it has no mode".to_owned());
        }
        let mode = mode(value).ok_or_else(|| format!("{value:?} is no mode in octal, such as 660"))?;
        Ok(format!("{mode:o}"))
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        _: usize,
    ) -> Result<Bound, ListenError> {
        let Listening { socket, guard } = listen(address, options)?;
        let acceptor = SocketAcceptor::new(socket, join, leave, accept);
        let local = Address::from_wire(self, address.location());
        Ok(Bound { local, acceptors: vec![Box::new(acceptor)], guard })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let stream = connect(address, options).await?;
            descriptors::refuse_passed(&stream);
            Ok(Connection::new(UnixTransport::new(stream)))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        Some(Address::from_wire(self, self.normalise(&scratch_path("sock")?).ok()?))
    }
}

/// A socket that listens.
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    /// Removes its file when it is dropped.
    pub(crate) guard: Option<Box<dyn Send + Sync>>,
}

/// Listens at the location of an address, which is a path or an abstract name.
pub(crate) fn listen(address: &Address, options: &ListenOptions) -> Result<Listening, ListenError> {
    let failed = |cause| ListenError::from_io(address, cause);
    let path = file(address);
    // Held until the socket listens. Before that, another server would take its file for stale.
    let _claim = path.map(Claim::of_folder).transpose().map_err(failed)?;
    if let Some(path) = path {
        make_room(path, Type::STREAM).map_err(|blocked| match blocked {
            Blocked::NotASocket => ListenError::NotASocket { address: address.clone() },
            Blocked::System(cause) => failed(cause),
        })?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    descriptors::refuse_passed(&socket);
    let mode = address.option("mode").and_then(mode);
    if let Some(mode) = mode {
        limit_mode(&socket, mode).map_err(failed)?;
    }
    socket.bind(&SockAddr::unix(system_name(address)).map_err(failed)?).map_err(failed)?;
    let file = path.map(SocketFile::of).transpose().map_err(failed)?;
    if let Err(cause) = start(&socket, file.as_ref(), mode, options.backlog) {
        file.iter().for_each(SocketFile::remove);
        return Err(failed(cause));
    }
    let guard = file.map(|file| Box::new(Guard(file)) as Box<dyn Send + Sync>);
    Ok(Listening { socket: socket.into(), guard })
}

/// Sets the mode, then listens: before that no peer can connect.
fn start(socket: &Socket, file: Option<&SocketFile>, mode: Option<u32>, backlog: u32) -> io::Result<()> {
    if let (Some(file), Some(mode)) = (file, mode) {
        file.set_mode(mode)?;
    }
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))
}

/// Connects to the location of an address, within the deadline.
pub(crate) async fn connect(address: &Address, options: &DialOptions) -> Result<UnixStream, DialError> {
    let connecting = async {
        loop {
            match UnixStream::connect(system_name(address)).await {
                // A full backlog: unlike TCP the system neither queues nor tells when there is room.
                Err(full) if full.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                done => return done.map_err(|cause| DialError::from_io(address, cause)),
            }
        }
    };
    options.connect_in_time(address, connecting).await
}

/// A path for a socket file that no other listener uses.
pub(crate) fn scratch_path(extension: &str) -> Option<String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("anywire-{}-{number}.{extension}", std::process::id()));
    path.to_str().map(str::to_owned)
}

fn mode(octal: &str) -> Option<u32> {
    // Rust reads "+660" as a number, too.
    let mode = u32::from_str_radix(octal, 8).ok().filter(|_| !octal.starts_with('+'))?;
    (mode <= MODE_MAX).then_some(mode)
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

/// Registers the listening socket as a stream, because only its readiness is used. Tokio's own listener would register each
/// accepted socket with this loop, and most of them go to another one.
pub(crate) fn join(socket: &OwnedFd) -> io::Result<UnixStream> {
    UnixStream::from_std(StdStream::from(socket.try_clone()?))
}

pub(crate) fn leave(socket: UnixStream) -> io::Result<OwnedFd> {
    socket.into_std().map(Into::into)
}

fn accept(listener: &UnixStream, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
    poll_accept(listener, cx).map_ok(|stream| Box::new(Accepted(stream)) as Box<dyn Arrival>)
}

/// The next connection, registered with no loop yet.
pub(crate) fn poll_accept(listener: &UnixStream, cx: &mut Context<'_>) -> Poll<io::Result<StdStream>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    loop {
        ready!(listener.poll_read_ready(cx))?;
        match listener.try_io(Interest::READABLE, || Ok(accept_with(listener, flags)?)) {
            Err(empty) if empty.kind() == io::ErrorKind::WouldBlock => {}
            accepted => return Poll::Ready(Ok(accepted?.into())),
        }
    }
}

/// A socket that is registered with no loop yet.
struct Accepted(StdStream);

impl Arrival for Accepted {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        Ok(Connection::new(UnixTransport::new(UnixStream::from_std(self.0)?)))
    }
}

struct UnixTransport {
    stream: UnixStream,
    fault: Fault,
}

impl UnixTransport {
    fn new(stream: UnixStream) -> Self {
        Self { stream, fault: Fault::default() }
    }
}

impl Transport for UnixTransport {
    tokio_stream!();

    fn abort(&mut self) {
        // This wire has no reset to send. A close is one by itself if bytes of the peer lie here unread; else the peer
        // reads the end. Shutting down first would not help: the peer could see the end before it sees the reset.
    }

    fn local(&self) -> Address {
        named(&Unix, SockRef::from(&self.stream).local_addr())
    }

    fn peer(&self) -> Address {
        named(&Unix, SockRef::from(&self.stream).peer_addr())
    }

    fn credentials(&self) -> Option<Credentials> {
        credentials(&self.stream)
    }
}

/// The process at the other end.
pub(crate) fn credentials(stream: &UnixStream) -> Option<Credentials> {
    let peer = stream.peer_cred().ok()?;
    // Process 0 is one that the namespace of this one does not show.
    Some(Credentials { pid: peer.pid().filter(|&pid| pid != 0), uid: peer.uid(), gid: peer.gid() })
}

/// The name of one end; the dialling end mostly has none.
pub(crate) fn named(wire: &'static dyn Wire, address: io::Result<SockAddr>) -> Address {
    let address = address.ok();
    let location = address.as_ref().and_then(|address| {
        let path = address.as_pathname().map(|path| path.to_string_lossy().into_owned());
        let name =
            || address.as_abstract_namespace().map(|name| format!("@{}", String::from_utf8_lossy(name)));
        path.or_else(name)
    });
    Address::from_wire(wire, location.unwrap_or_default())
}

/// `sun_path` has 108 bytes, one of them for the NUL behind a path (or before an abstract name).
const PATH_MAX_BYTES: usize = 107;
