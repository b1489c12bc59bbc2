//! A datagram socket that is registered with one loop.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anywire_sys::datagrams;
use anywire_sys::send_each::{SEND_EACH_MAX, send_each};
use anywire_sys::send_marked::{Marked, send_marked};
use quinn_udp::UdpSocketState;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, recvfrom, sendto};
use socket2::Socket;
use tokio::io::{Interest, Ready};
use tokio::net::{UdpSocket, UnixDatagram};

use super::address::DatagramAddress;
use super::bind::{ReceiveBuffer, Unregistered};
use super::outgoing::{Outgoing, Run, Sent};
use super::peer::Peer;
use super::received::{Received, Slot};
use super::source::OwnAddresses;
use super::unix_peer::UnixPeer;
use crate::socket_file::Guard;

/// A datagram socket on one loop. Several tasks of that loop may send through it at once, and one may receive.
///
/// [`Udp::bind`] and [`Udp::connect`] make one.
pub struct Udp {
    io: Io,
    link: Link,
    local: DatagramAddress,
    own: OwnAddresses,
    buffer: ReceiveBuffer,
    datagram_bytes_max: usize,
    segments_max: usize,
}

/// What differs between UDP and Unix sockets.
pub(super) enum Link {
    Ip {
        /// Receives. It must not send: it would switch off for all peers what the way to one refuses.
        state: UdpSocketState,
        /// The one peer, if the socket is connected.
        peer: Option<SocketAddr>,
        /// Whether answers must say which address they leave from, because the socket is bound to all.
        keeps_local_ip: bool,
    },
    Unix {
        /// The one peer, if it has one.
        peer: Option<UnixPeer>,
        /// Takes the socket's file away with the last of its loops' handles.
        file: Option<Arc<Guard>>,
    },
}

impl Udp {
    pub(super) fn new(unregistered: Unregistered) -> io::Result<Self> {
        let Unregistered { socket, link, local, own, buffer, datagram_bytes_max, offload } = unregistered;
        let segments_max = match &link {
            Link::Ip { state, .. } if offload => state.max_gso_segments(),
            _ => 1,
        };
        Ok(Self {
            io: Io::register(socket, &link)?,
            link,
            local,
            own,
            buffer,
            datagram_bytes_max,
            segments_max,
        })
    }

    /// Where it receives.
    pub fn local(&self) -> &DatagramAddress {
        &self.local
    }

