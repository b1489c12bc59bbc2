//! One open connection: windows of requests go out, answers come in and are matched in order. The hot path.
//!
//! At depth 1 one request costs one read, one write, one look at the clock and one record in the histogram. The
//! read buffer belongs to the loop's spare ones and is held only while part of a response is in it.

mod words;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anywire_advice::Message;
use anywire_http::h1::{Framing, ResponseDecoder, ResponseEvent, ResponseView};
use anywire_http::{Buffer, Method, StatusCode};
use anywire_loops::clock::precise;
use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::engine::columns::Sample;
use crate::engine::h1::words::{NOT_ASKED, decode_message, first_line};
use crate::engine::paced::Slot;
use crate::engine::scripted::Scripted;
use crate::engine::tally::{Batch, Tally};
use crate::engine::wire_watch::WireWatch;
use crate::errors::ErrorKind;
use crate::request::{Window, asks_to_close};
use crate::script::by_numbers;
use crate::server_time::ServerTime;
use crate::text::counted;

pub(super) use words::broke;

/// The exchange on one open connection.
pub(crate) struct Session {
    tally: Rc<Tally>,
    connection: Connection,
    /// What the kernel sees of it.
    watch: WireWatch,
    server_time: ServerTime,
    window: Window,
    /// What is sent instead of the window, if the plan has a script.
    script: Option<Box<Scripted>>,
    decoder: ResponseDecoder,
    depth: u32,
    /// The request says `Connection: close`.
    closes: bool,
    /// HEAD: the decoder must be told before each response, since its length names a body that does not come.
    head_only: bool,
    /// Bytes that are still to be written.
    unwritten: usize,
    in_flight: u32,
    batches: VecDeque<Batch>,
    /// The buffer while part of a response is in it.
    partial: Option<Buffer>,
    /// How far it may grow: a head of the limit's size fits.
    buffer_bytes: usize,
    /// The response being received, after its head.
    answer: Answer,
    /// Bytes of that response, and of interim ones before it, that earlier reads brought.
    answer_bytes: usize,
    /// When the first of these bytes came, if there are any.
    first_byte: Option<Instant>,
    /// Responses since the connection was opened.
    answers: u64,
    /// How long a response may take.
    timeout: Duration,
    /// Armed for the oldest request; set again only when it fires, so that a request costs nothing.
    deadline: Deadline,
    /// Requests that may still be sent on this connection.
    left: u64,
    /// With a schedule, its place among the connections that wait for a request.
    slot: Option<Rc<Slot>>,
}

/// The response that is being received: the facts of its head that are needed. A copy of the whole head would be dropped at
/// once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    status: StatusCode,
    framing: Framing,
    keep_alive: bool,
    body_bytes: u64,
    server_time: Option<Duration>,
}

impl Answer {
    #[inline]
    fn of(head: &ResponseView<'_>, server_time: &mut ServerTime) -> Self {
        Self {
            status: head.status(),
            framing: head.framing(),
            keep_alive: head.keep_alive(),
            body_bytes: 0,
            server_time: server_time.of(head.fields()),
        }
    }
}

/// Why an exchange ended.
pub(crate) enum Ending {
    /// All requests of the plan were sent, and each of this connection's was answered.
    Spent,
    /// It has had as many requests as the plan wants on one connection, and each was answered.
    Renewed,
    /// The peer closed, with or without saying so before; nothing was lost.
    Closed,
    /// Something failed; it has been counted.
    Failed,
}

