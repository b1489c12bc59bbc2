//! `bench swarm`: what an echo costs over millions of connections in one process, beside the limit that memory sets.
//!
//! The limit is [`model`]: the memory accesses of a user-space TCP, and nothing else of it. What must be reached is in
//! [`cases`]: each is run by the command `anywire lab swarm`, with the model of the same connections beside it. The pair of
//! devices, one bulk connection ([`alone`]) and the executor (`anywire lab swarm tasks`) are measured here.

pub mod alone;
pub mod cases;
pub mod model;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use anywire_sys::memory;
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::model::{Kept, Measured, Model, Order, World};
use crate::report::{self, Machine};
use crate::rounds::{Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench swarm`. Where several values are given, each is measured with each of the others.
#[derive(Args)]
pub struct Options {
    /// Measure the model alone, in all the ways that the options below say.
    #[arg(long)]
    model_only: bool,
    #[command(flatten)]
    cases: cases::Options,
    /// Clients, each with a server's end of its own.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "6000000")]
    connections: Vec<u32>,
    /// The order of the connections' turns.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "random,sequential")]
    order: Vec<Order>,
    /// Segments an echo: 3 if the response is acknowledged at once, 2 if with the next request.
    #[arg(long, value_delimiter = ',', default_value = "3,2", value_parser = clap::value_parser!(u32).range(2..=3))]
    segments: Vec<u32>,
    /// Checksums written and verified, or neither.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "on,off")]
    checksum: Vec<Switch>,
    /// Frames a batch, with prefetch; `none` for one by one, without.
    #[arg(long, value_delimiter = ',', value_parser = batch, default_value = "64", value_name = "NUMBERS")]
    batch: Vec<Batch>,
    /// How long the model keeps sent data.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "until-acknowledged")]
    kept: Vec<Kept>,
    /// Bytes of payload each way.
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The core that does it all.
    #[arg(long, default_value_t = 1)]
    core: usize,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/swarm.json"))]
    json: PathBuf,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// A batch, or none.
#[derive(Clone, Copy)]
struct Batch(Option<usize>);

fn batch(text: &str) -> Result<Batch, String> {
    match text {
        "none" => Ok(Batch(None)),
        _ => text.parse().map(|frames| Batch(Some(frames))).map_err(|error| format!("{error}, nor `none`")),
    }
}

/// Measures, prints a table, writes a file.
///
/// # Errors
/// A wrong option, too little memory, or the result cannot be written.
pub fn run(options: &Options) -> Result<()> {
    // Before this thread is pinned and sees one core.
    let machine = Machine::here();
    if !options.model_only {
        println!("{}\n", machine.line());
        let results = cases::run(&options.cases, options.core, options.seconds)?;
        println!("{}", results.table().text());
        let plan = Plan { rounds: 1, seconds: options.seconds, core: options.core, seed: None };
        let cases = Some(results);
        let result =
            Results { schema: report::SCHEMA, bench: "swarm", machine, plan, cases, model: Vec::new() };
        return report::write(&options.json, &result);
    }
    anywire_sys::cpu::pin_current_thread(options.core)
        .with_context(|| format!("pinning to core {} failed", options.core))?;
    println!("{}\n", machine.line());
    let seed = options.seed.chosen();
    let mut rows = Vec::new();
    for &connections in &options.connections {
        rows.extend(measure(&models(options, connections), options, seed)?);
    }
    println!("The model: the memory accesses of a user-space TCP\n\n{}", table_of(&rows).text());
    let result = Results {
        schema: report::SCHEMA,
        bench: "swarm",
        machine,
        plan: Plan { rounds: options.rounds, seconds: options.seconds, core: options.core, seed: Some(seed) },
        cases: None,
        model: rows,
    };
    report::write(&options.json, &result)
}

/// Everything that is asked for with so many connections.
fn models(options: &Options, connections: u32) -> Vec<Model> {
    let mut models = Vec::new();
    for &order in &options.order {
        for &segments in &options.segments {
            for &kept in &options.kept {
                for &checksum in &options.checksum {
                    for &Batch(batch) in &options.batch {
                        let checksum = checksum == Switch::On;
                        let payload_bytes = options.payload;
                        models.push(Model {
                            connections,
                            order,
                            segments,
                            checksum,
                            batch,
                            kept,
                            payload_bytes,
                        });
                    }
                }
            }
        }
    }
    models
}

/// Measures models of the same number of connections.
fn measure(models: &[Model], options: &Options, seed: u32) -> Result<Vec<Row>> {
    let Some(connections) = models.first().map(|model| model.connections) else { return Ok(Vec::new()) };
    let needed = models.iter().map(Model::bytes).max().unwrap_or(0);
    let available = memory::available_bytes()?;
    ensure!(
        needed <= available,
        "{connections} connections take {} MiB of memory, and {} MiB are available; ask for fewer",
        needed >> 20,
        available >> 20
    );
    let mut world = World::of(connections)?;
    let time = Duration::from_secs(options.seconds);
    let all = interleaved(models, options.rounds as usize, seed, |model, round| {
        let measured = world.run(model, time)?;
        eprintln!(
            "round {}/{} {}: {:.1} ns/echo, {:.2} M echo/s",
            round + 1,
            options.rounds,
            words(model).join(" "),
            measured.ns_per_echo,
            measured.echoes_per_second / 1e6
        );
        Ok(measured)
    });
    let (pages, bytes) = (world.pages().to_string(), world.bytes() as u64);
    let huge_page_bytes = memory::huge_page_bytes().ok();
    let row = |(model, rounds): (&Model, crate::rounds::Rounds<Measured>)| {
        if let Some(failure) = &rounds.failure {
            bail!("{}: {failure}", words(model).join(" "));
        }
        let spread = |figure: fn(&Measured) -> f64| rounds.spread(|measured| Some(figure(measured)));
        Ok(Row {
            model: *model,
            endpoints: 2 * u64::from(connections),
            echoes_per_second: spread(|measured| measured.echoes_per_second),
            ns_per_echo: spread(|measured| measured.ns_per_echo),
            cpu_ns_per_echo: spread(|measured| measured.cpu_ns_per_echo),
            frames_per_second: spread(|measured| measured.frames_per_second),
            core_share: spread(|measured| measured.core_share),
            pages: pages.clone(),
            bytes,
            huge_page_bytes,
        })
    };
    models.iter().zip(all).map(row).collect()
}

/// What tells a model from others.
fn words(model: &Model) -> [String; 6] {
    let word = |value: Option<clap::builder::PossibleValue>| {
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    [
        table::thousands(Some(f64::from(model.connections))),
        word(model.order.to_possible_value()),
        model.segments.to_string(),
        if model.checksum { "on" } else { "off" }.to_owned(),
        model.batch.map_or_else(|| "none".to_owned(), |frames| frames.to_string()),
        word(model.kept.to_possible_value()),
    ]
}

fn table_of(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "connections",
        "order",
        "segments",
        "checksum",
        "batch",
        "kept",
        "ns/echo",
        "CPU ns/echo",
        "M echo/s",
        "M frames/s",
    ]);
    for row in rows {
        let millions = |spread: Option<Spread>| table::figure(spread.map(|spread| spread.median / 1e6), 2);
        table.row(words(&row.model).into_iter().chain([
            table::spread(row.ns_per_echo, 1),
            table::spread(row.cpu_ns_per_echo, 1),
            millions(row.echoes_per_second),
            millions(row.frames_per_second),
        ]));
    }
    let disturbed = |row: &&Row| row.core_share.is_some_and(|share| share.min < UNDISTURBED_SHARE);
    match rows.iter().filter(disturbed).count() {
        0 => {}
        count => table
            .note(format!("{count} of these had to share their core with other programs: measure again.")),
    }
    if let Some(row) = rows.iter().max_by_key(|row| row.bytes) {
        let huge = row.huge_page_bytes.map_or(0, |bytes| bytes >> 20);
        table.note(format!(
            "Memory: {} MiB in {} pages; {huge} MiB are in huge ones.",
            row.bytes >> 20,
            row.pages
        ));
    }
    table
}

/// The least part of the time that a measurement must have had its core.
const UNDISTURBED_SHARE: f64 = 0.98;

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    plan: Plan,
    /// What must be reached; `null` if the model alone was measured.
    cases: Option<cases::Results>,
    model: Vec<Row>,
}

#[derive(Serialize)]
struct Plan {
    rounds: u32,
    seconds: u64,
    core: usize,
    /// Unknown for the cases, which run once and in their own order.
    seed: Option<u32>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    model: Model,
    endpoints: u64,
    echoes_per_second: Option<Spread>,
    ns_per_echo: Option<Spread>,
    cpu_ns_per_echo: Option<Spread>,
    frames_per_second: Option<Spread>,
    /// The part of the time that the measuring thread had its core.
    core_share: Option<Spread>,
    /// The pages that were asked for.
    pages: String,
    /// Memory of both ends.
    bytes: u64,
    /// What of this process lay in huge pages afterwards.
    huge_page_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_number_or_none() {
        assert!(matches!(batch("64"), Ok(Batch(Some(64)))));
        assert!(matches!(batch("none"), Ok(Batch(None))));
        assert!(batch("few").is_err());
    }
}
