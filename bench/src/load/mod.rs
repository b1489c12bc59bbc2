//! `bench load`: what a request costs each load generator, and what else a generator must hold.
//!
//! Each generator runs as a process of its own on one core, against a server on another: the raw epoll loop, or over
//! HTTP/2 anywire's. What it used from its start to its end is divided by the answers that it counted.

mod bare;
mod ours;
mod process;
mod steady;
mod stopped;
mod tools;

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use self::tools::{Case, TOOLS, Tool};
use crate::check::start_checked;
use crate::options::{Common, Scenarios};
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

pub use self::bare::tick;
pub use self::ours::generate;

/// Options of `bench load`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    scenarios: Scenarios,
    /// Measure these generators alone, separated by commas (all: see `bench list`).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

/// One load, and who makes it.
struct Scenario {
    name: &'static str,
    what: &'static str,
    http: Protocol,
    connections: usize,
    entries: &'static [Entry],
    bars: &'static [RatioBar],
    /// The most that anywire's process may hold, in bytes.
    resident_bytes: Option<f64>,
}

/// A generator with so many requests in flight on each connection.
struct Entry {
    tool: &'static str,
    depth: usize,
}

/// What the CPU time of the first, divided by that of the second, must be; by their places among the entries.
struct RatioBar {
    what: &'static str,
    above: usize,
    below: usize,
    bound: Bound,
}

const fn at(depth: usize, tool: &'static str) -> Entry {
    Entry { tool, depth }
}

/// anywire is the first entry, and the peer that it is measured by the second.
const fn of_first_two(what: &'static str, bound: f64) -> RatioBar {
    RatioBar { what, above: 0, below: 1, bound: Bound::AtMost(bound) }
}

static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "depth-1",
        what: "64 connections, one request at a time on each",
        http: Protocol::Http1,
        connections: 64,
        entries: &[at(1, "anywire"), at(1, "wrk"), at(1, "h2load"), at(1, "ab"), at(1, "hey"), at(1, "oha")],
        bars: &[of_first_two("anywire / wrk", 0.85)],
        resident_bytes: None,
    },
    Scenario {
        name: "depth-16",
        what: "64 connections, 16 requests pipelined on each",
        http: Protocol::Http1,
        connections: 64,
        entries: &[at(16, "anywire"), at(16, "wrk"), at(16, "h2load")],
        bars: &[of_first_two("anywire / wrk", 0.7)],
        resident_bytes: None,
    },
    Scenario {
        name: "pipelined",
        what: "100 connections, one by one and 100 pipelined",
        http: Protocol::Http1,
        connections: 100,
        entries: &[at(1, "anywire"), at(100, "anywire")],
        bars: &[RatioBar { what: "one by one / pipelined", above: 0, below: 1, bound: Bound::AtLeast(8.0) }],
        resident_bytes: None,
    },
    Scenario {
        name: "h2-64x16",
        what: "HTTP/2: 64 connections, 16 streams on each",
        http: Protocol::Http2,
        connections: 64,
        entries: &[at(16, "anywire"), at(16, "h2load"), at(16, "oha")],
        bars: &[of_first_two("anywire / h2load", 1.0)],
        resident_bytes: None,
    },
    Scenario {
        name: "h2-1x100",
        what: "HTTP/2: 1 connection, 100 streams",
        http: Protocol::Http2,
        connections: 1,
        entries: &[at(100, "anywire"), at(100, "h2load"), at(100, "oha")],
        bars: &[of_first_two("anywire / h2load", 1.0)],
        resident_bytes: None,
    },
    Scenario {
        name: "connections-10000",
        what: "10,000 connections, one request at a time on each",
        http: Protocol::Http1,
        connections: 10_000,
        entries: &[at(1, "anywire"), at(1, "wrk"), at(1, "h2load")],
        bars: &[],
        // 32 MiB, and 4 KiB a connection.
        resident_bytes: Some((32 << 20) as f64 + 10_000.0 * 4096.0),
    },
];

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A generator that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    let names = SCENARIOS.iter().map(|scenario| scenario.name);
    options.scenarios.check(names.chain([steady::NAME, stopped::NAME]))?;
    for name in &options.only {
        named(name)?;
    }
    let (machine, seed) = options.common.begin()?;
    let candidates: Vec<_> = TOOLS.iter().map(Tool::candidate).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }
    let mut scenarios = Vec::new();
    let mut bars = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| options.scenarios.has(scenario.name)) {
        let entries: Vec<&Entry> = scenario.entries.iter().filter(|entry| options.has(entry)).collect();
        let all = interleaved(&entries, options.common.rounds as usize, seed, |entry, round| {
            let sample = measure(scenario, entry, options)?;
            eprintln!(
                "{} round {}/{} {:<8} {:.3} us/request, {:.0} requests/s",
                scenario.name,
                round + 1,
                options.common.rounds,
                entry.tool,
                sample.cpu_us_per_request,
                sample.requests_per_second,
            );
            Ok(sample)
        });
        let place = |index: usize| {
            let entry = &scenario.entries[index];
            entries.iter().position(|other| std::ptr::eq(*other, entry))
        };
        for bar in scenario.bars {
            let ratio = place(bar.above).zip(place(bar.below)).and_then(|(above, below)| {
                all[above].ratio_to(&all[below], |sample| sample.cpu_us_per_request)
            });
            bars.push(Bar::judge_ratio(
                format!("{}: CPU per request, {}", scenario.name, bar.what),
                bar.bound,
                ratio,
            ));
        }
        if let Some(most) = scenario.resident_bytes {
            let held = place(0).and_then(|first| all[first].spread(|sample| Some(sample.resident_bytes)));
            let what = format!("{}: most memory of anywire, bytes", scenario.name);
            bars.push(Bar::judge_ratio(what, Bound::AtMost(most), held));
        }
        let rows: Vec<Row> = entries.iter().zip(all).map(|(entry, rounds)| Row::of(entry, rounds)).collect();
        println!("\n{}\n\n{}", scenario.what, table(&rows).text());
        let Scenario { name, what, connections, .. } = *scenario;
        scenarios.push(ScenarioResult { name, what, protocol: scenario.http.to_string(), connections, rows });
    }
    let common = &options.common;
    let steady = options.scenarios.has(steady::NAME).then(|| steady::run(common, seed, &mut bars));
    let stopped = options.scenarios.has(stopped::NAME).then(|| stopped::run(common, &mut bars));
    println!("\n{}", report::bars_table(&bars).text());
    let result = Results {
        schema: report::SCHEMA,
        bench: "load",
        machine,
        plan: Plan {
            rounds: common.rounds,
            seconds: common.seconds,
            server_core: common.server_core,
            client_core: common.client_core,
            seed,
        },
        candidates,
        scenarios,
        steady,
        stopped,
        bars,
    };
    report::write(&common.file("load.json"), &result)
}

