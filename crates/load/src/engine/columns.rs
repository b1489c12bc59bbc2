//! The latencies of one loop, by the moment from which they count.

use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use anywire_wire::{DialLog, DialStep};

use crate::engine::apart::Apart;
use crate::engine::paced::Due;
use crate::engine::tally::Batch;
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
    /// The part of the measured time to which its request belongs, if the rate changes.
    pub(crate) step: u16,
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
    /// With a schedule.
    pub(crate) open: Option<Box<Open>>,
}

impl Columns {
    /// With those of a schedule whose rate has so many parts.
    pub(crate) fn with_parts(parts: u32) -> Self {
        Self { open: Some(Open::new(parts).into()), ..Self::new() }
    }

    pub(crate) fn new() -> Self {
        let [at_once, in_parts, first_byte, connect, tls] = std::array::from_fn(|_| Latency::new());
        Self { at_once, in_parts, first_byte, connect, tls, apart: Apart::default(), open: None }
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
        if let Some(open) = &mut self.open {
            open.record(sample);
        }
    }

    /// Out of line, because most responses come at once.
    #[cold]
    fn record_parts(&mut self, sample: &Sample) {
        self.in_parts.record(sample.taken());
        self.first_byte.record(sample.first_byte.saturating_duration_since(sample.sent_at));
    }

    /// Records requests that were given up at this age.
    pub(crate) fn record_given_up(&mut self, batch: &Batch, now: Instant, requests: u64) {
        let age = now.saturating_duration_since(batch.sent_at);
        self.in_parts.record_many(age, requests);
        self.apart.record_given_up(age, requests);
        if let Some(open) = &mut self.open {
            open.record_given_up(batch, now, requests);
        }
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
        let Self { at_once, in_parts, first_byte, connect, tls, apart, open } = self;
        at_once.merge(&other.at_once);
        in_parts.merge(&other.in_parts);
        first_byte.merge(&other.first_byte);
        connect.merge(&other.connect);
        tls.merge(&other.tls);
        apart.merge(&other.apart);
        if let Some((open, other)) = open.as_mut().zip(other.open.as_ref()) {
            open.merge(other);
        }
    }

    /// Copies the latencies to trust, which both histograms hold together. Each is copied only if it has grown.
    pub(crate) fn copy_to(&self, latency: &mut Latency, in_parts: &mut Latency) {
        let grown = |from: &Latency, to: &mut Latency| {
            if from.count() != to.count() {
                to.copy_from(from);
            }
        };
        if let Some(open) = &self.open {
            return grown(&open.intended, latency);
        }
        grown(&self.at_once, latency);
        grown(&self.in_parts, in_parts);
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let open = self.open.as_ref();
        // A percentile over different rates would be one of none of them.
        if open.is_some_and(|open| !open.steps.is_empty()) {
            return Latencies {
                connect: self.connect.summary(),
                tls: self.tls.summary(),
                ..Latencies::default()
            };
        }
        let with_at_once = |other: &Latency| {
            let mut both = self.at_once.clone();
            both.merge(other);
            both
        };
        let send = with_at_once(&self.in_parts);
        Latencies {
            intended: open.and_then(|open| open.intended.summary()),
            send: send.summary(),
            lag: open.and_then(|open| open.lag.summary()),
            first_byte: with_at_once(&self.first_byte).summary(),
            connect: self.connect.summary(),
            tls: self.tls.summary(),
            server: self.apart.server(),
            by_status: self.apart.by_status(&send),
        }
    }
}

/// What is recorded of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    /// From when a request should have left.
    intended: Latency,
    /// From when a request should have left until it did; of all that were sent.
    lag: Latency,
    /// The part of it in which a connection had room: how late this end is by itself.
    pub(crate) own_lag: Latency,
    /// Each part of the time, if the rate changes.
    pub(crate) steps: Vec<OfStep>,
}

/// What is recorded of a part of the time.
#[derive(Debug, Clone)]
pub(crate) struct OfStep {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    intended: Latency,
    send: Latency,
    lag: Latency,
}

impl Open {
    fn new(parts: u32) -> Self {
        let [intended, lag, own_lag] = std::array::from_fn(|_| Latency::new());
        let steps = if parts > 1 { (0..parts).map(|_| OfStep::new()).collect() } else { Vec::new() };
        Self { intended, lag, own_lag, steps }
    }

    /// A request of the measured part leaves.
    pub(crate) fn sent(&mut self, due: &Due, lag: Duration, own_lag: Duration) {
        self.lag.record(lag);
        self.own_lag.record(own_lag);
        if let Some(step) = self.steps.get_mut(usize::from(due.step)) {
            step.sent += 1;
            step.lag.record(lag);
        }
    }

    fn record(&mut self, sample: &Sample) {
        let from_intended = sample.ended_at.saturating_duration_since(sample.intended);
        self.intended.record(from_intended);
        if let Some(step) = self.steps.get_mut(usize::from(sample.step)) {
            step.answered += 1;
            step.intended.record(from_intended);
            step.send.record(sample.taken());
        }
    }

