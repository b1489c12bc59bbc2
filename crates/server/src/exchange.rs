//! A busy connection: requests are decoded, handlers run, answers leave in request order in as few writes as possible.
//!
//! One turn takes **every** complete request in the buffer, appends all answers to one output, and writes it once. A
//! handler that is not ready holds the requests behind it back (answers keep the order of the requests) but not the
//! answers before it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_http::body::Sender;
use anywire_http::h1::{DecodeError, Framing, RequestDecoder, RequestEvent, encode};
use anywire_http::{Body, BodyError, Buffer, Method, RequestHead, Response, StatusCode, Version};
use anywire_wire::{Connection, Output};
use bytes::Bytes;

use crate::handler::Answer;
use crate::limits::Limits;
use crate::request;
use crate::respond::IntoResponse;
use crate::service::{Begun, Ending, Service};

/// The working state of a connection between its first byte of a request and its last byte of an answer.
pub(crate) struct Exchange {
    input: Buffer,
    decoder: RequestDecoder,
    output: Output,
    stage: Stage,
    /// Where the body of the current request goes while somebody reads it.
    upload: Option<Upload>,
    /// No further request is taken; once the output is gone the connection ends.
    closing: bool,
    waiting: Waiting,
    /// Bytes went in or out since the task last looked: what is waited for now is waited for anew.
    moved: bool,
}

/// What a turn needs from the connection's task.
pub(crate) struct Link<'t> {
    pub(crate) connection: &'t mut Connection,
    pub(crate) service: &'t Service,
    pub(crate) context: &'t mut Option<Rc<request::Context>>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Between two requests with nothing in the buffer: the exchange can go back to the spares.
    Idle,
    /// Done: close.
    Close,
    /// Broken, or cut: reset.
    Abort,
}

/// What a connection waits for: each has its own deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The first byte of the first request.
    Fresh,
    /// The first byte of another request.
    Idle,
    /// The rest of a head.
    Head,
    /// The handler.
    Handler,
    /// The peer, with the next part of a body.
    Body,
    /// The peer, to take what was answered.
    Write,
    /// The peer, to close after the last answer.
    Linger,
}

impl Waiting {
    pub(crate) fn limit(self, limits: &Limits) -> Duration {
        match self {
            Self::Fresh | Self::Head => limits.head_deadline,
            Self::Idle => limits.idle_deadline,
            Self::Handler => limits.handler_deadline,
            Self::Body => limits.body_deadline,
            Self::Write => limits.write_deadline,
            Self::Linger => limits.linger_deadline,
        }
    }
}

/// How far the current request is.
enum Stage {
    /// No request: the next head is decoded.
    Next,
    /// Its handler runs.
    Handling(Answer, Reply),
    /// Its answer's body streams.
    Streaming { body: Body, framing: Framing, left: u64 },
    /// Its answer is written; the rest of its body is read and thrown away, up to so many bytes.
    Discarding(u64),
}

/// What the answer has to know of the request.
#[derive(Debug, Clone, Copy)]
struct Reply {
    version: Version,
    keep_alive: bool,
    head_only: bool,
}

/// A request body on its way to whoever reads it.
struct Upload {
    /// `None` once the reader is gone.
    sender: Option<Sender>,
    framing: Framing,
    /// The peer waits for `100 Continue` before it sends the body.
    awaits_continue: bool,
}

impl Upload {
    /// Nobody will read the rest. (The reader may still be at it when the answer begins: an echo is both.)
    fn is_abandoned(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_closed)
    }
}

