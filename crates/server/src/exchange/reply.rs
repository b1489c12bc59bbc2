//! Answers on their way out: one head and one body, or a head and a stream.

use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use anywire_http::h1::{Framing, encode};
use anywire_http::{BodyError, Response, StatusCode, Version};

use super::{Exchange, Link, OUTPUT_HIGH_WATER_BYTES, Stage, Turn};
use crate::respond::FAILED;
use crate::router::EndpointId;
use crate::service::{Ending, Service};
use anywire_http::IntoResponse;

/// What the answer has to know of the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    /// The handler that answers; `None` for the router and the connection itself.
    pub(super) endpoint: Option<EndpointId>,
    pub(super) version: Version,
    pub(super) keep_alive: bool,
    pub(super) head_only: bool,
}

impl Reply {
    /// Answers what is no request, or only the beginning of one.
    pub(super) const OF_NOTHING: Self =
        Self { endpoint: None, version: Version::HTTP_11, keep_alive: false, head_only: false };
}

/// Whether an answer can be sent as it is, as nearly all can: a final status, a body or none, nothing to log.
#[inline]
fn is_plain(response: &Response) -> bool {
    response.fault().is_none()
        && response.cause().is_none()
        && response.status.as_u16() >= 200
        && response.body.stated_length().is_none()
}

impl Exchange {
    /// Writes the head of an answer, and its body if it is whole. Takes the body and leaves the rest to its owner, as a
    /// response is eight words that would have to be moved here.
    pub(super) fn respond(&mut self, response: &mut Response, reply: &Reply, service: &Service) {
        if !is_plain(response) {
            cold_path();
            service.vet(reply.endpoint, response, reply.head_only);
        }
        let mut keep_alive = reply.keep_alive && !self.closing && service.ending() == Ending::No;
        if self.upload.is_some() {
            // A body that is not sent is not read either, though it may be the request's own.
            let streams = response.body.as_full().is_none()
                && !response.body.is_empty()
                && !reply.head_only
                && !encode::forbids_body(response.status);
            keep_alive &= self.can_keep_upload(streams, service);
        }
        let begins_at = self.output.len();
        let parts = encode::ResponseParts {
            status: response.status,
            headers: &response.headers,
            framing: Framing::of_response(&response.body),
            stated_length: response.body.stated_length(),
            version: reply.version,
            keep_alive,
            answers_head: reply.head_only,
            date: Some(&self.date),
        };
        let commitment = encode::response_head(self.output.buffer(), &parts);
        self.closing |= !commitment.keep_alive;
        // Framing of nothing: a body that may not be sent, or an empty one.
        if !commitment.framing.is_empty()
            && !response.body.as_full().is_some_and(|whole| self.output.push_few(whole))
        {
            let body = std::mem::take(&mut response.body);
            let left = body.length().unwrap_or(u64::MAX);
            match body.into_full() {
                Ok(whole) => self.output.push_bytes(whole),
                Err(body) => {
                    self.stage = Stage::Streaming { body, framing: commitment.framing, left, reply: *reply };
                    self.unsent_from = Some(begins_at);
                    return;
                }
            }
        }
        self.leave_upload(service);
    }

    /// The answer is written as far as this request is concerned; what of the request's body is unread?
    #[inline]
    fn leave_upload(&mut self, service: &Service) {
        if self.upload.is_some() {
            self.upload = None;
            if !self.closing {
                self.stage = Stage::Discarding(service.limits.drain_bytes);
            }
        }
    }

    /// Moves a streaming body into the output, with back-pressure from the wire.
    pub(super) fn stream(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        loop {
            if self.output.len() >= OUTPUT_HIGH_WATER_BYTES && self.flush(cx, link)?.is_pending() {
                return Poll::Pending;
            }
            let Stage::Streaming { body, framing, left, reply } = &mut self.stage else {
                return Poll::Ready(Ok(()));
            };
            let polled = match catch_unwind(AssertUnwindSafe(|| body.poll_chunk(cx))) {
                Ok(polled) => polled,
                Err(panic) => {
                    link.service.note_panic(reply.endpoint, panic);
                    self.break_off(link.service);
                    return Poll::Ready(Ok(()));
                }
            };
            let Poll::Ready(chunk) = polled else {
                // A body that echoes what it reads needs the request's body to go on.
                return match self.upload(cx, link)? {
                    Poll::Ready(true) => continue,
                    Poll::Ready(false) => self.watch(cx, link),
                    Poll::Pending => Poll::Pending,
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
                        let why = BodyError::failed("it is longer than the length that it stated");
                        link.service.body_failed(reply.endpoint, &why);
                        self.break_off(link.service);
                        return Poll::Ready(Ok(()));
                    };
                    *left = rest;
                    self.output.push_bytes(chunk);
                }
                Ok(None) => {
                    match framing {
                        Framing::Chunked => encode::last_chunk(self.output.buffer(), body.trailers()),
                        Framing::Length(_) if *left > 0 => {
                            let why = BodyError::failed("it is shorter than the length that it stated");
                            link.service.body_failed(reply.endpoint, &why);
                            self.break_off(link.service);
                            return Poll::Ready(Ok(()));
                        }
                        _ => {}
                    }
                    self.stage = Stage::Next;
                    self.leave_upload(link.service);
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    link.service.body_failed(reply.endpoint, &error);
                    self.break_off(link.service);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Handles a body of an answer that broke off. If none of the answer has left, an error status replaces it. Otherwise
    /// the connection ends where the answer broke off.
    fn break_off(&mut self, service: &Service) {
        let Stage::Streaming { framing, reply, .. } = std::mem::replace(&mut self.stage, Stage::Next) else {
            return;
        };
        let Some(begins_at) = self.unsent_from.take() else {
            self.upload = None;
            self.closing = true;
            // Without length or chunks, a plain close would make the part look whole.
            self.resetting = framing == Framing::UntilClose;
            return;
        };
        self.output.truncate(begins_at);
        let mut response = match self.upload_fault() {
            Some(status) => status.into(),
            None => (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response(),
        };
        self.respond(&mut response, &reply, service);
    }
}
