//! Where a run is, seen from any thread: the loops publish their counts every 0.1 s, beside the load and not on its way.
//!
//! A loop copies its counts and its histogram into a slot of its own ([`Live`]). It never waits for a reader: if one is copying
//! from the slot, the loop publishes at the next turn. Readers add the slots up ([`Monitor::snapshot`]), and each finds out by
//! itself what has changed since its last look ([`Snapshot::since`]), so that any number of them may look as often as they like.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::engine::generator::RunPhase;
use crate::errors::{ErrorCounts, ErrorSample};
use crate::histogram::Latency;

/// Looks at a run from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    live: Arc<[Arc<Live>]>,
    phases: watch::Receiver<RunPhase>,
}

impl Monitor {
    pub(crate) fn new(live: Vec<Arc<Live>>, phases: watch::Receiver<RunPhase>) -> Self {
        Self { live: live.into(), phases }
    }

    /// Where the run is; at most about 0.1 s old.
    pub fn progress(&self) -> Progress {
        let phase = *self.phases.borrow();
        let mut all = Counts::default();
        self.live.iter().for_each(|live| all.merge(&live.read().counts));
        Progress {
            phase,
            answered: all.answered,
            answered_in_warm_up: all.answered_in_warm_up,
            errors: all.errors.total(),
            connections_open: all.connections_open,
        }
    }

    /// All that was counted and measured so far; at most about 0.1 s old. After the run has ended, it is what the outcome has.
    ///
    /// Two of them give what happened between them:
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use anywire_load::{Handles, Plan, start};
    /// # let loops = anywire_loops::Loops::start(1)?;
    /// let run = start(&loops, Plan::new("http://localhost:8080/"), Handles::default())?;
    /// let monitor = run.monitor();
    /// let earlier = monitor.snapshot();
    /// std::thread::sleep(Duration::from_secs(1));
    /// let interval = monitor.snapshot().since(&earlier);
    /// println!("{:?} answers/s, p99 {:?}", interval.rate, interval.latency.quantile(0.99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        // Before the counts: those of a later phase are no harm in an earlier one, but missing ones are.
        let phase = *self.phases.borrow();
        let (mut latency, mut error_samples) = (Latency::new(), Vec::<ErrorSample>::new());
        let loops = self.live.iter().map(|live| {
            let published = live.read();
            latency.merge(&published.latency);
            if published.in_parts.count() > 0 {
                latency.merge(&published.in_parts);
            }
            for sample in &published.error_samples {
                if error_samples.iter().all(|other| other.kind != sample.kind) {
                    error_samples.push(sample.clone());
                }
            }
            LoopSnapshot { up: published.up, measured: published.measured, counts: published.counts }
        });
        let loops = loops.collect();
        Snapshot { phase, loops, latency, error_samples }
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its phase.
    pub phase: RunPhase,
    /// Answers of the measured part so far.
    pub answered: u64,
    /// Answers of the warm-up so far.
    pub answered_in_warm_up: u64,
    /// Errors so far.
    pub errors: u64,
    /// Connections open now.
    pub connections_open: u64,
}

/// All that the loops of a run have published by one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The phase of the run.
    pub phase: RunPhase,
    /// Each loop's part.
    pub loops: Vec<LoopSnapshot>,
    /// The latencies of the measured part so far, of all loops: from the intended time if the plan has a rate, else from the send.
    pub latency: Latency,
    /// The first error of each kind in words.
    pub error_samples: Vec<ErrorSample>,
}

