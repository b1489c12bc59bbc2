//! What ends a call, or all calls of a connection, before their responses: deadlines, resets, faults of the peer, and the
//! connection's loss.

use std::time::Instant;
use std::{io, mem};

use anywire_http::h2::{self, Code, GoAway, MessageError};
use slab::Slab;

use super::session::Session;
use super::stream::Stream;
use crate::call::job::{Job, Outcome, REFUSALS_MAX};
use crate::connection::download::Download;
use crate::connection::session::Life;
use crate::contained::drop_caught;
use crate::pool::context::LoopContext;
use crate::{Error, Phase};

impl Session {
    /// The calls that are on it, whose places are free from here. Dropping them may run the callers' code.
    pub(crate) fn take(&mut self) -> Slab<Stream> {
        self.life = Life::Over;
        self.unopened.drain(..).for_each(drop_caught);
        mem::take(&mut self.streams)
    }

    /// The peer may be gone without a word: the next call is better off on another connection.
    pub(super) fn leave_if_silent(&mut self, now: Instant, error: &Error) {
        if let Error::Timeout { phase, limit, .. } = error {
            let is_silent = now.saturating_duration_since(self.received_at) >= *limit;
            let is_stuck = *phase == Phase::Write && !self.link.output.is_empty();
            if is_silent || is_stuck {
                self.close_after_calls();
            }
        }
    }

    /// A stream has ended early: the peer has reset it, or its response is malformed.
    pub(super) fn was_reset(
        &mut self,
        place: usize,
        code: Code,
        why: Option<MessageError>,
        context: &LoopContext,
    ) {
        let stream = self.remove(place, code);
        if code == Code::REFUSED_STREAM && !stream.has_response() {
            return self.refuse(stream, code, context);
        }
        let error = self.reset_of(&stream, code, why);
        self.end(stream, error, context);
    }

    fn reset_of(&self, stream: &Stream, code: Code, why: Option<MessageError>) -> Error {
        let (phase, origin, sent) = (self.phase(stream), stream.job.request.origin(), stream.job.sent);
        match (why, &self.goaway) {
            // As over HTTP/1.
            (Some(MessageError::Limit(source)), _) => Error::Response { origin, source },
            (None, Some(said)) if code == Code::REFUSED_STREAM => {
                Error::GoAway { origin, phase, said: said.clone(), sent }
            }
            (why, _) => Error::Stream { origin, code, phase, sent, why },
        }
    }

    /// The peer ends the connection. A `GOAWAY` with an error is kept, whichever others come.
    pub(super) fn receive_goaway(&mut self, said: GoAway) {
        self.close_after_calls();
        if said.code != Code::NO_ERROR || self.goaway.as_ref().is_none_or(|said| said.code == Code::NO_ERROR)
        {
            self.goaway = Some(said);
        }
    }

    /// The peer has processed nothing of the request, so it may go out once more (RFC 9113 section 8.7).
    fn refuse(&mut self, mut stream: Stream, code: Code, context: &LoopContext) {
        // An earlier connection that died may have processed it.
        stream.job.sent &= stream.job.needs_fresh_connection;
        let finds_it_unsafe = self.goaway.as_ref().is_some_and(|said| said.code == Code::INADEQUATE_SECURITY);
        // Without TLS, it wants that.
        if finds_it_unsafe && stream.job.negotiated.is_none() {
            let origin = stream.job.request.origin();
            return self.end(stream, Error::SpeaksTls { origin }, context);
        }
        if stream.upload.is_repeatable() && stream.job.refusals < REFUSALS_MAX {
            stream.job.refusals += 1;
            return self.ended.push_back(Outcome::Resubmit(stream.into_job()));
        }
        if !stream.upload.is_repeatable() {
            context.cells.replays_lost.add(1);
        }
        let error = self.reset_of(&stream, code, None);
        self.end(stream, error, context);
    }

