//! The latencies of one loop, by the moment from which they count.

use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use anywire_wire::{DialLog, DialStep};

use crate::engine::apart::Apart;
use crate::histogram::Latency;
use crate::outcome::Latencies;

/// One response, and when its request was due, sent, and answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// When the request should have left. Without a rate, when it did.
    pub(crate) intended: Instant,
    pub(crate) sent_at: Instant,
    /// When the read returned that brought the first byte of the response.
    pub(crate) first_byte: Instant,
    /// When the read returned that brought the last one.
    pub(crate) ended_at: Instant,
    pub(crate) status: StatusCode,
    /// All of the response, with interim ones before it.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    /// What the server says that it took; `None` if it does not.
    pub(crate) server_time: Option<Duration>,
}

impl Sample {
    /// From the send to the last byte.
    #[inline]
    pub(crate) fn taken(&self) -> Duration {
        self.ended_at.saturating_duration_since(self.sent_at)
    }
}

/// The histograms of one loop.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// From the send, of responses that came in one read. Their first byte came with the last one, so that one record is enough
    /// for both columns.
    at_once: Latency,
    /// From the send, of the others.
    in_parts: Latency,
    /// From the send to the first byte of these.
    first_byte: Latency,
    connect: Latency,
    tls: Latency,
    apart: Apart,
}

impl Columns {
    pub(crate) fn new() -> Self {
        let [at_once, in_parts, first_byte, connect, tls] = std::array::from_fn(|_| Latency::new());
        Self { at_once, in_parts, first_byte, connect, tls, apart: Apart::default() }
    }

    /// Records a response.
    #[inline]
    pub(crate) fn record(&mut self, sample: &Sample) {
        self.apart.record(sample);
        if sample.first_byte == sample.ended_at {
            self.at_once.record(sample.taken());
        } else {
            self.record_parts(sample);
        }
    }

    /// Out of line, because most responses come at once.
    #[cold]
    fn record_parts(&mut self, sample: &Sample) {
        self.in_parts.record(sample.taken());
        self.first_byte.record(sample.first_byte.saturating_duration_since(sample.sent_at));
    }

    /// Records requests that were given up at this age.
    pub(crate) fn record_given_up(&mut self, age: Duration, requests: u64) {
        self.in_parts.record_many(age, requests);
        self.apart.record_given_up(age, requests);
    }

    /// Records the steps of a dial.
    pub(crate) fn record_dial(&mut self, log: &DialLog) {
        let mut since = log.begun();
        for &(step, at) in log.steps() {
            let took = at.saturating_duration_since(since);
            match step {
                DialStep::Connected => self.connect.record(at.saturating_duration_since(log.begun())),
                DialStep::Secured => self.tls.record(took),
                _ => {}
            }
            since = at;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let Self { at_once, in_parts, first_byte, connect, tls, apart } = self;
        at_once.merge(&other.at_once);
        in_parts.merge(&other.in_parts);
        first_byte.merge(&other.first_byte);
        connect.merge(&other.connect);
        tls.merge(&other.tls);
        apart.merge(&other.apart);
    }

    /// How many were recorded from the send.
    pub(crate) fn count(&self) -> u64 {
        self.at_once.count() + self.in_parts.count()
    }

    /// Copies the latencies to trust.
    pub(crate) fn copy_to(&self, latency: &mut Latency) {
        latency.copy_from(&self.at_once);
        if self.in_parts.count() > 0 {
            latency.merge(&self.in_parts);
        }
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let with_at_once = |other: &Latency| {
            let mut both = self.at_once.clone();
            both.merge(other);
            both
        };
        let send = with_at_once(&self.in_parts);
        Latencies {
            intended: None,
            send: send.summary(),
            lag: None,
            first_byte: with_at_once(&self.first_byte).summary(),
            connect: self.connect.summary(),
            tls: self.tls.summary(),
            server: self.apart.server(),
            by_status: self.apart.by_status(&send),
        }
    }
}
