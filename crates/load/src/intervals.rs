//! A run over time: its figures in each interval of the measured part, from snapshots of the loops ([`Monitor::snapshot`]).
//!
//! A [`Recorder`] is asked now and then and gives an interval when one is over. Intervals follow each other without a gap, so
//! that their counts add up to those of the outcome. The line of a file of intervals (NDJSON) is the JSON of one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Interval, Monitor, Snapshot};
use crate::histogram::{Band, Latency};
use crate::plan::Plan;
use crate::schedule::Shape;

/// The figures of one interval of the measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalFigures {
    /// Its end, in seconds from the begin of the measured part.
    pub t: f64,
    /// Its length, in seconds.
    pub seconds: f64,
    /// Requests per second that were asked for in it; `null` without a rate.
    pub target: Option<f64>,
    /// Responses per second.
    pub achieved: Option<f64>,
    /// Requests that left.
    pub sent: u64,
    /// Requests whose whole response came.
    pub answered: u64,
    /// Errors of all kinds.
    pub errors: u64,
    /// Bytes of requests that the wire has taken.
    pub bytes_out: u64,
    /// Bytes of whole responses.
    pub bytes_in: u64,
    /// Connections open at its end.
    pub connections_open: u64,
    /// Latencies of its responses; `null` without one.
    pub latency: Option<IntervalLatency>,
}

/// Latencies of one interval, in microseconds: from the intended time if the plan has a rate, else from the send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalLatency {
    /// The mean.
    pub mean: f64,
    /// Half of all stayed at or below this.
    pub p50: f64,
    /// 90 % stayed at or below this.
    pub p90: f64,
    /// 99 % stayed at or below this.
    pub p99: f64,
    /// 99.9 % stayed at or below this.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
    /// How many were recorded.
    pub count: u64,
    /// How many fell into each band; bands without any are left out.
    pub bands: Vec<Band>,
    /// The whole histogram as that of [`LatencySummary`](crate::LatencySummary); only in files of intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdr: Option<String>,
}

impl IntervalFigures {
    fn of(interval: &Interval) -> Self {
        let seconds = interval.ended.saturating_sub(interval.begun).as_secs_f64();
        let counts = &interval.counts;
        Self {
            t: interval.ended.as_secs_f64(),
            seconds,
            target: None,
            achieved: (seconds > 0.0).then(|| counts.answered as f64 / seconds),
            sent: counts.sent,
            answered: counts.answered,
            errors: counts.errors.total(),
            bytes_out: counts.bytes_out,
            bytes_in: counts.bytes_in,
            connections_open: counts.connections_open,
            latency: IntervalLatency::of(&interval.latency),
        }
    }

    /// Its line in a file of intervals, without the line feed.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an interval holds only strings, numbers and lists")
    }

    /// The same without the histogram.
    fn without_hdr(mut self) -> Self {
        if let Some(latency) = &mut self.latency {
            latency.hdr = None;
        }
        self
    }
}

impl IntervalLatency {
    fn of(latency: &Latency) -> Option<Self> {
        let summary = latency.summary()?;
        Some(Self {
            mean: summary.mean,
            p50: summary.p50,
            p90: summary.p90,
            p99: summary.p99,
            p99_9: summary.p99_9,
            max: summary.max,
            count: summary.count,
            bands: latency.bands(),
            hdr: summary.hdr,
        })
    }
}

/// Records a run in intervals.
///
/// ```no_run
/// use std::time::Duration;
/// use anywire_load::{Handles, Plan, Recorder, start};
/// use anywire_loops::Loops;
///
/// let loops = Loops::start(1)?;
/// let run = start(&loops, Plan::new("http://localhost:8080/"), Handles::default())?;
/// let mut recorder = Recorder::new(run.monitor(), Duration::from_secs(1));
/// # let over = || true;
/// while !over() {
///     std::thread::sleep(Duration::from_millis(100));
///     if let Some(interval) = recorder.look() {
///         println!("{}", interval.to_json());
///     }
/// }
/// let mut outcome = run.wait()?;
/// recorder.finish();
/// outcome.intervals = recorder.into_timeline();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    look: Box<dyn Fn() -> Snapshot + Send>,
    lines: Cut,
    /// For the outcome: fewer and longer ones in a long run.
    coarse: Cut,
    timeline: Vec<IntervalFigures>,
    /// What was asked for, and over which time.
    asked: Option<(Shape, Duration)>,
}

