//! A busy connection: requests are decoded, handlers run, answers leave in request order in as few writes as possible.
//!
//! One turn takes **every** complete request in the buffer, appends all answers to one output, and writes it once. A
//! handler that is not ready holds the requests behind it back (answers keep the order of the requests) but not the
//! answers before it.

mod end;
mod patience;
mod reply;
mod timers;
mod upload;

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anywire_http::h1::{DecodeError, Framing, HeadInfo, RequestDecoder, RequestEvent};
use anywire_http::{Body, Buffer, Method, RequestHead, Response};
use anywire_wire::{Connection, Output};

use self::reply::Reply;
use self::timers::Timers;
use self::upload::Upload;
use crate::lease::{Gone, Kept};
use crate::limits::Limits;
use crate::request::Request;
use crate::respond::told_to_peer;
use crate::service::{Answer, Date, Routed, Service};
use anywire_http::IntoResponse;

/// The working state of a connection between its first byte of a request and its last byte of an answer.
pub(crate) struct Exchange {
    input: Buffer,
    decoder: RequestDecoder,
    output: Output,
    /// The `Date` line as of this turn. Here, as each answer would have to borrow the service's.
    date: Date,
    stage: Stage,
    /// A request has begun since the connection was accepted or idle.
    begun: bool,
    /// Where the body of the current request goes while somebody reads it.
    upload: Option<Upload>,
    /// The offset in the output at which the current answer begins, as long as none of the answer has left.
    unsent_from: Option<usize>,
    /// No further request is taken; once the output is gone the connection ends.
    closing: bool,
    /// The connection ends by a reset, to tell the peer that the last answer is not whole.
    resetting: bool,
    /// The peer has ended its direction: there is nothing more to read.
    input_ended: bool,
    /// Keeps the news that the peer has ended its direction, for as long as handlers may ask.
    gone: Option<Rc<Gone>>,
    timers: Timers,
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
    /// As `Idle`, but there was no request: only empty lines have come, which renew no deadline.
    Nothing,
    /// Done: close.
    Close,
    /// Broken, or cut: reset.
    Abort,
}

/// How far the current request is.
enum Stage {
    /// No request: the next head is decoded.
    Next,
    /// Its handler runs.
    Handling(Answer, Reply),
    /// Its answer's body streams.
    Streaming { body: Body, framing: Framing, left: u64, reply: Reply },
    /// Its answer is written; the rest of its body is read and thrown away, up to so many bytes.
    Discarding(u64),
    /// The last answer has left and our direction has ended. Input is discarded until the peer closes.
    Lingering,
}

