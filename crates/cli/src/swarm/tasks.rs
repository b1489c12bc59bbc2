//! `anywire swarm tasks`: the executor alone, without a network: switches a second, and bytes a task.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire_sys::{cpu, memory};
use clap::Args;
use serde::Serialize;

use super::measures::{Figures, Measure, Order, Plan};
use crate::failure::{Code, Failure};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{output, values};

/// Measure the executor alone: switches a second, and bytes a task
///
/// All tasks are in one process, on one core. 'yield': all are ready, always. With more of them than its ring has
/// entries, the executor goes by their numbers, whatever the order of their wakes; 'yield, in order of wakes' gives it a
/// ring for all, so that the order stays random. 'ring': some tasks are ready, and each wakes its neighbour, who lies
/// beside it or anywhere. 'sleep': all sleep for the same time, again and again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tasks {
    /// Tasks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    count: u64,
    /// How long to measure each, at least
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = values::positive_duration)]
    duration: Duration,
    /// Tasks of the ring that are ready at a time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    tokens: u64,
    /// How long the tasks sleep; several are separated by commas
    #[arg(long, value_name = "TIMES", default_value = "1s", value_delimiter = ',',
          value_parser = values::positive_duration)]
    sleep: Vec<Duration>,
    /// What to measure, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "yield,ring,sleep")]
    only: Vec<Kind>,
    /// The core to run on [default: the last one]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Write the result as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What `--only` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Yield,
    Ring,
    Sleep,
}

/// The result.
#[derive(Debug, Serialize)]
struct Outcome {
    /// The form of this object: `anywire.swarm.tasks/1`.
    schema: &'static str,
    tasks: u64,
    core: usize,
    /// Whether it was ended early.
    interrupted: bool,
    measures: Vec<Figures>,
}

impl Tasks {
    /// Measures, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let measures = self.measures();
        self.check_memory(&measures)?;
        let core = self.pin()?;
        let stop = Stop::new();
        let signals = Signals::stop(stop.clone())?;
        let outcome = self.measure(&measures, core, &stop)?;
        self.print(&outcome)?;
        signals.check()?;
        match outcome.measures.iter().find(|figures| !figures.checksum_agrees) {
            Some(figures) => {
                let message = format!("measuring '{}': the tasks' checksum is wrong", figures.measure);
                Err(Failure::new(Code::Failed, message).help("turns were lost or mixed up: please report it"))
            }
            None => Ok(()),
        }
    }

    fn measures(&self) -> Vec<Measure> {
        use Order::{Random, Sequential};
        let tokens = self.tokens.min(self.count);
        let of_kind = |kind: &Kind| match kind {
            Kind::Yield => vec![
                Measure::Yield { order: Sequential, keep_order: false },
                Measure::Yield { order: Random, keep_order: false },
                Measure::Yield { order: Random, keep_order: true },
            ],
            Kind::Ring => [Sequential, Random].map(|order| Measure::Ring { order, tokens }).to_vec(),
            Kind::Sleep => self.sleep.iter().map(|time| Measure::Sleep { time: *time }).collect(),
        };
        self.only.iter().flat_map(of_kind).collect()
    }

    /// Refuses what does not fit, before anything is started: a process that runs out of memory is ended without a word.
    fn check_memory(&self, measures: &[Measure]) -> Result<(), Failure> {
        let needed = measures.iter().map(|measure| measure.bytes(self.count)).max().unwrap_or(0);
        let Ok(available) = memory::available_bytes() else { return Ok(()) };
        if needed <= available {
            return Ok(());
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let message = format!(
            "measuring {} tasks: they need {:.1} GB of memory, and {:.1} GB are available",
            grouped(self.count),
            gigabytes(needed),
            gigabytes(available)
        );
        let fitting = (self.count as f64 * 0.95 * available as f64 / needed as f64) as u64;
        Err(Failure::new(Code::Failed, message).help(format!("--count {fitting} fits")))
    }

    fn pin(&self) -> Result<usize, Failure> {
        let core = self.core.or_else(|| cpu::available_cores().last().copied()).unwrap_or(0);
        cpu::pin_current_thread(core).map_err(|error| Failure::of(Code::Usage, &error))?;
        Ok(core)
    }

    fn measure(&self, measures: &[Measure], core: usize, stop: &Stop) -> Result<Outcome, Failure> {
        let plan = Plan { count: self.count, duration: self.duration };
        let progress = Progress::start(measures.len() as u64);
        progress.say(&format!("measuring {} tasks on core {core}", grouped(self.count)));
        let mut outcome = Outcome {
            schema: "anywire.swarm.tasks/1",
            tasks: self.count,
            core,
            interrupted: false,
            measures: Vec::new(),
        };
        for (done, measure) in measures.iter().enumerate() {
            let mut shown: Option<Instant> = None;
            let mut goes_on = |switches: u64| {
                if shown.is_none_or(|at| at.elapsed() > SHOW_EVERY) {
                    shown = Some(Instant::now());
                    progress.show(done as u64, || format!("{measure}: {} switches", grouped(switches)));
                }
                !stop.is_stopped()
            };
            let figures =
                measure.run(plan, &mut goes_on).map_err(|error| Failure::of(Code::Failed, &error))?;
            outcome.measures.push(figures);
            if stop.is_stopped() {
                outcome.interrupted = true;
                break;
            }
        }
        progress.finish();
        Ok(outcome)
    }

    fn print(&self, outcome: &Outcome) -> Result<(), Failure> {
        if self.json.as_deref() != Some(Path::new("-")) {
            output::print(table(outcome).as_bytes())?;
        }
        let Some(path) = &self.json else { return Ok(()) };
        let json = serde_json::to_string_pretty(outcome).expect("an outcome holds only strings and numbers");
        output::write(path, &json)
    }
}

/// The figures, a line each.
fn table(outcome: &Outcome) -> String {
    let mut text = format!("{} tasks on core {}", grouped(outcome.tasks), outcome.core);
    if outcome.interrupted {
        text.push_str(", interrupted: the last figures are of a part");
    }
    text.push_str("\n\n");
    let heading =
        ["", "M switches/s", "ns", "CPU ns", "slot B", "resident B", "huge pages", "turns of a task"];
    let rows = outcome.measures.iter().map(|figures| {
        [
            figures.label.clone(),
            format!("{:.1}", figures.switches_per_second / 1e6),
            format!("{:.2}", figures.ns_per_switch),
            format!("{:.2}", figures.cpu_seconds * 1e9 / figures.switches.max(1) as f64),
            figures.slot_bytes.to_string(),
            format!("{:.1}", figures.resident_bytes_per_task),
            figures.huge_page_share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            format!("{} to {}", figures.turns_least, figures.turns_most),
        ]
    });
    let rows: Vec<_> = std::iter::once(heading.map(str::to_owned)).chain(rows).collect();
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            // Writing to a String cannot fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A whole number with thousands marks.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let marked = digits.bytes().enumerate().flat_map(|(place, digit)| {
        let mark = place > 0 && (digits.len() - place).is_multiple_of(3);
        mark.then_some(',').into_iter().chain([char::from(digit)])
    });
    marked.collect()
}

/// How often the progress is drawn anew.
const SHOW_EVERY: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  anywire swarm tasks
  anywire swarm tasks --count 100000000 --json tasks.json
  anywire swarm tasks --only ring --tokens 256
  anywire swarm tasks -n 50000000 --only sleep --sleep 100ms,1s,10s

Exit codes: 0 measured, 1 could not run (memory) or the checksum is wrong, 2 bad arguments, 23 result
not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_marks() {
        assert_eq!([0, 999, 1000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }
}
