//! A submitted call: its request with its deadlines and its caller.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use anywire_http::{BodyError, ResponseHead, body};
use anywire_wire::{DialLog, Negotiated};
use tokio::sync::oneshot;

use crate::attempt::{Reply, Unanswered};
use crate::request::CallRequest;
use crate::{Error, Trace};

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
    /// What sees where its time goes, if anything does.
    #[inline]
    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.request.options.trace.as_ref()
    }

    /// The same, of which a dial that it has waited for is over.
    #[inline]
    pub(crate) fn dialed(self, log: &DialLog) -> Self {
        self.trace().inspect(|trace| trace.dialed(log));
        self
    }

    /// An interim response has come.
    pub(crate) fn informed(&self, head: &ResponseHead) {
        self.trace().inspect(|trace| trace.interim(head.status()));
        if let Some(hook) = &self.request.options.on_interim {
            hook.tell(head);
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
        self.into_failure(error).make();
    }

    /// Ends the call for good.
    pub(crate) fn give_up(self, error: Error) {
        self.trace().inspect(|trace| trace.failed(&error));
        Delivery::Reply(self.reply, Err(error.into())).make();
    }

    /// The end of the call, whose caller gets the request back.
    pub(crate) fn into_failure(self, error: Error) -> Delivery {
        self.trace().inspect(|trace| trace.failed(&error));
        let request = Some(self.request);
        Delivery::Reply(self.reply, Err(Box::new(Unanswered { error, request })))
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

/// Drops a value of the caller's. A panic of its destructor ends here.
#[cold]
pub(crate) fn drop_caught<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The destructor of a payload may panic as well.
        let _ = ManuallyDrop::new(payload);
    }
}
