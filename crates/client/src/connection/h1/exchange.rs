//! One request and its response: a state machine that is polled by the connection's task.
//!
//! Sending and receiving go on side by side. A response may come before the request is sent whole, and an error in
//! sending does not hide a response that the peer sent before it closed. Bodies have back-pressure both ways: the
//! request's is polled only while little of it waits to leave, the response's is read only when its reader asks.

use std::io;
use std::mem;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anywire_http::h1::{Framing, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, ResponseHead, StatusCode};
use anywire_loops::clock::{self, precise};
use anywire_loops::deadline::Deadline;
use anywire_wire::{Connection, Output};
use tokio::sync::oneshot;

use super::upload::Upload;
use crate::call::job::{Job, Outcome};
use crate::call::request::{CallRequest, Last};
use crate::connection::budget::poll_truly;
use crate::connection::download::{Download, Pieces};
use crate::connection::io::Io;
use crate::connection::turn::{Calls, turn};
use crate::connection::watchdog::{Overdue, WaitsFor, Watchdog};
use crate::pool::context::LoopContext;
use crate::{Error, Phase};

/// A call on a connection.
pub(crate) struct Exchange {
    pub(super) job: Job,
    stage: Stage,
    /// The connection has carried a request before, and the body can be sent twice. So the call may go out once more
    /// if the connection turns out dead. The second time it is on a fresh one.
    replayable: bool,
    output: Output,
    upload: Upload,
    /// Held from the first byte of the response to the last.
    pub(super) input: Option<Buffer>,
    pub(super) download: Download,
    /// Interim responses so far.
    interim: usize,
    /// Bytes of the response's body that are still to come, if its framing says so.
    body_left: Option<u64>,
    /// For how long the connection may wait for its next call; none if it may not be used again.
    pub(super) reuse: Option<Duration>,
    watchdog: Watchdog,
}

/// How a call ends.
pub(super) enum End {
    /// The response is complete.
    Complete,
    /// The response is a 101 that was asked for: the connection leaves HTTP, and goes on as a [tunnel](crate::connection::tunnel).
    Upgrade,
    /// The connection is to be closed.
    Over(Outcome),
    /// The connection had died while it was idle, or the peer did not take the request: it goes out once more.
    Resend,
}

/// How far the exchange has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its output is filled and nothing is sent.
    Encoded,
    /// Sending has begun.
    Begun,
    /// The peer has sent a byte.
    Received,
}

impl Exchange {
    /// Encodes a request. `used`: the connection has carried another one before.
    pub(super) fn new(mut job: Job, host: &str, used: bool, context: &LoopContext) -> Self {
        let mut output = context.take_output();
        let upload = Upload::start(&mut job.request, host, &mut output);
        Self {
            stage: Stage::Encoded,
            replayable: used
                && (upload.is_done()
                    || (upload.awaits_continue() && job.request.body.get().as_full().is_some())),
            watchdog: Watchdog::new(&job.request),
            job,
            output,
            upload,
            input: None,
            download: Download::Awaited,
            interim: 0,
            body_left: None,
            reuse: None,
        }
    }

    /// Whether the whole request is encoded, so that sending it runs none of the caller's code.
    pub(super) fn is_whole(&self) -> bool {
        self.upload.is_done() || self.upload.awaits_continue()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Encoded
    }

