//! `anywire ab URL_A URL_B`: two servers that take turns under the same load, and whether they differ.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anywire::advice::Message;
use anywire::http::Method;
use anywire::load::ab::{AbOutcome, Options, Side, Step, ab};
use anywire::load::{Handles, Limits, Plan, Schedule, Stop, report, text};
use anywire::loops::Loops;
use anywire::wire::Address;
use bytes::Bytes;
use clap::Args;

use crate::contrast::{self, Judging};
use crate::explain;
use crate::failure::{Code, Failure};
use crate::heads::HeadLimits;
use crate::load::{DEPTH_MAX, measured};
use crate::loops::LoadLoops;
use crate::output::Results;
use crate::pace::{self, Spread};
use crate::progress::Progress;
use crate::requests::method;
use crate::restart;
use crate::signals::Signals;
use crate::trust::Trust;
use crate::values::{self, Field};
use crate::versions::Versions;

/// Let two servers take turns under the same load, and say whether they differ
///
/// In each round both are loaded in short turns, in the order ABBA or BAAB, so that what the machine does meanwhile strikes
/// both. The rounds are tested by ranks (Mann-Whitney), and the verdict on each metric of B is faster, slower or no
/// difference shown. About a minute by default.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ab {
    /// The URL of A, which the other is compared with
    #[arg(value_name = "URL_A")]
    url_a: String,
    /// The URL of B, on which the verdict is
    #[arg(value_name = "URL_B")]
    url_b: String,
    /// Rounds: five are the fewest that can show a difference
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(5..=1000))]
    rounds: u16,
    /// How long each side is measured in each round
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = measured)]
    duration: Duration,
    /// How long a side is loaded until it is the other's turn [default: 200ms, longer with many connections or a low rate]
    #[arg(long, value_name = "TIME", value_parser = text::positive_duration)]
    turn: Option<Duration>,
    /// Load before the first turn of a side in each round; before the others a tenth of a turn
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = text::duration)]
    warm_up: Duration,
    /// Connections in all, opened anew for each turn
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Load both sides by so many requests a second in all, such as 500 or 10k: latencies then count from when a request should
    /// have left [default: as many as are answered]
    #[arg(long, value_name = "R", value_parser = pace::rate)]
    rate: Option<f64>,
    #[command(flatten)]
    spread: Spread,
    /// Requests in flight on each connection of HTTP/1 (pipelining, if more than 1)
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    #[command(flatten)]
    versions: Versions,
    /// Streams that are kept busy on each connection of HTTP/2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", conflicts_with = "depth", value_parser = values::up_to(1, DEPTH_MAX))]
    streams: Option<usize>,
    /// The wire to A instead of its URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    via_a: Option<Address>,
    /// The wire to B
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    via_b: Option<Address>,
    /// A command that starts A anew before each round; it must end, and the server must answer then
    #[arg(long, value_name = "COMMAND")]
    restart_a: Option<String>,
    /// A command that starts B anew
    #[arg(long, value_name = "COMMAND")]
    restart_b: Option<String>,
    /// How long a restart may take until the server answers
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = text::positive_duration)]
    restart_within: Duration,
    /// The process of A on this machine, for its CPU time: its number, or the file that has it
    #[arg(long, value_name = "PID", value_parser = process)]
    pid_a: Option<Process>,
    /// The process of B
    #[arg(long, value_name = "PID", value_parser = process)]
    pid_b: Option<Process>,
    #[command(flatten)]
    loops: LoadLoops,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration)]
    timeout: Duration,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = text::positive_duration)]
    connect_timeout: Duration,
    /// A header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<Field>,
    /// The method [default: GET, or POST with --data]
    #[arg(short, long, value_name = "METHOD", value_parser = method)]
    method: Option<Method>,
    /// The body of each request: text, or @FILE
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    /// Seed of the order of the turns and of the resamples [default: random; the result names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    heads: HeadLimits,
}

