//! A connection's HTTP/1 state: the decoder, and the call that is on it.

use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::h1::{Limits, ResponseDecoder};
use anywire_loops::clock::precise;
use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use super::exchange::Exchange;
use crate::context::LoopContext;
use crate::job::{Delivery, Job};

/// HTTP/1 on one connection. A request leaves when the response of the one before is complete.
pub(crate) struct Session {
    decoder: ResponseDecoder,
    exchange: Option<Exchange>,
    /// Whether it has carried a call to its end.
    used: bool,
}

/// How a call ended, for the connection.
pub(crate) enum Outcome {
    /// The response is complete. The connection may wait for its next call for `reuse`; none: it is to be closed.
    Complete { reuse: Option<Duration> },
    /// The response is a 101 that was asked for: the connection leaves HTTP, by [`Exchange::into_upgrade`].
    Upgrade,
    /// The connection is to be closed.
    Over(Delivery),
    /// The connection had died while it was idle: the call goes out once more, by [`Exchange::into_job`].
    Resend,
}

impl Session {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { decoder: ResponseDecoder::new(limits), exchange: None, used: false }
    }

    /// Calls that it can take now.
    pub(crate) fn slots(&self) -> usize {
        usize::from(self.exchange.is_none())
    }

    /// Takes a call, and encodes its request.
    pub(crate) fn start(&mut self, job: Job, host: &str, context: &LoopContext) {
        if self.used {
            context.cells.reused.add(1);
        }
        self.decoder.request_method(&job.request.method);
        self.exchange = Some(Exchange::new(job, host, self.used, context));
    }

    /// Sends at once what the wire takes of a request that is encoded whole. `false` if the connection's task has to
    /// run: a caller's body is polled by that task only, because a panic of the body ends the task that polls it.
    pub(crate) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        timer: &Deadline,
        context: &LoopContext,
    ) -> bool {
        let whole = self.exchange.as_mut().filter(|exchange| exchange.is_whole());
        whole.is_some_and(|exchange| {
            let now = exchange.polled_at();
            exchange.begin(cx, wire, timer, now, context)
        })
    }

    /// Carries the call on as far as it goes; ready when it is over. `cut` ends it.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        timer: &Deadline,
        context: &LoopContext,
        cut: bool,
    ) -> Poll<Outcome> {
        let Some(exchange) = self.exchange.as_mut() else { return Poll::Pending };
        if !exchange.has_begun() {
            exchange.begin(cx, wire, timer, precise(), context);
        }
        if cut {
            return Poll::Ready(exchange.cut());
        }
        exchange.poll(cx, wire, &mut self.decoder, timer, context)
    }

    /// The call that is on it, whose slot is free from here. Dropping it may run the caller's code.
    pub(crate) fn take(&mut self) -> Option<Exchange> {
        self.used = true;
        self.exchange.take()
    }
}