impl Exchange {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            input: Buffer::new(),
            decoder: RequestDecoder::new(limits.head.clone()),
            output: Output::new(),
            stage: Stage::Next,
            upload: None,
            closing: false,
            waiting: Waiting::Idle,
            moved: false,
        }
    }

    /// Reads once.
    pub(crate) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<io::Result<usize>> {
        let read = ready!(connection.poll_read(cx, self.input.spare()));
        if let Ok(read) = read {
            self.input.filled(read);
            self.moved = true;
        }
        Poll::Ready(read)
    }

    /// Does all that can be done now.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<Turn, Turn>> {
        loop {
            if self.answer(cx, link)?.is_pending() {
                // Answers that are ready do not wait for the one that is not.
                if self.flush(cx, link.connection)?.is_pending() {
                    self.waiting = Waiting::Write;
                }
                return Poll::Pending;
            }
            if self.closing {
                return self.close(cx, link.connection);
            }
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES {
                ready!(self.flush_or_wait(cx, link.connection))?;
            }
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Head(head))) => {
                    self.begin(head, link);
                    continue;
                }
                // Bodies are taken while their request is current, so none is left here.
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => {
                    link.service.counters.bad_requests.increment();
                    self.refuse(&error, link.service);
                    continue;
                }
            }
            ready!(self.flush_or_wait(cx, link.connection))?;
            if self.input.is_empty() && self.decoder.is_idle() {
                return Poll::Ready(Ok(Turn::Idle));
            }
            self.waiting = Waiting::Head;
            if ready!(self.fill(cx, link.connection)).map_err(|_| wire_error(link.service))? == 0 {
                // Half a head and then nothing: nobody is there to answer.
                return Poll::Ready(Ok(Turn::Close));
            }
        }
    }

    /// Which deadline is to be set anew, if any, now that the task waits; `before` is what it waited for until now.
    pub(crate) fn waits_anew(&mut self, before: Waiting) -> Option<Waiting> {
        let moved = std::mem::take(&mut self.moved);
        // A handler's time and a head's time are one span: bytes that trickle in do not renew them.
        let renew = match self.waiting {
            Waiting::Handler | Waiting::Head => before != self.waiting,
            _ => moved || before != self.waiting,
        };
        renew.then_some(self.waiting)
    }

    /// The deadline of `waiting` has passed. `None`: an answer says so, and the exchange goes on to send it.
    pub(crate) fn expire(&mut self, waiting: Waiting, service: &Service) -> Option<Turn> {
        match waiting {
            Waiting::Fresh | Waiting::Idle | Waiting::Linger => return Some(Turn::Close),
            Waiting::Write => {
                service.counters.write_timeouts.increment();
                return Some(Turn::Abort);
            }
            Waiting::Head => {
                service.counters.read_timeouts.increment();
                let response = (StatusCode::REQUEST_TIMEOUT, "the request's head did not come in time");
                self.stage = Stage::Next;
                self.last_response(response.into_response(), service);
            }
            Waiting::Handler => {
                service.counters.handler_timeouts.increment();
                let Stage::Handling(..) = self.stage else { return Some(Turn::Abort) };
                self.stage = Stage::Next;
                self.upload = None;
                let response = (StatusCode::SERVICE_UNAVAILABLE, "the answer took too long");
                self.last_response(response.into_response(), service);
            }
            Waiting::Body => {
                service.counters.read_timeouts.increment();
                match self.upload.take().and_then(|upload| upload.sender) {
                    // The handler learns it from the body and answers as it likes.
                    Some(sender) => sender.abort(BodyError::Timeout),
                    None => return Some(Turn::Close),
                }
                self.closing = true;
            }
        }
        None
    }

    /// Works on the current request. Ready when there is none any more; an error ends the connection.
    fn answer(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        loop {
            match &mut self.stage {
                Stage::Next => return Poll::Ready(Ok(())),
                Stage::Handling(answer, reply) => {
                    let reply = *reply;
                    let Poll::Ready(outcome) = poll_caught(answer, cx) else {
                        self.waiting = Waiting::Handler;
                        match self.upload(cx, link)? {
                            Poll::Ready(true) => continue,
                            Poll::Ready(false) | Poll::Pending => return Poll::Pending,
                        }
                    };
                    self.stage = Stage::Next;
                    let response = outcome.unwrap_or_else(|panic| {
                        link.service.counters.panics.increment();
                        tracing::error!(panic = panic_text(panic.as_ref()), "a handler panicked");
                        (StatusCode::INTERNAL_SERVER_ERROR, "the server failed to answer this request")
                            .into_response()
                    });
                    self.respond(response, reply, link.service);
                }
                Stage::Streaming { .. } => {
                    if self.stream(cx, link)?.is_pending() {
                        return Poll::Pending;
                    }
                }
                Stage::Discarding(_) => {
                    if self.discard(cx, link)?.is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Starts on a request whose head is complete.
    fn begin(&mut self, head: RequestHead, link: &mut Link<'_>) {
        link.service.counters.requests.increment();
        let reply = Reply {
            version: head.version(),
            keep_alive: head.keep_alive(),
            head_only: head.method() == Method::HEAD,
        };
        let body = self.body_of(&head, link.service);
        let context = link.context.get_or_insert_with(|| link.service.context(link.connection));
        let begun = catch_unwind(AssertUnwindSafe(|| link.service.begin(head, body, context)));
        match begun {
            Ok(Begun::Handler(answer)) => self.stage = Stage::Handling(answer, reply),
            Ok(Begun::Response(response)) => self.respond(*response, reply, link.service),
            Err(panic) => {
                link.service.counters.panics.increment();
                tracing::error!(
                    panic = panic_text(panic.as_ref()),
                    "a handler panicked before its first await"
                );
                self.respond(StatusCode::INTERNAL_SERVER_ERROR.into_response(), reply, link.service);
            }
        }
    }

    /// The body of a request: whole if it is in the buffer already, else a stream that reads when it is read.
    fn body_of(&mut self, head: &RequestHead, service: &Service) -> Body {
        let framing = head.framing();
        match framing {
            Framing::None => return Body::empty(),
            Framing::Length(length) if length <= self.input.len() as u64 => {
                let mut whole = Bytes::new();
                // All of it is one piece of data, and then the end.
                while let Ok(Some(RequestEvent::Data(data))) = self.decoder.decode(&mut self.input) {
                    whole = Bytes::copy_from_slice(data);
                }
                debug_assert_eq!(whole.len() as u64, length);
                return whole.into();
            }
            _ => {}
        }
        let (sender, body) = Body::channel(service.limits.body_in_flight_bytes);
        self.upload =
            Some(Upload { sender: Some(sender), framing, awaits_continue: head.expects_continue() });
        match framing.length() {
            Some(length) => body.with_length(length),
            None => body,
        }
    }

    /// Brings the peer's body to its reader, as far as the reader asks for it. `true`: something came, so the handler
    /// is worth another poll; `false`: nobody asks.
    fn upload(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<bool, Turn>> {
        let mut moved = false;
        loop {
            let Some(upload) = &mut self.upload else { return Poll::Ready(Ok(moved)) };
            let Some(sender) = &mut upload.sender else { return Poll::Ready(Ok(moved)) };
            match sender.poll_wanted(cx) {
                Poll::Pending => return Poll::Ready(Ok(moved)),
                Poll::Ready(Err(_)) => {
                    upload.sender = None;
                    return Poll::Ready(Ok(moved));
                }
                Poll::Ready(Ok(())) => {}
            }
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Data(data))) => {
                    // There is room, and a reader that has gone meanwhile shows at the next look.
                    let _ = sender.send(Bytes::copy_from_slice(data));
                    moved = true;
                }
                Ok(Some(RequestEvent::Trailers(trailers))) => sender.trailers(trailers),
                Ok(Some(RequestEvent::End | RequestEvent::Head(_))) => {
                    if let Some(sender) = self.upload.take().and_then(|upload| upload.sender) {
                        sender.finish();
                    }
                    return Poll::Ready(Ok(true));
                }
                Ok(None) => {
                    if std::mem::take(&mut upload.awaits_continue) {
                        encode::continue_100(self.output.buffer());
                    }
                    if self.flush(cx, link.connection)?.is_pending() {
                        self.waiting = Waiting::Write;
                        return Poll::Pending;
                    }
                    match self.fill(cx, link.connection).map_err(|_| wire_error(link.service))? {
                        Poll::Ready(0) => return Poll::Ready(Ok(self.end_upload(BodyError::Incomplete))),
                        Poll::Ready(_) => {}
                        Poll::Pending if moved => return Poll::Ready(Ok(true)),
                        Poll::Pending => {
                            self.waiting = Waiting::Body;
                            return Poll::Pending;
                        }
                    }
                }
                Err(error) => {
                    link.service.counters.bad_requests.increment();
                    tracing::debug!(%error, "a request body is malformed");
                    return Poll::Ready(Ok(self.end_upload(error.into())));
                }
            }
        }
    }

    /// The body ends before its time: its reader is told, and the connection closes after the answer.
    fn end_upload(&mut self, why: BodyError) -> bool {
        if let Some(sender) = self.upload.take().and_then(|upload| upload.sender) {
            sender.abort(why);
        }
        self.closing = true;
        true
    }

    /// Reads the rest of a body that the handler left, so that the connection can be kept.
    fn discard(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        let Stage::Discarding(allowed) = &mut self.stage else { return Poll::Ready(Ok(())) };
        loop {
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Data(data))) => {
                    let Some(left) = allowed.checked_sub(data.len() as u64) else { break };
                    *allowed = left;
                }
                Ok(Some(RequestEvent::Trailers(_))) => {}
                Ok(Some(RequestEvent::End | RequestEvent::Head(_))) => {
                    self.stage = Stage::Next;
                    return Poll::Ready(Ok(()));
                }
                Ok(None) => {
                    // The answer leaves first: a peer may wait for it before it sends on.
                    match self.output.poll_flush(cx, link.connection) {
                        Poll::Ready(flushed) => flushed.map_err(|_| wire_error(link.service))?,
                        Poll::Pending => {
                            self.waiting = Waiting::Write;
                            return Poll::Pending;
                        }
                    }
                    match link
                        .connection
                        .poll_read(cx, self.input.spare())
                        .map_err(|_| wire_error(link.service))?
                    {
                        Poll::Ready(0) => break,
                        Poll::Ready(read) => self.input.filled(read),
                        Poll::Pending => {
                            self.waiting = Waiting::Body;
                            return Poll::Pending;
                        }
                    }
                }
                Err(_) => break,
            }
        }
        self.stage = Stage::Next;
        self.closing = true;
        Poll::Ready(Ok(()))
    }

    /// Writes the head of an answer, and its body if it is whole.
    fn respond(&mut self, response: Response, reply: Reply, service: &Service) {
        if let Some(fault) = response.fault() {
            tracing::error!(error = %fault, "a handler's response cannot be sent");
            return self.respond(StatusCode::INTERNAL_SERVER_ERROR.into(), reply, service);
        }
        let Response { status, headers, body, .. } = response;
        let mut keep_alive = reply.keep_alive && !self.closing && service.ending() == Ending::No;
        if let Some(upload) = self.upload.as_ref().filter(|upload| upload.is_abandoned()) {
            // What will not be read to its end would be taken for the next request.
            let too_long = upload.framing.length().is_some_and(|length| length > service.limits.drain_bytes);
            keep_alive &= !too_long && !upload.awaits_continue;
        }
        let parts = encode::ResponseParts {
            status,
            headers: &headers,
            framing: body.framing(),
            version: reply.version,
            keep_alive,
            answers_head: reply.head_only,
            date: None,
        };
        let out = self.output.buffer();
        let commitment = service.with_date(|date| {
            encode::response_head(out, &encode::ResponseParts { date: Some(date), ..parts })
        });
        self.closing |= !commitment.keep_alive;
        if commitment.framing.is_empty() {
            // A body that nobody may send, or an empty one.
        } else if let Some(whole) = body.as_full() {
            self.output.push_bytes(whole.clone());
        } else {
            let left = body.length().unwrap_or(u64::MAX);
            self.stage = Stage::Streaming { body, framing: commitment.framing, left };
            return;
        }
        self.after_response(service);
    }

    /// The answer is written as far as this request is concerned; what of its body is unread?
    fn after_response(&mut self, service: &Service) {
        let unread = self.upload.take().is_some();
        self.stage =
            if unread && !self.closing { Stage::Discarding(service.limits.drain_bytes) } else { Stage::Next };
    }

    /// Moves a streaming body into the output, with back-pressure from the wire.
    fn stream(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        loop {
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES && self.flush(cx, link.connection)?.is_pending() {
                self.waiting = Waiting::Write;
                return Poll::Pending;
            }
            let Stage::Streaming { body, framing, left } = &mut self.stage else {
                return Poll::Ready(Ok(()));
            };
            let Poll::Ready(chunk) = body.poll_chunk(cx) else {
                self.waiting = Waiting::Handler;
                // A body that echoes what it reads needs the request's body to go on.
                return match self.upload(cx, link)? {
                    Poll::Ready(true) => continue,
                    Poll::Ready(false) | Poll::Pending => Poll::Pending,
                };
            };
            match chunk {
                Ok(Some(chunk)) if *framing == Framing::Chunked => {
                    encode::chunk_head(self.output.buffer(), chunk.len());
                    self.output.push_bytes(chunk);
                    encode::chunk_tail(self.output.buffer());
                }
                Ok(Some(chunk)) => {
                    let Some(rest) = left.checked_sub(chunk.len() as u64) else {
                        tracing::error!("a handler's body is longer than the length it stated");
                        return Poll::Ready(Err(Turn::Abort));
                    };
                    *left = rest;
                    self.output.push_bytes(chunk);
                }
                Ok(None) => {
                    match framing {
                        Framing::Chunked => encode::last_chunk(self.output.buffer(), body.trailers()),
                        Framing::Length(_) if *left > 0 => {
                            tracing::error!("a handler's body is shorter than the length it stated");
                            return Poll::Ready(Err(Turn::Abort));
                        }
                        _ => {}
                    }
                    self.after_response(link.service);
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    // The head is gone, so the one way left to say that the body is not whole is a reset.
                    tracing::error!(%error, "a handler's body failed");
                    return Poll::Ready(Err(Turn::Abort));
                }
            }
        }
    }

    /// Answers a request that cannot be understood; nothing after it can be, either.
    fn refuse(&mut self, error: &DecodeError, service: &Service) {
        self.last_response((error.status(), error.to_string()).into_response(), service);
    }

    /// An answer after which the connection ends.
    fn last_response(&mut self, response: Response, service: &Service) {
        self.closing = true;
        self.respond(
            response,
            Reply { version: Version::HTTP_11, keep_alive: false, head_only: false },
            service,
        );
    }

    /// Ends in a way that the peer gets the last answer: half-close, then read until it closes, too. A close with
    /// unread bytes in the socket would be a reset, which can overtake the answer (RFC 9112 9.6).
    fn close(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Result<Turn, Turn>> {
        if ready!(self.flush_or_wait(cx, connection)).is_err() {
            return Poll::Ready(Ok(Turn::Close));
        }
        if self.waiting != Waiting::Linger {
            if ready!(connection.poll_half_close(cx)).is_err() {
                return Poll::Ready(Ok(Turn::Close));
            }
            self.waiting = Waiting::Linger;
            self.moved = false;
        }
        loop {
            self.input.clear();
            match ready!(connection.poll_read(cx, self.input.spare())) {
                Ok(0) | Err(_) => return Poll::Ready(Ok(Turn::Close)),
                Ok(_) => {}
            }
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Result<(), Turn>> {
        if self.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let flushed = self.output.poll_flush(cx, connection);
        self.moved = true;
        match flushed {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Turn::Close)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn flush_or_wait(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Result<(), Turn>> {
        let flushed = self.flush(cx, connection);
        if flushed.is_pending() {
            self.waiting = Waiting::Write;
        }
        flushed
    }
}

fn poll_caught(answer: &mut Answer, cx: &mut Context<'_>) -> Poll<Result<Response, Box<dyn Any + Send>>> {
    match catch_unwind(AssertUnwindSafe(|| Pin::as_mut(answer).poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}

fn wire_error(service: &Service) -> Turn {
    service.counters.wire_errors.increment();
    Turn::Close
}

/// Output beyond this leaves before anything more is produced, so that a peer that sends and does not read costs this
/// much memory and no more.
const OUTPUT_HIGH_WATER_BYTES: usize = 64 * 1024;
