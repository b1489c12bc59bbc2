//! Binding: one socket for each loop, numbered in the order of the loops.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anywire_sys::datagrams::{self, Steering};
use anywire_sys::descriptors;
use quinn_udp::UdpSocketState;
use rustix::net::{SocketAddrUnix, bind};
use socket2::{Domain, SockAddr, Socket, Type};

use super::address::{DatagramAddress, Kind, ToDatagramAddress};
use super::error::UdpError;
use super::socket::{Link, Udp, unix_name};
use super::source::OwnAddresses;
use super::unix_peer::UnixPeer;
use crate::claim::Claim;
use crate::error::not_here;
use crate::place;
use crate::socket_file::{Blocked, Guard, SocketFile, make_room};

/// How to receive and send.
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// What the system keeps for a socket until it is received, in bytes (2 MiB). At 200 bytes each this is about 5,000
    /// datagrams, or 30 ms at 170,000 a second. The system may give less, which is logged with the setting that limits it.
    pub receive_buffer_bytes: usize,
    /// The longest datagram that is given whole, in bytes (65,535: every one that UDP carries). The end of a longer one is
    /// dropped, and said by [`Datagram::whole`](super::Datagram::whole).
    pub datagram_bytes_max: usize,
    /// Which loop's socket a datagram arrives at, if there are several ([`Steering::Flow`]).
    pub steering: Steering,
    /// Whether the kernel may join datagrams of a flow, received or sent (GRO and GSO; on). It joins only equal ones, so only
    /// the speed differs.
    pub offload: bool,
    /// The one peer that is heard (`None`: everybody). The system drops datagrams of others unseen. Then there is one
    /// socket, on the first loop.
    pub only_peer: Option<SocketAddr>,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: 2 << 20,
            datagram_bytes_max: 65_535,
            steering: Steering::Flow,
            offload: true,
            only_peer: None,
        }
    }
}

/// The receive buffer of a socket, in bytes, as [`UdpOptions::receive_buffer_bytes`] counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// The size that the options ask for.
    pub asked_bytes: usize,
    /// What the system gave.
    pub given_bytes: usize,
}

/// A socket that is bound and registered with no loop yet. Datagrams arrive already, and wait in its buffer.
#[derive(Debug)]
pub struct Unregistered {
    pub(super) socket: Socket,
    pub(super) link: Link,
    pub(super) local: DatagramAddress,
    pub(super) own: OwnAddresses,
    pub(super) buffer: ReceiveBuffer,
    pub(super) datagram_bytes_max: usize,
    pub(super) offload: bool,
}

/// Made by [`Unregistered::drop_counter`].
#[derive(Debug)]
pub struct DropCounter {
    socket: Socket,
}

impl DropCounter {
    /// As [`Udp::drops`].
    pub fn drops(&self) -> Option<u32> {
        datagrams::drops(&self.socket).ok()
    }
}

impl Unregistered {
    /// Where it receives, with the port that the system chose.
    pub fn local(&self) -> &DatagramAddress {
        &self.local
    }

    /// Drops what comes from one of these addresses, too: those of the other sockets of its service. Over IPv6, and over Unix sockets of
    /// other name spaces, their name can be forged, and two sockets that answer each datagram would answer each other for ever.
    pub fn refuse_sources(&mut self, addresses: &[DatagramAddress]) {
        for address in addresses.iter().filter(|address| **address != self.local) {
            self.own.add(address);
        }
    }

    /// Tells on any thread how many datagrams the socket has dropped. It keeps the socket open.
    ///
    /// # Errors
    /// What the system said; mostly that no descriptor is left.
    pub fn drop_counter(&self) -> io::Result<DropCounter> {
        Ok(DropCounter { socket: self.socket.try_clone()? })
    }

    /// The same socket for another loop, which receives if the loop of the first one dies. What waits in its buffer is kept. The address is
    /// taken until both are dropped.
    ///
    /// # Errors
    /// What the system said; mostly that no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let socket = self.socket.try_clone()?;
        let link = match &self.link {
            Link::Ip { peer, .. } => {
                let local = self.local.socket_addr().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Link::of_ip(&socket, local, *peer, self.offload)?
            }
            Link::Unix { peer, file } => Link::Unix { peer: peer.clone(), file: file.clone() },
        };
        let (local, own) = (self.local.clone(), self.own.clone());
        Ok(Self { socket, link, local, own, ..*self })
    }

    /// Registers it with the loop that calls.
    ///
    /// # Errors
    /// What the system said; mostly that no descriptor is left.
    ///
    /// # Panics
    /// If the caller runs neither on a loop nor in a tokio runtime with I/O.
    pub fn register(self) -> io::Result<Udp> {
        Udp::new(self)
    }
}