impl Options {
    fn has(&self, entry: &Entry) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == entry.tool)
    }
}

impl Tool {
    /// As it is installed.
    pub fn candidate(&self) -> Candidate {
        Candidate { name: self.name, version: (self.version)(), settings: self.settings }
    }
}

/// All candidates, as they are installed.
pub fn candidates() -> impl Iterator<Item = Candidate> {
    TOOLS.iter().map(Tool::candidate)
}

fn named(name: &str) -> Result<&'static Tool> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
        bail!("no load generator is named `{name}`; there are: {}", names.join(", "));
    };
    Ok(tool)
}

/// One measurement: one generator, one round.
#[derive(Serialize)]
struct Sample {
    cpu_us_per_request: f64,
    user_us_per_request: f64,
    system_us_per_request: f64,
    requests_per_second: f64,
    resident_bytes: f64,
    requests: u64,
}

fn measure(scenario: &Scenario, entry: &Entry, options: &Options) -> Result<Sample> {
    let tool = named(entry.tool)?;
    let target = if scenario.http == Protocol::Http2 { "anywire" } else { tool.server };
    let (server, _) = start_checked(servers::named(target)?, scenario.http, options.common.server_core)?;
    let case = Case {
        address: server.address(),
        http: scenario.http,
        connections: scenario.connections,
        depth: entry.depth,
        duration: Duration::from_secs(options.common.seconds),
    };
    let script = tempfile::NamedTempFile::new()?;
    let ran = process::run((tool.command)(&case, script.path())?, case.duration * 3 + PATIENCE)?;
    let report = (tool.read)(&ran.text)?;
    ensure!(report.errors == 0, "{} of {} requests failed", report.errors, report.requests);
    let requests = report.requests as f64;
    Ok(Sample {
        cpu_us_per_request: (ran.user_us + ran.system_us) / requests,
        user_us_per_request: ran.user_us / requests,
        system_us_per_request: ran.system_us / requests,
        requests_per_second: requests / case.duration.as_secs_f64(),
        resident_bytes: ran.resident_bytes as f64,
        requests: report.requests,
    })
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    depth: usize,
    cpu_us_per_request: Option<Spread>,
    user_us_per_request: Option<Spread>,
    system_us_per_request: Option<Spread>,
    requests_per_second: Option<Spread>,
    resident_bytes: Option<Spread>,
    failure: Option<String>,
    samples: Vec<Sample>,
}

impl Row {
    fn of(entry: &Entry, rounds: Rounds<Sample>) -> Self {
        Self {
            name: entry.tool,
            depth: entry.depth,
            cpu_us_per_request: rounds.spread(|sample| Some(sample.cpu_us_per_request)),
            user_us_per_request: rounds.spread(|sample| Some(sample.user_us_per_request)),
            system_us_per_request: rounds.spread(|sample| Some(sample.system_us_per_request)),
            requests_per_second: rounds.spread(|sample| Some(sample.requests_per_second)),
            resident_bytes: rounds.spread(|sample| Some(sample.resident_bytes)),
            failure: rounds.failure,
            samples: rounds.samples,
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "generator",
        "depth",
        "CPU us/request",
        "user",
        "system",
        "requests/s",
        "most memory, MiB",
    ]);
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    for row in rows {
        let figures = [
            row.depth.to_string(),
            table::spread(row.cpu_us_per_request, 2),
            table::figure(median(row.user_us_per_request), 2),
            table::figure(median(row.system_us_per_request), 2),
            table::thousands(median(row.requests_per_second)),
            table::figure(median(row.resident_bytes).map(|bytes| bytes / f64::from(1 << 20)), 1),
        ];
        table.candidate(row.name, row.failure.as_deref(), figures);
    }
    table
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    plan: Plan,
    candidates: Vec<Candidate>,
    scenarios: Vec<ScenarioResult>,
    steady: Option<steady::Steady>,
    stopped: Option<Vec<stopped::Row>>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    server_core: usize,
    client_core: usize,
    seed: u32,
}

#[derive(Serialize)]
struct ScenarioResult {
    name: &'static str,
    what: &'static str,
    protocol: String,
    connections: usize,
    rows: Vec<Row>,
}

/// How much longer than its load a generator may take.
const PATIENCE: Duration = Duration::from_secs(20);
