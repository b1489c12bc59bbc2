//! Responses: a head, and a body that follows at once or in turns.

use std::task::{Context, Waker};

use anywire_http::h2::{Code, ResponseParts, Unsent};
use anywire_http::{Body, Response, StatusCode};
use anywire_mux::{Next, Outgoing, Streams, Upgraded};

use super::stream::{Reply, Stage, next_of_body};
use crate::dispatch::{Answer, Invocation};
use crate::driver::delivery::{Delivery, Follows, refusal_of_body};
use crate::driver::upload::Upload;
use crate::observe::{ExchangeEnd, Tracked};
use crate::router::EndpointId;
use crate::service::{Date, Service};

/// What is needed to respond.
pub(super) struct Responder<'s, S> {
    pub(super) link: &'s mut S,
    pub(super) date: &'s Date,
    pub(super) service: &'s Service,
}

/// Sends the interim responses of a handler. Returns whether there were any.
pub(super) fn inform<S: Streams>(invocation: &Invocation, id: S::Id, cx: &Context<'_>, link: &mut S) -> bool {
    let mut any = false;
    while let Some((status, headers)) = invocation.interim(cx) {
        any = true;
        if let Err(error) = link.inform(id, status, &headers) {
            tracing::debug!(%error, "an interim response is not sent");
        }
    }
    any
}

impl<S: Streams> Responder<'_, S> {
    /// Sends the head of a response, and begins with its body. Returns the stage that the stream is in then.
    pub(super) fn respond(
        &mut self,
        id: S::Id,
        answer: Answer<&mut Response>,
        reply: &mut Reply,
        upload: Option<&Upload>,
        exchange: &mut Tracked,
        waker: &Waker,
    ) -> Stage {
        let Answer { response, endpoint, continuation: mut tunnel } = answer;
        let (service, kind) = (self.service, reply.kind());
        service.dispatch.note_route(endpoint, exchange);
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            let refusal = service.dispatch.refuse(endpoint, 101, "streams have no upgrade", None);
            service.dispatch.replace(endpoint, response, refusal);
            service.dispatch.drop_contained(endpoint, tunnel.take());
        }
        let mut delivery = if tunnel.is_some() { Delivery::TUNNEL } else { Delivery::of(response, kind) };
        let mut stream = None;
        if tunnel.is_none() && delivery.follows == Follows::Stream {
            stream = self.begin_stream(response, endpoint, upload, waker);
            if stream.is_none() {
                delivery = Delivery::of(response, kind);
            }
        }
        let mut sent = self.send_head(id, response, delivery);
        if let Err(error @ Unsent::TooLarge { .. }) = sent {
            let (status, cause) = (response.status.as_u16(), error.to_string());
            let refusal = service.dispatch.refuse(endpoint, status, &cause, None);
            service.dispatch.replace(endpoint, response, refusal);
            service.dispatch.drop_contained(endpoint, tunnel.take());
            service.dispatch.drop_contained(endpoint, stream.take());
            delivery = Delivery::of(response, kind);
            sent = self.send_head(id, response, delivery);
        }
        if sent.is_err() {
            exchange.ends(ExchangeEnd::Failed);
            service.dispatch.drop_contained(endpoint, tunnel);
            service.dispatch.drop_contained(endpoint, stream);
            // A peer that takes not even that.
            self.link.reset(id, Code::INTERNAL_ERROR);
            return Stage::Done;
        }
        match (tunnel, &mut *reply, stream) {
            (Some(continuation), Reply::Tunnel(incoming), _) => {
                exchange.responds(response, false);
                service.counters.upgrades.increment();
                let (sender, outgoing) = Body::channel(service.limits.body_in_flight_bytes);
                let upgraded = Upgraded::of_stream(std::mem::take(incoming), sender);
                *reply = Reply::Left;
                Stage::Tunnel(continuation.run(upgraded), Outgoing::streamed(outgoing))
            }
            (_, _, Some(stream)) => {
                exchange.responds(response, false);
                Stage::Sending(stream)
            }
            _ if delivery.follows == Follows::Nothing => {
                exchange.responds(response, false);
                Stage::Done
            }
            _ => self.send_whole(id, response, exchange),
        }
    }

    /// Asks a body for its first piece before the head leaves, since HPACK takes no head back. One that fails at once is replaced,
    /// as over HTTP/1: `None`, and `response` is the refusal.
    fn begin_stream(
        &self,
        response: &mut Response,
        endpoint: Option<EndpointId>,
        upload: Option<&Upload>,
        waker: &Waker,
    ) -> Option<Outgoing<Body>> {
        let mut body = Outgoing::streamed(std::mem::take(&mut response.body));
        let Next::Broken(error) = next_of_body(&mut body, endpoint, waker, self.service) else {
            return Some(body);
        };
        let dispatch = &self.service.dispatch;
        let refusal = dispatch.word(endpoint, &refusal_of_body(upload, error.as_ref()));
        if let Some(error) = error {
            dispatch.body_failed(endpoint, error);
        }
        dispatch.drop_contained(endpoint, body);
        dispatch.replace(endpoint, response, refusal);
        None
    }

    /// Sends the head of a response, and the end if nothing follows.
    #[inline]
    fn send_head(&mut self, id: S::Id, response: &Response, delivery: Delivery) -> Result<(), Unsent> {
        let Delivery { length, follows } = delivery;
        let (status, headers) = (response.status, &response.headers);
        let head = ResponseParts { status, headers, length, date: Some(self.date) };
        self.link.respond(id, &head, follows == Follows::Nothing)
    }

    /// Sends a body behind its head if it fits, or begins with it. Returns the stage that the stream is in then.
    #[inline]
    fn send_whole(&mut self, id: S::Id, response: &mut Response, exchange: &mut Tracked) -> Stage {
        if response.body.as_full().is_some_and(|whole| self.link.send_at_once(id, whole)) {
            exchange.responds(response, true);
            return Stage::Done;
        }
        exchange.responds(response, false);
        Stage::Sending(match std::mem::take(&mut response.body).into_full() {
            Ok(whole) => Outgoing::whole(whole),
            Err(body) => Outgoing::streamed(body),
        })
    }
}
