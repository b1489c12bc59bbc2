//! How a session ends: the peer leaves, breaks the rules or stays silent, or a request has waited too long.

use std::task::{Context, Poll};
use std::time::Instant;

use anywire_advice::Message;
use anywire_http::Fault;
use anywire_http::h2::{Code, Error};
use anywire_loops::clock::{after, precise};
use anywire_mux::Streams;

use super::{Call, Session};
use crate::engine::h1::{Ending, broke};
use crate::errors::{ErrorKind, over_limit};
use crate::text::counted;

impl Session {
    /// The peer will send nothing more.
    #[cold]
    pub(super) fn end_of_stream(&mut self) -> Ending {
        let said = match &self.goaway {
            // That is the fault, and has been counted.
            Some(said) if said.code != Code::NO_ERROR => return self.over(),
            _ if self.calls.is_empty() => return self.over(),
            // The rest of its requests was to be answered (RFC 9113 section 6.8).
            Some(said) => format!(", having said GOAWAY: {said}"),
            None => String::new(),
        };
        if self.is_within_answer() {
            return self.fail(ErrorKind::Read, format!("the server closed inside an answer{said}"));
        }
        let unanswered = counted(self.calls.len() as u64, "request");
        self.fail(ErrorKind::Close, format!("the server closed with {unanswered} unanswered{said}"))
    }

    /// Whether a response has begun to come.
    fn is_within_answer(&self) -> bool {
        self.calls.values().any(|call| call.bytes > 0) || self.link.engine.is_within_head()
    }

    /// The connection breaks.
    #[cold]
    pub(super) fn breaks(&mut self, error: &std::io::Error) -> Ending {
        if self.goaway.as_ref().is_some_and(|said| said.code != Code::NO_ERROR) {
            // That is the fault, and has been counted: what the peer throws away then breaks the connection.
            return self.over();
        }
        self.fail(ErrorKind::Read, broke(self.is_within_answer(), error))
    }

    /// The connection has ended as the peer had said, or in order.
    pub(super) fn over(&mut self) -> Ending {
        self.lose();
        match &self.goaway {
            Some(said) if said.code != Code::NO_ERROR => Ending::Failed,
            _ => Ending::Closed,
        }
    }

    /// The peer breaks the rules of the protocol, or a limit.
    #[cold]
    pub(super) fn broken(&mut self, error: Error) -> Ending {
        let message = if error == Error::SpeaksHttp1 {
            "the server answered in HTTP/1: does it take HTTP/2 without TLS, by prior knowledge?".into()
        } else if error.fault() == Fault::Limit {
            over_limit(&error)
        } else {
            Message::read(format_args!("the server breaks the rules of HTTP/2: {error}"))
        };
        let kind = if matches!(error, Error::Silent { .. }) { ErrorKind::Timeout } else { ErrorKind::Parse };
        self.fail(kind, message)
    }

    /// Whether a request has waited too long, or the peer has not allowed any.
    pub(super) fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        while self.deadline.poll_expired(context).is_ready() {
            let (now, timeout) = (precise(), self.tally.plan.timeout);
            if let Err(error) = self.link.advance(now) {
                return Poll::Ready(self.broken(error));
            }
            if self.held_up.is_some_and(|since| now >= after(since, timeout)) {
                let message = format!("the server allowed no stream within {} ms", timeout.as_millis());
                return Poll::Ready(self.fail(ErrorKind::Refused, message));
            }
            if self.time_out(now) && now.saturating_duration_since(self.received_at) >= timeout {
                self.lose();
                self.connection.abort();
                return Poll::Ready(Ending::Failed);
            }
            let oldest = self.calls.values().map(Call::waiting_since).chain(self.held_up).min();
            let next = after(oldest.unwrap_or(now), timeout);
            let next = self.link.engine.next_deadline().into_iter().chain([next]).min().unwrap_or(next);
            self.deadline.set_at(next);
            // The places of streams that ended are free.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Ends the streams that have waited too long. Whether there were any.
    fn time_out(&mut self, now: Instant) -> bool {
        let timeout = self.tally.plan.timeout;
        let Self { link, tally, calls, script, .. } = self;
        let before = calls.len();
        calls.retain(|id, call| {
            let age = now.saturating_duration_since(call.waiting_since());
            if age < timeout {
                return true;
            }
            if let (Some(script), Some(call)) = (script.as_mut(), &call.scripted) {
                script.lost(call);
            }
            tally.timed_out(&call.batch, now, 1);
            link.reset(*id, Code::CANCEL);
            false
        });
        calls.len() < before
    }

    /// Ends the session with an error, which counts where the oldest request does.
    #[cold]
    pub(super) fn fail(&mut self, kind: ErrorKind, message: impl Into<Message>) -> Ending {
        self.tally.error(self.is_measured(), kind, || message);
        self.lose();
        Ending::Failed
    }

    /// Whether what concerns the whole connection belongs to the measured part.
    pub(super) fn is_measured(&self) -> bool {
        self.tally
            .is_of_measured(self.calls.values().map(|call| &call.batch).min_by_key(|batch| batch.sent_at))
    }

    /// Counts the requests in flight as lost with the connection.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.tally.lose(self.calls.drain().map(|(_, call)| call.batch));
    }
}
