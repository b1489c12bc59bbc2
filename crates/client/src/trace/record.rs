//! What a trace has noted.

use std::time::{Duration, Instant};

use anywire_advice::Chain;
use anywire_http::{Method, StatusCode, Url};
use anywire_wire::{Address, DialLog};

use super::{Timeline, TracedAttempt, TracedConnection, TracedDial};
use crate::call::request::CallRequest;
use crate::{Error, Phase};

/// A call so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// None before it is sent.
    begun: Option<Instant>,
    pub(super) hop: usize,
    attempts: Vec<Attempt>,
}

/// One request that was to be sent.
#[derive(Debug)]
pub(super) struct Attempt {
    method: Method,
    url: Url,
    hop: usize,
    queued: Instant,
    pub(super) dial: Option<DialLog>,
    pub(super) acquired: Option<Instant>,
    /// Which one it is, its local and its remote end, and whether it speaks HTTP/2.
    pub(super) connection: Option<(u64, Address, Address, bool)>,
    pub(super) written: Option<Instant>,
    pub(super) first_byte: Option<Instant>,
    pub(super) interim: Vec<(StatusCode, Instant)>,
    pub(super) head: Option<(StatusCode, Instant)>,
    pub(super) ended: Option<Instant>,
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    phase: Option<Phase>,
    error: String,
}

impl Record {
    pub(super) fn new(begun: Instant) -> Self {
        Self { begun: Some(begun), ..Self::default() }
    }

    pub(super) fn attempt(&mut self, request: &CallRequest, queued: Instant) {
        self.begun.get_or_insert(queued);
        // An attempt before, on a connection that turned out dead, has ended here.
        self.change(|before| _ = before.ended.get_or_insert(queued));
        self.attempts.push(Attempt {
            method: request.method.clone(),
            url: request.url.clone(),
            hop: self.hop,
            queued,
            dial: None,
            acquired: None,
            connection: None,
            written: None,
            first_byte: None,
            interim: Vec::new(),
            head: None,
            ended: None,
            failed: None,
        });
    }

    /// Changes the attempt under way.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            change(attempt);
        }
    }

    pub(super) fn fail(&mut self, error: &Error, now: Instant) {
        self.change(|attempt| {
            attempt.ended = Some(now);
            attempt.failed = Some(Failed { phase: error.phase(), error: Chain(error).message().found });
        });
    }

    pub(super) fn timeline(&self, now: Instant) -> Timeline {
        let begun = self.begun.unwrap_or(now);
        let is_over = self.attempts.last().is_some_and(|last| last.ended.is_some());
        let end = self.attempts.last().and_then(|last| last.ended).unwrap_or(now);
        Timeline {
            elapsed: end.saturating_duration_since(begun),
            is_over,
            attempts: self.attempts.iter().map(|attempt| attempt.told(begun, now)).collect(),
        }
    }
}

impl Attempt {
    fn told(&self, begun: Instant, now: Instant) -> TracedAttempt {
        // What has happened before, such as a dial that was begun for another call, has cost this one nothing.
        let since = |at: Instant| at.saturating_duration_since(begun);
        let queued = since(self.queued);
        let of_attempt = |at: Instant| since(at).max(queued);
        let at = |at: Option<Instant>| -> Option<Duration> { at.map(of_attempt) };
        TracedAttempt {
            method: self.method.clone(),
            url: self.url.as_str().to_owned(),
            hop: self.hop,
            queued,
            dial: self.dial.as_ref().map(|log| TracedDial {
                begun: of_attempt(log.begun()),
                steps: log.steps().iter().map(|(step, at)| (*step, of_attempt(*at))).collect(),
            }),
            acquired: at(self.acquired),
            connection: self.connection.as_ref().map(|(id, local, peer, is_http2)| TracedConnection {
                id: *id,
                local: local.clone(),
                peer: peer.clone(),
                is_reused: self.dial.is_none(),
                is_http2: *is_http2,
            }),
            written: at(self.written),
            first_byte: at(self.first_byte),
            interim: self.interim.iter().map(|(status, at)| (*status, of_attempt(*at))).collect(),
            head: at(self.head.map(|(_, at)| at)),
            status: self.head.map(|(status, _)| status),
            ended: at(self.ended),
            until: of_attempt(self.ended.unwrap_or(now)),
            failed_in: self.failed.as_ref().and_then(|failed| failed.phase),
            error: self.failed.as_ref().map(|failed| failed.error.clone()),
        }
    }
}
