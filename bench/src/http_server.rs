//! `bench http-server`: what a request costs each server, and what an idle connection does.

use std::path::PathBuf;

use anyhow::Result;
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use crate::browser;
use crate::generators::Generator;
use crate::idle::{self, IdleResult};
use crate::options::{Common, Scenarios};
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::scenario::{BASELINE, OURS, Scenario, ScenarioResult, Settings, WARM_UP};
use crate::servers::{self, BODY, LARGE_BYTES, SERVERS, Server, api};

/// Options of `bench http-server`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    wanted: Scenarios,
    /// Measure these servers alone, separated by commas (all: see `bench list`).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// The scenarios of HTTP/2, among servers that speak it, instead of those of HTTP/1.
    #[arg(long)]
    http2: bool,
    /// What makes the requests [default: anywire; with --http2 h2load].
    #[arg(long, value_enum)]
    generator: Option<Generator>,
}

impl Options {
    fn http(&self) -> Protocol {
        if self.http2 { Protocol::Http2 } else { Protocol::Http1 }
    }

    fn generator(&self) -> Generator {
        self.generator.unwrap_or(if self.http2 { Generator::H2load } else { Generator::Anywire })
    }

    fn file(&self) -> PathBuf {
        self.common.file(if self.http2 { "http-server-h2.json" } else { "http-server.json" })
    }
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A server that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    let chosen = choose(&options.only, options.http())?;
    let (common, http) = (&options.common, options.http());
    let known = SCENARIOS.iter().map(|scenario| scenario.name);
    options.wanted.check(known.chain([Protocol::Http1, Protocol::Http2].map(idle::name)))?;
    let generator = options.generator();
    let (machine, seed) = common.begin()?;
    println!("load: {generator:?} {}\n", generator.version());
    let candidates: Vec<_> = chosen.iter().map(|server| Candidate::of_server(server)).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }

    let settings = Settings {
        rounds: common.rounds,
        seconds: common.seconds,
        generator,
        server_core: common.server_core,
        seed,
    };
    let mut scenarios = Vec::new();
    for scenario in of_version(options).filter(|scenario| options.wanted.has(scenario.name)) {
        let result = scenario.measure(&chosen, &settings);
        println!("\n{}\n\n{}", scenario.what, result.table().text());
        scenarios.push(result);
    }
    let idle = (options.wanted.has(idle::name(http)))
        .then(|| idle::measure_all(&chosen, http, common.rounds, common.server_core, seed));
    if let Some(idle) = &idle {
        println!("\n{}\n\n{}", idle.what, idle.table().text());
    }
    let bars = bars(options, &scenarios, idle.as_ref());
    println!("\n{}", report::bars_table(&bars).text());
    let result = Results {
        schema: report::SCHEMA,
        bench: "http-server",
        machine,
        plan: Plan {
            rounds: common.rounds,
            seconds: common.seconds,
            warm_up_seconds: WARM_UP.as_secs_f64(),
            generator,
            generator_version: generator.version(),
            server_core: common.server_core,
            client_core: common.client_core,
            seed,
        },
        candidates,
        scenarios,
        idle,
        bars,
    };
    report::write(&options.file(), &result)
}

/// The scenarios of the version that was asked for.
fn of_version(options: &Options) -> impl Iterator<Item = &'static Scenario> {
    let http = options.http();
    SCENARIOS.iter().filter(move |scenario| scenario.http == http)
}

static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "depth-1",
        what: "64 connections, one request at a time on each",
        http: Protocol::Http1,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 64,
        depth: 1,
    },
    Scenario {
        name: "depth-16",
        what: "64 connections, 16 requests pipelined on each",
        http: Protocol::Http1,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 64,
        depth: 16,
    },
    Scenario {
        name: "connections-10000",
        what: "10,000 connections, one request at a time on each",
        http: Protocol::Http1,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 10_000,
        depth: 1,
    },
    Scenario {
        name: "api",
        what: "64 connections: JSON in and out, a path and a query parameter, three layers",
        http: Protocol::Http1,
        path: api::PATH,
        posts: Some(api::ORDER),
        servers: &["anywire", "axum", "actix-web"],
        body_bytes: api::FILED.len(),
        connections: 64,
        depth: 1,
    },
    Scenario {
        name: "h2-64x16",
        what: "HTTP/2: 64 connections, 16 streams on each",
        http: Protocol::Http2,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 64,
        depth: 16,
    },
    Scenario {
        name: "h2-1x100",
        what: "HTTP/2: 1 connection, 100 streams",
        http: Protocol::Http2,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 1,
        depth: 100,
    },
    Scenario {
        name: "h2-64x1",
        what: "HTTP/2: 64 connections, 1 stream on each",
        http: Protocol::Http2,
        path: "/",
        posts: None,
        servers: &[],
        body_bytes: BODY.len(),
        connections: 64,
        depth: 1,
    },
    Scenario {
        name: "h2-large",
        what: "HTTP/2: 1 connection, 8 streams, 1 MiB answers",
        http: Protocol::Http2,
        path: "/large",
        posts: None,
        servers: &[],
        body_bytes: LARGE_BYTES,
        connections: 1,
        depth: 8,
    },
];