impl Snapshot {
    /// The counts of all loops together.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.loops.iter().for_each(|one| all.merge(&one.counts));
        all
    }

    /// How long the measured part has lasted; `None` before it.
    pub fn measured(&self) -> Option<Duration> {
        self.loops.iter().filter_map(|one| one.measured).max()
    }

    /// What happened between an earlier snapshot of the same run and this one.
    pub fn since(&self, earlier: &Self) -> Interval {
        let mut rate = None;
        let mut answered_by_loop = Vec::with_capacity(self.loops.len());
        for (index, now) in self.loops.iter().enumerate() {
            let before = earlier.loops.get(index).copied().unwrap_or_default();
            let answered = now.counts.all_answered().saturating_sub(before.counts.all_answered());
            answered_by_loop.push(answered);
            // Each loop by its own clock: they do not publish at the same moment.
            let time = now.up.saturating_sub(before.up);
            if !time.is_zero() {
                rate = Some(rate.unwrap_or(0.0) + answered as f64 / time.as_secs_f64());
            }
        }
        Interval {
            begun: earlier.measured().unwrap_or_default(),
            ended: self.measured().unwrap_or_default(),
            counts: self.counts().since(&earlier.counts()),
            rate,
            answered_by_loop,
            latency: self.latency.since(&earlier.latency),
        }
    }
}

/// One loop's part of a [`Snapshot`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopSnapshot {
    /// How long the run had lasted on this loop when it published.
    pub up: Duration,
    /// How long its measured part had lasted then; `None` before it.
    pub measured: Option<Duration>,
    /// Its counts.
    pub counts: Counts,
}

/// What happened between two snapshots of a run.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its begin, from the begin of the measured part.
    pub begun: Duration,
    /// Its end, from the begin of the measured part.
    pub ended: Duration,
    /// What was counted in it; of the connections, those that were open at its end.
    pub counts: Counts,
    /// Answers a second, those of a warm-up too; `None` if no loop published in it.
    pub rate: Option<f64>,
    /// Answers of each loop, those of a warm-up too.
    pub answered_by_loop: Vec<u64>,
    /// The latencies of the measured answers in it; it merges with others without loss.
    pub latency: Latency,
}

impl Interval {
    /// Whether nothing was sent, came or went wrong in it.
    pub(crate) fn is_empty(&self) -> bool {
        let nothing = Counts { connections_open: self.counts.connections_open, ..Counts::default() };
        self.counts == nothing && self.latency.count() == 0
    }
}

/// What a loop, or a run, has counted so far. All but the last four fields are of the measured part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that left.
    pub sent: u64,
    /// Those whose whole response came.
    pub answered: u64,
    /// Bytes that were sent.
    pub bytes_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Errors by kind, those of the warm-up too.
    pub errors: ErrorCounts,
    /// Answers of the warm-up.
    pub answered_in_warm_up: u64,
    /// Connections that ended before the run did.
    pub connections_lost: u64,
    /// Connections open now.
    pub connections_open: u64,
}

impl Counts {
    /// Answers of the warm-up and the measured part.
    pub fn all_answered(&self) -> u64 {
        self.answered.saturating_add(self.answered_in_warm_up)
    }

    fn merge(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.answered = self.answered.saturating_add(other.answered);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.errors.merge(&other.errors);
        self.answered_in_warm_up = self.answered_in_warm_up.saturating_add(other.answered_in_warm_up);
        self.connections_lost = self.connections_lost.saturating_add(other.connections_lost);
        self.connections_open = self.connections_open.saturating_add(other.connections_open);
    }

    /// What was added since an earlier look. What counts up never falls, except `sent`, from which a request is taken back that
    /// has to be sent again.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            answered: self.answered.saturating_sub(earlier.answered),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            errors: self.errors.since(&earlier.errors),
            answered_in_warm_up: self.answered_in_warm_up.saturating_sub(earlier.answered_in_warm_up),
            connections_lost: self.connections_lost.saturating_sub(earlier.connections_lost),
            connections_open: self.connections_open,
        }
    }
}

/// Where one loop publishes.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<Published>);

/// What one loop has published.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) up: Duration,
    pub(crate) measured: Option<Duration>,
    pub(crate) counts: Counts,
    pub(crate) latency: Latency,
    /// More of them, in a histogram of their own: the reader merges, because that takes a step for each bucket.
    pub(crate) in_parts: Latency,
    pub(crate) error_samples: Vec<ErrorSample>,
}

