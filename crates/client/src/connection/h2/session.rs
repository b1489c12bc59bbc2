//! A connection's HTTP/2 state: requests go out, frames come in, and what is ready leaves in as few writes as possible.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::h2::{self, Code, GoAway, Protocol, Refused, RequestParts, StreamId, StreamMap};
use anywire_http::{BodyError, Buffer, Method, StatusCode};
use anywire_loops::clock::{self, precise};
use anywire_mux::{Http2, Next, Piece, Schedule, Sent, Streams, send};
use anywire_wire::Connection;
use slab::Slab;

use super::stream::{Stream, Tunnel};
use super::unopened::Unopened;
use super::upload::Upload;
use crate::Error;
use crate::call::job::{Job, Outcome};
use crate::connection::budget::poll_truly;
use crate::connection::download::Download;
use crate::connection::event::Event;
use crate::connection::h1::is_tls_alert;
use crate::connection::io::Io;
use crate::connection::session::Life;
use crate::connection::turn::turn;
use crate::pool::context::LoopContext;

/// HTTP/2 on one connection.
pub(crate) struct Session {
    pub(super) link: Http2,
    pub(super) streams: Slab<Stream>,
    /// Calls that wait for the peer's settings.
    pub(super) unopened: Vec<Unopened>,
    pub(super) places: StreamMap<usize>,
    /// One for each place.
    pub(super) wakers: Vec<Waker>,
    pub(super) schedule: Schedule<usize>,
    /// Streams that have bytes in the output.
    pub(super) unflushed: Vec<usize>,
    /// Calls that have ended, of which the pool has yet to be told.
    pub(super) ended: VecDeque<Outcome>,
    /// What the connection's timer is set to.
    pub(super) timer_at: Option<Instant>,
    /// When the connection has been idle for too long.
    pub(super) idle_until: Option<Instant>,
    /// When it gives back what only a busy connection needs, unless a call comes before.
    pub(super) trims_at: Option<Instant>,
    /// When the peer sent a byte last.
    pub(super) received_at: Instant,
    /// Whether it has carried a call to its end.
    used: bool,
    pub(super) life: Life,
    /// What the peer has said of why the connection ends.
    pub(super) goaway: Option<GoAway>,
    /// Why the wire takes nothing more. The peer may still have answered.
    pub(super) refused: Option<io::Error>,
}

impl Session {
    pub(crate) fn new(context: &LoopContext) -> Self {
        let now = precise();
        Self {
            link: Http2::client(context.config().http2(), now, context.take_output()),
            streams: Slab::new(),
            unopened: Vec::new(),
            places: StreamMap::default(),
            wakers: Vec::new(),
            schedule: Schedule::default(),
            unflushed: Vec::new(),
            ended: VecDeque::new(),
            timer_at: None,
            idle_until: None,
            trims_at: None,
            received_at: now,
            used: false,
            life: Life::Open,
            goaway: None,
            refused: None,
        }
    }

    /// Calls that it can take now.
    pub(crate) fn slots(&self, context: &LoopContext) -> usize {
        if self.life > Life::Open {
            return 0;
        }
        let ours = context.config().limits.http2.streams.saturating_sub(self.streams.len());
        self.link.engine.slots().min(ours).saturating_sub(self.unopened.len())
    }

    /// It takes no more calls.
    pub(super) fn close_after_calls(&mut self) {
        self.life = self.life.max(Life::Closing);
    }

    /// Calls that it can have at a time; 0 if it takes no more.
    pub(crate) fn capacity(&self, context: &LoopContext) -> usize {
        if self.life > Life::Open { 0 } else { self.under_way() + self.slots(context) }
    }

    /// Calls on the connection. A call that has ended counts until the pool is told.
    pub(crate) fn calls(&self) -> usize {
        self.under_way() + self.ended.len()
    }

    fn under_way(&self) -> usize {
        self.streams.len() + self.unopened.len()
    }

