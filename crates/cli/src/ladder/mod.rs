//! `anywire lab ladder`: the same small answer by each way to wait that Linux has, and what a request costs on it.

mod outcome;
mod page;

use std::time::Duration;

use anywire::advice::Message;
use anywire::load::compare::{Candidate, Comparison, Options};
use anywire::load::{Stop, text};
use anywire_ladder::hand_over::{self, HandOvers};
use clap::Args;

use self::outcome::Outcome;
use crate::failure::{Code, Failure};
use crate::output::Results;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{candidates, compare, values};

/// Climb the ladder of I/O models: what a request costs on each
///
/// The same small answer by blocking threads, by asking every socket in turn, by select, poll, epoll and io_uring, and by
/// anywire over each wire. Each is loaded in turn, in rounds of random order; server and client have a core each. The table has
/// medians: requests per second, CPU time, system calls and context switches of a request, memory of a connection,
/// latencies. Then the hand-over of jobs between two threads, by pipe, futex and spinning. It takes about a minute; --quick
/// under 40 seconds.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ladder {
    /// The rungs, separated by commas; hand-over is the second table [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rungs: Option<Vec<String>>,
    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = values::up_to(1, CONNECTIONS_MAX))]
    connections: usize,
    /// How many of the connections send requests; the others stay open and idle [default: all]
    #[arg(long, value_name = "N", value_parser = values::up_to(1, CONNECTIONS_MAX))]
    active: Option<usize>,
    /// Requests in flight on each connection that sends
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// How long each rung is measured in each round [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = text::positive_duration)]
    duration: Option<Duration>,
    /// Rounds; each measures every rung once [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seed of the order of the rungs within each round [default: random; the result names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    #[command(flatten)]
    results: Results,
    /// A look in under 40 seconds: fewer and shorter rounds
    #[arg(long)]
    quick: bool,
}

impl Ladder {
    /// Measures, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (candidates, hands_over) = self.chosen()?;
        let options = self.options()?;
        self.results.check()?;
        let signals = Signals::stop(options.stop.clone())?;
        let comparison =
            if candidates.is_empty() { None } else { Some(compare::measure(&candidates, &options)?) };
        let hand_over = match hands_over && !options.stop.is_stopped() {
            true => Some(self.hand_over(&options.stop)?),
            false => None,
        };
        let outcome = Outcome { comparison, hand_over, interrupted: options.stop.is_stopped() };
        self.results.write(&outcome, page::page)?;
        signals.check()?;
        match outcome.comparison.as_ref().and_then(first_failure) {
            Some(found) => {
                let message = Message::read(format_args!("climbing failed: {found}"));
                Err(Failure::of_message(Code::Failed, message))
            }
            None => Ok(()),
        }
    }

    /// The rungs that were named, and whether the hand-over of jobs is among them.
    fn chosen(&self) -> Result<(Vec<Candidate>, bool), Failure> {
        let Some(names) = &self.rungs else { return Ok((candidates::ladder(), true)) };
        let mut chosen = Vec::new();
        for name in names.iter().filter(|name| *name != HAND_OVER) {
            let mut all = candidates::ladder();
            let Some(place) = all.iter().position(|candidate| candidate.name == *name) else {
                let known: Vec<_> = all.into_iter().map(|candidate| candidate.name).collect();
                return Err(Failure::new(
                    Code::Usage,
                    format_args!("climbing to {name:?}: there is no such rung"),
                )
                .help(format_args!("choose from {}, {HAND_OVER}", known.join(", "))));
            };
            chosen.push(all.swap_remove(place));
        }
        Ok((chosen, names.iter().any(|name| name == HAND_OVER)))
    }

    fn options(&self) -> Result<Options, Failure> {
        if let Some(active) = self.active.filter(|active| *active > self.connections) {
            let message = format!(
                "climbing with {active} of {} connections active: they are too few",
                self.connections
            );
            return Err(Failure::new(Code::Usage, message).help("raise --connections, or lower --active"));
        }
        let (rounds, duration, others) = match self.quick {
            true => (2, Duration::from_millis(500), Duration::from_millis(150)),
            false => (3, Duration::from_secs(1), Duration::from_millis(300)),
        };
        Ok(Options {
            connections: self.connections,
            active: self.active,
            depth: self.depth,
            rounds: self.rounds.map_or(rounds, usize::from),
            duration: self.duration.unwrap_or(duration),
            warm_up: others,
            syscall_duration: others,
            memory_connections: MEMORY_CONNECTIONS,
            seed: self.seed,
            stop: Stop::new(),
            ..Options::default()
        })
    }

    fn hand_over(&self, stop: &Stop) -> Result<HandOvers, Failure> {
        let default = hand_over::Options::default();
        let shorter = if self.quick { 2 } else { 1 };
        let options = hand_over::Options {
            duration: default.duration / shorter,
            syscall_duration: default.syscall_duration / shorter,
            ..default
        };
        let steps = options.in_flight.len() * hand_over::Way::ALL.len();
        let progress = Progress::start(steps as u64);
        progress.say("handing jobs over between two threads");
        let mut done = 0;
        let is_stopped = || stop.is_stopped();
        let measured = hand_over::measure(&options, is_stopped, |way, in_flight| {
            progress.show(done, || format!("{way}, {in_flight} in flight"));
            done += 1;
        });
        progress.finish();
        measured.map_err(|error| Failure::of(Code::Failed, &error))
    }
}

/// What to say if no rung answered at all.
fn first_failure(comparison: &Comparison) -> Option<Message> {
    let rows = &comparison.candidates;
    if rows.iter().any(|row| row.medians.requests_per_second.is_some()) {
        return None;
    }
    let first = rows.iter().flat_map(|row| &row.error_messages).next();
    Some(first.cloned().unwrap_or_else(|| "no rung answered".into()))
}

/// The name of the second table, among those of the rungs.
const HAND_OVER: &str = "hand-over";
/// What the load engine takes by its default limits.
const CONNECTIONS_MAX: u64 = 100_000;
/// So many that what is shared does not count, and few enough for `select`.
const MEMORY_CONNECTIONS: usize = 500;

const EXAMPLES: &str = "\
Examples:
  anywire lab ladder
  anywire lab ladder --quick --html ladder.html
  anywire lab ladder --connections 1000 --active 1
  anywire lab ladder --rungs epoll,io_uring --depth 16 --duration 3s
  anywire lab ladder --rungs hand-over --json -

Exit codes: 0 measured, 1 no rung answered, 2 bad arguments, 23 result not written,
130 and 143 ended by SIGINT and SIGTERM with the result so far.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// What it plans to take. A busy machine adds to it, and so does the hand-over.
    #[test]
    fn quick_takes_under_forty_seconds() {
        let Ok(Cli { command: Command::Ladder(quick), .. }) =
            Cli::try_parse_from(["anywire", "ladder", "--quick"])
        else {
            panic!("the flag is known");
        };
        let time = quick.options().expect("its defaults are valid").time(candidates::ladder().len());
        assert!(time < Duration::from_secs(25), "{time:?}");
    }
}
