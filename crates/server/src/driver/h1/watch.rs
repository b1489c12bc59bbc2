//! How a peer that leaves is noticed.

use std::ops::ControlFlow::{Break, Continue};
use std::task::{Context, Poll};

use super::session::{Closing, Exit, Session, Stage, Step};
use crate::driver::connection::{End, Env};
use crate::driver::upload::Upload;

impl Session {
    /// Looks whether the peer is still there while the handler works and reads nothing.
    ///
    /// A reset ends the handler at once. An end of input does not tell whether the peer has left or waits for its
    /// response: the handler is told, and has [`Limits::half_close_timeout`](crate::Limits) to answer.
    ///
    /// The end of input lies behind unread bytes, so those are read ahead, up to a limit. While the limit is reached, nothing of the
    /// peer is seen ([`is_blind`](Self::is_blind)).
    pub(super) fn watch(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> Step {
        // Their buffer is allocated already.
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
                // No request behind this one is taken any more.
                Poll::Ready(Ok(_)) if self.closing != Closing::No => self.input.clear(),
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

    /// Whether a streaming response would not notice that its peer leaves, because as much as is read ahead stands behind its
    /// request. A body that its reader may still ask for has to stay where it is.
    pub(super) fn is_blind(&self) -> bool {
        self.input.len() >= READ_AHEAD_BYTES && self.upload.as_ref().is_none_or(Upload::is_abandoned)
    }

    /// Discards what stands behind the current request, so that the peer can be watched again. The connection ends with the response.
    #[cold]
    pub(super) fn discard_input(&mut self) {
        self.closing = Closing::Gracefully;
        self.upload = None;
        self.input.clear();
        self.timers.begin_half_closed();
    }
}

/// Bytes read ahead while a handler works. Less than the initial size of the buffer, so it does not grow.
const READ_AHEAD_BYTES: usize = 8 * 1024;