impl Udp {
    /// Sockets at an address, one for each loop, in the order of the loops. Over UDP they share the port (`SO_REUSEPORT`), and
    /// [`UdpOptions::steering`] chooses the socket for each datagram. A Unix address has one socket, because it cannot be
    /// shared. So has one with [`UdpOptions::only_peer`]. Blocks while a name is resolved.
    ///
    /// # Errors
    /// [`UdpError`]; no socket is left then.
    pub fn bind(
        address: impl ToDatagramAddress,
        options: &UdpOptions,
        loops: usize,
    ) -> Result<Vec<Unregistered>, UdpError> {
        let address = address.to_datagram_address()?;
        match address.kind() {
            Kind::Ip => {
                bind_ip(&address, options, if options.only_peer.is_some() { 1 } else { loops.max(1) })
            }
            Kind::Unix => bind_unix(&address, options).map(|socket| vec![socket]),
        }
    }

    /// A socket that speaks with one peer, registered with the loop that calls. It sends nothing, so the peer need not run yet. Over
    /// a Unix socket, too, it finds a peer that was started later, or anew.
    ///
    /// # Errors
    /// [`UdpError`]: the name does not resolve, or the system refused.
    pub async fn connect(address: impl ToDatagramAddress, options: &UdpOptions) -> Result<Self, UdpError> {
        let address = address.to_datagram_address()?;
        let failed = |cause| UdpError::of_system(&address, cause);
        let unregistered = match address.kind() {
            Kind::Unix => connect_unix(&address, options),
            Kind::Ip => {
                let found = match place::literal(address.location()).map_err(failed)? {
                    Some(literal) => vec![literal],
                    None => match tokio::net::lookup_host(address.location()).await {
                        Ok(found) => found.collect(),
                        Err(cause) => return Err(UdpError::Resolve { address: address.clone(), cause }),
                    },
                };
                connect_ip(&found, options)
            }
        };
        unregistered.and_then(Unregistered::register).map_err(failed)
    }
}

fn connect_unix(address: &DatagramAddress, options: &UdpOptions) -> io::Result<Unregistered> {
    let socket = socket(Domain::UNIX)?;
    // Before it has a name, so that nobody but the peer is ever heard.
    datagrams::refuse_from_now_on(&socket)?;
    // A name of the system's choice, because one without a name cannot be answered.
    bind(&socket, &SocketAddrUnix::new_unnamed())?;
    let own = socket.local_addr()?;
    let own = own.as_abstract_namespace().and_then(|name| str::from_utf8(name).ok());
    let local =
        own.and_then(|name| format!("unixgram:@{name}").parse().ok()).unwrap_or_else(|| address.clone());
    let peer = Some(UnixPeer::of(&socket, unix_name(address.location())?)?);
    finish(socket, Link::Unix { peer, file: None }, &local, OwnAddresses::default(), options)
}

/// Connects to the first of these addresses that this machine has a way to.
fn connect_ip(found: &[SocketAddr], options: &UdpOptions) -> io::Result<Unregistered> {
    let mut failed = io::Error::from(io::ErrorKind::HostUnreachable);
    for &target in found {
        match connected(target).and_then(|first| match first {
            // Nobody is there, and the system chose the same port for this end: it would answer itself. While it has the port,
            // the next one is given another.
            (itself, local) if meets_itself(&itself, local) => connected(target),
            other => Ok(other),
        }) {
            Ok((socket, local)) => {
                let link = Link::of_ip(&socket, local, Some(target), options.offload)?;
                return finish(socket, link, &local.into(), OwnAddresses::default(), options);
            }
            Err(cause) => failed = cause,
        }
    }
    Err(failed)
}

/// Whether it is connected to its own address. The target does not tell: 0.0.0.0 means this machine.
fn meets_itself(socket: &Socket, local: SocketAddr) -> bool {
    socket.peer_addr().is_ok_and(|peer| peer.as_socket() == Some(local))
}

fn connected(target: SocketAddr) -> io::Result<(Socket, SocketAddr)> {
    let socket = socket(Domain::for_address(target))?;
    socket.connect(&target.into())?;
    let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((socket, local))
}

/// One socket for each loop, all of them on the first of the name's addresses that this machine has.
///
/// With SO_REUSEPORT on both sides, two services of one user would share the port in silence. So the first socket is bound
/// without it. Then no other service can have the port, and the rest of the sockets join with it.
fn bind_ip(
    address: &DatagramAddress,
    options: &UdpOptions,
    loops: usize,
) -> Result<Vec<Unregistered>, UdpError> {
    let literal = place::literal(address.location()).map_err(|cause| UdpError::binding(address, cause))?;
    let found = match literal {
        Some(literal) => vec![literal],
        None => match address.location().to_socket_addrs() {
            Ok(found) => found.collect(),
            Err(cause) => return Err(UdpError::Resolve { address: address.clone(), cause }),
        },
    };
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for target in found {
        match bind_group(target, options, loops) {
            Ok(sockets) => {
                if let [first, _, ..] = &sockets[..] {
                    let count = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
                    let steered = options.steering.attach(&first.socket, count);
                    steered.map_err(|cause| UdpError::Steering { address: address.clone(), cause })?;
                }
                return Ok(sockets);
            }
            // `localhost` may have an IPv6 address on a machine that has no IPv6.
            Err(cause) if not_here(&cause) => failed = cause,
            Err(cause) => return Err(UdpError::binding(address, cause)),
        }
    }
    Err(UdpError::binding(address, failed))
}

