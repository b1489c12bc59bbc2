//! How long jobs have waited, in buckets whose width grows with the time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long the jobs of a pool waited that have run: a copy of this moment.
///
/// A time is known to an eighth of itself, from 1 ns to 18 minutes. What took longer counts as that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    counts: Box<[u64]>,
}

impl QueueTimes {
    /// How many jobs it holds.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Within which time this share of them was taken, such as 0.99; 0 is the shortest time and 1 the longest. Rounded up by an
    /// eighth at most. `None` without a job.
    ///
    /// ```
    /// use anywire_loops::{Pool, PoolLimits};
    ///
    /// let pool = Pool::start("cpu", PoolLimits { threads: 1, ..PoolLimits::default() })?;
    /// anywire_loops::block_on(pool.run(|| "done"))?;
    /// let times = pool.queue_times();
    /// assert_eq!(times.count(), 1);
    /// assert!(times.quantile(0.5) <= times.quantile(1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets().find_map(|(end, jobs)| {
            seen += jobs;
            (seen >= rank).then_some(end)
        })
    }

    /// The buckets that are not empty, the shortest first: the longest time of each, and its jobs.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, jobs)| **jobs > 0).map(|(index, jobs)| (Duration::from_nanos(end_ns(index)), *jobs))
    }
}

/// The same, as the threads of a pool write it.
pub(super) struct Recorder {
    counts: Box<[AtomicU64]>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn record(&self, waited: Duration) {
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)].fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> QueueTimes {
        QueueTimes { counts: self.counts.iter().map(|count| count.load(Relaxed)).collect() }
    }
}

/// The bucket of a time: eight to each power of two. Below eight each number has its own.
fn bucket(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    if ns < PARTS {
        return ns as usize;
    }
    let shift = ns.ilog2() - PARTS.ilog2();
    // From 8 to 15.
    let part = ns >> shift;
    (u64::from(shift) * PARTS + part) as usize
}

/// The last time of a bucket.
fn end_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS + 1) << shift) - 1
}

const PARTS: u64 = 8;
/// 2^40 ns are 18 minutes.
const LONGEST_NS: u64 = (1 << 40) - 1;
/// 37 powers of two beyond the first eight numbers.
const BUCKETS: usize = (PARTS * 38) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_a_bucket_that_is_an_eighth_longer_at_most() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let mut last = 0;
        for ns in (0..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3]) {
            let (at, end) = (bucket(ns), end_ns(bucket(ns)));
            assert!(at >= last || ns < 4, "{ns}");
            assert!(end >= ns && end - ns <= ns / 8, "{ns} is in the bucket to {end}");
            last = at;
        }
        for at in 1..BUCKETS {
            assert_eq!(bucket(end_ns(at - 1) + 1), at, "buckets follow each other");
        }
    }

    #[test]
    fn shares_are_counted_from_the_shortest() {
        let recorder = Recorder::new();
        assert_eq!(recorder.read().quantile(0.5), None);
        (1..=7).for_each(|ns| recorder.record(Duration::from_nanos(ns)));
        let times = recorder.read();
        let ns = |share| times.quantile(share).map(|time| time.as_nanos());
        assert_eq!([0.0, 0.5, 0.99, 1.0, 2.0].map(ns), [1, 4, 7, 7, 7].map(Some));
        assert_eq!((times.count(), times.buckets().count()), (7, 7));
    }
}
