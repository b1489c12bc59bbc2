//! What the screen shows over time: a point for each half second of the last minute, made of snapshots.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anywire::load::Snapshot;

use crate::watch::micros;

/// The points of the last minute.
pub(super) struct History {
    points: VecDeque<Point>,
    /// What the last point was made of.
    last: Option<(Snapshot, Instant)>,
    begun: Instant,
}

/// What happened in half a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Its end, in seconds since the begin.
    pub(super) seconds: f64,
    /// Answers a second.
    pub(super) rate: f64,
    /// The latencies that shares of 50, 90 and 99 % stayed at or below, and the longest, in microseconds; `None` without an
    /// answer of the measured part.
    pub(super) latency: Option<[f64; BANDS.len()]>,
    pub(super) errors: u64,
    pub(super) answered_by_loop: Vec<u64>,
}

impl History {
    pub(super) fn new(now: Instant) -> Self {
        Self { points: VecDeque::new(), last: None, begun: now }
    }

    /// Adds a point, if half a second has passed since the last one.
    pub(super) fn take(&mut self, snapshot: &Snapshot, now: Instant) {
        let Some((last, at)) = &self.last else {
            self.last = Some((snapshot.clone(), now));
            return;
        };
        if now.duration_since(*at) < POINT_EVERY {
            return;
        }
        let interval = snapshot.since(last);
        // A loop that is too busy to publish gives no rate: the point comes when it has.
        let Some(rate) = interval.rate else { return };
        let latency = BANDS.map(|(_, quantile)| interval.latency.quantile(quantile).map(micros));
        let known: Vec<f64> = latency.into_iter().flatten().collect();
        self.points.push_back(Point {
            seconds: now.duration_since(self.begun).as_secs_f64(),
            rate,
            latency: known.try_into().ok(),
            errors: interval.counts.errors.total(),
            answered_by_loop: interval.answered_by_loop,
        });
        if self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
        self.last = Some((snapshot.clone(), now));
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point> + Clone {
        self.points.iter()
    }

    pub(super) fn last(&self) -> Option<&Point> {
        self.points.back()
    }

    /// The highest rate that is shown.
    pub(super) fn rate_max(&self) -> f64 {
        self.points().map(|point| point.rate).fold(0.0, f64::max)
    }

    /// The shortest and the longest latency that are shown, in microseconds.
    pub(super) fn latency_range(&self) -> Option<(f64, f64)> {
        let known = self.points().filter_map(|point| point.latency);
        known
            .map(|bands| (bands[0], bands[BANDS.len() - 1]))
            .reduce(|(least, most), (low, high)| (least.min(low), most.max(high)))
    }
}

/// The latencies that are shown, from the lowest up.
pub(super) const BANDS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
/// So long that a percentile has some answers, and so short that a stall of a second is seen.
const POINT_EVERY: Duration = Duration::from_millis(500);
/// A minute: as many as a wide terminal has columns for.
const POINTS_MAX: usize = 120;

#[cfg(test)]
pub(super) mod tests {
    use anywire::load::{Counts, Latency, LoopSnapshot, RunPhase};

    use super::*;

    /// A run of two loops after so many half seconds, in each of which every loop answered so many more in 1 ms, and one in 40 ms.
    pub(in crate::screen) fn snapshot(halves: u64, answers: u64) -> Snapshot {
        let mut latency = Latency::new();
        latency.record_many(Duration::from_millis(1), 2 * halves * (answers - 1));
        latency.record_many(Duration::from_millis(40), 2 * halves);
        let up = Duration::from_millis(500) * halves as u32;
        let counts = Counts { answered: halves * answers, connections_open: 32, ..Counts::default() };
        let one = LoopSnapshot { up, measured: Some(up), counts };
        Snapshot { phase: RunPhase::Measuring, loops: vec![one; 2], latency, error_samples: Vec::new() }
    }

    /// The history of a run after so many half seconds.
    pub(in crate::screen) fn history(halves: u64, answers: u64) -> History {
        let begun = Instant::now();
        let mut history = History::new(begun);
        for half in 0..=halves {
            history.take(&snapshot(half, answers), begun + POINT_EVERY * half as u32);
        }
        history
    }

    #[test]
    fn a_point_has_what_happened_since_the_last_one() {
        let history = history(3, 1000);
        assert_eq!(history.points().count(), 3);
        let last = history.last().expect("there are points");
        assert_eq!((last.seconds, last.rate, &last.answered_by_loop[..]), (1.5, 4000.0, &[1000, 1000][..]));
        let [p50, .., max] = last.latency.expect("it has answers");
        assert!((p50 / 1000.0 - 1.0).abs() < 0.01 && (max / 40_000.0 - 1.0).abs() < 0.01, "{last:?}");
        assert_eq!(history.latency_range(), Some((p50, max)));
    }

    #[test]
    fn a_long_run_keeps_its_last_minute() {
        let history = history(1000, 10);
        assert_eq!(history.points().count(), POINTS_MAX);
        assert_eq!(history.last().map(|point| point.seconds), Some(500.0));
    }

    #[test]
    fn loops_that_publish_nothing_add_no_point() {
        let begun = Instant::now();
        let mut history = History::new(begun);
        for second in 0..5 {
            history.take(&snapshot(1, 10), begun + Duration::from_secs(second));
        }
        assert_eq!(history.points().count(), 0);
    }
}