fn bind_group(target: SocketAddr, options: &UdpOptions, loops: usize) -> io::Result<Vec<Unregistered>> {
    let mut target = target;
    let mut sockets = Vec::with_capacity(loops);
    for number in 0..loops {
        let socket = socket(Domain::for_address(target))?;
        if target.is_ipv6() {
            // `[::]` takes IPv4 as well, whatever the system's default is.
            socket.set_only_v6(false)?;
        }
        if number > 0 {
            socket.set_reuse_port(true)?;
        }
        if options.only_peer.is_some() {
            // Until it is connected, a bound socket would take what anybody sends.
            datagrams::refuse_from_now_on(&socket)?;
        }
        socket.bind(&target.into())?;
        if number == 0 {
            target = socket.local_addr()?.as_socket().unwrap_or(target);
            socket.set_reuse_port(loops > 1)?;
        }
        if let Some(peer) = options.only_peer {
            socket.connect(&peer.into())?;
            datagrams::hear_again(&socket)?;
        }
        let link = Link::of_ip(&socket, target, options.only_peer, options.offload)?;
        let local = target.into();
        sockets.push(finish(socket, link, &local, OwnAddresses::of(&local), options)?);
    }
    Ok(sockets)
}

fn bind_unix(address: &DatagramAddress, options: &UdpOptions) -> Result<Unregistered, UdpError> {
    let failed = |cause| UdpError::binding(address, cause);
    // Held until the socket is bound, so that no other server takes the file for stale.
    let claim = address.file().map(Claim::of_folder).transpose().map_err(failed)?;
    if let Some(path) = address.file() {
        make_room(path, Type::DGRAM).map_err(|blocked| match blocked {
            Blocked::NotASocket => UdpError::NotASocket { address: address.clone() },
            Blocked::System(cause) => failed(cause),
        })?;
    }
    let socket = socket(Domain::UNIX).map_err(failed)?;
    socket.bind(&SockAddr::unix(address.system_name()).map_err(failed)?).map_err(failed)?;
    let file =
        address.file().map(SocketFile::of).transpose().map_err(failed)?.map(|file| Arc::new(Guard(file)));
    // If the rest fails the file goes, under a claim of its own.
    drop(claim);
    finish(socket, Link::Unix { peer: None, file }, address, OwnAddresses::of(address), options)
        .map_err(failed)
}

fn socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    if domain == Domain::UNIX {
        descriptors::refuse_passed(&socket);
    }
    Ok(socket)
}

impl Link {
    fn of_ip(
        socket: &Socket,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        offload: bool,
    ) -> io::Result<Self> {
        let state = UdpSocketState::new(socket.into())?;
        datagrams::without_extras(socket);
        if !offload {
            datagrams::without_coalescing(socket);
        }
        let keeps_local_ip = local.ip().is_unspecified();
        if !keeps_local_ip {
            datagrams::without_local_ip(socket);
        }
        Ok(Self::Ip { state, peer, keeps_local_ip })
    }
}

/// Sizes the receive buffer, and says it if the system gave less.
fn finish(
    socket: Socket,
    link: Link,
    local: &DatagramAddress,
    own: OwnAddresses,
    options: &UdpOptions,
) -> io::Result<Unregistered> {
    let asked_bytes = options.receive_buffer_bytes;
    // The system takes an int. A larger number would wrap around, and give the smallest buffer.
    socket.set_recv_buffer_size(asked_bytes.min(i32::MAX as usize))?;
    // The system doubles the number, because it counts its own data beside the bytes.
    let given_bytes = socket.recv_buffer_size()? / 2;
    if given_bytes < asked_bytes && matches!(link, Link::Ip { .. }) {
        tracing::warn!(
            address = %local, asked_bytes, given_bytes,
            "the receive buffer is smaller than asked for, so bursts may be lost; \
             raise the limit: sysctl -w net.core.rmem_max={asked_bytes}"
        );
    }
    Ok(Unregistered {
        socket,
        link,
        local: local.clone(),
        own,
        buffer: ReceiveBuffer { asked_bytes, given_bytes },
        datagram_bytes_max: options.datagram_bytes_max,
        offload: options.offload,
    })
}
