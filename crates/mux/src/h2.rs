//! The engine of HTTP/2 with its input and its output.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use anywire_http::h2::{Code, Engine, EngineLimits, Error, Event, ResponseParts, StreamId, Unsent};
use anywire_http::{Buffer, Headers, StatusCode, Version};
use anywire_wire::{Connection, Output, Position};
use bytes::Bytes;

use crate::{Piece, Streams};

/// An HTTP/2 connection without its wire: the received bytes, the engine, and the output that leaves in one write.
///
/// In each turn a driver [takes all events](Self::receive), polls the woken streams, sends their data, and flushes the output
/// once. Then it [reads](Self::poll_read).
#[derive(Debug)]
pub struct Http2 {
    /// The engine, which writes to `output`.
    pub engine: Engine,
    /// Received bytes that were not taken. `None` if there are none.
    pub input: Option<Buffer>,
    /// Bytes to send.
    pub output: Output,
    /// Bytes of the output that leave before more of a body is produced.
    offer: usize,
    /// Bytes of the output that are references to whole bodies, or some of them, and of requests, which are limited otherwise. What is in
    /// memory only because it waits to leave is at most the rest.
    shared: usize,
}

impl Http2 {
    /// A server's connection, whose first bytes are in `input`.
    pub fn server(
        limits: impl Into<Arc<EngineLimits>>,
        now: Instant,
        input: Buffer,
        mut output: Output,
    ) -> Self {
        let engine = Engine::server(limits, now, output.buffer());
        Self::new(engine, Some(input), output)
    }

    /// A client's connection.
    pub fn client(limits: impl Into<Arc<EngineLimits>>, now: Instant, mut output: Output) -> Self {
        let engine = Engine::client(limits, now, output.buffer());
        Self::new(engine, None, output)
    }

    fn new(engine: Engine, input: Option<Buffer>, output: Output) -> Self {
        Self { engine, input, output, offer: OFFER_MIN_BYTES, shared: 0 }
    }

    /// Takes the next event out of the input; `None` means that more input is needed.
    ///
    /// # Errors
    ///
    /// The connection has ended. The output has what tells the peer.
    #[inline]
    pub fn receive(&mut self, now: Instant) -> Result<Option<Event<'_>>, Error> {
        let Some(input) = &mut self.input else { return Ok(None) };
        self.engine.receive(now, input, self.output.buffer())
    }

    /// Reads once. A connection that waits has no buffer.
    #[inline]
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<io::Result<usize>> {
        let input = self.input.get_or_insert_with(Buffer::new);
        let polled = connection.poll_read(cx, input.spare());
        if let Poll::Ready(Ok(count)) = polled {
            input.filled(count);
        } else if input.is_empty() {
            self.input = None;
        }
        polled
    }

    /// The number of received bytes that were not taken.
    #[inline]
    pub fn unread(&self) -> usize {
        self.input.as_ref().map_or(0, Buffer::len)
    }

    /// Whether reading must wait until output leaves: a peer that reads does not let so many acknowledgements pile up.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_LIMIT_BYTES + self.shared
    }

    /// So many bytes were added that are a request of this end. They do not stop the reading: a peer may wait for it before it takes them.
    #[inline]
    pub fn allow_unsent(&mut self, bytes: usize) {
        self.shared += bytes;
    }

    /// Whether more may be produced before the output leaves.
    #[inline]
    pub fn has_room(&self) -> bool {
        let waiting = self.output.len();
        waiting < self.offer && waiting < OFFER_MIN_BYTES + self.shared
    }

    /// Writes as much of the output as the wire takes. Ready once all of it has left.
    ///
    /// The next output may be twice as long as what the wire has taken now. So a peer that reads fast costs few calls of the
    /// system, and one that does not has little waiting for it.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<io::Result<()>> {
        let waiting = self.output.len();
        let flushed = self.output.poll_flush(cx, connection);
        let taken = waiting - self.output.len();
        if waiting >= OFFER_MIN_BYTES {
            self.offer = (2 * taken).clamp(OFFER_MIN_BYTES, OFFER_MAX_BYTES);
        }
        // Which bytes were taken is not known. Shared ones, so that no more are said to be left than there are.
        self.shared = self.shared.saturating_sub(taken);
        flushed
    }

    /// Tells the peer that the connection ends (RFC 9113 section 6.8).
    pub fn go_away(&mut self) {
        self.engine.go_away(self.output.buffer());
    }

    /// Tells the engine the time.
    ///
    /// # Errors
    ///
    /// The peer is silent, and the connection has ended.
    pub fn advance(&mut self, now: Instant) -> Result<(), Error> {
        self.engine.advance(now, self.output.buffer())
    }
}