impl Ab {
    /// Measures, prints the result, and judges it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let options = self.options()?;
        self.results.check()?;
        let handles =
            Handles { tls: self.trust.client_tls()?, stop: options.stop.clone(), ..Handles::default() };
        let signals = Signals::stop(options.stop.clone())?;
        let loops = self.loops.start()?;
        let sides = self.sides(&options, &handles, &loops)?;
        let outcome = measure(&loops, &sides, &options)?;
        self.results.write(&outcome, report::ab)?;
        signals.check()?;
        self.judge(&outcome)
    }

    fn options(&self) -> Result<Options, Failure> {
        let body = match &self.data {
            Some(data) => values::data(data)?,
            None => Bytes::new(),
        };
        let usual = if self.data.is_some() { Method::POST } else { Method::GET };
        let gaps = self.spread.gaps_at(self.rate)?;
        let plan = Plan {
            connections: self.connections,
            protocol: self.versions.protocol(),
            depth: self.streams.unwrap_or(self.depth),
            schedule: self.rate.map(|rate| Schedule { gaps, ..Schedule::constant(rate) }),
            warm_up: self.warm_up,
            method: self.method.clone().unwrap_or(usual),
            headers: values::headers(&self.headers)?,
            body,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            handshake_timeout: self.connect_timeout,
            limits: Limits { head: self.heads.limits(), ..Limits::default() },
            ..Plan::new(values::url(&self.url_a, self.via_a.as_ref())?)
        };
        Ok(Options {
            plan,
            rounds: self.rounds.into(),
            duration: self.duration,
            turn: self.turn,
            seed: self.seed,
            noise: self.judging.noise()?,
            stop: Stop::new(),
        })
    }

    fn sides(&self, options: &Options, handles: &Handles, loops: &Loops) -> Result<[Side; 2], Failure> {
        let side = |name: &str,
                    url: &str,
                    via: &Option<Address>,
                    command: &Option<String>,
                    pid: &Option<Process>| {
            let url = values::url(url, via.as_ref())?;
            let server_name = self.trust.server_name().map(str::to_owned);
            let plan = Plan {
                url: url.clone(),
                via: via.clone(),
                server_name: server_name.clone(),
                ..options.plan.clone()
            };
            let restart = command.clone().map(|command| {
                restart::restart(command, plan, handles.clone(), loops.clone(), self.restart_within)
            });
            let process =
                pid.clone().map(|pid| Box::new(move || pid.number()) as Box<dyn Fn() -> io::Result<i32>>);
            Ok::<_, Failure>(Side {
                name: name.to_owned(),
                url,
                via: via.clone(),
                tls: handles.tls.clone(),
                server_name,
                process,
                restart,
            })
        };
        Ok([
            side("A", &self.url_a, &self.via_a, &self.restart_a, &self.pid_a)?,
            side("B", &self.url_b, &self.via_b, &self.restart_b, &self.pid_b)?,
        ])
    }

    /// What could not go on is a failure, and so are a rate that this end could not keep, and a regression that was asked about. The
    /// result has been printed.
    fn judge(&self, outcome: &AbOutcome) -> Result<(), Failure> {
        let comparing = format!("comparing {} with {}", self.url_b, self.url_a);
        if let Some(failed) = &outcome.failed {
            let whole = outcome.sides.iter().any(|side| !side.rounds.is_empty());
            let code = if whole { Code::Partial } else { Code::Failed };
            let failure = Failure::new(code, format_args!("{comparing}: {failed}"));
            return Err(failure.help("see the server's log; the rounds before it were printed"));
        }
        if let Some(side) = outcome.sides.iter().find(|side| side.has_no_good_answer()) {
            let first = side.error_messages.first().map_or("none came", String::as_str);
            let message = format_args!("{comparing}: not one answer of {} was good: {first}", side.name);
            return Err(Failure::of_message(Code::Failed, Message::read(message))
                .or_help("see the server's log, or give longer turns with --turn"));
        }
        if let Some(side) = outcome.sides.iter().find(|side| side.never_open > 0) {
            let asked = text::counted(self.connections as u64, "connection");
            let first = side.error_messages.first().map_or("none came about", String::as_str);
            let found = format_args!(
                "{comparing}: in some turns {} of {asked} to {} were never open: {first}",
                side.never_open, side.name
            );
            return Err(Failure::of_message(Code::Partial, Message::read(found)).or_help(FEWER));
        }
        if let Some(found) = outcome.saturation() {
            let message = Message::read(format_args!("{comparing}: {found}"));
            return Err(Failure::of_message(Code::Saturated, message));
        }
        self.judging.refuse(outcome.why_no_verdict())?;
        let found: Vec<String> = self
            .judging
            .regressions(|limit| outcome.contrast.regressions(limit))
            .iter()
            .map(contrast::told)
            .collect();
        self.judging.judge(&found)
    }
}

