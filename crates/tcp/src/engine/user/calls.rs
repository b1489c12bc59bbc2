//! What the holder of a connection can do: open, send, receive, close.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use anywire_packet::Addresses;

use crate::engine::input::receive::ports;
use crate::engine::ip::local::Listener;
use crate::engine::opening::listen::behind;
use crate::engine::output::scheduler;
use crate::engine::{ConnId, ConnIndex, Engine, ListenerId, Place};
use crate::half_open::Traits;
use crate::pool::Marks;
use crate::tcb::{Flags, ServiceClass, State, Tcb};

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The handshake is not done.
    Opening,
    /// Both directions are open, or at least the peer's.
    Open,
    /// The peer has ended its direction; ours may be open.
    PeerClosed,
    /// It is over; the id waits to be closed.
    Ended(End),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// By FINs from both ends.
    Closed = 1,
    /// The peer reset it.
    Reset,
    /// The peer does not listen.
    Refused,
    /// The peer did not answer for the user timeout, or to keep-alive probes.
    TimedOut,
    /// We reset it.
    Aborted,
    /// Nobody at the next hop answers, while it is being opened.
    Unreachable,
    /// Our address was [taken away](Engine::remove_address), or the network interface that had it.
    NetworkDown,
}

/// Options of a connection that is opened, or of the connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectOptions {
    /// Nagle's algorithm is off: small segments leave at once (RFC 9293 3.7.4).
    pub no_nagle: bool,
    /// Sends keep-alive probes while the connection is idle (RFC 9293 3.8.4), with the times of the
    /// [`Settings`](crate::Settings). [`Engine::set_keep_alive`] gives a connection times of its own.
    pub keep_alive: bool,
    /// Its class among the connections that wait to send, 1 to 3; 0 stands for 1. See [`Engine::set_class_weight`].
    pub class: u8,
    /// The Diffserv field of its packets, 0 to 63: the lower six bits count (RFC 2474; RFC 9293 MUST-48). See
    /// [`Engine::set_dscp`].
    pub dscp: u8,
}

/// Why a connection was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The engine has no address of the remote's family, or not the one that was asked for.
    #[error("no address of ours to connect from: add one of the same family as the remote's")]
    NoAddress,
    /// No route leads there.
    #[error("no route to the remote address: add one")]
    NoRoute,
    /// The remote address is no other host's: a group, the broadcast address of the route's network, an address of our own.
    #[error("the remote address is not one that another host can have")]
    NotAHost,
    /// The four of both addresses and ports are in use.
    #[error("a connection between these addresses and ports exists")]
    InUse,
    /// All ports to this remote are in use, of all our addresses.
    #[error("every port of our addresses is in use towards the remote: add an address")]
    NoPort,
    /// The limit on connections is reached.
    #[error("the limit of connections is reached")]
    TooMany,
    /// As many next hops are in use as [`Limits::neighbours`](crate::Limits::neighbours) allows.
    #[error("the limit of neighbours is reached: raise it, or add a route by a gateway")]
    NoNeighbour,
}

/// Why a port is not listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not one of the engine's.
    #[error("the address is not one of ours: add it first")]
    NoAddress,
    /// It is listened on already.
    #[error("the port is listened on already")]
    InUse,
    /// The limit on listeners is reached.
    #[error("the limit of listeners is reached")]
    TooMany,
}