/// What a ratio of CPU per request of our server must be: scenario, divided by whom, bound.
static RATIO_BARS: &[(&str, &str, Bound)] = &[
    ("depth-1", BASELINE, Bound::AtMost(1.10)),
    ("depth-1", "may_minihttp", Bound::AtMost(1.05)),
    ("depth-1", "hyper", Bound::Below(1.0)),
    ("depth-1", "axum", Bound::Below(1.0)),
    ("depth-1", "actix-web", Bound::Below(1.0)),
    ("depth-1", "nginx", Bound::Below(1.0)),
    ("depth-16", BASELINE, Bound::AtMost(1.40)),
    ("depth-16", "hyper", Bound::Below(1.0)),
    ("depth-16", "axum", Bound::Below(1.0)),
    ("depth-16", "actix-web", Bound::Below(1.0)),
    ("depth-16", "nginx", Bound::Below(1.0)),
    ("connections-10000", BASELINE, Bound::AtMost(1.10)),
    ("api", "axum", Bound::AtMost(0.75)),
    ("api", "actix-web", Bound::AtMost(0.85)),
    ("h2-64x16", "h2o", Bound::AtMost(0.85)),
    ("h2-64x16", "hyper", Bound::Below(1.0)),
    ("h2-1x100", "h2o", Bound::AtMost(0.90)),
    ("h2-1x100", "hyper", Bound::Below(1.0)),
    ("h2-64x1", "h2o", Bound::AtMost(0.90)),
    ("h2-64x1", "hyper", Bound::Below(1.0)),
    ("h2-large", "h2o", Bound::AtMost(1.0)),
    ("h2-large", "nginx", Bound::AtMost(0.9)),
];

fn choose(only: &[String], http: Protocol) -> Result<Vec<&'static Server>> {
    for name in only {
        servers::named(name)?;
    }
    Ok(SERVERS
        .iter()
        .filter(|server| server.protocols.contains(&http))
        .filter(|server| only.is_empty() || only.iter().any(|name| name == server.name))
        .collect())
}

/// The bars of the project's foundation.
fn bars(options: &Options, scenarios: &[ScenarioResult], idle: Option<&IdleResult>) -> Vec<Bar> {
    let scenario = |name: &str| scenarios.iter().find(|scenario| scenario.name == name);
    let of_version = |name: &str| of_version(options).any(|scenario| scenario.name == name);
    let mut bars: Vec<_> = RATIO_BARS
        .iter()
        .filter(|(name, ..)| of_version(name))
        .map(|&(name, peer, bound)| {
            let row = scenario(name).and_then(|scenario| scenario.row(peer));
            let ratio = row.and_then(|row| row.anywire_to_this);
            Bar::judge_ratio(format!("{name}: CPU per request, anywire / {peer}"), bound, ratio)
        })
        .collect();
    let bytes = |name: &str| idle.and_then(|idle| idle.resident_bytes_per_connection(name));
    if options.http2 {
        let table = browser::table_bytes() as f64;
        bars.push(Bar::judge(
            format!("h2-idle: bytes of user memory a connection, {table} of them for the table's entries"),
            Bound::AtMost(2048.0 + table),
            bytes(OURS),
        ));
        let ratio = bytes(OURS).zip(bytes("hyper")).map(|(ours, theirs)| ours / theirs);
        bars.push(Bar::judge("h2-idle: memory, anywire / hyper".to_owned(), Bound::AtMost(1.0), ratio));
        return bars;
    }
    let ours = scenario("depth-1").and_then(|scenario| scenario.row(OURS));
    bars.push(Bar::judge(
        "depth-1: system calls per request".to_owned(),
        Bound::AtMost(2.2),
        ours.and_then(|row| row.system_calls_per_request),
    ));
    bars.push(Bar::judge(
        "idle: bytes of user memory a connection".to_owned(),
        Bound::AtMost(934.0),
        bytes(OURS),
    ));
    bars
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    plan: Plan,
    candidates: Vec<Candidate>,
    scenarios: Vec<ScenarioResult>,
    idle: Option<IdleResult>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    warm_up_seconds: f64,
    generator: Generator,
    generator_version: String,
    server_core: usize,
    client_core: usize,
    seed: u32,
}