impl Recorder {
    /// A recorder of intervals of this length. The loops publish every 0.1 s, so that shorter ones are as long.
    pub fn new(monitor: Monitor, every: Duration) -> Self {
        Self::of(move || monitor.snapshot(), every)
    }

    /// A recorder of what snapshots show that come from elsewhere, such as the agents of several machines.
    pub fn of(look: impl Fn() -> Snapshot + Send + 'static, every: Duration) -> Self {
        let begin = look();
        Self {
            lines: Cut { every, base: begin.clone() },
            coarse: Cut { every: every.max(COARSE_MIN), base: begin },
            timeline: Vec::new(),
            asked: None,
            look: Box::new(look),
        }
    }

    /// The same with the rate that the plan asks for beside the one that was achieved.
    pub fn of_plan(self, plan: &Plan) -> Self {
        let time = plan.amount.time().unwrap_or(Duration::MAX);
        Self { asked: plan.schedule.map(|schedule| (schedule.shape, time)), ..self }
    }

    /// The interval that has come to its end since the last look, if one has. To be called at least as often as intervals end;
    /// one that is looked at late is longer.
    pub fn look(&mut self) -> Option<IntervalFigures> {
        let now = (self.look)();
        self.take(&now, false)
    }

    /// The last interval, which is mostly shorter; `None` if nothing was measured since the last one. To be called when the run
    /// has its outcome.
    pub fn finish(&mut self) -> Option<IntervalFigures> {
        let now = (self.look)();
        self.take(&now, true)
    }

    /// The intervals of the whole run, without their histograms: at most [`POINTS`](Self::POINTS) of the length that was asked for
    /// (or 0.5 s, if that is more), then half as many of each further doubling.
    pub fn into_timeline(self) -> Vec<IntervalFigures> {
        self.timeline
    }

    /// Intervals of the whole run until their length doubles.
    pub const POINTS: usize = 240;

    fn take(&mut self, now: &Snapshot, is_last: bool) -> Option<IntervalFigures> {
        if let Some(interval) = self.coarse.next(now, is_last) {
            self.timeline.push(self.figures(&interval).without_hdr());
            let beyond = self.timeline.len().saturating_sub(Self::POINTS - 1);
            if beyond > 0 && (beyond - 1).is_multiple_of(Self::POINTS / 2) {
                self.coarse.every = self.coarse.every.saturating_mul(2);
            }
        }
        let interval = self.lines.next(now, is_last)?;
        Some(self.figures(&interval))
    }

    fn figures(&self, interval: &Interval) -> IntervalFigures {
        let target = self.asked.and_then(|(shape, time)| shape.between(time, interval.begun, interval.ended));
        IntervalFigures { target, ..IntervalFigures::of(interval) }
    }
}

/// Cuts a run into intervals.
#[derive(Debug)]
struct Cut {
    every: Duration,
    base: Snapshot,
}

impl Cut {
    fn next(&mut self, now: &Snapshot, is_last: bool) -> Option<Interval> {
        let Some(measured) = now.measured() else {
            // Nothing of the warm-up is in an interval.
            self.base = now.clone();
            return None;
        };
        let begun = self.base.measured().unwrap_or_default();
        let length = measured.saturating_sub(begun);
        // A loop publishes at its own moments: an interval that is nearly over is.
        if !is_last && (length.is_zero() || length.saturating_add(TOLERANCE) < self.every) {
            return None;
        }
        let interval = now.since(&self.base);
        let interval = Interval { ended: interval.ended.max(interval.begun), ..interval };
        // The last responses of a schedule come when its time is up, and belong to it all the same.
        if length.is_zero() && interval.is_empty() {
            return None;
        }
        self.base = now.clone();
        Some(interval)
    }
}

/// The shortest intervals of an outcome: finer ones say more than a chart can show.
const COARSE_MIN: Duration = Duration::from_millis(500);
/// Half of the time between two publications of a loop.
const TOLERANCE: Duration = Duration::from_millis(50);
