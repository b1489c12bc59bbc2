//! `bench ipc`: what a message costs over each way between two ends on this machine, and a request of HTTP over each wire that
//! stays within it.

mod http;
#[cfg(feature = "iceoryx2")]
mod iceoryx;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_ipc::{Pattern, Plan, Way};
use anywire_load::Stop;
use clap::Args;
use serde::Serialize;

use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench ipc`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of a row of messages.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: u64,
    /// Seconds of a measurement of HTTP.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run these parts alone, separated by commas: messages, http.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "messages,http")]
    parts: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/ipc.json"))]
    json: PathBuf,
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, fewer than two cores, or the result cannot be written. A way that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    for part in &options.parts {
        ensure!(["messages", "http"].contains(&part.as_str()), "no part is named `{part}`");
    }
    ensure!(anywire_sys::cpu::available_cores().len() > 1, "each end needs a core, and there is one in all");
    let wanted = |name: &str| options.parts.iter().any(|part| part == name);
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let mut bars = Vec::new();
    let messages = if wanted("messages") { messages(options, seed, &mut bars) } else { Vec::new() };
    let http = if wanted("http") { http::run(options, seed, &mut bars) } else { Vec::new() };
    println!("\n{}", report::bars_table(&bars).text());
    let (rounds, seconds, milliseconds) = (options.rounds, options.seconds, options.milliseconds);
    report::write(
        &options.json,
        &Results {
            schema: report::SCHEMA,
            bench: "ipc",
            machine,
            rounds,
            milliseconds,
            seconds,
            seed,
            size_bytes: SIZE_BYTES,
            iceoryx2: cfg!(feature = "iceoryx2").then(|| crate::versions::locked("iceoryx2")),
            messages,
            http,
            bars,
        },
    )
}

/// One way in one pattern.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Anywire(Pattern, Way),
    #[cfg(feature = "iceoryx2")]
    Iceoryx(Pattern),
}

impl Case {
    fn all() -> Vec<Self> {
        let plan = Plan { spin: true, ..plan(Vec::new(), vec![Pattern::PingPong, Pattern::Stream], 0) };
        #[allow(unused_mut, reason = "the feature adds some")]
        let mut all: Vec<_> = plan.rows().map(|(pattern, way, _)| Self::Anywire(pattern, way)).collect();
        #[cfg(feature = "iceoryx2")]
        all.extend([Self::Iceoryx(Pattern::PingPong), Self::Iceoryx(Pattern::Stream)]);
        all
    }

    const fn pattern(self) -> Pattern {
        match self {
            Self::Anywire(pattern, _) => pattern,
            #[cfg(feature = "iceoryx2")]
            Self::Iceoryx(pattern) => pattern,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anywire(_, way) => way.name(),
            #[cfg(feature = "iceoryx2")]
            Self::Iceoryx(_) => "iceoryx2",
        }
    }

    fn waits(self) -> &'static str {
        match self {
            Self::Anywire(_, way) => way.waits(),
            #[cfg(feature = "iceoryx2")]
            Self::Iceoryx(_) => "spins",
        }
    }

    /// Microseconds of the median round trip, or messages a second.
    fn measure(self, milliseconds: u64) -> Result<f64> {
        match self {
            Self::Anywire(pattern, way) => {
                let outcome =
                    anywire_ipc::run(&plan(vec![way], vec![pattern], milliseconds), &Stop::new(), |_| ())?;
                let row = outcome.rows.into_iter().next().context("no row")?;
                let found = row.found.with_context(|| row.why_not.unwrap_or_default())?;
                Ok(found.round_trip_us.map_or(found.messages_per_second, |latency| latency.p50))
            }
            #[cfg(feature = "iceoryx2")]
            Self::Iceoryx(pattern) => iceoryx::measure(pattern, Duration::from_millis(milliseconds)),
        }
    }
}

fn plan(ways: Vec<Way>, patterns: Vec<Pattern>, milliseconds: u64) -> Plan {
    let (sizes, duration) = (vec![SIZE_BYTES], Duration::from_millis(milliseconds));
    Plan { ways, sizes, patterns, duration, spin: false, no_pin: false }
}

fn messages(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Vec<Row> {
    let cases = Case::all();
    let all = interleaved(&cases, options.rounds as usize, seed, |case, round| {
        let figure = case.measure(options.milliseconds)?;
        eprintln!("round {} {:?} {:<13} {figure:.3}", round + 1, case.pattern(), case.name());
        Ok(figure)
    });
    let of = |pattern, name| {
        let index = cases.iter().position(|case| case.pattern() == pattern && case.name() == name);
        index.map(|index| &all[index])
    };
    for &(pattern, one, other, bound) in BARS {
        let ratio = of(pattern, one)
            .zip(of(pattern, other))
            .and_then(|(one, other)| one.ratio_to(other, |figure| *figure));
        let what = if pattern == Pattern::PingPong { "round trip" } else { "messages/s" };
        bars.push(Bar::judge_ratio(format!("{what}, 100 bytes: {one} / {other}"), bound, ratio));
    }
    let row = |(case, rounds): (&Case, &Rounds<f64>)| Row {
        pattern: case.pattern(),
        way: case.name(),
        waits: case.waits(),
        figure: rounds.spread(|figure| Some(*figure)),
        failure: rounds.failure.clone(),
    };
    let rows: Vec<_> = cases.iter().zip(&all).map(row).collect();
    for (pattern, what) in [
        (Pattern::PingPong, "round trip of 100 bytes, us (median)"),
        (Pattern::Stream, "messages of 100 bytes a second"),
    ] {
        println!("\n{}", messages_table(what, rows.iter().filter(|row| row.pattern == pattern)).text());
    }
    rows
}

fn messages_table<'a>(what: &'static str, rows: impl Iterator<Item = &'a Row>) -> Table {
    let mut table = Table::new(&["way", "waits", what]);
    for row in rows {
        let digits = if row.pattern == Pattern::PingPong { 2 } else { 0 };
        let figure =
            row.failure.as_ref().map_or_else(|| table::spread(row.figure, digits), |_| "failed".to_owned());
        table.row([row.way.to_owned(), row.waits.to_owned(), figure]);
        if let Some(failure) = &row.failure {
            table.note(format!("{}: {failure}", row.way));
        }
    }
    table
}

/// A way beside another one.
type Compared = (Pattern, &'static str, &'static str, Bound);

const BARS: &[Compared] = &[
    (Pattern::Stream, "unix", "tcp", Bound::AtLeast(1.8)),
    (Pattern::PingPong, "shm-spin", "line", Bound::AtMost(2.5)),
    (Pattern::PingPong, "shm-spin", "unix", Bound::AtMost(0.1)),
    (Pattern::PingPong, "shm-loop", "unix", Bound::AtMost(1.0)),
    (Pattern::Stream, "shm-spin", "unix", Bound::AtLeast(5.0)),
    (Pattern::Stream, "shm-spin-loop", "unix", Bound::AtLeast(5.0)),
];

/// The size of the source's comparison of Unix sockets with TCP.
const SIZE_BYTES: usize = 100;

#[derive(Serialize)]
struct Row {
    pattern: Pattern,
    way: &'static str,
    waits: &'static str,
    /// Microseconds of the median round trip of a ping-pong, messages a second of a stream.
    figure: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    milliseconds: u64,
    seconds: u64,
    seed: u32,
    size_bytes: usize,
    /// Its version, if it is built in.
    iceoryx2: Option<String>,
    messages: Vec<Row>,
    http: Vec<http::Row>,
    bars: Vec<Bar>,
}
