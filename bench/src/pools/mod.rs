//! `bench pools` measures the way of a function to a pool and of its result back, beside the ladder, and how much is still answered in time
//! under overload, with and without queue deadlines.

mod hand_over;
mod overload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use self::overload::{Mode, Sample};
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench pools`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of a measurement of hand-overs.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: u64,
    /// Seconds of a measurement of overload.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run these parts alone, separated by commas: hand-over, overload.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "hand-over,overload")]
    parts: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/pools.json"))]
    json: PathBuf,
}

/// Runs the comparison, prints its tables, writes its file.
///
/// # Errors
/// A wrong option, fewer than two cores, or the result cannot be written. What fails is part of the result instead.
pub fn run(options: &Options) -> Result<()> {
    for part in &options.parts {
        ensure!(["hand-over", "overload"].contains(&part.as_str()), "no part is named `{part}`");
    }
    ensure!(
        anywire_sys::cpu::available_cores().len() > 1,
        "the thread of a pool needs a core, and there is one in all"
    );
    let wanted = |name: &str| options.parts.iter().any(|part| part == name);
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let mut bars = Vec::new();
    let hand_over = if wanted("hand-over") { hand_overs(options, seed, &mut bars) } else { Vec::new() };
    let overload = if wanted("overload") { overloads(options, seed, &mut bars) } else { Vec::new() };
    println!("\n{}", report::bars_table(&bars).text());
    let (rounds, seconds, milliseconds) = (options.rounds, options.seconds, options.milliseconds);
    let schema = report::SCHEMA;
    report::write(
        &options.json,
        &Results {
            schema,
            bench: "pools",
            machine,
            rounds,
            milliseconds,
            seconds,
            seed,
            deadline_ms: overload::DEADLINE.as_millis() as u64,
            patience_ms: overload::PATIENCE.as_millis() as u64,
            hand_over,
            overload,
            bars,
        },
    )
}

/// A pool beside the ladder and `spawn_blocking`, with so many on their way.
fn hand_overs(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Vec<HandOver> {
    let duration = Duration::from_millis(options.milliseconds);
    let mut rows = Vec::new();
    for in_flight in IN_FLIGHT {
        let names = ["ladder", "pool", "spawn_blocking"];
        let all = interleaved(&names, options.rounds as usize, seed, |name, round| {
            let measure = match *name {
                "ladder" => hand_over::ladder,
                "pool" => hand_over::pool,
                _ => hand_over::spawn_blocking,
            };
            let figure = measure(in_flight, duration)?;
            eprintln!("{in_flight} in flight, round {} {name:<14} {figure:.3} us", round + 1);
            Ok(figure)
        });
        let ratio = all[1].ratio_to(&all[0], |figure| *figure);
        let what = format!("hand-over, {in_flight} in flight: pool / futex if asleep, CPU");
        bars.push(Bar::judge_ratio(what, Bound::AtMost(1.2), ratio));
        let cpu = |rounds: &Rounds<f64>| rounds.spread(|figure| Some(*figure));
        let failure = all.iter().find_map(|rounds| rounds.failure.clone());
        let [ladder_us, pool_us, spawn_blocking_us] = [&all[0], &all[1], &all[2]].map(cpu);
        let of_spawn_blocking = all[1].ratio_to(&all[2], |figure| *figure);
        rows.push(HandOver {
            in_flight,
            ladder_us,
            pool_us,
            ratio,
            spawn_blocking_us,
            of_spawn_blocking,
            failure,
        });
    }
    let mut table = Table::new(&[
        "in flight",
        "futex if asleep, CPU us",
        "pool, CPU us",
        "ratio",
        "spawn_blocking, CPU us",
        "ratio",
    ]);
    for row in &rows {
        let figures = [row.ladder_us, row.pool_us, row.ratio, row.spawn_blocking_us, row.of_spawn_blocking];
        let figures = figures.map(|figure| table::spread(figure, 2));
        table.candidate(&row.in_flight.to_string(), row.failure.as_deref(), figures);
    }
    println!("\nOne hand-over, the mean of there and back\n\n{}", table.text());
    rows
}

/// Each way to wait, at three times the capacity.
fn overloads(options: &Options, seed: u32, bars: &mut Vec<Bar>) -> Vec<Overload> {
    let duration = Duration::from_secs(options.seconds);
    let modes = &Mode::ALL[1..];
    let all = interleaved(modes, options.rounds as usize, seed, |mode, round| {
        let (capacity, sample) = overload::beside_capacity(*mode, duration)?;
        eprintln!(
            "overload, round {} {:<12} {:.0} of {:.0} a second in time, capacity {capacity:.0}",
            round + 1,
            mode.name(),
            sample.in_time,
            sample.asked
        );
        Ok((capacity, sample))
    });
    let rows: Vec<_> = modes.iter().zip(&all).map(|(mode, rounds)| Overload::new(*mode, rounds)).collect();
    for (mode, row) in modes.iter().zip(&rows).filter(|(mode, _)| **mode != Mode::NoDeadline) {
        let what = format!("3 x overload, queue deadline, {}: goodput / capacity", mode.name());
        bars.push(Bar::judge_ratio(what, Bound::AtLeast(0.9), row.of_capacity));
    }
    let mut table = Table::new(&[
        "mode",
        "capacity/s",
        "asked/s",
        "in time/s",
        "refused/s",
        "late/s",
        "loop us",
        "of capacity",
    ]);
    for row in &rows {
        let figures = [row.capacity, row.asked, row.in_time, row.refused, row.late]
            .map(|figure| table::spread(figure, 0));
        let [capacity, asked, in_time, refused, late] = figures;
        let loop_us = table::spread(row.loop_us, 1);
        let cells = [capacity, asked, in_time, refused, late, loop_us, table::spread(row.of_capacity, 2)];
        table.candidate(row.mode, row.failure.as_deref(), cells);
    }
    println!("\nThree times the capacity\n\n{}", table.text());
    rows
}

impl Overload {
    fn new(mode: Mode, rounds: &Rounds<(f64, Sample)>) -> Self {
        let of = |figure: fn(&Sample) -> f64| rounds.spread(|(_, sample)| Some(figure(sample)));
        Self {
            mode: mode.name(),
            capacity: rounds.spread(|(capacity, _)| Some(*capacity)),
            asked: of(|sample| sample.asked),
            in_time: of(|sample| sample.in_time),
            refused: of(|sample| sample.refused),
            late: of(|sample| sample.late),
            loop_us: of(|sample| sample.loop_us),
            of_capacity: rounds.spread(|(capacity, sample)| Some(sample.in_time / capacity)),
            failure: rounds.failure.clone(),
        }
    }
}

const IN_FLIGHT: [usize; 3] = [1, 10, 100];

#[derive(Serialize)]
struct HandOver {
    in_flight: usize,
    /// CPU time of both threads for one hand-over, in microseconds.
    ladder_us: Option<Spread>,
    /// The same of a pool: half of a function that does nothing, there and back.
    pool_us: Option<Spread>,
    /// Pool to ladder.
    ratio: Option<Spread>,
    /// The same of tokio's `spawn_blocking`.
    spawn_blocking_us: Option<Spread>,
    /// Pool to `spawn_blocking`.
    of_spawn_blocking: Option<Spread>,
    failure: Option<String>,
}

/// Requests a second.
#[derive(Serialize)]
struct Overload {
    mode: &'static str,
    capacity: Option<Spread>,
    asked: Option<Spread>,
    in_time: Option<Spread>,
    refused: Option<Spread>,
    late: Option<Spread>,
    /// CPU time of the server's loop for each request that was asked, in microseconds.
    loop_us: Option<Spread>,
    of_capacity: Option<Spread>,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    milliseconds: u64,
    seconds: u64,
    seed: u32,
    deadline_ms: u64,
    patience_ms: u64,
    hand_over: Vec<HandOver>,
    overload: Vec<Overload>,
    bars: Vec<Bar>,
}
