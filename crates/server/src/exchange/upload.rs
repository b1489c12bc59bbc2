//! The body of a request on its way to the handler: read when the handler asks for it, and not before.

use std::task::{Context, Poll};

use anywire_http::body::Sender;
use anywire_http::h1::{Framing, RequestEvent, encode};
use anywire_http::{Body, BodyError, RequestHead};
use bytes::Bytes;

use super::{Exchange, Link, Stage, Turn, Waiting, wire_error};
use crate::request::Content;
use crate::service::Service;

/// A request body on its way to whoever reads it.
pub(super) struct Upload {
    /// `None` once the reader is gone.
    pub(super) sender: Option<Sender>,
    pub(super) framing: Framing,
    /// The peer waits for `100 Continue` before it sends the body.
    pub(super) awaits_continue: bool,
}

impl Upload {
    /// Nobody will read the rest. (The reader may still be at it when the answer begins: an echo is both.)
    pub(super) fn is_abandoned(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_closed)
    }
}

impl Exchange {
    /// What a request has of a body.
    #[inline]
    pub(super) fn content_of(&mut self, head: &RequestHead, service: &Service) -> Content {
        match head.framing() {
            Framing::None => Content::Nothing,
            framing => Content::Body(self.body_of(head, framing, service)),
        }
    }

    /// A body: whole if it is in the buffer already, else a stream that reads when it is read.
    #[inline(never)]
    fn body_of(&mut self, head: &RequestHead, framing: Framing, service: &Service) -> Body {
        if let Framing::Length(length) = framing
            && length <= self.input.len() as u64
        {
            let mut whole = Bytes::new();
            // All of it is one piece of data, and then the end.
            while let Ok(Some(RequestEvent::Data(data))) = self.decoder.decode(&mut self.input) {
                whole = Bytes::copy_from_slice(data);
            }
            debug_assert_eq!(whole.len() as u64, length);
            return whole.into();
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
    pub(super) fn upload(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<bool, Turn>> {
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
    pub(super) fn discard(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
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
}
