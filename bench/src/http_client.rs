//! `bench http-client`: what a request costs each client.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use crate::check::start_checked;
use crate::child;
use crate::clients::{self, CLIENTS, Client, Tally};
use crate::options::Common;
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

/// Options of `bench http-client`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Measure these clients alone, separated by commas (all: see `bench list`).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Over HTTP/2, by clients that speak it.
    #[arg(long)]
    http2: bool,
    /// The server that is called, by its name in `http-server` [default: limit; with --http2 anywire].
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

impl Options {
    fn http(&self) -> Protocol {
        if self.http2 { Protocol::Http2 } else { Protocol::Http1 }
    }

    fn file(&self) -> PathBuf {
        self.common.file(if self.http2 { "http-client-h2.json" } else { "http-client.json" })
    }
}

/// A load that every client makes.
struct Scenario {
    name: &'static str,
    what: &'static str,
    http: Protocol,
    connections: usize,
    in_flight: usize,
}

static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "64 in flight",
        what: "64 connections, one request at a time on each, GET of a 13-byte body",
        http: Protocol::Http1,
        connections: 64,
        in_flight: 64,
    },
    Scenario {
        name: "h2-1x100",
        what: "HTTP/2: 1 connection, 100 streams, GET of a 13-byte body",
        http: Protocol::Http2,
        connections: 1,
        in_flight: 100,
    },
    Scenario {
        name: "h2-4x16",
        what: "HTTP/2: 4 connections, 16 streams on each, GET of a 13-byte body",
        http: Protocol::Http2,
        connections: 4,
        in_flight: 64,
    },
];

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A client that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    for name in &options.only {
        clients::named(name)?;
    }
    let wanted =
        |client: &&Client| options.only.is_empty() || options.only.iter().any(|name| name == client.name);
    let chosen: Vec<&'static Client> =
        CLIENTS.iter().filter(|client| client.protocols.contains(&options.http())).filter(wanted).collect();
    let default = if options.http2 { "anywire" } else { "limit" };
    let target = servers::named(options.target.as_deref().unwrap_or(default))?;
    let (machine, seed) = options.common.begin()?;
    println!("server: {} {}\n", target.name, (target.version)());
    let candidates: Vec<_> = chosen.iter().map(|client| Candidate::of_client(client)).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }

    let mut scenarios = Vec::new();
    let mut bars = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.http == options.http()) {
        let name = scenario.name;
        let rounds = interleaved(&chosen, options.common.rounds as usize, seed, |client, round| {
            let sample = measure(scenario, client, target, options)?;
            eprintln!(
                "{name} round {}/{} {:<13} {:.3} us/request, {:.0} requests/s",
                round + 1,
                options.common.rounds,
                client.name,
                sample.cpu_us_per_request,
                sample.requests_per_second
            );
            Ok(sample)
        });
        let rows = rows(&chosen, rounds);
        println!("\n{}\n\n{}", scenario.what, table(&rows).text());
        // The calls of threads outside, over those made on the loop.
        let ratio = rows.iter().find(|row| row.name == THREADS).and_then(|row| row.anywire_to_this);
        if let Some(ratio) = ratio {
            let what = format!("{name}: CPU per request, 8 threads outside / on the loop");
            bars.push(Bar::judge(what, Bound::AtMost(1.35), Some(1.0 / ratio.median)));
        }
        bars.extend(RATIO_BARS.iter().filter(|(of, ..)| *of == name).map(|&(_, peer, bound)| {
            let ratio = rows.iter().find(|row| row.name == peer).and_then(|row| row.anywire_to_this);
            Bar::judge_ratio(format!("{name}: CPU per request, anywire / {peer}"), bound, ratio)
        }));
        let Scenario { name, what, connections, in_flight, .. } = *scenario;
        let protocol = scenario.http.to_string();
        scenarios.push(ScenarioResult { name, what, protocol, connections, in_flight, rows });
    }
    println!("\n{}", report::bars_table(&bars).text());
    let result = Results {
        schema: report::SCHEMA,
        bench: "http-client",
        machine,
        plan: Plan {
            rounds: options.common.rounds,
            seconds: options.common.seconds,
            target: target.name,
            target_version: (target.version)(),
            server_core: options.common.server_core,
            client_core: options.common.client_core,
            seed,
        },
        candidates,
        scenarios,
        bars,
    };
    report::write(&options.file(), &result)
}

/// What a ratio of CPU per request of our client must be: scenario, divided by whom, bound.
static RATIO_BARS: &[(&str, &str, Bound)] = &[
    ("64 in flight", "wrk", Bound::AtMost(1.0)),
    ("64 in flight", "hyper-util", Bound::AtMost(0.75)),
    ("64 in flight", "reqwest", Bound::AtMost(0.5)),
    ("64 in flight", "restclient", Bound::AtMost(0.6)),
    ("h2-1x100", "hyper-util", Bound::AtMost(0.5)),
    ("h2-1x100", "h2load", Bound::AtMost(1.2)),
    ("h2-4x16", "hyper-util", Bound::AtMost(0.5)),
    ("h2-4x16", "h2load", Bound::AtMost(1.2)),
];

