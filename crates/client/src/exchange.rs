//! One request and its answer on one connection: a state machine that is polled by the connection's task.
//!
//! Sending and receiving go on side by side: an answer may come before the request is sent whole, and an error while
//! sending does not hide an answer that the peer sent before it closed. Body bytes go both ways with back-pressure:
//! a request's body is polled only while little of it waits to leave, an answer's is read only when its reader asks.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anywire_http::h1::encode::forbids_body;
use anywire_http::h1::{Framing, ResponseDecoder, ResponseEvent};
use anywire_http::{Body, Buffer, Headers, Method, ResponseHead, StatusCode, body};
use anywire_loops::deadline::Deadline;
use anywire_wire::{Connection, Output};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::budget::poll_truly;
use crate::counters::Cells;
use crate::gathered::Gathered;
use crate::job::{Job, Pending, Reply};
use crate::local::Shared;
use crate::outcome::{Last, Outcome, peer_idle_timeout};
use crate::pool::Pool;
use crate::response::Trail;
use crate::upload::{Upload, is_idempotent};
use crate::{Error, Phase, Response};

/// A call on a connection.
pub(crate) struct Exchange {
    job: Box<Job>,
    /// Taken when the head is handed to the caller.
    reply: Option<oneshot::Sender<Reply>>,
    total_until: Instant,
    acquire_until: Instant,
    resent: bool,
    output: Output,
    upload: Upload,
    /// Why the request cannot be sent whole, if so.
    broken: Option<Error>,
    /// Held from the first byte of the answer to the last.
    input: Option<Buffer>,
    input_bytes: usize,
    ahead_bytes: usize,
    collect_bytes: usize,
    answer: Answer,
    /// The length of the answer's body, if its head says so.
    length: Option<u64>,
    interim: usize,
    /// For how long the connection may wait for its next call; none if it may not be used again.
    reuse: Option<Duration>,
    idle_timeout: Duration,
    write_timeout: Duration,
    interim_max: usize,
    timer_holds: Option<WaitsFor>,
    timer_ends: Phase,
    /// When what the timer holds has lasted too long without progress, and in which phase that is.
    silence: Option<(Instant, Phase)>,
    /// Whether the peer took a byte since the timer was set.
    took: bool,
    /// Whether a byte came from the peer since the timer was set.
    gave: bool,
    /// The timer is to be set again though nothing progressed.
    rearm: bool,
    reader_is_slow: bool,
    reused: bool,
    /// The request's body comes in pieces, which cannot be sent twice.
    streams: bool,
    begun: bool,
    sent: bool,
    heard: bool,
}

/// How far the answer has come.
enum Answer {
    Awaited,
    /// The head is here, and all of the body that is. It goes to the caller at once if that is all of it.
    Here {
        head: ResponseHead,
        body: Gathered,
        trailers: Option<Headers>,
    },
    /// The head is with the caller, and the body follows.
    Follows {
        sender: body::Sender,
        trail: Arc<Trail>,
    },
    Over,
}

/// What the connection waits for, and so which deadline holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The peer takes the request.
    Taking,
    /// The caller gives more of the request's body.
    Caller,
    Head,
    Body,
    /// The caller asks for more of the answer's body.
    Reader,
}

impl Exchange {
    /// Encodes a request. `reused`: the connection has carried another one before.
    pub(crate) fn new(pending: Pending, pool: &Pool, reused: bool) -> Self {
        let Pending { mut job, reply, total_until, acquire_until, resent, sent } = pending;
        let shared = pool.shared();
        let config = shared.config();
        let mut output = shared.take_output();
        let (upload, broken) = match Upload::start(&mut job, pool.host(), &mut output) {
            Ok(upload) => (upload, None),
            Err(error) => (Upload::Done, Some(error.into())),
        };
        let streams = !upload.is_done();
        Self {
            job,
            reply: Some(reply),
            total_until,
            acquire_until,
            resent,
            output,
            upload,
            broken,
            input: None,
            input_bytes: config.limits.answer.bytes.saturating_mul(2),
            ahead_bytes: config.limits.body_ahead_bytes,
            collect_bytes: config.limits.body_bytes,
            answer: Answer::Awaited,
            length: None,
            interim: 0,
            reuse: None,
            idle_timeout: config.timeouts.idle,
            write_timeout: config.timeouts.write,
            interim_max: config.limits.interim_answers,
            timer_holds: None,
            timer_ends: Phase::Total,
            silence: None,
            took: false,
            gave: false,
            rearm: false,
            reader_is_slow: false,
            reused,
            streams,
            begun: false,
            sent,
            heard: false,
        }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.job.method
    }

