//! `anywire swarm tasks`: the executor alone, without a network: switches a second, and bytes a task.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire::load::text::grouped;
use anywire_swarm_load::Order::{Random, Sequential};
use anywire_swarm_load::tasks::{self, Measure, Plan};
use anywire_sys::cpu;
use clap::Args;

use super::failure;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{output, values};

/// Measure the executor alone: switches a second, and bytes a task
///
/// All tasks are in one process, on one core. 'yield': all are always ready. If there are more of them than its ring
/// has entries, the executor goes by their numbers, whatever the order of their wakes; 'yield, in order of wakes' gives
/// it a ring for all, so that the order stays random. 'ring': some tasks are ready, and each wakes its neighbour, which
/// is the next one in memory or any. 'sleep': all sleep for the same time, again and again.
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

impl Tasks {
    /// Measures, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let core = self.core.or_else(|| cpu::available_cores().last().copied()).unwrap_or(0);
        let plan = Plan { count: self.count, duration: self.duration, core, measures: self.measures() };
        let stop = Stop::new();
        let signals = Signals::stop(stop.clone())?;
        let progress = Progress::start(plan.measures.len() as u64);
        progress.say(&format!("measuring {} tasks on core {core}", grouped(self.count)));
        let mut shown: Option<Instant> = None;
        let mut show = |index: usize, switches: u64| {
            if shown.is_none_or(|at| at.elapsed() > SHOW_EVERY) {
                shown = Some(Instant::now());
                let measure = plan.measures[index];
                progress.show(index as u64, || format!("{measure}: {} switches", grouped(switches)));
            }
        };
        let outcome = tasks::run(&plan, &stop, &mut show).map_err(|error| failure(&error, "--count"))?;
        progress.finish();
        output::table_or_json(&outcome, self.json.as_deref())?;
        signals.check()?;
        outcome.check().map_err(|error| failure(&error, "--count"))
    }

    fn measures(&self) -> Vec<Measure> {
        let tokens = self.tokens.min(self.count);
        let of_kind = |kind: &Kind| match kind {
            Kind::Yield => vec![
                Measure::yielding(Sequential, false),
                Measure::yielding(Random, false),
                Measure::yielding(Random, true),
            ],
            Kind::Ring => [Sequential, Random].map(|order| Measure::ring(order, tokens)).to_vec(),
            Kind::Sleep => self.sleep.iter().copied().map(Measure::sleeping).collect(),
        };
        self.only.iter().flat_map(of_kind).collect()
    }
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