    fn record_given_up(&mut self, batch: &Batch, now: Instant, requests: u64) {
        let from_intended = now.saturating_duration_since(batch.intended);
        self.intended.record_many(from_intended, requests);
        if let Some(step) = self.steps.get_mut(usize::from(batch.step)) {
            step.intended.record_many(from_intended, requests);
            step.send.record_many(now.saturating_duration_since(batch.sent_at), requests);
        }
    }

    /// Requests that were due and never sent: they have waited until now, and would have waited longer.
    pub(crate) fn untaken(&mut self, due: &Due, now: Instant, requests: u64) {
        let age = now.saturating_duration_since(due.intended);
        self.intended.record_many(age, requests);
        self.lag.record_many(age, requests);
        if let Some(step) = self.steps.get_mut(usize::from(due.step)) {
            step.intended.record_many(age, requests);
            step.lag.record_many(age, requests);
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self { intended, lag, own_lag, steps } = self;
        intended.merge(&other.intended);
        lag.merge(&other.lag);
        own_lag.merge(&other.own_lag);
        for (step, other) in steps.iter_mut().zip(&other.steps) {
            step.merge(other);
        }
    }
}

impl OfStep {
    fn new() -> Self {
        let [intended, send, lag] = std::array::from_fn(|_| Latency::new());
        Self { sent: 0, answered: 0, intended, send, lag }
    }

    fn merge(&mut self, other: &Self) {
        let Self { sent, answered, intended, send, lag } = self;
        *sent += other.sent;
        *answered += other.answered;
        intended.merge(&other.intended);
        send.merge(&other.send);
        lag.merge(&other.lag);
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies {
            intended: self.intended.summary(),
            send: self.send.summary(),
            lag: self.lag.summary(),
            ..Latencies::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Each case makes a dozen histograms, and reads all their buckets.
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn intended_is_lag_and_send_together(lag in 0_u64..70_000_000_000, first in 0_u64..70_000_000_000, rest in 0_u64..70_000_000_000) {
            let intended = Instant::now();
            let (lag, first, rest) = (Duration::from_nanos(lag), Duration::from_nanos(first), Duration::from_nanos(rest));
            let sent_at = intended + lag;
            let (first_byte, status) = (sent_at + first, StatusCode::OK);
            let sample = Sample {
                server_time: None,
                intended, sent_at, first_byte, ended_at: first_byte + rest, status, bytes: 1, body_bytes: 0, step: 1,
            };
            prop_assert_eq!(sample.ended_at - sample.intended, lag + sample.taken());
            let mut columns = Columns::with_parts(2);
            let due = Due { intended, measured: true, step: 1 };
            columns.open.as_mut().unwrap().sent(&due, sent_at - intended, Duration::ZERO);
            columns.record(&sample);
            // Each column has what one histogram of that latency has.
            let of = |latency: Duration| {
                let mut one = Latency::new();
                one.record(latency);
                one.summary()
            };
            let step = columns.open.unwrap().steps[1].latencies();
            prop_assert_eq!(step.intended, of(lag + first + rest));
            prop_assert_eq!(step.send, of(first + rest));
            prop_assert_eq!(step.lag, of(lag));
        }
    }

    /// Copies of a closed loop's latencies, one after the other, in the same memory.
    #[test]
    fn copies_hold_each_latency_once() {
        let (mut columns, mut one) = (Columns::new(), Latency::new());
        let (mut latency, mut in_parts) = (Latency::new(), Latency::new());
        let sent_at = Instant::now();
        for (first_us, rest_us) in [(90, 0), (100, 0), (40, 900), (70_000_000, 5), (80, 0)] {
            let first_byte = sent_at + Duration::from_micros(first_us);
            let ended_at = first_byte + Duration::from_micros(rest_us);
            columns.record(&Sample {
                server_time: None,
                intended: sent_at,
                sent_at,
                first_byte,
                ended_at,
                status: StatusCode::OK,
                bytes: 1,
                body_bytes: 0,
                step: 0,
            });
            one.record(ended_at - sent_at);
            columns.copy_to(&mut latency, &mut in_parts);
            let mut both = latency.clone();
            both.merge(&in_parts);
            assert_eq!(both, one, "after {first_us} and {rest_us} us");
        }
    }

    #[test]
    fn rates_that_change_have_no_percentile_of_all() {
        let mut columns = Columns::with_parts(2);
        let now = Instant::now();
        let batch = Batch { intended: now, sent_at: now, requests: 3, measured: true, step: 0 };
        columns.record_given_up(&batch, now + Duration::from_secs(1), 3);
        assert_eq!(columns.latencies(), Latencies::default());
        let open = columns.open.unwrap();
        assert_eq!(open.steps[0].latencies().intended.unwrap().count, 3);
        assert_eq!(open.steps[1].latencies().intended, None);
    }
}
