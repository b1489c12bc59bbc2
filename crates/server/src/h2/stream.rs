//! One stream: its handler, and its response on its way out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::h1::encode::forbids_body;
use anywire_http::h2::{Code, ResponseParts, StreamId, Unsent};
use anywire_http::{Body, BodyError, Headers, Response, StatusCode};
use anywire_loops::clock::precise;
use anywire_mux::{Http2, Next, Outgoing, Sent, Streams, Upgraded, send};
use bytes::Bytes;

use super::session::{Parts, Session};
use super::upload::Upload;
use crate::context::FreeContext;
use crate::dispatch::Run;
use crate::observe::{ExchangeEnd, Tracked};
use crate::refusal::{Refusal, RefusalKind};
use crate::router::EndpointId;
use crate::service::Service;
use crate::timers::Timers;
use crate::upgrade::{Continuation, Running};

/// A stream that is not answered yet, or not to its end.
pub(super) struct Stream {
    pub(super) stage: Stage,
    pub(super) upload: Option<Upload>,
    pub(super) context: Option<FreeContext>,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) asks: Asks,
    pub(super) exchange: Tracked,
    pub(super) waker: Waker,
    pub(super) timers: Timers,
    /// When the first of its deadlines passes.
    pub(super) deadline: Option<Instant>,
}

/// What a request asks for, as far as its response has to know.
pub(super) enum Asks {
    Message,
    /// A head without its body.
    Head,
    /// To go on in another protocol on this stream, of which this gives what comes (RFC 8441).
    Tunnel(Box<Body>),
    /// Nothing more: the stream has left HTTP.
    Left,
}

pub(super) enum Stage {
    /// Its handler runs.
    Handling(Run),
    /// Its response has a body.
    Sending(Outgoing<Body>),
    /// The stream has left HTTP: the handler's continuation, and what it sends.
    Tunnel(Running, Outgoing<Body>),
    /// All of its response was given to the engine.
    Done,
}

/// Why a response's body breaks off.
pub(super) enum Failure {
    Body(BodyError),
    /// Noted already.
    Panic,
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl Stream {
    /// Looks what follows. A body that has nothing may wait for more of its request, as an echo does.
    fn next(&mut self, id: StreamId, link: &mut Http2, service: &Service) -> Next<Failure> {
        loop {
            let next = self.poll_body(service);
            if !matches!(next, Next::Later) || self.upload.is_none() {
                return next;
            }
            let waker = self.waker.clone();
            if !self.feed(id, &mut Context::from_waker(&waker), link) {
                return next;
            }
        }
    }

    /// Asks the response's body for its next piece, unless there is some of the last one.
    fn poll_body(&mut self, service: &Service) -> Next<Failure> {
        let (Stage::Sending(body) | Stage::Tunnel(_, body)) = &mut self.stage else { return Next::Later };
        let cx = &mut Context::from_waker(&self.waker);
        let endpoint = self.endpoint;
        body.next(|body| {
            service.dispatch.begins(endpoint);
            let polled = catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx)));
            service.dispatch.ends();
            polled.map(|polled| polled.map_err(Failure::Body)).unwrap_or_else(|panic| {
                service.dispatch.note_panic(endpoint, panic);
                Poll::Ready(Err(Failure::Panic))
            })
        })
    }

    /// Takes a part of the request's body. Returns false if nobody reads that.
    pub(super) fn received(&mut self, data: &[u8], end: bool, now: Instant, service: &Service) -> bool {
        self.timers.count(now);
        self.timers.received(data.len(), service.limits_of(self.endpoint));
        self.exchange.received(data.len());
        self.upload.as_mut().is_some_and(|upload| upload.received(data, end))
    }

    /// Whether it has left HTTP, and its continuation goes on, or somebody to whom that has passed the stream reads on.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self.asks, Asks::Left)
            && (matches!(self.stage, Stage::Tunnel(..))
                || self.upload.as_ref().is_some_and(Upload::has_reader))
    }

    /// Brings the reader of the request's body what it asks for, as far as that has come. Returns whether there was
    /// anything.
    fn feed(&mut self, id: StreamId, cx: &mut Context<'_>, link: &mut Http2) -> bool {
        let Some(upload) = &mut self.upload else { return false };
        let moved = upload.advance(cx);
        if moved.bytes > 0 {
            link.consumed(id, moved.bytes);
        }
        if moved.discarded > 0 {
            link.discarded(id, moved.discarded);
        }
        if moved.ask {
            // Once its response has begun a stream asks for nothing. Its peer sends without that.
            let _ = link.inform(id, StatusCode::CONTINUE, &Headers::new());
        }
        moved.any
    }
}

