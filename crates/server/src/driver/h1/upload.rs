//! The body of a request on its way to the handler: read when the handler asks for it, and not before.

use std::ops::ControlFlow::Continue;
use std::task::{Context, Poll};

use anywire_http::h1::{Framing, RequestEvent, encode};
use anywire_http::{Body, BodyError};
use bytes::Bytes;

use super::session::{Closing, Session, Stage, Step};
use crate::driver::connection::Env;
use crate::driver::upload::Upload;
use crate::service::Service;

impl Session {
    /// The body of the current request, if it has one.
    #[inline]
    pub(super) fn body(&mut self, service: &Service) -> Option<Body> {
        match self.request.info.framing {
            Framing::None => None,
            _ => Some(self.body_framed(service)),
        }
    }

    /// A body: whole if it is in the buffer already, else a stream that reads when it is read.
    #[inline(never)]
    fn body_framed(&mut self, service: &Service) -> Body {
        let info = self.request.info;
        if let Framing::Length(length) = info.framing
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
        self.timers.received_early(self.input.len(), &service.limits);
        let (sender, body) = Body::channel(service.limits.body_in_flight_bytes);
        self.upload = Some(Upload::new(sender, info.expects_continue));
        match info.framing.length() {
            Some(length) => body.with_length(length),
            None => body,
        }
    }

    /// Brings the peer's body to its reader, as far as the reader asks for it. Returns true if bytes came, so that the
    /// handler is to be polled again, and false if the reader asks for none.
    pub(super) fn upload(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step<bool> {
        let mut moved = false;
        loop {
            let Some(upload) = &mut self.upload else { return Continue(Poll::Ready(moved)) };
            let Some(sender) = upload.poll_wanted(cx) else { return Continue(Poll::Ready(moved)) };
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Data(data))) => {
                    self.exchange.received(data.len());
                    // There is room, and a reader that has gone meanwhile shows at the next look.
                    let _ = sender.try_send(Bytes::copy_from_slice(data));
                    upload.take_continue();
                    moved = true;
                }
                Ok(Some(RequestEvent::Trailers(trailers))) => sender.trailers(trailers),
                Ok(Some(RequestEvent::End | RequestEvent::Head(..))) => {
                    upload.finish(None);
                    self.upload = None;
                    return Continue(Poll::Ready(true));
                }
                Ok(None) if self.input_ended => {
                    self.end_upload(BodyError::Incomplete);
                    return Continue(Poll::Ready(true));
                }
                Ok(None) => {
                    if upload.take_continue() && self.input.is_empty() {
                        encode::continue_100(self.output.buffer());
                    }
                    if self.flush(cx, env)?.is_pending() {
                        return Continue(Poll::Pending);
                    }
                    match self.read(cx, env)? {
                        Poll::Ready(read) => {
                            self.timers.received(read, env.service.limits_of(self.request.endpoint));
                        }
                        Poll::Pending if moved => return Continue(Poll::Ready(true)),
                        Poll::Pending => {
                            self.upload.iter_mut().for_each(Upload::lack_data);
                            return Continue(Poll::Pending);
                        }
                    }
                }
                Err(error) => {
                    env.service.counters.bad_requests.increment();
                    tracing::debug!(%error, "a request body is malformed");
                    self.end_upload(error.into());
                    return Continue(Poll::Ready(true));
                }
            }
        }
    }

    /// The body ends before its time: its reader is told, and the connection closes after the response.
    pub(super) fn end_upload(&mut self, why: BodyError) {
        self.closing = Closing::Gracefully;
        if let Some(upload) = &mut self.upload {
            upload.abort(why);
        }
    }

    /// Whether the connection can stay open although the request's body has not been read to its end. Decided before the
    /// response's head is written, because the head has to say so. `reads_on`: the response's content may be made of the rest.
    #[cold]
    pub(super) fn can_keep_upload(&mut self, reads_on: bool, service: &Service) -> bool {
        let Some(upload) = &mut self.upload else { return true };
        let has_begun = !self.input.is_empty();
        if reads_on && !upload.is_abandoned() {
            // The handler reads on while it answers. A 100 has to stand before the response.
            if upload.take_continue() && !has_begun {
                encode::continue_100(self.output.buffer());
            }
            return true;
        }
        if upload.awaits_continue() && !has_begun {
            // The peer may send the body or the next request, and nothing tells them apart.
            return false;
        }
        match self.decoder.body_left() {
            Some(left) => left <= service.limits.drain_bytes,
            None => self.ends_in_buffer(service.limits.drain_bytes),
        }
    }

    /// Discards the received bytes of a body of unknown length, up to a limit. Returns whether the body ends with them.
    fn ends_in_buffer(&mut self, mut allowed: u64) -> bool {
        loop {
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Data(data))) => match allowed.checked_sub(data.len() as u64) {
                    Some(left) => allowed = left,
                    None => return false,
                },
                Ok(Some(RequestEvent::Trailers(_))) => {}
                Ok(Some(RequestEvent::End | RequestEvent::Head(..))) => {
                    self.upload = None;
                    return true;
                }
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// Reads the rest of a body that the handler did not read, to keep the connection.
    pub(super) fn discard(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        loop {
            let Stage::Discarding(allowed) = &mut self.stage else { return Continue(Poll::Ready(())) };
            match self.decoder.decode(&mut self.input) {
                Ok(Some(RequestEvent::Data(data))) => {
                    let Some(left) = allowed.checked_sub(data.len() as u64) else { break };
                    *allowed = left;
                }
                Ok(Some(RequestEvent::Trailers(_))) => {}
                Ok(Some(RequestEvent::End | RequestEvent::Head(..))) => {
                    self.stage = Stage::Next;
                    return Continue(Poll::Ready(()));
                }
                Ok(None) if self.input_ended => break,
                Ok(None) => {
                    // The response leaves first: a peer may wait for it before it sends on.
                    if self.flush(cx, env)?.is_pending() {
                        return Continue(Poll::Pending);
                    }
                    let Poll::Ready(read) = self.read(cx, env)? else { return Continue(Poll::Pending) };
                    self.timers.received(read, env.service.limits_of(self.request.endpoint));
                }
                Err(_) => break,
            }
        }
        self.stage = Stage::Next;
        self.closing = Closing::Gracefully;
        Continue(Poll::Ready(()))
    }
}
