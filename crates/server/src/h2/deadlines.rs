//! The deadlines of the connection itself.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, Instant};

use anywire_loops::clock::after;
use anywire_wire::Connection;

use super::session::Session;
use crate::connection::{End, unsent};
use crate::observe::ExchangeEnd;
use crate::service::Service;
use crate::timers::{Expired, Waits};

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

    /// The connection waits from now on. Returns when that will have lasted so long, if it does.
    fn wait(&mut self, now: Instant, limit: Duration) -> Option<Instant> {
        if *self == Self::FromNextWait {
            *self = Self::Since(now);
        }
        self.until(limit)
    }

    fn until(self, limit: Duration) -> Option<Instant> {
        if let Self::Since(since) = self { Some(after(since, limit)) } else { None }
    }

    fn is_over(self, now: Instant, limit: Duration) -> bool {
        self.until(limit).is_some_and(|until| now >= until)
    }
}

impl Session {
    /// Counts the time since the last poll.
    pub(crate) fn time_passes(&mut self, now: Instant) {
        self.timers.count(now);
    }

    /// Starts to wait. Returns the time until the first deadline, if there is one.
    pub(crate) fn wait(&mut self, now: Instant, service: &Service) -> Option<Duration> {
        let streams = self.exchanges.wait(now, self.input_ended, service);
        let write = !self.exchanges.link.output.is_empty();
        let waits = Waits { write, linger: self.is_closing() && !write, ..Waits::default() };
        let own = self.timers.wait(waits, now, &service.limits);
        let idle = self.idle.wait(now, service.limits.idle_timeout);
        let partial = self.partial.wait(now, service.limits.head_timeout);
        let while_open = [self.engine_deadline(), idle, partial, streams];
        let others = while_open.into_iter().flatten().filter(|_| !self.is_closing());
        own.into_iter().chain(others.map(|at| at.saturating_duration_since(now))).min()
    }

    /// When the engine wants to know the time. A peer that has ended its direction acknowledges nothing more.
    fn engine_deadline(&self) -> Option<Instant> {
        self.exchanges.link.engine.next_deadline().filter(|_| !self.input_ended)
    }

    /// Acts on deadlines that had passed when the last poll began. One that has passed since waits for the next poll, which
    /// looks first at what has come meanwhile. Returns true if the session is to be polled again.
    pub(crate) fn expire(&mut self, connection: &Connection, service: &Service) -> ControlFlow<End, bool> {
        self.timers.look(|| unsent(connection), &service.limits);
        match self.timers.expired(&service.limits) {
            Some(Expired::WriteSilent) => {
                service.counters.write_timeouts.increment();
                self.exchanges.end_by(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
            Some(Expired::WriteSlow) => {
                service.counters.slow_readers.increment();
                self.exchanges.end_by(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
            Some(Expired::Linger) => {
                service.counters.linger_timeouts.increment();
                return Break(End::Close);
            }
            _ => {}
        }
        let Some(now) = self.polled_at.filter(|_| !self.is_closing()) else { return Continue(false) };
        let mut acted = true;
        // Before the engine's: a peer whose preface drips acknowledges no settings either, and both deadlines pass together.
        if self.partial.is_over(now, service.limits.head_timeout) {
            service.counters.head_timeouts.increment();
            self.exchanges.abandon(service);
            self.leave();
        } else if self.engine_deadline().is_some_and(|at| at <= now) {
            if let Err(error) = self.exchanges.link.advance(now) {
                self.fail(error, service);
            }
        } else if self.idle.is_over(now, service.limits.idle_timeout) {
            service.counters.idle_timeouts.increment();
            self.leave();
        } else {
            acted = false;
        }
        acted |= self.exchanges.expire(now, service);
        Continue(acted)
    }

    /// Tells the peer that the connection ends, and ends it.
    fn leave(&mut self) {
        self.exchanges.link.leave();
        self.begin_close();
    }
}