impl Streams for Http2 {
    type Id = StreamId;

    const VERSION: Version = Version::HTTP_2;

    #[inline]
    fn position(&self) -> Position {
        self.output.end()
    }

    #[inline]
    fn next_to_send(&mut self) -> Option<(StreamId, usize)> {
        if self.has_room() { self.engine.next_to_send() } else { None }
    }

    #[inline]
    fn wants_to_send(&mut self, id: StreamId, wants: bool) {
        self.engine.wants_to_send(id, wants);
    }

    #[inline]
    fn is_blocked(&self, id: StreamId) -> bool {
        self.engine.is_blocked(id)
    }

    #[inline]
    fn has_window(&self, id: StreamId) -> bool {
        self.engine.has_window(id)
    }

    #[inline]
    fn is_window_closed(&self) -> bool {
        self.engine.is_window_closed()
    }

    #[inline]
    fn has_left(&self) -> bool {
        self.output.is_empty()
    }

    #[inline]
    fn respond(&mut self, id: StreamId, parts: &ResponseParts<'_>, end: bool) -> Result<(), Unsent> {
        self.engine.respond(id, parts, end, self.output.buffer())
    }

    #[inline]
    fn inform(&mut self, id: StreamId, status: StatusCode, headers: &Headers) -> Result<(), Unsent> {
        self.engine.inform(id, status, headers, self.output.buffer())
    }

    #[inline]
    fn data(&mut self, id: StreamId, piece: Piece, end: bool) {
        let length = piece.bytes.len();
        self.engine.data_head(id, length, end, self.output.buffer());
        if !self.output.push_small(&piece.bytes) {
            self.shared += if piece.is_streamed { 0 } else { length };
            self.output.push_bytes(piece.bytes);
        }
    }

    #[inline]
    fn send_at_once(&mut self, id: StreamId, whole: &Bytes) -> bool {
        let may_be_sent = self.has_room() && self.engine.may_send_at_once(id, whole.len());
        if may_be_sent {
            self.engine.data_head(id, whole.len(), true, self.output.buffer());
            if !self.output.push_small(whole) {
                self.output.push_bytes(whole.clone());
                self.shared += whole.len();
            }
        }
        may_be_sent
    }

    #[inline]
    fn trailers(&mut self, id: StreamId, trailers: &Headers) -> Result<(), Unsent> {
        self.engine.send_trailers(id, trailers, self.output.buffer())
    }

    #[inline]
    fn reset(&mut self, id: StreamId, code: Code) {
        self.engine.reset(id, code, self.output.buffer());
    }

    #[inline]
    fn consumed(&mut self, id: StreamId, bytes: usize) {
        self.engine.consumed(id, bytes, self.output.buffer());
    }

    #[inline]
    fn discarded(&mut self, id: StreamId, bytes: usize) {
        self.engine.discarded(id, bytes, self.output.buffer());
    }

    #[inline]
    fn keeps_peer_waiting(&self) -> bool {
        self.engine.keeps_peer_waiting()
    }
}

/// The least that is offered to the wire, and the most of it that is in memory only because it waits to leave.
const OFFER_MIN_BYTES: usize = 64 << 10;

/// The most that is offered. A MiB cost a peer's CPU time no less.
const OFFER_MAX_BYTES: usize = 512 << 10;

