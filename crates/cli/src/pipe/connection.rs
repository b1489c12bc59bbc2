//! One of the connections that are used side by side, with those that take its place.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use anywire::advice::Message;
use anywire::http::h1::{Framing, Limits, ResponseDecoder, ResponseEvent};
use anywire::http::{Buffer, Method, StatusCode};
use anywire::loops::deadline::Deadline;
use anywire::wire::{Connection, DialError, Dialer};
use tokio::sync::Semaphore;

use super::run::Plan;

/// What has come of a connection, and of those that took its place.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) opened: u64,
    /// Requests of which each byte was sent.
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) bytes_out: u64,
    pub(super) bytes_in: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Why answers are missing, in words, and how often that was so.
    pub(super) faults: BTreeMap<String, u64>,
    /// Why there was no connection.
    pub(super) dial: Option<DialError>,
    /// All bytes that came, if they are wanted.
    pub(super) answers: Vec<u8>,
}

/// Sends the requests of one connection, and reads their answers.
pub(super) async fn run(
    plan: &Plan,
    dialer: &Dialer,
    dials: &Semaphore,
    answered: &AtomicU64,
    counts: &mut Counts,
) {
    let mut first = 0;
    while first < plan.per_connection {
        let end = plan.per_connection.min(first.saturating_add(plan.reconnect.unwrap_or(u64::MAX)));
        let dialled = {
            // The semaphore is never closed; without a permit the dial goes ahead, which is the lesser harm.
            let _permit = dials.acquire().await;
            dialer.dial(&plan.address).await
        };
        let connection = match dialled {
            Ok(connection) => connection,
            Err(error) => {
                counts.fault(&error);
                counts.dial = Some(error);
                return;
            }
        };
        counts.opened += 1;
        let mut exchange = Exchange::new(plan, connection, first, end);
        let fault = poll_fn(|cx| exchange.poll(cx, counts, answered)).await;
        fault.into_iter().for_each(|fault| counts.fault(fault));
        first = end;
    }
}

impl Counts {
    /// What is found, without the advice, which is for programmers.
    fn fault(&mut self, fault: impl Display) {
        *self.faults.entry(Message::read(fault).found).or_default() += 1;
    }
}

/// The requests on one connection.
struct Exchange<'a> {
    plan: &'a Plan,
    connection: Connection,
    decoder: ResponseDecoder,
    input: Buffer,
    /// The number of the request whose answer is awaited.
    due: u64,
    end: u64,
    /// All bytes of requests up to there have been written, and those of requests that have been sent whole.
    written: u64,
    sent: u64,
    /// Why no more can be written. There may be answers still.
    refused: Option<io::Error>,
    /// What its head says of the answer that is being read.
    answer: (StatusCode, bool),
    is_flushed: bool,
    deadline: Deadline,
}

impl<'a> Exchange<'a> {
    fn new(plan: &'a Plan, connection: Connection, first: u64, end: u64) -> Self {
        let deadline = Deadline::new();
        deadline.set(plan.timeout);
        let mut decoder = ResponseDecoder::new(Limits::from(plan.head));
        decoder.request_method(plan.requests.method(first));
        Self {
            plan,
            connection,
            decoder,
            input: Buffer::with_limit(plan.head.bytes.saturating_add(1)),
            due: first,
            end,
            written: plan.requests.bytes_of(first),
            sent: first,
            refused: None,
            answer: (StatusCode::OK, true),
            is_flushed: true,
            deadline,
        }
    }