/// One measurement: one client, one round.
#[derive(Serialize)]
struct Sample {
    cpu_us_per_request: f64,
    user_us_per_request: f64,
    system_us_per_request: f64,
    requests_per_second: f64,
    connections_open: usize,
    tally: Tally,
}

fn measure(
    scenario: &Scenario,
    client: &Client,
    target: &servers::Server,
    options: &Options,
) -> Result<Sample> {
    let (server, _) = start_checked(target, scenario.http, options.common.server_core)?;
    let plan = clients::Plan {
        address: server.address(),
        http2: options.http2,
        connections: scenario.connections,
        in_flight: scenario.in_flight,
        warm_up: client.warm_up,
        duration: Duration::from_secs(options.common.seconds),
    };
    let family = server.family();
    let before = family.sockets()?;
    let (tally, open) = thread::scope(|scope| {
        let counting = scope.spawn({
            let warm_up = plan.warm_up;
            move || {
                // Early in the run of a client with warm-up, and in that of wrk, which has none.
                thread::sleep(warm_up.mul_f64(0.75));
                family.sockets()
            }
        });
        let tally = child::call(client.name, options.common.client_core, &plan)?;
        let sockets = counting.join().ok().context("counting the connections panicked")??;
        anyhow::Ok((tally, sockets.saturating_sub(before)))
    })?;
    let asked = scenario.connections;
    ensure!(open >= asked, "only {open} of {asked} connections were open at the server");
    // More of them would be a lighter load on each.
    ensure!(!options.http2 || open == asked, "{open} connections were open at the server instead of {asked}");
    ensure!(tally.errors == 0, "{} of {} requests failed", tally.errors, tally.requests);
    let requests = tally.requests as f64;
    Ok(Sample {
        cpu_us_per_request: (tally.user_us + tally.system_us) / requests,
        user_us_per_request: tally.user_us / requests,
        system_us_per_request: tally.system_us / requests,
        requests_per_second: requests / tally.seconds,
        connections_open: open,
        tally,
    })
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    cpu_us_per_request: Option<Spread>,
    user_us_per_request: Option<Spread>,
    system_us_per_request: Option<Spread>,
    requests_per_second: Option<Spread>,
    /// CPU per request divided by that of wrk, or over HTTP/2 of h2load, round by round.
    ratio_to_limit: Option<Spread>,
    /// anywire's CPU per request divided by this one's, round by round.
    anywire_to_this: Option<Spread>,
    failure: Option<String>,
    samples: Vec<Sample>,
}

fn rows(chosen: &[&'static Client], rounds: Vec<Rounds<Sample>>) -> Vec<Row> {
    let place = |name: &str| chosen.iter().position(|client| client.name == name);
    let ratio = |above: Option<usize>, below: Option<usize>| {
        rounds[above?].ratio_to(&rounds[below?], |sample| sample.cpu_us_per_request)
    };
    let baseline = BASELINES.iter().find_map(|name| place(name));
    let ratios: Vec<_> = (0..chosen.len())
        .map(|index| (ratio(Some(index), baseline), ratio(place(OURS), Some(index))))
        .collect();
    let rows = chosen.iter().zip(rounds).zip(ratios);
    let rows = rows.map(|((client, rounds), (ratio_to_limit, anywire_to_this))| Row {
        name: client.name,
        cpu_us_per_request: rounds.spread(|sample| Some(sample.cpu_us_per_request)),
        user_us_per_request: rounds.spread(|sample| Some(sample.user_us_per_request)),
        system_us_per_request: rounds.spread(|sample| Some(sample.system_us_per_request)),
        requests_per_second: rounds.spread(|sample| Some(sample.requests_per_second)),
        ratio_to_limit,
        anywire_to_this,
        failure: rounds.failure,
        samples: rounds.samples,
    });
    rows.collect()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "client",
        "CPU us/request",
        "user",
        "system",
        "ratio to limit",
        "anywire / it",
        "requests/s",
    ]);
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    for row in rows {
        table.candidate(
            row.name,
            row.failure.as_deref(),
            [
                table::spread(row.cpu_us_per_request, 2),
                table::figure(median(row.user_us_per_request), 2),
                table::figure(median(row.system_us_per_request), 2),
                table::spread(row.ratio_to_limit, 2),
                table::figure(median(row.anywire_to_this), 2),
                table::thousands(median(row.requests_per_second)),
            ],
        );
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
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct ScenarioResult {
    name: &'static str,
    what: &'static str,
    protocol: String,
    connections: usize,
    in_flight: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    target: &'static str,
    target_version: String,
    server_core: usize,
    client_core: usize,
    seed: u32,
}

/// Whom everybody is divided by: the first that is there.
const BASELINES: [&str; 2] = ["wrk", "h2load"];
/// Our client, called from elsewhere.
const THREADS: &str = "anywire-threads";
/// Whom the bars are about.
const OURS: &str = "anywire";
