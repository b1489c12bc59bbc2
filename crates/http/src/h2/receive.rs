//! Frames in, events out (RFC 9113 section 6).

use std::time::Instant;

use super::engine::{Going, Incoming};
use super::frame::{self, FrameHead, HEAD_BYTES, PREFACE, WINDOW_MAX, flag, kind};
use super::head::{Facts, Refusal};
use super::priority::Priority;
use super::settings::FRAME_BYTES_MIN;
use super::stream::Half;
use super::{Code, Engine, Error, Event, ResponseParts, StreamId};
use crate::{Buffer, Headers, Method, StatusCode};

/// What one step has led to.
enum Step {
    /// Something was taken. There may be more.
    Again,
    /// More bytes are needed.
    Wait,
    Event(Event<'static>),
    /// The next bytes of the input are data of this stream.
    Data {
        id: StreamId,
        length: usize,
        end: bool,
    },
}

impl Engine {
    /// Takes the next event out of `input`; `None` means that more bytes are needed. Appends to `out` what the peer has to
    /// know at once.
    ///
    /// # Errors
    ///
    /// The connection has ended, and the same error comes on each later call. `out` holds the `GOAWAY` that says why.
    pub fn receive<'b>(
        &mut self,
        now: Instant,
        input: &'b mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'b>>, Error> {
        if !input.is_empty() {
            self.heard = now;
        }
        loop {
            if let Some((id, code)) = self.resets.pop_front() {
                return Ok(Some(Event::Reset { id, code }));
            }
            match self.step(now, input, out) {
                Ok(Step::Again) => {}
                Ok(Step::Wait) => return Ok(None),
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Data { id, length, end }) => {
                    return Ok(Some(Event::Data { id, data: input.take(length), end }));
                }
                Err(error) => return Err(self.fail(error, out)),
            }
        }
    }

    fn step(&mut self, now: Instant, input: &mut Buffer, out: &mut Vec<u8>) -> Result<Step, Error> {
        match &mut self.incoming {
            Incoming::Failed(error) => Err(*error),
            Incoming::Preface(seen) => {
                let data = input.data();
                let length = data.len().min(PREFACE.len() - *seen);
                if data[..length] != PREFACE[*seen..*seen + length] {
                    return Err(Error::Preface);
                }
                *seen += length;
                let is_whole = *seen == PREFACE.len();
                input.consume(length);
                if !is_whole {
                    return Ok(Step::Wait);
                }
                self.incoming = Incoming::First;
                Ok(Step::Again)
            }
            Incoming::Data { .. } => Ok(self.data(input, out)),
            Incoming::Skip(left) => {
                let length = input.len().min(*left);
                input.consume(length);
                *left -= length;
                if *left > 0 {
                    return Ok(Step::Wait);
                }
                self.incoming = Incoming::Frame;
                Ok(Step::Again)
            }
            Incoming::First | Incoming::Frame | Incoming::Block { .. } => self.frame(now, input, out),
        }
    }