    /// Whether no call is on it.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.unopened.is_empty()
    }

    /// Does all that can be done now. Ready with the end of one of its calls, or with slots where there were none; pending if it
    /// waits. `cut` ends its calls.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        context: &LoopContext,
        cut: bool,
    ) -> Poll<Event> {
        if io.wire.is_none() {
            return Poll::Ready(Event::Over(Outcome::Nothing));
        }
        if cut {
            self.cut(context);
        }
        if let Some(outcome) = self.ended.pop_front() {
            return Poll::Ready(Event::Open(outcome));
        }
        if self.life == Life::Over {
            return Poll::Ready(Event::Over(Outcome::Nothing));
        }
        // Until its peer has said how many calls it takes, calls that wait may have been kept from it.
        let had_slots = self.slots(context) > 0 && self.link.engine.is_greeted();
        let was_idle = self.is_empty() && self.life == Life::Open;
        self.drop_unwanted(cx);
        let now = precise();
        io.polled_at = now;
        if !self.is_empty() {
            self.life.end_in_time(io, context);
        }
        let waits = turn(self, cx, io, context);
        if let Some(outcome) = self.ended.pop_front() {
            return Poll::Ready(Event::Open(outcome));
        }
        if !had_slots && self.slots(context) > 0 && self.link.engine.is_greeted() {
            return Poll::Ready(Event::Open(Outcome::Nothing));
        }
        if self.is_empty() && self.life == Life::Closing {
            self.life = Life::Over;
            self.go_away(cx, io, context);
        }
        if self.life == Life::Over {
            let by_peer = was_idle && !self.has_rested(now);
            return Poll::Ready(if by_peer { Event::Evicted } else { Event::Over(Outcome::Nothing) });
        }
        if !waits {
            cx.waker().wake_by_ref();
        }
        self.wait(now, io, context);
        Poll::Pending
    }

    /// Reads and writes until nothing more goes, or a call has ended. Returns whether it waits for the wire.
    pub(super) fn carry_streams_on(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        now: Instant,
        context: &LoopContext,
    ) -> bool {
        for _ in 0..READS_IN_A_ROW_MAX {
            let all_taken = self.receive(now, context);
            self.open_waiting(context);
            self.schedule.take_woken();
            while let Some(place) = self.schedule.ready.pop() {
                self.poll_stream(place, context);
            }
            self.transmit(context);
            let was_full = !self.link.has_room();
            self.flush(cx, wire, context);
            // If the wire has taken a full output, nothing would wake the task to fill it again.
            let has_more = was_full && self.link.output.is_empty();
            if !self.ended.is_empty() || self.life == Life::Over {
                return true;
            }
            // It reads although the peer takes nothing: the peer may be as full, and wait for us to read (RFC 9113 section 5.2.2).
            if self.link.is_full() {
                // The wire wakes the task once it takes more.
                return true;
            }
            if !all_taken {
                continue;
            }
            match self.link.poll_read(cx, wire) {
                Poll::Pending if has_more => {}
                Poll::Pending => return true,
                Poll::Ready(Ok(count @ 1..)) => {
                    context.received(count);
                    self.received_at = now;
                    let input = self.link.input.as_ref().map_or(&[][..], Buffer::data);
                    if !self.link.engine.is_greeted() && is_tls_alert(input) {
                        self.meet_tls(context);
                        return true;
                    }
                }
                Poll::Ready(ended) => {
                    self.lose(ended.err(), context);
                    return true;
                }
            }
        }
        false
    }

    /// Whether an idle connection can take a call. Reads what the peer has sent meanwhile, such as a `GOAWAY`.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        let Some(wire) = io.wire.as_mut() else { return false };
        if self.is_empty() && poll_truly(cx, |cx| wire.poll_readable(cx)).is_ready() {
            self.carry_streams_on(cx, wire, precise(), context);
        }
        self.life == Life::Open
    }

    /// Begins with a call, on a connection that has a slot.
    pub(crate) fn start(&mut self, mut job: Job, host: &str, context: &LoopContext) {
        if self.slots(context) == 0 {
            return self.ended.push_back(Outcome::Resubmit(job));
        }
        self.idle_until = None;
        self.trims_at = None;
        if job.request.upgrade && !self.link.engine.is_greeted() {
            return self.wait_for_settings(job, host, context);
        }
        let (upload, length, tunnel, protocol) = if job.request.upgrade {
            let (upload, outgoing) = Upload::tunnel(context.config().limits.body_ahead_bytes);
            let name = job.request.headers.get("upgrade").unwrap_or_default();
            (upload, None, Tunnel::Asked(outgoing), Some(Protocol(name.into())))
        } else {
            let (upload, length) = Upload::start(&mut job.request);
            (upload, length, Tunnel::No, None)
        };
        let awaits_continue =
            protocol.is_none() && !upload.is_done() && job.request.options.expect_continue.is_some();
        let awaits_continue = awaits_continue && upload.expects_continue(&job.request);
        if awaits_continue {
            // Name and value are well-formed.
            let _ = job.request.headers.append("expect", "100-continue");
        }
        let request = &*job.request;
        let parts = RequestParts {
            method: if protocol.is_some() { &Method::CONNECT } else { &request.method },
            scheme: request.url.scheme(),
            authority: request.headers.get("host").unwrap_or(host),
            path: request.target(),
            protocol: protocol.as_ref(),
            headers: &request.headers,
            length,
        };
        let (begins_at, waiting) = (self.link.position(), self.link.output.len());
        let opened = self.link.engine.open_parts(&parts, upload.is_done(), self.link.output.buffer());
        self.link.allow_unsent(self.link.output.len() - waiting);
        if awaits_continue {
            // If it is sent again, that is asked anew.
            job.request.headers.remove("expect");
        }
        let id = match opened {
            Ok(id) => id,
            Err(Refused::Slots) => {
                if protocol.is_none() {
                    upload.give_back(&mut job.request);
                }
                return self.ended.push_back(Outcome::Resubmit(job));
            }
            Err(source) => {
                let origin = job.request.origin();
                let error = match source {
                    Refused::ExtendedConnect => Error::NoUpgrade { origin },
                    source => Error::RequestHead { origin, source, sent: job.sent },
                };
                return self.ended.push_back(job.into_failure(error));
            }
        };
        let is_streaming = upload.is_streaming() && !awaits_continue;
        if !upload.is_streaming() && !upload.is_done() && !awaits_continue {
            self.link.wants_to_send(id, true);
        }
        if self.used {
            context.cells.reused.add(1);
        }
        let place = self.streams.insert(Stream::new(id, job, upload, self.used, begins_at));
        let stream = &mut self.streams[place];
        stream.tunnel = tunnel;
        stream.awaits_continue = awaits_continue;
        if awaits_continue {
            stream.watchdog.await_continue(clock::after(precise(), context.config().timeouts.expect));
        }
        stream.ends_at = self.link.position();
        if place == self.wakers.len() {
            self.wakers.push(self.schedule.waker(place, None).into());
        }
        // Asked only here: this is what wakes the stream when the caller leaves.
        let cx = &mut Context::from_waker(&self.wakers[place]);
        let reply = stream.job.reply.as_mut();
        if reply.is_none_or(|reply| poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready()) || is_streaming {
            self.schedule.poll_soon(place);
        }
        self.places.insert(id, place);
        self.schedule.dirty.push(place);
        self.unflushed.push(place);
    }

    /// Sets the task that carries it.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.schedule.set_task(task);
    }

    /// Takes all events that are there. Returns whether there are no more.
    fn receive(&mut self, now: Instant, context: &LoopContext) -> bool {
        while !self.link.is_full() {
            let mut ended = None;
            match self.link.receive(now) {
                Ok(None) => return true,
                Ok(Some(h2::Event::Response { id, head, length, end })) => {
                    let Some(&place) = self.places.get(&id) else { continue };
                    if self.streams[place].awaits_continue {
                        if head.status() == StatusCode::EXPECTATION_FAILED {
                            self.send_without_expectation(place);
                            continue;
                        }
                        // The peer wants no body any more.
                        self.streams[place].watchdog.stop_awaiting_continue();
                    }
                    if self.streams[place].answered(head, length, end, &context.config().limits).is_err() {
                        self.cancel(place);
                        continue;
                    }
                    if end {
                        ended = Some(place);
                    } else {
                        self.schedule.poll_soon(place);
                    }
                }
                Ok(Some(h2::Event::Data { id, data, end })) => {
                    let length = data.len();
                    // Bytes that have no reader go back to the window.
                    let mut taken = length;
                    if let Some(&place) = self.places.get(&id) {
                        let stream = &mut self.streams[place];
                        taken = stream.received(data, end);
                        ended = Some(place).filter(|_| stream.is_complete());
                        if ended.is_none() {
                            self.schedule.poll_soon(place);
                        }
                    }
                    if taken > 0 {
                        self.link.consumed(id, taken);
                    }
                }
                Ok(Some(h2::Event::Trailers { id, fields })) => {
                    let Some(&place) = self.places.get(&id) else { continue };
                    let stream = &mut self.streams[place];
                    stream.ended_by(fields);
                    self.schedule.poll_soon(place);
                }
                Ok(Some(h2::Event::Informational { id, head })) => {
                    let Some(&place) = self.places.get(&id) else { continue };
                    self.streams[place].informed();
                    if head.status() == StatusCode::CONTINUE {
                        self.send_body(place);
                    }
                    self.schedule.dirty.push(place);
                    if self.streams[place].interim > context.config().limits.interim_responses {
                        self.too_many_interim(place, context);
                    } else {
                        self.streams[place].job.informed(&head);
                    }
                }
                Ok(Some(h2::Event::Reset { id, code, why, .. })) => {
                    if let Some(&place) = self.places.get(&id) {
                        self.was_reset(place, code, why, context);
                    }
                }
                Ok(Some(h2::Event::GoAway(said))) => self.receive_goaway(said),
                Ok(Some(_)) => {}
                Err(error) => {
                    self.break_off(error, context);
                    return true;
                }
            }
            if let Some(place) = ended {
                match self.streams[place].goes_up() {
                    // Whether its caller stays has yet to be looked at.
                    true => self.schedule.poll_soon(place),
                    false => self.complete(place, context),
                }
            }
        }
        false
    }

    /// Gives a stream's caller the received part of its response, and the engine the next part of the request.
    fn poll_stream(&mut self, place: usize, context: &LoopContext) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        let cx = &mut Context::from_waker(&self.wakers[place]);
        self.schedule.dirty.push(place);
        stream.look_for_caller(cx);
        if !stream.is_complete() || matches!(stream.download, Download::Streams { .. }) {
            match stream.feed(&context.config().limits, cx) {
                Ok(0) => {}
                Ok(taken) => self.link.consumed(stream.id, taken),
                Err(_) => return self.cancel(place),
            }
        }
        if stream.is_complete() && !stream.goes_up() {
            return self.complete(place, context);
        }
        if stream.upload.is_streaming() && !stream.awaits_continue {
            let next = stream.upload.next(context.config().limits.replay_bytes, cx);
            self.send(place, Piece::default(), next, context);
        }
    }

    /// Sends as much of the requests' bodies as the windows and the output have room for.
    fn transmit(&mut self, context: &LoopContext) {
        while let Some((id, room)) = self.link.next_to_send() {
            let Some(&place) = self.places.get(&id) else { continue };
            let upload = &mut self.streams[place].upload;
            let piece = upload.take(room);
            // Asked first, so that the last piece ends the stream.
            let kept_max = context.config().limits.replay_bytes;
            let next = upload.next(kept_max, &mut Context::from_waker(&self.wakers[place]));
            self.send(place, piece, next, context);
        }
    }

    /// Sends a piece of a request's body, which is empty without a turn, and the end if that is next.
    fn send(&mut self, place: usize, piece: Piece, next: Next, context: &LoopContext) {
        let stream = &mut self.streams[place];
        let (id, before) = (stream.id, self.link.position());
        let length = piece.bytes.len() as u32;
        if let Sent::Broken(source) = send(&mut self.link, id, piece, next) {
            return self.caller_fails(place, source, context);
        }
        if stream.upload.is_done() && stream.is_complete() {
            return self.complete(place, context);
        }
        self.schedule.dirty.push(place);
        if self.link.position() > before {
            if stream.ends_at <= self.link.output.taken() {
                self.unflushed.push(place);
                // What held it back was the window, which the peer has opened. Behind bytes that the wire has yet to take, more
                // of the caller's is no progress of the peer.
                stream.peer_took();
                self.schedule.sent_bytes = self.schedule.sent_bytes.wrapping_add(length);
                stream.counted_bytes = self.schedule.sent_bytes;
            }
            stream.ends_at = self.link.position();
        }
    }

    /// Writes as much of the output as the wire takes.
    fn flush(&mut self, cx: &mut Context<'_>, wire: &mut Connection, context: &LoopContext) {
        if self.refused.is_some() {
            self.link.output.clear();
        }
        if self.link.output.is_empty() {
            return;
        }
        let (before, unsent) = (self.link.output.taken(), self.link.output.unsent());
        let waiting = self.link.output.len();
        let polled = self.link.poll_flush(cx, wire);
        context.sent(waiting - self.link.output.len());
        let taken = self.link.output.taken();
        if taken > before || self.link.output.unsent() < unsent {
            let Self { streams, schedule, .. } = self;
            self.unflushed.retain(|&place| {
                let Some(stream) = streams.get_mut(place) else { return false };
                stream.job.sent |= taken > stream.begins_at;
                stream.peer_took();
                schedule.dirty.push(place);
                if stream.upload.is_done()
                    && stream.ends_at <= taken
                    && let Some(seen) = stream.job.seen()
                {
                    seen.written();
                }
                stream.ends_at > taken
            });
        }
        if let Poll::Ready(Err(error)) = polled {
            self.refused = Some(error);
            self.close_after_calls();
            self.link.output.clear();
        }
    }

    /// Tells the peer that the connection ends (RFC 9113 section 6.8), as far as the wire takes that at once.
    pub(crate) fn go_away(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) {
        let Some(wire) = &mut io.wire else { return };
        self.link.go_away();
        self.flush(cx, wire, context);
    }

    /// A response is complete, and its caller has all of it.
    fn complete(&mut self, place: usize, context: &LoopContext) {
        // Taken apart at once: moving all of it is 80 instructions each time.
        let Stream { id, job, download, .. } = self.streams.remove(place);
        self.forget(id, Code::CANCEL);
        self.used = true;
        self.ended.push_back(download.finish(job, &context.config().limits));
    }

    /// Ends a call whose caller has left.
    fn cancel(&mut self, place: usize) {
        drop(self.remove(place, Code::CANCEL));
        self.ended.push_back(Outcome::Nothing);
    }

    fn caller_fails(&mut self, place: usize, source: BodyError, context: &LoopContext) {
        let job = &self.streams[place].job;
        let error = Error::RequestBody { origin: job.request.origin(), source, sent: job.sent };
        self.fail(place, error, context);
    }

    fn too_many_interim(&mut self, place: usize, context: &LoopContext) {
        context.cells.too_many_interim.add(1);
        let stream = &self.streams[place];
        let error = Error::Interim { origin: stream.job.request.origin(), count: stream.interim };
        self.fail(place, error, context);
    }

    /// Ends a call by an error of its own.
    pub(super) fn fail(&mut self, place: usize, error: Error, context: &LoopContext) {
        let stream = self.remove(place, Code::CANCEL);
        self.end(stream, error, context);
    }

    /// Takes a stream out, which ends by `code` if it has not ended.
    pub(super) fn remove(&mut self, place: usize, code: Code) -> Stream {
        let stream = self.streams.remove(place);
        self.forget(stream.id, code);
        stream
    }

    fn forget(&mut self, id: StreamId, code: Code) {
        self.places.remove(&id);
        self.link.reset(id, code);
    }
}

/// Reads of one poll: 128 KiB as a rule. A wire that always has more would otherwise keep the loop from its other tasks
/// and its clock.
const READS_IN_A_ROW_MAX: u32 = 8;
