//! What all comparisons of HTTP have in common: options, and how a run begins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::report::Machine;
use crate::rounds::Seed;

/// Options of every comparison.
#[derive(Args)]
pub struct Common {
    /// Rounds; in each every candidate is measured once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seconds of load a measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// The core of the servers.
    #[arg(long, default_value_t = 0)]
    pub server_core: usize,
    /// The core of the clients, and of what makes the load.
    #[arg(long, default_value_t = 1)]
    pub client_core: usize,
    #[command(flatten)]
    seed: Seed,
    #[command(flatten)]
    output: Output,
}

/// Where the result goes.
#[derive(Args)]
pub struct Output {
    /// The result's file [default: under bench/results, see the README].
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Output {
    /// The file; by default one of this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.json.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name))
    }
}

impl Common {
    /// Pins this thread, which makes the load. Prints and returns the machine and the seed of the orders.
    ///
    /// # Errors
    /// There is no such core.
    pub fn begin(&self) -> Result<(Machine, u32)> {
        // Before this thread is pinned and sees one core.
        let machine = Machine::here();
        anywire_sys::cpu::pin_current_thread(self.client_core)
            .with_context(|| format!("pinning the load to core {} failed", self.client_core))?;
        println!("{}", machine.line());
        Ok((machine, self.seed.chosen()))
    }

    /// Where the result goes; by default under this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.output.file(name)
    }
}

/// The scenarios to run.
#[derive(Args)]
pub struct Scenarios {
    /// Run these scenarios alone, separated by commas (all; the README says which there are).
    #[arg(long = "scenarios", value_delimiter = ',', value_name = "NAMES")]
    names: Vec<String>,
}

impl Scenarios {
    /// Whether this one is to run.
    pub fn has(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    /// Refuses names that are not among those that there are.
    ///
    /// # Errors
    /// The message lists them.
    pub fn check<'n>(&self, known: impl Iterator<Item = &'n str>) -> Result<()> {
        let known: Vec<_> = known.collect();
        match self.names.iter().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => bail!("no scenario is named `{unknown}`; there are: {}", known.join(", ")),
            None => Ok(()),
        }
    }
}
