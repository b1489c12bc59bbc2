//! How a load is watched while it runs: by a screen at a terminal, by a bar without one, by lines in a pipe.
//!
//! All three read snapshots of the run, on a thread of their own. Where they go is stderr, since stdout is the result's.

use std::time::{Duration, Instant};

use anywire::load::text::{counted, grouped, time, whole};
use anywire::load::{Amount, Interval, RunPhase, Snapshot};
use clap::Args;

use crate::output;
use crate::progress::{self, Progress};
use crate::screen::Screen;

/// What a person sees while a load runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Watch {
    /// Show a bar instead of the screen at a terminal, and no lines elsewhere
    ///
    /// The screen has the rate, the latencies, the errors and the balance of the loops, and is taken away before the result
    /// is printed. It is shown if stderr is a terminal in whose foreground this command is, and neither TERM=dumb nor -v is
    /// given. Where stderr is no terminal, a line is written every 10 seconds, with -v every second.
    #[arg(long)]
    no_screen: bool,
}

/// What is known of a load before it begins.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// The URL, and the wire if it is not the URL's.
    pub(crate) target: String,
    pub(crate) connections: usize,
    /// What is under way on each: `depth` or `streams`, and how many.
    pub(crate) depth: (&'static str, usize),
    pub(crate) amount: Amount,
    pub(crate) warm_up: Duration,
    /// Requests a second that are to be sent; `None` in the closed mode.
    pub(crate) rate: Option<f64>,
    /// Those who share the work: `loop`, or `agent`.
    #[cfg_attr(not(feature = "screen"), expect(dead_code, reason = "the screen alone shows it"))]
    pub(crate) part: &'static str,
    /// From when the latencies count that are shown.
    #[cfg_attr(not(feature = "screen"), expect(dead_code, reason = "the screen alone shows it"))]
    pub(crate) latency_from: &'static str,
}

impl Watch {
    /// Waits for the end of a run, and shows how it goes meanwhile, as `look` sees it.
    pub(crate) fn during<T>(
        &self,
        facts: &Facts,
        is_verbose: bool,
        look: impl Fn() -> Snapshot + Send + Sync,
        wait: impl FnOnce() -> T,
    ) -> T {
        // Who asks for the log wants to see it.
        let screen = if self.no_screen || is_verbose { None } else { Screen::enter(facts) };
        if let Some(mut screen) = screen {
            return progress::during(move || screen.show(&look()), wait);
        }
        let steps = match facts.amount {
            Amount::Requests(requests) => requests,
            Amount::Duration(time) => facts.warm_up.saturating_add(time).as_millis() as u64,
        };
        let progress = Progress::start(steps);
        progress.say(&facts.line());
        if progress.is_bar() {
            let begun = Instant::now();
            return progress::during(|| show(&progress, &look(), begun, facts.amount), wait);
        }
        let every = if is_verbose { Duration::from_secs(1) } else { SAY_EVERY };
        let mut lines = (!self.no_screen).then(|| Lines::new(look(), Instant::now(), every));
        let say = || {
            if let Some(line) = lines.as_mut().and_then(|lines| lines.due(&look, Instant::now())) {
                output::say(line);
            }
        };
        progress::during(say, wait)
    }
}

impl Facts {
    /// What is done, in a line.
    pub(crate) fn line(&self) -> String {
        let connections = counted(self.connections as u64, "connection");
        let (depth, count) = self.depth;
        let rate = self.rate.map_or_else(String::new, |rate| format!(", {} requests/s", whole(rate)));
        format!("loading {} with {connections}, {depth} {count}{rate}", self.target)
    }
}

/// A phase in words.
pub(crate) fn phase(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Connecting => "connecting",
        RunPhase::WarmUp => "warming up",
        RunPhase::Measuring => "measuring",
        RunPhase::Ended => "ending",
    }
}

/// Moves the bar.
fn show(progress: &Progress, now: &Snapshot, begun: Instant, amount: Amount) {
    let counts = now.counts();
    let done = match amount {
        Amount::Requests(_) => counts.answered,
        Amount::Duration(_) => begun.elapsed().as_millis() as u64,
    };
    progress.show(done, || {
        let (phase, answers, open) = (phase(now.phase), counts.all_answered(), counts.connections_open);
        format!("{phase}: {answers} answers, {} errors, {open} connections", counts.errors.total())
    });
}

/// The lines of a pipe.
struct Lines {
    /// What the last line was made of.
    last: Snapshot,
    said: Instant,
    begun: Instant,
    every: Duration,
}

impl Lines {
    fn new(begin: Snapshot, now: Instant, every: Duration) -> Self {
        Self { last: begin, said: now, begun: now, every }
    }

    /// The line that is to be said now, if there is one.
    fn due(&mut self, look: impl Fn() -> Snapshot, now: Instant) -> Option<String> {
        if now.duration_since(self.said) < self.every {
            return None;
        }
        // On the whole interval: the next line comes no later because this one did.
        self.said += self.every;
        let snapshot = look();
        let interval = snapshot.since(&self.last);
        let line = line(now.duration_since(self.begun), snapshot.phase, &interval);
        self.last = snapshot;
        Some(line)
    }
}

/// What happened in an interval, in a line.
fn line(since_begin: Duration, now: RunPhase, interval: &Interval) -> String {
    let rate = interval.rate.map_or_else(|| "-".to_owned(), whole);
    let latencies = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)].map(|(name, quantile)| {
        let latency = interval.latency.quantile(quantile);
        latency.map_or_else(String::new, |latency| format!(", {name} {}", time(micros(latency))))
    });
    let errors = match interval.counts.errors.total() {
        0 => String::new(),
        _ => format!(", errors: {}", interval.counts.errors.line()),
    };
    format!(
        "{} s, {}: {rate} answers/s{}, {} connections{errors}",
        since_begin.as_secs(),
        phase(now),
        latencies.concat(),
        grouped(interval.counts.connections_open),
    )
}

/// In microseconds, as [`time`] takes it.
pub(crate) fn micros(latency: Duration) -> f64 {
    latency.as_nanos() as f64 / 1000.0
}

/// Rare enough for the log of a CI, which keeps what the default run says as short as it was.
const SAY_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use anywire::load::{Counts, Latency};

    use super::*;

    #[test]
    fn a_line_says_what_happened_in_its_interval() {
        let mut latency = Latency::new();
        let mut interval = Interval {
            begun: Duration::ZERO,
            ended: Duration::ZERO,
            counts: Counts { connections_open: 64, ..Counts::default() },
            rate: None,
            answered_by_loop: Vec::new(),
            latency: latency.clone(),
        };
        let said = line(Duration::from_secs(1), RunPhase::Connecting, &interval);
        assert_eq!(said, "1 s, connecting: - answers/s, 64 connections");
        latency.record(Duration::from_micros(250));
        latency.record(Duration::from_millis(3));
        (interval.latency, interval.rate) = (latency, Some(12_345.6));
        let said = line(Duration::from_secs(20), RunPhase::Measuring, &interval);
        assert_eq!(
            said,
            "20 s, measuring: 12,346 answers/s, p50 250 us, p99 3.00 ms, max 3.00 ms, 64 connections"
        );
    }
}
