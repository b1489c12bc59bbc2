//! `tcp:HOST:PORT`: kernel TCP.

use std::io::{self, IoSlice};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener as StdListener, ToSocketAddrs,
};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::address::Address;
use crate::claim::Claim;
use crate::connection::{Connection, Transport, cooperate};
use crate::dialer::DialOptions;
use crate::error::{ListenError, not_here};
use crate::listener::ListenOptions;
use crate::names;
use crate::place;
use crate::socket::{Fault, Moved, SocketAcceptor, tokio_stream};
use crate::wires::{Acceptor, Arrival, Bound, Dialing, Wire};

/// Kernel TCP. One listening socket a loop (SO_REUSEPORT), so that the system spreads connections and no loop waits
/// for another.
pub(crate) struct Tcp;

impl Wire for Tcp {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "kernel TCP"
    }

    fn form(&self) -> &'static str {
        "HOST:PORT, such as 127.0.0.1:8080, [::1]:8080, [fe80::1%eth0]:8080 or example.com:80"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        place::normalise(location)
    }

    fn host_and_port<'a>(&self, location: &'a str) -> Option<(&'a str, u16)> {
        place::host_and_port(location)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let found = resolve_blocking(address)?;
        let (local, sockets) =
            listen_all(&found, options, loops).map_err(|cause| ListenError::from_io(address, cause))?;
        let acceptor = |socket: Socket| {
            Box::new(SocketAcceptor::new(socket.into(), join, TcpListener::into_std, accept))
                as Box<dyn Acceptor>
        };
        let acceptors = sockets.into_iter().map(acceptor).collect();
        Ok(Bound { local: Address::from_wire(self, local.to_string()), acceptors, guard: None })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let transport = names::dial(address, options, |target| connect(target, options)).await?;
            // A socket that refuses this is dead, which the first write will say better.
            let _ = transport.stream.set_nodelay(true);
            Ok(Connection::new(transport))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        Some(Address::from_wire(self, "127.0.0.1:0"))
    }
}

/// One socket a loop, all of them on the first of these addresses that this machine has.
///
/// With SO_REUSEPORT on both sides, two servers of one user would share the port in silence. So the first socket begins
/// to listen without it. Then no other server can have the port, and the rest of the sockets join with it.
/// SO_REUSEADDR lets two be bound to one port, until at `listen` each may find the other one and give up; the claim keeps
/// our own from that.
fn listen_all(
    found: &[SocketAddr],
    options: &ListenOptions,
    loops: usize,
) -> io::Result<(SocketAddr, Vec<Socket>)> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for &address in found {
        // A port that the system chooses needs no claim: without SO_REUSEADDR no other socket can be bound to it.
        let _claim = (address.port() != 0).then(|| Claim::of_port(address.port())).transpose()?;
        let first = match listen(address, options, Sharing::Alone) {
            Ok(first) => first,
            // `localhost` may have an IPv6 address on a machine that has no IPv6.
            Err(cause) if not_here(&cause) => {
                failed = cause;
                continue;
            }
            Err(cause) => return Err(cause),
        };
        first.set_reuse_address(true)?;
        if loops > 1 {
            first.set_reuse_port(true)?;
        }
        let local = first.local_addr()?.as_socket().unwrap_or(address);
        let others = (1..loops).map(|_| listen(local, options, Sharing::Joins));
        return Ok((local, std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()?));
    }
    Err(failed)
}

/// Whether a socket is the first of its server or joins that one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Joins,
}

