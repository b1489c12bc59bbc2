//! `bench stack-bulk`: bulk over TAP with offloads, beside iperf3 through the same TAP.
//!
//! A TAP device has the kernel at one end and a program at the other. With the engine that program is one end of the transfer. With
//! iperf3 both ends are kernels, so the program carries frames from one TAP device to another one.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use anywire_interop::Impairment;
use anywire_interop::field::{Field, LineEnd, Plan, Version};
use anywire_interop::transfer::{Manner, Transfer};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::program;
use super::throughput::rate_of;
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench stack-bulk`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a transfer.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/stack-bulk.json"))]
    json: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let all = interleaved(&WAYS, options.rounds as usize, seed, |way, round| {
        let rate = measure(way, options.seconds)?;
        eprintln!("round {} {:<40} {rate:.0} MB/s", round + 1, way.name);
        Ok(rate)
    });
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (way, rounds) in WAYS.iter().zip(&all) {
        let ratio = rounds.ratio_to(&all[0], |rate| *rate);
        if way.is_judged {
            bars.push(Bar::judge_ratio(format!("{}: / iperf3", way.name), Bound::AtLeast(0.7), ratio));
        }
        let megabytes = rounds.spread(|rate| Some(*rate));
        rows.push(Row { way: way.name, megabytes, ratio, failure: rounds.failure.clone() });
    }
    let mut table = Table::new(&["way", "MB/s", "/ iperf3"]);
    for row in &rows {
        table.candidate(
            row.way,
            row.failure.as_deref(),
            [table::spread(row.megabytes, 0), table::spread(row.ratio, 2)],
        );
    }
    println!("\n{}\n{}", table.text(), report::bars_table(&bars).text());
    let (rounds, seconds, schema) = (options.rounds, options.seconds, report::SCHEMA);
    report::write(
        &options.json,
        &Results {
            schema,
            bench: "stack-bulk",
            machine,
            rounds,
            seconds,
            seed,
            window_bytes: WINDOW_BYTES,
            rows,
            bars,
        },
    )
}

fn measure(way: &Way, seconds: u64) -> Result<f64> {
    let plan = Plan {
        program: program()?,
        impairment: Impairment::default(),
        window_bytes: WINDOW_BYTES,
        cores: [None; 3],
    };
    let mut field = Field::set_up(&plan)?;
    field.set_congestion_control("cubic");
    let Some((sender, receiver)) = way.ends else { return iperf3(&field, seconds) };
    let transfer = Transfer::of(Manner::Upload(1000 * seconds), 0);
    let [_, listened] = field.transfer(sender, receiver, Version::V4, transfer)?;
    rate_of(&listened)
}

/// Megabytes a second that iperf3's server has received on the right.
fn iperf3(field: &Field, seconds: u64) -> Result<f64> {
    let mut server = field.right_command("iperf3");
    let mut server =
        server.args(["--server", "--one-off", "--json"]).stdout(std::process::Stdio::piped()).spawn();
    let server = server
        .as_mut()
        .map_err(|error| anyhow::anyhow!("iperf3, a package of Debian's, is needed: {error}"))?;
    let to = LineEnd::Right.ip(Version::V4).to_string();
    let call = || {
        let mut client = Command::new("iperf3");
        client
            .args(["--client", &to, "--time", &seconds.to_string(), "--congestion", "cubic", "--json"])
            .output()
    };
    let mut said = Value::Null;
    for _ in 0..50 {
        said = serde_json::from_slice(&call()?.stdout).context("what iperf3 says")?;
        if said["error"].is_null() {
            break;
        }
        // It does not listen yet.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let _ = server.kill();
    let _ = server.wait();
    ensure!(said["error"].is_null(), "iperf3: {}", said["error"]);
    let bits = said["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 tells no rate")?;
    Ok(bits / 8e6)
}

/// Who sends to whom; iperf3 from the left to the right if it is not said.
struct Way {
    name: &'static str,
    ends: Option<(LineEnd, LineEnd)>,
    is_judged: bool,
}

/// The first one is what the others are divided by.
const WAYS: [Way; 5] = [
    Way { name: "iperf3, kernel to kernel", ends: None, is_judged: false },
    Way { name: "engine to kernel", ends: Some((LineEnd::Engine, LineEnd::Left)), is_judged: true },
    Way { name: "kernel to engine", ends: Some((LineEnd::Left, LineEnd::Engine)), is_judged: true },
    Way {
        name: "engine to kernel, two TAP more between",
        ends: Some((LineEnd::Engine, LineEnd::Right)),
        is_judged: false,
    },
    Way {
        name: "sockets like the engine's, kernel to kernel",
        ends: Some((LineEnd::Left, LineEnd::Right)),
        is_judged: false,
    },
];

/// What Linux lets a socket's send buffer grow to (`tcp_wmem`).
const WINDOW_BYTES: u32 = 4 << 20;

#[derive(Serialize)]
struct Row {
    way: &'static str,
    /// A second.
    megabytes: Option<Spread>,
    ratio: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    seconds: u64,
    seed: u32,
    window_bytes: u32,
    rows: Vec<Row>,
    bars: Vec<Bar>,
}