impl Engine {
    /// Listens on a port, of one address or of all if it is unspecified. Connections come as
    /// [`Events::INCOMING`](crate::engine::Events::INCOMING).
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(
        &mut self,
        address: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ListenerId, ListenError> {
        let local = match address.ip() {
            ip if ip.is_unspecified() => None,
            ip => Some(self.local.number_of(ip).ok_or(ListenError::NoAddress)?),
        };
        let (mut count, mut taken) = (0, false);
        for listener in self.local.listeners() {
            count += 1;
            taken |= listener.port == address.port() && listener.address == local;
        }
        if taken {
            return Err(ListenError::InUse);
        }
        if count >= self.limits.listeners {
            return Err(ListenError::TooMany);
        }
        let listener = Listener {
            class: class_of(options),
            no_nagle: options.no_nagle,
            keep_alive: options.keep_alive,
            ..Listener::new(local, address.port())
        };
        self.local.add_listener(listener).ok_or(ListenError::TooMany)
    }

    /// Listens no more; connections that it brought go on. Those whose handshake is not over end with it: a reset tells their
    /// peers as soon as one of them sends something, or its SYN-ACK would be due again.
    pub fn stop_listening(&mut self, listener: ListenerId) {
        self.local.remove_listener(listener);
    }

    /// Listens nowhere any more; connections go on, as with [`stop_listening`](Self::stop_listening).
    pub fn stop_listening_anywhere(&mut self) {
        self.local.remove_listeners();
    }

    /// Opens a connection from this address and port.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_from(
        &mut self,
        from: SocketAddr,
        remote: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnId, ConnectError> {
        let local = self.local.number_of(from.ip()).ok_or(ConnectError::NoAddress)?;
        let addresses = pair(from.ip(), remote.ip()).ok_or(ConnectError::NoAddress)?;
        if !addresses.are_of_hosts() {
            return Err(ConnectError::NotAHost);
        }
        self.local.route_to(remote.ip())?;
        let both = ports(remote.port(), from.port());
        let hash = self.hash_of(&addresses, both);
        let (mut reused, mut gives_way) = (None, None);
        match self.former(hash, &addresses, both)? {
            Some(Place::TimeWait(place)) => reused = Some(place),
            Some(Place::Tcb(old)) => gives_way = Some(old),
            _ => {}
        }
        let neighbour = self.local.neighbour_to(remote.ip())?;
        let index = self.tcbs.take().ok_or(ConnectError::TooMany)?;
        self.local.neighbours.acquire(neighbour);
        let last = gives_way.map(|old| self.give_way(old));
        let (number, last) = if let Some(place) = reused {
            // Its place in the table goes over, and so does the peer's number.
            let wait = self.time_wait[place];
            self.counters.time_wait_reused += 1;
            self.table.replace(hash, Place::TimeWait(place).value(), Place::Tcb(index).value());
            self.local.neighbours.release(wait.neighbour);
            self.time_wait.remove(place);
            (wait.remote, Some(wait.snd_nxt))
        } else if self.table.insert(hash, Place::Tcb(index).value()).is_ok() {
            (self.local.acquire_peer(remote.ip()), last)
        } else {
            self.local.neighbours.release(neighbour);
            self.free_place(index);
            return Err(ConnectError::TooMany);
        };
        let (iss, ts_offset) = self.starts(&addresses, both);
        let iss = behind(iss, last);
        let tcb = &mut self.tcbs[index];
        debug_assert!(tcb.is_blank());
        tcb.flags = Flags::NO_NAGLE.when(options.no_nagle);
        tcb.remote = number;
        tcb.remote_port = remote.port();
        tcb.local_port = from.port();
        tcb.local = local;
        tcb.neighbour = neighbour;
        tcb.class = class_of(options);
        tcb.ts_offset = ts_offset;
        if options.keep_alive {
            self.keep_alive_by_settings(index);
        }
        self.fill_for_syn(index, iss, &addresses);
        self.schedule(index);
        Ok(ConnId(index, self.tcbs[index].tag()))
    }

    /// The earlier connection between these addresses and ports, if there is one that gives way to a new one: our numbers and
    /// timestamps are all newer (RFC 6191, RFC 9293 MAY-2).
    pub(crate) fn former(
        &self,
        hash: u64,
        addresses: &Addresses,
        both: u32,
    ) -> Result<Option<Place>, ConnectError> {
        match self.find(hash, addresses, both) {
            None => Ok(None),
            Some(Place::TimeWait(place)) if self.time_wait[place].traits.has(Traits::TIMESTAMPS) => {
                Ok(Some(Place::TimeWait(place)))
            }
            Some(Place::Tcb(old)) if self.tcbs[old].may_give_way() => Ok(Some(Place::Tcb(old))),
            Some(_) => Err(ConnectError::InUse),
        }
    }

    /// Whether a connection has these addresses and ports: ours, and the peer's. One in TIME-WAIT without a user does not count.
    pub fn has_connection(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let Some(addresses) = pair(local.ip(), remote.ip()) else { return false };
        let both = ports(remote.port(), local.port());
        let found = self.find(self.hash_of(&addresses, both), &addresses, both);
        matches!(found, Some(Place::Tcb(_) | Place::HalfOpen(_)))
    }

    /// Asks for the cache line that [`connect_from`](Self::connect_from) will read first: of many connections that are opened
    /// one after the other, some places ahead of the present one.
    #[inline]
    pub fn prefetch_connect(&self, from: SocketAddr, remote: SocketAddr) {
        if let Some(addresses) = pair(from.ip(), remote.ip()) {
            let hash = self.hash_of(&addresses, ports(remote.port(), from.port()));
            self.table.prefetch(self.table.home(hash));
        }
    }

    /// How a connection stands.
    pub fn status(&self, id: ConnId) -> Status {
        if !self.is_held(id) {
            return Status::Ended(End::Closed);
        }
        let tcb = &self.tcbs[id.0];
        match tcb.state {
            State::SynSent | State::SynReceived => Status::Opening,
            State::Closed => Status::Ended(tcb.end()),
            _ if tcb.has(Flags::FIN_RECEIVED) => Status::PeerClosed,
            _ => Status::Open,
        }
    }

    /// The addresses and ports of a connection: ours, and the peer's. Of an earlier connection in its place, 0.0.0.0 and port 0.
    pub fn addresses(&self, id: ConnId) -> (SocketAddr, SocketAddr) {
        if !self.is_held(id) {
            let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            return (nowhere, nowhere);
        }
        self.ends(&self.tcbs[id.0])
    }

    /// The addresses and ports of a connection: ours, and the peer's.
    pub(crate) fn ends(&self, tcb: &Tcb) -> (SocketAddr, SocketAddr) {
        let local = SocketAddr::new(self.local.address(tcb.local), tcb.local_port);
        (local, SocketAddr::new(self.local.peer(tcb.local, tcb.remote), tcb.remote_port))
    }

    /// The listener of a connection that came in: the one that its port has now, if it still has one.
    pub fn listener_of(&self, id: ConnId) -> Option<ListenerId> {
        let tcb = self.is_held(id).then(|| &self.tcbs[id.0])?;
        tcb.has(Flags::PASSIVE).then(|| self.local.listener_for(tcb.local, tcb.local_port))?
    }

    /// Whether an ACK of this connection is about to leave alone: data that is sent now leaves with it.
    #[inline]
    pub fn sends_pure_ack(&self, id: ConnId) -> bool {
        let waits = Flags::SCHEDULED.with(Flags::ACK_NOW);
        self.is_held(id) && {
            let tcb = &self.tcbs[id.0];
            tcb.flags.0 & waits.0 == waits.0 && !tcb.has_unsent() && tcb.state != State::Closed
        }
    }

    /// Ends the own direction behind the data; the other one goes on.
    pub fn shutdown(&mut self, id: ConnId) {
        if self.is_held(id) {
            self.end_sending(id.0);
        }
    }

    fn end_sending(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if !tcb.state.may_send() || tcb.has(Flags::FIN_QUEUED) {
            return;
        }
        tcb.flags.set(Flags::FIN_QUEUED);
        match tcb.state {
            State::Established => tcb.state = State::FinWait1,
            State::CloseWait => tcb.state = State::LastAck,
            _ => {}
        }
        if tcb.has_unsent() {
            // With the last data.
            let tail = tcb.send_tail;
            tcb.write_end += 1;
            self.pool.segment_mut(tail).marks.set(Marks::FIN);
        } else {
            let cell = self.pool.take_fin();
            if tcb.send_tail.is_none() {
                self.pool.segment_mut(cell).seq = tcb.write_end;
                tcb.write_end += 1;
                tcb.send_tail = cell;
                tcb.send_next = cell;
                tcb.queued = 1;
            } else {
                self.enqueue(index, cell);
            }
        }
        self.schedule(index);
        self.check(index);
    }

    /// Claims a connection for one holder, such as a task. Until it is [released](Self::release), [`close`](Self::close) and
    /// [`abort`](Self::abort) end the connection, and the holder hears of that; but nobody lets go of it. So its place goes to no
    /// other connection meanwhile, and [is a valid id](ConnId::claimed).
    pub fn claim(&mut self, id: ConnId) {
        if self.is_held(id) {
            self.tcbs[id.0].flags.set(Flags::CLAIMED);
        }
    }

    /// Takes the claim back: the next [`close`](Self::close) or [`abort`](Self::abort) lets go of the connection.
    pub fn release(&mut self, id: ConnId) {
        if self.is_held(id) {
            self.tcbs[id.0].flags.clear(Flags::CLAIMED);
        }
    }

    /// Lets go of a connection: it ends by FINs once everything was sent. Bytes that have arrived and were not read are
    /// lost, and a reset tells the peer so (RFC 2525 2.17). The id is invalid from here on.
    pub fn close(&mut self, id: ConnId) {
        let index = id.0;
        if !self.is_held(id) {
            return;
        }
        let tcb = &self.tcbs[index];
        if tcb.has(Flags::CLAIMED) {
            return self.end_sending(index);
        }
        match tcb.state {
            State::Closed => return self.free_tcb(index),
            State::SynSent => {
                self.tcbs[index].flags.set(Flags::DETACHED);
                return self.end(index, End::Aborted);
            }
            _ if tcb.unread() > 0 => return self.abort(id),
            _ => {}
        }
        self.end_sending(index);
        self.take_deadline_away(index);
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(Flags::DETACHED);
        tcb.flags.clear(Flags::TELL.with(Flags::IN_READY).with(Flags::WANTS_ROOM));
        match tcb.state {
            State::TimeWait => self.enter_time_wait(index),
            State::FinWait2 => self.time_last_state(index),
            _ => {}
        }
    }

    /// Ends a connection at once: unsent data is lost, and the peer sees a reset. The id is invalid from here on.
    pub fn abort(&mut self, id: ConnId) {
        let index = id.0;
        if !self.is_held(id) {
            return;
        }
        let tcb = &mut self.tcbs[index];
        let is_claimed = tcb.has(Flags::CLAIMED);
        if tcb.state == State::Closed {
            if !is_claimed {
                self.free_tcb(index);
            }
            return;
        }
        tcb.flags.set(Flags::DETACHED.when(!is_claimed));
        self.break_off(index, End::Aborted);
    }
}

fn class_of(options: ConnectOptions) -> ServiceClass {
    let ring = match options.class {
        0 => scheduler::NORMAL,
        class => class.min(scheduler::CLASSES as u8 - 1),
    };
    ServiceClass::new(options.dscp, ring)
}

pub(crate) fn pair(local: IpAddr, remote: IpAddr) -> Option<Addresses> {
    match (local, remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            Some(Addresses::V4 { local: local.to_bits(), remote: remote.to_bits() })
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            Some(Addresses::V6 { local: local.to_bits(), remote: remote.to_bits() })
        }
        _ => None,
    }
}
