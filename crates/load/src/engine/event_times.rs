//! When the events of streamed bodies came, on one loop.

use std::time::{Duration, Instant};

use crate::engine::scripted::Events;
use crate::histogram::Latency;

/// The times of events in the measured part.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventTimes {
    /// How many came.
    pub(crate) count: u64,
    /// Answers of which at least one came.
    pub(crate) streams: u64,
    /// From the send of the request to the first one.
    pub(crate) first: Latency,
    /// Between two that follow each other. Those that came in one read have no time between them.
    pub(crate) gap: Latency,
}

impl EventTimes {
    /// Adds events that ended in one read.
    pub(crate) fn add(&mut self, came: Events, sent_at: Instant, now: Instant) {
        let Events { count, before } = came;
        self.count += count;
        match before {
            Some(before) => self.gap.record(now.saturating_duration_since(before)),
            None => {
                self.streams += 1;
                self.first.record(now.saturating_duration_since(sent_at));
            }
        }
        self.gap.record_many(Duration::ZERO, count.saturating_sub(1));
    }

    /// Adds those of another loop.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.streams += other.streams;
        self.first.merge(&other.first);
        self.gap.merge(&other.gap);
    }
}
