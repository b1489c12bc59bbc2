//! The deadlines of a connection and of its streams. A stream that is late ends alone.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, Instant};

use anywire_http::BodyError;
use anywire_http::h2::{Code, StreamId};
use anywire_loops::clock::{after, precise};
use anywire_mux::Streams;
use anywire_wire::Connection;

use super::session::{Parts, Session};
use super::stream::Stage;
use super::upload::Upload;
use crate::connection::End;
use crate::observe::ExchangeEnd;
use crate::service::Service;
use crate::timers::{Expired, Waits};

impl Session {
    /// Counts the time since the last poll.
    pub(crate) fn time_passes(&mut self, now: Instant) {
        self.timers.count(now);
    }

    /// Starts to wait. Returns the time until the first deadline, if there is one.
    pub(crate) fn wait(&mut self, now: Instant, service: &Service) -> Option<Duration> {
        let keeps_waiting = self.link.keeps_peer_waiting();
        if std::mem::replace(&mut self.keeps_waiting, keeps_waiting) != keeps_waiting {
            // What each upload waits for is another.
            for (id, stream) in &mut self.streams {
                stream.timers.count(now);
                self.changed.push(*id);
            }
        }
        while let Some(id) = self.changed.pop() {
            self.wait_stream(id, now, service);
        }
        let write = !self.link.output.is_empty();
        let waits = Waits { write, linger: self.is_closing() && !write, ..Waits::default() };
        let own = self.timers.wait(waits, now, &service.limits);
        // From here, because handlers that ran in this poll may have taken long.
        let since = |begun: bool, since: Option<Instant>| begun.then(|| since.unwrap_or(now));
        self.idle_since = since(self.is_resting, self.idle_since);
        self.partial_since = since(self.has_part, self.partial_since);
        let idle = self.idle_since.map(|since| after(since, service.limits.idle_timeout));
        let partial = self.partial_since.map(|since| after(since, service.limits.head_timeout));
        let while_open = [self.engine_deadline(), idle, partial, self.earliest];
        let others = while_open.into_iter().flatten().filter(|_| !self.is_closing());
        own.into_iter().chain(others.map(|at| at.saturating_duration_since(now))).min()
    }

    /// When the engine wants to know the time. A peer that has ended its direction acknowledges nothing more.
    fn engine_deadline(&self) -> Option<Instant> {
        self.link.engine.next_deadline().filter(|_| !self.input_ended)
    }

    /// Sets what a stream waits for.
    fn wait_stream(&mut self, id: StreamId, now: Instant, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // While our own window is closed, it is the handlers that keep the body waiting.
        let lacks_body = stream.upload.as_ref().is_some_and(|upload| upload.waits_for_peer());
        let body = lacks_body && !self.keeps_waiting;
        let handler = matches!(stream.stage, Stage::Handling(_)) && !body;
        let half_closed = self.input_ended;
        // The peer reads this stream too slowly. Whether it reads at all is for the connection. One that has ended its direction
        // opens no window any more.
        let write = self.link.is_blocked(id) && !half_closed;
        let waits = match stream.is_tunnel() {
            // The deadlines of HTTP have ended with it.
            true => Waits { half_closed, ..Waits::default() },
            false => Waits { handler, body, write, half_closed, ..Waits::default() },
        };
        let limits = service.limits_of(stream.endpoint);
        stream.deadline = stream.timers.wait(waits, now, limits).map(|left| after(now, left));
        self.earliest = self.earliest.into_iter().chain(stream.deadline).min();
    }

