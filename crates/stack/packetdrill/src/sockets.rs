//! Descriptors, and what the calls of a program mean for the connections behind them.
//!
//! A call has an answer at once, or it would block, which is [`None`]. Whether its caller then waits or gets `EAGAIN` depends on the
//! socket. The [`server`](crate::server) does the waiting.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::IntoRawFd;

use anywire_tcp::{ConnId, ConnectError, ConnectOptions, End, Events, KeepAlive, ListenerId, Ready, Status};

use crate::call::{Answer, Call, DONE, Errno, Reply, Wish};
use crate::network::Network;

/// Every descriptor of the script.
#[derive(Default)]
pub(crate) struct Sockets {
    open: HashMap<i32, Socket>,
}

/// A descriptor.
pub(crate) struct Socket {
    pub(crate) kind: Kind,
    pub(crate) options: ConnectOptions,
    /// The value of SO_SNDBUF: more than this is not queued.
    pub(crate) send_bytes: Option<usize>,
    pub(crate) receive_bytes: Option<usize>,
    /// Times of keep-alive, if they were set.
    pub(crate) keep_alive: Option<KeepAlive>,
    bound: Option<SocketAddr>,
    is_nonblocking: bool,
    may_read: bool,
    may_write: bool,
    /// How the connection ended was told once: from then on it is merely closed.
    is_end_told: bool,
}

/// What a descriptor stands for.
pub(crate) enum Kind {
    /// Neither listening nor connected.
    Fresh,
    Listening {
        listener: ListenerId,
        address: SocketAddr,
        arrived: VecDeque<ConnId>,
    },
    Connected(ConnId),
    /// One of `epoll`'s, with the events that it waits for.
    Epoll(Vec<Wish>),
}

impl Sockets {
    /// Does a call, or finds that it has to wait. `is_late`: it has a timeout, and that has passed.
    pub(crate) fn attempt(
        &mut self,
        network: &mut Network,
        call: &mut Call,
        is_late: bool,
    ) -> Option<Answer> {
        let answer = match call {
            Call::Socket => self.socket(network),
            Call::Bind { fd, address } => self.bind(*fd, *address),
            Call::Listen { fd } => self.listen(network, *fd),
            Call::Accept { fd } => return self.accept(network, *fd),
            Call::Connect { fd, address } => return self.connect(network, *fd, *address),
            Call::Receive { fd, length, flags } => return self.receive(network, *fd, *length, *flags),
            Call::Send { fd, bytes, taken, flags } => return self.send(network, *fd, bytes, taken, *flags),
            Call::Close { fd } => self.close(network, *fd),
            Call::Shutdown { fd, how } => self.shutdown(network, *fd, *how),
            Call::SetOption { fd, level, name, value } => {
                self.of(*fd).and_then(|socket| socket.set_option(network, *level, *name, *value))
            }
            Call::Option { fd, level, name } => {
                self.of(*fd).and_then(|socket| socket.option(network, *level, *name))
            }
            Call::Control { fd, command, argument } => self.control(*fd, *command, *argument),
            Call::Inquire { fd, request } => self.inquire(network, *fd, *request),
            Call::Poll { wishes, .. } => return self.poll(network, wishes, is_late),
            Call::EpollCreate => self.add(Socket::new(Kind::Epoll(Vec::new()))),
            Call::EpollControl { epoll, operation, wish } => self.epoll_control(*epoll, *operation, *wish),
            Call::EpollWait { epoll, count_max, .. } => {
                return self.epoll_wait(network, *epoll, *count_max, is_late);
            }
            // These are not for a socket, and the server has executed them.
            Call::Inject { .. } | Call::NextPacket | Call::Sleep { .. } | Call::Now => DONE,
        };
        Some(answer)
    }

    /// Takes an event of the engine. Only connections that arrive matter; calls ask for everything else.
    pub(crate) fn note(&mut self, network: &mut Network, ready: Ready) {
        if !ready.events.has(Events::INCOMING) {
            return;
        }
        let (local, _) = network.engine().addresses(ready.id);
        for socket in self.open.values_mut() {
            if let Kind::Listening { address, arrived, .. } = &mut socket.kind
                && address.port() == local.port()
                && (address.ip().is_unspecified() || address.ip() == local.ip())
            {
                return arrived.push_back(ready.id);
            }
        }
        network.engine().abort(ready.id);
    }

    pub(crate) fn of(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.open.get_mut(&fd).ok_or(Errno(libc::EBADF))
    }

