//! What stands for a request while it is an `http::Request`.

use std::sync::Arc;

use anywire_http::{Body, RequestHead};

use super::params::SentParams;
use super::{Parts, Request};
use crate::context::{Peer, RequestKey};
use crate::extract::StatesId;
use crate::router::EndpointId;

/// Stands for a request among the extensions of an `http::Request`. Cheap to clone, and free to go to any thread.
#[derive(Debug, Clone)]
pub(crate) struct Ticket(Arc<Stub>);

/// A request without head and body.
#[derive(Debug)]
struct Stub {
    key: RequestKey,
    endpoint: EndpointId,
    states: StatesId,
    params: Option<SentParams>,
}

impl Ticket {
    /// Whose request it is.
    pub(crate) fn peer(&self) -> &Peer {
        &self.0.key.peer
    }
}

impl Request {
    /// What has to travel with the head, so that the rest of the request is found again.
    pub(crate) fn ticket(&self) -> Ticket {
        let Parts { head, context } = &self.parts;
        Ticket(Arc::new(Stub {
            key: context.key(),
            endpoint: context.endpoint,
            states: context.states,
            params: context.params.to_sent(head.path()),
        }))
    }

    /// The request of this ticket with another head and body.
    pub(crate) fn of_ticket(ticket: &Ticket, head: RequestHead, body: Body) -> Self {
        let Stub { key, endpoint, states, params } = &*ticket.0;
        let mut request = Self::new(head, Some(body), *endpoint, key.arrival());
        if let Some(params) = params {
            request.context.params.set_sent(params);
        }
        request.see(Some(*states));
        request
    }
}