    /// Sends what the wire takes at once, and arms what wakes the connection's task: the response, the deadline, the
    /// caller's leaving. `false` if that task has something to do at once.
    pub(super) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        timer: &Deadline,
        now: Instant,
        context: &LoopContext,
    ) -> bool {
        self.stage = Stage::Begun;
        // Asked only here: this is what wakes the task when the caller leaves.
        let reply = self.job.reply.as_mut();
        if reply.is_some_and(|reply| poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready()) {
            return false;
        }
        self.send(cx, wire, context);
        if self.upload.awaits_continue() {
            self.watchdog.await_continue(clock::after(now, context.config().timeouts.expect));
        }
        self.watch(now, timer, context);
        matches!(self.upload, Upload::Done | Upload::Body { .. } | Upload::AwaitsContinue { .. })
    }

    /// Goes on as far as it can; ready when the call is over.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        decoder: &mut ResponseDecoder,
        context: &LoopContext,
    ) -> Poll<End> {
        if self.job.reply.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return Poll::Ready(End::Over(Outcome::Nothing));
        }
        if self.upload.awaits_continue() && self.watchdog.is_continue_late(precise()) {
            self.send_body();
        }
        if (!self.upload.is_done() || !self.output.is_empty())
            && let Some(wire) = &mut io.wire
        {
            self.send(cx, wire, context);
        }
        if let Upload::Failed(_) = &self.upload
            && let Upload::Failed(source) = mem::replace(&mut self.upload, Upload::Done)
        {
            let (origin, sent) = (self.job.request.origin(), self.job.sent);
            return Poll::Ready(self.fail(Error::RequestBody { origin, source, sent }));
        }
        // Behind the sending, because that may have run the caller's code for long.
        io.polled_at = precise();
        let mut receiving = Receiving { exchange: self, decoder, end: None };
        if !turn(&mut receiving, cx, io, context) {
            cx.waker().wake_by_ref();
        }
        if let Some(end) = receiving.end {
            return Poll::Ready(end);
        }
        self.watch(io.polled_at, &io.timer, context);
        Poll::Pending
    }

    /// Ends the call because its client is closed.
    pub(super) fn cut(&mut self) -> End {
        self.fail(Error::Shutdown { sent: self.job.sent })
    }

    /// Sends a body that has waited for a 100. The task has to be polled again.
    fn send_body(&mut self) {
        self.watchdog.stop_awaiting_continue();
        self.upload.send_body(&mut self.job.request, &mut self.output);
    }

    /// The caller has left the response. Whether the rest is read from here, because that is cheaper than another connection.
    #[cold]
    fn drains(&mut self, context: &LoopContext) -> bool {
        let config = context.config();
        let bytes_max = config.limits.drain_bytes;
        let is_sent = self.upload.is_done() && self.output.is_empty();
        if self.reuse.is_none() || !is_sent || self.download.is_not_worth_draining() || bytes_max == 0 {
            return false;
        }
        if self.body_left.is_some_and(|left| left > bytes_max as u64) {
            context.cells.undrained.add(1);
            return false;
        }
        self.download.begin_draining(bytes_max);
        // Whatever sees the call is told that it was abandoned.
        self.job.seen = None;
        self.job.total_until = clock::after(precise(), config.timeouts.drain);
        self.watchdog.count_anew();
        true
    }

    fn fail(&mut self, error: Error) -> End {
        if self.download.is_drained() {
            return End::Over(Outcome::Nothing);
        }
        let has_begun = self.stage == Stage::Received;
        End::Over(self.download.fail(&mut self.job, error, has_begun))
    }

    fn send(&mut self, cx: &mut Context<'_>, wire: &mut Connection, context: &LoopContext) {
        let progress = self.upload.send(cx, wire, &mut self.output);
        if progress.is_any {
            context.sent(progress.bytes);
            self.job.sent = true;
            self.watchdog.peer_took();
        }
        if self.upload.is_done() && self.output.is_empty() {
            // Other calls use it while the response is awaited.
            context.keep_output(mem::take(&mut self.output));
            if let Some(seen) = self.job.seen() {
                seen.written();
            }
        }
    }

    /// Takes what has come, and reads once. Ready without an end if it has read something.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        decoder: &mut ResponseDecoder,
        context: &LoopContext,
    ) -> Poll<Option<End>> {
        if let Some(end) = ready!(self.poll_decode(cx, decoder, context)) {
            return Poll::Ready(Some(end));
        }
        let is_gone = self.download.hand_out(&mut self.job, None, &context.config().limits).is_err()
            || ready!(self.download.poll_wanted(cx)).is_err();
        if is_gone && !self.drains(context) {
            return Poll::Ready(Some(End::Over(Outcome::Nothing)));
        }
        let input = self
            .input
            .get_or_insert_with(|| Buffer::with_limit(context.config().limits.head.bytes.saturating_mul(2)));
        match wire.poll_read(cx, input.spare()) {
            Poll::Pending => {
                if input.is_empty() {
                    self.input = None;
                }
                Poll::Pending
            }
            Poll::Ready(Ok(0)) => Poll::Ready(Some(self.ended(decoder))),
            Poll::Ready(Ok(count)) => {
                input.filled(count);
                context.received(count);
                if self.stage != Stage::Received {
                    self.stage = Stage::Received;
                    if let Some(seen) = self.job.seen() {
                        seen.first_byte();
                    }
                }
                self.watchdog.peer_gave_bytes();
                Poll::Ready(None)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Some(self.lost(Some(error)))),
        }
    }

    /// Takes what the input holds; the end of the call if that was the response's.
    fn poll_decode(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut ResponseDecoder,
        context: &LoopContext,
    ) -> Poll<Option<End>> {
        let limits = &context.config().limits;
        loop {
            // Without input there may still be the end, which needs no room.
            let has_bytes = self.input.as_ref().is_some_and(|input| !input.is_empty());
            if has_bytes && ready!(self.download.poll_room(cx)).is_err() && !self.drains(context) {
                return Poll::Ready(Some(End::Over(Outcome::Nothing)));
            }
            let Some(input) = self.input.as_mut() else { return Poll::Ready(None) };
            if self.download.is_awaited() && is_tls_alert(input.data()) {
                let error = Error::SpeaksTls { origin: self.job.request.origin() };
                return Poll::Ready(Some(self.fail(error)));
            }
            let event = match decoder.decode(input) {
                Ok(Some(event)) => event,
                Ok(None) => return Poll::Ready(None),
                Err(source) => {
                    // What came before the fault is the caller's, however the bytes were cut on their way.
                    let error = Error::Response { origin: self.job.request.origin(), source };
                    return Poll::Ready(Some(match self.download.hand_out(&mut self.job, None, limits) {
                        Ok(_) => self.fail(error),
                        Err(()) => End::Over(Outcome::Nothing),
                    }));
                }
            };
            self.watchdog.peer_gave();
            match event {
                ResponseEvent::Informational(head) => {
                    self.interim += 1;
                    if self.upload.awaits_continue() && head.status() == StatusCode::CONTINUE {
                        self.send_body();
                        cx.waker().wake_by_ref();
                    }
                    if self.interim > limits.interim_responses {
                        context.cells.too_many_interim.add(1);
                        let error = Error::Interim { origin: self.job.request.origin(), count: self.interim };
                        return Poll::Ready(Some(self.fail(error)));
                    }
                    self.job.informed(&head);
                }
                ResponseEvent::Head(head, _) if head.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    if let Some(seen) = self.job.seen() {
                        seen.head(&head);
                    }
                    let in_step = self.upload.is_done() && self.output.is_empty();
                    if self.job.request.upgrade && in_step {
                        self.download = Download::Upgrades(head);
                        return Poll::Ready(Some(End::Upgrade));
                    }
                    let error = Error::Switched { origin: self.job.request.origin() };
                    return Poll::Ready(Some(self.fail(error)));
                }
                ResponseEvent::Head(head, _)
                    if self.upload.awaits_continue() && head.status() == StatusCode::EXPECTATION_FAILED =>
                {
                    self.job.request.options.expect_continue = None;
                    return Poll::Ready(Some(End::Resend));
                }
                ResponseEvent::Head(head, info) => {
                    // The peer wants no body any more.
                    self.watchdog.stop_awaiting_continue();
                    if let Some(seen) = self.job.seen() {
                        seen.head(&head);
                    }
                    self.reuse = may_reuse(&head, &self.job.request, context).filter(|_| info.keep_alive);
                    let length = info.framing.length();
                    self.body_left = length;
                    self.download = Download::Here { head, length, body: Pieces::default(), trailers: None };
                    if info.framing == Framing::None {
                        return Poll::Ready(Some(self.finish()));
                    }
                }
                ResponseEvent::Data(data) => {
                    if let Some(seen) = self.job.seen() {
                        seen.received(data.len());
                    }
                    if let Some(left) = &mut self.body_left {
                        *left = left.saturating_sub(data.len() as u64);
                    }
                    if self.download.drains_less_than(data.len()) {
                        context.cells.undrained.add(1);
                        return Poll::Ready(Some(End::Over(Outcome::Nothing)));
                    }
                    self.download.data(data);
                }
                ResponseEvent::Trailers(fields) => self.download.trailers(fields),
                ResponseEvent::End => return Poll::Ready(Some(self.finish())),
            }
        }
    }

    /// The response is complete.
    fn finish(&mut self) -> End {
        let rest = self.input.take().is_some_and(|input| !input.is_empty());
        // Bytes behind the response, or one that came before the request was sent whole: not in step any more.
        let in_step = !rest && self.upload.is_done() && self.output.is_empty();
        self.reuse.take_if(|_| !in_step);
        End::Complete
    }

    /// The peer sends nothing more.
    fn ended(&mut self, decoder: &mut ResponseDecoder) -> End {
        if self.stage != Stage::Received {
            return self.lost(None);
        }
        match decoder.finish() {
            Ok(Some(_)) => {
                self.reuse = None;
                self.finish()
            }
            // Interim responses only.
            Ok(None) => self.lost(None),
            Err(source) => self.fail(Error::Response { origin: self.job.request.origin(), source }),
        }
    }

    /// The connection is dead.
    fn lost(&mut self, cause: Option<io::Error>) -> End {
        // The connection may have died while it was idle.
        if self.replayable && self.stage != Stage::Received && self.job.may_resend() {
            return End::Resend;
        }
        let (origin, sent) = (self.job.request.origin(), self.job.sent);
        let (phase, cause) = match mem::replace(&mut self.upload, Upload::Done) {
            Upload::Refused(error) => (Phase::Write, Some(error)),
            _ if self.job.reply.is_none() => (Phase::Body, cause),
            Upload::Done | Upload::AwaitsContinue { .. } if self.output.is_empty() => (Phase::Read, cause),
            _ => (Phase::Write, cause),
        };
        self.fail(match cause {
            Some(source) => Error::Io { origin, phase, source, sent },
            None => Error::ClosedByPeer { origin, phase, sent },
        })
    }

    /// Sets what it waits for, and until when.
    fn watch(&mut self, now: Instant, timer: &Deadline, context: &LoopContext) {
        let uploads = match self.upload {
            Upload::Body { .. } => true,
            Upload::AwaitsContinue { .. } => self.download.is_awaited(),
            _ => false,
        };
        // While the reader takes nothing, the peer may be stuck in writing, and then it does not read either.
        let is_unsent = !self.output.is_empty() && !self.download.is_held_up();
        let waits_for = WaitsFor::of(is_unsent, &self.download, uploads);
        if self.watchdog.watch(now, waits_for, &self.download, &self.job, context) {
            self.watchdog.arm(timer);
        }
    }
}

