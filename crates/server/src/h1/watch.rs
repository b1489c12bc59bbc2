//! How a peer that leaves is noticed.

use std::ops::ControlFlow::{Break, Continue};
use std::task::{Context, Poll};

use super::session::{Exit, Session, Stage, Step};
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
}

/// Bytes read ahead while a handler works. Less than the initial size of the buffer, so it does not grow.
const READ_AHEAD_BYTES: usize = 8 * 1024;
