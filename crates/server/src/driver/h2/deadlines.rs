//! The deadlines of the connection itself.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, Instant};

use anywire_loops::clock::{after, precise};
use anywire_wire::Connection;

use super::session::Session;
use crate::driver::connection::{End, unsent};
use crate::driver::timers::Waits;
use crate::limits::Limits;
use crate::observe::ExchangeEnd;
use crate::service::Service;

/// How long something has lasted, as of the first wait: handlers that ran in the poll before that may have taken long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasting {
    No,
    FromNextWait,
    Since(Instant),
}

impl Lasting {
    /// It begins, unless it lasts already.
    pub(super) fn begin(&mut self) {
        if *self == Self::No {
            *self = Self::FromNextWait;
        }
    }

    /// The connection waits from now on.
    fn wait(&mut self, now: Instant) {
        if *self == Self::FromNextWait {
            *self = Self::Since(now);
        }
    }

    /// When that has lasted too long.
    fn until(self, limit: Duration) -> Option<Instant> {
        if let Self::Since(since) = self { Some(after(since, limit)) } else { None }
    }
}

impl Session {
    /// Counts the time since the last poll. Most peers have taken all output, and then no clock is read.
    pub(crate) fn time_passes(&mut self) {
        if let Some(timers) = &mut self.timers {
            timers.count(precise());
        }
    }

    /// Starts to wait. Returns the time until the first deadline, if there is one.
    pub(crate) fn wait(&mut self, now: Instant, service: &Service) -> Option<Duration> {
        let streams = self.exchanges.wait(now, self.input_ended, service);
        let write = !self.exchanges.link.output.is_empty();
        let waits = Waits { write, ..Waits::default() };
        debug_assert!(!write || self.timers.is_some(), "output waits, and no flush of it was pending");
        let own = self.timers.as_mut().and_then(|timers| timers.wait(waits, now, &service.limits));
        self.idle.wait(now);
        self.partial.wait(now);
        let [partial, engine, idle] = self.deadlines(service);
        let while_open = [partial, engine, idle, streams];
        let others = while_open.into_iter().flatten().filter(|_| !self.is_closing);
        own.into_iter().chain(others.map(|at| at.saturating_duration_since(now))).min()
    }

    /// When a head is late, the engine wants to know the time, and it has been idle for too long.
    fn deadlines(&self, service: &Service) -> [Option<Instant>; 3] {
        // A peer that has ended its direction acknowledges nothing more.
        let engine = self.exchanges.link.engine.next_deadline().filter(|_| !self.input_ended);
        let Limits { head_timeout, idle_timeout, .. } = service.limits;
        [self.partial.until(head_timeout), engine, self.idle.until(idle_timeout)]
    }

    /// Acts on deadlines that had passed when the last poll began. One that has passed since waits for the next poll, which
    /// looks first at what has come meanwhile. Returns true if the session is to be polled again.
    pub(crate) fn expire(&mut self, connection: &Connection, service: &Service) -> ControlFlow<End, bool> {
        if let Some(timers) = &mut self.timers {
            timers.look(|| unsent(connection), &service.limits);
            // Nothing but the peer's reading is waited for here.
            if let Some(expired) = timers.expired(&service.limits) {
                expired.count(&service.counters);
                self.exchanges.end_by(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
        }
        let Some(now) = self.polled_at.filter(|_| !self.is_closing) else { return Continue(false) };
        let mut acted = true;
        let has_passed = self.deadlines(service).map(|deadline| deadline.is_some_and(|at| at <= now));
        let [is_head_late, has_engine, is_idle_too_long] = has_passed;
        // Before the engine's: a peer whose preface drips acknowledges no settings either, and both deadlines pass together.
        if is_head_late {
            service.counters.head_timeouts.increment();
            self.exchanges.abandon(service);
            self.go_away();
        } else if has_engine {
            if let Err(error) = self.exchanges.link.advance(now) {
                self.fail(error, service);
            }
        } else if is_idle_too_long {
            service.counters.idle_timeouts.increment();
            self.go_away();
        } else {
            acted = false;
        }
        acted |= self.exchanges.expire(now, service);
        Continue(acted)
    }

    /// Tells the peer that the connection ends, and ends it.
    fn go_away(&mut self) {
        self.exchanges.link.go_away();
        self.is_closing = true;
    }
}