/// An exchange whose response is received.
struct Receiving<'a> {
    exchange: &'a mut Exchange,
    decoder: &'a mut ResponseDecoder,
    end: Option<End>,
}

impl Calls for Receiving<'_> {
    fn are_late(&self, now: Instant) -> bool {
        self.exchange.watchdog.until().is_some_and(|until| until <= now)
    }

    fn end_overdue(&mut self, now: Instant, overdue: Overdue, context: &LoopContext) {
        let Exchange { watchdog, download, job, .. } = &mut *self.exchange;
        if let Some(error) = overdue(watchdog, now, download, job, context) {
            self.end = Some(self.exchange.fail(error));
        }
    }

    fn carry_on(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        let (None, Some(wire)) = (&self.end, &mut io.wire) else { return true };
        for _ in 0..READS_IN_A_ROW_MAX {
            match self.exchange.poll_receive(cx, wire, self.decoder, context) {
                Poll::Ready(None) => {}
                Poll::Ready(end) => {
                    self.end = end;
                    return true;
                }
                Poll::Pending => return true,
            }
        }
        false
    }

    fn are_over(&self) -> bool {
        self.end.is_some()
    }

    fn expire(&mut self, now: Instant, io: &Io, context: &LoopContext) {
        self.exchange.watch(now, &io.timer, context);
        self.end_overdue(precise(), Watchdog::overdue, context);
        // It may be due to a body that waits for a 100 no longer: then the next turn is at once.
        self.exchange.watchdog.arm(&io.timer);
    }
}

