//! `bench udp`: what an echo of datagrams costs beside a raw loop in C style and tokio's own socket, whether a rate is stood
//! without a loss, and what joining datagrams saves.

mod joined;
mod servers;
mod steady;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use anywire_load::udp::{UdpPlan, run as load};
use anywire_load::{Handles, Schedule};
use anywire_loops::{Loops, Pinning};
use clap::Args;
use serde::Serialize;

use self::servers::{Kind, Server};
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench udp`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of an echo measurement.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Datagrams a second that the echoes are loaded with: enough for batches, and less than this machine loses.
    #[arg(long, default_value_t = 80_000.0)]
    rate: f64,
    /// Run these parts alone, separated by commas: echo, steady, joined.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "echo,steady,joined")]
    parts: Vec<String>,
    /// Seconds of a steady run, and its datagrams a second.
    #[arg(long, default_value_t = 10)]
    steady_seconds: u64,
    /// The rate that has to be stood without a loss.
    #[arg(long, default_value_t = 170_000.0)]
    steady_rate: f64,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/udp.json"))]
    json: PathBuf,
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, or the result cannot be written. A server that fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    for part in &options.parts {
        ensure!(["echo", "steady", "joined"].contains(&part.as_str()), "no part is named `{part}`");
    }
    let wanted = |name: &str| options.parts.iter().any(|part| part == name);
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let mut bars = Vec::new();
    let mut echo = Vec::new();
    if wanted("echo") {
        for flows in ECHO_FLOWS {
            let rows = echoes(options, seed, flows);
            println!(
                "\nEcho of 200 bytes, {} datagrams/s in {flows} flows\n\n{}",
                options.rate,
                echo_table(&rows).text()
            );
            let ratio = rows.iter().find(|row| row.name == "anywire").and_then(|row| row.to_limit);
            let what = format!("echo, {flows} flows: anywire / limit, CPU per datagram");
            bars.push(Bar::judge_ratio(what, Bound::AtMost(1.15), ratio));
            echo.extend(rows);
        }
    }
    let steady = if wanted("steady") { steady::run(options, &mut bars)? } else { Vec::new() };
    let joined = if wanted("joined") { Some(joined::run(options, seed, &mut bars)?) } else { None };
    println!("\n{}", report::bars_table(&bars).text());
    let (rounds, seconds, rate) = (options.rounds, options.seconds, options.rate);
    let schema = report::SCHEMA;
    report::write(
        &options.json,
        &Results { schema, bench: "udp", machine, rounds, seconds, rate, seed, echo, steady, joined, bars },
    )
}

/// CPU time of one datagram at each echo server, each pinned to the first core, and the load to the last.
fn echoes(options: &Options, seed: u32, flows: usize) -> Vec<EchoRow> {
    let all = interleaved(&Kind::ALL, options.rounds as usize, seed, |kind, round| {
        let figure = echo_once(options, *kind, flows)?;
        eprintln!("echo {flows} flows, round {} {:<13} {figure:.3} us", round + 1, kind.name());
        Ok(figure)
    });
    let limit = Kind::ALL.iter().position(|kind| *kind == Kind::Limit).unwrap_or(0);
    let to_limit: Vec<_> = all.iter().map(|rounds| rounds.ratio_to(&all[limit], |figure| *figure)).collect();
    let row = |((kind, rounds), to_limit): ((&Kind, Rounds<f64>), Option<Spread>)| EchoRow {
        name: kind.name(),
        flows,
        cpu_us_per_datagram: rounds.spread(|figure| Some(*figure)),
        to_limit,
        failure: rounds.failure,
    };
    Kind::ALL.iter().zip(all).zip(to_limit).map(row).collect()
}

fn echo_once(options: &Options, kind: Kind, flows: usize) -> Result<f64> {
    let cores = anywire_sys::cpu::available_cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let server = Server::start(kind, first)?;
    let loops = Loops::builder().count(1).pinning(Pinning::Cores(vec![last])).start()?;
    let plan = |seconds| UdpPlan {
        schedule: Schedule::constant(options.rate),
        duration: seconds,
        flows,
        wait: Duration::from_millis(300),
        receive_buffer_bytes: 4 << 20,
        ..UdpPlan::new(server.address()).expect("an IP address is one")
    };
    load(&loops, plan(Duration::from_millis(300)), Handles::default())?;
    let (before, echoed_before) = (server.cpu()?, server.echoed());
    let outcome = load(&loops, plan(Duration::from_secs(options.seconds)), Handles::default())?;
    let (used, echoed) = (server.cpu()?.saturating_sub(before), server.echoed() - echoed_before);
    ensure!(echoed > 0, "nothing was echoed");
    ensure!(
        outcome.loss.is_some_and(|loss| loss < 0.05),
        "{} of {} datagrams were lost: choose a lower --rate",
        outcome.lost,
        outcome.sent
    );
    Ok(used.as_secs_f64() * 1e6 / echoed as f64)
}

fn echo_table(rows: &[EchoRow]) -> Table {
    let mut table = Table::new(&["server", "CPU us/datagram", "x limit"]);
    for row in rows {
        table.candidate(
            row.name,
            row.failure.as_deref(),
            [table::spread(row.cpu_us_per_datagram, 3), table::spread(row.to_limit, 2)],
        );
    }
    table
}

/// Few flows, whose datagrams follow one another, and many.
const ECHO_FLOWS: [usize; 2] = [64, 1024];

#[derive(Serialize)]
struct EchoRow {
    name: &'static str,
    flows: usize,
    cpu_us_per_datagram: Option<Spread>,
    /// Divided by that of the limit, round by round.
    to_limit: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    seconds: u64,
    rate: f64,
    seed: u32,
    echo: Vec<EchoRow>,
    steady: Vec<steady::Row>,
    joined: Option<joined::Joined>,
    bars: Vec<Bar>,
}