fn measure(loops: &Loops, sides: &[Side; 2], options: &Options) -> Result<AbOutcome, Failure> {
    let turns = options.turns() as u64;
    let progress = Progress::start(2 * options.rounds as u64 * turns);
    let seconds = options.time().as_secs().max(1);
    let rounds = text::counted(options.rounds as u64, "round");
    let pace = options.plan.schedule.map_or_else(String::new, |schedule| format!(" at {}", schedule.pace()));
    progress.say(&format!(
        "letting {} and {} take turns{pace} in {rounds}, about {seconds} s",
        sides[0].url, sides[1].url
    ));
    let (mut done, mut round) = (0, 0);
    let outcome = ab(loops, sides, options, |step: &Step<'_>| {
        progress.show(done, || format!("round {} of {}: {}", step.round, step.rounds, step.side));
        if !progress.is_bar() && step.round != round {
            round = step.round;
            progress.say(&format!("round {} of {}", step.round, step.rounds));
        }
        done += 1;
    });
    progress.finish();
    outcome.map_err(|error| explain::plan(&error))
}

/// A process by its number, or by the file that has it: that of a server which is started anew changes.
#[derive(Debug, Clone)]
enum Process {
    Number(i32),
    File(PathBuf),
}

impl Process {
    fn number(&self) -> io::Result<i32> {
        let file = match self {
            Self::Number(number) => return Ok(*number),
            Self::File(file) => file,
        };
        let named = |cause: String| io::Error::other(format!("reading {} failed: {cause}", file.display()));
        let text = File::open(file).and_then(|file| values::whole_text(file, PID_BYTES_MAX));
        let text = text.map_err(|cause| named(cause.to_string()))?;
        let number = text.trim().parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| named("it holds no number of a process".to_owned()))
    }
}

fn process(text: &str) -> Result<Process, String> {
    match text.parse::<i32>() {
        Ok(number) if number > 0 => Ok(Process::Number(number)),
        Ok(_) => Err("numbers of processes begin at 1".to_owned()),
        Err(_) if text.is_empty() => Err("write its number, or the name of the file that has it".to_owned()),
        Err(_) => Ok(Process::File(PathBuf::from(text))),
    }
}

const FEWER: &str = "take fewer with --connections, or raise what limits them";

/// Far more than a number has.
const PID_BYTES_MAX: u64 = 64;

const EXAMPLES: &str = "\
Examples:
  anywire ab localhost:8080 localhost:8081
  anywire ab localhost:8080 localhost:8081 --rounds 20 --html ab.html --fail-on-regression 5%
  anywire ab / / --via-a unix:/run/old.sock --via-b unix:/run/new.sock -c 256
  anywire ab localhost:8080 localhost:8081 --restart-a 'systemctl restart old' --restart-b 'systemctl restart new'
  anywire ab localhost:8080 localhost:8081 --pid-a /run/old.pid --pid-b /run/new.pid
  anywire ab localhost:8080 localhost:8081 --rate 5k --pid-a /run/old.pid --pid-b /run/new.pid
  anywire ab localhost:8080 localhost:8080 --json trial.json
  anywire ab localhost:8080 localhost:8081 --noise trial.json

A difference is shown if its p is at most 0.05 after Holm's correction, and it is beyond the noise limit: 2 %, what
--noise says, or what a server against itself has shown (--noise FILE). The CPU time of the client is told and decides
nothing. With --rate both sides do the same work in the same time, as most servers do for most of their life: what differs
is their CPU time and their latencies. A side that cannot keep the rate is told.