impl Session {
    pub(crate) fn new(tally: Rc<Tally>, connection: Connection, window: Window) -> Self {
        let plan = Arc::clone(&tally.plan);
        let deadline = Deadline::new();
        deadline.set(plan.timeout);
        let mut decoder = ResponseDecoder::new(plan.limits.head.into());
        let head_only = plan.method == Method::HEAD && tally.feed.is_none();
        let script = tally.prepared.script.as_ref();
        let closes = script.map_or_else(|| asks_to_close(&plan.headers), |script| script.closes());
        if head_only {
            decoder.request_method(&Method::HEAD);
        }
        let slot = tally.paced.as_ref().map(|_| Rc::default());
        Self {
            server_time: ServerTime::new(tally.plan.server_time_header.as_deref()),
            watch: WireWatch::Waiting,
            script: Scripted::new(&tally),
            tally,
            connection,
            window,
            decoder,
            // After `close` nothing more is sent on a connection (RFC 9112 section 9.6).
            depth: if closes { 1 } else { plan.depth as u32 },
            closes,
            head_only,
            unwritten: 0,
            in_flight: 0,
            batches: VecDeque::new(),
            partial: None,
            buffer_bytes: plan.limits.head.bytes.saturating_add(1).max(Buffer::DEFAULT_LIMIT_BYTES),
            answer: Answer {
                status: StatusCode::OK,
                framing: Framing::None,
                keep_alive: true,
                body_bytes: 0,
                server_time: None,
            },
            answer_bytes: 0,
            first_byte: None,
            answers: 0,
            timeout: plan.timeout,
            deadline,
            left: plan.requests_per_connection.unwrap_or(u64::MAX),
            slot,
        }
    }

    /// With a schedule, its place among the connections that wait for a request.
    pub(crate) fn slot(&self) -> Option<Rc<Slot>> {
        self.slot.clone()
    }

