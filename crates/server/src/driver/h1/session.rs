//! A busy connection: requests are decoded, handlers run, responses leave in request order in as few writes as possible.
//!
//! One poll takes **every** complete request in the buffer, appends all responses to one output, and writes it once. A
//! handler that is not ready holds back the requests behind it, since responses keep the order of the requests. It does
//! not hold back the responses before it.

use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anywire_advice::Chain;
use anywire_http::h1::{DecodeError, Framing, RequestDecoder};
use anywire_http::{Body, Buffer, DateLine, Fault, RequestHead, Response, Version};
use anywire_loops::clock;
use anywire_wire::{Connection, Output, Position};
use bytes::Bytes;

use super::respond::RequestSummary;
use crate::context::{Peer, Watch};
use crate::dispatch::{Answer, Invocation, Received};
use crate::driver::connection::{End, Env, agreed_protocol};
use crate::driver::timers::Timers;
use crate::driver::upload::Upload;
use crate::limits::Limits;
use crate::observe::{ExchangeEnd, Tracked, Written};
use crate::refusal::{Refusal, RefusalKind};
use crate::request::RequestKind;
use crate::router::EndpointId;
use crate::service::Service;
use crate::upgrade::Continuation;

/// The working state of a connection between the first byte of a request and the last byte of its response.
pub(crate) struct Session {
    pub(super) input: Buffer,
    pub(super) decoder: RequestDecoder,
    pub(super) output: Output,
    /// The `Date` line, as of this poll.
    pub(super) date: DateLine,
    pub(super) stage: Stage,
    /// The exchange of the current request, until its response is written.
    pub(super) exchange: Tracked,
    /// The exchanges before it whose responses have not left.
    pub(super) written: Written,
    /// Of the current request, or of the last one. Here, because moving it with each stage cost 40 instructions a request.
    pub(super) request: RequestSummary,
    /// A request has begun since the connection was accepted or idle.
    pub(super) begun: bool,
    /// Where the body of the current request goes while it is read.
    pub(super) upload: Option<Upload>,
    /// Where the current response begins in the output, if its body streams.
    pub(super) begins_at: Position,
    /// Whether the connection ends once the output has left.
    pub(super) closing: Closing,
    /// How much stood behind the request that was answered last, since a shutdown has begun.
    pub(super) behind: usize,
    /// The peer has ended its direction: there is nothing more to read.
    pub(super) input_ended: bool,
    /// Keeps the record that the peer has ended its direction, for as long as handlers may ask.
    pub(super) gone: Option<Rc<Watch>>,
    pub(super) timers: Timers,
}

/// Why a session goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Between two requests with nothing in the buffer: the session can go back to the free list.
    Idle,
    /// As `Idle`, but without a request: only empty lines have come, which renew no deadline.
    BlankLines,
    /// The 101 has left: [`Session::into_upgrade`] has what follows.
    Upgrade,
    /// The peer sends the preface of HTTP/2, and no request since the connection was accepted or idle. At the start of the
    /// connection [`Session::into_input`] has what it sent; else [`Session::refuse_preface`] is next.
    Http2,
    /// The connection is over.
    Over(End),
}

/// A step of a session: goes on at once, waits, or ends the session.
pub(super) type Step<T = ()> = ControlFlow<Exit, Poll<T>>;

/// How a connection ends once its output has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// It does not: the next request is taken.
    No,
    /// The peer gets all that was written.
    Gracefully,
    /// The reset tells the peer that the last response is not whole.
    ByReset,
}

/// How far the current request is.
pub(super) enum Stage {
    /// No request: the next head is decoded.
    Next,
    /// Its handler runs.
    Handling(Invocation),
    /// The body of its response streams.
    Streaming { body: Body, framing: Framing },
    /// Its response is written. The rest of its body is read and thrown away, up to so many bytes.
    Discarding(u64),
    /// Its response is 101. Once that has left, the connection goes to the continuation.
    Switching(Continuation),
}

