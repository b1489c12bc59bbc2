//! Bodies that wait until the peer asks for them by a 100 (RFC 9110 section 10.1.1).

use std::time::Instant;

use anywire_http::h2::Code;
use anywire_mux::Streams;

use super::session::Session;
use crate::call::job::Outcome;

impl Session {
    /// Sends the body of a stream that waits for a 100.
    pub(super) fn send_body(&mut self, place: usize) {
        let stream = &mut self.streams[place];
        if !std::mem::take(&mut stream.awaits_continue) {
            return;
        }
        stream.watchdog.stop_awaiting_continue();
        if stream.upload.is_streaming() {
            self.schedule.poll_soon(place);
        } else {
            self.link.wants_to_send(stream.id, true);
        }
        self.schedule.dirty.push(place);
    }

    /// Sends the bodies that have waited long enough for a 100.
    pub(super) fn send_bodies_not_asked_for(&mut self, now: Instant) {
        let is_late =
            |stream: &super::stream::Stream| stream.awaits_continue && stream.watchdog.is_continue_late(now);
        let late: Vec<_> =
            self.streams.iter().filter(|(_, stream)| is_late(stream)).map(|(place, _)| place).collect();
        late.into_iter().for_each(|place| self.send_body(place));
    }

    /// The peer does not know the expectation (RFC 9110 section 15.5.18): the call goes out once more, without it.
    pub(super) fn send_without_expectation(&mut self, place: usize) {
        let mut job = self.remove(place, Code::CANCEL).into_job();
        job.request.options.expect_continue = None;
        self.ended.push_back(Outcome::Resubmit(job));
    }
}
