//! How a connection ends: the peer leaves, or the last response has been written.

use std::ops::ControlFlow::{self, Break, Continue};
use std::task::{Context, Poll};

use super::session::{Closing, Exit, Session, Stage, Step};
use crate::connection::{End, Env};

impl Session {
    /// Looks whether the peer is still there while the handler works and reads nothing.
    ///
    /// A reset ends the handler at once. An end of input does not tell whether the peer has left or waits for its
    /// response: the handler is told, and has [`Limits::half_close_timeout`](crate::Limits) to answer.
    pub(super) fn watch(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        // The end of input lies behind unread bytes, so those are read ahead. Their buffer is allocated already.
        while !self.input_ended && self.input.len() < READ_AHEAD_BYTES {
            // Readiness comes first: a read that finds nothing costs a system call.
            let read = match env.connection.poll_readable(cx) {
                Poll::Ready(Ok(())) => self.fill(cx, env.connection),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            };
            match read {
                Poll::Ready(Ok(read)) if self.upload.is_some() => {
                    let limits = env.service.limits_of(self.request.endpoint);
                    self.timers.received_early(read, limits);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => {
                    env.service.counters.abandoned.increment();
                    return Break(Exit::Over(End::Close));
                }
                Poll::Pending => return Continue(Poll::Pending),
            }
        }
        // The end was seen here, or within a body.
        if self.input_ended
            && self.gone.is_none()
            && let Stage::Handling(run) = &self.stage
        {
            self.gone = Some(run.peer_gone());
        }
        Continue(Poll::Pending)
    }

    /// Ends so that the peer gets the last response: half-close, then read until the peer closes, too. A close with
    /// unread bytes in the socket would be a reset, which can overtake the response (RFC 9112 9.6).
    pub(super) fn close(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<Exit> {
        if self.flush(cx, env)?.is_pending() {
            return Continue(());
        }
        if self.closing == Closing::ByReset {
            return Break(Exit::Over(End::Abort));
        }
        if !matches!(self.stage, Stage::Lingering) {
            match env.connection.poll_half_close(cx) {
                Poll::Ready(Ok(())) => self.stage = Stage::Lingering,
                Poll::Ready(Err(_)) => return Break(Exit::Over(End::Close)),
                Poll::Pending => return Continue(()),
            }
        }
        while !self.input_ended {
            self.input.clear();
            match self.fill(cx, env.connection) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => break,
                Poll::Pending => return Continue(()),
            }
        }
        Break(Exit::Over(End::Close))
    }
}

/// Bytes read ahead while a handler works. Less than the initial size of the buffer, so it does not grow.
const READ_AHEAD_BYTES: usize = 8 * 1024;