    /// Whether the request's body is a stream of the caller's.
    pub(crate) fn streams(&self) -> bool {
        self.streams
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether any byte of the request was sent, on this connection or on one before it.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent
    }

    /// Gives back what other calls can use.
    pub(crate) fn recycle(self, shared: &Shared) {
        shared.keep_output(self.output);
    }

    /// Sends what the wire takes at once, and arms what wakes the connection's task: the answer, the deadline, the
    /// caller's leaving. `false` if that task has something to do at once.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>, wire: &mut Connection, timer: &Deadline) -> bool {
        self.begun = true;
        // Asked only here: this is what wakes the task when the caller leaves.
        if self.reply.as_mut().is_some_and(|reply| poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready()) {
            return false;
        }
        self.send(cx, wire);
        self.arm(timer);
        self.broken.is_none() && !matches!(self.upload, Upload::Broken(_))
    }

    /// Goes on as far as it can; ready when the call is over.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        decoder: &mut ResponseDecoder,
        timer: &Deadline,
        cells: &Cells,
    ) -> Poll<Outcome> {
        if self.reply.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return Poll::Ready(Outcome::over(Last::Nothing));
        }
        if timer.poll_expired(cx).is_ready()
            && let Some(error) = self.overdue(cells)
        {
            return Poll::Ready(self.fail(error));
        }
        if !self.upload.is_done() || !self.output.is_empty() {
            self.send(cx, wire);
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(self.fail(error));
        }
        if let Poll::Ready(outcome) = self.poll_receive(cx, wire, decoder, cells) {
            return Poll::Ready(outcome);
        }
        while self.arm(timer) {
            if let Some(error) = self.overdue(cells) {
                return Poll::Ready(self.fail(error));
            }
        }
        Poll::Pending
    }

    /// Ends the call with an error.
    pub(crate) fn fail(&mut self, error: Error) -> Outcome {
        let last = match (self.reply.take(), std::mem::replace(&mut self.answer, Answer::Over)) {
            (Some(reply), _) => Last::Reply(reply, Err(error)),
            (None, Answer::Follows { sender, .. }) => Last::BodyBreaks(sender, Trail::body_error(error)),
            (None, _) => Last::Nothing,
        };
        Outcome::over(last)
    }

    fn send(&mut self, cx: &mut Context<'_>, wire: &mut Connection) {
        let mut taken = false;
        if let Poll::Ready(Err(source)) = self.upload.poll_send(cx, wire, &mut self.output, &mut taken) {
            let sent = self.sent | taken;
            self.broken = Some(Error::RequestBody { origin: self.origin(), source, sent });
        }
        self.sent |= taken;
        // What the caller adds is no progress of the peer's.
        self.took |= taken;
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Connection,
        decoder: &mut ResponseDecoder,
        cells: &Cells,
    ) -> Poll<Outcome> {
        for _ in 0..READS_IN_A_ROW_MAX {
            if let Some(outcome) = ready!(self.poll_decode(cx, decoder, cells)) {
                return Poll::Ready(outcome);
            }
            if let Some(outcome) = self.hand_out() {
                return Poll::Ready(outcome);
            }
            if let Answer::Follows { sender, .. } = &mut self.answer {
                self.reader_is_slow = true;
                if ready!(sender.poll_wanted(cx)).is_err() {
                    return Poll::Ready(Outcome::over(Last::Nothing));
                }
                self.reader_is_slow = false;
            }
            let input = self.input.get_or_insert_with(|| Buffer::with_limit(self.input_bytes));
            match wire.poll_read(cx, input.spare()) {
                Poll::Pending => {
                    if input.is_empty() {
                        self.input = None;
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(self.ended(decoder)),
                Poll::Ready(Ok(count)) => {
                    input.filled(count);
                    self.heard = true;
                    self.gave = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(self.lost(Some(error))),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what the input holds; an outcome if that was the answer's end.
    fn poll_decode(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut ResponseDecoder,
        cells: &Cells,
    ) -> Poll<Option<Outcome>> {
        loop {
            let Some(input) = self.input.as_mut() else { return Poll::Ready(None) };
            // Without input there may still be the end, which needs no room.
            if let Answer::Follows { sender, .. } = &mut self.answer
                && !input.is_empty()
            {
                self.reader_is_slow = true;
                if ready!(sender.poll_ready(cx)).is_err() {
                    return Poll::Ready(Some(Outcome::over(Last::Nothing)));
                }
                self.reader_is_slow = false;
            }
            let event = match decoder.decode(input) {
                Ok(Some(event)) => event,
                Ok(None) => return Poll::Ready(None),
                Err(source) => {
                    // What came before the fault is the caller's, however the bytes were cut on their way.
                    if let Some(outcome) = self.hand_out() {
                        return Poll::Ready(Some(outcome));
                    }
                    let error = Error::Answer { origin: self.origin(), source };
                    return Poll::Ready(Some(self.fail(error)));
                }
            };
            match event {
                ResponseEvent::Informational(_) => {
                    self.interim += 1;
                    if self.interim > self.interim_max {
                        cells.too_many_interim.add(1);
                        let error = Error::Interim { origin: self.origin(), count: self.interim };
                        return Poll::Ready(Some(self.fail(error)));
                    }
                }
                ResponseEvent::Head(head, info) => {
                    self.reuse = self.may_reuse(&head, info.keep_alive);
                    self.length = info.framing.length();
                    self.answer = Answer::Here { head, body: Gathered::default(), trailers: None };
                    if info.framing == Framing::None {
                        return Poll::Ready(Some(self.finish()));
                    }
                }
                ResponseEvent::Data(data) => match &mut self.answer {
                    Answer::Here { body, .. } => body.push(data),
                    Answer::Follows { sender, .. } => {
                        // There is room, as was just seen; a reader who left meanwhile is noticed next time.
                        let _ = sender.try_send(Bytes::copy_from_slice(data));
                    }
                    Answer::Awaited | Answer::Over => {}
                },
                ResponseEvent::Trailers(found) => match &mut self.answer {
                    Answer::Here { trailers, .. } => *trailers = Some(found),
                    Answer::Follows { sender, .. } => sender.trailers(found),
                    Answer::Awaited | Answer::Over => {}
                },
                ResponseEvent::End => return Poll::Ready(Some(self.finish())),
            }
        }
    }

    /// Gives the caller a head whose body is not all here, with the part that is.
    fn hand_out(&mut self) -> Option<Outcome> {
        if !matches!(self.answer, Answer::Here { .. }) {
            return None;
        }
        let Answer::Here { head, body: first, trailers } = std::mem::replace(&mut self.answer, Answer::Over)
        else {
            return None;
        };
        let (mut sender, mut body) = Body::channel(self.ahead_bytes);
        if let Some(length) = self.length {
            body = body.with_length(length);
        }
        // Neither can fail: the channel is new and its reader is here.
        let _ = sender.try_send(first.into_bytes());
        if let Some(trailers) = trailers {
            sender.trailers(trailers);
        }
        let trail = Arc::new(Trail::new(&self.job));
        let response = Response::new(head, body, self.collect_bytes, Some(Arc::clone(&trail)));
        if self.reply.take()?.send(Ok(response)).is_err() {
            return Some(Outcome::over(Last::Nothing));
        }
        self.answer = Answer::Follows { sender, trail };
        None
    }

    /// The answer is complete.
    fn finish(&mut self) -> Outcome {
        let rest = self.input.take().is_some_and(|input| !input.is_empty());
        // Bytes behind the answer, or an answer that came before the request was sent whole: not in step any more.
        let in_step = !rest && self.upload.is_done() && self.output.is_empty();
        let last = match (self.reply.take(), std::mem::replace(&mut self.answer, Answer::Over)) {
            (Some(reply), Answer::Here { head, body, trailers: None }) => {
                let body = body_of(&head, body.into_bytes());
                Last::Reply(reply, Ok(Response::new(head, body, self.collect_bytes, None)))
            }
            (Some(reply), Answer::Here { head, body, trailers: Some(trailers) }) => {
                let (mut sender, rest) = Body::channel(self.ahead_bytes);
                let _ = sender.try_send(body.into_bytes());
                sender.trailers(trailers);
                sender.finish();
                Last::Reply(reply, Ok(Response::new(head, rest, self.collect_bytes, None)))
            }
            (None, Answer::Follows { sender, .. }) => Last::BodyEnds(sender),
            _ => Last::Nothing,
        };
        Outcome::Done { reuse: self.reuse.filter(|_| in_step), last }
    }

    /// The peer sends nothing more.
    fn ended(&mut self, decoder: &mut ResponseDecoder) -> Outcome {
        if !self.heard {
            return self.lost(None);
        }
        match decoder.finish() {
            Ok(Some(_)) => {
                self.reuse = None;
                self.finish()
            }
            // Interim answers only.
            Ok(None) => self.lost(None),
            Err(source) => {
                let error = Error::Answer { origin: self.origin(), source };
                self.fail(error)
            }
        }
    }

    /// The connection is dead.
    fn lost(&mut self, cause: Option<io::Error>) -> Outcome {
        if self.may_resend() {
            return Outcome::Resend;
        }
        let (origin, sent) = (self.origin(), self.sent);
        let (phase, cause) = match std::mem::replace(&mut self.upload, Upload::Done) {
            Upload::Broken(error) => (Phase::Write, Some(error)),
            _ if self.reply.is_none() => (Phase::Body, cause),
            Upload::Done if self.output.is_empty() => (Phase::Read, cause),
            _ => (Phase::Write, cause),
        };
        self.fail(match cause {
            Some(source) => Error::Io { origin, phase, source, sent },
            None => Error::ClosedByPeer { origin, phase, sent },
        })
    }

    /// Whether the call may go out once more: its connection had died while it was idle, and either the peer cannot
    /// have seen the request or seeing it twice is no harm (RFC 9110 section 9.2.2).
    fn may_resend(&self) -> bool {
        let died_idle = self.reused && !self.resent && !self.heard;
        let harmless = !self.sent || is_idempotent(&self.job.method);
        died_idle && harmless && !self.streams && self.reply.is_some()
    }

    /// The call, to be sent again.
    pub(crate) fn into_pending(self) -> Option<Pending> {
        let Self { job, reply, total_until, acquire_until, sent, .. } = self;
        reply.map(|reply| Pending { job, reply, total_until, acquire_until, resent: true, sent })
    }

    /// For how long the connection may be kept after this answer.
    fn may_reuse(&self, head: &ResponseHead, keep_alive: bool) -> Option<Duration> {
        let upgraded = head.status() == StatusCode::SWITCHING_PROTOCOLS;
        if !keep_alive || upgraded || self.job.last_on_connection {
            return None;
        }
        match head.headers().get("keep-alive").and_then(peer_idle_timeout) {
            // The peer counts from when it wrote the answer, so we have to be the earlier one.
            Some(timeout) => {
                let idle = timeout.saturating_sub(Duration::from_secs(1)).min(self.idle_timeout);
                Some(idle).filter(|idle| !idle.is_zero())
            }
            None => Some(self.idle_timeout),
        }
    }

    /// Sets the timer for what the connection waits for now, if that is new or progressed. Whether it is overdue already:
    /// a timer that is set again and again, each time for as long as is left, never runs out.
    fn arm(&mut self, timer: &Deadline) -> bool {
        let waits_for = self.waits_for();
        let (took, gave) = (std::mem::take(&mut self.took), std::mem::take(&mut self.gave));
        // A peer that talks and does not read makes no progress in reading, nor the other way round.
        let progressed = if waits_for == WaitsFor::Taking { took } else { gave };
        let renewed = progressed || self.timer_holds != Some(waits_for);
        let rearm = std::mem::take(&mut self.rearm);
        if !renewed && !rearm {
            return false;
        }
        // The true time: the loop's clock stands still while a task blocks the loop, and a deadline would be early.
        let now = Instant::now();
        if renewed {
            self.timer_holds = Some(waits_for);
            self.silence = match waits_for {
                WaitsFor::Taking => Some((now + self.write_timeout, Phase::Write)),
                WaitsFor::Head => Some((now + self.job.read_timeout, Phase::Read)),
                WaitsFor::Body => Some((now + self.job.read_timeout, Phase::Body)),
                WaitsFor::Caller | WaitsFor::Reader => None,
            };
        }
        let total = match &self.answer {
            Answer::Follows { .. } if waits_for == WaitsFor::Reader => None,
            Answer::Follows { trail, .. } if trail.is_expired() => None,
            _ => Some((self.total_until, Phase::Total)),
        };
        match self.silence.into_iter().chain(total).min_by_key(|(until, _)| *until) {
            Some((until, phase)) => {
                self.timer_ends = phase;
                timer.set(until.saturating_duration_since(now));
                until <= now
            }
            None => {
                timer.clear();
                false
            }
        }
    }

    fn waits_for(&self) -> WaitsFor {
        if !self.output.is_empty() {
            return WaitsFor::Taking;
        }
        match (&self.reply, &self.upload) {
            (_, Upload::Body { .. }) => WaitsFor::Caller,
            (Some(_), _) => WaitsFor::Head,
            (None, _) if self.reader_is_slow => WaitsFor::Reader,
            (None, _) => WaitsFor::Body,
        }
    }

    /// The timer ran out: why the call ends, unless it goes on.
    fn overdue(&mut self, cells: &Cells) -> Option<Error> {
        let phase = self.timer_ends;
        if let (Phase::Total, Answer::Follows { trail, .. }) = (phase, &self.answer)
            && !trail.expire()
        {
            // Handed out as a stream, where only silence ends it.
            self.rearm = true;
            return None;
        }
        cells.count_timeout(phase);
        let limit = match phase {
            Phase::Write => self.write_timeout,
            Phase::Total => self.job.total_timeout,
            _ => self.job.read_timeout,
        };
        Some(Error::Timeout { origin: self.origin(), phase, limit, sent: self.sent })
    }

    fn origin(&self) -> String {
        self.job.target.origin().to_owned()
    }
}

/// The body of an answer that is here whole. An empty one under a head that states a length is
/// [withheld](Body::withheld): the answer is one to HEAD, or a 304.
fn body_of(head: &ResponseHead, bytes: Bytes) -> Body {
    if !bytes.is_empty() {
        return bytes.into();
    }
    let withheld = head.stated_length().filter(|&length| match head.status() {
        StatusCode::NOT_MODIFIED => true,
        status => length > 0 && !forbids_body(status),
    });
    withheld.map_or_else(Body::empty, Body::withheld)
}

/// Reads of one poll: 128 KiB as a rule. On a wire that has always more the loop's other tasks would else not run, nor
/// its clock.
const READS_IN_A_ROW_MAX: u32 = 8;
