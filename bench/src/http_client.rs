//! `bench http-client`: what a request costs each client.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::check::start_checked;
use crate::child;
use crate::clients::{self, CLIENTS, Client, Tally};
use crate::report::{self, Bar, Bound, Candidate, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::servers;
use crate::table::{self, Table};

/// Options of `bench http-client`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each every client is measured once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Measure these clients alone, separated by commas (all: see `bench list`).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// The server that is called, by its name in `http-server`.
    #[arg(long, value_name = "NAME", default_value = "limit")]
    target: String,
    /// The core of the server.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The core of the clients.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/http-client.json"))]
    json: PathBuf,
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
    let chosen: Vec<&'static Client> = CLIENTS.iter().filter(wanted).collect();
    let target = servers::named(&options.target)?;
    // Before this thread is pinned and sees one core.
    let machine = Machine::here();
    anywire_sys::cpu::pin_current_thread(options.client_core)
        .with_context(|| format!("pinning to core {} failed", options.client_core))?;

    println!("{}", machine.line());
    let seed = options.seed.chosen();
    println!("server: {} {}\n", target.name, (target.version)());
    let candidates: Vec<_> = chosen.iter().map(|client| Candidate::of_client(client)).collect();
    for candidate in &candidates {
        println!("{}", candidate.line());
    }

    let rounds = interleaved(&chosen, options.rounds as usize, seed, |client, round| {
        let sample = measure(client, target, options)?;
        eprintln!(
            "round {}/{} {:<13} {:.3} us/request, {:.0} requests/s",
            round + 1,
            options.rounds,
            client.name,
            sample.cpu_us_per_request,
            sample.requests_per_second
        );
        Ok(sample)
    });
    let rows = rows(&chosen, rounds);
    println!("\n{IN_FLIGHT} requests in flight, GET of a 13-byte body\n\n{}", table(&rows).text());
    let bars: Vec<_> = RATIO_BARS
        .iter()
        .map(|&(peer, bound)| {
            let ratio = rows.iter().find(|row| row.name == peer).and_then(|row| row.anywire_to_this);
            Bar::judge_ratio(
                format!("{IN_FLIGHT} in flight: CPU per request, anywire / {peer}"),
                bound,
                ratio,
            )
        })
        .collect();
    println!("\n{}", report::bars_table(&bars).text());
    let result = Results {
        schema: report::SCHEMA,
        bench: "http-client",
        machine,
        plan: Plan {
            rounds: options.rounds,
            seconds: options.seconds,
            warm_up_seconds: WARM_UP.as_secs_f64(),
            in_flight: IN_FLIGHT,
            target: target.name,
            target_version: (target.version)(),
            server_core: options.server_core,
            client_core: options.client_core,
            seed,
        },
        candidates,
        rows,
        bars,
    };
    report::write(&options.json, &result)
}

/// What a ratio of CPU per request of our client must be: divided by whom, bound.
static RATIO_BARS: &[(&str, Bound)] =
    &[(BASELINE, Bound::AtMost(1.15)), ("hyper-util", Bound::Below(1.0)), ("reqwest", Bound::Below(1.0))];

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

fn measure(client: &Client, target: &servers::Server, options: &Options) -> Result<Sample> {
    let (server, _) = start_checked(target, options.server_core)?;
    let plan = clients::Plan {
        address: server.address(),
        in_flight: IN_FLIGHT,
        warm_up: WARM_UP,
        duration: Duration::from_secs(options.seconds),
    };
    let family = server.family();
    let before = family.sockets()?;
    let (tally, open) = thread::scope(|scope| {
        let counting = scope.spawn(move || {
            // Early in the run of a client with warm-up, and in that of wrk, which has none.
            thread::sleep(WARM_UP.mul_f64(0.75));
            family.sockets()
        });
        let tally = child::call(client.name, options.client_core, &plan)?;
        let sockets = counting.join().ok().context("counting the connections panicked")??;
        anyhow::Ok((tally, sockets.saturating_sub(before)))
    })?;
    ensure!(open >= IN_FLIGHT, "only {open} of {IN_FLIGHT} connections were open at the server");
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
    /// CPU per request divided by wrk's, round by round.
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
    let ratios: Vec<_> = (0..chosen.len())
        .map(|index| (ratio(Some(index), place(BASELINE)), ratio(place(OURS), Some(index))))
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
        if let Some(failure) = &row.failure {
            table.row([row.name.to_owned(), "failed".to_owned()]);
            table.note(format!("{}: {failure}", row.name));
            continue;
        }
        table.row([
            row.name.to_owned(),
            table::spread(row.cpu_us_per_request, 2),
            table::figure(median(row.user_us_per_request), 2),
            table::figure(median(row.system_us_per_request), 2),
            table::spread(row.ratio_to_limit, 2),
            table::figure(median(row.anywire_to_this), 2),
            table::thousands(median(row.requests_per_second)),
        ]);
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
    rows: Vec<Row>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    warm_up_seconds: f64,
    in_flight: usize,
    target: &'static str,
    target_version: String,
    server_core: usize,
    client_core: usize,
    seed: u32,
}

/// Whom everybody is divided by.
const BASELINE: &str = "wrk";
/// Whom the bars are about.
const OURS: &str = "anywire";
/// Requests under way at any time.
const IN_FLIGHT: usize = 64;
/// Before counting starts: connections open, caches warm.
const WARM_UP: Duration = Duration::from_secs(1);
