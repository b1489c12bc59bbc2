//! An interface without its runtime: the engine and its device, the tasks that wait for its connections, and the queues of
//! listeners.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll, Waker};

use anywire_tcp::{ConnId, End, Engine, Events, Frames, Instant, ListenError, Ready, Status};
use tokio::io::ReadBuf;

use super::inspect::record;
use super::listener::ListenOptions;
use super::no_device::NoDevice;
use crate::capture::Recorder;
use crate::device::{Device, LinkEvent};
use crate::ip::{Event, Layer};
use crate::lower_layer::LowerLayer;

/// What an interface has counted; the engine and the device count for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InterfaceCounters {
    /// Connections that ended because their other end is known to have gone for good.
    pub departed: u64,
    /// Times that the driver has run.
    pub polls: u64,
    /// Times that the link of the device has gone down. Its connections go on once it is up again.
    pub link_downs: u64,
}

/// The engine and its device, and the waiting tasks of each connection that has a stream.
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) lower: LowerLayer,
    pub(super) device: Box<dyn Device>,
    pub(super) counters: InterfaceCounters,
    /// By the number of the connection.
    streams: Vec<StreamState>,
    /// By the address that is listened on; any address of the engine is 0.0.0.0.
    queues: HashMap<SocketAddr, AcceptQueue>,
    incoming: Frames,
    /// What the device had no room for is left here, and is sent before anything else.
    outgoing: Frames,
    /// Captures that run.
    pub(super) recorders: Vec<Recorder>,
    /// Who waits for an event of the layer. Only one may.
    listener_of_events: Option<Waker>,
    pub(super) are_events_taken: bool,
    /// Tasks to wake once no borrow is held.
    pub(super) woken: VecDeque<Waker>,
    /// How connections end since the driver or the device has gone.
    stopped: Option<io::ErrorKind>,
    /// Nothing can be sent any more, not even the last words of its connections.
    pub(super) has_lost_device: bool,
}

/// One connection, as its stream sees it.
#[derive(Default)]
pub(super) struct StreamState {
    holder: Holder,
    reader: Option<Waker>,
    writer: Option<Waker>,
    has_ended_writing: bool,
    /// Its end was told to the writer, for whom it is a broken pipe from then on.
    has_told: bool,
    /// Letting go of it resets it.
    pub(super) aborts: bool,
    /// Its user takes it for connected, though the peer has not answered yet: a place among such connections, until it is let go of.
    pub(super) passes_for_open: Option<Box<dyn Any>>,
    /// Bytes that its user has read and written.
    bytes_read: u64,
    bytes_written: u64,
}

/// Who has a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Holder {
    /// Nobody: there is no connection, or it ends by itself.
    #[default]
    Nobody,
    /// A stream, or the queue in which the connection waits to be accepted.
    User,
    /// The handshake: the user has let go of the connection before it was open, and it closes once it is.
    Handshake,
}

/// What arrives at a listener.
struct AcceptQueue {
    id: anywire_tcp::ListenerId,
    waiting: VecDeque<ConnId>,
    acceptor: Option<Waker>,
}

impl Core {
    pub(super) fn new(engine: Engine, layer: Option<Layer>, device: Box<dyn Device>) -> Self {
        Self {
            engine,
            lower: LowerLayer::new(layer),
            counters: InterfaceCounters::default(),
            streams: Vec::new(),
            queues: HashMap::new(),
            incoming: device.batch(),
            outgoing: device.batch(),
            recorders: Vec::new(),
            listener_of_events: None,
            are_events_taken: false,
            woken: VecDeque::new(),
            stopped: None,
            has_lost_device: false,
            device,
        }
    }

    // What the driver does.

    /// One step. Returns whether it has done something: then there may be more to do at once.
    pub(super) fn step(&mut self, now: Instant) -> bool {
        self.counters.polls += 1;
        let mut is_busy = self.send(now, SENT_BATCHES_A_STEP);
        for _ in 0..BATCHES_A_STEP {
            if self.device.receive(now, &mut self.incoming) == 0 {
                break;
            }
            is_busy = true;
            if !self.recorders.is_empty() {
                record(&mut self.recorders, now, &self.incoming, true);
            }
            self.engine.receive(now, &mut self.incoming);
            self.lower.input(now, &mut self.engine);
            self.take_events();
            if self.device.is_behind() {
                // Like a kernel, which takes segments in before any process runs. What a batch costs here is a fraction of what the
                // tasks do with it.
                continue;
            }
            if !self.woken.is_empty() {
                // A reader finds its bytes in their frames only until the next batch comes in.
                break;
            }
            self.send(now, SENT_BATCHES_A_STEP);
        }
        is_busy |= self.advance(now);
        while let Some(event) = self.lower.take_link_event(now, &mut self.engine, &mut *self.device) {
            self.on_link_event(event);
        }
        if self.lower.has_events() {
            self.woken.extend(self.listener_of_events.take());
        }
        is_busy
    }

