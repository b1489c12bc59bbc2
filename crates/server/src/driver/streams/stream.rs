//! One stream: its request, its handler, and its response on its way out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::{Body, BodyError, Headers, StatusCode};
use anywire_mux::{Demand, Incoming, Next, Outgoing, Streams};

use crate::context::Peer;
use crate::dispatch::Invocation;
use crate::driver::timers::Timers;
use crate::driver::upload::Upload;
use crate::observe::Tracked;
use crate::request::RequestKind;
use crate::router::EndpointId;
use crate::service::Service;
use crate::upgrade::UpgradeFuture;

/// A stream that is not answered yet, or not to its end.
pub(crate) struct Stream {
    pub(super) stage: Stage,
    /// The reader of its request's body, unless the request has none.
    pub(super) upload: Option<Upload>,
    /// The received part of that body.
    pub(super) incoming: Incoming,
    /// The peer, once the request is dropped.
    pub(super) peer: Option<Arc<Peer>>,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) reply: Reply,
    pub(super) exchange: Tracked,
    pub(super) waker: Waker,
    pub(super) timers: Timers,
    /// When the first of its deadlines passes.
    pub(super) deadline: Option<Instant>,
    /// What [`Schedule::sent_bytes`](anywire_mux::Schedule) was when its peer's reading was last looked at.
    pub(super) counted_bytes: u32,
}

/// What the response to a request is like, and what a success leads to.
pub(super) enum Reply {
    Message,
    /// A head without its body.
    Head,
    /// A success goes on in another protocol on this stream, of which this gives what comes (RFC 8441).
    Tunnel(Box<Body>),
    /// It was that, and the stream has left HTTP.
    Left,
}

impl Reply {
    /// Of a request of this kind. What comes in a tunnel is no body of a request.
    pub(super) fn to(kind: RequestKind, body: &mut Option<Body>) -> Self {
        match kind {
            RequestKind::Message => Self::Message,
            RequestKind::Head => Self::Head,
            RequestKind::Connect | RequestKind::ExtendedConnect => {
                Self::Tunnel(Box::new(body.take().unwrap_or_default()))
            }
        }
    }

    pub(super) fn kind(&self) -> RequestKind {
        match self {
            Self::Message => RequestKind::Message,
            Self::Head => RequestKind::Head,
            Self::Tunnel(_) | Self::Left => RequestKind::Connect,
        }
    }
}

pub(super) enum Stage {
    /// Its handler runs.
    Handling(Invocation),
    /// Its response has a body.
    Sending(Outgoing<Body>),
    /// The stream has left HTTP: the handler's continuation, and what it sends.
    Tunnel(UpgradeFuture, Outgoing<Body>),
    /// All of its response was given to the engine.
    Done,
}

/// Why a response's body breaks off. `None` for a panic, which is noted already.
pub(super) type Failure = Option<BodyError>;

impl Stream {
    /// Its time begins with the first wait: handlers that ran before it in this poll may have taken long.
    pub(super) fn new(stage: Stage, reply: Reply, exchange: Tracked, waker: Waker) -> Self {
        let (incoming, timers) = Default::default();
        let (upload, peer, endpoint, deadline, counted_bytes) = Default::default();
        Self {
            stage,
            upload,
            incoming,
            peer,
            endpoint,
            reply,
            exchange,
            waker,
            timers,
            deadline,
            counted_bytes,
        }
    }

    /// The next step of the response's body. A body without data may wait for more of its request, as an echo does.
    pub(super) fn next<S: Streams>(&mut self, id: S::Id, link: &mut S, service: &Service) -> Next<Failure> {
        loop {
            let (Stage::Sending(body) | Stage::Tunnel(_, body)) = &mut self.stage else { return Next::Later };
            let next = next_of_body(body, self.endpoint, &self.waker, service);
            if !matches!(next, Next::Later) || self.upload.is_none() {
                return next;
            }
            let waker = self.waker.clone();
            if !self.feed(id, &mut Context::from_waker(&waker), link) {
                return next;
            }
        }
    }

    /// Takes a part of the request's body. Returns false if it has no reader.
    pub(crate) fn received(&mut self, data: &[u8], end: bool, now: Instant, service: &Service) -> bool {
        self.timers.count(now);
        self.timers.received(data.len(), service.limits_of(self.endpoint));
        self.exchange.received(data.len());
        let Some(upload) = &mut self.upload else { return false };
        // The peer sends the body, whether it was told to or not.
        upload.take_continue();
        self.incoming.push(if upload.has_reader() { data } else { &[] }, end);
        upload.has_reader()
    }

    /// Whether it has left HTTP and is in use: its continuation runs, or has passed it to a task that reads.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self.reply, Reply::Left)
            && (matches!(self.stage, Stage::Tunnel(..))
                || self.upload.as_ref().is_some_and(Upload::has_reader))
    }

    /// Gives the reader of the request's body the received part that it asks for. Returns whether the reader got anything.
    pub(super) fn feed<S: Streams>(&mut self, id: S::Id, cx: &mut Context<'_>, link: &mut S) -> bool {
        let Some(upload) = &mut self.upload else { return false };
        let mut moved = false;
        if let Some(reader) = upload.look() {
            let (taken, demand) = self.incoming.feed(reader, cx);
            moved = taken > 0 || matches!(demand, Demand::End | Demand::Lost);
            if taken > 0 {
                link.consumed(id, taken);
            }
            match demand {
                Demand::Nothing => {}
                Demand::Data => {
                    if upload.take_continue() {
                        // Once its response has begun, it is too late for a 100. The peer sends without one.
                        let _ = link.inform(id, StatusCode::CONTINUE, &Headers::new());
                    }
                    upload.lack_data();
                }
                Demand::End => upload.finish(self.incoming.take_trailers()),
                Demand::Lost => upload.abort(BodyError::Incomplete),
                Demand::Gone => upload.drop_reader(),
            }
        }
        if !upload.has_reader()
            && let discarded @ 1.. = self.incoming.clear()
        {
            link.discarded(id, discarded);
        }
        moved
    }
}

/// Asks a response's body for its next piece, unless there is some of the last one.
pub(super) fn next_of_body(
    body: &mut Outgoing<Body>,
    endpoint: Option<EndpointId>,
    waker: &Waker,
    service: &Service,
) -> Next<Failure> {
    let cx = &mut Context::from_waker(waker);
    body.next(|body| {
        service.dispatch.begins(endpoint);
        let polled = catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx)));
        service.dispatch.ends();
        polled.map(|polled| polled.map_err(Some)).unwrap_or_else(|panic| {
            service.dispatch.note_panic(endpoint, panic);
            Poll::Ready(Err(None))
        })
    })
}
