//! What comes out of a run: a response that its connection can send, and what its driver has to know beside it.

use std::hint::cold_path;
use std::sync::Arc;

use anywire_http::message::forbids_body;
use anywire_http::{Body, Response, StatusCode};
use anywire_wire::Address;
use bytes::Bytes;

use super::Dispatch;
use crate::context::Peer;
use crate::refusal::{Refusal, RefusalKind};
use crate::request::RequestKind;
use crate::router::EndpointId;
use crate::upgrade::Continuation;

/// The response to a request. `R` is a reference to it where it would cost to move it.
pub(crate) struct Answer<R = Response> {
    pub(crate) response: R,
    /// The endpoint that responds; `None` for the connection itself.
    pub(crate) endpoint: Option<EndpointId>,
    /// What its connection, or its stream, goes on with once the head has left. HTTP ends there.
    pub(crate) continuation: Option<Continuation>,
}

impl<R> Answer<R> {
    /// One that stays with HTTP.
    pub(crate) fn message(response: R, endpoint: Option<EndpointId>) -> Self {
        Self { response, endpoint, continuation: None }
    }
}

impl Answer {
    /// The same with a reference to the response.
    pub(crate) fn by_ref(&mut self) -> Answer<&mut Response> {
        let Self { response, endpoint, continuation } = self;
        Answer { response, endpoint: *endpoint, continuation: continuation.take() }
    }
}

impl Dispatch {
    /// Looks at a response before it is sent. Returns what its connection goes on with, if it leaves HTTP.
    #[inline]
    pub(super) fn vet(
        &self,
        endpoint: EndpointId,
        response: &mut Response,
        kind: RequestKind,
        peer: Option<&Arc<Peer>>,
    ) -> Option<Continuation> {
        if kind == RequestKind::Message && response.is_plain() && !response.status.is_informational() {
            return None;
        }
        cold_path();
        self.vet_other(endpoint, response, kind, peer.map(|peer| &peer.address))
    }

    /// Replaces a response that would break its connection, and logs one with a cause.
    #[cold]
    fn vet_other(
        &self,
        endpoint: EndpointId,
        response: &mut Response,
        kind: RequestKind,
        peer: Option<&Address>,
    ) -> Option<Continuation> {
        // A maker of the answer to HEAD may state the length of what GET gets beside no body, as with other servers.
        if kind == RequestKind::Head
            && response.body.as_full().is_some_and(Bytes::is_empty)
            && let Some(length) = response.headers.stated_length()
        {
            response.body = Body::withheld(Some(length));
        }
        let status = response.status.as_u16();
        if let Some(cause) = unsendable(response, kind) {
            let refusal = self.refuse(Some(endpoint), status, &cause, peer);
            self.replace(Some(endpoint), response, refusal);
            return None;
        }
        if let Some(cause) = response.cause() {
            let (method, route) = self.name(Some(endpoint));
            if status >= 500 {
                self.counters.failures.increment();
                tracing::error!(method, route, status, cause, "a handler failed");
            } else {
                self.counters.refused.increment();
                tracing::debug!(method, route, status, cause, "a request was refused");
            }
        }
        if !kind.leaves_http(response.status) {
            return None;
        }
        let continuation = Continuation::take_from(response);
        if continuation.is_none() {
            // An extended CONNECT that no handler has accepted: the 2xx would promise the other protocol.
            self.counters.refused.increment();
            let (status, text) = (StatusCode::NOT_IMPLEMENTED, "this path speaks no other protocol");
            let refusal = Refusal::new(RefusalKind::NoProtocol, status, text);
            let refusal = self.word(Some(endpoint), &refusal.of(peer));
            self.replace(Some(endpoint), response, refusal);
        }
        continuation
    }
}

/// Why a response would break its connection, if it would.
fn unsendable(response: &Response, kind: RequestKind) -> Option<String> {
    let status = response.status;
    let leaves_http = kind.leaves_http(status) && Continuation::is_in(response);
    if kind == RequestKind::Connect && status.is_success() && !leaves_http {
        return Some(format!(
            "the status {status} to CONNECT would promise a tunnel; send 4xx or 5xx, or accept a `Tunnel`"
        ));
    }
    if let Some(fault) = response.fault() {
        return Some(fault.to_string());
    }
    if status.is_informational() && !leaves_http {
        let code = status.as_u16();
        return Some(format!(
            "the status {code} ends no request; send 2xx to 5xx, or 101 by accepting an `Upgrade`"
        ));
    }
    let follows = kind != RequestKind::Head && !forbids_body(status);
    (follows && response.body.is_withheld())
        .then(|| "the body is withheld; that is for answers to HEAD and for 304, so send the body".to_owned())
}