impl Session {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            // A head of the limit's size fits.
            input: Buffer::with_limit(limits.head.bytes.saturating_add(1).max(Buffer::DEFAULT_LIMIT_BYTES)),
            decoder: RequestDecoder::new(limits.head.into()),
            output: Output::new(),
            date: DateLine::new(),
            stage: Stage::Next,
            exchange: Tracked::default(),
            written: Written::default(),
            request: RequestSummary::UNKNOWN,
            begun: false,
            upload: None,
            begins_at: Position::default(),
            closing: Closing::No,
            behind: usize::MAX,
            input_ended: false,
            gone: None,
            timers: Timers::default(),
        }
    }

    /// The continuation of a session that ended by [`Exit::Upgrade`], whose it is, and the bytes behind its request.
    pub(crate) fn into_upgrade(self) -> Option<(Continuation, Option<EndpointId>, Bytes)> {
        let Stage::Switching(continuation) = self.stage else { return None };
        Some((continuation, self.request.endpoint, Bytes::copy_from_slice(self.input.data())))
    }

    /// Its input has had so many bytes at once.
    #[cfg(test)]
    pub(crate) fn meet(&mut self, bytes: usize) {
        assert_eq!(self.input.fill_from(&vec![b'x'; bytes]), bytes);
        self.input.clear();
    }

    /// The bytes of a session that ended by [`Exit::Http2`].
    pub(crate) fn into_input(self) -> Buffer {
        self.input
    }

    /// How much memory its buffers have, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Whether a request is under way, or the beginning of one.
    pub(crate) fn has_request(&self) -> bool {
        !matches!(self.stage, Stage::Next) || !self.input.is_empty() || !self.output.is_empty()
    }

    /// Reads once.
    // Out of line, it took 17 instructions more a poll.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<io::Result<usize>> {
        let read = ready!(connection.poll_read(cx, self.input.spare()));
        if let Ok(read) = read {
            self.input.filled(read);
            self.input_ended = read == 0;
        }
        Poll::Ready(read)
    }

    /// Reads once. An error ends the session.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step<usize> {
        match self.fill(cx, env.connection) {
            Poll::Ready(Ok(read)) => Continue(Poll::Ready(read)),
            Poll::Ready(Err(_)) => wire_error(env.service),
            Poll::Pending => Continue(Poll::Pending),
        }
    }

    /// Does all that can be done now. Returns how the session ended, or `Continue` if it waits.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<Exit> {
        self.date.line(clock::unix_time());
        loop {
            if !matches!(self.stage, Stage::Next) && self.work(cx, env)?.is_pending() {
                // Responses that are ready do not wait for the one that is not.
                let _ = self.flush(cx, env)?;
                return Continue(());
            }
            if self.closing != Closing::No {
                if self.flush(cx, env)?.is_pending() {
                    return Continue(());
                }
                let is_cut = self.closing == Closing::ByReset;
                return Break(Exit::Over(if is_cut { End::Abort } else { End::Linger }));
            }
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES && self.flush(cx, env)?.is_pending() {
                return Continue(());
            }
            match self.decoder.next_head(&mut self.input) {
                Ok(Some((head, info))) => {
                    self.request = RequestSummary::of(&head, info);
                    self.begin(head, cx, env);
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    if !self.begun && is_http2(self.input.data()) && agreed_protocol(env.connection).is_none()
                    {
                        return Break(Exit::Http2);
                    }
                    env.service.counters.bad_requests.increment();
                    self.refuse(&error, env.connection, env.service);
                    continue;
                }
            }
            if self.flush(cx, env)?.is_pending() {
                return Continue(());
            }
            if self.input_ended {
                // Every request is answered. Half a head is no request.
                return Break(Exit::Over(End::Close));
            }
            if self.input.is_empty() && (self.decoder.is_idle() || self.decoder.forget_blank_lines()) {
                self.timers.reset();
                let begun = std::mem::take(&mut self.begun);
                return Break(if begun { Exit::Idle } else { Exit::BlankLines });
            }
            if self.read(cx, env)?.is_pending() {
                return Continue(());
            }
        }
    }

    /// Works on the current request. Ready when there is none any more.
    fn work(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        loop {
            match &mut self.stage {
                Stage::Next => return Continue(Poll::Ready(())),
                Stage::Handling(run) => {
                    let polled = run.poll(env.peer, cx);
                    run.follow(&mut self.request.endpoint, &mut self.exchange);
                    let mut answer = match polled {
                        Poll::Ready(answer) => answer,
                        Poll::Pending if self.inform(cx) => continue,
                        Poll::Pending => match self.upload(cx, env)? {
                            Poll::Ready(true) => continue,
                            Poll::Ready(false) => return self.watch(cx, env),
                            Poll::Pending => return Continue(Poll::Pending),
                        },
                    };
                    self.stage = Stage::Next;
                    self.answer(answer.by_ref(), env.service);
                    env.service.dispatch.release(self.request.endpoint, &mut answer.response);
                }
                Stage::Streaming { .. } => {
                    if self.stream(cx, env)?.is_pending() {
                        return Continue(Poll::Pending);
                    }
                }
                Stage::Switching(_) => {
                    let flushed = self.flush(cx, env)?;
                    return if flushed.is_ready() { Break(Exit::Upgrade) } else { Continue(flushed) };
                }
                Stage::Discarding(_) => {
                    if self.discard(cx, env)?.is_pending() {
                        return Continue(Poll::Pending);
                    }
                }
            }
        }
    }

    /// Starts on a request whose head is complete.
    // Out of line: its registers would displace those of the other states in `poll`.
    #[inline(never)]
    fn begin(&mut self, mut head: RequestHead, cx: &mut Context<'_>, env: &mut Env<'_>) {
        let service = env.service;
        self.begun = true;
        self.timers.begin_request();
        let body = self.body(service);
        let connection = &*env.connection;
        let peer = || Peer::of(connection);
        if service.dispatch.is_observed() {
            self.exchange = service.dispatch.begin_exchange(&mut head, body.as_ref(), env.peer, peer);
        }
        let request = Received { head, kind: self.request.kind, body };
        let answered = |answer: Answer<&mut Response>| self.answer(answer, service);
        if let Some(run) = service.dispatch.start(request, env.peer, peer, answered, cx) {
            self.request.endpoint = Some(run.endpoint());
            service.dispatch.note_route(self.request.endpoint, &mut self.exchange);
            // What an earlier handler was told says nothing to this one.
            self.gone = None;
            self.stage = Stage::Handling(run);
        }
    }

    /// Whether an empty line came first, which HTTP/1 forgives (RFC 9112 section 2.2).
    pub(crate) fn begins_with_blank_line(&self) -> bool {
        matches!(self.input.data(), [b'\r' | b'\n', ..])
    }

    /// Whether the input begins with a HEAD request, of which the method at least is known.
    fn begins_with_head_request(&self) -> bool {
        let data = self.input.data();
        let blank = data.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        data[blank..].starts_with(b"HEAD ")
    }

    /// Refuses the preface of HTTP/2 behind other bytes (RFC 9113 section 3.4).
    #[cold]
    pub(crate) fn refuse_preface(&mut self, connection: &Connection, service: &Service) {
        service.counters.bad_requests.increment();
        self.refuse(&DecodeError::Version, connection, service);
    }

    /// Answers a request that cannot be understood. Nothing behind it can be understood, either.
    fn refuse(&mut self, error: &DecodeError, connection: &Connection, service: &Service) {
        let status = error.status();
        tracing::debug!(status = status.as_u16(), cause = %error, "a request cannot be read");
        let text = Chain(error).for_peer().to_string();
        let is_limit = error.fault() == Fault::Limit;
        let kind = if is_limit { RefusalKind::TooLarge } else { RefusalKind::Malformed };
        self.refuse_by(&Refusal::new(kind, status, &text), connection, service);
    }

    /// Answers what is no request, or only the beginning of one.
    #[cold]
    pub(super) fn refuse_by(&mut self, refusal: &Refusal<'_>, connection: &Connection, service: &Service) {
        let peer = connection.peer();
        self.request = RequestSummary::UNKNOWN;
        if self.begins_with_head_request() {
            // No content, whatever is wrong with it (RFC 9110 section 9.3.2).
            self.request.kind = RequestKind::Head;
        }
        self.exchange = service.dispatch.observers().begin_unknown(Version::HTTP_11, &peer);
        let response = service.dispatch.word(None, &refusal.of(Some(&peer)));
        self.last_response(response, service);
    }

    /// The exchanges under way will not end well.
    #[cold]
    pub(super) fn end_exchanges(&mut self, end: ExchangeEnd) {
        self.written.end_by(end);
        self.exchange.take().end_by(end);
    }

    /// Writes a response after which the connection ends.
    pub(super) fn last_response(&mut self, mut response: Response, service: &Service) {
        self.closing = Closing::Gracefully;
        // The time is that of a deadline, not of the last poll.
        self.date.line(clock::unix_time());
        self.respond(&mut response, service);
    }

    /// Writes as much of the output as the wire takes. Ready once all of it has left.
    #[inline]
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        if self.output.is_empty() {
            return Continue(Poll::Ready(()));
        }
        let unsent = self.output.unsent();
        let flushed = self.output.poll_flush(cx, env.connection);
        if !self.written.is_empty() {
            self.written.taken(self.output.taken());
        }
        if !matches!(flushed, Poll::Ready(Ok(()))) || self.timers.is_used() {
            self.timers.wrote(unsent.saturating_sub(self.output.unsent()), &env.service.limits);
        }
        match flushed {
            Poll::Ready(Ok(())) => Continue(Poll::Ready(())),
            Poll::Ready(Err(_)) => wire_error(env.service),
            Poll::Pending => Continue(Poll::Pending),
        }
    }
}

/// Whether this is the beginning of what a client of HTTP/2 sends first. No request of HTTP/1 begins so: its version is
/// refused as soon as it is read.
#[cold]
fn is_http2(data: &[u8]) -> bool {
    let line = &PREFACE_LINE[..data.len().min(PREFACE_LINE.len())];
    data.starts_with(line)
}

#[cold]
fn wire_error<T>(service: &Service) -> Step<T> {
    service.counters.wire_errors.increment();
    Break(Exit::Over(End::Close))
}

/// Output beyond this leaves before anything more is produced. So a peer that sends and does not read costs this much
/// memory and no more.
pub(super) const OUTPUT_HIGH_WATER_BYTES: usize = 64 * 1024;

/// The first line of the preface of HTTP/2 (RFC 9113 section 3.4).
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
