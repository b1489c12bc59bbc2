//! Responses: a head, and a body that follows at once or in turns.

use std::task::Context;

use anywire_http::h1::encode::forbids_body;
use anywire_http::h2::{Code, ResponseParts, Unsent};
use anywire_http::{Body, Response, StatusCode};
use anywire_mux::{Outgoing, Streams, Upgraded};
use bytes::Bytes;

use super::stream::{Reply, Stage};
use crate::dispatch::Invocation;
use crate::observe::{ExchangeEnd, Tracked};
use crate::refusal::{Refusal, RefusalKind};
use crate::router::EndpointId;
use crate::service::{Date, Service};
use crate::upgrade::{Continuation, unmark_tunnel};

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
        response: &mut Response,
        reply: &mut Reply,
        endpoint: Option<EndpointId>,
        exchange: &mut Tracked,
    ) -> Stage {
        self.service.dispatch.note_route(endpoint, exchange);
        if response.status == StatusCode::SWITCHING_PROTOCOLS && !unmark_tunnel(response) {
            let refusal = self.service.dispatch.refuse(endpoint, 101, "streams have no upgrade", None);
            self.service.dispatch.replace(endpoint, response, refusal);
        }
        let mut tunnel = None;
        if matches!(reply, Reply::Tunnel(_)) && response.status.is_success() {
            tunnel = Continuation::take_from(response);
            if tunnel.is_none() {
                self.service.counters.refused.increment();
                let (status, text) = (StatusCode::NOT_IMPLEMENTED, "this path speaks no other protocol");
                let refusal = Refusal::new(RefusalKind::NoProtocol, status, text);
                let refusal = self.service.dispatch.word(endpoint, &refusal);
                self.service.dispatch.replace(endpoint, response, refusal);
            }
        }
        let mut sent = self.send_head(id, response, reply);
        if let Err(error @ Unsent::TooLarge { .. }) = sent {
            let (status, cause) = (response.status.as_u16(), error.to_string());
            let refusal = self.service.dispatch.refuse(endpoint, status, &cause, None);
            self.service.dispatch.replace(endpoint, response, refusal);
            sent = self.send_head(id, response, reply);
            self.service.dispatch.drop_contained(endpoint, tunnel.take());
        }
        match sent {
            Ok(false) => match (tunnel, &mut *reply) {
                (Some(continuation), Reply::Tunnel(incoming)) => {
                    exchange.responds(response, false);
                    self.service.counters.upgrades.increment();
                    let (sender, outgoing) = Body::channel(self.service.limits.body_in_flight_bytes);
                    let upgraded = Upgraded::of_stream(std::mem::take(incoming), sender);
                    *reply = Reply::Left;
                    Stage::Tunnel(continuation.run(upgraded), Outgoing::streamed(outgoing))
                }
                _ => self.begin_body(id, response, exchange),
            },
            Ok(true) => {
                exchange.responds(response, false);
                Stage::Done
            }
            Err(_) => {
                exchange.ends(ExchangeEnd::Failed);
                self.service.dispatch.drop_contained(endpoint, tunnel);
                // A peer that takes not even that.
                self.link.reset(id, Code::INTERNAL_ERROR);
                Stage::Done
            }
        }
    }

    /// Sends the head of a response. Returns whether that is all of it.
    #[inline]
    fn send_head(&mut self, id: S::Id, response: &Response, reply: &Reply) -> Result<bool, Unsent> {
        let status = response.status;
        let has_no_body = forbids_body(status) || status == StatusCode::RESET_CONTENT;
        let opens_tunnel = matches!(reply, Reply::Tunnel(_)) && status.is_success();
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
        let ends = matches!(reply, Reply::Head) || is_empty && !opens_tunnel;
        let head = ResponseParts { status, headers: &response.headers, length, date: Some(self.date) };
        self.link.respond(id, &head, ends).map(|()| ends)
    }

    /// Sends a body that fits behind its head, or begins with it. Returns the stage that the stream is in then.
    #[inline]
    fn begin_body(&mut self, id: S::Id, response: &mut Response, exchange: &mut Tracked) -> Stage {
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
