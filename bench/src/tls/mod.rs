//! `bench tls`: what TLS costs servers. A request on a connection that stays, a connection with its handshake, and one that
//! rests.

mod client;
mod servers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use self::client::Client;
pub use self::servers::SERVERS;
use crate::child::ServerChild;
use crate::generators::{Window, h2load};
use crate::measure::{Cpu, CpuUsed, Family};
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::scenario::WARM_UP;
use crate::servers::Server;
use crate::table::{self, Table};

/// Options of `bench tls`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each every server is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of load a measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run these scenarios alone, separated by commas: keep-alive, full, resumed, idle.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    scenarios: Vec<String>,
    /// The core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The core of the load.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    #[command(flatten)]
    seed: Seed,
    /// The result's file [default: bench/results/tls.json].
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A server that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    for wanted in &options.scenarios {
        ensure!(
            names.contains(&wanted.as_str()),
            "no scenario is named `{wanted}`; there are: {}",
            names.join(", ")
        );
    }
    // Before this thread is pinned and sees one core.
    let machine = Machine::here();
    anywire_sys::cpu::pin_current_thread(options.client_core)
        .with_context(|| format!("pinning the load to core {} failed", options.client_core))?;
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let candidates: Vec<_> = SERVERS.iter().map(Candidate::of_server).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }
    let wanted =
        |name: &str| options.scenarios.is_empty() || options.scenarios.iter().any(|wanted| wanted == name);
    let mut scenarios = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| wanted(scenario.name)) {
        let result = scenario.run(options, seed)?;
        println!("\n{}\n\n{}", scenario.what, result.table().text());
        scenarios.push(result);
    }
    let bars: Vec<_> = BARS
        .iter()
        .map(|&(name, peer, bound)| {
            let result = scenarios.iter().find(|scenario| scenario.name == name);
            let row = result.and_then(|result| result.rows.iter().find(|row| row.name == peer));
            let ratio = row.and_then(|row| row.anywire_to_this);
            Bar::judge_ratio(format!("{name}: anywire / {peer}"), bound, ratio)
        })
        .collect();
    println!("\n{}", report::bars_table(&bars).text());
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join("tls.json");
    let result = Results {
        schema: report::SCHEMA,
        bench: "tls",
        machine,
        rounds: options.rounds,
        seconds: options.seconds,
        seed,
        generator_version: crate::versions::h2load(),
        candidates,
        scenarios,
        bars,
    };
    report::write(&options.json.clone().unwrap_or_else(default), &result)
}

/// One figure of all servers.
struct Scenario {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    /// Servers that have nothing to do with it are left out.
    without: &'static [&'static str],
    measure: fn(&ServerChild, &Options) -> Result<f64>,
}

static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "keep-alive",
        what: "64 connections that stay, one request of HTTP/1 at a time on each (h2load)",
        unit: "CPU us/request",
        without: &["rustls"],
        measure: keep_alive,
    },
    Scenario {
        name: "full",
        what: "connections one after the other, each with a full handshake of TLS 1.3, a request and its end",
        unit: "CPU us/connection",
        without: &[],
        measure: |server, _| handshakes(server, &Client::new(false)?),
    },
    Scenario {
        name: "resumed",
        what: "the same, each resumes the session of the one before",
        unit: "CPU us/connection",
        without: &[],
        measure: |server, _| handshakes(server, &Client::new(true)?),
    },
    Scenario {
        name: "idle",
        what: "3,000 idle connections, each after one request: user memory a connection",
        unit: "resident bytes",
        without: &["rustls"],
        measure: idle,
    },
];

/// What our figure divided by that of a peer must be.
static BARS: &[(&str, &str, Bound)] = &[
    ("keep-alive", "hyper", Bound::AtMost(0.95)),
    ("keep-alive", "nginx", Bound::AtMost(1.0)),
    // At least 0.95 of the handshakes a second and core of a bare loop.
    ("full", "rustls", Bound::AtMost(1.0 / 0.95)),
    ("resumed", "rustls", Bound::AtMost(1.0 / 0.95)),
    ("idle", "hyper", Bound::AtMost(1.0)),
];

