//! `bench stack-throughput`: what gets through a line that delays and loses, by the engine and by Linux; and how both share a line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_interop::Impairment;
use anywire_interop::field::{Field, LineEnd, Plan, Version};
use anywire_interop::transfer::{Manner, Outcome, Transfer};
use clap::Args;
use serde::Serialize;

use super::program;
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench stack-throughput`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of a transfer, a quarter of which is not counted.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(100..))]
    milliseconds: u64,
    /// Run these parts alone, separated by commas: alone, shared.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "alone,shared")]
    parts: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/stack-throughput.json"))]
    json: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let wanted = |name: &str| options.parts.iter().any(|part| part == name);
    let mut bars = Vec::new();
    let alone = if wanted("alone") { alone(options, seed, &mut bars) } else { Vec::new() };
    let shared = wanted("shared").then(|| shared(options, seed, &mut bars));
    println!("\n{}", report::bars_table(&bars).text());
    let (rounds, milliseconds, schema) = (options.rounds, options.milliseconds, report::SCHEMA);
    report::write(
        &options.json,
        &Results {
            schema,
            bench: "stack-throughput",
            machine,
            rounds,
            milliseconds,
            seed,
            round_trip_ms: ROUND_TRIP_MS,
            window_bytes: WINDOW_BYTES,
            alone,
            shared,
            bars,
        },
    )
}

/// One way at a time, for each loss.
fn alone(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Vec<Alone> {
    let mut rows = Vec::new();
    for (loss, name, flows) in LOSSES {
        let impairment = Impairment { loss, round_trip_ms: ROUND_TRIP_MS, ..Impairment::default() };
        let all = interleaved(&WAYS, options.rounds as usize, seed, |way, round| {
            // The same losses for all ways of a round.
            let impairment = Impairment { seed: u64::from(seed) + round as u64, ..impairment };
            let mut field = field(impairment)?;
            let transfer = transfer(options, flows);
            let [called, listened] = field.transfer(way.sender, way.receiver, Version::V4, transfer)?;
            let rate = rate_of(&listened)?;
            eprintln!(
                "{name} lost, round {} {:<16} {rate:.2} MB/s {:?}",
                round + 1,
                way.name,
                sent_again(&called)
            );
            Ok(rate)
        });
        let linux = WAYS.len() - 1;
        for (way, rounds) in WAYS.iter().zip(&all) {
            let ratio = rounds.ratio_to(&all[linux], |rate| *rate);
            if way.sender == LineEnd::Engine || way.receiver == LineEnd::Engine {
                let what = format!("{name} lost, {}: / Linux to Linux", way.name);
                bars.push(Bar::judge_ratio(what, Bound::AtLeast(0.9), ratio));
            }
            let megabytes = rounds.spread(|rate| Some(*rate));
            rows.push(Alone {
                loss: name,
                flows,
                way: way.name,
                megabytes,
                ratio,
                failure: rounds.failure.clone(),
            });
        }
    }
    let mut table = Table::new(&["lost, way", "MB/s", "/ Linux to Linux"]);
    for row in &rows {
        let name = format!("{}, {}", row.loss, row.way);
        table.candidate(
            &name,
            row.failure.as_deref(),
            [table::spread(row.megabytes, 2), table::spread(row.ratio, 2)],
        );
    }
    println!(
        "\nOne flow without loss, eight with it, a round trip of {ROUND_TRIP_MS} ms\n\n{}",
        table.text()
    );
    rows
}

/// Two flows of the engine beside two of Linux, through a narrow line.
fn shared(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Shared {
    let impairment = Impairment {
        round_trip_ms: ROUND_TRIP_MS,
        rate_bits_per_second: Some(SHARED_BITS_PER_SECOND),
        ..Impairment::default()
    };
    let all = interleaved(&[()], options.rounds as usize, seed, |(), round| {
        let mut field = field(Impairment { seed: u64::from(seed) + round as u64, ..impairment })?;
        // Longer than a flow alone: both have to find their share.
        let transfer = Transfer { manner: Manner::Upload(2 * options.milliseconds), ..transfer(options, 2) };
        let pairs = [(LineEnd::Engine, LineEnd::Right), (LineEnd::Left, LineEnd::RightToo)];
        let both = field.transfer_at_once(&pairs, Version::V4, transfer)?;
        let [ours, linux] = [rate_of(&both[0][1])?, rate_of(&both[1][1])?];
        eprintln!("shared, round {}: {ours:.2} MB/s beside {linux:.2}", round + 1);
        Ok((ours, linux))
    });
    let rounds = &all[0];
    let share = rounds.spread(|(ours, linux)| Some(ours / linux));
    for bound in [Bound::AtLeast(0.7), Bound::AtMost(1.4)] {
        bars.push(Bar::judge_ratio("two flows beside two of Linux: ours / Linux".to_owned(), bound, share));
    }
    let shared = Shared {
        bits_per_second: SHARED_BITS_PER_SECOND,
        ours: rounds.spread(|(ours, _)| Some(*ours)),
        linux: rounds.spread(|(_, linux)| Some(*linux)),
        share,
        failure: rounds.failure.clone(),
    };
    let mut table = Table::new(&["", "ours, MB/s", "Linux, MB/s", "ours / Linux"]);
    let figures = [shared.ours, shared.linux, shared.share].map(|figure| table::spread(figure, 2));
    table.candidate("two flows each", shared.failure.as_deref(), figures);
    println!("\nA line of {} Mbit/s\n\n{}", SHARED_BITS_PER_SECOND / 1_000_000, table.text());
    shared
}

fn field(impairment: Impairment) -> Result<Field> {
    let mut field = Field::set_up(&Plan {
        program: program()?,
        impairment,
        window_bytes: WINDOW_BYTES,
        cores: [None; 3],
    })?;
    field.set_congestion_control("cubic");
    Ok(field)
}

fn transfer(options: &Options, connections: usize) -> Transfer {
    let patience = Duration::from_millis(2 * options.milliseconds) + Duration::from_secs(30);
    Transfer {
        patience_ms: patience.as_millis() as u64,
        ..Transfer::of(Manner::Upload(options.milliseconds), 0).over(connections)
    }
}

/// Megabytes a second that a reader had, once its flow had found its rate.
pub(super) fn rate_of(outcome: &Outcome) -> Result<f64> {
    let (bytes, seconds) = outcome.steady.context("nothing came after the first quarter of the time")?;
    anyhow::ensure!(seconds > 0.0, "nothing came after the first quarter of the time");
    Ok(bytes as f64 / seconds / 1e6)
}

/// Segments that a sender has sent again.
fn sent_again(outcome: &Outcome) -> Option<u64> {
    let kernel = outcome.kernel.map(|kernel| u64::from(kernel.retransmits));
    kernel.or_else(|| outcome.engine.map(|engine| engine.retransmits))
}

/// Who sends to whom.
struct Way {
    name: &'static str,
    sender: LineEnd,
    receiver: LineEnd,
}

/// The last one is what the others are divided by.
const WAYS: [Way; 3] = [
    Way { name: "we send", sender: LineEnd::Engine, receiver: LineEnd::Right },
    Way { name: "we receive", sender: LineEnd::Right, receiver: LineEnd::Engine },
    Way { name: "Linux to Linux", sender: LineEnd::Left, receiver: LineEnd::Right },
];

/// A loss, and over how many flows it is measured: a flow alone sees so few losses in the time that its rate is chance.
const LOSSES: [(f64, &str, usize); 3] = [(0.0, "none", 1), (0.001, "0.1 %", 8), (0.01, "1 %", 8)];
const ROUND_TRIP_MS: u64 = 20;
/// What Linux lets a socket's send buffer grow to (`tcp_wmem`). The engine has a fixed one.
const WINDOW_BYTES: u32 = 4 << 20;
const SHARED_BITS_PER_SECOND: u64 = 100_000_000;

#[derive(Serialize)]
struct Alone {
    loss: &'static str,
    flows: usize,
    way: &'static str,
    /// A second, of all flows.
    megabytes: Option<Spread>,
    ratio: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Shared {
    bits_per_second: u64,
    /// Megabytes a second of both flows.
    ours: Option<Spread>,
    linux: Option<Spread>,
    share: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    milliseconds: u64,
    seed: u32,
    round_trip_ms: u64,
    window_bytes: u32,
    alone: Vec<Alone>,
    shared: Option<Shared>,
    bars: Vec<Bar>,
}