/// Whether bytes begin as an alert of TLS does (RFC 8446 sections 5.1 and 6): what a peer that speaks TLS says to a request
/// that came without.
pub(crate) fn is_tls_alert(bytes: &[u8]) -> bool {
    bytes.starts_with(&[21, 3])
}

/// How long a connection may be idle after this response. None: it is to be closed.
pub(crate) fn may_reuse(
    head: &ResponseHead,
    request: &CallRequest,
    context: &LoopContext,
) -> Option<Duration> {
    let idle = context.config().timeouts.idle;
    if request.last != Last::No {
        return None;
    }
    match head.headers().get("keep-alive").and_then(peer_idle_timeout) {
        // The peer counts from when it wrote the response, so we have to be the earlier one.
        Some(timeout) => {
            let idle = timeout.saturating_sub(Duration::from_secs(1)).min(idle);
            Some(idle).filter(|idle| !idle.is_zero())
        }
        None => Some(idle),
    }
}

/// The `timeout` of a `Keep-Alive` field (RFC 2068 section 19.7.1.1).
fn peer_idle_timeout(value: &str) -> Option<Duration> {
    let mut parameters = value.split(',').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, seconds) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Reads of one poll: 128 KiB as a rule. A wire that always has more would otherwise keep the loop from its other
/// tasks and its clock.
const READS_IN_A_ROW_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_idle_timeout_is_read_where_it_is_plain() {
        let seconds = |value: &str| peer_idle_timeout(value).map(|timeout| timeout.as_secs());
        assert_eq!(seconds("timeout=5, max=100"), Some(5));
        assert_eq!(seconds("max=100,Timeout=15"), Some(15));
        assert_eq!(seconds("timeout=soon"), None);
        assert_eq!(seconds("max=100"), None);
    }
}
