//! A submitted call: its request with its deadlines and its caller.

use std::sync::Arc;
use std::time::Instant;

use anywire_http::{ResponseHead, StatusCode, body};
use anywire_loops::clock;
use anywire_wire::{DialLog, Negotiated};
use tokio::sync::oneshot;

use crate::Error;
use crate::call::attempt::{Reply, Unanswered};
use crate::call::request::CallRequest;
use crate::call::response::StreamState;
use crate::client::inner::Inner;
use crate::contained::drop_caught;
use crate::observe::Seen;
use crate::pool::context::LoopContext;

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
    /// The call may have a connection beyond its loop's share, because its caller is on that loop. Calls from outside take all loops in
    /// turn: connections that other loops have not opened yet are for the calls to come.
    pub(crate) may_borrow: bool,
    /// How many other loops may still take the call, if the pool of this loop has no room. Not 0 only while the calls of its origin gather
    /// on one loop.
    pub(crate) loops_left: usize,
    /// Its reused connection had died, so that it goes out once more: on a connection that has carried no call.
    pub(crate) needs_fresh_connection: bool,
    /// Whether any byte of the request was sent, on any connection that may have processed it.
    pub(crate) sent: bool,
    /// What the handshake of its connection has agreed on.
    pub(crate) negotiated: Option<Arc<Negotiated>>,
    /// How often a connection has ended or refused it before anything of it was processed.
    pub(crate) refusals: u8,
    /// Where calls share connections, it has one to itself: see [`CallRequest::needs_own_connection`].
    pub(crate) needs_own_connection: bool,
    /// What sees where its time goes and how it ends, if anything does.
    pub(crate) seen: Option<Box<Seen>>,
}

impl Job {
    /// What sees it, if anything does.
    #[inline]
    pub(crate) fn seen(&mut self) -> Option<&mut Seen> {
        self.seen.as_deref_mut()
    }

    /// Has the options that its origin has now, unless the call has some of its own: it may have been led there, or waits since before they
    /// were set. The wait for a connection has counted since `at`.
    pub(crate) fn come_under(&mut self, inner: &Inner) -> Result<(), Error> {
        let acquire = if inner.origins().is_used() {
            let config = inner.config_of(self.request.url.origin());
            self.request.come_under(&config)?;
            config.timeouts.acquire
        } else {
            inner.config().timeouts.acquire
        };
        self.acquire_until = clock::after(self.at, acquire);
        Ok(())
    }

    /// The call goes out once more, which counts as another attempt for what sees it.
    pub(crate) fn begin_anew(&mut self, context: &LoopContext) {
        if let Some(seen) = &mut self.seen {
            seen.begin_anew(&self.request, context, self.at);
        }
    }

    /// Notes that a dial which the call has waited for is over.
    #[inline]
    pub(crate) fn dialed(mut self, log: &DialLog) -> Self {
        if let Some(seen) = self.seen() {
            seen.dialed(log);
        }
        self
    }

    /// An interim response has come.
    pub(crate) fn informed(&mut self, head: &ResponseHead) {
        if let Some(seen) = self.seen() {
            seen.interim(head.status());
        }
        if let Some(hook) = &self.request.options.on_interim {
            hook.tell(head);
        }
    }

    /// There is no response, or not all of it.
    #[inline]
    pub(crate) fn failed(&mut self, error: &Error) {
        if let Some(seen) = self.seen() {
            seen.failed(error);
        }
    }

    /// Whether the caller still waits for the response's head.
    pub(crate) fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Whether it may be sent again after its connection was lost without a response: the peer cannot have seen it, or it is
    /// idempotent (RFC 9110 section 9.2.2, RFC 10008).
    pub(crate) fn may_resend(&self) -> bool {
        (!self.sent || self.request.is_idempotent()) && self.is_wanted()
    }

    /// Ends the call. A caller who is gone does not mind.
    pub(crate) fn fail(self, error: Error) {
        self.into_failure(error).deliver();
    }

    /// Ends the call for good.
    pub(crate) fn give_up(mut self, error: Error) {
        self.failed(&error);
        Outcome::Reply(self.reply, Err(error.into())).deliver();
    }

    /// The end of the call, whose caller gets the request back.
    pub(crate) fn into_failure(mut self, error: Error) -> Outcome {
        self.failed(&error);
        let request = Some(self.request);
        Outcome::Reply(self.reply, Err(Box::new(Unanswered { error, request, requests: 0 })))
    }
}

/// What has become of a call. Its caller is told once the connection has its next state, because the caller may make the next
/// call at once.
pub(crate) enum Outcome {
    /// Nobody waits: the caller has left, or there was no call.
    Nothing,
    Reply(Option<oneshot::Sender<Reply>>, Reply),
    /// Of a response with this status.
    BodyEnds(body::Sender, StatusCode),
    BodyBreaks(body::Sender, Error),
    /// The peer has not processed it, and it goes out once more.
    Resubmit(Job),
}

impl Outcome {
    /// Tells the caller. One who is gone does not mind. Gives back a call that goes out once more.
    pub(crate) fn deliver(self) -> Option<Job> {
        match self {
            Self::Nothing | Self::Reply(None, _) => {}
            Self::Reply(Some(caller), reply) => {
                if let Err(unwanted) = caller.send(reply) {
                    // It may hold an error of the caller's body.
                    drop_caught(unwanted);
                }
            }
            Self::BodyEnds(sender, _) => sender.finish(),
            Self::BodyBreaks(sender, error) => sender.abort(StreamState::body_error(error)),
            Self::Resubmit(job) => return Some(job),
        }
        None
    }
}

/// How often a call is sent again that was refused before it was processed. A peer that refuses for ever would otherwise
/// keep it going until its total deadline.
pub(crate) const REFUSALS_MAX: u8 = 32;