    /// Ends all calls, because the peer broke the protocol, or does not answer.
    pub(super) fn break_off(&mut self, source: h2::Error, context: &LoopContext) {
        let why =
            |job: &Job, phase| Error::Http2 { origin: job.request.origin(), phase, source, sent: job.sent };
        self.end_all(why, context);
    }

    /// Ends all calls, because the peer answers in TLS.
    pub(super) fn meet_tls(&mut self, context: &LoopContext) {
        self.end_all(|job, _| Error::SpeaksTls { origin: job.request.origin() }, context);
    }

    /// Ends all calls, because the client is closed.
    pub(crate) fn cut(&mut self, context: &LoopContext) {
        self.end_all(|job, _| Error::Shutdown { sent: job.sent }, context);
    }

    /// The connection is dead.
    pub(super) fn lose(&mut self, cause: Option<io::Error>, context: &LoopContext) {
        let cause = self.refused.take().or(cause);
        let places: Vec<_> = self.streams.iter().map(|(place, _)| place).collect();
        for place in places {
            let stream = &self.streams[place];
            if stream.may_resend() {
                let job = self.remove(place, Code::CANCEL).into_job();
                self.ended.push_back(Outcome::Resubmit(Job { needs_fresh_connection: true, ..job }));
                continue;
            }
            let error = lost(&stream.job, self.phase(stream), self.goaway.as_ref(), cause.as_ref());
            self.fail(place, error, context);
        }
        let goaway = self.goaway.clone();
        self.fail_unopened(|job| lost(job, Phase::Read, goaway.as_ref(), cause.as_ref()));
        self.life = Life::Over;
    }

    fn end_all(&mut self, why: impl Fn(&Job, Phase) -> Error, context: &LoopContext) {
        let places: Vec<_> = self.streams.iter().map(|(place, _)| place).collect();
        for place in places {
            let stream = &self.streams[place];
            let error = why(&stream.job, self.phase(stream));
            self.fail(place, error, context);
        }
        self.fail_unopened(|job| why(job, Phase::Read));
        self.life = Life::Over;
    }

    /// What a call was doing.
    fn phase(&self, stream: &Stream) -> Phase {
        // Its head has come.
        if !matches!(stream.download, Download::Awaited) {
            return Phase::Body;
        }
        let is_unsent = stream.ends_at > self.link.output.taken();
        if is_unsent || !stream.upload.is_done() { Phase::Write } else { Phase::Read }
    }

    /// Ends a call that was removed from the connection. Its caller gets the received part of the response. If that is all of
    /// it, the call succeeds: a peer may reset a stream behind its response, or close the connection (RFC 9113 section 8.1).
    pub(super) fn end(&mut self, mut stream: Stream, error: Error, context: &LoopContext) {
        let limits = &context.config().limits;
        self.ended.push_back(if stream.give_all(limits) {
            stream.download.finish(stream.job, limits)
        } else {
            let has_begun = stream.has_response();
            stream.download.fail(&mut stream.job, error, has_begun)
        });
    }
}

/// Why a call ends with its connection.
fn lost(job: &Job, phase: Phase, goaway: Option<&GoAway>, cause: Option<&io::Error>) -> Error {
    let (origin, sent) = (job.request.origin(), job.sent);
    match (goaway, cause) {
        // Having said that, a peer may close with bytes unread, which is a reset.
        (Some(said), cause) if cause.is_none() || said.code != Code::NO_ERROR => {
            Error::GoAway { origin, phase, said: said.clone(), sent }
        }
        (_, Some(source)) => Error::Io { origin, phase, source: copy_of(source), sent },
        (_, None) => Error::ClosedByPeer { origin, phase, sent },
    }
}

/// A copy of an error: each call gets one.
fn copy_of(error: &io::Error) -> io::Error {
    // A peer that refuses this end's certificate says so after the handshake (RFC 8446 section 4.4.2.4).
    #[cfg(feature = "tls")]
    if let Some(found) = anywire_wire::tls::HandshakeError::of(error) {
        return found.clone().into();
    }
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
