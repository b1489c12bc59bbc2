//! `bench tls`: what TLS costs servers. A request on a connection that stays, a connection with its handshake, and one that
//! rests.

mod client;
mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use self::client::Client;
pub use self::servers::SERVERS;
use crate::child::ServerChild;
use crate::generators::{CpuWindow, h2load};
use crate::idle::{BROWSERS, browse, growth};
use crate::options::{Common, Scenarios};
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::scenario::WARM_UP;
use crate::servers::Server;
use crate::table::{self, Table};

/// Options of `bench tls`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    wanted: Scenarios,
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A server that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    options.wanted.check(SCENARIOS.iter().map(|scenario| scenario.name))?;
    let (machine, seed) = common.begin()?;
    let candidates: Vec<_> = SERVERS.iter().map(Candidate::of_server).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }
    let mut scenarios = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| options.wanted.has(scenario.name)) {
        let result = scenario.run(common, seed)?;
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
    let result = Results {
        schema: report::SCHEMA,
        bench: "tls",
        machine,
        rounds: common.rounds,
        seconds: common.seconds,
        seed,
        generator_version: crate::versions::h2load(),
        candidates,
        scenarios,
        bars,
    };
    report::write(&common.file("tls.json"), &result)
}

/// One figure of all servers.
struct Scenario {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    /// The version of HTTP. Servers that do not speak it are left out.
    http: Protocol,
    /// Whether the bare loop over rustls, which is no server of HTTP, is left out, too.
    of_servers: bool,
    measure: fn(&ServerChild, &Common) -> Result<f64>,
}

static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "keep-alive",
        what: "64 connections that stay, one request of HTTP/1 at a time on each (h2load)",
        unit: "CPU us/request",
        http: Protocol::Http1,
        of_servers: true,
        measure: keep_alive,
    },
    Scenario {
        name: "full",
        what: "connections one after the other, each with a full handshake of TLS 1.3, a request and its end",
        unit: "CPU us/connection",
        http: Protocol::Http1,
        of_servers: false,
        measure: |server, _| handshakes(server, &Client::new(Protocol::Http1, false)?),
    },
    Scenario {
        name: "resumed",
        what: "the same, each resumes the session of the one before",
        unit: "CPU us/connection",
        http: Protocol::Http1,
        of_servers: false,
        measure: |server, _| handshakes(server, &Client::new(Protocol::Http1, true)?),
    },
    Scenario {
        name: "idle",
        what: "3,000 idle connections, each after one request: user memory a connection",
        unit: "resident bytes",
        http: Protocol::Http1,
        of_servers: true,
        measure: |server, _| {
            let client = Client::new(Protocol::Http1, false)?;
            idle(server, || {
                let mut connection = client.connect(server.address())?;
                connection.ask()?;
                Ok(connection)
            })
        },
    },
    Scenario {
        name: "h2-idle",
        what: "3,000 idle connections of HTTP/2, each after 100 requests of a browser: user memory a connection",
        unit: "resident bytes",
        http: Protocol::Http2,
        of_servers: true,
        measure: |server, _| {
            let client = Client::new(Protocol::Http2, false)?;
            idle(server, || browse(client.stream(server.address())?))
        },
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
    ("h2-idle", "hyper", Bound::AtMost(1.0)),
];

impl Scenario {
    fn run(&self, common: &Common, seed: u32) -> Result<ScenarioResult> {
        let takes_part = |server: &&Server| {
            server.protocols.contains(&self.http) && !(self.of_servers && name_of(server) == "rustls")
        };
        let chosen: Vec<&Server> = SERVERS.iter().filter(takes_part).collect();
        let all = interleaved(&chosen, common.rounds as usize, seed, |server, round| {
            let child = ServerChild::start(server.name, self.http, common.server_core)?;
            check(child.address(), self.http).context("it answers wrongly")?;
            let figure = (self.measure)(&child, common)?;
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

/// Two requests on one connection are answered, and over HTTP/2 those of a browser.
fn check(address: SocketAddr, http: Protocol) -> Result<()> {
    let client = Client::new(http, false)?;
    if http == Protocol::Http2 {
        return browse(client.stream(address)?).map(drop);
    }
    let mut connection = client.connect(address)?;
    (0..2).try_for_each(|_| connection.ask())
}

fn keep_alive(server: &ServerChild, common: &Common) -> Result<f64> {
    let url = format!("https://{}/", server.address());
    let mut command = h2load::command(64, 1, WARM_UP, Duration::from_secs(common.seconds), &url);
    command.arg("--h1");
    let mut window = CpuWindow::on(server.family());
    let report = h2load::run_to_end(&mut command, &mut window)?;
    ensure!(report.errors == 0, "{} of {} requests failed", report.errors, report.requests);
    ensure!(report.requests > 0, "no request was answered");
    Ok(window.used()?.total_us() / report.requests as f64)
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

fn idle<C>(server: &ServerChild, connect: impl FnMut() -> Result<C>) -> Result<f64> {
    Ok(growth(server.family(), BROWSERS, connect)?.resident_bytes)
}

const HANDSHAKES_BEFORE: usize = 100;
const HANDSHAKES: usize = 2000;

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
            table.candidate(
                row.name,
                row.failure.as_deref(),
                [table::spread(row.figure, 1), table::spread(row.anywire_to_this, 2)],
            );
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
