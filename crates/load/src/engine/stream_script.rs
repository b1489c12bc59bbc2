//! What a connection of HTTP/2 has beside its session if it sends a script: its users, and each answer as it is looked at.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Context;
use std::time::Instant;

use anywire_http::h2::{Refused, StreamId};
use anywire_http::{Headers, StatusCode};
use anywire_mux::Http2;
use bytes::Bytes;

use crate::engine::scripted::{Events, Fault, Reception, Wake};
use crate::engine::tally::Tally;
use crate::request::StreamRequest;
use crate::script::{Feed, Sent, Users};

/// The users of a connection that sends a script.
pub(crate) struct StreamScript {
    feed: Rc<RefCell<Feed>>,
    users: Users,
    /// Events of bodies are timed.
    has_events: bool,
    wake: Wake,
}

/// A request of a script that is on its way.
pub(crate) struct StreamCall {
    sent: Sent,
    reception: Reception,
}

impl StreamCall {
    /// When something of an answer with events came last.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        self.reception.heard_at
    }
}

impl StreamScript {
    /// The part of a new connection; `None` if the plan has no script.
    pub(crate) fn new(tally: &Tally) -> Option<Self> {
        Some(Self {
            feed: Rc::clone(tally.feed.as_ref()?),
            users: Users::new(tally.plan.depth),
            has_events: tally.plan.events,
            wake: Wake::new(),
        })
    }

    /// How many users may send now.
    pub(crate) fn ready(&mut self, now: Instant) -> usize {
        self.users.ready(now)
    }

    /// Opens a stream for the request of the next user. Gives its body.
    pub(crate) fn open(
        &mut self,
        request: &StreamRequest,
        link: &mut Http2,
    ) -> Result<(StreamId, Bytes, StreamCall), Refused> {
        let mut feed = self.feed.borrow_mut();
        let sent = self.users.next(&mut feed).expect("no more are drawn than users may send");
        let body = feed.body(&mut self.users, sent);
        let head = feed.head(&mut self.users, sent);
        let parts = request.parts_of(&head, &body);
        let id = link.engine.open_parts(&parts, body.is_empty(), link.output.buffer())?;
        Ok((id, body, StreamCall { sent, reception: Reception::default() }))
    }

    /// The head of an answer has come.
    pub(crate) fn head(&mut self, call: &mut StreamCall, headers: &Headers) {
        let StreamCall { sent, reception } = call;
        let mut feed = self.feed.borrow_mut();
        self.users.head(*sent, || headers.get_all("set-cookie"), &mut feed);
        reception.head(&feed.request(*sent).checks, self.has_events, |name| headers.get_bytes(name));
    }

    /// A piece of the body of an answer has come. Gives the events that end in it.
    pub(crate) fn data(&self, call: Option<&mut StreamCall>, data: &[u8], now: Instant) -> Option<Events> {
        let StreamCall { sent, reception } = call?;
        reception.data(&self.feed.borrow().request(*sent).checks, data, now)
    }

    /// The answer is whole. Gives the number of its request, and what is wrong with it.
    pub(crate) fn answered(
        &mut self,
        call: StreamCall,
        status: StatusCode,
        body_bytes: u64,
        now: Instant,
    ) -> (usize, Option<Fault>) {
        let StreamCall { sent, reception } = call;
        let feed = self.feed.borrow();
        let verdict = reception.end(&feed.request(sent).checks, status, body_bytes);
        self.users.answered(sent, verdict.values, &feed, now);
        (sent.request, verdict.fault)
    }

    /// No answer comes.
    pub(crate) fn lost(&mut self, call: &StreamCall) {
        self.users.lost(call.sent);
    }

    /// Whether a user that has waited may send now; else the task is woken when one may.
    pub(crate) fn poll_wake(&self, context: &mut Context<'_>) -> bool {
        self.wake.poll(self.users.next_ready(), context)
    }
}