    /// Takes a frame. Of one with data, or without a meaning, only the head.
    fn frame(&mut self, now: Instant, input: &mut Buffer, out: &mut Vec<u8>) -> Result<Step, Error> {
        let Some(head) = FrameHead::parse(input.data()) else { return Ok(Step::Wait) };
        if head.length > FRAME_BYTES_MIN {
            return refuse(Code::FRAME_SIZE_ERROR, "a frame is longer than 16,384 bytes");
        }
        match &self.incoming {
            Incoming::Block { id, .. } if head.kind != kind::CONTINUATION || head.stream != id.0 => {
                return refuse(Code::PROTOCOL_ERROR, "another frame stands within a header block");
            }
            Incoming::First if head.kind != kind::SETTINGS || head.has(flag::ACK) => {
                return refuse(Code::PROTOCOL_ERROR, "the first frame is not SETTINGS");
            }
            _ => {}
        }
        if head.kind == kind::DATA {
            return self.data_begins(now, head, input, out);
        }
        if !is_known(head.kind) {
            self.spend_idle(now)?;
            input.consume(HEAD_BYTES);
            self.incoming = Incoming::Skip(head.length);
            return Ok(Step::Again);
        }
        if input.len() < HEAD_BYTES + head.length {
            return Ok(Step::Wait);
        }
        if matches!(self.incoming, Incoming::First) {
            self.incoming = Incoming::Frame;
        }
        let payload = &input.data()[HEAD_BYTES..HEAD_BYTES + head.length];
        let step = match head.kind {
            kind::HEADERS => self.headers(now, head, payload, out),
            kind::CONTINUATION => self.continuation(now, head, payload, out),
            kind::RST_STREAM => self.rst_stream(now, head, payload),
            kind::SETTINGS => self.settings(now, head, payload, out),
            kind::PING => self.ping(now, head, payload, out),
            kind::GOAWAY => self.go_away(head, payload),
            kind::WINDOW_UPDATE => self.window_update(now, head, payload, out),
            kind::PRIORITY => self.old_priority(now, head, out),
            kind::PRIORITY_UPDATE => self.priority_update(now, head, payload),
            _ => refuse(Code::PROTOCOL_ERROR, "PUSH_PROMISE comes, which was not allowed"),
        }?;
        input.consume(HEAD_BYTES + head.length);
        Ok(step)
    }

