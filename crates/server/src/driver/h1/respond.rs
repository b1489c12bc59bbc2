//! Responses on their way out: one head and one body, or a head and a stream.

use std::ops::ControlFlow::Continue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use anywire_http::h1::{Framing, HeadInfo, encode};
use anywire_http::{BodyError, RequestHead, Response, StatusCode, Version};

use super::session::{Closing, OUTPUT_HIGH_WATER_BYTES, Session, Stage, Step};
use crate::dispatch::Answer;
use crate::driver::connection::Env;
use crate::driver::delivery::{Delivery, refusal_of_body};
use crate::observe::ExchangeEnd;
use crate::refusal::{Refusal, RefusalKind};
use crate::request::RequestKind;
use crate::router::EndpointId;
use crate::service::{Ending, Service};
use crate::upgrade::Continuation;

/// What the response has to know of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSummary {
    /// The endpoint that responds; `None` for the connection itself.
    pub(super) endpoint: Option<EndpointId>,
    version: Version,
    pub(super) kind: RequestKind,
    pub(super) info: HeadInfo,
}

impl RequestSummary {
    /// For the response to bytes that are no request, or only the beginning of one.
    pub(super) const UNKNOWN: Self = Self {
        endpoint: None,
        version: Version::HTTP_11,
        kind: RequestKind::Message,
        info: HeadInfo { framing: Framing::None, keep_alive: false, expects_continue: false },
    };

    #[inline]
    pub(super) fn of(head: &RequestHead, info: HeadInfo) -> Self {
        Self { endpoint: None, version: head.version(), kind: RequestKind::of(head), info }
    }
}

impl Session {
    /// Writes the head of a response, and its body if it is whole. Takes the body and leaves the rest to the caller,
    /// because moving a response here would cost eight words.
    pub(super) fn respond(&mut self, response: &mut Response, service: &Service) {
        let request = self.request;
        let answers_head = request.kind == RequestKind::Head;
        // Behind a CONNECT may stand what somebody else wants to send through the tunnel: refused, it must not be read as requests (RFC 9931
        // section 8).
        let mut keep_alive = request.info.keep_alive
            && request.kind != RequestKind::Connect
            && self.closing == Closing::No
            && (service.ending() == Ending::No || self.has_next());
        if self.upload.is_some() {
            let reads_on = Delivery::of(response, request.kind).may_read_request();
            keep_alive &= self.can_keep_upload(reads_on, service);
        }
        let begins_at = self.output.end();
        let parts = encode::FramedHead {
            status: response.status,
            headers: &response.headers,
            framing: Framing::of_response(&response.body),
            stated_length: response.body.stated_length(),
            version: request.version,
            keep_alive,
            answers_head,
            date: Some(self.date.rendered()),
        };
        let commitment = encode::response_head(self.output.buffer(), &parts);
        debug_assert_eq!(
            !commitment.framing.is_empty(),
            Delivery::of(response, request.kind).has_content(),
            "the encoder frames what is delivered"
        );
        if !commitment.keep_alive {
            self.closing = Closing::Gracefully;
        }
        if self.exchange.is_some() {
            service.dispatch.note_route(self.request.endpoint, &mut self.exchange);
            self.exchange.responds(response, !commitment.framing.is_empty());
        }
        // Framing of nothing: a body that may not be sent, or an empty one.
        if !commitment.framing.is_empty()
            && !response.body.as_full().is_some_and(|whole| self.output.push_small(whole))
        {
            let body = std::mem::take(&mut response.body);
            match body.into_full() {
                Ok(whole) => self.output.push_bytes(whole),
                Err(body) => {
                    self.stage = Stage::Streaming { body, framing: commitment.framing };
                    self.begins_at = begins_at;
                    return;
                }
            }
        }
        self.end_response(service);
    }

    /// Writes the interim responses that the handler sends, as far as there is room. Returns whether there were any.
    pub(super) fn inform(&mut self, cx: &Context<'_>) -> bool {
        let Stage::Handling(run) = &self.stage else { return false };
        let mut any = false;
        while self.output.len() < OUTPUT_HIGH_WATER_BYTES
            && let Some((status, headers)) = run.interim(cx)
        {
            any = true;
            if self.request.version == Version::HTTP_11 {
                encode::interim(self.output.buffer(), status, &headers);
            }
        }
        any
    }

    /// Whether a pipelined request has arrived behind the current one, so that a shutdown does not end the connection yet. A peer
    /// that sends on and on does not prolong it: each response has to leave less than the one before, which ends at the
    /// latest when the buffer is filled again.
    #[cold]
    fn has_next(&mut self) -> bool {
        // Where a chunked body ends is not known.
        let body = self.decoder.body_left().and_then(|left| usize::try_from(left).ok());
        let behind = body.and_then(|body| self.input.data().get(body..)).unwrap_or_default();
        let blank_lines = behind.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let left = behind.len() - blank_lines;
        left > 0 && left < std::mem::replace(&mut self.behind, left)
    }

    /// Writes the response to the current request.
    #[inline]
    pub(super) fn answer(&mut self, answer: Answer<&mut Response>, service: &Service) {
        self.request.endpoint = answer.endpoint;
        match answer.continuation {
            None => self.respond(answer.response, service),
            Some(continuation) => self.switch(answer.response, continuation, service),
        }
    }