/// Sends the interim responses of a handler. Returns whether there were any.
pub(super) fn inform(run: &Run, id: StreamId, cx: &Context<'_>, link: &mut Http2) -> bool {
    let mut any = false;
    while let Some((status, headers)) = run.interim(cx) {
        any = true;
        if let Err(error) = link.inform(id, status, &headers) {
            tracing::debug!(%error, "an interim response is not sent");
        }
    }
    any
}

impl Session {
    /// Sends the head of a response, and begins with its body. Returns the stage that the stream is in then.
    pub(super) fn respond(
        parts: &mut Parts<'_>,
        id: StreamId,
        response: &mut Response,
        asks: &mut Asks,
        endpoint: Option<EndpointId>,
        exchange: &mut Tracked,
    ) -> Stage {
        if exchange.is_some() {
            parts.service.dispatch.note_route(endpoint, exchange);
        }
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            let refusal = parts.service.dispatch.refuse(endpoint, 101, "HTTP/2 has no upgrade", None);
            parts.service.dispatch.replace(endpoint, response, refusal);
        }
        let mut tunnel = None;
        if matches!(asks, Asks::Tunnel(_)) && response.status.is_success() {
            tunnel = Continuation::take_from(response);
            if tunnel.is_none() {
                parts.service.counters.refused.increment();
                let (status, text) = (StatusCode::NOT_IMPLEMENTED, "this path speaks no other protocol");
                let refusal = Refusal::new(RefusalKind::NoProtocol, status, text);
                let refusal = parts.service.dispatch.word(endpoint, &refusal);
                parts.service.dispatch.replace(endpoint, response, refusal);
            }
        }
        let mut sent = Self::send_head(parts, id, response, asks);
        if let Err(error @ Unsent::TooLarge { .. }) = sent {
            let (status, cause) = (response.status.as_u16(), error.to_string());
            let refusal = parts.service.dispatch.refuse(endpoint, status, &cause, None);
            parts.service.dispatch.replace(endpoint, response, refusal);
            sent = Self::send_head(parts, id, response, asks);
            parts.service.dispatch.drop_contained(endpoint, tunnel.take());
        }
        match sent {
            Ok(false) => match (tunnel, &mut *asks) {
                (Some(continuation), Asks::Tunnel(incoming)) => {
                    exchange.responds(response, false);
                    parts.service.counters.upgrades.increment();
                    let (sender, outgoing) = Body::channel(parts.service.limits.body_in_flight_bytes);
                    let upgraded = Upgraded::of_stream(std::mem::take(incoming), sender);
                    *asks = Asks::Left;
                    Stage::Tunnel(continuation.run(upgraded), Outgoing::streamed(outgoing))
                }
                _ => Self::begin_body(parts, id, response, exchange),
            },
            Ok(true) => {
                if exchange.is_some() {
                    exchange.responds(response, false);
                }
                Stage::Done
            }
            Err(_) => {
                exchange.ends(ExchangeEnd::Failed);
                parts.service.dispatch.drop_contained(endpoint, tunnel);
                // A peer that takes not even that.
                parts.link.reset(id, Code::INTERNAL_ERROR);
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
        asks: &Asks,
    ) -> Result<bool, Unsent> {
        let status = response.status;
        let has_no_body = forbids_body(status) || status == StatusCode::RESET_CONTENT;
        let opens_tunnel = matches!(asks, Asks::Tunnel(_)) && status.is_success();
        let length = if opens_tunnel {
            None
        } else if has_no_body {
            response.body.stated_length().filter(|_| status == StatusCode::NOT_MODIFIED)
        } else if response.body.is_withheld() {
            // An unknown length is not stated. 0 would be wrong (RFC 9110 section 8.6).
            response.body.stated_length()
        } else {
            response.body.length()
        };
        // Of no bytes trailers may follow.
        let is_empty = has_no_body || response.body.as_full().is_some_and(Bytes::is_empty);
        let ends = matches!(asks, Asks::Head) || is_empty && !opens_tunnel;
        let head = ResponseParts { status, headers: &response.headers, length, date: Some(parts.date) };
        parts.link.respond(id, &head, ends).map(|()| ends)
    }

    /// Sends a body that fits behind its head, or begins with it. Returns the stage that the stream is in then.
    #[inline]
    fn begin_body(
        parts: &mut Parts<'_>,
        id: StreamId,
        response: &mut Response,
        exchange: &mut Tracked,
    ) -> Stage {
        if response.body.as_full().is_some_and(|whole| parts.link.send_at_once(id, whole)) {
            if exchange.is_some() {
                exchange.responds(response, true);
            }
            return Stage::Done;
        }
        if exchange.is_some() {
            exchange.responds(response, false);
        }
        Stage::Sending(match std::mem::take(&mut response.body).into_full() {
            Ok(whole) => Outgoing::whole(whole),
            Err(body) => Outgoing::streamed(body),
        })
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
            let moved = stream.feed(id, cx, &mut self.link);
            match &mut stream.stage {
                Stage::Handling(run) => {
                    let polled = run.poll(&mut stream.context, cx);
                    run.follow(&mut stream.endpoint, &mut stream.exchange);
                    match polled {
                        Poll::Ready(mut response) => {
                            let parts = &mut Parts { link: &mut self.link, date: &self.date, service };
                            let (asks, exchange) = (&mut stream.asks, &mut stream.exchange);
                            stream.stage =
                                Self::respond(parts, id, &mut response, asks, stream.endpoint, exchange);
                            service.dispatch.release(stream.endpoint, &mut response);
                        }
                        Poll::Pending if inform(run, id, cx, &mut self.link) || moved => {}
                        Poll::Pending => break,
                    }
                }
                Stage::Tunnel(running, outgoing) => {
                    service.dispatch.begins(stream.endpoint);
                    let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
                    service.dispatch.ends();
                    match polled {
                        Ok(Poll::Pending) if moved => {}
                        Ok(Poll::Pending) => return self.go_on(id, service),
                        Ok(Poll::Ready(())) => {
                            let outgoing = std::mem::replace(outgoing, Outgoing::whole(Bytes::new()));
                            let tunnel = std::mem::replace(&mut stream.stage, Stage::Sending(outgoing));
                            service.dispatch.drop_contained(stream.endpoint, tunnel);
                        }
                        Err(panic) => {
                            service.dispatch.note_panic(stream.endpoint, panic);
                            return self.drop_stream(id, Code::INTERNAL_ERROR, ExchangeEnd::Failed, service);
                        }
                    }
                }
                Stage::Sending(_) => return self.go_on(id, service),
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
        if matches!(stream.stage, Stage::Sending(_) | Stage::Tunnel(..)) {
            let next = stream.next(id, &mut self.link, service);
            self.send(id, Bytes::new(), next, service);
        }
    }

    /// Sends what is ready, as far as the windows and the output have room.
    pub(super) fn transmit(&mut self, now: Instant, service: &Service) {
        while self.link.has_room()
            && let Some((id, room)) = self.link.next_to_send()
        {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.link.wants_to_send(id, false);
                continue;
            };
            stream.timers.count(now);
            self.changed.push(id);
            let piece = match &mut stream.stage {
                Stage::Sending(body) | Stage::Tunnel(_, body) => body.take(room),
                _ => Bytes::new(),
            };
            stream.exchange.sent(piece.len());
            stream.timers.wrote(piece.len(), &service.limits);
            // Looked at before, so that the last piece says that it is.
            let next = stream.next(id, &mut self.link, service);
            self.send(id, piece, next, service);
        }
    }

    /// Sends a piece of a response, which has its turn, and what follows unless that is data.
    fn send(&mut self, id: StreamId, piece: Bytes, next: Next<Failure>, service: &Service) {
        match send(&mut self.link, id, piece, next) {
            Sent::Open => {}
            // Our direction alone has ended (RFC 8441 section 5).
            Sent::Ended if self.streams.get(&id).is_some_and(|stream| stream.is_tunnel()) => {}
            Sent::Ended => self.finish(id, service),
            Sent::Broken(Failure::Body(error)) => self.break_off(id, error, service),
            Sent::Broken(Failure::Panic) => {
                self.drop_stream(id, Code::INTERNAL_ERROR, ExchangeEnd::Failed, service);
            }
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
        self.link.reset(id, Code::NO_ERROR);
    }

    /// Ends a stream in the middle. What its handler's destructor does is contained.
    pub(super) fn drop_stream(&mut self, id: StreamId, code: Code, end: ExchangeEnd, service: &Service) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.exchange.ends(end);
            service.dispatch.drop_contained(stream.endpoint, stream);
        }
        self.link.reset(id, code);
    }
}
