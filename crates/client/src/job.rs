//! A call on its way: the request as the caller made it, then the submitted job with its deadlines and its caller.

use std::borrow::Borrow;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anywire_http::h1::Framing;
use anywire_http::h1::encode::{self, EncodeError};
use anywire_http::{Body, BodyError, Headers, Method, ResponseHead, Url, body};
use anywire_wire::{Address, Negotiated};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::proxy::{ProxyOfCall, Relay};
use crate::{Error, Response, Timeouts};

/// What the caller of a call gets.
pub(crate) type Reply = Result<Response, Error>;

/// The request of a caller. Boxed once: it moves from the caller to a connection as one word.
#[derive(Debug)]
pub(crate) struct CallRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Headers,
    pub(crate) body: Contained,
    /// Set if the call goes by another wire than the URL's.
    pub(crate) via: Option<Address>,
    pub(crate) proxy: ProxyOfCall,
    /// The proxy that reads the request, once it is with the pool whose connections lead there.
    pub(crate) relay: Option<Arc<Relay>>,
    pub(crate) read_timeout: Duration,
    pub(crate) stream_timeout: Duration,
    pub(crate) total_timeout: Duration,
    pub(crate) stream_total_timeout: Duration,
    /// Another's request, sent on by a proxy.
    pub(crate) is_forwarded: bool,
    /// The caller set a `connection` field, so the connection is closed after the response.
    pub(crate) last_on_connection: bool,
    /// It asks for the server as a whole, as `OPTIONS *`.
    pub(crate) of_server: bool,
    /// A response 101 is what the caller hopes for.
    pub(crate) upgrade: bool,
    /// The response, if it is known without a server.
    pub(crate) known_response: Option<Box<(ResponseHead, Body)>>,
}

impl CallRequest {
    pub(crate) fn new(method: Method, url: Url, timeouts: &Timeouts) -> Self {
        Self {
            method,
            url,
            headers: Headers::new(),
            body: Contained::default(),
            via: None,
            proxy: ProxyOfCall::OfClient,
            relay: None,
            read_timeout: timeouts.read,
            stream_timeout: timeouts.stream,
            total_timeout: timeouts.total,
            stream_total_timeout: timeouts.stream_total,
            is_forwarded: false,
            last_on_connection: false,
            of_server: false,
            upgrade: false,
            known_response: None,
        }
    }

    /// The target of the request, as the request line or `:path` has it.
    pub(crate) fn target(&self) -> &str {
        if self.of_server { "*" } else { self.url.path_and_query() }
    }

    /// Whether its `host` field, if it has one, can be sent: a bad one must not cost a connection later.
    pub(crate) fn check_host(&self) -> Result<(), EncodeError> {
        match self.headers.contains("host") {
            true => {
                encode::request_head(&mut Vec::new(), &self.method, "/", "", &self.headers, Framing::None)
            }
            false => Ok(()),
        }
    }

    pub(crate) fn origin(&self) -> String {
        self.url.origin().to_owned()
    }
}

/// A submitted call. It moves from a pool's queue to a connection, and back once if the connection turns out dead.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Box<CallRequest>,
    /// Taken when the response's head is handed out.
    pub(crate) reply: Option<oneshot::Sender<Reply>>,
    /// When it was submitted, or taken from the queue.
    pub(crate) at: Instant,
    pub(crate) total_until: Instant,
    /// When the last byte of a body that is handed out as a stream must have come, if that has a limit.
    pub(crate) stream_until: Option<Instant>,
    /// When it must have a connection, or be allowed to dial one.
    pub(crate) acquire_until: Instant,
    /// It was on a reused connection that had died, and goes out on a fresh one, once.
    pub(crate) resent: bool,
    /// Whether any byte of it was sent, on any connection that may have processed it.
    pub(crate) sent: bool,
    /// What the handshake of its connection has agreed on.
    pub(crate) negotiated: Option<Arc<Negotiated>>,
    /// How often a connection has ended or refused it before anything of it was processed.
    pub(crate) refusals: u8,
}

impl Job {
    /// Whether the caller still waits for the response's head.
    pub(crate) fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Whether it may be sent again after its connection was lost without a response: the peer cannot have seen it, or it is
    /// idempotent (RFC 9110 section 9.2.2, RFC 10008).
    pub(crate) fn may_resend(&self) -> bool {
        (!self.sent || self.request.method.is_idempotent()) && self.is_wanted()
    }

    /// Ends the call. A caller who is gone does not mind.
    pub(crate) fn fail(self, error: Error) {
        Delivery::Reply(self.reply, Err(error)).make();
    }
}

/// The last thing that a caller gets of a call. It is made when the connection has its next state, because the caller
/// may make the next call at once.
pub(crate) enum Delivery {
    Nothing,
    Reply(Option<oneshot::Sender<Reply>>, Reply),
    BodyEnds(body::Sender),
    BodyBreaks(body::Sender, BodyError),
}

impl Delivery {
    /// Hands it out. A caller who is gone does not mind.
    pub(crate) fn make(self) {
        match self {
            Self::Nothing | Self::Reply(None, _) => {}
            Self::Reply(Some(caller), reply) => {
                if let Err(unwanted) = caller.send(reply) {
                    // It may hold an error of the caller's body.
                    drop_caught(unwanted);
                }
            }
            Self::BodyEnds(sender) => sender.finish(),
            Self::BodyBreaks(sender, error) => sender.abort(error),
        }
    }
}

/// What the pool has to know of a connection.
pub(crate) enum Event {
    /// A call is over, and the connection has a slot for another one.
    SlotFree(Delivery),
    /// The connection has left HTTP, and is to be polled until it is closed.
    Upgraded(Delivery),
    /// The connection is over, and a call with it.
    Over(Delivery),
    /// The connection had died while it was idle, and its call goes out once more on another one.
    Resend(Job),
    /// The connection has not processed a call, which goes out once more.
    Again(Job),
    /// It has slots for calls, and had none before.
    Slots,
    /// The peer closed an idle connection, or sent bytes that no request asked for.
    Evicted,
    /// It was closed, or has been idle for too long.
    Closed,
}

/// A body of the caller's. Its panics end here, because it is polled and dropped by tasks that serve other calls, too.
#[derive(Debug, Default)]
pub(crate) struct Contained(Body);

impl<B: Into<Body>> From<B> for Contained {
    fn from(body: B) -> Self {
        Self(body.into())
    }
}

impl Borrow<Body> for Contained {
    fn borrow(&self) -> &Body {
        &self.0
    }
}

impl Contained {
    /// The body, to be looked at: only [`poll_chunk`](Self::poll_chunk) runs the caller's code.
    pub(crate) fn get(&self) -> &Body {
        &self.0
    }

    /// The same body with these bytes before it.
    pub(crate) fn preceded_by(mut self, bytes: Bytes) -> Self {
        Self(mem::take(&mut self.0).preceded_by(bytes))
    }

    /// The next piece. A panic is an error of the body, which must not be polled again.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        catch_unwind(AssertUnwindSafe(|| self.0.poll_chunk(cx))).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(without text)");
            let error = BodyError::failed(format!("it panicked: {text}"));
            drop_caught(payload);
            Poll::Ready(Err(error))
        })
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.0.as_full().is_some() {
            return;
        }
        drop_caught(mem::take(&mut self.0));
    }
}

/// Drops a value of the caller's. A panic of its destructor ends here.
#[cold]
pub(crate) fn drop_caught<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The destructor of a payload may panic as well.
        let _ = ManuallyDrop::new(payload);
    }
}
