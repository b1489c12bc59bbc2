//! The deadlines of a busy connection: for what it waits between two polls, and what happens if that takes too long.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_http::{BodyError, StatusCode};
use anywire_wire::Connection;

use super::session::{Closing, Session, Stage};
use crate::context::Peer;
use crate::driver::connection::{End, unsent};
use crate::driver::timers::{Expired, Waits};
use crate::driver::upload::Upload;
use crate::observe::ExchangeEnd;
use crate::refusal::{Refusal, RefusalKind};
use crate::service::Service;

impl Session {
    /// Counts the time since the last poll.
    #[inline(never)]
    pub(crate) fn time_passes(&mut self, now: Instant) {
        self.timers.count(now);
    }

    /// Starts to wait. Returns the time until the first deadline, if there is one.
    pub(crate) fn wait(&mut self, now: Instant, service: &Service) -> Option<Duration> {
        self.timers.wait(self.waits(), now, service.limits_of(self.request.endpoint))
    }

    /// Whether the connection waits for the rest of its first head and for nothing else.
    pub(crate) fn waits_for_first_head(&self) -> bool {
        !self.begun && self.waits() == Waits::HEAD
    }

    fn waits(&self) -> Waits {
        // All output was offered to the wire. The rest waits for the peer to take it.
        let write = !self.output.is_empty();
        let body = self.upload.as_ref().is_some_and(Upload::waits_for_peer);
        let half_closed = self.input_ended && !write;
        let none = Waits { write, ..Waits::default() };
        match self.stage {
            Stage::Next => Waits { head: !write, ..none },
            Stage::Handling(_) => Waits { handler: !body, body, half_closed, ..none },
            // Behind a response that is silent for long, no request could be answered.
            Stage::Streaming { .. } => {
                Waits { body, half_closed: half_closed || self.is_blind() && !write, ..none }
            }
            Stage::Discarding(_) => Waits { body: !write, ..none },
            Stage::Switching(_) => none,
        }
    }

    /// Acts on the first deadline that has passed. Returns true if the session is to be polled again, for
    /// example to send a 408.
    pub(crate) fn expire(
        &mut self,
        connection: &Connection,
        peer: &mut Option<Arc<Peer>>,
        service: &Service,
    ) -> ControlFlow<End, bool> {
        let limits = service.limits_of(self.request.endpoint);
        self.timers.look(|| unsent(connection), limits);
        let Some(expired) = self.timers.expired(limits) else { return Continue(false) };
        if expired == Expired::HalfClosed && !self.input_ended {
            self.discard_input();
            return Continue(true);
        }
        expired.count(&service.counters);
        match expired {
            Expired::Head => self.refuse_late_head(connection, service),
            Expired::Handler => {
                self.upload = None;
                if let Stage::Handling(run) = std::mem::replace(&mut self.stage, Stage::Next) {
                    self.last_response(run.time_out(peer), service);
                }
            }
            Expired::BodySilent | Expired::BodySlow => self.give_up_body(),
            Expired::WriteSilent | Expired::WriteSlow => {
                self.end_exchanges(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
            Expired::HalfClosed => {
                // A reset tells the peer that a response it has begun to read is not whole.
                let streams = matches!(self.stage, Stage::Streaming { .. });
                self.closing = if streams { Closing::ByReset } else { Closing::Gracefully };
                self.exchange.take().end_by(ExchangeEnd::HalfCloseTimeout);
                self.drop_stage(service);
                self.upload = None;
            }
        }
        Continue(true)
    }

    /// Answers a head that is not complete in time.
    pub(crate) fn refuse_late_head(&mut self, connection: &Connection, service: &Service) {
        service.counters.head_timeouts.increment();
        let text = "the request's head did not come in time";
        let refusal = Refusal::new(RefusalKind::HeadTimeout, StatusCode::REQUEST_TIMEOUT, text);
        self.refuse_by(&refusal, connection, service);
    }

    /// Stops waiting for the rest of a body.
    fn give_up_body(&mut self) {
        if matches!(self.stage, Stage::Discarding(_)) {
            // The response has left already.
            self.stage = Stage::Next;
            self.closing = Closing::Gracefully;
        } else {
            self.end_upload(BodyError::Timeout);
        }
    }
}