    /// A number for a new descriptor. At its end packetdrill calls the system's `close` for descriptors that the script left open,
    /// and complains if that fails. So each number is a real descriptor, which is never read or written.
    fn add(&mut self, socket: Socket) -> Answer {
        let number =
            File::open("/dev/null").map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        let fd = number.into_raw_fd();
        self.open.insert(fd, socket);
        Ok(Reply::Number(i64::from(fd)))
    }

    fn socket(&mut self, network: &mut Network) -> Answer {
        if self.open.is_empty() {
            network.read_settings();
        }
        self.add(Socket::new(Kind::Fresh))
    }

    fn bind(&mut self, fd: i32, address: SocketAddr) -> Answer {
        self.of(fd)?.bound = Some(address);
        DONE
    }

    fn listen(&mut self, network: &mut Network, fd: i32) -> Answer {
        let socket = self.of(fd)?;
        let Kind::Fresh = socket.kind else { return Err(Errno(libc::EINVAL)) };
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let address = socket.bound.unwrap_or(any);
        if !address.ip().is_unspecified() {
            network.engine().add_address(address.ip()).map_err(|_| Errno(libc::EADDRNOTAVAIL))?;
        }
        let listener =
            network.engine().listen(address, socket.options).map_err(|_| Errno(libc::EADDRINUSE))?;
        socket.kind = Kind::Listening { listener, address, arrived: VecDeque::new() };
        DONE
    }

    fn accept(&mut self, network: &mut Network, fd: i32) -> Option<Answer> {
        let socket = match self.of(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        let Kind::Listening { arrived, .. } = &mut socket.kind else { return Some(Err(Errno(libc::EINVAL))) };
        let Some(id) = arrived.pop_front() else {
            return socket.is_nonblocking.then_some(Err(Errno(libc::EAGAIN)));
        };
        let (_, peer) = network.engine().addresses(id);
        let accepted = Socket { options: socket.options, ..Socket::new(Kind::Connected(id)) };
        let answer = self.add(accepted).map(|reply| match reply {
            Reply::Number(fd) => Reply::Accepted { fd: fd as i32, peer },
            other => other,
        });
        Some(answer)
    }

    fn connect(&mut self, network: &mut Network, fd: i32, address: SocketAddr) -> Option<Answer> {
        let socket = match self.of(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        match socket.kind {
            Kind::Fresh => {}
            // Tried again, after it had to wait.
            Kind::Connected(id) => {
                return match network.engine().status(id) {
                    Status::Opening if socket.is_nonblocking => Some(Err(Errno(libc::EALREADY))),
                    Status::Opening => None,
                    Status::Ended(_) => Some(socket.end(network).map_or(DONE, Err)),
                    Status::Open | Status::PeerClosed => Some(DONE),
                };
            }
            _ => return Some(Err(Errno(libc::EISCONN))),
        }
        let opened = match socket.bound.filter(|from| !from.ip().is_unspecified() && from.port() != 0) {
            Some(from) => network.engine().connect_from(from, address, socket.options),
            None => network.engine().connect(address, socket.options),
        };
        match opened {
            Ok(id) => socket.kind = Kind::Connected(id),
            Err(ConnectError::NoAddress | ConnectError::InUse) => {
                return Some(Err(Errno(libc::EADDRNOTAVAIL)));
            }
            Err(_) => return Some(Err(Errno(libc::ENETUNREACH))),
        }
        socket.is_nonblocking.then_some(Err(Errno(libc::EINPROGRESS)))
    }

    fn receive(&mut self, network: &mut Network, fd: i32, length: usize, flags: i32) -> Option<Answer> {
        let (socket, id) = match self.connection(fd) {
            Ok(both) => both,
            Err(error) => return Some(Err(error)),
        };
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_PEEK) != 0 {
            // Urgent data above all: the engine has none.
            return Some(Err(Errno(libc::EOPNOTSUPP)));
        }
        let mut bytes = Vec::new();
        if flags & libc::MSG_PEEK != 0 {
            network.engine().peek(id, length, &mut bytes);
        }
        while flags & libc::MSG_PEEK == 0 && bytes.len() < length {
            let taken = network.engine().recv(id, |more| {
                let count = more.len().min(length - bytes.len());
                bytes.extend_from_slice(&more[..count]);
                count
            });
            if taken == 0 {
                break;
            }
        }
        if !bytes.is_empty() || length == 0 {
            return Some(Ok(Reply::Bytes(bytes)));
        }
        if let Some(error) = socket.end(network) {
            return Some(Err(error));
        }
        if network.engine().is_finished(id) || !socket.may_read {
            return Some(Ok(Reply::Bytes(bytes)));
        }
        (socket.is_nonblocking || flags & libc::MSG_DONTWAIT != 0).then_some(Err(Errno(libc::EAGAIN)))
    }

    fn send(
        &mut self,
        network: &mut Network,
        fd: i32,
        bytes: &[u8],
        taken: &mut usize,
        flags: i32,
    ) -> Option<Answer> {
        let (socket, id) = match self.connection(fd) {
            Ok(both) => both,
            Err(error) => return Some(Err(error)),
        };
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) != 0 {
            // MSG_MORE above all: the engine has no cork.
            return Some(Err(Errno(libc::EOPNOTSUPP)));
        }
        if let Some(error) = socket.end(network) {
            return Some(Err(error));
        }
        let status = network.engine().status(id);
        if !socket.may_write || matches!(status, Status::Ended(_)) {
            return Some(Err(Errno(libc::EPIPE)));
        }
        let limit = socket.room(network, id).min(bytes.len() - *taken);
        *taken += network.engine().send(id, &bytes[*taken..*taken + limit]);
        if *taken == bytes.len() {
            return Some(Ok(Reply::Number(*taken as i64)));
        }
        let is_nonblocking = socket.is_nonblocking || flags & libc::MSG_DONTWAIT != 0;
        match *taken {
            _ if !is_nonblocking => None,
            0 => Some(Err(Errno(libc::EAGAIN))),
            taken => Some(Ok(Reply::Number(taken as i64))),
        }
    }

