//! The engine of HTTP/2 with its input and its output.

use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use anywire_http::h2::{Code, Engine, Error, Event, Limits, ResponseParts, StreamId, Unsent};
use anywire_http::{Buffer, Headers, StatusCode, Version};
use anywire_wire::{Connection, Output, Position};
use bytes::Bytes;

use crate::Streams;

/// An HTTP/2 connection without its wire: the received bytes, the engine, and the output that leaves in one write.
///
/// In each turn a driver takes all that has [come](Self::receive), lets the streams that were woken produce what they have, and
/// flushes the output once. Then it [reads](Self::poll_read).
#[derive(Debug)]
pub struct Http2 {
    /// The engine. What it appends belongs into `output`.
    pub engine: Engine,
    /// `None` while nothing is in it.
    pub input: Option<Buffer>,
    /// What is to leave.
    pub output: Output,
}

impl Http2 {
    /// The end that answers, of a connection of which `input` has the first bytes.
    pub fn server(limits: Limits, now: Instant, input: Buffer, mut output: Output) -> Self {
        let engine = Engine::server(limits, now, output.buffer());
        Self { engine, input: Some(input), output }
    }

    /// The end that asks.
    pub fn client(limits: Limits, now: Instant, mut output: Output) -> Self {
        let engine = Engine::client(limits, now, output.buffer());
        Self { engine, input: None, output }
    }

    /// Takes the next event of what has come; `None` means that more is needed.
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

    /// Bytes that have come and were not taken.
    #[inline]
    pub fn unread(&self) -> usize {
        self.input.as_ref().map_or(0, Buffer::len)
    }

    /// Whether nothing more is to be read before output leaves: a peer that reads does not leave so many acknowledgements
    /// there.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_LIMIT_BYTES
    }

    /// Whether more may be produced before the output leaves.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.output.len() < OUTPUT_HIGH_WATER_BYTES
    }

    /// Tells the peer that the connection ends (RFC 9113 section 6.8).
    pub fn leave(&mut self) {
        self.engine.leave(self.output.buffer());
    }

    /// Lets time pass for the engine.
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
    fn respond(&mut self, id: StreamId, parts: &ResponseParts<'_>, end: bool) -> Result<(), Unsent> {
        self.engine.respond(id, parts, end, self.output.buffer())
    }

    #[inline]
    fn inform(&mut self, id: StreamId, status: StatusCode, headers: &Headers) -> Result<(), Unsent> {
        self.engine.inform(id, status, headers, self.output.buffer())
    }

    #[inline]
    fn data(&mut self, id: StreamId, piece: Bytes, end: bool) {
        self.engine.data_head(id, piece.len(), end, self.output.buffer());
        self.output.push_bytes(piece);
    }

    #[inline]
    fn send_at_once(&mut self, id: StreamId, whole: &Bytes) -> bool {
        let may_be_sent = self.has_room() && self.engine.may_send_at_once(id, whole.len());
        if may_be_sent {
            self.engine.data_head(id, whole.len(), true, self.output.buffer());
            if !self.output.push_few(whole) {
                self.output.push_bytes(whole.clone());
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

/// Output beyond this leaves before more of a body is produced.
const OUTPUT_HIGH_WATER_BYTES: usize = 64 << 10;

/// Output beyond this leaves before more is read.
const OUTPUT_LIMIT_BYTES: usize = 4 * OUTPUT_HIGH_WATER_BYTES;