    /// Acts on deadlines that had passed when the last poll began. One that has passed since waits for the next poll, which
    /// looks first at what has come meanwhile. Returns true if the session is to be polled again.
    pub(crate) fn expire(&mut self, connection: &Connection, service: &Service) -> ControlFlow<End, bool> {
        self.timers.look(connection, &service.limits);
        match self.timers.expired(&service.limits) {
            Some(Expired::WriteSilent) => {
                service.counters.write_timeouts.increment();
                self.end_exchanges(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
            Some(Expired::WriteSlow) => {
                service.counters.slow_readers.increment();
                self.end_exchanges(ExchangeEnd::PeerSlow);
                return Break(End::Abort);
            }
            Some(Expired::Linger) => {
                service.counters.linger_timeouts.increment();
                return Break(End::Close);
            }
            _ => {}
        }
        let Some(now) = self.polled_at.filter(|_| !self.is_closing()) else { return Continue(false) };
        let mut acted = false;
        // Before the engine's: a peer whose preface drips acknowledges no settings either, and both deadlines pass together.
        if self.partial_since.is_some_and(|since| now >= after(since, service.limits.head_timeout)) {
            service.counters.head_timeouts.increment();
            self.abandon(service);
            self.leave();
            acted = true;
        } else if self.engine_deadline().is_some_and(|at| at <= now) {
            acted = true;
            if let Err(error) = self.link.advance(now) {
                self.fail(error, service);
            }
        } else if self.idle_since.is_some_and(|since| now >= after(since, service.limits.idle_timeout)) {
            service.counters.idle_timeouts.increment();
            self.leave();
            acted = true;
        }
        if self.earliest.is_some_and(|at| at <= now) {
            acted |= self.expire_streams(now, service);
        }
        Continue(acted)
    }

    /// Tells the peer that the connection ends, and ends it.
    fn leave(&mut self) {
        self.link.leave();
        self.begin_close();
    }

    fn expire_streams(&mut self, now: Instant, service: &Service) -> bool {
        let late = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let ids: Vec<_> =
            self.streams.iter().filter(|(_, stream)| late(stream.deadline)).map(|(id, _)| *id).collect();
        let acted = !ids.is_empty();
        for id in ids {
            self.expire_stream(id, service);
        }
        self.earliest = self.streams.values().filter_map(|stream| stream.deadline).min();
        acted
    }

    fn expire_stream(&mut self, id: StreamId, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (counters, limits) = (&service.counters, service.limits_of(stream.endpoint));
        self.changed.push(id);
        stream.timers.count(precise());
        match stream.timers.expired(limits) {
            Some(Expired::Handler) => {
                let Stage::Handling(run) = std::mem::replace(&mut stream.stage, Stage::Done) else { return };
                let parts = &mut Parts { link: &mut self.link, date: &self.date, service };
                let endpoint = stream.endpoint;
                if let Some(upload) = stream.upload.take() {
                    parts.link.discarded(id, upload.into_unread());
                }
                stream.stage = Self::respond(
                    parts,
                    id,
                    &mut run.time_out(&mut stream.context),
                    &mut stream.asks,
                    endpoint,
                    &mut stream.exchange,
                );
                if matches!(stream.stage, Stage::Done) {
                    self.finish(id, service);
                } else {
                    self.go_on(id, service);
                }
            }
            // A reader in a task of its own has turned to something else since, and waits for nothing.
            Some(Expired::BodySilent | Expired::BodySlow)
                if !stream.upload.as_ref().is_some_and(Upload::waits_for_peer) => {}
            Some(expired @ (Expired::BodySilent | Expired::BodySlow)) => {
                let slow = expired == Expired::BodySlow;
                if slow { &counters.slow_bodies } else { &counters.body_timeouts }.increment();
                if let Some(upload) = &mut stream.upload {
                    upload.abort(BodyError::Timeout);
                }
            }
            Some(Expired::HalfClosed) => {
                counters.half_close_timeouts.increment();
                self.drop_stream(id, Code::CANCEL, ExchangeEnd::HalfCloseTimeout, service);
            }
            Some(Expired::WriteSilent) => {
                counters.write_timeouts.increment();
                self.drop_stream(id, Code::CANCEL, ExchangeEnd::PeerSlow, service);
            }
            Some(Expired::WriteSlow) => {
                counters.slow_readers.increment();
                self.drop_stream(id, Code::CANCEL, ExchangeEnd::PeerSlow, service);
            }
            _ => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.timers.looked(None, limits);
                }
            }
        }
    }
}