impl Exchange {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            // A head of the limit's size fits.
            input: Buffer::with_limit(limits.head.bytes.saturating_add(1).max(Buffer::DEFAULT_LIMIT_BYTES)),
            decoder: RequestDecoder::new(limits.head.into()),
            output: Output::new(),
            date: [0; _],
            stage: Stage::Next,
            begun: false,
            upload: None,
            unsent_from: None,
            closing: false,
            resetting: false,
            input_ended: false,
            gone: None,
            timers: Timers::default(),
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
            self.input_ended = read == 0;
        }
        Poll::Ready(read)
    }

    /// Does all that can be done now.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<Turn, Turn>> {
        self.date = link.service.date();
        loop {
            if !matches!(self.stage, Stage::Next) && self.answer(cx, link)?.is_pending() {
                // Answers that are ready do not wait for the one that is not.
                let _ = self.flush(cx, link)?;
                return Poll::Pending;
            }
            if self.closing {
                return self.close(cx, link);
            }
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES {
                ready!(self.flush(cx, link))?;
            }
            let head = match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Head(head, info))) => Some((head, info)),
                // Bodies are taken while their request is current, so none is left here.
                Ok(Some(_)) => continue,
                Ok(None) => None,
                Err(error) => {
                    link.service.counters.bad_requests.increment();
                    self.refuse(&error, link.service);
                    continue;
                }
            };
            if let Some((head, info)) = head {
                self.begin(head, info, cx, link);
                continue;
            }
            ready!(self.flush(cx, link))?;
            if self.input_ended {
                // Every request is answered. Half a head is no request.
                return Poll::Ready(Ok(Turn::Close));
            }
            if self.input.is_empty() && (self.decoder.is_idle() || self.decoder.forget_blank_lines()) {
                self.timers.reset();
                let begun = std::mem::take(&mut self.begun);
                return Poll::Ready(Ok(if begun { Turn::Idle } else { Turn::Nothing }));
            }
            ready!(self.fill(cx, link.connection)).map_err(|_| wire_error(link.service))?;
        }
    }

    /// Works on the current request. Ready when there is none any more; an error ends the connection.
    fn answer(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        loop {
            match &mut self.stage {
                Stage::Next | Stage::Lingering => return Poll::Ready(Ok(())),
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
                        Ok(Poll::Pending) => match self.upload(cx, link)? {
                            Poll::Ready(true) => continue,
                            Poll::Ready(false) => return self.watch(cx, link),
                            Poll::Pending => return Poll::Pending,
                        },
                        Err(panic) => {
                            let endpoint = answer.endpoint();
                            self.stage = Stage::Next;
                            link.service.panicked(endpoint, panic)
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

    /// Starts on a request whose head is complete.
    // Apart from `turn`, whose other states would take its registers.
    #[inline(never)]
    fn begin(&mut self, head: RequestHead, info: HeadInfo, cx: &mut Context<'_>, link: &mut Link<'_>) {
        let service = link.service;
        service.counters.requests.increment();
        self.begun = true;
        self.timers.begin_request();
        let mut reply = Reply {
            endpoint: None,
            version: head.version(),
            keep_alive: info.keep_alive,
            head_only: head.method() == Method::HEAD,
        };
        let content = self.content_of(info, service);
        let (mut answer, params, context) = match service.route(&head, link) {
            Routed::Handler(answer, params, context) => (answer, params, context),
            Routed::Response(mut response) => {
                // `respond` decides what to do with an unread body, and has to see that nobody reads it.
                drop(content);
                return self.respond(&mut response, &reply, service);
            }
        };
        let endpoint = answer.endpoint();
        reply.endpoint = Some(endpoint);
        match &mut answer.start(Request::new(head, content, params, context), cx) {
            Ok(Poll::Ready(response)) => {
                *link.context = service.ended(answer);
                self.respond(response, &reply, service);
            }
            Ok(Poll::Pending) => {
                if self.input_ended {
                    self.gone = Some(service.peer_gone(&answer));
                }
                self.stage = Stage::Handling(answer, reply);
            }
            Err(panic) => {
                // Its request is dropped with it: see above.
                drop(answer);
                let panic = std::mem::replace(panic, Box::new(()));
                self.respond(&mut service.panicked(endpoint, panic), &reply, service);
            }
        }
    }

    /// Answers a request that cannot be understood; nothing after it can be, either.
    fn refuse(&mut self, error: &DecodeError, service: &Service) {
        let (status, cause) = (error.status(), error.to_string());
        tracing::debug!(status = status.as_u16(), cause, "a request cannot be read");
        let response = (status, told_to_peer(cause)).into_response();
        self.last_response(response, Reply::OF_NOTHING, service);
    }

    /// An answer after which the connection ends.
    fn last_response(&mut self, mut response: Response, reply: Reply, service: &Service) {
        self.closing = true;
        // A deadline may have passed between two turns.
        self.date = service.date();
        self.respond(&mut response, &reply, service);
    }

    /// Writes as much of the output as the wire takes. Ready once all of it has left.
    #[inline]
    fn flush(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        let waiting = self.output.len();
        if waiting == 0 {
            return Poll::Ready(Ok(()));
        }
        match self.output.poll_flush(cx, link.connection) {
            Poll::Ready(Ok(())) if !self.timers.is_used() && self.unsent_from.is_none() => {
                Poll::Ready(Ok(()))
            }
            flushed => {
                self.wrote(waiting - self.output.len(), link.service);
                flushed.map_err(|_| wire_error(link.service))
            }
        }
    }

    /// Records that a part of the output has left.
    #[inline(never)]
    fn wrote(&mut self, bytes: usize, service: &Service) {
        self.unsent_from = self.unsent_from.and_then(|begins_at| begins_at.checked_sub(bytes));
        self.timers.wrote(bytes, &service.limits);
    }
}

fn wire_error(service: &Service) -> Turn {
    service.counters.wire_errors.increment();
    Turn::Close
}

/// Output beyond this leaves before anything more is produced, so that a peer that sends and does not read costs this
/// much memory and no more.
const OUTPUT_HIGH_WATER_BYTES: usize = 64 * 1024;