    /// RFC 9113 section 6.1.
    fn data_begins(
        &mut self,
        now: Instant,
        head: FrameHead,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let id = self.id_of(head)?;
        let padded = usize::from(head.has(flag::PADDED));
        let padding = match input.data().get(HEAD_BYTES) {
            _ if padded == 0 => 0,
            None => return Ok(Step::Wait),
            Some(&padding) => usize::from(padding),
        };
        let Some(length) = head.length.checked_sub(padded + padding) else {
            return refuse(Code::PROTOCOL_ERROR, "the padding is longer than its frame");
        };
        let end = head.has(flag::END_STREAM);
        if length == 0 && !end {
            self.spend_idle(now)?;
        }
        self.in_window -= head.length as i64;
        if self.in_window < 0 {
            return refuse(
                Code::FLOW_CONTROL_ERROR,
                "the peer sends more than the connection's window allows",
            );
        }
        input.consume(HEAD_BYTES + padded);
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.incoming == Half::Body) else {
            // What nobody reads is returned at once.
            self.taken += head.length as u32;
            self.return_window(out);
            self.incoming = Incoming::Skip(length + padding);
            return match self.streams.get(&id).map(|stream| stream.incoming) {
                None => self.closed(id, "DATA comes for a stream that has ended").map(|()| Step::Again),
                Some(Half::Head) => self.fault(now, id, Code::PROTOCOL_ERROR, out),
                Some(_) => self.fault(now, id, Code::STREAM_CLOSED, out),
            };
        };
        stream.in_window -= head.length as i64;
        let overhead = (padded + padding) as u32;
        stream.taken += overhead;
        stream.unread += length as u32;
        let too_much = stream.in_window < 0;
        let left = stream.left.map(|left| left.checked_sub(length as u64));
        let wrong_length = left == Some(None) || (end && left.flatten().is_some_and(|left| left > 0));
        stream.left = left.flatten();
        self.taken += overhead;
        if too_much || wrong_length {
            self.incoming = Incoming::Skip(length + padding);
            let code = if too_much { Code::FLOW_CONTROL_ERROR } else { Code::PROTOCOL_ERROR };
            return self.fault(now, id, code, out);
        }
        self.incoming = Incoming::Data { id, left: length, padding, end };
        Ok(Step::Again)
    }

    /// Gives as much of a DATA frame as there is.
    fn data(&mut self, input: &Buffer, out: &mut Vec<u8>) -> Step {
        let Incoming::Data { id, left, padding, end } = &mut self.incoming else { return Step::Again };
        let (id, length) = (*id, input.len().min(*left));
        if length == 0 && *left > 0 {
            return Step::Wait;
        }
        *left -= length;
        let is_last = *left == 0;
        let ends = is_last && *end;
        if is_last {
            self.incoming = Incoming::Skip(*padding);
            self.return_window(out);
        }
        if ends {
            self.end_half(id, |stream| &mut stream.incoming);
        }
        if length == 0 && !ends { Step::Again } else { Step::Data { id, length, end: ends } }
    }

    /// RFC 9113 section 6.2.
    fn headers(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let id = self.id_of(head)?;
        let (mut block, mut padding) = (payload, 0);
        if head.has(flag::PADDED) {
            let Some((length, rest)) = block.split_first() else {
                return refuse(Code::FRAME_SIZE_ERROR, "HEADERS is too short for its flags");
            };
            (block, padding) = (rest, usize::from(*length));
        }
        if head.has(flag::PRIORITY) {
            // Weights and dependencies were withdrawn (RFC 9113 section 5.3.2).
            let Some((_, rest)) = block.split_first_chunk::<5>() else {
                return refuse(Code::FRAME_SIZE_ERROR, "HEADERS is too short for its flags");
            };
            block = rest;
        }
        let Some(length) = block.len().checked_sub(padding) else {
            return refuse(Code::PROTOCOL_ERROR, "the padding is longer than its frame");
        };
        let (block, end) = (&block[..length], head.has(flag::END_STREAM));
        if head.has(flag::END_HEADERS) {
            return self.block(now, id, block, end, out);
        }
        self.incoming = Incoming::Block { id, end, bytes: block.to_vec(), frames: 0 };
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.10.
    fn continuation(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let Incoming::Block { id, end, bytes, frames } = &mut self.incoming else {
            return refuse(Code::PROTOCOL_ERROR, "CONTINUATION comes without a header block");
        };
        *frames += 1;
        if *frames > self.limits.continuations {
            return Err(Error::Excess {
                what: "CONTINUATION frames of a head",
                limit: self.limits.continuations,
            });
        }
        bytes.extend_from_slice(payload);
        if !head.has(flag::END_HEADERS) {
            return Ok(Step::Again);
        }
        let (id, end, block) = (*id, *end, std::mem::take(bytes));
        self.incoming = Incoming::Frame;
        self.block(now, id, &block, end, out)
    }

    /// Takes a whole header block: a head, or trailers.
    fn block(
        &mut self,
        now: Instant,
        id: StreamId,
        block: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        match self.streams.get(&id).map(|stream| stream.incoming) {
            Some(Half::Head) => self.response(now, id, block, end, out),
            Some(Half::Body) => self.trailers(now, id, block, end, out),
            Some(Half::Ended) => {
                self.heads.skip(block)?;
                self.fault(now, id, Code::STREAM_CLOSED, out)
            }
            None if self.is_server && id.0 > self.newest_of_peer => self.request(now, id, block, end, out),
            None => {
                self.heads.skip(block)?;
                self.closed(id, "HEADERS comes for a stream that has ended")?;
                Ok(Step::Again)
            }
        }
    }

    fn request(
        &mut self,
        now: Instant,
        id: StreamId,
        block: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        self.newest_of_peer = id.0;
        if matches!(self.going, Going::After(last) if id.0 > last) {
            // The peer was told; it sends these again elsewhere.
            self.heads.skip(block)?;
            return Ok(Step::Again);
        }
        let decoded = self.heads.request(block)?;
        if self.open >= self.limits.streams {
            return self.fault(now, id, Code::REFUSED_STREAM, out);
        }
        let (head, Facts { length }) = match decoded {
            Ok(found) => found,
            Err(Refusal::Malformed(_)) => return self.fault(now, id, Code::PROTOCOL_ERROR, out),
            Err(Refusal::TooLarge) => return self.refuse_large(now, id, end, out),
        };
        if end && length.is_some_and(|length| length > 0) {
            return self.fault(now, id, Code::PROTOCOL_ERROR, out);
        }
        self.idle_budget.earn(EARNED_BY_STREAM);
        let priority = head.headers().get_bytes("priority").map_or(Priority::UNSAID, Priority::parse);
        let stream = self.add(id, if end { Half::Ended } else { Half::Body }, Half::Head);
        stream.priority = priority;
        stream.left = length;
        stream.asks_head = *head.method() == Method::HEAD;
        stream.is_connect = *head.method() == Method::CONNECT;
        Ok(Step::Event(Event::Request { id, head, length, end }))
    }

    /// Answers a request whose head is too large, of which nobody else gets to know.
    #[cold]
    fn refuse_large(
        &mut self,
        now: Instant,
        id: StreamId,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        self.add(id, if end { Half::Ended } else { Half::Body }, Half::Head);
        let fields = Headers::new();
        let parts = ResponseParts {
            length: Some(0),
            ..ResponseParts::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &fields)
        };
        let sent = self.respond(id, &parts, true, out);
        debug_assert!(sent.is_ok(), "the stream has just begun");
        // It costs more than it should, so it counts as a fault.
        if end {
            self.spend_reset(now)?;
            return Ok(Step::Again);
        }
        self.fault(now, id, Code::NO_ERROR, out).map(|_| Step::Again)
    }

    fn response(
        &mut self,
        now: Instant,
        id: StreamId,
        block: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let (head, Facts { length }) = match self.heads.response(block)? {
            Ok(found) => found,
            Err(Refusal::Malformed(_)) => return self.fault(now, id, Code::PROTOCOL_ERROR, out),
            Err(Refusal::TooLarge) => return self.fault(now, id, Code::CANCEL, out),
        };
        let status = head.status();
        if status.is_informational() {
            if end {
                return self.fault(now, id, Code::PROTOCOL_ERROR, out);
            }
            self.spend_idle(now)?;
            return Ok(Step::Event(Event::Informational { id, head }));
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Again) };
        let has_no_body = stream.asks_head || status == StatusCode::NOT_MODIFIED;
        if has_no_body {
            stream.left = Some(0);
        } else if !(stream.is_connect && status.is_success()) {
            stream.left = length;
        }
        if end && stream.left.is_some_and(|left| left > 0) {
            return self.fault(now, id, Code::PROTOCOL_ERROR, out);
        }
        stream.incoming = Half::Body;
        if end {
            self.end_half(id, |stream| &mut stream.incoming);
        }
        Ok(Step::Event(Event::Response { id, head, length, end }))
    }

    /// RFC 9113 section 8.1.
    fn trailers(
        &mut self,
        now: Instant,
        id: StreamId,
        block: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let decoded = self.heads.trailers(block)?;
        let is_complete = self.streams.get(&id).is_none_or(|stream| stream.left.is_none_or(|left| left == 0));
        match decoded {
            Ok(fields) if end && is_complete => {
                self.end_half(id, |stream| &mut stream.incoming);
                Ok(Step::Event(Event::Trailers { id, fields }))
            }
            Err(Refusal::TooLarge) => self.fault(now, id, Code::ENHANCE_YOUR_CALM, out),
            Ok(_) | Err(Refusal::Malformed(_)) => self.fault(now, id, Code::PROTOCOL_ERROR, out),
        }
    }

    /// RFC 9113 section 6.4.
    fn rst_stream(&mut self, now: Instant, head: FrameHead, payload: &[u8]) -> Result<Step, Error> {
        let id = self.id_of(head)?;
        let [c3, c2, c1, c0] = *payload else {
            return refuse(Code::FRAME_SIZE_ERROR, "RST_STREAM is not four bytes long");
        };
        let code = Code(u32::from_be_bytes([c3, c2, c1, c0]));
        if !self.streams.contains_key(&id) {
            self.spend_idle(now)?;
            return Ok(Step::Again);
        }
        // A client that asks and takes back again costs more work than it does (CVE-2023-44487).
        if self.is_server {
            self.spend_reset(now)?;
        }
        self.remove(id);
        Ok(Step::Event(Event::Reset { id, code }))
    }

    /// RFC 9113 section 6.5.
    fn settings(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        on_connection(head, "SETTINGS is sent on a stream")?;
        self.spend_idle(now)?;
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return refuse(Code::FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has a payload");
            }
            self.settings_acknowledged();
            return Ok(Step::Again);
        }
        let before = self.peer.window;
        self.peer.update(payload, !self.is_server)?;
        self.encoder.set_limit(self.peer.table_bytes);
        let change = i64::from(self.peer.window) - i64::from(before);
        if change != 0 {
            let mut ids = Vec::with_capacity(self.streams.len());
            for (id, stream) in &mut self.streams {
                stream.out_window += change;
                if stream.out_window > i64::from(WINDOW_MAX) {
                    return refuse(
                        Code::FLOW_CONTROL_ERROR,
                        "SETTINGS makes a stream's window larger than 2^31-1",
                    );
                }
                ids.push(*id);
            }
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.queue(id));
        }
        frame::settings_ack(out);
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.7.
    fn ping(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        on_connection(head, "PING is sent on a stream")?;
        let Ok(opaque) = payload.try_into() else {
            return refuse(Code::FRAME_SIZE_ERROR, "PING is not eight bytes long");
        };
        self.spend_idle(now)?;
        if head.has(flag::ACK) {
            self.pong(opaque, out);
        } else {
            frame::ping(out, flag::ACK, opaque);
        }
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.8.
    fn go_away(&mut self, head: FrameHead, payload: &[u8]) -> Result<Step, Error> {
        on_connection(head, "GOAWAY is sent on a stream")?;
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number))
        else {
            return refuse(Code::FRAME_SIZE_ERROR, "GOAWAY is shorter than eight bytes");
        };
        let last = last & frame::STREAM_ID_MAX;
        if self.peer_goes_after.is_some_and(|before| last > before) {
            return refuse(Code::PROTOCOL_ERROR, "a later GOAWAY names a higher stream");
        }
        self.peer_goes_after = Some(last);
        if !self.is_server {
            let mut refused: Vec<_> = self.streams.keys().copied().filter(|id| id.0 > last).collect();
            refused.sort_unstable();
            for id in refused {
                self.remove(id);
                self.resets.push_back((id, Code::REFUSED_STREAM));
            }
        }
        Ok(Step::Event(Event::GoAway { last: StreamId(last), code: Code(code) }))
    }

    /// RFC 9113 section 6.9.
    fn window_update(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let [i3, i2, i1, i0] = *payload else {
            return refuse(Code::FRAME_SIZE_ERROR, "WINDOW_UPDATE is not four bytes long");
        };
        self.spend_idle(now)?;
        let increment = i64::from(u32::from_be_bytes([i3, i2, i1, i0]) & WINDOW_MAX);
        if head.stream == 0 {
            self.out_window += increment;
            return match increment {
                0 => refuse(Code::PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing"),
                _ if self.out_window > i64::from(WINDOW_MAX) => {
                    refuse(Code::FLOW_CONTROL_ERROR, "the connection's window is larger than 2^31-1")
                }
                _ => Ok(Step::Again),
            };
        }
        let id = self.id_of(head)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Again) };
        stream.out_window += increment;
        if increment == 0 {
            return self.fault(now, id, Code::PROTOCOL_ERROR, out);
        }
        if stream.out_window > i64::from(WINDOW_MAX) {
            return self.fault(now, id, Code::FLOW_CONTROL_ERROR, out);
        }
        self.queue(id);
        Ok(Step::Again)
    }

    /// Weights and dependencies, which were withdrawn (RFC 9113 section 5.3.2).
    fn old_priority(&mut self, now: Instant, head: FrameHead, out: &mut Vec<u8>) -> Result<Step, Error> {
        self.spend_idle(now)?;
        if head.stream == 0 {
            return refuse(Code::PROTOCOL_ERROR, "PRIORITY is not sent on a stream");
        }
        let id = StreamId(head.stream);
        if head.length == 5 {
            return Ok(Step::Again);
        }
        if self.streams.contains_key(&id) {
            return self.fault(now, id, Code::FRAME_SIZE_ERROR, out);
        }
        refuse(Code::FRAME_SIZE_ERROR, "PRIORITY is not five bytes long")
    }

    /// RFC 9218 section 7.1.
    fn priority_update(&mut self, now: Instant, head: FrameHead, payload: &[u8]) -> Result<Step, Error> {
        on_connection(head, "PRIORITY_UPDATE is sent on a stream")?;
        self.spend_idle(now)?;
        let Some((id, field)) = payload.split_first_chunk::<4>().filter(|_| self.is_server) else {
            return refuse(Code::PROTOCOL_ERROR, "PRIORITY_UPDATE is too short, or a server's");
        };
        let id = StreamId(u32::from_be_bytes(*id) & frame::STREAM_ID_MAX);
        // For a stream that is still to come it is dropped: the request can say it itself.
        if let Some(stream) = self.streams.get_mut(&id) {
            let priority = Priority::parse(field);
            let before = std::mem::replace(&mut stream.priority, priority);
            if std::mem::take(&mut stream.is_queued) {
                self.ready.remove(id, before);
                self.queue(id);
            }
        }
        Ok(Step::Again)
    }

    /// The stream of a frame, which must not be idle.
    fn id_of(&self, head: FrameHead) -> Result<StreamId, Error> {
        let id = head.stream;
        let is_peers = id % 2 == u32::from(self.is_server);
        let newest = if is_peers { self.newest_of_peer } else { self.next_of_ours.saturating_sub(2) };
        let opens = head.kind == kind::HEADERS && self.is_server && is_peers;
        if id == 0 || (id > newest && !opens) {
            return Err(Error::Frame {
                code: Code::PROTOCOL_ERROR,
                reason: "a frame needs a stream, and names none, or one that nobody has opened",
            });
        }
        Ok(StreamId(id))
    }

    /// A frame for a stream that is gone. It is no fault if we have reset the stream, or told the peer not to open it.
    fn closed(&self, id: StreamId, reason: &'static str) -> Result<(), Error> {
        let was_refused = matches!(self.going, Going::After(last) if id.0 > last);
        if was_refused || self.reset_lately.contains(&id) {
            return Ok(());
        }
        Err(Error::Frame { code: Code::STREAM_CLOSED, reason })
    }

    /// Ends a stream for a fault of the peer, which counts as a reset (CVE-2025-8671).
    #[cold]
    fn fault(&mut self, now: Instant, id: StreamId, code: Code, out: &mut Vec<u8>) -> Result<Step, Error> {
        self.spend_reset(now)?;
        let was_known = self.streams.contains_key(&id);
        self.reset_stream(id, code, out);
        Ok(if was_known { Step::Event(Event::Reset { id, code }) } else { Step::Again })
    }

    fn spend_reset(&mut self, now: Instant) -> Result<(), Error> {
        let rate = self.limits.resets;
        if self.reset_budget.spend(rate, now) {
            return Ok(());
        }
        Err(Error::Excess { what: "streams that end too early", limit: rate.burst as usize })
    }

    fn spend_idle(&mut self, now: Instant) -> Result<(), Error> {
        let rate = self.limits.idle_frames;
        if self.idle_budget.spend(rate, now) {
            return Ok(());
        }
        Err(Error::Excess { what: "frames that move nothing", limit: rate.burst as usize })
    }
}

fn refuse<T>(code: Code, reason: &'static str) -> Result<T, Error> {
    Err(Error::Frame { code, reason })
}

fn on_connection(head: FrameHead, reason: &'static str) -> Result<(), Error> {
    if head.stream == 0 { Ok(()) } else { refuse(Code::PROTOCOL_ERROR, reason) }
}

fn is_known(kind: u8) -> bool {
    kind <= kind::CONTINUATION || kind == kind::PRIORITY_UPDATE
}

/// Frames that move nothing which a stream makes up for: its windows, its priority.
const EARNED_BY_STREAM: u32 = 4;
