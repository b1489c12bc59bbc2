//! What a trace tells.

use std::time::Duration;

use anywire_http::{Method, StatusCode};
use anywire_wire::{Address, DialStep};

use crate::Phase;

/// Where the time of a call went. All times are counted from its begin. Its text has a line for each phase,
/// one for what was before an attempt (pauses, interceptors), and one for all if there were several.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Timeline {
    /// From the begin of the call to its end, or until now: its attempts, the pauses of [retries](crate::Retries) between them, and
    /// what interceptors take.
    pub elapsed: Duration,
    /// Whether its last attempt is over: the body has come to its end, or there is an error.
    pub is_over: bool,
    /// What was sent, or was to be sent, one after the other: more than one with [retries](crate::Retries) and
    /// [redirects](crate::Redirects), and if a connection turned out dead.
    pub attempts: Vec<TracedAttempt>,
}

/// One request of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TracedAttempt {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: String,
    /// How many redirects were followed before.
    pub hop: usize,
    /// When it was given to a loop.
    pub queued: Duration,
    /// How its connection was made. `None`: it was there, or there is none yet.
    pub dial: Option<TracedDial>,
    /// When it had a connection.
    pub acquired: Option<Duration>,
    /// The connection.
    pub connection: Option<TracedConnection>,
    /// When the wire had taken the last byte of the request.
    pub written: Option<Duration>,
    /// When the first byte of a response came, which may be an interim one.
    pub first_byte: Option<Duration>,
    /// The interim responses (1xx), and when they came.
    pub interim: Vec<(StatusCode, Duration)>,
    /// When the head of the response was here.
    pub head: Option<Duration>,
    /// The status of the response.
    pub status: Option<StatusCode>,
    /// When the last byte of the body was here, or it failed.
    pub ended: Option<Duration>,
    /// As `ended`; while the attempt lasts, until when it was seen.
    pub(super) until: Duration,
    /// The phase in which it failed.
    pub failed_in: Option<Phase>,
    /// Why it failed, with its causes.
    pub error: Option<String>,
}

/// How a connection was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TracedDial {
    /// When that began.
    pub begun: Duration,
    /// The steps that were done, and when.
    pub steps: Vec<(DialStep, Duration)>,
}

/// A connection that a request went over.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TracedConnection {
    /// Which of the client's connections it is: 0 is the first one that was made.
    pub id: u64,
    /// The address at this end.
    pub local: Address,
    /// The address at the other end, which is that of the proxy if there is one.
    pub peer: Address,
    /// It was there before.
    pub is_reused: bool,
    /// It speaks HTTP/2.
    pub is_http2: bool,
}

/// When a phase began and when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseSpan {
    /// The phase.
    pub phase: Phase,
    /// When it began.
    pub from: Duration,
    /// When it ended, or until when the call was seen.
    pub until: Duration,
}

impl Timeline {
    /// The attempts beyond the first one of each URL.
    pub fn retries(&self) -> usize {
        self.attempts.len().saturating_sub(1).saturating_sub(self.redirects())
    }

    /// The redirects that were followed.
    pub fn redirects(&self) -> usize {
        self.attempts.last().map_or(0, |last| last.hop)
    }
}

impl TracedAttempt {
    /// Its phases, one behind the other. The tunnel that a proxy makes belongs to [`Phase::Connect`].
    pub fn phases(&self) -> Vec<PhaseSpan> {
        let mut spans = Spans { spans: Vec::new(), from: self.queued };
        if let Some(dial) = &self.dial {
            spans.push(Phase::Acquire, dial.begun);
            for (step, at) in &dial.steps {
                spans.push(phase_of(*step), *at);
            }
        } else if let Some(acquired) = self.acquired {
            spans.push(Phase::Acquire, acquired);
        }
        spans.from = self.acquired.unwrap_or(spans.from);
        if let Some(written) = self.written {
            spans.push(Phase::Write, written);
        }
        if let Some(head) = self.head {
            spans.push(if self.written.is_some() { Phase::Read } else { Phase::Write }, head);
        }
        // What it was in when it ended, or is in now.
        let last = self.failed_in.filter(|phase| *phase != Phase::Total).unwrap_or(match self {
            Self { head: Some(_), .. } => Phase::Body,
            Self { written: Some(_), .. } => Phase::Read,
            Self { acquired: Some(_), .. } => Phase::Write,
            _ => Phase::Acquire,
        });
        spans.push(last, self.until);
        spans.spans
    }
}

impl TracedDial {
    /// When a step was done; the last one of its kind.
    pub fn done(&self, step: DialStep) -> Option<Duration> {
        self.steps.iter().rev().find(|(done, _)| *done == step).map(|(_, at)| *at)
    }
}

fn phase_of(step: DialStep) -> Phase {
    match step {
        DialStep::Resolved => Phase::Resolve,
        DialStep::Secured => Phase::Handshake,
        _ => Phase::Connect,
    }
}

/// Spans that follow each other.
struct Spans {
    spans: Vec<PhaseSpan>,
    from: Duration,
}

impl Spans {
    fn push(&mut self, phase: Phase, until: Duration) {
        // A response may come before its request is sent whole.
        let until = until.max(self.from);
        self.spans.push(PhaseSpan { phase, from: self.from, until });
        self.from = until;
    }
}
