//! One stream: its request, its handler, and its response on its way out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anywire_http::{Body, BodyError, Headers, StatusCode};
use anywire_mux::{Demand, Incoming, Next, Outgoing, Streams};

use crate::context::FreeContext;
use crate::dispatch::Invocation;
use crate::observe::Tracked;
use crate::router::EndpointId;
use crate::service::Service;
use crate::timers::Timers;
use crate::upgrade::Running;
use crate::upload::Upload;

/// A stream that is not answered yet, or not to its end.
pub(crate) struct Stream {
    pub(super) stage: Stage,
    /// Where its request's body goes, if that has not come with the head.
    pub(super) upload: Option<Upload>,
    /// What has come of that.
    pub(super) incoming: Incoming,
    pub(super) context: Option<FreeContext>,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) reply: Reply,
    pub(super) exchange: Tracked,
    pub(super) waker: Waker,
    pub(super) timers: Timers,
    /// When the first of its deadlines passes.
    pub(super) deadline: Option<Instant>,
}

/// What the response to a request is like.
pub(super) enum Reply {
    Message,
    /// A head without its body.
    Head,
    /// A success goes on in another protocol on this stream, of which this gives what comes (RFC 8441).
    Tunnel(Box<Body>),
    /// It was that, and the stream has left HTTP.
    Left,
}

pub(super) enum Stage {
    /// Its handler runs.
    Handling(Invocation),
    /// Its response has a body.
    Sending(Outgoing<Body>),
    /// The stream has left HTTP: the handler's continuation, and what it sends.
    Tunnel(Running, Outgoing<Body>),
    /// All of its response was given to the engine.
    Done,
}

/// Why a response's body breaks off. `None` for a panic, which is noted already.
pub(super) type Failure = Option<BodyError>;

impl Stream {
    /// Its time begins with the first wait: handlers that ran before it in this poll may have taken long.
    pub(super) fn new(stage: Stage, reply: Reply, exchange: Tracked, waker: Waker) -> Self {
        let (incoming, timers) = Default::default();
        let (upload, context, endpoint, deadline) = Default::default();
        Self { stage, upload, incoming, context, endpoint, reply, exchange, waker, timers, deadline }
    }

    /// Looks what follows. A body that has nothing may wait for more of its request, as an echo does.
    pub(super) fn next<S: Streams>(&mut self, id: S::Id, link: &mut S, service: &Service) -> Next<Failure> {
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
            polled.map(|polled| polled.map_err(Some)).unwrap_or_else(|panic| {
                service.dispatch.note_panic(endpoint, panic);
                Poll::Ready(Err(None))
            })
        })
    }

    /// Takes a part of the request's body. Returns false if nobody reads that.
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

    /// Whether it has left HTTP, and its continuation goes on, or somebody to whom that has passed the stream reads on.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self.reply, Reply::Left)
            && (matches!(self.stage, Stage::Tunnel(..))
                || self.upload.as_ref().is_some_and(Upload::has_reader))
    }

    /// Brings the reader of the request's body what it asks for, as far as that has come. Returns whether there was
    /// anything.
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
                        // Once its response has begun a stream asks for nothing. Its peer sends without that.
                        let _ = link.inform(id, StatusCode::CONTINUE, &Headers::new());
                    }
                    upload.lack_data();
                }
                Demand::End => upload.finish(self.incoming.take_trailers()),
                Demand::Lost => upload.abort(BodyError::Incomplete),
                Demand::Gone => upload.leave(),
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
