//! One stream: its handler, and its response on its way out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::h1::encode::forbids_body;
use anywire_http::h2::{Code, Engine, ResponseParts, StreamId, Unsent};
use anywire_http::{Body, BodyError, Headers, Response, StatusCode};
use anywire_loops::clock::precise;
use anywire_wire::Output;
use bytes::Bytes;

use super::session::{Parts, Session};
use super::upload::Upload;
use crate::Limits;
use crate::context::FreeContext;
use crate::dispatch::Run;
use crate::h1::Timers;
use crate::observe::{ExchangeEnd, Tracked};
use crate::respond::wrong_length;
use crate::router::EndpointId;
use crate::service::Service;

/// A stream that is not answered yet, or not to its end.
pub(super) struct Stream {
    pub(super) stage: Stage,
    pub(super) upload: Option<Upload>,
    pub(super) context: Option<FreeContext>,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) is_head: bool,
    pub(super) exchange: Tracked,
    pub(super) waker: Waker,
    pub(super) timers: Timers,
    /// When the first of its deadlines passes.
    pub(super) deadline: Option<Instant>,
}

pub(super) enum Stage {
    /// Its handler runs.
    Handling(Run),
    /// Its response has a body: a piece of it, and what follows.
    Sending { piece: Bytes, rest: Option<Body>, left: Option<u64> },
    /// All of its response was given to the engine.
    Done,
}

/// What follows of a response. Only data needs a window (RFC 9113 section 6.9.1).
pub(super) enum Next {
    /// Data, of which there is some.
    Data,
    End(Option<Headers>),
    /// Nothing now.
    Later,
    Broken(BodyError),
    Panicked,
}

impl Stream {
    /// Takes at most `room` bytes of the response's body.
    fn take(&mut self, room: usize) -> Bytes {
        let Stage::Sending { piece, .. } = &mut self.stage else { return Bytes::new() };
        let piece = piece.split_to(room.min(piece.len()));
        self.exchange.sent(piece.len());
        piece
    }

    /// Looks what follows. A body that has nothing may wait for more of its request, as an echo does.
    fn next(&mut self, id: StreamId, engine: &mut Engine, output: &mut Output, service: &Service) -> Next {
        loop {
            let next = self.poll_body(service);
            if !matches!(next, Next::Later) || self.upload.is_none() {
                return next;
            }
            let waker = self.waker.clone();
            if !self.feed(id, &mut Context::from_waker(&waker), engine, output) {
                return next;
            }
        }
    }

    /// Asks the response's body for its next piece, unless there is some of the last one.
    fn poll_body(&mut self, service: &Service) -> Next {
        let Stage::Sending { piece, rest, left } = &mut self.stage else { return Next::Later };
        if !piece.is_empty() {
            return Next::Data;
        }
        let Some(body) = rest else { return Next::End(None) };
        let cx = &mut Context::from_waker(&self.waker);
        service.dispatch.begins(self.endpoint);
        let polled = catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx)));
        service.dispatch.ends();
        let polled = match polled {
            Ok(polled) => polled,
            Err(panic) => {
                service.dispatch.note_panic(self.endpoint, panic);
                return Next::Panicked;
            }
        };
        match polled {
            Poll::Pending => Next::Later,
            Poll::Ready(Ok(Some(chunk))) => {
                if let Some(left) = left {
                    let len = chunk.len() as u64;
                    let Some(rest) = left.checked_sub(len) else {
                        return Next::Broken(wrong_length("longer", len - *left));
                    };
                    *left = rest;
                }
                *piece = chunk;
                Next::Data
            }
            Poll::Ready(Ok(None)) if let Some(left @ 1..) = *left => {
                Next::Broken(wrong_length("shorter", left))
            }
            Poll::Ready(Ok(None)) => Next::End(body.trailers().cloned()),
            Poll::Ready(Err(error)) => Next::Broken(error),
        }
    }

    /// Takes a part of the request's body. Returns false if nobody reads that.
    pub(super) fn received(&mut self, data: &[u8], end: bool, now: Instant, limits: &Limits) -> bool {
        self.timers.count(now);
        self.timers.received(data.len(), limits);
        self.exchange.received(data.len());
        self.upload.as_mut().is_some_and(|upload| upload.received(data, end))
    }

    /// Brings the reader of the request's body what it asks for, as far as that has come. Returns whether there was
    /// anything.
    fn feed(&mut self, id: StreamId, cx: &mut Context<'_>, engine: &mut Engine, output: &mut Output) -> bool {
        let Some(upload) = &mut self.upload else { return false };
        let moved = upload.advance(cx);
        if moved.bytes > 0 {
            engine.consumed(id, moved.bytes, output.buffer());
        }
        if moved.discarded > 0 {
            engine.discarded(id, moved.discarded, output.buffer());
        }
        if moved.ask {
            // Once its response has begun a stream asks for nothing. Its peer sends without that.
            let _ = engine.inform(id, StatusCode::CONTINUE, &Headers::new(), output.buffer());
        }
        moved.any
    }
}

