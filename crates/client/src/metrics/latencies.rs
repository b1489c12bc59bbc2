//! How long the phases of calls take, for each origin: a histogram of each phase.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anywire_loops::metrics::{Durations, Histogram};
use anywire_wire::{DialLog, DialStep};

use crate::{Client, ClientBuilder, Phase};

impl ClientBuilder {
    /// Measures how long each phase of each attempt takes, for each origin: [`Client::latencies`], and in [`Client::prometheus`]. Default:
    /// nothing is measured, because it asks the clock five times an attempt. An origin takes 16 KiB on each loop.
    pub fn latencies(mut self) -> Self {
        self.measures = true;
        self
    }
}

impl Client {
    /// How long the phases of calls took, for each origin such as `https://shop.example`; empty without
    /// [`ClientBuilder::latencies`]. Of the latest [`Limits::origins`](crate::Limits::origins) origins.
    ///
    /// | phase | from .. to |
    /// | --- | --- |
    /// | [`Phase::Acquire`] | an attempt was given to a pool .. its connection was there, or the dial for it began |
    /// | [`Phase::Resolve`], [`Phase::Connect`], [`Phase::Handshake`] | of each dial, one after the other; a tunnel through a proxy belongs to `Connect` |
    /// | [`Phase::Write`] | it had a connection .. the wire had the last byte of the request |
    /// | [`Phase::Read`] | .. the first byte of a response |
    /// | [`Phase::Body`] | the head of the response was here .. so was its last byte |
    /// | [`Phase::Total`] | an attempt was given to a pool .. the last byte of its response |
    ///
    /// ```
    /// use anywire_client::{Client, Phase};
    ///
    /// let client = Client::builder().latencies().build();
    /// for (origin, phases) in client.latencies() {
    ///     println!("{origin}: {:?}", phases[&Phase::Total].quantile(0.99));
    /// }
    /// ```
    pub fn latencies(&self) -> BTreeMap<String, BTreeMap<Phase, Durations>> {
        self.handle.latencies().read()
    }
}

/// The histograms of an origin on one loop.
#[derive(Debug, Default)]
pub(crate) struct PhaseCells {
    phases: [Histogram; PHASES.len()],
}

impl PhaseCells {
    pub(crate) fn record(&self, phase: Phase, took: Duration) {
        if let Some(at) = PHASES.iter().position(|one| *one == phase) {
            self.phases[at].record(took);
        }
    }

    /// The phases of a dial.
    pub(crate) fn record_dial(&self, log: &DialLog) {
        let mut from = log.begun();
        for (step, at) in log.steps() {
            let phase = match step {
                DialStep::Resolved => Phase::Resolve,
                DialStep::Secured => Phase::Handshake,
                _ => Phase::Connect,
            };
            self.record(phase, at.saturating_duration_since(from));
            from = *at;
        }
    }
}

const PHASES: [Phase; 8] = [
    Phase::Acquire,
    Phase::Resolve,
    Phase::Connect,
    Phase::Handshake,
    Phase::Write,
    Phase::Read,
    Phase::Body,
    Phase::Total,
];

/// The histograms of all origins.
#[derive(Debug)]
pub(crate) struct Latencies {
    known: Mutex<Known>,
    origins_max: usize,
}

#[derive(Debug, Default)]
struct Known {
    /// Origins, the one whose pool was made last at the end.
    order: VecDeque<Box<str>>,
    /// By loop, since each has one writer.
    by_origin: BTreeMap<Box<str>, Vec<(usize, Arc<PhaseCells>)>>,
}

impl Latencies {
    pub(crate) fn new(origins_max: usize) -> Self {
        Self { known: Mutex::default(), origins_max }
    }

    /// The cells of an origin on one of the loops.
    pub(crate) fn of(&self, origin: &str, index: usize) -> Arc<PhaseCells> {
        let known = &mut *self.lock();
        if known.by_origin.contains_key(origin) {
            known.order.retain(|other| **other != *origin);
        } else if known.order.len() >= self.origins_max {
            // A pool that lives goes on measuring, whenever it was made.
            let oldest = known.order.iter().position(|origin| {
                let loops = known.by_origin.get(origin).into_iter().flatten();
                loops.into_iter().all(|(_, cells)| Arc::strong_count(cells) == 1)
            });
            let oldest = oldest.unwrap_or_default();
            if let Some(origin) = known.order.remove(oldest) {
                known.by_origin.remove(&origin);
            }
        }
        known.order.push_back(origin.into());
        let loops = known.by_origin.entry(origin.into()).or_default();
        if let Some((_, cells)) = loops.iter().find(|(of, _)| *of == index) {
            return Arc::clone(cells);
        }
        let cells = Arc::<PhaseCells>::default();
        loops.push((index, Arc::clone(&cells)));
        cells
    }

    fn read(&self) -> BTreeMap<String, BTreeMap<Phase, Durations>> {
        let known = self.lock();
        let origins = known.by_origin.iter().map(|(origin, loops)| {
            let phases = PHASES.iter().enumerate().map(|(at, phase)| {
                let mut all = Durations::default();
                loops.iter().for_each(|(_, cells)| all.merge(&cells.phases[at].read()));
                (*phase, all)
            });
            (origin.to_string(), phases.collect())
        });
        origins.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_that_had_a_pool_longest_ago_makes_room() {
        let latencies = Latencies::new(2);
        for origin in ["http://a", "http://b", "http://a", "http://c"] {
            latencies.of(origin, 0).record(Phase::Total, Duration::from_millis(1));
        }
        let counts: Vec<_> = latencies
            .read()
            .into_iter()
            .map(|(origin, phases)| (origin, phases[&Phase::Total].count(), phases[&Phase::Body].count()))
            .collect();
        assert_eq!(counts, [("http://a".to_owned(), 2, 0), ("http://c".to_owned(), 1, 0)]);
    }

    #[test]
    fn an_origin_with_a_pool_makes_no_room_while_another_can() {
        let latencies = Latencies::new(2);
        let busy = latencies.of("http://a", 0);
        latencies.of("http://b", 0);
        latencies.of("http://c", 1);
        busy.record(Phase::Total, Duration::from_millis(1));
        let count = |origin: &str| latencies.read().get(origin).map(|phases| phases[&Phase::Total].count());
        assert_eq!((count("http://a"), count("http://b"), count("http://c")), (Some(1), None, Some(0)));
        // If all have pools, the oldest does.
        let others = [latencies.of("http://c", 1), latencies.of("http://d", 1)];
        assert_eq!((count("http://a"), count("http://d"), others.len()), (None, Some(0), 2));
    }

    #[test]
    fn loops_add_up() {
        let latencies = Latencies::new(2);
        for index in [0, 1, 1] {
            latencies.of("http://a", index).record(Phase::Read, Duration::from_millis(1));
        }
        assert_eq!(latencies.read()["http://a"][&Phase::Read].count(), 3);
    }
}
