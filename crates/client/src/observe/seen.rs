//! What goes with an attempt that something sees: its trace, its observers, the histograms of its origin.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_http::{Method, ResponseHead, StatusCode, Url};
use anywire_loops::clock::precise;
use anywire_wire::{Connection, DialLog};

use super::erased::{Open, Step};
use super::{Acquired, AttemptEnd, Begun, Ended};
use crate::call::request::CallRequest;
use crate::metrics::latencies::PhaseCells;
use crate::pool::context::LoopContext;
use crate::{Error, Phase, Trace};

/// Sees an attempt. A call has none if it has no trace, and its client neither measures nor has observers.
#[derive(Debug)]
pub(crate) struct Seen {
    trace: Option<Trace>,
    /// If its client measures or has observers.
    watched: Option<Watched>,
}

/// The attempt under way. Dropped before an end, its caller has left.
#[derive(Debug)]
struct Watched {
    observers: Open,
    /// The latencies of its origin on this loop.
    phases: Option<Arc<PhaseCells>>,
    method: Method,
    url: Url,
    begun: Instant,
    connection: Option<u64>,
    /// When the dial began that it has waited for.
    dial_begun: Option<Instant>,
    acquired: Option<Instant>,
    written: Option<Instant>,
    first_byte: Option<Instant>,
    head: Option<(StatusCode, Instant)>,
    received_bytes: u64,
    has_ended: bool,
}

impl Seen {
    /// For a request that is given to a loop.
    #[inline]
    pub(crate) fn of(request: &CallRequest, context: &LoopContext, now: Instant) -> Option<Box<Self>> {
        let is_watched = context.config().is_watched();
        if !is_watched && request.options.trace.is_none() {
            return None;
        }
        let is_retry = request.retry_of.is_some();
        let watched = is_watched.then(|| Watched::begin(request, is_retry, context, now));
        let seen = Self { trace: request.options.trace.clone(), watched };
        seen.trace.iter().for_each(|trace| trace.attempt(request, now));
        Some(Box::new(seen))
    }

    /// The call goes out once more, as another attempt.
    pub(crate) fn begin_anew(&mut self, request: &CallRequest, context: &LoopContext, now: Instant) {
        self.trace.iter().for_each(|trace| trace.attempt(request, now));
        if let Some(mut before) = self.watched.take() {
            before.end(AttemptEnd::SentAgain);
            self.watched = Some(Watched::begin(request, true, context, now));
            self.is_with(context);
        }
    }

    /// It is with the pool that has this context.
    pub(crate) fn is_with(&mut self, context: &LoopContext) {
        if let Some(watched) = &mut self.watched {
            watched.phases = context.phases().cloned();
        }
    }

    /// A dial is over which it has waited for.
    pub(crate) fn dialed(&mut self, log: &DialLog) {
        self.trace.iter().for_each(|trace| trace.dialed(log));
        if let Some(watched) = &mut self.watched {
            watched.dial_begun = Some(log.begun());
        }
    }

    /// It has a connection.
    pub(crate) fn acquired(&mut self, id: u64, wire: &Connection, is_http2: bool) {
        self.trace.iter().for_each(|trace| trace.acquired(id, wire, is_http2));
        if let Some(watched) = &mut self.watched {
            watched.acquired(id, wire, is_http2);
        }
    }