    /// Does what is due by time, and sends what comes of it. Whether anything was due that did not wait for room.
    ///
    /// After what has arrived: a thread that comes late finds the answer that a timer waits for in the device.
    fn advance(&mut self, now: Instant) -> bool {
        let is_due = self.engine.next_deadline().is_some_and(|deadline| deadline <= now);
        // What waits for room is due all the time, and nothing that could be gone on with.
        let is_busy = if self.engine.wants_to_transmit() {
            self.engine.next_timer().is_some_and(|deadline| deadline <= now)
        } else {
            is_due
        };
        if is_due {
            self.engine.advance(now);
            self.take_events();
        }
        self.lower.advance(now, &mut self.engine);
        if is_due || self.lower.wants_to_transmit() {
            self.send(now, SENT_BATCHES_A_STEP);
        }
        is_busy
    }

    fn on_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up
            | LinkEvent::Down
            | LinkEvent::MacChanged { .. }
            | LinkEvent::MtuLowered { .. }
            | LinkEvent::KernelHasAddress(_) => {}
            LinkEvent::Gone => self.lose_device(io::ErrorKind::NetworkDown),
            LinkEvent::Departed => self.end_unreachable(),
        }
    }

    /// The next event of the layer; none if there is no layer, or the driver has gone.
    pub(super) fn poll_event(&mut self, cx: &Context<'_>) -> Poll<Option<Event>> {
        if self.lower.layer().is_none() {
            return Poll::Ready(None);
        }
        match self.lower.next_event() {
            None if self.stopped.is_none() => {
                keep(&mut self.listener_of_events, cx);
                Poll::Pending
            }
            event => Poll::Ready(event),
        }
    }

    /// Sends what there is room for, but for so many batches at most; whether it could go on.
    pub(super) fn send(&mut self, now: Instant, batches_max: usize) -> bool {
        for _ in 0..batches_max {
            if self.outgoing.is_empty() {
                let room = self.device.room();
                if room == 0 {
                    return false;
                }
                self.engine.transmit_up_to(now, &mut self.outgoing, room);
                let had_frames = !self.outgoing.is_empty();
                self.lower.output(now, &mut self.engine, &mut self.outgoing, room);
                if self.outgoing.is_empty() {
                    if had_frames {
                        // All of them wait for their neighbours.
                        continue;
                    }
                    return false;
                }
                if !self.recorders.is_empty() {
                    record(&mut self.recorders, now, &self.outgoing, false);
                }
            }
            self.device.transmit(now, &mut self.outgoing);
            if !self.outgoing.is_empty() {
                return false;
            }
        }
        self.wants_to_transmit() && self.device.room() > 0
    }

    /// Whether the engine or the layer has something to send.
    pub(super) fn wants_to_transmit(&self) -> bool {
        self.engine.wants_to_transmit() || self.lower.wants_to_transmit()
    }

    /// Whether something waits for room in the device.
    pub(super) fn wants_room(&self) -> bool {
        !self.outgoing.is_empty() || self.wants_to_transmit()
    }

    /// Ends the connections whose other end has gone for good.
    fn end_unreachable(&mut self) {
        let device = &*self.device;
        let ended = self.engine.end_unreachable(|local, remote| device.reaches(local, remote));
        self.counters.departed += ended as u64;
        self.take_events();
    }

    /// The driver or the device has gone: all connections end like this. Wakes all waiting tasks.
    pub(super) fn stop(&mut self, how: io::ErrorKind) {
        self.stopped.get_or_insert(how);
        let waiting = self.streams.iter_mut().flat_map(|stream| [stream.reader.take(), stream.writer.take()]);
        let acceptors = self.queues.values_mut().map(|queue| queue.acceptor.take());
        self.woken.extend(waiting.chain(acceptors).flatten().chain(self.listener_of_events.take()));
    }

    /// The device is gone, or cannot be trusted after a panic: connections end like this, and it is given back. A loop that shares the
    /// device reads the queues from then on that were this one's.
    pub(super) fn lose_device(&mut self, how: io::ErrorKind) {
        self.stop(how);
        self.device = Box::new(NoDevice::after(&*self.device));
        self.has_lost_device = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Takes an address away, and tells the tasks whose connections that has ended. Says how many it has ended.
    pub(super) fn remove_address(&mut self, address: IpAddr) -> usize {
        let ended = self.lower.remove_address(&mut self.engine, address);
        self.take_events();
        ended
    }

    fn take_events(&mut self) {
        while let Some(Ready { id, events }) = self.engine.next_ready() {
            if events.has(Events::INCOMING) && !self.queue_up(id) {
                continue;
            }
            let ended = events.has(Events::CLOSED) || events.has(Events::OPENED);
            let Some(stream) = self.streams.get_mut(id.index() as usize) else { continue };
            if ended && stream.holder == Holder::Handshake {
                self.finish_opening(id);
                continue;
            }
            if ended || events.has(Events::READABLE) {
                self.woken.extend(stream.reader.take());
            }
            if ended || events.has(Events::WRITABLE) {
                self.woken.extend(stream.writer.take());
            }
        }
    }

    /// Puts a connection that has come into the queue of its listener; false if there is none any more.
    fn queue_up(&mut self, id: ConnId) -> bool {
        let (local, _) = self.engine.addresses(id);
        let address = if self.queues.contains_key(&local) { local } else { any(local.port()) };
        // It is stopped, and the connection was half open then.
        let Some(queue) = self.queues.get_mut(&address) else {
            self.engine.abort(id);
            return false;
        };
        queue.waiting.push_back(id);
        self.woken.extend(queue.acceptor.take());
        self.hold(id);
        true
    }

    pub(super) fn stream(&mut self, id: ConnId) -> &mut StreamState {
        &mut self.streams[id.index() as usize]
    }

    // What streams do.

    /// Keeps a stream for the tasks that wait for this connection, until it is released.
    pub(super) fn hold(&mut self, id: ConnId) {
        let index = id.index() as usize;
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, StreamState::default);
        }
        self.streams[index] = StreamState { holder: Holder::User, ..StreamState::default() };
    }

    /// The stream is gone: the connection ends in the way that its state and its user ask for.
    pub(super) fn let_go(&mut self, id: ConnId) {
        let stream = std::mem::take(self.stream(id));
        if stream.aborts {
            self.engine.abort(id);
        } else if stream.passes_for_open.is_some()
            && self.engine.status(id) == Status::Opening
            && !self.is_stopped()
        {
            // Closing now would abort the handshake, and the written bytes would be lost (RFC 9293 3.10.4).
            self.stream(id).holder = Holder::Handshake;
        } else {
            self.engine.close(id);
        }
    }

    /// Lets go of all connections, though their streams are there.
    pub(super) fn close_all(&mut self) {
        for index in 0..self.streams.len() {
            if self.streams[index].holder != Holder::Nobody
                && let Some(id) = self.engine.at(index as u32)
            {
                self.let_go(id);
            }
        }
    }

    /// It is open, or will never be, and its user has let go of it.
    fn finish_opening(&mut self, id: ConnId) {
        *self.stream(id) = StreamState::default();
        self.engine.close(id);
    }

    /// Whether letting go will reset the connection while something that was written has not left.
    pub(super) fn will_cut_short(&self, id: ConnId) -> bool {
        let stream = &self.streams[id.index() as usize];
        (stream.aborts || self.engine.readable(id) > 0) && self.engine.wants_to_transmit()
    }

    /// Whether the handshake is done, or how it failed.
    pub(super) fn poll_opened(&mut self, id: ConnId, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if let Some(fault) = self.fault(id) {
            return Poll::Ready(Err(fault.into()));
        }
        if self.engine.status(id) == Status::Opening {
            keep(&mut self.stream(id).writer, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_readable(&mut self, id: ConnId, cx: &Context<'_>) -> Poll<()> {
        if self.engine.readable(id) > 0 || self.engine.is_finished(id) || self.fault(id).is_some() {
            return Poll::Ready(());
        }
        keep(&mut self.stream(id).reader, cx);
        Poll::Pending
    }

    /// Reads the bytes that have come into `buffer`, which has room for some.
    pub(super) fn poll_read(
        &mut self,
        id: ConnId,
        cx: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        let mut is_more = true;
        while is_more && buffer.remaining() > 0 {
            let taken = self.engine.recv(id, |bytes| {
                let count = bytes.len().min(buffer.remaining());
                buffer.put_slice(&bytes[..count]);
                count
            });
            is_more = taken > 0;
        }
        let read = buffer.filled().len() - filled_before;
        if read > 0 {
            self.stream(id).bytes_read += read as u64;
            return Poll::Ready(Ok(()));
        }
        if self.engine.has_peer_closed(id) || self.engine.status(id) == Status::Ended(End::Closed) {
            return Poll::Ready(Ok(()));
        }
        if let Some(fault) = self.fault(id) {
            self.stream(id).has_told = true;
            return Poll::Ready(Err(fault.into()));
        }
        keep(&mut self.stream(id).reader, cx);
        Poll::Pending
    }

    /// Sends a part of what `parts` gives; nothing at all if all of that is empty.
    pub(super) fn poll_write<'a>(
        &mut self,
        id: ConnId,
        cx: &Context<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        if let Some(fault) = self.fault(id) {
            let has_told = std::mem::replace(&mut self.stream(id).has_told, true);
            return Poll::Ready(Err(if has_told { io::ErrorKind::BrokenPipe } else { fault }.into()));
        }
        if self.stream(id).has_ended_writing || self.engine.status(id) == Status::Ended(End::Closed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut sent = 0;
        for part in parts.filter(|part| !part.is_empty()) {
            let taken = self.engine.send(id, part);
            sent += taken;
            if taken == 0 && sent == 0 {
                keep(&mut self.stream(id).writer, cx);
                return Poll::Pending;
            }
            if taken < part.len() {
                break;
            }
        }
        self.stream(id).bytes_written += sent as u64;
        Poll::Ready(Ok(sent))
    }

    /// Bytes that the user of a connection has read and written.
    pub(super) fn bytes_of(&self, id: ConnId) -> (u64, u64) {
        self.streams
            .get(id.index() as usize)
            .map_or((0, 0), |stream| (stream.bytes_read, stream.bytes_written))
    }

    pub(super) fn end_writing(&mut self, id: ConnId) -> io::Result<()> {
        if let Some(fault) = self.fault(id) {
            return Err(fault.into());
        }
        if !std::mem::replace(&mut self.stream(id).has_ended_writing, true) {
            self.engine.shutdown(id);
        }
        Ok(())
    }

    /// How a connection has failed, if it has.
    fn fault(&self, id: ConnId) -> Option<io::ErrorKind> {
        match self.engine.status(id) {
            Status::Ended(End::Reset) => Some(io::ErrorKind::ConnectionReset),
            Status::Ended(End::Refused) => Some(io::ErrorKind::ConnectionRefused),
            Status::Ended(End::TimedOut) => Some(io::ErrorKind::TimedOut),
            Status::Ended(End::Unreachable) => Some(io::ErrorKind::HostUnreachable),
            Status::Ended(End::Aborted) => Some(io::ErrorKind::ConnectionAborted),
            Status::Ended(End::NetworkDown) => Some(io::ErrorKind::NetworkDown),
            _ => self.stopped,
        }
    }

    // What listeners do.

    pub(super) fn listen(
        &mut self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<SocketAddr, ListenError> {
        let id = self.engine.listen(address, options.connections)?;
        // Without the zone, which the addresses of connections do not have either.
        let key = match address.ip() {
            ip if ip.is_unspecified() => any(address.port()),
            ip => SocketAddr::new(ip, address.port()),
        };
        self.engine.set_backlog(id, options.backlog);
        self.queues.insert(key, AcceptQueue { id, waiting: VecDeque::new(), acceptor: None });
        Ok(key)
    }

    /// Stops listening and resets the connections that were not accepted.
    pub(super) fn stop_listening(&mut self, key: SocketAddr) {
        let Some(queue) = self.queues.remove(&key) else { return };
        self.engine.stop_listening(queue.id);
        for id in queue.waiting {
            self.stream(id).aborts = true;
            self.let_go(id);
        }
    }

    /// The next connection that has come.
    pub(super) fn poll_accept(&mut self, key: SocketAddr, cx: &Context<'_>) -> Poll<io::Result<ConnId>> {
        let Some(queue) = self.queues.get_mut(&key) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if let Some(id) = queue.waiting.pop_front() {
            self.engine.accept(id);
            return Poll::Ready(Ok(id));
        }
        if let Some(stopped) = self.stopped {
            return Poll::Ready(Err(stopped.into()));
        }
        keep(&mut queue.acceptor, cx);
        Poll::Pending
    }
}

/// The key of a listener at all addresses: an engine listens there for both families.
fn any(port: u16) -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, port).into()
}

fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    place.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
}

/// Batches sent in a step before one is received. More would delay ACKs and other tasks behind the output of many
/// streams, and evict sent frames from the cache before they are received.
const SENT_BATCHES_A_STEP: usize = 4;

/// Batches received in a step while no task waits for them, mostly the ACKs of a long write, or while the device is behind.
const BATCHES_A_STEP: usize = 16;