    /// Goes on until all answers are there, or none comes any more: why.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        counts: &mut Counts,
        answered: &AtomicU64,
    ) -> Poll<Option<String>> {
        for _ in 0..READS_IN_A_ROW {
            if self.refused.is_none()
                && let Poll::Ready(Err(error)) = self.poll_write(cx, counts)
            {
                self.refused = Some(error);
            }
            let before = counts.answered;
            let polled = self.poll_read(cx, counts);
            answered.fetch_add(counts.answered - before, Ordering::Relaxed);
            match polled {
                Poll::Ready(Ok(true)) => return Poll::Ready(None),
                Poll::Ready(Ok(false)) => {}
                Poll::Ready(Err(fault)) => return Poll::Ready(Some(fault)),
                Poll::Pending if self.deadline.poll_expired(cx).is_ready() => {
                    self.connection.abort();
                    return Poll::Ready(Some(format!("nothing came for {:?}", self.plan.timeout)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes as many requests as may be on their way.
    fn poll_write(&mut self, cx: &mut Context<'_>, counts: &mut Counts) -> Poll<io::Result<()>> {
        let requests = &self.plan.requests;
        let last = self.end.min(self.due.saturating_add(self.plan.depth.unwrap_or(u64::MAX)));
        let to = requests.bytes_of(last);
        while self.written < to {
            let piece = requests.piece(self.written, to);
            let written = ready!(self.connection.poll_write(cx, piece))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_flushed = false;
            self.written += written as u64;
            while self.sent < last && requests.bytes_of(self.sent + 1) <= self.written {
                self.sent += 1;
                counts.sent += 1;
            }
            counts.writes += 1;
            counts.bytes_out += written as u64;
            self.deadline.set(self.plan.timeout);
        }
        if !self.is_flushed {
            ready!(self.connection.poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// One read, and the answers in it: whether these are all.
    fn poll_read(&mut self, cx: &mut Context<'_>, counts: &mut Counts) -> Poll<Result<bool, String>> {
        let spare = self.input.spare();
        let count = match ready!(self.connection.poll_read(cx, spare)) {
            Ok(0) => return Poll::Ready(self.closed(counts)),
            Ok(count) => count,
            Err(error) => return Poll::Ready(Err(format!("the connection broke: {error}"))),
        };
        if self.plan.keeps_answers {
            counts.answers.extend_from_slice(&spare[..count]);
        }
        self.input.filled(count);
        counts.reads += 1;
        counts.bytes_in += count as u64;
        self.deadline.set(self.plan.timeout);
        Poll::Ready(self.take(counts))
    }

    /// Takes the answers out of the input.
    fn take(&mut self, counts: &mut Counts) -> Result<bool, String> {
        loop {
            if self.due == self.end {
                return match self.input.is_empty() {
                    true => Ok(true),
                    false => Err("bytes came behind the last answer, which no request asked for".to_owned()),
                };
            }
            if self.due >= self.sent && !self.input.is_empty() && !self.has_begun_to_send() {
                return Err("an answer came before its request was sent".to_owned());
            }
            let is_whole =
                match self.decoder.decode_with(&mut self.input, |head| (head.status(), head.keep_alive())) {
                    Ok(None) => return Ok(false),
                    Ok(Some(ResponseEvent::Head((status, keeps_alive), info))) => {
                        self.answer = (status, keeps_alive);
                        if status == StatusCode::SWITCHING_PROTOCOLS {
                            return Err("the server switched to another protocol (101)".to_owned());
                        }
                        info.framing == Framing::None
                    }
                    Ok(Some(ResponseEvent::End)) => true,
                    Ok(Some(_)) => false,
                    Err(error) => return Err(format!("an answer breaks the rules: {error}")),
                };
            if is_whole && !self.answered(counts) {
                return match self.due == self.end {
                    true => Ok(true),
                    false => Err("the server says that it closes the connection".to_owned()),
                };
            }
        }
    }

    /// Whether any byte of the request has left whose answer is due.
    fn has_begun_to_send(&self) -> bool {
        self.written > self.plan.requests.bytes_of(self.due)
    }

    /// An answer is whole: whether another one may follow.
    fn answered(&mut self, counts: &mut Counts) -> bool {
        let (status, keeps_alive) = self.answer;
        *counts.statuses.entry(status.as_u16()).or_default() += 1;
        counts.answered += 1;
        self.due += 1;
        if self.due < self.end && *self.plan.requests.method(self.due) == Method::HEAD {
            self.decoder.request_method(&Method::HEAD);
        }
        keeps_alive
    }

    /// The server sends nothing more.
    fn closed(&mut self, counts: &mut Counts) -> Result<bool, String> {
        match self.decoder.finish() {
            Ok(Some(_)) => {
                self.answered(counts);
            }
            Ok(None) => {}
            Err(_) => return Err("the server closed the connection inside an answer".to_owned()),
        }
        match (self.due == self.end, self.refused.take()) {
            (true, _) => Ok(true),
            (false, None) => Err("the server closed the connection".to_owned()),
            (false, Some(error)) => Err(format!("the connection broke: {error}")),
        }
    }
}

/// So that others on the loop have their turn.
const READS_IN_A_ROW: u32 = 8;