    fn close(&mut self, network: &mut Network, fd: i32) -> Answer {
        let socket = self.open.remove(&fd).ok_or(Errno(libc::EBADF))?;
        match socket.kind {
            Kind::Connected(id) => network.engine().close(id),
            Kind::Listening { listener, arrived, .. } => {
                network.engine().stop_listening(listener);
                arrived.into_iter().for_each(|id| network.engine().abort(id));
            }
            Kind::Fresh | Kind::Epoll(_) => {}
        }
        DONE
    }

    fn shutdown(&mut self, network: &mut Network, fd: i32, how: i32) -> Answer {
        let (socket, id) = self.connection(fd)?;
        if matches!(network.engine().status(id), Status::Ended(_)) {
            return Err(Errno(libc::ENOTCONN));
        }
        if how != libc::SHUT_WR {
            socket.may_read = false;
        }
        if how != libc::SHUT_RD {
            socket.may_write = false;
            network.engine().shutdown(id);
        }
        DONE
    }

    fn control(&mut self, fd: i32, command: i32, argument: i32) -> Answer {
        let socket = self.of(fd)?;
        match command {
            libc::F_SETFL => socket.is_nonblocking = argument & libc::O_NONBLOCK != 0,
            libc::F_GETFL if socket.is_nonblocking => {
                return Ok(Reply::Number(i64::from(libc::O_RDWR | libc::O_NONBLOCK)));
            }
            libc::F_GETFL => return Ok(Reply::Number(i64::from(libc::O_RDWR))),
            _ => return Err(Errno(libc::EINVAL)),
        }
        DONE
    }

    fn inquire(&mut self, network: &mut Network, fd: i32, request: u64) -> Answer {
        let (_, id) = self.connection(fd)?;
        if request == libc::FIONREAD {
            return Ok(Reply::Number(network.engine().readable(id) as i64));
        }
        Err(Errno(libc::EOPNOTSUPP))
    }

    fn connection(&mut self, fd: i32) -> Result<(&mut Socket, ConnId), Errno> {
        let socket = self.of(fd)?;
        match socket.kind {
            Kind::Connected(id) => Ok((socket, id)),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }
}

/// Waiting for more than one.
impl Sockets {
    fn poll(&self, network: &mut Network, wishes: &[Wish], is_late: bool) -> Option<Answer> {
        let known: Vec<_> = wishes.iter().map(|wish| self.granted(network, *wish)).collect();
        (is_late || known.iter().any(|wish| wish.events != 0)).then_some(Ok(Reply::Events(known)))
    }

