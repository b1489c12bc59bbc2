//! HEADERS and CONTINUATION: requests, responses and trailers.

use std::time::Instant;

use super::{Step, refuse};
use crate::Headers;
use crate::h2::engine::{Closing, Incoming};
use crate::h2::frame::{FrameHead, flag};
use crate::h2::head::{Facts, Refusal, TooLarge};
use crate::h2::priority::Priority;
use crate::h2::stream::{Half, StreamKind};
use crate::h2::{
    Abuse, Code, Engine, Error, Event, FrameFault, MessageError, MessageFault, ResponseParts, StreamId,
};
use crate::message::forbids_body;

impl Engine {
    /// RFC 9113 section 6.2.
    pub(super) fn headers(
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
                return refuse(FrameFault::HeadersTooShort);
            };
            (block, padding) = (rest, usize::from(*length));
        }
        if head.has(flag::PRIORITY) {
            // Weights and dependencies were withdrawn (RFC 9113 section 5.3.2).
            let Some((_, rest)) = block.split_first_chunk::<5>() else {
                return refuse(FrameFault::HeadersTooShort);
            };
            block = rest;
        }
        let Some(length) = block.len().checked_sub(padding) else {
            return refuse(FrameFault::Padding);
        };
        let (block, end) = (&block[..length], head.has(flag::END_STREAM));
        if head.has(flag::END_HEADERS) {
            return self.block(now, id, block, end, out);
        }
        self.incoming = Incoming::Block { id, end, bytes: block.to_vec(), frames: 0 };
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.10.
    pub(super) fn continuation(
        &mut self,
        now: Instant,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let Incoming::Block { id, end, bytes, frames } = &mut self.incoming else {
            return refuse(FrameFault::ContinuationAlone);
        };
        *frames += 1;
        let limit = self.limits.continuations_max();
        if *frames > limit {
            return Err(Error::Excess { what: Abuse::Continuations, limit });
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
                self.malformed(now, id, MessageFault::HeadersBehindEnd, out)
            }
            None if self.is_server && id.0 > self.newest_of_peer => self.request(now, id, block, end, out),
            None => {
                // A server's heads may be on their way to many streams that were cancelled. A client sends few trailers.
                if self.is_server {
                    self.spend_idle(now)?;
                }
                self.heads.skip(block)?;
                self.closed(id, FrameFault::HeadersOnClosed)?;
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
        if matches!(self.closing, Closing::After(last) if id.0 > last) {
            // The peer was told; it sends these again elsewhere.
            self.spend_idle(now)?;
            self.heads.skip(block)?;
            return Ok(Step::Again);
        }
        let decoded = self.heads.request(block)?;
        if self.open >= self.limits.connection.streams {
            return self.refuse_stream(now, id, out);
        }
        let (head, Facts { length }) = match decoded {
            Ok(found) => found,
            Err(Refusal::Malformed(fault)) => return self.malformed(now, id, fault, out),
            Err(Refusal::TooLarge(large)) => return self.refuse_large(now, id, end, large, out),
        };
        if end && length.is_some_and(|length| length > 0) {
            return self.malformed(now, id, MessageFault::NoBody, out);
        }
        self.idle_budget.earn(EARNED_BY_STREAM);
        let priority = head.headers().get_bytes("priority").map_or(Priority::UNSAID, Priority::parse);
        let stream = self.add(id, if end { Half::Ended } else { Half::Body }, Half::Head);
        stream.priority = priority;
        stream.left = length;
        stream.kind = StreamKind::of(head.method());
        Ok(Step::Event(Event::Request { id, head, length, end }))
    }

    /// Refuses a stream above the limit. That is no fault of a peer that cannot know the limit yet (RFC 9113 section 6.5.2).
    #[cold]
    fn refuse_stream(&mut self, now: Instant, id: StreamId, out: &mut Vec<u8>) -> Result<Step, Error> {
        let code = Code::REFUSED_STREAM;
        if self.are_settings_known() {
            return self.fault(now, id, code, None, out);
        }
        self.spend_idle(now)?;
        self.reset_stream(id, code, out);
        Ok(Step::Event(Event::Reset { id, code, by_peer: false, why: None }))
    }

    /// Answers a request that is too large, or leaves that to the driver.
    #[cold]
    fn refuse_large(
        &mut self,
        now: Instant,
        id: StreamId,
        end: bool,
        large: TooLarge,
        out: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let TooLarge { limit, asks_head } = large;
        let error = MessageError::Limit(limit);
        match self.streams.get(&id).map(|stream| stream.outgoing) {
            None => {
                let kind = if asks_head { StreamKind::Head } else { StreamKind::Message };
                self.add(id, if end { Half::Ended } else { Half::Body }, Half::Head).kind = kind;
            }
            Some(Half::Head) if end => self.end_half(id, |stream| &mut stream.incoming, out),
            // Some of its response has left, or it is ours.
            Some(_) => return self.fault(now, id, Code::ENHANCE_YOUR_CALM, Some(error), out),
        }
        if self.leaves_refusals {
            // It costs more than it should, so it counts as a fault.
            self.spend_reset(now)?;
            let asks_head = self.streams.get(&id).is_some_and(|stream| stream.kind == StreamKind::Head);
            return Ok(Step::Event(Event::Refused { id, limit, asks_head }));
        }
        let fields = Headers::new();
        let parts = ResponseParts { length: Some(0), ..ResponseParts::new(limit.status(), &fields) };
        // It costs more than it should, so it counts as a fault. A peer may take not even this.
        if self.respond(id, &parts, true, out).is_err() {
            return self.fault(now, id, Code::ENHANCE_YOUR_CALM, Some(error), out);
        }
        if end {
            self.spend_reset(now)?;
            self.remove(id, out);
            return Ok(Step::Event(Event::Reset {
                id,
                code: Code::NO_ERROR,
                by_peer: false,
                why: Some(error),
            }));
        }
        self.fault(now, id, Code::NO_ERROR, Some(error), out)
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
            Err(Refusal::Malformed(fault)) => return self.malformed(now, id, fault, out),
            Err(Refusal::TooLarge(TooLarge { limit, .. })) => {
                return self.fault(now, id, Code::CANCEL, Some(MessageError::Limit(limit)), out);
            }
        };
        let status = head.status();
        if status.is_informational() {
            if end {
                return self.malformed(now, id, MessageFault::InterimEnds, out);
            }
            self.spend_idle(now)?;
            return Ok(Step::Event(Event::Informational { id, head }));
        }
        self.idle_budget.earn(EARNED_BY_STREAM);
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Again) };
        if stream.kind == StreamKind::Tunnel && !status.is_success() {
            stream.kind = StreamKind::Message;
        }
        match stream.kind {
            // Any success opens it, also one that has no body elsewhere (RFC 9110 section 9.3.6).
            StreamKind::Tunnel => {}
            // Whatever length the head states (RFC 9113 section 8.1.1).
            StreamKind::Head => stream.left = Some(0),
            StreamKind::Message => stream.left = if forbids_body(status) { Some(0) } else { length },
        }
        if end && stream.left.is_some_and(|left| left > 0) {
            return self.malformed(now, id, MessageFault::NoBody, out);
        }
        stream.incoming = Half::Body;
        if end {
            self.end_half(id, |stream| &mut stream.incoming, out);
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
        let stream = self.streams.get(&id);
        let is_complete = stream.is_none_or(|stream| stream.left.is_none_or(|left| left == 0));
        // RFC 9113 section 8.5.
        let is_tunnel = stream.is_some_and(|stream| stream.kind == StreamKind::Tunnel);
        let fault = match decoded {
            Ok(fields) if end && is_complete && !is_tunnel => {
                self.end_half(id, |stream| &mut stream.incoming, out);
                return Ok(Step::Event(Event::Trailers { id, fields }));
            }
            Err(Refusal::TooLarge(large)) => return self.refuse_large(now, id, end, large, out),
            Err(Refusal::Malformed(fault)) => fault,
            Ok(_) if is_tunnel => MessageFault::TunnelTrailers,
            Ok(_) if end => MessageFault::BodyTooShort,
            Ok(_) => MessageFault::SecondHead,
        };
        self.malformed(now, id, fault, out)
    }
}

/// Frames that move nothing which a stream makes up for: its windows, its priority.
const EARNED_BY_STREAM: u32 = 4;
