//! `bench bursts`: one thread makes N calls at once, then one that it waits for, again and again.
//!
//! So the authors of RestClient measured their client (README of version 1.0.0): `POST` of "OK", answered with "OK". Each client has
//! all cores, the server one of them, and a process measures all rows after one warm-up.

use std::time::Duration;

use anyhow::{Result, ensure};
use anywire_load::Protocol;
use clap::Args;
use serde::Serialize;

use crate::check::start_checked;
use crate::child;
use crate::clients::{self, Bursts, CLIENTS, Client, Tally};
use crate::options::Common;
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

/// Options of `bench bursts`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Measure these clients alone, separated by commas (all: see `bench list`).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

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
        CLIENTS.iter().filter(|client| client.bursts.is_some()).filter(wanted).collect();
    let target = servers::named("anywire")?;
    let (machine, seed) = options.common.begin()?;
    let candidates: Vec<_> = chosen.iter().map(|client| Candidate::of_client(client)).collect();
    let all = interleaved(&chosen, options.common.rounds as usize, seed, |client, round| {
        let (server, _) = start_checked(target, Protocol::Http1, options.common.server_core)?;
        let plan = Bursts {
            address: server.address(),
            warm_up: client.warm_up,
            duration: Duration::from_secs(options.common.seconds),
            counts: COUNTS.to_vec(),
        };
        let tallies = child::burst(client.name, options.common.client_core, &plan)?;
        eprintln!("round {}/{} {}", round + 1, options.common.rounds, client.name);
        for (tally, count) in tallies.iter().zip(COUNTS) {
            // RestClient may lose a call whose connection is new, by a race of its own.
            let few = tally.requests / 1000;
            ensure!(tally.errors <= few, "{} requests failed by bursts of {count}", tally.errors);
        }
        Ok(tallies)
    });
    let mut scenarios = Vec::new();
    let mut bars = Vec::new();
    for (at, count) in COUNTS.into_iter().enumerate() {
        let rows: Vec<_> =
            chosen.iter().zip(&all).map(|(client, rounds)| Row::of(client, rounds, at)).collect();
        let name = if count == 0 { "one at a time".to_owned() } else { format!("bursts of {count}") };
        println!("\n{name}\n\n{}", table(&rows).text());
        bars.extend(bars_of(&name, &rows).into_iter().flatten());
        scenarios.push(Scenario { name, count, rows });
    }
    println!("\n{}", report::bars_table(&bars).text());
    let plan = Plan { rounds: options.common.rounds, seconds: options.common.seconds, seed };
    let result =
        Results { schema: report::SCHEMA, bench: "bursts", machine, plan, candidates, scenarios, bars };
    report::write(&options.common.file("bursts.json"), &result)
}

/// One client by one size of burst.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    requests_per_second: Option<Spread>,
    p99_us: Option<Spread>,
    cpu_us_per_request: Option<Spread>,
    failure: Option<String>,
}

impl Row {
    fn of(client: &Client, rounds: &Rounds<Vec<Tally>>, at: usize) -> Self {
        let rate = |tally: &Tally| tally.requests as f64 / tally.seconds;
        let cpu = |tally: &Tally| (tally.user_us + tally.system_us) / tally.requests as f64;
        Self {
            name: client.name,
            requests_per_second: rounds.spread(|tallies| tallies.get(at).map(rate)),
            p99_us: rounds.spread(|tallies| tallies.get(at)?.p99_us),
            cpu_us_per_request: rounds.spread(|tallies| tallies.get(at).map(cpu)),
            failure: rounds.failure.clone(),
        }
    }
}

/// More requests, and a lower 99th percentile, than RestClient.
fn bars_of(name: &str, rows: &[Row]) -> Option<[Bar; 2]> {
    let of = |wanted: &str| rows.iter().find(|row| row.name == wanted);
    let (ours, theirs) = (of("anywire")?, of("restclient")?);
    let ratio = |figure: fn(&Row) -> Option<Spread>| Some(figure(ours)?.median / figure(theirs)?.median);
    Some([
        Bar::judge(
            format!("{name}: requests/s, anywire / restclient"),
            Bound::AtLeast(1.0),
            ratio(|row| row.requests_per_second),
        ),
        Bar::judge(
            format!("{name}: 99th percentile, anywire / restclient"),
            Bound::Below(1.0),
            ratio(|row| row.p99_us),
        ),
    ])
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["client", "requests/s", "p99, us", "CPU us/request"]);
    for row in rows {
        table.candidate(
            row.name,
            row.failure.as_deref(),
            [
                table::thousands(row.requests_per_second.map(|spread| spread.median)),
                table::spread(row.p99_us, 0),
                table::spread(row.cpu_us_per_request, 2),
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
    scenarios: Vec<Scenario>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Scenario {
    name: String,
    count: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    seed: u32,
}

/// Of the table in RestClient's README.
const COUNTS: [usize; 7] = [0, 50, 100, 300, 500, 800, 1000];
