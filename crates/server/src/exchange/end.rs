//! How a connection ends: the peer leaves, or the last answer has been given.

use std::task::{Context, Poll, ready};

use super::{Exchange, Link, Stage, Turn};

impl Exchange {
    /// Looks, while the handler is at work and wants nothing, whether the peer is still there.
    ///
    /// A reset ends the handler at once. An end of input does not tell whether the peer has left or waits for its answer:
    /// the handler is told, and has [`Limits::half_close_deadline`](crate::Limits) to answer.
    pub(super) fn watch(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<(), Turn>> {
        // The end of input lies behind the bytes before it, so those are read ahead. The buffer is allocated already.
        while !self.input_ended && self.input.len() < READ_AHEAD_BYTES {
            // Readiness is asked for first: a read that finds nothing costs a system call.
            let read = match ready!(link.connection.poll_readable(cx)) {
                Ok(()) => ready!(self.fill(cx, link.connection)),
                Err(error) => Err(error),
            };
            match read {
                Ok(read) if self.upload.is_some() => self.timers.received_early(read, &link.service.limits),
                Ok(_) => {}
                Err(_) => {
                    link.service.counters.abandoned.increment();
                    return Poll::Ready(Err(Turn::Close));
                }
            }
        }
        // Seen here, or in the midst of a body.
        if self.input_ended
            && self.gone.is_none()
            && let Stage::Handling(answer, _) = &self.stage
        {
            self.gone = Some(link.service.peer_gone(answer));
        }
        Poll::Pending
    }

    /// Ends in a way that the peer gets the last answer: half-close, then read until it closes, too. A close with
    /// unread bytes in the socket would be a reset, which can overtake the answer (RFC 9112 9.6).
    pub(super) fn close(&mut self, cx: &mut Context<'_>, link: &mut Link<'_>) -> Poll<Result<Turn, Turn>> {
        ready!(self.flush(cx, link))?;
        if self.resetting {
            return Poll::Ready(Ok(Turn::Abort));
        }
        if !matches!(self.stage, Stage::Lingering) {
            if ready!(link.connection.poll_half_close(cx)).is_err() {
                return Poll::Ready(Ok(Turn::Close));
            }
            self.stage = Stage::Lingering;
        }
        loop {
            self.input.clear();
            if self.input_ended {
                return Poll::Ready(Ok(Turn::Close));
            }
            if ready!(self.fill(cx, link.connection)).is_err() {
                return Poll::Ready(Ok(Turn::Close));
            }
        }
    }
}

/// Bytes read ahead while a handler works. Less than the initial size of the buffer, so it does not grow.
const READ_AHEAD_BYTES: usize = 8 * 1024;
