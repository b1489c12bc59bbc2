//! `anywire compare`: the same small service over each wire, beside the limit of this machine.

use std::time::Duration;

use anywire::advice::Message;
use anywire::load::compare::{Candidate, CompareError, Comparison, Options, Step, compare};
use anywire::load::{Protocol, Stop, report, text};
use clap::Args;

use crate::candidates::Target;
use crate::failure::{Code, Failure};
use crate::output::Results;
use crate::pace::Spread;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::trust::Trust;
use crate::{candidates, explain, pace, values, versions};

/// Compare the demo service over each wire with the limit of this machine, or servers of yours with each other
///
/// With URLs those servers are compared, and the wires that --wires names.
///
/// Each round loads all candidates in a random order. Server and client have a core each. 'limit' is a raw epoll loop in
/// C style that parses nothing: it shows the cost of the kernel alone. The table has medians: requests per second, CPU time
/// of a request on either side, system calls of a request, latencies. It takes about a minute; --quick under 15 seconds.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compare {
    /// Servers that run already: [NAME=]URL[#PID], or an address; with the number of its process its CPU time and system calls
    /// are counted
    #[arg(value_name = "URL")]
    urls: Vec<Target>,
    /// Which wires to compare, separated by commas [default: all but those meant for tests and those with TLS; none with URLs]
    #[arg(long, visible_alias = "candidates", value_name = "NAMES", value_delimiter = ',')]
    wires: Option<Vec<String>>,
    /// The versions of HTTP to compare, separated by commas: h1, h2 (without TLS by prior knowledge)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "h1", value_parser = versions::named)]
    protocols: Vec<Protocol>,
    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Requests in flight on each connection: pipelined over HTTP/1, streams over HTTP/2
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Load each by so many requests a second in all, such as 500 or 10k: then compare CPU time and latencies, which count from when
    /// a request should have left [default: as many as are answered]
    #[arg(long, value_name = "R", value_parser = pace::rate)]
    rate: Option<f64>,
    #[command(flatten)]
    spread: Spread,
    /// Length of the body of each answer, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 13, value_parser = values::up_to(0, BODY_MAX))]
    body: usize,
    /// How long each candidate is measured in each round [default: 1.5s]
    #[arg(short, long, value_name = "TIME", value_parser = text::positive_duration)]
    duration: Option<Duration>,
    /// Rounds; each measures every candidate once [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seed of the order of the candidates within each round [default: random; the result names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    trust: Trust,
    /// A look in under 15 seconds: fewer and shorter rounds
    #[arg(long)]
    quick: bool,
}

impl Compare {
    /// Measures, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let candidates = self.candidates()?;
        let options = self.options()?;
        self.results.check()?;
        let signals = Signals::stop(options.stop.clone())?;
        let comparison = measure(&candidates, &options)?;
        self.results.write(&comparison, report::comparison)?;
        signals.check()?;
        if comparison.candidates.iter().all(|row| row.medians.requests_per_second.is_none()) {
            let first = comparison.candidates.iter().flat_map(|row| &row.error_messages).next();
            let found = first.cloned().unwrap_or_else(|| "no candidate answered".into());
            let message = Message::read(format_args!("comparing failed: {found}"));
            return Err(Failure::of_message(Code::Failed, message));
        }
        if let Some(found) = comparison.shortfall() {
            let message = Message::read(format_args!("comparing: {found}"));
            let failure = Failure::of_message(Code::Partial, message);
            return Err(failure.or_help("see the messages below the table, or take fewer with --connections"));
        }
        match comparison.saturation() {
            Some(found) => {
                let message = Message::read(format_args!("comparing: {found}"));
                Err(Failure::of_message(Code::Saturated, message))
            }
            None => Ok(()),
        }
    }

    /// The wires, then the servers that run by themselves.
    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let mut all = match (&self.wires, self.urls.is_empty()) {
            (None, false) => Vec::new(),
            (wires, _) => candidates::named(wires.as_deref(), &self.protocols)?,
        };
        let tls = self.trust.client_tls()?;
        for target in &self.urls {
            all.extend(self.protocols.iter().map(|protocol| target.candidate(*protocol, tls.as_ref())));
        }
        Ok(all)
    }

    fn options(&self) -> Result<Options, Failure> {
        let default = if self.quick { Options::quick() } else { usual() };
        Ok(Options {
            connections: self.connections,
            depth: self.depth,
            rate: self.rate,
            gaps: self.spread.gaps_at(self.rate)?,
            body_bytes: self.body,
            rounds: self.rounds.map_or(default.rounds, usize::from),
            duration: self.duration.unwrap_or(default.duration),
            seed: self.seed,
            stop: Stop::new(),
            ..default
        })
    }
}

/// About 45 s with four candidates: long enough for medians that hold, short enough to watch.
fn usual() -> Options {
    Options { rounds: 5, duration: Duration::from_millis(1500), ..Options::default() }
}

/// Measures the candidates, and shows how far it is.
pub(crate) fn measure(candidates: &[Candidate], options: &Options) -> Result<Comparison, Failure> {
    let steps = (options.rounds * candidates.len()) as u64;
    let progress = Progress::start(steps);
    let seconds = options.time(candidates.len()).as_secs().max(1);
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    let rounds = text::counted(options.rounds as u64, "round");
    progress.say(&format!("comparing {} in {rounds}, about {seconds} s", names.join(", ")));
    let mut done = 0;
    let mut round = 0;
    let comparison = compare(candidates, options, |step: &Step<'_>| {
        progress.show(done, || format!("round {} of {}: {}", step.round, step.rounds, step.candidate));
        if !progress.is_bar() && step.round != round {
            round = step.round;
            progress.say(&format!("round {} of {}", step.round, step.rounds));
        }
        done += 1;
    });
    progress.finish();
    comparison.map_err(|error| match error {
        CompareError::Load(error) => explain::plan(&error),
        CompareError::Twice(name) => {
            Failure::new(Code::Usage, format_args!("comparing {name:?}: it is named twice"))
                .help("name each candidate once")
        }
        CompareError::Loop(error) => Failure::of(Code::Failed, &error),
        other => Failure::of(Code::Usage, &other),
    })
}

/// 16 MiB: both ends hold a body of that length, the server's end for each connection.
const BODY_MAX: u64 = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  anywire compare
  anywire compare --quick --html compare.html
  anywire compare --wires limit,unix --connections 256 --depth 16
  anywire compare --protocols h1,h2 --depth 16
  anywire compare --wires limit,tcp,tls --protocols h1,h2
  anywire compare localhost:8080 nginx=localhost:8081#4711 unix:/run/app.sock
  anywire compare --wires limit,tcp theirs=localhost:8081#4711
  anywire compare --rate 20k localhost:8080#4710 localhost:8081#4711
  anywire compare --body 4096 --rounds 9 --duration 3s --json compare.json

Exit codes: 0 measured, 1 no candidate answered, 2 bad arguments, 4 the load generator was the limit at
--rate, 18 a candidate was measured in fewer rounds or by fewer connections than asked for, 23 result not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// What it plans to take. A busy machine adds to it.
    #[test]
    fn quick_takes_under_fifteen_seconds() {
        let Ok(Cli { command: Command::Compare(quick), .. }) =
            Cli::try_parse_from(["anywire", "compare", "--quick"])
        else {
            panic!("the flag is known");
        };
        let candidates = candidates::named(None, &quick.protocols).expect("the defaults are valid");
        let time = quick.options().expect("the defaults are valid").time(candidates.len());
        assert!(time < Duration::from_secs(15), "{time:?}");
    }
}
