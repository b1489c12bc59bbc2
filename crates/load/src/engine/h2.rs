//! One open connection of HTTP/2: requests go out on new streams, answers come in on any of them. The hot path.
//!
//! All requests that leave in a turn are one write, as are all responses of a read one look at the clock. The engine knows the
//! protocol; what is counted, and when, is as with HTTP/1.

mod endings;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anywire_advice::Message;
use anywire_http::h2::{Code, Event, GoAway, MessageError, Refused, StreamId, StreamMap};
use anywire_loops::clock::precise;
use anywire_loops::deadline::Deadline;
use anywire_mux::{Http2, Piece, Streams};
use anywire_wire::{Connection, Output};
use bytes::Bytes;

use crate::engine::call::{Call, Came};
use crate::engine::columns::Sample;
use crate::engine::h1::Ending;
use crate::engine::paced::Slot;
use crate::engine::stream_script::{StreamCall, StreamScript};
use crate::engine::tally::{Batch, Tally};
use crate::engine::wire_watch::WireWatch;
use crate::errors::{ErrorKind, over_limit};
use crate::request::StreamRequest;
use crate::script::by_numbers;
use crate::server_time::ServerTime;

/// The exchange on one open connection.
pub(crate) struct Session {
    tally: Rc<Tally>,
    connection: Connection,
    /// What the kernel sees of it.
    watch: WireWatch,
    server_time: ServerTime,
    request: Arc<StreamRequest>,
    /// What is sent instead of the request, if the plan has a script.
    script: Option<StreamScript>,
    link: Http2,
    calls: StreamMap<Call>,
    depth: usize,
    /// Bytes of requests in the output that the wire has not taken.
    unwritten: usize,
    /// Bytes that belong to no event yet: heads of frames.
    uncounted: u64,
    /// Responses since the connection was opened.
    answers: u64,
    /// The number of the newest stream.
    newest: u32,
    /// When something came for a stream last; at first, when the connection was opened.
    received_at: Instant,
    /// Since when nothing is in flight, because the peer allows no stream.
    held_up: Option<Instant>,
    /// What the peer's `GOAWAY` says.
    goaway: Option<GoAway>,
    /// Why the wire takes nothing more, and whether part of a request was among what it did not take. The peer may still
    /// have said why.
    refused: Option<(std::io::Error, bool)>,
    /// Part of a request waits to leave.
    is_sending: bool,
    /// Armed for the oldest request; set again only when it fires, so that a request costs nothing.
    deadline: Deadline,
    /// Requests that may still be sent on this connection.
    left: u64,
    /// With a schedule, its place among the connections that wait for a request.
    slot: Option<Rc<Slot>>,
}

impl Session {
    pub(crate) fn new(tally: Rc<Tally>, connection: Connection, request: Arc<StreamRequest>) -> Self {
        let now = precise();
        let deadline = Deadline::new();
        deadline.set(tally.plan.timeout);
        let link = Http2::client(request.limits, now, Output::new());
        Self {
            depth: tally.plan.depth,
            server_time: ServerTime::new(tally.plan.server_time_header.as_deref()),
            watch: WireWatch::Waiting,
            script: StreamScript::new(&tally),
            left: tally.plan.requests_per_connection.unwrap_or(u64::MAX),
            slot: tally.paced.as_ref().map(|_| Rc::default()),
            tally,
            connection,
            request,
            link,
            calls: StreamMap::default(),
            unwritten: 0,
            uncounted: 0,
            answers: 0,
            newest: 0,
            received_at: now,
            held_up: None,
            goaway: None,
            refused: None,
            is_sending: false,
            deadline,
        }
    }

    /// With a schedule, its place among the connections that wait for a request.
    pub(crate) fn slot(&self) -> Option<Rc<Slot>> {
        self.slot.clone()
    }