impl Session {
    /// Sends the head of a response, and begins with its body. Returns the stage that the stream is in then.
    pub(super) fn respond(
        parts: &mut Parts<'_>,
        id: StreamId,
        response: &mut Response,
        is_head: bool,
        endpoint: Option<EndpointId>,
        exchange: &mut Tracked,
    ) -> Stage {
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            let refusal = parts.service.dispatch.refuse(endpoint, 101, "HTTP/2 has no upgrade", None);
            parts.service.dispatch.replace(endpoint, response, refusal);
        }
        let mut sent = Self::send_head(parts, id, response, is_head);
        if let Err(error @ Unsent::TooLarge { .. }) = sent {
            let (status, cause) = (response.status.as_u16(), error.to_string());
            let refusal = parts.service.dispatch.refuse(endpoint, status, &cause, None);
            parts.service.dispatch.replace(endpoint, response, refusal);
            sent = Self::send_head(parts, id, response, is_head);
        }
        match sent {
            Ok(false) => Self::begin_body(parts, id, response, exchange),
            Ok(true) => {
                if exchange.is_some() {
                    exchange.responds(response, false);
                }
                Stage::Done
            }
            Err(_) => {
                exchange.ends(ExchangeEnd::Failed);
                // A peer that takes not even that.
                parts.engine.reset(id, Code::INTERNAL_ERROR, parts.output.buffer());
                Stage::Done
            }
        }
    }

    /// Sends the head of a response. Returns whether that is all of it.
    #[inline]
    fn send_head(
        parts: &mut Parts<'_>,
        id: StreamId,
        response: &Response,
        is_head: bool,
    ) -> Result<bool, Unsent> {
        let status = response.status;
        let has_no_body = forbids_body(status) || status == StatusCode::RESET_CONTENT;
        let length = if has_no_body {
            response.body.stated_length().filter(|_| status == StatusCode::NOT_MODIFIED)
        } else if response.body.is_withheld() {
            // An unknown length is not stated. 0 would be wrong (RFC 9110 section 8.6).
            response.body.stated_length()
        } else {
            response.body.length()
        };
        // Of no bytes trailers may follow.
        let ends = is_head || has_no_body || response.body.as_full().is_some_and(Bytes::is_empty);
        let head = ResponseParts { status, headers: &response.headers, length, date: Some(parts.date) };
        parts.engine.respond(id, &head, ends, parts.output.buffer()).map(|()| ends)
    }

    /// Sends a body that fits behind its head, or begins with it. Returns the stage that the stream is in then.
    #[inline]
    fn begin_body(
        parts: &mut Parts<'_>,
        id: StreamId,
        response: &mut Response,
        exchange: &mut Tracked,
    ) -> Stage {
        if let Some(whole) = response.body.as_full()
            && parts.output.len() < OUTPUT_HIGH_WATER_BYTES
            && parts.engine.may_send_at_once(id, whole.len())
        {
            parts.engine.data_head(id, whole.len(), true, parts.output.buffer());
            if !parts.output.push_few(whole) {
                parts.output.push_bytes(whole.clone());
            }
            if exchange.is_some() {
                exchange.responds(response, true);
            }
            return Stage::Done;
        }
        exchange.responds(response, false);
        let left = response.body.length();
        match std::mem::take(&mut response.body).into_full() {
            Ok(piece) => Stage::Sending { piece, rest: None, left: None },
            Err(body) => Stage::Sending { piece: Bytes::new(), rest: Some(body), left },
        }
    }

    /// Polls the handler of a stream, and brings it what it asks for of its request's body.
    pub(super) fn poll_stream(&mut self, id: StreamId, now: Instant, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // A handler that waits for its peer does not answer for those that ran before it in this poll.
        stream.timers.count(if stream.timers.waits_for_body() { precise() } else { now });
        self.changed.push(id);
        let waker = stream.waker.clone();
        let cx = &mut Context::from_waker(&waker);
        loop {
            let moved = stream.feed(id, cx, &mut self.engine, &mut self.output);
            match &mut stream.stage {
                Stage::Handling(run) => match run.poll(&mut stream.context, cx) {
                    Poll::Ready(mut response) => {
                        let parts = &mut Parts {
                            engine: &mut self.engine,
                            output: &mut self.output,
                            date: &self.date,
                            service,
                        };
                        let (is_head, endpoint) = (stream.is_head, stream.endpoint);
                        stream.stage =
                            Self::respond(parts, id, &mut response, is_head, endpoint, &mut stream.exchange);
                        service.dispatch.release(stream.endpoint, &mut response);
                    }
                    Poll::Pending if moved => {}
                    Poll::Pending => break,
                },
                Stage::Sending { .. } => {
                    let next = stream.next(id, &mut self.engine, &mut self.output, service);
                    return self.send(id, Bytes::new(), next, service);
                }
                Stage::Done => break,
            }
        }
        if matches!(stream.stage, Stage::Done) {
            self.finish(id, service);
        }
    }

    /// Goes on with a response that has begun.
    pub(super) fn go_on(&mut self, id: StreamId, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if matches!(stream.stage, Stage::Sending { .. }) {
            let next = stream.next(id, &mut self.engine, &mut self.output, service);
            self.send(id, Bytes::new(), next, service);
        }
    }

    /// Sends what is ready, as far as the windows and the output have room.
    pub(super) fn transmit(&mut self, now: Instant, service: &Service) {
        while self.output.len() < OUTPUT_HIGH_WATER_BYTES
            && let Some((id, room)) = self.engine.next_to_send()
        {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.engine.wants_to_send(id, false);
                continue;
            };
            stream.timers.count(now);
            self.changed.push(id);
            let piece = stream.take(room);
            stream.timers.wrote(piece.len(), &service.limits);
            // Looked at before, so that the last piece says that it is.
            let next = stream.next(id, &mut self.engine, &mut self.output, service);
            self.send(id, piece, next, service);
        }
    }

    /// Sends a piece of a response, which has its turn, and what follows unless that is data.
    fn send(&mut self, id: StreamId, piece: Bytes, next: Next, service: &Service) {
        let end = matches!(next, Next::End(None));
        if matches!(next, Next::Later | Next::End(Some(_))) {
            self.engine.wants_to_send(id, false);
        }
        if end || !piece.is_empty() {
            self.engine.data_head(id, piece.len(), end, self.output.buffer());
            self.output.push_bytes(piece);
        }
        match next {
            Next::Data => self.engine.wants_to_send(id, true),
            Next::Later => {}
            Next::End(trailers) => {
                if let Some(trailers) = trailers
                    && let Err(error) = self.engine.send_trailers(id, &trailers, self.output.buffer())
                {
                    return self.break_off(id, BodyError::failed(error), service);
                }
                self.finish(id, service);
            }
            Next::Broken(error) => self.break_off(id, error, service),
            Next::Panicked => self.drop_stream(id, Code::INTERNAL_ERROR, ExchangeEnd::Failed, service),
        }
    }

    /// Ends a stream whose response fails.
    fn break_off(&mut self, id: StreamId, error: BodyError, service: &Service) {
        let Some(stream) = self.streams.get(&id) else { return };
        // A response that is made of its request, such as an echo, fails with it: by the peer's fault. An upstream may be too
        // slow as well, so the error alone does not tell.
        let upload_failed = stream.upload.as_ref().is_some_and(Upload::is_aborted);
        let is_peers_fault = upload_failed && matches!(error, BodyError::Timeout);
        let code = if is_peers_fault { Code::CANCEL } else { Code::INTERNAL_ERROR };
        service.dispatch.body_failed(stream.endpoint, error);
        self.drop_stream(id, code, ExchangeEnd::Failed, service);
    }

    /// A stream whose response has left. The rest of its request is not wanted.
    pub(super) fn finish(&mut self, id: StreamId, service: &Service) {
        if let Some(mut stream) = self.streams.remove(&id) {
            self.free_context = stream.context.take().or(self.free_context.take());
            self.written_whole(stream.exchange.take());
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
        self.engine.reset(id, Code::NO_ERROR, self.output.buffer());
    }

    /// Ends a stream in the middle. What its handler's destructor does is contained.
    pub(super) fn drop_stream(&mut self, id: StreamId, code: Code, end: ExchangeEnd, service: &Service) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.exchange.ends(end);
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
        self.engine.reset(id, code, self.output.buffer());
    }
}

/// Output beyond this leaves before more of a body is produced.
pub(super) const OUTPUT_HIGH_WATER_BYTES: usize = 64 * 1024;

/// Output beyond this leaves before more is read: so many heads and acknowledgements a peer that reads does not leave there.
pub(super) const OUTPUT_LIMIT_BYTES: usize = 4 * OUTPUT_HIGH_WATER_BYTES;
