//! The bytes of a connection that calls share: requests out, responses in, until the connection has none of either.

use std::task::{Context, Poll};

use anywire_http::{StatusCode, Version};
use anywire_wire::Connection;

use super::line::Part;
use super::session::Session;
use crate::Error;
use crate::call::job::Outcome;
use crate::connection::download::{Download, Pieces};
use crate::connection::h1::{self, is_tls_alert};
use crate::connection::io::Io;
use crate::connection::session::Life;
use crate::connection::watchdog::Watchdog;
use crate::pool::context::LoopContext;

impl Session {
    /// Writes as much of the output as the wire takes.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, wire: &mut Connection, context: &LoopContext) {
        if self.output.is_empty() {
            return;
        }
        let (before, unsent) = (self.output.taken(), self.output.unsent());
        let waiting = self.output.len();
        let flushed = self.output.poll_flush(cx, wire);
        context.sent(waiting - self.output.len());
        let taken = self.output.taken();
        if taken > before || self.output.unsent() < unsent {
            for stands in self.line.iter_mut().filter(|stands| stands.ends_at > before) {
                stands.call.job.sent |= taken > stands.begins_at;
                stands.call.watchdog.peer_took();
                if taken >= stands.ends_at
                    && let Some(seen) = stands.call.job.seen()
                {
                    seen.written();
                }
            }
        }
        if let Poll::Ready(Err(error)) = flushed {
            self.refused = Some(error);
            self.life = self.life.max(Life::Closing);
            self.output.clear();
        }
    }

    /// Takes the responses out of the input, as far as they are there and have readers with room.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, context: &LoopContext) {
        let (limits, taken, before) = (&context.config().limits, self.output.taken(), self.line.len());
        let ended = self.ended.len();
        let mut has_come = false;
        self.is_held_up = false;
        while let Some(input) = &mut self.input {
            if let Some(due) = self.line.due() {
                // Without input there may still be the end, which needs no room.
                let room = if input.is_empty() { Poll::Ready(Ok(())) } else { due.download.poll_room(cx) };
                match room {
                    Poll::Ready(Ok(())) => {}
                    Poll::Pending => {
                        self.is_held_up = true;
                        return;
                    }
                    Poll::Ready(Err(())) => {
                        self.leave(0);
                        continue;
                    }
                }
                if !self.used && due.download.is_awaited() && is_tls_alert(input.data()) {
                    let error = Error::SpeaksTls { origin: due.job.request.origin() };
                    return self.break_off(error, context);
                }
            }
            let part = self.line.next(input, taken);
            has_come |= matches!(part, Ok(Some(_)));
            match part {
                Ok(None) => break,
                Ok(Some(Part::Interim(call, head))) => {
                    call.interim += 1;
                    if call.interim > limits.interim_responses {
                        context.cells.too_many_interim.add(1);
                        let (origin, count) = (call.job.request.origin(), call.interim);
                        return self.break_off(Error::Interim { origin, count }, context);
                    }
                    if let Some(seen) = call.job.seen() {
                        seen.first_byte();
                    }
                    call.job.informed(&head);
                }
                Ok(Some(Part::Head(call, head, _))) if head.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    if let Some(seen) = call.job.seen() {
                        seen.head(&head);
                    }
                    let error = Error::Switched { origin: call.job.request.origin() };
                    return self.break_off(error, context);
                }
                Ok(Some(Part::Head(call, head, info))) => {
                    if let Some(seen) = call.job.seen() {
                        seen.first_byte();
                        seen.head(&head);
                    }
                    let reuse = h1::may_reuse(&head, &call.job.request, context);
                    call.proves = info.keep_alive && head.version() == Version::HTTP_11;
                    if reuse.is_none() {
                        self.life = self.life.max(Life::Closing);
                    }
                    self.idle = reuse.unwrap_or_default();
                    let length = info.framing.length();
                    call.download = Download::Here { head, length, body: Pieces::default(), trailers: None };
                }
                Ok(Some(Part::Data(call, data))) => {
                    if let Some(seen) = call.job.seen() {
                        seen.received(data.len());
                    }
                    call.download.data(data);
                }
                Ok(Some(Part::Trailers(call, fields))) => call.download.trailers(fields),
                Ok(Some(Part::Whole(call))) => {
                    self.used = true;
                    self.is_proven |= call.proves;
                    self.ended.push_back(call.download.finish(call.job, limits));
                }
                Err(broken) => return self.broken(broken, context),
            }
        }
        if self.line.is_over() {
            // The peer acts on none of the requests behind (RFC 9112 section 9.6).
            return self.displace_all(context);
        }
        if let Some(due) = self.line.due()
            && due.download.hand_out(&mut due.job, None, limits).is_err()
        {
            self.leave(0);
        }
        self.close_if_unwanted();
        if has_come || self.line.len() < before {
            self.peer_gave(Watchdog::peer_gave);
        }
        if self.line.len() < before && self.ended.len() == ended {
            // There are slots, though no call has ended.
            self.ended.push_back(Outcome::Nothing);
        }
    }

    /// The peer has answered, which is no silence for these calls.
    pub(super) fn peer_gave(&mut self, progress: fn(&mut Watchdog)) {
        self.line.iter_mut().for_each(|stands| progress(&mut stands.call.watchdog));
    }

    /// Whether the reader of the response that is due asks for more than was read.
    pub(super) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.line.due() else { return true };
        match due.download.poll_wanted(cx) {
            Poll::Pending => {
                self.is_held_up = true;
                false
            }
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(())) => {
                self.leave(0);
                self.close_if_unwanted();
                // Another turn, without waiting for the wire.
                cx.waker().wake_by_ref();
                false
            }
        }
    }

    /// If nothing is left to do, the connection is idle from here, or over.
    pub(super) fn rest_if_empty(&mut self, io: &Io, context: &LoopContext) {
        if !self.line.is_empty() || self.life == Life::Over {
            return;
        }
        self.timer_at = None;
        let is_clean = self.input.take().is_none_or(|input| input.is_empty()) && self.output.is_empty();
        if self.life == Life::Closing || !is_clean || !io.rest(self.idle, context) {
            self.life = Life::Over;
        }
    }
}
