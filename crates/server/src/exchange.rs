//! A busy connection: requests are decoded, handlers run, answers leave in request order in as few writes as possible.
//!
//! One turn takes **every** complete request in the buffer, appends all answers to one output, and writes it once. A
//! handler that is not ready holds the requests behind it back (answers keep the order of the requests) but not the
//! answers before it.

mod reply;
mod upload;

use std::any::Any;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_http::h1::{DecodeError, Framing, RequestDecoder, RequestEvent};
use anywire_http::{Body, BodyError, Buffer, Method, RequestHead, Response, StatusCode, Version};
use anywire_wire::{Connection, Output};

use self::reply::Reply;
use self::upload::Upload;
use crate::lease::Kept;
use crate::limits::Limits;
use crate::request::Request;
use crate::respond::IntoResponse;
use crate::service::{Answer, Date, Routed, Service};

/// The working state of a connection between its first byte of a request and its last byte of an answer.
pub(crate) struct Exchange {
    input: Buffer,
    decoder: RequestDecoder,
    output: Output,
    /// The `Date` line as of this turn. Here, as each answer would have to borrow the service's.
    date: Date,
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
    pub(crate) context: &'t mut Option<Kept>,
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
    /// The body of an answer, which may be silent for as long as it likes.
    Stream,
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
            Self::Stream => Duration::MAX,
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

impl Exchange {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            // A head of the limit's size fits.
            input: Buffer::with_limit(
                limits.head.head_bytes.saturating_add(1).max(Buffer::DEFAULT_LIMIT_BYTES),
            ),
            decoder: RequestDecoder::new(limits.head),
            output: Output::new(),
            date: [0; _],
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
        self.date = link.service.date();
        loop {
            if !matches!(self.stage, Stage::Next) && self.answer(cx, link)?.is_pending() {
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
            let head = match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Head(head))) => Some(head),
                // Bodies are taken while their request is current, so none is left here.
                Ok(Some(_)) => continue,
                Ok(None) => None,
                Err(error) => {
                    link.service.counters.bad_requests.increment();
                    self.refuse(&error, link.service);
                    continue;
                }
            };
            if let Some(head) = head {
                self.begin(head, cx, link);
                continue;
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
            Waiting::Fresh | Waiting::Idle | Waiting::Linger | Waiting::Stream => return Some(Turn::Close),
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
                    let mut response = match answer.poll(cx) {
                        Ok(Poll::Ready(response)) => {
                            if let Stage::Handling(answer, _) =
                                std::mem::replace(&mut self.stage, Stage::Next)
                            {
                                *link.context = link.service.ended(answer);
                            }
                            response
                        }
                        Ok(Poll::Pending) => {
                            self.waiting = Waiting::Handler;
                            match self.upload(cx, link)? {
                                Poll::Ready(true) => continue,
                                Poll::Ready(false) => return self.watch(cx, link),
                                Poll::Pending => return Poll::Pending,
                            }
                        }
                        Err(panic) => {
                            self.stage = Stage::Next;
                            panicked(panic.as_ref(), link.service)
                        }
                    };
                    self.respond(&mut response, &reply, link.service);
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

    /// Looks, while the handler is at work and wants nothing, whether the peer is still there. One that has closed
    /// (or ended its direction, which cannot be told apart) takes the handler with it, as nobody would read its
    /// answer.
    fn watch(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        if self.upload.is_some() || !self.input.is_empty() {
            // What the peer has sent is still to be read, and so the end behind it.
            return Poll::Pending;
        }
        // No buffer is read into before there is something, as always.
        let read = match link.connection.poll_readable(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => 0,
            Poll::Ready(Ok(())) => ready!(self.fill(cx, link.connection)).unwrap_or(0),
        };
        if read == 0 {
            link.service.counters.abandoned.increment();
            return Poll::Ready(Err(Turn::Close));
        }
        Poll::Pending
    }

    /// Starts on a request whose head is complete.
    // Apart from `turn`, whose other states would take its registers.
    #[inline(never)]
    fn begin(&mut self, head: RequestHead, cx: &mut Context<'_>, link: &mut Link<'_>) {
        let service = link.service;
        service.counters.requests.increment();
        let reply = Reply {
            version: head.version(),
            keep_alive: head.keep_alive(),
            head_only: head.method() == Method::HEAD,
        };
        let content = self.content_of(&head, service);
        let (mut answer, params, context) = match service.route(&head, link) {
            Ok(Routed::Handler(answer, params, context)) => (answer, params, context),
            Ok(Routed::Response(mut response)) => return self.respond(&mut response, &reply, service),
            Err(panic) => return self.respond(&mut panicked(panic.as_ref(), service), &reply, service),
        };
        match &mut answer.start(Request::new(head, content, params, context), cx) {
            Ok(Poll::Ready(response)) => {
                *link.context = service.ended(answer);
                self.respond(response, &reply, service);
            }
            Ok(Poll::Pending) => self.stage = Stage::Handling(answer, reply),
            Err(panic) => self.respond(&mut panicked(panic.as_ref(), service), &reply, service),
        }
    }

    /// Answers a request that cannot be understood; nothing after it can be, either.
    fn refuse(&mut self, error: &DecodeError, service: &Service) {
        self.last_response((error.status(), error.to_string()).into_response(), service);
    }

    /// An answer after which the connection ends.
    fn last_response(&mut self, mut response: Response, service: &Service) {
        self.closing = true;
        // A deadline may have passed between two turns.
        self.date = service.date();
        let reply = Reply { version: Version::HTTP_11, keep_alive: false, head_only: false };
        self.respond(&mut response, &reply, service);
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

/// What answers for a handler that panicked; everything else goes on.
#[cold]
fn panicked(panic: &(dyn Any + Send), service: &Service) -> Response {
    service.counters.panics.increment();
    tracing::error!(panic = panic_text(panic), "a handler panicked");
    (StatusCode::INTERNAL_SERVER_ERROR, "the server failed to answer this request").into_response()
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