    /// Responses since the connection was opened.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Drives the connection until nothing moves.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        if self.watch.is_waiting() && self.tally.is_measuring() {
            self.watch.begin(&self.connection, self.answers);
        }
        let mut now = precise();
        let mut reads = 0;
        if let Some(slot) = &self.slot {
            slot.waits(context);
        }
        loop {
            if let Err(refused) = self.refill(now) {
                let message = Message::read(format_args!("a request cannot be sent: {refused}"));
                return Poll::Ready(self.fail(ErrorKind::Write, message));
            }
            self.send(context);
            if self.calls.is_empty() {
                if self.left == 0 {
                    return Poll::Ready(Ending::Renewed);
                }
                if self.tally.is_spent() {
                    return Poll::Ready(Ending::Spent);
                }
                if self.goaway.is_some() || self.is_used_up() {
                    return Poll::Ready(self.over());
                }
            }
            if reads == self.tally.plan.limits.reads_in_a_row {
                context.waker().wake_by_ref();
                break;
            }
            match self.poll_read(context) {
                Poll::Ready(Ok(at)) => now = at,
                Poll::Ready(Err(ending)) => return Poll::Ready(ending),
                Poll::Pending => match self.refused.take() {
                    Some((error, true)) => {
                        let message = Message::read(format_args!("sending a request failed: {error}"));
                        return Poll::Ready(self.fail(ErrorKind::Write, message));
                    }
                    Some((error, false)) => return Poll::Ready(self.breaks(&error)),
                    None if self.poll_wake(context) => now = precise(),
                    None => break,
                },
            }
            reads += 1;
        }
        self.poll_timeout(context)
    }

    /// As many new requests as there are free places.
    #[inline]
    fn refill(&mut self, now: Instant) -> Result<(), Refused> {
        let mut free = ((self.depth - self.calls.len()) as u64).min(self.left) as usize;
        if let Some(script) = &mut self.script {
            free = free.min(script.ready(now));
        }
        let wanted = free.min(self.link.engine.slots());
        if wanted < free {
            self.lacks_slots(wanted, now);
        }
        if wanted == 0 {
            self.leave();
            return Ok(());
        }
        self.held_up = None;
        if self.slot.is_some() {
            return self.refill_by_schedule(wanted, now);
        }
        let drawn = self.tally.draw(wanted as u32);
        let measured = self.tally.is_measuring();
        let batch = Batch { intended: now, sent_at: now, requests: 1, measured, step: 0 };
        for number in 0..drawn {
            // The engine has a slot for each. The peer may take no head of this size.
            self.open(batch).inspect_err(|_| {
                self.tally.counts().part(measured).unanswered_at_close += u64::from(drawn - number);
            })?;
        }
        Ok(())
    }

    /// As many of `wanted` requests as are due.
    fn refill_by_schedule(&mut self, wanted: usize, now: Instant) -> Result<(), Refused> {
        for _ in 0..wanted {
            let Self { slot: Some(slot), tally, .. } = self else { break };
            let Some(paced) = &tally.paced else { break };
            let Some(batch) = tally.take_due(paced, slot, now) else { break };
            self.open(batch).inspect_err(|_| {
                self.tally.counts().part(batch.measured).unanswered_at_close += 1;
            })?;
        }
        Ok(())
    }

    /// Opens the stream of one request.
    #[inline]
    fn open(&mut self, batch: Batch) -> Result<(), Refused> {
        let before = self.link.output.len();
        let (id, body, scripted) = self.open_stream()?;
        if !body.is_empty() {
            self.link.wants_to_send(id, true);
        }
        let call = Call {
            batch,
            first_byte: None,
            server_time: None,
            status: None,
            bytes: 0,
            body_bytes: 0,
            body,
            body_sent: 0,
            scripted,
        };
        self.calls.insert(id, call);
        self.is_sending = true;
        self.newest = id.get();
        self.left -= 1;
        self.unwritten += self.link.output.len() - before;
        Ok(())
    }

    /// Opens a stream for the next request. Gives its body, and what a script has to know.
    #[inline]
    fn open_stream(&mut self) -> Result<(StreamId, Bytes, Option<Box<StreamCall>>), Refused> {
        if let Some(script) = &mut self.script {
            let (id, body, call) = script.open(&self.request, &mut self.link)?;
            return Ok((id, body, Some(Box::new(call))));
        }
        let Self { link, request, .. } = self;
        let is_whole = request.body.is_empty();
        let id = link.engine.open_parts(&request.parts(), is_whole, link.output.buffer())?;
        Ok((id, request.body.clone(), None))
    }

    /// Whether a user of the script that has waited may send now.
    fn poll_wake(&self, context: &mut Context<'_>) -> bool {
        self.script.as_ref().is_some_and(|script| script.poll_wake(context))
    }

    /// Has no room for a request of the schedule.
    fn leave(&self) {
        if let Some((paced, slot)) = self.tally.paced.as_ref().zip(self.slot.as_ref()) {
            paced.leave(slot);
        }
    }

    /// The peer allows fewer streams than the plan wants.
    #[cold]
    fn lacks_slots(&mut self, wanted: usize, now: Instant) {
        if wanted == 0 && self.calls.is_empty() {
            self.held_up.get_or_insert(now);
        }
        // Before it has said what it allows, and while it takes its leave, it says nothing of the plan.
        if self.answers > 0 && self.goaway.is_none() && !self.is_used_up() {
            let allowed = Some((self.calls.len() + wanted) as u64);
            let mut counts = self.tally.counts();
            let least = counts.connections.streams_allowed;
            counts.connections.streams_allowed = least.into_iter().chain(allowed).min();
        }
    }

    /// Writes all that the windows and the wire have room for.
    fn send(&mut self, context: &mut Context<'_>) {
        for _ in 0..WRITES_IN_A_ROW_MAX {
            let has_more = self.transmit();
            self.flush(context);
            // If something is left, the wire wakes the task.
            if !has_more || !self.link.output.is_empty() {
                return;
            }
        }
        context.waker().wake_by_ref();
    }

    /// Takes what the windows allow of the requests' bodies into the output. Whether that became full before.
    fn transmit(&mut self) -> bool {
        while let Some((id, room)) = self.link.next_to_send() {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            let length = call.body.len();
            let end = length.min(call.body_sent + room);
            let piece = Piece { bytes: call.body.slice(call.body_sent..end), is_streamed: false };
            call.body_sent = end;
            self.is_sending = true;
            let before = self.link.output.len();
            self.link.data(id, piece, end == length);
            self.unwritten += self.link.output.len() - before;
        }
        !self.link.has_room()
    }

    /// Writes as much of the output as the wire takes. After a failure only reading goes on.
    fn flush(&mut self, context: &mut Context<'_>) {
        if self.refused.is_some() {
            return self.link.output.clear();
        }
        if self.link.output.is_empty() {
            return;
        }
        match self.link.poll_flush(context, &mut self.connection) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.is_sending = false,
            Poll::Ready(Err(error)) => self.refused = Some((error, self.is_sending)),
        }
        // What is left may be the connection's own frames: then the requests' bytes are counted with the next write.
        let left = self.unwritten.min(self.link.output.len());
        self.tally.sent_bytes(self.unwritten - left);
        self.unwritten = left;
    }

    /// One read, and all that is in it. Gives the time of the read.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<Instant, Ending>> {
        Poll::Ready(match ready!(self.link.poll_read(context, &mut self.connection)) {
            Ok(0) => Err(self.end_of_stream()),
            Ok(_) => {
                let now = precise();
                self.take(now).map(|()| now)
            }
            Err(error) => Err(self.breaks(&error)),
        })
    }

    /// Takes all events that are in the buffer.
    fn take(&mut self, now: Instant) -> Result<(), Ending> {
        loop {
            let before = self.link.unread();
            let (id, came) = match self.link.receive(now) {
                Ok(Some(Event::Response { id, head, end, .. })) => {
                    if let Some(script) = &mut self.script
                        && let Some(call) = self.calls.get_mut(&id)
                        && let Some(scripted) = &mut call.scripted
                    {
                        script.head(scripted, head.headers());
                    }
                    let server_time = self.server_time.of(head.headers().iter());
                    (id, Came { status: Some(head.status()), body_bytes: 0, end, server_time })
                }
                Ok(Some(Event::Data { id, data, end })) => {
                    if let (Some(script), Some(call)) = (&self.script, self.calls.get_mut(&id))
                        && let Some(events) = script.data(call.scripted.as_deref_mut(), data, now)
                        && self.tally.belongs(call.batch.measured)
                    {
                        self.tally.events(events, call.batch.sent_at, now);
                    }
                    (id, Came { body_bytes: data.len(), end, ..Came::default() })
                }
                Ok(Some(Event::Trailers { id, .. })) => (id, Came { end: true, ..Came::default() }),
                Ok(Some(Event::Informational { id, .. })) => (id, Came::default()),
                Ok(Some(Event::Reset { id, code, by_peer, why })) => {
                    (self.received_at, self.uncounted) = (now, 0);
                    self.was_reset(id, code, by_peer, why);
                    continue;
                }
                Ok(Some(Event::GoAway(said))) => {
                    self.receive_goaway(said);
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => {
                    self.uncounted += (before - self.link.unread()) as u64;
                    return Ok(());
                }
                Err(error) => return Err(self.broken(error)),
            };
            let bytes = std::mem::take(&mut self.uncounted) + (before - self.link.unread()) as u64;
            self.came(id, came, bytes, now);
        }
    }

    /// Something has come for a stream, in so many bytes.
    #[inline]
    fn came(&mut self, id: StreamId, came: Came, bytes: u64, now: Instant) {
        self.received_at = now;
        self.link.consumed(id, came.body_bytes);
        // A stream that had waited for too long is gone.
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.first_byte.get_or_insert(now);
        call.bytes += bytes;
        call.status = came.status.or(call.status);
        call.server_time = came.server_time.or(call.server_time);
        call.body_bytes += came.body_bytes as u64;
        if came.end {
            self.answered(id, now);
        }
    }

    /// A whole response has come.
    #[inline]
    fn answered(&mut self, id: StreamId, now: Instant) {
        let Some(call) = self.calls.remove(&id) else { return };
        let Call { batch, first_byte, server_time, status, bytes, body_bytes, body, body_sent, scripted } =
            call;
        let Batch { intended, sent_at, measured, step, .. } = batch;
        let measured = self.tally.belongs(measured);
        if body_sent < body.len() {
            // The server does not read the rest of the request (RFC 9113 section 8.1).
            self.link.reset(id, Code::NO_ERROR);
        }
        let taken = now.saturating_duration_since(sent_at);
        let heard_at = scripted.as_ref().and_then(|scripted| scripted.heard_at());
        if heard_at.is_none() && taken >= self.tally.plan.timeout {
            // It has come too late, though the loop may not have come to say so.
            self.lost(scripted.as_deref());
            return self.tally.timed_out(&batch, now, 1);
        }
        self.answers += 1;
        let status = status.unwrap_or_default();
        let sample = Sample {
            intended,
            sent_at,
            first_byte: first_byte.unwrap_or(now),
            server_time,
            ended_at: now,
            status,
            bytes,
            body_bytes,
            step,
        };
        self.tally.answered(measured, &sample);
        let fault = match (&mut self.script, scripted) {
            (Some(script), Some(call)) => {
                let (request, fault) = script.answered(*call, status, body_bytes, now);
                if measured {
                    self.tally.answered_request(request, taken, status, fault.is_none());
                }
                fault
            }
            _ => by_numbers(&self.tally.plan.expect, status, body_bytes),
        };
        self.tally.judge(measured, fault);
    }

    /// No answer comes to this request of a script.
    fn lost(&mut self, call: Option<&StreamCall>) {
        if let (Some(script), Some(call)) = (&mut self.script, call) {
            script.lost(call);
        }
    }

    #[cold]
    fn was_reset(&mut self, id: StreamId, code: Code, by_peer: bool, why: Option<MessageError>) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.lost(call.scripted.as_deref());
        let mut counts = self.tally.counts();
        let part = counts.part(self.tally.belongs(call.batch.measured));
        if !by_peer {
            part.reset += 1;
            part.error(ErrorKind::Parse, || match why {
                Some(MessageError::Limit(limit)) => over_limit(&limit),
                Some(rule) => Message::read(format_args!("an answer breaks the rules of HTTP/2: {rule}")),
                // Only of a stream that the server opens, which is none of these.
                None => format!("an answer breaks the rules of HTTP/2 ({code})").into(),
            });
        } else if let Some(said) = self.goaway.as_ref().filter(|_| code == Code::REFUSED_STREAM) {
            // Behind the last stream that a `GOAWAY` names: the peer has not acted on it (RFC 9113 section 6.8).
            part.announced.get_or_insert_with(|| said.to_string());
            drop(counts);
            self.tally.take_back(&call.batch);
        } else if code == Code::REFUSED_STREAM {
            part.reset += 1;
            part.error(ErrorKind::Refused, || "the server refused a stream (REFUSED_STREAM)".to_owned());
        } else {
            part.reset += 1;
            let phase = if call.status.is_some() { "inside" } else { "before" };
            part.error(ErrorKind::Reset, || format!("the server reset a stream {phase} its answer ({code})"));
        }
    }

    #[cold]
    fn receive_goaway(&mut self, said: GoAway) {
        if self.goaway.as_ref().is_some_and(|before| before.code != Code::NO_ERROR) {
            return;
        }
        if said.code != Code::NO_ERROR {
            let message = || format!("the server ended the connection by GOAWAY: {said}");
            self.tally.error(self.is_measured(), ErrorKind::GoAway, message);
        }
        self.goaway = Some(said);
    }

    /// Whether the connection has no stream number left.
    fn is_used_up(&self) -> bool {
        self.newest == STREAM_MAX
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(watched) = self.watch.end(&self.connection, self.answers) {
            self.tally.watched(&watched);
        }
        self.leave();
        self.tally.close(self.calls.values().map(|call| &call.batch));
    }
}

/// Outputs of one poll: a wire that always takes more would otherwise keep the loop from its other connections.
const WRITES_IN_A_ROW_MAX: u32 = 16;

/// The last number of a stream (RFC 9113 section 5.1.1): a new connection begins anew.
const STREAM_MAX: u32 = (1 << 31) - 1;