    /// The wire has taken the whole request.
    pub(crate) fn written(&mut self) {
        self.trace.iter().for_each(Trace::written);
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.written.is_none()) {
            let now = precise();
            watched.written = Some(now);
            watched.step(&Step::Written(watched.after(now)));
        }
    }

    /// The first byte of a response has come.
    pub(crate) fn first_byte(&mut self) {
        self.trace.iter().for_each(Trace::first_byte);
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.first_byte.is_none()) {
            let now = precise();
            watched.first_byte = Some(now);
            watched.step(&Step::FirstByte(watched.after(now)));
        }
    }

    /// An interim response has come.
    pub(crate) fn interim(&self, status: StatusCode) {
        self.trace.iter().for_each(|trace| trace.interim(status));
    }

    /// The head of the response has come.
    pub(crate) fn head(&mut self, head: &ResponseHead) {
        self.trace.iter().for_each(|trace| trace.head(head));
        if let Some(watched) = &mut self.watched {
            let now = precise();
            watched.head = Some((head.status(), now));
            watched.step(&Step::Head(head.status(), watched.after(now)));
        }
    }

    /// Bytes of the response's body have come.
    pub(crate) fn received(&mut self, bytes: usize) {
        if let Some(watched) = &mut self.watched {
            watched.received_bytes += bytes as u64;
        }
    }

    /// The response is whole.
    pub(crate) fn ended(&mut self) {
        self.trace.iter().for_each(Trace::ended);
        self.end(AttemptEnd::Complete);
    }

    /// The connection has left HTTP.
    pub(crate) fn upgraded(&mut self) {
        self.trace.iter().for_each(Trace::ended);
        self.end(AttemptEnd::Upgraded);
    }

    /// There is no response, or not all of it.
    #[cold]
    pub(crate) fn failed(&mut self, error: &Error) {
        self.trace.iter().for_each(|trace| trace.failed(error));
        self.end(AttemptEnd::Failed(error));
    }

    fn end(&mut self, end: AttemptEnd<'_>) {
        if let Some(watched) = &mut self.watched {
            watched.end(end);
        }
    }
}

impl Watched {
    fn begin(request: &CallRequest, is_retry: bool, context: &LoopContext, now: Instant) -> Self {
        let (method, url) = (request.method.clone(), request.url.clone());
        let begun = Begun { method: &method, url: &url, is_retry };
        Self {
            observers: context.config().observers.begin(&begun, &context.cells),
            phases: None,
            method,
            url,
            begun: now,
            connection: None,
            dial_begun: None,
            acquired: None,
            written: None,
            first_byte: None,
            head: None,
            received_bytes: 0,
            has_ended: false,
        }
    }

    fn acquired(&mut self, id: u64, wire: &Connection, is_http2: bool) {
        let now = precise();
        self.acquired = Some(now);
        self.connection = Some(id);
        if self.observers.is_empty() {
            return;
        }
        let (is_reused, after) = (self.dial_begun.is_none(), self.after(now));
        let acquired = Acquired { connection: id, peer: &wire.peer(), is_reused, is_http2, after };
        self.observers.step(&Step::Acquired(acquired));
    }

    fn step(&mut self, step: &Step<'_>) {
        self.observers.step(step);
    }

    fn after(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    fn end(&mut self, end: AttemptEnd<'_>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let now = precise();
        self.measure(Some(now).filter(|_| matches!(end, AttemptEnd::Complete)));
        let after = |at: Option<Instant>| at.map(|at| self.after(at));
        let (acquired_after, written_after) = (after(self.acquired), after(self.written));
        let (first_byte_after, head_after) = (after(self.first_byte), after(self.head.map(|(_, at)| at)));
        let duration = self.after(now);
        self.observers.end(&Ended {
            method: &self.method,
            url: &self.url,
            connection: self.connection,
            status: self.head.map(|(status, _)| status),
            received_bytes: self.received_bytes,
            acquired_after,
            written_after,
            first_byte_after,
            head_after,
            duration,
            end,
        });
    }

    /// Records the phases that it has been through. The phases of the dial that it has waited for are recorded once for all who have.
    fn measure(&self, complete: Option<Instant>) {
        let Some(phases) = &self.phases else { return };
        let spans = [
            (Phase::Acquire, Some(self.begun), self.dial_begun.or(self.acquired)),
            (Phase::Write, self.acquired, self.written),
            (Phase::Read, self.written, self.first_byte),
            (Phase::Body, self.head.map(|(_, at)| at), complete),
            (Phase::Total, Some(self.begun), complete),
        ];
        for (phase, from, until) in spans {
            if let Some((from, until)) = from.zip(until) {
                // A response may come before its request is sent whole, and a dial may have begun for another call.
                phases.record(phase, until.saturating_duration_since(from));
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end(AttemptEnd::Abandoned);
    }
}