impl Live {
    /// Publishes, unless a reader is just copying. Whether it did.
    pub(crate) fn publish(&self, write: impl FnOnce(&mut Published)) -> bool {
        match self.0.try_lock() {
            Ok(mut slot) => write(&mut slot),
            Err(TryLockError::Poisoned(slot)) => write(&mut slot.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Publishes for the last time: a reader that is just copying is waited for, since its copy takes microseconds.
    pub(crate) fn publish_last(&self, write: impl FnOnce(&mut Published)) {
        write(&mut self.read());
    }

    fn read(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorKind;

    fn monitor(loops: usize) -> (Vec<Arc<Live>>, Monitor) {
        let (phase, phases) = watch::channel(RunPhase::Measuring);
        drop(phase);
        let live: Vec<Arc<Live>> = (0..loops).map(|_| Arc::default()).collect();
        (live.clone(), Monitor::new(live, phases))
    }

    /// A loop that answered so many more, each in so many ms, in so many seconds.
    fn works(live: &Live, seconds: u64, answers: u64, ms: u64) {
        live.publish_last(|slot| {
            slot.up += Duration::from_secs(seconds);
            slot.measured = Some(slot.up);
            slot.counts.sent += answers;
            slot.counts.answered += answers;
            slot.counts.connections_open = 2;
            slot.latency.record_many(Duration::from_millis(ms), answers);
        });
    }

    #[test]
    fn intervals_have_what_came_between_two_looks() {
        let (live, monitor) = monitor(2);
        works(&live[0], 1, 100, 1);
        let first = monitor.snapshot();
        // The loops publish when they can, and each is divided by its own time.
        works(&live[0], 2, 100, 5);
        works(&live[1], 1, 30, 7);
        live[1].publish_last(|slot| slot.counts.errors.count(ErrorKind::Timeout));
        let second = monitor.snapshot();
        let interval = second.since(&first);
        assert_eq!((interval.counts.answered, interval.latency.count()), (130, 130));
        assert_eq!(interval.rate, Some(50.0 + 30.0));
        assert_eq!(interval.answered_by_loop, [100, 30]);
        assert_eq!(interval.counts.errors.of(ErrorKind::Timeout), 1);
        assert_eq!(interval.counts.connections_open, 4);
        assert_eq!((interval.begun, interval.ended), (Duration::from_secs(1), Duration::from_secs(3)));
        let least = interval.latency.quantile(0.0).expect("it has samples");
        assert!(least > Duration::from_millis(4), "the first ones are in no later interval: {least:?}");
    }

    #[test]
    fn intervals_of_any_length_merge_to_the_whole() {
        let (live, monitor) = monitor(3);
        let begin = monitor.snapshot();
        let (mut last, mut merged) = (begin.clone(), Latency::new());
        for step in 1..50_u64 {
            works(&live[step as usize % 3], 1, step, step * step);
            let now = monitor.snapshot();
            merged.merge(&now.since(&last).latency);
            last = now;
        }
        assert_eq!(merged, last.latency);
        assert_eq!(merged, last.since(&begin).latency);
    }

    #[test]
    fn a_loop_never_waits_for_a_reader() {
        let (live, monitor) = monitor(1);
        let reader = live[0].read();
        assert!(!live[0].publish(|slot| slot.counts.answered = 1));
        drop(reader);
        assert!(live[0].publish(|slot| slot.counts.answered = 2));
        assert_eq!(monitor.progress().answered, 2);
    }

    #[test]
    fn without_news_there_is_no_rate() {
        let (live, monitor) = monitor(1);
        works(&live[0], 1, 1, 1);
        let now = monitor.snapshot();
        let interval = now.since(&now);
        assert_eq!((interval.rate, interval.latency.count()), (None, 0));
    }
}