impl Scenario {
    fn run(&self, options: &Options, seed: u32) -> Result<ScenarioResult> {
        let chosen: Vec<&Server> =
            SERVERS.iter().filter(|server| !self.without.contains(&name_of(server))).collect();
        let all = interleaved(&chosen, options.rounds as usize, seed, |server, round| {
            let child = ServerChild::start(server.name, Protocol::Http1, options.server_core)?;
            check(child.address()).context("it answers wrongly")?;
            let figure = (self.measure)(&child, options)?;
            eprintln!("{} round {} {:<13} {figure:.2} {}", self.name, round + 1, name_of(server), self.unit);
            Ok(figure)
        });
        let ours =
            chosen.iter().position(|server| name_of(server) == "anywire").context("we are measured")?;
        let ratios: Vec<_> = all.iter().map(|rounds| all[ours].ratio_to(rounds, |figure| *figure)).collect();
        let row = |((server, rounds), anywire_to_this): ((&&Server, Rounds<f64>), Option<Spread>)| Row {
            name: name_of(server),
            figure: rounds.spread(|figure| Some(*figure)),
            anywire_to_this,
            failure: rounds.failure,
        };
        let rows = chosen.iter().zip(all).zip(ratios).map(row).collect();
        Ok(ScenarioResult { name: self.name, what: self.what, unit: self.unit, rows })
    }
}

fn name_of(server: &Server) -> &'static str {
    server.name.strip_suffix("-tls").unwrap_or(server.name)
}

/// Two requests on one connection are answered.
fn check(address: SocketAddr) -> Result<()> {
    let client = Client::new(false)?;
    let mut connection = client.connect(address)?;
    (0..2).try_for_each(|_| connection.ask())
}

fn keep_alive(server: &ServerChild, options: &Options) -> Result<f64> {
    struct Both {
        server: Family,
        before: Option<Cpu>,
        used: Option<CpuUsed>,
    }

    impl Window for Both {
        fn open(&mut self) -> Result<()> {
            self.before = Some(self.server.cpu()?);
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            let now = self.server.cpu()?;
            self.used = self.before.map(|before| now.since(&before));
            Ok(())
        }
    }

    let url = format!("https://{}/", server.address());
    let mut command = h2load::command(64, 1, WARM_UP, Duration::from_secs(options.seconds), &url);
    command.arg("--h1");
    let mut window = Both { server: server.family(), before: None, used: None };
    let report = h2load::run_to_end(&mut command, &mut window)?;
    ensure!(report.errors == 0, "{} of {} requests failed", report.errors, report.requests);
    ensure!(report.requests > 0, "no request was answered");
    let used = window.used.context("the generator never closed the window")?;
    Ok(used.total_us() / report.requests as f64)
}

fn handshakes(server: &ServerChild, client: &Client) -> Result<f64> {
    let connect = || {
        let mut connection = client.connect(server.address())?;
        connection.ask()?;
        Ok::<_, anyhow::Error>(connection.end())
    };
    for _ in 0..HANDSHAKES_BEFORE {
        connect()?;
    }
    let before = server.family().cpu()?;
    let mut resumed = 0;
    for _ in 0..HANDSHAKES {
        resumed += usize::from(connect()?);
    }
    let used = server.family().cpu()?.since(&before);
    let expected = if client.resumes() { HANDSHAKES } else { 0 };
    ensure!(resumed == expected, "{resumed} of {HANDSHAKES} sessions were resumed");
    Ok(used.total_us() / HANDSHAKES as f64)
}

fn idle(server: &ServerChild, _: &Options) -> Result<f64> {
    let client = Client::new(false)?;
    let memory = server.family().memory()?;
    let mut connections = Vec::with_capacity(IDLE);
    for number in 1..=IDLE {
        let mut connection = client.connect(server.address())?;
        connection.ask().with_context(|| format!("on connection {number}"))?;
        connections.push(connection);
    }
    // What a server frees after an answer, or after a while of rest, shall count in its favour.
    thread::sleep(Duration::from_secs(1));
    let now = server.family().memory()?;
    Ok(now.resident_bytes.saturating_sub(memory.resident_bytes) as f64 / IDLE as f64)
}

const HANDSHAKES_BEFORE: usize = 100;
const HANDSHAKES: usize = 2000;
const IDLE: usize = 3000;

#[derive(Serialize)]
struct ScenarioResult {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    figure: Option<Spread>,
    /// Our figure divided by this one, round by round.
    anywire_to_this: Option<Spread>,
    failure: Option<String>,
}

impl ScenarioResult {
    fn table(&self) -> Table {
        let mut table = Table::new(&["server", self.unit, "anywire / it"]);
        for row in &self.rows {
            if let Some(failure) = &row.failure {
                table.row([row.name.to_owned(), "failed".to_owned()]);
                table.note(format!("{}: {failure}", row.name));
                continue;
            }
            table.row([
                row.name.to_owned(),
                table::spread(row.figure, 1),
                table::spread(row.anywire_to_this, 2),
            ]);
        }
        table
    }
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    seconds: u64,
    seed: u32,
    generator_version: String,
    candidates: Vec<Candidate>,
    scenarios: Vec<ScenarioResult>,
    bars: Vec<Bar>,
}
