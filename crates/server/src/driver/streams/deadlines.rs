//! The deadlines of streams. A stream that is late ends alone.

use std::mem;
use std::time::Instant;

use anywire_http::BodyError;
use anywire_http::h2::Code;
use anywire_loops::clock::{after, precise};
use anywire_mux::Streams;

use super::exchanges::Exchanges;
use super::respond::Responder;
use super::stream::Stage;
use crate::dispatch::Answer;
use crate::driver::timers::{Expired, Waits};
use crate::driver::upload::Upload;
use crate::observe::ExchangeEnd;
use crate::service::Service;

impl<S: Streams> Exchanges<S> {
    /// Starts to wait. Returns when the first deadline of a stream passes, if there is one. `half_closed`: the peer has ended its
    /// direction.
    pub(crate) fn wait(&mut self, now: Instant, half_closed: bool, service: &Service) -> Option<Instant> {
        let keeps_waiting = self.link.keeps_peer_waiting();
        let is_closed = self.link.is_window_closed();
        // While output waits for the peer to read, that is the concern of the connection.
        let owes = half_closed && self.link.has_left();
        // All are replaced.
        let changed = (mem::replace(&mut self.schedule.keeps_peer_waiting, keeps_waiting) != keeps_waiting)
            | (mem::replace(&mut self.schedule.is_window_closed, is_closed) != is_closed)
            | (mem::replace(&mut self.schedule.owes_responses, owes) != owes);
        if changed {
            // Each stream waits for something else now.
            for (id, stream) in &mut self.streams {
                stream.timers.count(now);
                self.schedule.dirty.push(*id);
            }
        }
        while let Some(id) = self.schedule.dirty.pop() {
            self.wait_stream(id, now, half_closed, service);
        }
        self.schedule.deadline
    }

    /// Sets what a stream waits for.
    fn wait_stream(&mut self, id: S::Id, now: Instant, half_closed: bool, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // While our own window is closed, the handlers keep the body waiting.
        let lacks_body = stream.upload.as_ref().is_some_and(Upload::waits_for_peer);
        let body = lacks_body && !self.schedule.keeps_peer_waiting;
        let handler = matches!(stream.stage, Stage::Handling(_)) && !body;
        // Whether the peer reads this stream. Whether it reads at all is the connection's concern. A peer that has ended its
        // direction opens no window.
        let is_blocked = self.link.is_blocked(id);
        let write = is_blocked && !half_closed;
        let half_closed = self.schedule.owes_responses || half_closed && is_blocked;
        let waits = match stream.is_tunnel() {
            // The deadlines of HTTP have ended with it.
            true => Waits { half_closed, ..Waits::default() },
            false => Waits { handler, body, write, half_closed, ..Waits::default() },
        };
        if !stream.timers.waits_for_write() {
            stream.counted_bytes = self.schedule.sent_bytes;
        }
        let limits = service.limits_of(stream.endpoint);
        stream.deadline = stream.timers.wait(waits, now, limits).map(|left| after(now, left));
        self.schedule.set_deadline(stream.deadline);
    }

    /// Acts on deadlines that had passed at `now`. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant, service: &Service) -> bool {
        if !self.schedule.is_late(now) {
            return false;
        }
        let late = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let ids: Vec<_> =
            self.streams.iter().filter(|(_, stream)| late(stream.deadline)).map(|(id, _)| *id).collect();
        let acted = !ids.is_empty();
        for id in ids {
            self.expire_stream(id, service);
        }
        self.schedule.deadline = self.streams.values().filter_map(|stream| stream.deadline).min();
        acted
    }

    fn expire_stream(&mut self, id: S::Id, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let limits = service.limits_of(stream.endpoint);
        self.schedule.dirty.push(id);
        stream.timers.count(precise());
        // The peer opens a window that all streams share, and our order says whose turn it is: what others have sent meanwhile
        // was taken as well.
        let sent = self.schedule.sent_bytes;
        let shared = sent.wrapping_sub(mem::replace(&mut stream.counted_bytes, sent));
        if stream.timers.waits_for_write() && self.link.has_window(id) {
            stream.timers.shared(u64::from(shared), limits);
        }
        let Some(expired) = stream.timers.expired(limits) else { return stream.timers.looked(None, limits) };
        let is_of_body = matches!(expired, Expired::BodySilent | Expired::BodySlow);
        // A reader in its own task may have stopped waiting since.
        if is_of_body && !stream.upload.as_ref().is_some_and(Upload::waits_for_peer) {
            return;
        }
        expired.count(&service.counters);
        match expired {
            Expired::Handler => self.time_out(id, service),
            Expired::BodySilent | Expired::BodySlow => {
                stream.upload.iter_mut().for_each(|upload| upload.abort(BodyError::Timeout));
            }
            Expired::HalfClosed => self.end_early(id, Code::CANCEL, ExchangeEnd::HalfCloseTimeout, service),
            Expired::Head | Expired::WriteSilent | Expired::WriteSlow => {
                self.end_early(id, Code::CANCEL, ExchangeEnd::PeerSlow, service);
            }
        }
    }

    /// Cancels the handler of a stream, and responds in its place.
    fn time_out(&mut self, id: S::Id, service: &Service) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Stage::Handling(invocation) = mem::replace(&mut stream.stage, Stage::Done) else { return };
        if stream.upload.take().is_some() {
            self.link.discarded(id, stream.incoming.clear());
        }
        let mut response = invocation.time_out(&mut stream.peer);
        let mut responder = Responder { link: &mut self.link, date: &self.date, service };
        let (reply, exchange) = (&mut stream.reply, &mut stream.exchange);
        let answer = Answer::message(&mut response, stream.endpoint);
        stream.stage = responder.respond(id, answer, reply, None, exchange, &stream.waker);
        if matches!(stream.stage, Stage::Done) {
            self.finish(id, service);
        } else {
            self.go_on(id, service);
        }
    }
}