fn listen(address: SocketAddr, options: &ListenOptions, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Connections of an earlier server may still be there, unless the port is to be a free one.
    socket.set_reuse_address(address.port() != 0)?;
    socket.set_reuse_port(sharing == Sharing::Joins)?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 as well, whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    // Accepted connections inherit it, which saves a system call on each.
    socket.set_tcp_nodelay(true)?;
    options.socket.prepare_listener(&socket, options.backlog)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

fn resolve_blocking(address: &Address) -> Result<Vec<SocketAddr>, ListenError> {
    let literal = place::literal(address.location());
    if let Some(literal) = literal.map_err(|cause| ListenError::from_io(address, cause))? {
        return Ok(vec![literal]);
    }
    let found = address.location().to_socket_addrs().map(Iterator::collect);
    found.map_err(|cause| ListenError::of_resolving(address, cause))
}

async fn connect(target: SocketAddr, options: &DialOptions) -> io::Result<TcpTransport> {
    let connected = match options.socket.dialling_socket(options.local_address, target)? {
        None => TcpStream::connect(target).await,
        Some(socket) => TcpSocket::from_std_stream(socket.into()).connect(target).await,
    };
    let stream = connected.map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrNotAvailable if !can_be_sent_to(target) => {
            io::Error::new(io::ErrorKind::NetworkUnreachable, "this machine has no address on the way")
        }
        _ => cause,
    })?;
    if meets_itself(&stream, target) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(TcpTransport::new(stream, target))
}

/// Whether this machine has an address from which it can reach that one. The error of a TCP socket is the same if it has none as if
/// it has no port left, and that of a datagram socket, which sends nothing here, is not.
#[cold]
fn can_be_sent_to(target: SocketAddr) -> bool {
    let connected = Socket::new(Domain::for_address(target), Type::DGRAM, None)
        .and_then(|socket| socket.connect(&target.into()));
    connected.err().is_none_or(|cause| cause.kind() != io::ErrorKind::AddrNotAvailable)
}

/// Whether no server listens there, and the system chose the same port for this end: then the socket has connected to itself
/// (RFC 9293 section 3.5, simultaneous open). The system is asked where it is only if the ports are the same: 0.0.0.0 means this machine.
fn meets_itself(stream: &TcpStream, target: SocketAddr) -> bool {
    stream.local_addr().is_ok_and(|local| {
        local.port() == target.port() && stream.peer_addr().is_ok_and(|peer| peer == local)
    })
}

fn join(socket: &StdListener) -> io::Result<TcpListener> {
    TcpListener::from_std(socket.try_clone()?)
}

fn accept(listener: &TcpListener, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
    let (stream, peer) = ready!(listener.poll_accept(cx))?;
    Poll::Ready(Ok(Box::new(TcpTransport::new(stream, peer))))
}

/// Each loop has a socket of its own, so what arrives at a loop has joined it already.
impl Arrival for TcpTransport {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        Ok(Connection::new(*self))
    }
}

struct TcpTransport {
    stream: TcpStream,
    // The peer, because the system forgets it once the connection is reset. An IPv4 address is mapped into IPv6, which takes
    // fewer bytes than telling the two apart.
    peer_ip: Ipv6Addr,
    peer_port: u16,
    peer_scope: u32,
    fault: Fault,
}

// One of them lies in memory for each idle connection.
const _: () = assert!(size_of::<TcpTransport>() <= size_of::<TcpStream>() + 24);

impl TcpTransport {
    fn new(stream: TcpStream, peer: SocketAddr) -> Self {
        let peer = match peer {
            SocketAddr::V6(peer) => peer,
            SocketAddr::V4(peer) => SocketAddrV6::new(peer.ip().to_ipv6_mapped(), peer.port(), 0, 0),
        };
        let (peer_ip, peer_port, peer_scope) = (*peer.ip(), peer.port(), peer.scope_id());
        Self { stream, peer_ip, peer_port, peer_scope, fault: Fault::default() }
    }
}

impl Transport for TcpTransport {
    tokio_stream!();

    fn abort(&mut self) {
        // A linger time of zero makes the close an RST; if it cannot be set the connection is gone already.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn local(&self) -> Address {
        shown(self.stream.local_addr().unwrap_or(UNKNOWN))
    }

    fn peer(&self) -> Address {
        shown(SocketAddrV6::new(self.peer_ip, self.peer_port, 0, self.peer_scope).into())
    }
}

/// The address of one end. An IPv4 peer of a listener on `[::]` is shown as IPv4.
fn shown(end: SocketAddr) -> Address {
    let end = match end.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, end.port()),
        IpAddr::V6(_) => end,
    };
    Address::from_wire(&Tcp, end.to_string())
}