Exit codes: 0 measured; 1 could not run, a server is not there, or not one of its answers was good; with
--fail-on-regression also if more than 1 % of the requests failed; 2 bad arguments; 3 B is slower by more than
--fail-on-regression; 4 the load generator was the limit at --rate, so there is no verdict; 18 ended early, with the rounds
until then, or connections were never open; 23 result not written; 26 data not read; 130 and 143 ended by SIGINT and SIGTERM with the result so far.";

#[cfg(test)]
mod tests {
    use anywire::load::contrast::{Contrast, Noise};
    use anywire::load::rounds::{Figures, Round};
    use anywire::load::{Host, Tool};
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::{Cli, Command};

    /// Ten rounds with a p99 of about this much.
    fn rounds(p99_us: f64) -> Vec<Round> {
        let round = |round: usize| {
            let p99_us = Some(p99_us * (1.0 + 0.001 * (round * 7 % 5) as f64));
            Round { round, figures: Figures { p99_us, ..Figures::default() }, ..Round::default() }
        };
        (1..=10).map(round).collect()
    }

    /// An outcome in which B has this p99 against 100 us of A, and a rate that the generator kept or did not.
    fn outcome(p99_us: f64, saturated: bool) -> AbOutcome {
        let contrast = Contrast::of(&rounds(100.0), &rounds(p99_us), true, &Noise::default(), 1);
        let contrast = if saturated { contrast.without_verdict("saturated") } else { contrast };
        let rate = json!({
            "target": 500.0, "intended": 100, "rate_ratio": 1.0, "own_lag_p99_us": 9.0, "own_lag_max_us": 9.0,
            "limited_by": null, "saturated": saturated, "reasons": ["it was late"],
        });
        let side = |name: &str, rounds: &[Round]| {
            json!({
                "name": name, "target": null, "spread": {}, "rate": rate, "rounds": rounds, "errors": {}, "answered": 100,
                "error_messages": [], "notes": [],
            })
        };
        let outcome: Value = json!({
            "schema": "anywire.ab/1", "tool": Tool::this(), "host": Host::without_loops(),
            "plan": { "load": null, "rounds": 10, "turns": 10, "seed": 1 },
            "is_trial": false, "sides": [side("A", &rounds(100.0)), side("B", &rounds(p99_us))],
            "contrast": contrast, "interrupted": false, "failed": null,
        });
        serde_json::from_value(outcome).expect("it has all fields")
    }

    /// The exit code and the message.
    fn judged(arguments: &[&str], outcome: &AbOutcome) -> (u8, String) {
        let all = [&["anywire", "ab", "localhost:1", "localhost:2"], arguments].concat();
        let Ok(Cli { command: Command::Ab(ab), .. }) = Cli::try_parse_from(all) else {
            panic!("flags are known")
        };
        let failed = |failure: Failure| (failure.code() as u8, failure.message().to_owned());
        ab.judge(outcome).map_or_else(failed, |()| (0, String::new()))
    }

    #[test]
    fn the_exit_code_follows_from_the_figures() {
        let limit = ["--fail-on-regression", "50%"];
        let (code, said) = judged(&limit, &outcome(200.0, false));
        assert!(code == 3 && said == "slower by more than 50 %: p99 +100 %", "{code} {said}");
        // A smaller one, none, and nobody asked.
        for (arguments, p99_us) in [(&limit[..], 140.0), (&limit, 50.0), (&[], 200.0)] {
            assert_eq!(judged(arguments, &outcome(p99_us, false)), (0, String::new()));
        }
        // Of a rate that this end could not keep nothing is said.
        let (code, said) = judged(&limit, &outcome(200.0, true));
        assert!(
            code == 4 && said.contains("the load generator was the limit in the load of A: it was late"),
            "{said}"
        );
        let gone = AbOutcome { failed: Some("round 3: B: it is gone".to_owned()), ..outcome(200.0, true) };
        assert_eq!(judged(&limit, &gone).0, 18);
    }
}
