//! Options of TCP sockets, for connections that are dialled and for those that are accepted.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use anywire_sys::tcp_options;
use socket2::{Domain, Socket, TcpKeepalive, Type};

/// What is set on a TCP socket before it connects, or listens. Each is left to the system unless it is given. On a listener they are set on
/// its sockets, and Linux gives them to each connection that is accepted, so they cost an accept nothing. Other wires than TCP (and TLS over
/// it) have no use for them.
///
/// An option that the system refuses is the error of the dial, or of the listener, and says which one it was.
///
/// ```
/// use std::time::Duration;
/// use anywire_wire::{DialOptions, KeepAlive, SocketOptions};
///
/// let socket = SocketOptions {
///     keep_alive: Some(KeepAlive { idle: Duration::from_secs(30), ..KeepAlive::default() }),
///     user_timeout: Some(Duration::from_secs(20)),
///     ..SocketOptions::default()
/// };
/// let options = DialOptions { socket, ..DialOptions::default() };
/// ```
#[derive(Debug, Clone, Default)]
pub struct SocketOptions {
    /// Probes of a connection on which nothing is sent (`None`: none are sent). HTTP needs none: its deadlines find a peer that is gone.
    /// They are for connections that may rest, such as tunnels and other protocols, and for routers that forget a connection that rests.
    pub keep_alive: Option<KeepAlive>,
    /// How long sent bytes may stay without an acknowledgement, and a peer's window closed, until the connection has failed (`None`: as long as the
    /// system sends again, some 15 minutes). `TCP_USER_TIMEOUT` (RFC 5482), in milliseconds. With [`keep_alive`](Self::keep_alive) it
    /// also ends a connection whose probes are not answered, instead of their count.
    pub user_timeout: Option<Duration>,
    /// The network interface that alone is used, by its name (`None`: whichever leads to the peer). `SO_BINDTODEVICE`. Taking another one
    /// back needs a privilege.
    pub interface: Option<String>,
    /// The first bytes leave with the connection's first segment (`false`), TCP Fast Open (RFC 7413), once the peer has given a cookie. It
    /// saves a round trip. **Those bytes may arrive twice**, and a dial succeeds before the peer is known to be there: a refusal shows
    /// at the first write. So it is for TLS, and for what does no harm twice. On a listener it allows as many such connections under way as
    /// its backlog.
    pub fast_open: bool,
    /// Bytes of the send buffer (`None`: the system adapts it, from 16 KiB to some MiB). A fixed one bounds the memory of a slow reader. The
    /// system doubles the figure, for its own bookkeeping.
    pub send_buffer_bytes: Option<usize>,
    /// Bytes of the receive buffer (`None`: the system adapts it, from 128 KiB to some MiB), and so of the window that the peer is told.
    pub receive_buffer_bytes: Option<usize>,
    /// Called with each fresh socket, after the options above and before it connects or listens (`None`).
    pub hook: Option<SocketHook>,
}

/// Probes of an idle connection (RFC 9293 section 3.8.4), in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe (60 s; routers of homes and offices forget a connection after some minutes).
    pub idle: Duration,
    /// Between two probes that are not answered (15 s).
    pub interval: Duration,
    /// Probes without an answer, until the connection has failed (4: a peer that is gone is found after two minutes).
    pub probes: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), interval: Duration::from_secs(15), probes: 4 }
    }
}

/// Does what it likes with a fresh socket, such as setting an option that has no field here. An error is that of the dial, or of the
/// listener.
///
/// ```
/// use anywire_wire::{SocketHook, SocketOptions};
///
/// // With the crate socket2: `SockRef::from(&socket).set_mark(7)`.
/// let hook = SocketHook::new(|socket| { println!("{socket:?}"); Ok(()) });
/// let options = SocketOptions { hook: Some(hook), ..SocketOptions::default() };
/// ```
#[derive(Clone)]
pub struct SocketHook {
    call: Arc<Call>,
}

type Call = dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync;

impl SocketHook {
    /// Calls this function. It must not block: a loop waits for it.
    pub fn new(hook: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { call: Arc::new(hook) }
    }
}

impl fmt::Debug for SocketHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketHook").finish_non_exhaustive()
    }
}

impl SocketOptions {
    /// Whether all is left to the system.
    fn is_plain(&self) -> bool {
        let Self {
            keep_alive,
            user_timeout,
            interface,
            fast_open,
            send_buffer_bytes,
            receive_buffer_bytes,
            hook,
        } = self;
        keep_alive.is_none()
            && user_timeout.is_none()
            && interface.is_none()
            && !fast_open
            && send_buffer_bytes.is_none()
            && receive_buffer_bytes.is_none()
            && hook.is_none()
    }

    /// Sets what both kinds of sockets have.
    fn set(&self, socket: &Socket) -> io::Result<()> {
        if let Some(keep_alive) = self.keep_alive {
            let KeepAlive { idle, interval, probes } = keep_alive;
            let times = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(probes);
            named("keep_alive", socket.set_tcp_keepalive(&times))?;
        }
        if let Some(timeout) = self.user_timeout {
            // The system takes zero for its own default.
            let timeout = timeout.max(Duration::from_millis(1));
            named("user_timeout", socket.set_tcp_user_timeout(Some(timeout)))?;
        }
        if let Some(interface) = &self.interface {
            named("interface", socket.bind_device(Some(interface.as_bytes())))?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            named("send_buffer_bytes", socket.set_send_buffer_size(bytes))?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            named("receive_buffer_bytes", socket.set_recv_buffer_size(bytes))?;
        }
        Ok(())
    }

    fn call_hook(&self, socket: &Socket) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| named("hook", (hook.call)(socket.as_fd())))
    }

    /// Prepares a socket that is to listen with such a backlog.
    pub(crate) fn prepare_listener(&self, socket: &Socket, backlog: u32) -> io::Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        self.set(socket)?;
        if self.fast_open {
            named("fast_open", tcp_options::accept_fast_open(socket, backlog))?;
        }
        self.call_hook(socket)
    }

    /// A socket that is to connect to this address from this one; none if nothing is to be prepared.
    pub(crate) fn dialling_socket(&self, from: Option<IpAddr>, to: SocketAddr) -> io::Result<Option<Socket>> {
        if self.is_plain() && from.is_none() {
            return Ok(None);
        }
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        self.set(&socket)?;
        if let Some(from) = from {
            if from.is_ipv4() != to.is_ipv4() {
                // Of no kind that tells something of the peer.
                let message = format!("the local address {from} is of another family");
                return Err(io::Error::other(message));
            }
            // The port is chosen when it connects, so that one port serves connections to several peers.
            named("local_address", tcp_options::choose_port_late(&socket))?;
            named("local_address", socket.bind(&SocketAddr::new(from, 0).into()))?;
        }
        if self.fast_open {
            named("fast_open", tcp_options::connect_fast_open(&socket))?;
        }
        self.call_hook(&socket)?;
        Ok(Some(socket))
    }
}

/// Says which option the system refuses. The error is of no kind that a dial has a meaning for.
fn named<T>(option: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|cause| io::Error::other(format!("the socket option `{option}` is refused: {cause}")))
}