/// What a connection whose end the system does not name says of it.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use anywire_loops::Loops;

    use super::*;
    use crate::dialer::AddressTurns;
    use crate::error::DialError;
    use crate::names::{Hosts, Names, SystemResolver};

    /// A socket that is bound and does not listen: its port refuses connections, and no other socket gets it.
    fn bound() -> Socket {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        socket
    }

    fn address_of(socket: &Socket) -> SocketAddr {
        socket.local_addr().expect("it is bound").as_socket().expect("an IP address")
    }

    fn listening() -> Socket {
        let socket = bound();
        socket.listen(16).expect("it is bound");
        socket
    }

    /// A socket whose backlog is full, so that further attempts are not answered, and the sockets that fill it.
    fn silent() -> (Socket, Vec<Socket>) {
        let socket = bound();
        socket.listen(0).expect("it is bound");
        let address = address_of(&socket).into();
        let fill = || {
            let filling = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            filling.connect_timeout(&address, Duration::from_millis(100)).map(|()| filling).ok()
        };
        let filling = std::iter::from_fn(fill).collect();
        (socket, filling)
    }

    fn run(targets: &[SocketAddr], attempt_delay: Duration) -> Result<SocketAddr, DialError> {
        // A cache of its own: which addresses have failed is not to be known from other tests.
        let hosts = Hosts::default().add("a.name", targets.iter().copied());
        let names = Names::new(SystemResolver::default()).with_hosts(hosts);
        let options = DialOptions { attempt_delay, names, ..DialOptions::default() };
        let loops = Loops::start(1).expect("a thread");
        let raced = loops.get(0).spawn(move || async move {
            let address = Address::from_wire(&Tcp, "a.name:80");
            names::dial(&address, &options, |target| connect(target, &options))
                .await
                .map(|transport| transport.stream.peer_addr().expect("it is connected"))
        });
        raced.wait().expect("no panic")
    }

    /// A head start that no test could wait for.
    const NEVER: Duration = Duration::from_secs(3600);

    #[test]
    fn a_refusal_brings_the_next_address_at_once() {
        let (refusing, good) = (bound(), listening());
        let targets = [address_of(&refusing), address_of(&refusing), address_of(&good)];
        assert_eq!(run(&targets, NEVER).expect("the last one answers"), targets[2]);
    }

    #[test]
    fn silence_brings_the_next_address_after_the_head_start() {
        let ((silent, _filling), good) = (silent(), listening());
        let targets = [address_of(&silent), address_of(&good)];
        assert_eq!(run(&targets, Duration::from_millis(10)).expect("the second one answers"), targets[1]);
    }

    #[test]
    fn the_first_address_wins_if_it_answers() {
        let (good, other) = (listening(), listening());
        let targets = [address_of(&good), address_of(&other)];
        assert_eq!(run(&targets, NEVER).expect("the first one answers"), targets[0]);
        other.set_nonblocking(true).expect("a socket");
        assert!(other.accept().is_err(), "the second one was not even tried");
    }

    /// What each of so many dials, one after the other, connects to.
    fn in_turn(targets: &[SocketAddr], start: usize, dials: usize) -> Vec<SocketAddr> {
        let hosts = Hosts::default().add("a.name", targets.iter().copied());
        let names = Names::new(SystemResolver::default()).with_hosts(hosts);
        let in_turn = Some(AddressTurns::starting_at(start));
        let options = DialOptions { attempt_delay: NEVER, names, in_turn, ..DialOptions::default() };
        let loops = Loops::start(1).expect("a thread");
        let dialled = loops.get(0).spawn(move || async move {
            let address = Address::from_wire(&Tcp, "a.name:80");
            let mut reached = Vec::new();
            for _ in 0..dials {
                // Clones share their turns.
                let options = options.clone();
                let transport = names::dial(&address, &options, |target| connect(target, &options)).await;
                let stream = transport.expect("one of them listens").stream;
                reached.push(stream.peer_addr().expect("it is connected"));
            }
            reached
        });
        dialled.wait().expect("no panic")
    }

    #[test]
    fn dials_in_turn_begin_with_the_next_address_each() {
        let listeners = [listening(), listening(), listening()];
        let [a, b, c] = listeners.each_ref().map(address_of);
        assert_eq!(in_turn(&[a, b, c], 0, 7), [a, b, c, a, b, c, a]);
        assert_eq!(in_turn(&[a, b, c], usize::MAX, 1).len(), 1);
        assert_eq!(in_turn(&[a, b, c], 4, 3), [b, c, a]);
    }

    #[test]
    fn an_address_that_has_refused_takes_no_turn() {
        let (refusing, good, other) = (bound(), listening(), listening());
        let [refusing, good, other] = [&refusing, &good, &other].map(address_of);
        // The first dial finds out. From then on the two others alternate.
        let reached = in_turn(&[refusing, good, other], 0, 5);
        assert_eq!(reached[1..], [other, good, other, good], "{reached:?}");
    }

    #[test]
    fn if_all_refuse_so_does_the_name() {
        let refusing = [bound(), bound()];
        let refused = run(&refusing.each_ref().map(address_of), NEVER).expect_err("nobody listens");
        assert!(refused.is_refused(), "{refused:?}");
        assert!(refused.to_string().contains("tcp:a.name:80"), "{refused}");
    }

    #[test]
    fn a_name_without_addresses_is_an_error() {
        assert!(run(&[], NEVER).is_err());
    }

    #[test]
    fn a_refusal_tells_more_than_a_missing_route() {
        // TCP goes to one host (RFC 1122 section 4.2.3.10), so that a broadcast address has no way to it.
        let (refusing, unreachable) = (bound(), SocketAddr::from((Ipv4Addr::BROADCAST, 9)));
        let failed = run(&[address_of(&refusing), unreachable], NEVER).expect_err("nobody listens");
        assert!(failed.is_refused(), "{failed:?}");
        let failed = run(&[unreachable], NEVER).expect_err("there is no way");
        assert!(!failed.is_refused(), "{failed:?}");
    }

    #[test]
    fn a_socket_knows_that_it_meets_itself() {
        let other = listening();
        let meets = move |own: SocketAddr, target: Option<SocketAddr>| {
            let socket = Socket::new(Domain::for_address(own), Type::STREAM, None).expect("a socket");
            socket.bind(&own.into()).expect("a free port");
            let mut itself = address_of(&socket);
            itself.set_ip(own.ip());
            let target = target.unwrap_or(itself);
            socket.connect(&target.into()).expect("it answers");
            socket.set_nonblocking(true).expect("a socket");
            let loops = Loops::start(1).expect("a thread");
            let met = loops.get(0).spawn(move || async move {
                let stream = TcpStream::from_std(socket.into()).expect("descriptors are left");
                meets_itself(&stream, target)
            });
            met.wait().expect("no panic")
        };
        for own in ["127.0.0.1:0", "0.0.0.0:0", "[::ffff:127.0.0.1]:0", "[::1]:0", "[::]:0"] {
            let own: SocketAddr = own.parse().expect("an address");
            if own.ip().to_canonical().is_ipv4() || std::net::TcpListener::bind("[::1]:0").is_ok() {
                assert!(meets(own, None), "{own}");
            }
        }
        assert!(!meets((Ipv4Addr::LOCALHOST, 0).into(), Some(address_of(&other))));
    }

    #[test]
    fn a_socket_that_meets_itself_is_refused() {
        // The system goes through the even ports to choose one for this end, and so comes to the one that is dialled.
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux has it");
        let ports: Vec<u16> = range.split_whitespace().map(|port| port.parse().expect("a number")).collect();
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0] + (ports[1] - ports[0]) / 4 * 2));
        let loops = Loops::start(1).expect("a thread");
        let met = loops.get(0).spawn(move || async move {
            for _ in ports[0]..ports[1] {
                if connect(target, &DialOptions::default()).await.is_ok() {
                    return true;
                }
            }
            false
        });
        assert!(!met.wait().expect("no panic"), "nobody listens there");
    }
}