    /// Responses since the connection was opened.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Drives the connection until nothing moves.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        if self.watch.is_waiting() && self.tally.is_measuring() {
            self.watch.begin(&self.connection, self.answers);
        }
        if self.answers == 0
            && self.in_flight == 0
            && let Poll::Ready(ending) = self.poll_unasked(context)
        {
            return Poll::Ready(ending);
        }
        let is_promised = self.is_promised(context);
        if self.in_flight == 0 || is_promised {
            self.refill(precise());
        }
        let mut reads = 0;
        loop {
            if let Poll::Ready(Err(error)) = self.poll_write(context) {
                return Poll::Ready(self.fail(
                    ErrorKind::Write,
                    Message::read(format_args!("sending a request failed: {error}")),
                ));
            }
            if self.in_flight == 0 {
                if self.left == 0 {
                    return Poll::Ready(Ending::Renewed);
                }
                if self.tally.is_spent() {
                    return Poll::Ready(Ending::Spent);
                }
            }
            match self.poll_read(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(ending)) => return Poll::Ready(ending),
                Poll::Pending if self.in_flight == 0 && self.refill(precise()) => continue,
                Poll::Pending if self.poll_wake(context) && self.refill(precise()) => continue,
                Poll::Pending => break,
            }
            reads += 1;
            if reads == self.tally.plan.limits.reads_in_a_row {
                context.waker().wake_by_ref();
                break;
            }
        }
        self.poll_timeout(context)
    }

    /// What comes before the first request answers none: taken for its answer, it would be one that took no time (RFC 9112 section 9.2).
    fn poll_unasked(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        let mut buffer = Buffer::with_limit(self.buffer_bytes);
        Poll::Ready(match ready!(self.connection.poll_read(context, buffer.spare())) {
            Ok(0) => {
                self.fail(ErrorKind::Close, "the server closed a connection before anything was asked on it")
            }
            Ok(count) => {
                buffer.filled(count);
                self.fail(ErrorKind::Parse, format!("{NOT_ASKED}: {}", first_line(buffer.data())))
            }
            Err(error) => self.fail(ErrorKind::Read, broke(false, &error)),
        })
    }

    /// One read, and all that is in it: answers are counted, and new requests take their places.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        let mut buffer = match self.partial.take() {
            Some(buffer) => buffer,
            None => Buffer::with_limit(self.buffer_bytes),
        };
        let spare = buffer.spare();
        let room = spare.len();
        let read = match self.connection.poll_read(context, spare) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                if !buffer.is_empty() {
                    self.partial = Some(buffer);
                }
                return Poll::Pending;
            }
        };
        match read {
            Ok(0) => Poll::Ready(Err(self.end_of_stream())),
            Ok(count) => {
                buffer.filled(count);
                let now = precise();
                let taken = self.take(&mut buffer, now);
                if !buffer.is_empty() {
                    self.partial = Some(buffer);
                }
                taken?;
                // Behind a full buffer there may be more, which must not answer a request that is yet to be sent.
                if count < room || self.in_flight > 0 {
                    self.refill(now);
                }
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                let is_within = self.answer_bytes > 0 || !buffer.is_empty();
                Poll::Ready(Err(self.fail(ErrorKind::Read, broke(is_within, &error))))
            }
        }
    }

    /// Takes all responses that are whole out of the buffer.
    fn take(&mut self, buffer: &mut Buffer, now: Instant) -> Result<(), Ending> {
        // The buffer's length where the present response begins, or this read's part of it.
        let mut begun = buffer.len();
        loop {
            let Self { script, server_time, decoder, tally, .. } = self;
            let decoded = match script {
                None => {
                    let mut last = tally.last_head.borrow_mut();
                    decoder.decode_repeated(buffer, &mut last, |head| Answer::of(head, server_time))
                }
                Some(script) => decoder.decode_with(buffer, |head| {
                    script.head(head);
                    Answer::of(head, server_time)
                }),
            };
            match decoded {
                Ok(None) => {
                    self.answer_bytes += begun - buffer.len();
                    if self.answer_bytes > 0 || !buffer.is_empty() {
                        self.first_byte.get_or_insert(now);
                    }
                    return Ok(());
                }
                Ok(Some(ResponseEvent::Head(answer, _))) => {
                    if self.in_flight == 0 {
                        return Err(self.fail(ErrorKind::Parse, NOT_ASKED));
                    }
                    if answer.status == StatusCode::SWITCHING_PROTOCOLS {
                        let message =
                            "the server switched to another protocol (101), which was not asked for";
                        return Err(self.fail(ErrorKind::Parse, message));
                    }
                    self.answer = answer;
                    if answer.framing == Framing::None {
                        self.answer_bytes += begun - buffer.len();
                        begun = buffer.len();
                        self.answered(now)?;
                    }
                }
                Ok(Some(ResponseEvent::Data(data))) => {
                    self.answer.body_bytes += data.len() as u64;
                    if let Some(script) = &mut self.script
                        && let Some(events) = script.data(data, now)
                        && let Some(batch) = self.batches.front()
                        && self.tally.belongs(batch.measured)
                    {
                        self.tally.events(events, batch.sent_at, now);
                    }
                }
                Ok(Some(ResponseEvent::End)) => {
                    self.answer_bytes += begun - buffer.len();
                    begun = buffer.len();
                    self.answered(now)?;
                }
                Ok(Some(ResponseEvent::Informational(_) | ResponseEvent::Trailers(_))) => {}
                Err(error) => return Err(self.fail(ErrorKind::Parse, decode_message(&error))),
            }
        }
    }

    /// A whole response has come: it belongs to the oldest request.
    #[inline]
    fn answered(&mut self, now: Instant) -> Result<(), Ending> {
        let Some(batch) = self.batches.front_mut() else {
            return Err(self.fail(ErrorKind::Parse, NOT_ASKED));
        };
        let Batch { intended, sent_at, step, .. } = *batch;
        let measured = self.tally.belongs(batch.measured);
        let taken = now.saturating_duration_since(sent_at);
        let heard_at = self.script.as_ref().and_then(|script| script.heard_at());
        if heard_at.is_none() && taken >= self.timeout {
            // It has come too late, though the loop may not have come to say so.
            return Err(self.time_out(now));
        }
        batch.requests -= 1;
        if batch.requests == 0 {
            self.batches.pop_front();
        }
        self.in_flight -= 1;
        self.answers += 1;
        let Answer { status, body_bytes, keep_alive, server_time, .. } = self.answer;
        let answer_bytes = std::mem::take(&mut self.answer_bytes);
        let sample = Sample {
            intended,
            sent_at,
            first_byte: self.first_byte.take().unwrap_or(now),
            ended_at: now,
            status,
            bytes: answer_bytes as u64,
            body_bytes,
            server_time,
            step,
        };
        self.tally.answered(measured, &sample);
        let mut closes = self.closes;
        let fault = match &mut self.script {
            None => by_numbers(&self.tally.plan.expect, status, body_bytes),
            Some(script) => {
                closes = script.closes();
                let (request, fault) = script.answered(status, body_bytes, now);
                if measured {
                    self.tally.answered_request(request, taken, status, fault.is_none());
                }
                fault
            }
        };
        self.tally.judge(measured, fault);
        self.await_answer();
        if keep_alive && !closes {
            return Ok(());
        }
        // The peer announced that this is its last response, or we that it was the last request. It acts on none that were
        // pipelined behind it (RFC 9112 section 9.6).
        self.take_back();
        Err(Ending::Closed)
    }

    /// Tells the decoder what the next head answers: the length in an answer to HEAD names a body that does not come.
    #[inline]
    fn await_answer(&mut self) {
        if self.head_only {
            self.decoder.request_method(&Method::HEAD);
        } else if let Some(script) = &self.script
            && let Some(method) = script.awaited()
        {
            self.decoder.request_method(&method);
        }
    }

    /// Whether a user of the script that has waited may send now.
    fn poll_wake(&self, context: &mut Context<'_>) -> bool {
        self.script.as_ref().is_some_and(|script| script.poll_wake(context))
    }

    /// As many new requests as there are free places, to leave in one write. Whether there are any.
    #[inline]
    fn refill(&mut self, now: Instant) -> bool {
        let mut wanted = u64::from(self.depth - self.in_flight).min(self.left) as u32;
        if let Some(script) = &mut self.script {
            wanted = wanted.min(script.ready(now));
        }
        if self.slot.is_some() {
            return self.refill_by_schedule(wanted, now);
        }
        if wanted == 0 {
            return false;
        }
        let drawn = self.tally.draw(wanted);
        if drawn == 0 {
            return false;
        }
        let measured = self.tally.is_measuring();
        self.batches.push_back(Batch { intended: now, sent_at: now, requests: drawn, measured, step: 0 });
        self.enqueue(drawn);
        true
    }

    /// So many requests leave with the next write.
    #[inline]
    fn enqueue(&mut self, drawn: u32) {
        let is_first = self.in_flight == 0;
        self.left -= u64::from(drawn);
        self.in_flight += drawn;
        self.unwritten += match &mut self.script {
            None => drawn as usize * self.window.request_bytes,
            Some(script) => script.send(drawn),
        };
        if is_first && self.script.is_some() {
            self.await_answer();
        }
    }

    /// As many of `wanted` requests as are due.
    fn refill_by_schedule(&mut self, wanted: u32, now: Instant) -> bool {
        let Self { slot: Some(slot), tally, .. } = self else { return false };
        let Some(paced) = &tally.paced else { return false };
        if wanted == 0 {
            paced.leave(slot);
            return false;
        }
        let before = self.batches.len();
        while self.batches.len() - before < wanted as usize {
            let Some(batch) = tally.take_due(paced, slot, now) else { break };
            self.batches.push_back(batch);
        }
        // One request is one batch here.
        let drawn = (self.batches.len() - before) as u32;
        if drawn > 0 {
            self.enqueue(drawn);
        }
        drawn > 0
    }

    /// Whether a request of the schedule waits for this connection, whose task is woken for the next one.
    #[inline]
    fn is_promised(&self, context: &Context<'_>) -> bool {
        self.slot.as_ref().is_some_and(|slot| {
            slot.waits(context);
            slot.is_promised()
        })
    }

    /// Writes and flushes as many of the unwritten bytes as the wire takes.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let Window { bytes, request_bytes } = &self.window;
        while self.unwritten > 0 {
            let waiting = match &self.script {
                Some(script) => script.unwritten(),
                None => {
                    // All requests are the same bytes, so the number of unwritten bytes gives the place within a request.
                    let begun = (request_bytes - self.unwritten % request_bytes) % request_bytes;
                    let end = (begun + self.unwritten).min(bytes.len());
                    &bytes[begun..end]
                }
            };
            let written = ready!(self.connection.poll_write(context, waiting))?;
            if written == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.unwritten -= written;
            if let Some(script) = &mut self.script {
                script.wrote(written);
            }
            self.tally.sent_bytes(written);
        }
        self.connection.poll_flush(context)
    }

    /// Whether the oldest request has waited too long.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        while self.deadline.poll_expired(context).is_ready() {
            let now = precise();
            let oldest = self.batches.front().map_or(now, |batch| batch.sent_at);
            let heard_at = self.script.as_ref().and_then(|script| script.heard_at());
            let oldest = heard_at.map_or(oldest, |heard_at| heard_at.max(oldest));
            if now.saturating_duration_since(oldest) >= self.timeout {
                return Poll::Ready(self.time_out(now));
            }
            self.deadline.set_from(oldest, self.timeout);
        }
        Poll::Pending
    }

    #[cold]
    fn time_out(&mut self, now: Instant) -> Ending {
        while let Some(batch) = self.batches.front()
            && now.saturating_duration_since(batch.sent_at) >= self.timeout
        {
            self.tally.timed_out(batch, now, u64::from(batch.requests));
            self.batches.pop_front();
        }
        self.lose();
        self.connection.abort();
        Ending::Failed
    }

    /// The peer will send nothing more.
    #[cold]
    fn end_of_stream(&mut self) -> Ending {
        match self.decoder.finish() {
            Ok(Some(_)) => match self.answered(precise()) {
                // A body that lasts until the close ends the connection with its response.
                Ok(()) | Err(Ending::Closed) => {
                    self.take_back();
                    Ending::Closed
                }
                Err(ending) => ending,
            },
            Ok(None) if self.in_flight == 0 => Ending::Closed,
            Ok(None) => {
                let unanswered = counted(u64::from(self.in_flight), "request");
                self.fail(ErrorKind::Close, format!("the server closed with {unanswered} unanswered"))
            }
            Err(error) => {
                let message = format!("the server closed inside an answer: {}", Message::read(error).found);
                self.fail(ErrorKind::Read, message)
            }
        }
    }

    /// Ends the exchange with an error, which counts where the oldest request does.
    #[cold]
    fn fail(&mut self, kind: ErrorKind, message: impl Into<Message>) -> Ending {
        self.tally.error(self.tally.is_of_measured(self.batches.front()), kind, || message);
        self.lose();
        Ending::Failed
    }

    /// Leaves the requests in flight to another connection.
    #[cold]
    fn take_back(&mut self) {
        for batch in self.batches.drain(..) {
            self.tally.take_back(&batch);
        }
        self.in_flight = 0;
        self.unwritten = 0;
    }

    /// Counts the requests in flight as lost with the connection.
    #[cold]
    fn lose(&mut self) {
        self.tally.lose(self.batches.drain(..));
        self.in_flight = 0;
        self.unwritten = 0;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(watched) = self.watch.end(&self.connection, self.answers) {
            self.tally.watched(&watched);
        }
        if let Some((paced, slot)) = self.tally.paced.as_ref().zip(self.slot.as_ref()) {
            paced.leave(slot);
        }
        self.tally.close(self.batches.iter());
    }
}