/// Beyond this, what is in memory only because it waits to leave does so before more is read.
const OUTPUT_LIMIT_BYTES: usize = 4 * OFFER_MIN_BYTES;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::IoSlice;
    use std::rc::Rc;
    use std::task::Waker;

    use anywire_http::h2::Limits;
    use anywire_http::{Body, BodyError, Method, RequestHead};
    use anywire_wire::{Address, Transport};

    use super::*;
    use crate::{Next, Outgoing, send};

    /// A wire that takes as many bytes as there is room for.
    struct Narrow(Rc<Cell<usize>>);

    impl Transport for Narrow {
        fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            &mut self,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let taken = self.0.get().min(slices.iter().map(|slice| slice.len()).sum());
            self.0.set(self.0.get() - taken);
            if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
        }

        fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn abort(&mut self) {}

        fn local(&self) -> Address {
            "memory:narrow".parse().expect("an address")
        }

        fn peer(&self) -> Address {
            self.local()
        }
    }

    /// A server's connection to a peer with wide windows, which asks for some responses.
    struct Scene {
        link: Http2,
        wire: Connection,
        room: Rc<Cell<usize>>,
        bodies: Vec<(StreamId, Outgoing<Body>)>,
    }

    impl Scene {
        fn new(bodies: Vec<Outgoing<Body>>) -> Self {
            let now = Instant::now();
            let window = u32::MAX >> 1;
            let limits =
                Limits { stream_window_bytes: window, connection_window_bytes: window, ..Limits::default() };
            let mut requests = Vec::new();
            let mut peer = Engine::client(limits, now, &mut requests);
            let mut head = RequestHead::new(Method::GET, "/").expect("a target");
            head.set_origin("http", "a").expect("an origin");
            for _ in &bodies {
                peer.open(&head, None, true, &mut requests).expect("a slot");
            }
            let mut input = Buffer::new();
            assert_eq!(input.fill_from(&requests), requests.len());
            let mut link = Http2::server(Limits::default(), now, input, Output::new());
            let mut ids = Vec::new();
            while let Some(event) = link.receive(now).expect("no fault") {
                if let Event::Request { id, .. } = event {
                    ids.push(id);
                }
            }
            let room = Rc::new(Cell::new(0));
            let wire = Connection::new(Narrow(Rc::clone(&room)));
            let mut scene = Self { link, wire, room, bodies: ids.into_iter().zip(bodies).collect() };
            scene.flush(usize::MAX);
            for (id, _) in &scene.bodies {
                respond(&mut scene.link, *id);
                scene.link.wants_to_send(*id, true);
            }
            scene
        }

        /// Produces as much as may wait.
        fn produce(&mut self) -> usize {
            while let Some((id, room)) = self.link.next_to_send() {
                let (_, body) = self.bodies.iter_mut().find(|(of, _)| *of == id).expect("a stream");
                let piece = body.take(room);
                let next: Next =
                    body.next(|_| Poll::Ready(Ok::<_, BodyError>(Some(vec![b'x'; FRAME].into()))));
                send(&mut self.link, id, piece, next);
            }
            self.link.output.len()
        }

        /// The peer takes so many bytes.
        fn flush(&mut self, room: usize) {
            self.room.set(room);
            let _ = self.link.poll_flush(&mut Context::from_waker(Waker::noop()), &mut self.wire);
        }
    }

    fn respond(link: &mut Http2, id: StreamId) {
        let headers = Headers::new();
        let parts = ResponseParts { status: StatusCode::OK, headers: &headers, length: None, date: None };
        link.respond(id, &parts, false).expect("it fits");
    }

    fn whole() -> Outgoing<Body> {
        Outgoing::whole(vec![b'x'; 32 << 20].into())
    }

    fn streamed() -> Outgoing<Body> {
        Outgoing::streamed(Body::empty())
    }

    const FRAME: usize = 16 << 10;

    /// That many bytes, and up to a quarter more, since the last frame goes beyond them.
    #[track_caller]
    fn assert_offers(waiting: usize, kib: usize) {
        let least = kib << 10;
        assert!(
            (least..=least + least / 4 + 100).contains(&waiting),
            "{waiting} bytes wait instead of {kib} KiB"
        );
    }

    #[test]
    fn the_offer_follows_what_the_peer_takes() {
        let mut scene = Scene::new(vec![whole()]);
        for kib in [64, 128, 256, 512, 512] {
            assert_offers(scene.produce(), kib);
            scene.flush(usize::MAX);
        }
        for (taken_kib, kib) in [(100, 200), (50, 100), (10, 64), (200, 400)] {
            for _ in 0..50 {
                scene.produce();
                scene.flush(taken_kib << 10);
            }
            assert_offers(scene.produce(), kib);
        }
    }

    #[test]
    fn a_stalled_peer_holds_little_beside_references() {
        for (bodies, waiting_kib) in
            [(vec![whole()], 512), (vec![streamed()], 64), (vec![whole(), streamed()], 128)]
        {
            let mut scene = Scene::new(bodies);
            for _ in 0..10 {
                scene.produce();
                scene.flush(usize::MAX);
            }
            assert_offers(scene.produce(), waiting_kib);
            let waiting = scene.link.output.len();
            for taken in [0, 0, 20 << 10, 20 << 10] {
                scene.flush(taken);
                assert!(scene.produce() <= waiting + FRAME);
            }
        }
    }

    #[test]
    fn heads_and_acknowledgements_count_as_well() {
        for bodies in [vec![], vec![whole()]] {
            let mut scene = Scene::new(bodies);
            for _ in 0..10 {
                scene.produce();
                scene.flush(usize::MAX);
            }
            scene.produce();
            assert!(!scene.link.is_full(), "references keep nobody from reading");
            scene.link.output.buffer().resize(64 << 10, 0);
            assert!(!scene.link.has_room() && !scene.link.is_full());
            scene.link.output.buffer().resize(257 << 10, 0);
            assert!(scene.link.is_full());
        }
    }
}