    /// How large its receive buffer is.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        self.buffer
    }

    /// The longest datagram that is given whole.
    pub fn datagram_bytes_max(&self) -> usize {
        self.datagram_bytes_max
    }

    /// How many datagrams one system call may send: 64 with GSO, else 1.
    pub fn segments_max(&self) -> usize {
        self.segments_max
    }

    /// Datagrams that the system has dropped at this socket since it was bound, mostly because its receive buffer was full.
    /// Wraps around at 2^32. `None` if the system does not tell.
    pub fn drops(&self) -> Option<u32> {
        datagrams::drops(&self.io).ok()
    }

    /// Drops datagrams that arrive from now on. Earlier ones can still be received, so that a service can end in order.
    ///
    /// # Errors
    /// What the system said.
    pub fn refuse_from_now_on(&self) -> io::Result<()> {
        datagrams::refuse_from_now_on(&self.io)
    }

    /// Waits for datagrams and takes as many as are there, up to a batch, in place of the batch before. Cancel safe. The batch is
    /// empty if all of them were [forged](Received::forged).
    ///
    /// # Errors
    /// What the system said. `ConnectionRefused` on a connected socket means that the peer's port is closed; the socket can
    /// still be used.
    pub async fn receive(&self, received: &mut Received) -> io::Result<()> {
        loop {
            self.arrived().await?;
            if self.take(received)? {
                return Ok(());
            }
        }
    }

    /// Waits until something has arrived, for [`take`](Self::take): so that many sockets can share one batch. Cancel safe.
    ///
    /// # Errors
    /// The loop is ending.
    pub async fn arrived(&self) -> io::Result<()> {
        self.io.arrival().await.map(drop)
    }

    /// Takes what has [arrived](Self::arrived), up to a batch, in place of the batch before; `false` if it was a false alarm.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn take(&self, received: &mut Received) -> io::Result<bool> {
        // A call is tried with one interest at a time, and only if the socket is known to be ready for it.
        for interest in [Interest::READABLE, Interest::ERROR] {
            let mut taken = false;
            let looked = self.io.try_io(interest, || {
                self.receive_now(received)?;
                taken = true;
                if received.is_full() {
                    return Ok(());
                }
                // Nothing is left. Saying so spares the system call that would find it out: what arrives meanwhile makes the
                // socket ready anew, because tokio's epoll is edge-triggered.
                Err(io::ErrorKind::WouldBlock.into())
            });
            match looked {
                _ if taken => return Ok(true),
                Err(nothing) if nothing.kind() == io::ErrorKind::WouldBlock => {}
                failed => return failed.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Takes a batch without waiting; `false` and an empty batch if nothing is there.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn try_receive(&self, received: &mut Received) -> io::Result<bool> {
        match self.receive_now(received) {
            Ok(()) => Ok(true),
            Err(nothing) if nothing.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn receive_now(&self, received: &mut Received) -> io::Result<()> {
        match &self.link {
            Link::Ip { state, keeps_local_ip, .. } => {
                received.refill_by(&self.own, *keeps_local_ip, |buffers, metas| {
                    state.recv((&self.io).into(), buffers, metas)
                })
            }
            Link::Unix { .. } => {
                let mut count = 0;
                for number in 0..received.empty() {
                    match self.receive_unix(received.buffer(number)) {
                        Ok(slot) => {
                            count += 1;
                            let is_forged =
                                matches!(&slot.peer, Peer::Unix(name) if !self.own.hear_name(name));
                            received.add(number, (!is_forged).then_some(slot));
                        }
                        // The next call reports it.
                        Err(_) if number > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                received.filled_with(count);
                Ok(())
            }
        }
    }

    fn receive_unix(&self, buffer: &mut [u8]) -> io::Result<Slot> {
        // With this flag the system says how long the datagram was, also where it had no room for all of it.
        let (taken, sent_bytes, from) = recvfrom(&self.io, buffer, RecvFlags::TRUNC)?;
        let peer = from.map_or(Peer::Unnamed, unix_peer);
        let is_cut = taken < sent_bytes;
        Ok(Slot { peer, local_ip: None, ecn: 0, len: taken, stride: taken, is_cut, buffer: 0 })
    }

    /// Sends all that waits, in order. Waits while the system has no room. A datagram that the system refuses is counted and
    /// dropped: it is too large for the way, there is no way, or the queue of a Unix peer is full. If the future is dropped,
    /// the rest stays in the queue.
    pub async fn flush(&self, outgoing: &mut Outgoing) -> Sent {
        let mut sent = Sent::default();
        while !self.try_flush(outgoing, &mut sent) {
            if let Err(error) = self.room().await {
                sent.error.get_or_insert(error);
                return sent;
            }
        }
        sent
    }

    /// Sends what the system takes without waiting, and adds it to `sent`; whether all of it left.
    pub fn try_flush(&self, outgoing: &mut Outgoing, sent: &mut Sent) -> bool {
        while let Some((run, data)) = outgoing.first() {
            if let Some(count) = self.send_leading(outgoing, sent) {
                sent.calls += 1;
                sent.datagrams += count as u64;
                (0..count).for_each(|_| outgoing.pop(1));
                continue;
            }
            let datagrams = run.datagrams();
            let joined = datagrams > 1 && run.may_be_joined && datagrams <= self.segments_max;
            let (count, data) =
                if joined { (datagrams, data) } else { (1, &data[..run.segment.min(data.len())]) };
            sent.calls += 1;
            match self.send_now(run, data, joined.then_some(run.segment)) {
                Ok(()) => sent.datagrams += count as u64,
                Err(full) if self.has_room_later(run, &full) => {
                    sent.no_room += 1;
                    return false;
                }
                Err(_) if joined => {
                    // Some ways refuse segments that they would take alone. Others may take them.
                    outgoing.part_first();
                    continue;
                }
                Err(error) => sent.fail(error),
            }
            outgoing.pop(count);
        }
        true
    }

    /// Waits for room after [`try_flush`](Self::try_flush) has found none. Cancel safe.
    ///
    /// # Errors
    /// The loop is ending.
    pub async fn room(&self) -> io::Result<()> {
        self.io.writable_again().await
    }

    /// Sends one datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// What the system said: the datagram is too large for the way, there is no way, or the socket is not connected.
    pub async fn send(&self, data: &[u8]) -> io::Result<()> {
        self.send_alone(None, None, data).await
    }

    /// Sends one datagram to a peer, from an address of this machine if the socket is bound to all of them.
    ///
    /// # Errors
    /// What the system said: the datagram is too large for the way, or there is no way.
    pub async fn send_to(&self, to: &Peer, from: Option<IpAddr>, data: &[u8]) -> io::Result<()> {
        self.send_alone(Some(to), from, data).await
    }

    async fn send_alone(&self, to: Option<&Peer>, from: Option<IpAddr>, data: &[u8]) -> io::Result<()> {
        let (segment, end) = (data.len(), data.len());
        let run =
            Run { peer: to.cloned(), local_ip: from, ecn: 0, segment, start: 0, end, may_be_joined: false };
        loop {
            match self.send_now(&run, data, None) {
                Err(full) if self.has_room_later(&run, &full) => self.io.writable_again().await?,
                done => return done,
            }
        }
    }

    /// Whether to wait. The system tells when a connected Unix peer has room again, but not when one of many has. A peer that
    /// reads nothing must not hold up the others, so it loses the datagram, as over a network.
    fn has_room_later(&self, run: &Run, error: &io::Error) -> bool {
        let is_one_of_many = matches!(self.link, Link::Unix { .. }) && run.peer.is_some();
        error.kind() == io::ErrorKind::WouldBlock && !is_one_of_many
    }

    /// Sends the first datagrams in one call if they are for several peers; how many left. If the system refuses the first one,
    /// it is left to be sent alone, which says why.
    fn send_leading(&self, outgoing: &Outgoing, sent: &mut Sent) -> Option<usize> {
        let Link::Ip { .. } = &self.link else { return None };
        outgoing.leading().nth(1)?;
        let left = send_each(&self.io, outgoing.leading());
        let is_cut = match &left {
            // The system says only how many left before the one that it did not take.
            Ok(count) => *count < outgoing.leading().take(SEND_EACH_MAX).count(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        sent.no_room += u64::from(is_cut);
        left.ok()
    }

    fn send_now(&self, run: &Run, data: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        match (&self.link, &run.peer) {
            (Link::Ip { peer, .. }, to) => {
                let to = match to {
                    Some(Peer::Ip(to)) => Some(*to),
                    Some(_) => return Err(other_family()),
                    None => *peer,
                };
                let to = to.ok_or(io::ErrorKind::NotConnected)?;
                if run.is_to_nobody() || to.port() == 0 {
                    return Err(Errno::INVAL.into());
                }
                let segment = segment_size.map(|bytes| bytes as u16);
                let marked = Marked { to, data, from: run.local_ip, ecn: run.ecn, segment };
                let sent = self.send_anyhow(marked);
                // On a connected socket the error may belong to an earlier datagram. The system reports that once, and
                // sends nothing.
                match sent {
                    Err(error) if peer.is_some() && error.kind() != io::ErrorKind::WouldBlock => {
                        self.send_anyhow(marked)
                    }
                    sent => sent,
                }
            }
            (Link::Unix { .. }, Some(Peer::Unix(name))) => {
                sendto(&self.io, data, SendFlags::NOSIGNAL, &unix_name(name)?)?;
                Ok(())
            }
            (Link::Unix { peer, .. }, None) => {
                peer.as_ref().ok_or(io::ErrorKind::NotConnected)?.send(&self.io, data)
            }
            (Link::Unix { .. }, Some(_)) => Err(other_family()),
        }
    }

    /// Sends to an IP address. If the system refuses what goes beside the data, it is left out: a reply that leaves from another
    /// address or without a mark is better than none.
    fn send_anyhow(&self, mut marked: Marked<'_>) -> io::Result<()> {
        let mut sent = self.send_marked(marked);
        // The address is that of all machines of a network, or this machine's no more, or one of a link that is not named.
        if marked.from.is_some()
            && sent.as_ref().is_err_and(|error| is_of(error, &[Errno::NETUNREACH, Errno::INVAL]))
        {
            marked.from = None;
            sent = self.send_marked(marked);
        }
        // Some systems that are not quite Linux know no marks. If segments are refused, the datagrams are sent one by one.
        if marked.ecn != 0
            && marked.segment.is_none()
            && sent.as_ref().is_err_and(|error| is_of(error, &[Errno::INVAL]))
        {
            marked.ecn = 0;
            sent = self.send_marked(marked);
        }
        sent
    }

    fn send_marked(&self, marked: Marked<'_>) -> io::Result<()> {
        if let Marked { to, data, from: None, ecn: 0, segment: None } = marked {
            // Without control messages, which the kernel would have to copy and read.
            retry_on_intr(|| sendto(&self.io, data, SendFlags::empty(), &to))?;
            return Ok(());
        }
        send_marked(&self.io, marked)
    }
}

/// The socket as tokio knows it.
enum Io {
    Ip(UdpSocket),
    Unix(UnixDatagram),
}

impl Io {
    fn register(socket: Socket, link: &Link) -> io::Result<Self> {
        Ok(match link {
            Link::Ip { .. } => Self::Ip(UdpSocket::from_std(socket.into())?),
            Link::Unix { .. } => Self::Unix(UnixDatagram::from_std(socket.into())?),
        })
    }

    /// Waits for a datagram, or for the news that the port of a connected peer is closed. tokio reports the latter as an
    /// error, and not as something to read.
    async fn arrival(&self) -> io::Result<Ready> {
        let either = Interest::READABLE | Interest::ERROR;
        match self {
            Self::Ip(socket) => socket.ready(either).await,
            Self::Unix(socket) => socket.ready(either).await,
        }
    }

    /// Waits until a socket is writable that has just refused to be written to.
    async fn writable_again(&self) -> io::Result<()> {
        // Forgets that it was writable. If it has become so again meanwhile, the system says it anew.
        let refused = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.try_io(Interest::WRITABLE, refused);
        match self {
            Self::Ip(socket) => socket.writable().await,
            Self::Unix(socket) => socket.writable().await,
        }
    }

    fn try_io<T>(&self, interest: Interest, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Ip(socket) => socket.try_io(interest, call),
            Self::Unix(socket) => socket.try_io(interest, call),
        }
    }
}

impl AsFd for Io {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Ip(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

/// Whether a datagram was refused because it is larger than the way to its peer takes.
pub fn is_too_large(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

/// As the system wants it.
pub(super) fn unix_name(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(name)?,
    })
}

fn is_of(error: &io::Error, errors: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

fn other_family() -> io::Error {
    Errno::AFNOSUPPORT.into()
}

/// A name that cannot be written as text, or would be read as another one, is none: an answer would go astray.
fn unix_peer(from: SocketAddrAny) -> Peer {
    let name = SocketAddrUnix::try_from(from).ok().and_then(|from| {
        match (from.abstract_name(), from.path_bytes()) {
            (Some(name), _) => str::from_utf8(name).ok().map(|name| format!("@{name}")),
            (None, path) => {
                str::from_utf8(path?).ok().filter(|path| !path.starts_with('@')).map(str::to_owned)
            }
        }
    });
    name.map_or(Peer::Unnamed, |name| Peer::Unix(name.into()))
}

impl fmt::Debug for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Udp").field("local", &self.local).field("receive_buffer", &self.buffer).finish()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip { .. } => "Ip",
            Self::Unix { .. } => "Unix",
        })
    }
}