    /// Writes a 101, or the head that opens a tunnel. The connection goes to the handler's continuation once that has left.
    #[cold]
    fn switch(&mut self, response: &mut Response, continuation: Continuation, service: &Service) {
        let request = self.request;
        if self.upload.is_some() {
            // Its bytes would be taken for the other protocol.
            service.counters.refused.increment();
            let text = "an upgrade takes a body only if the handler reads it; send none";
            let refusal = Refusal::new(RefusalKind::UpgradeWithBody, StatusCode::BAD_REQUEST, text);
            let refusal = service.dispatch.word(request.endpoint, &refusal);
            service.dispatch.drop_contained(request.endpoint, continuation);
            service.dispatch.replace(request.endpoint, response, refusal);
            return self.respond(response, service);
        }
        let parts = encode::FramedHead {
            status: response.status,
            headers: &response.headers,
            framing: Framing::None,
            stated_length: None,
            version: request.version,
            // What follows is no message, and a tunnel has neither length nor coding (RFC 9110 section 9.3.6).
            keep_alive: true,
            answers_head: response.status.is_success(),
            date: Some(self.date.rendered()),
        };
        encode::response_head(self.output.buffer(), &parts);
        if self.exchange.is_some() {
            service.dispatch.note_route(request.endpoint, &mut self.exchange);
            self.exchange.responds(response, false);
            self.exchange.ends(ExchangeEnd::Upgraded);
        }
        self.stage = Stage::Switching(continuation);
        self.written_whole();
    }

    /// The response is written to its end.
    #[inline]
    fn written_whole(&mut self) {
        if self.exchange.is_some() {
            self.push_exchange();
        }
    }

    #[cold]
    fn push_exchange(&mut self) {
        self.written.push(self.output.end(), self.exchange.take());
    }

    /// The response is written to its end: the rest of the request's body is discarded.
    #[inline]
    fn end_response(&mut self, service: &Service) {
        self.written_whole();
        if self.upload.is_some() {
            self.discard_upload(service);
        }
    }

    // Out of line, as most requests have no body and what is around is inlined twice.
    #[inline(never)]
    fn discard_upload(&mut self, service: &Service) {
        self.upload = None;
        if self.closing == Closing::No {
            self.stage = Stage::Discarding(service.limits.drain_bytes);
        }
    }

    /// Moves a streaming body into the output, with back-pressure from the wire.
    pub(super) fn stream(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        loop {
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES && self.flush(cx, env)?.is_pending() {
                return Continue(Poll::Pending);
            }
            let Stage::Streaming { body, framing } = &mut self.stage else {
                return Continue(Poll::Ready(()));
            };
            env.service.dispatch.begins(self.request.endpoint);
            let polled = catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx)));
            env.service.dispatch.ends();
            let polled = match polled {
                Ok(polled) => polled,
                Err(panic) => {
                    env.service.dispatch.note_panic(self.request.endpoint, panic);
                    self.break_off(None, env);
                    return Continue(Poll::Ready(()));
                }
            };
            let Poll::Ready(chunk) = polled else {
                // A body that echoes the request needs more of the request's body.
                return match self.upload(cx, env)? {
                    Poll::Ready(true) => continue,
                    Poll::Ready(false) => self.watch(cx, env),
                    Poll::Pending => Continue(Poll::Pending),
                };
            };
            if let Ok(Some(chunk)) = &chunk {
                self.exchange.sent(chunk.len());
            }
            match chunk {
                Ok(Some(chunk)) if *framing == Framing::Chunked => {
                    encode::chunk_head(self.output.buffer(), chunk.len());
                    self.output.push_bytes(chunk);
                    encode::chunk_tail(self.output.buffer());
                }
                Ok(Some(chunk)) => self.output.push_bytes(chunk),
                Ok(None) => {
                    if *framing == Framing::Chunked {
                        encode::last_chunk(self.output.buffer(), body.trailers());
                    }
                    self.stage = Stage::Next;
                    self.end_response(env.service);
                    return Continue(Poll::Ready(()));
                }
                Err(error) => {
                    self.break_off(Some(error), env);
                    return Continue(Poll::Ready(()));
                }
            }
        }
    }

    /// Ends the current stage. The destructor of a body may panic.
    pub(crate) fn drop_stage(&mut self, service: &Service) {
        let stage = std::mem::replace(&mut self.stage, Stage::Next);
        service.dispatch.drop_contained(self.request.endpoint, stage);
    }

    /// Handles a response whose body broke off, by this error or by a panic. If the connection has taken none of it, a refusal
    /// replaces it. Otherwise the connection ends where the response broke off.
    #[cold]
    fn break_off(&mut self, error: Option<BodyError>, env: &Env<'_>) {
        let service = env.service;
        let Stage::Streaming { framing, .. } = self.stage else { return };
        let refusal = refusal_of_body(self.upload.as_ref(), error.as_ref());
        if let Some(error) = error {
            service.dispatch.body_failed(self.request.endpoint, error);
        }
        self.drop_stage(service);
        if !self.output.truncate(self.begins_at) {
            self.upload = None;
            // Without length or chunks, a plain close would make the part look whole.
            self.exchange.take().end_by(ExchangeEnd::Failed);
            let ends_with_close = framing == Framing::UntilClose;
            self.closing = if ends_with_close { Closing::ByReset } else { Closing::Gracefully };
            return;
        }
        let peer = env.connection.peer();
        let mut response = service.dispatch.word(self.request.endpoint, &refusal.of(Some(&peer)));
        self.respond(&mut response, service);
    }
}