    /// What of a wish has come true.
    fn granted(&self, network: &mut Network, wish: Wish) -> Wish {
        const ALWAYS: u32 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;
        let state = self.open.get(&wish.fd).map_or(libc::POLLNVAL as u32, |socket| socket.state(network));
        Wish { events: state & (wish.events | ALWAYS), ..wish }
    }

    fn epoll_control(&mut self, epoll: i32, operation: i32, wish: Wish) -> Answer {
        self.of(wish.fd)?;
        let Kind::Epoll(wishes) = &mut self.of(epoll)?.kind else { return Err(Errno(libc::EINVAL)) };
        let place = wishes.iter().position(|other| other.fd == wish.fd);
        match (operation, place) {
            (libc::EPOLL_CTL_ADD, None) => wishes.push(wish),
            (libc::EPOLL_CTL_MOD, Some(place)) => wishes[place] = wish,
            (libc::EPOLL_CTL_DEL, Some(place)) => drop(wishes.remove(place)),
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(Errno(libc::EEXIST)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Errno(libc::ENOENT)),
            _ => return Err(Errno(libc::EINVAL)),
        }
        DONE
    }

    /// Level-triggered: reports a condition as long as it holds.
    fn epoll_wait(&mut self, network: &mut Network, epoll: i32, max: usize, is_late: bool) -> Option<Answer> {
        let wishes = match self.of(epoll).map(|socket| &socket.kind) {
            Ok(Kind::Epoll(wishes)) => wishes.clone(),
            Ok(_) => return Some(Err(Errno(libc::EINVAL))),
            Err(error) => return Some(Err(error)),
        };
        let granted = wishes.into_iter().map(|wish| self.granted(network, wish));
        let events: Vec<_> = granted.filter(|wish| wish.events != 0).take(max).collect();
        (is_late || !events.is_empty()).then_some(Ok(Reply::Events(events)))
    }
}

impl Socket {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            options: ConnectOptions::default(),
            send_bytes: None,
            receive_bytes: None,
            keep_alive: None,
            bound: None,
            is_nonblocking: false,
            may_read: true,
            may_write: true,
            is_end_told: false,
        }
    }

    /// How its connection failed, if no call has reported that yet.
    pub(crate) fn end(&mut self, network: &mut Network) -> Option<Errno> {
        let Kind::Connected(id) = self.kind else { return None };
        let errno = match network.engine().status(id) {
            Status::Ended(End::Reset) => libc::ECONNRESET,
            Status::Ended(End::Refused) => libc::ECONNREFUSED,
            Status::Ended(End::TimedOut) => libc::ETIMEDOUT,
            Status::Ended(End::Unreachable) => libc::EHOSTUNREACH,
            Status::Ended(End::Aborted) => libc::ECONNABORTED,
            Status::Ended(End::NetworkDown) => libc::ENETDOWN,
            _ => return None,
        };
        (!std::mem::replace(&mut self.is_end_told, true)).then_some(Errno(errno))
    }

    /// How much more may be queued.
    fn room(&self, network: &mut Network, id: ConnId) -> usize {
        let room = network.engine().send_room(id);
        let queued = network.send_bytes_max() - room;
        self.send_bytes.map_or(room, |limit| room.min(limit.saturating_sub(queued)))
    }

    /// In the numbers of `poll`.
    fn state(&self, network: &mut Network) -> u32 {
        let mut state = 0;
        match &self.kind {
            Kind::Listening { arrived, .. } if !arrived.is_empty() => state |= libc::POLLIN,
            Kind::Connected(id) => {
                let status = network.engine().status(*id);
                let (is_over, is_finished) =
                    (matches!(status, Status::Ended(_)), network.engine().is_finished(*id));
                if is_over || is_finished || !self.may_read || network.engine().readable(*id) > 0 {
                    state |= libc::POLLIN;
                }
                let is_open = matches!(status, Status::Open | Status::PeerClosed);
                if is_over || !self.may_write || is_open && self.room(network, *id) > 0 {
                    state |= libc::POLLOUT;
                }
                if is_over || status == Status::PeerClosed || !self.may_read {
                    state |= libc::POLLRDHUP;
                }
                if is_over || status == Status::PeerClosed && !self.may_write {
                    state |= libc::POLLHUP;
                }
                if matches!(status, Status::Ended(end) if end != End::Closed) && !self.is_end_told {
                    state |= libc::POLLERR;
                }
            }
            Kind::Fresh => state |= libc::POLLOUT | libc::POLLHUP,
            Kind::Listening { .. } | Kind::Epoll(_) => {}
        }
        state as u32
    }
}
