//! What both comparisons report alike: the machine, the bars to reach, the JSON file.

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::clients::Client;
use crate::rounds::Spread;
use crate::servers::Server;
use crate::table::{Table, figure};

/// The head of every result file.
pub const SCHEMA: &str = "anywire.bench/1";

/// What the figures were measured on.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this program may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Frequency governor of the first core; unknown in most virtual machines.
    pub governor: Option<String>,
    /// Whether the processor says that it is virtual.
    pub virtual_machine: bool,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
        };
        let kibibytes =
            value(&memory, "MemTotal").split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
        let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok();
        Self {
            cpu: value(&processors, "model name"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_mib: kibibytes.unwrap_or(0) / 1024,
            governor: governor.map(|text| text.trim().to_owned()),
            virtual_machine: value(&processors, "flags").split(' ').any(|flag| flag == "hypervisor"),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let kind = if self.virtual_machine { "virtual machine" } else { "machine" };
        format!("{}, {} cores, {kind}, Linux {}, {} MiB", self.cpu, self.cores, self.kernel, self.memory_mib)
    }
}

/// Which candidate was measured, and how it was set.
#[derive(Serialize)]
pub struct Candidate {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// Its settings.
    pub settings: &'static str,
}

impl Candidate {
    /// As it is built in.
    pub fn of_server(server: &Server) -> Self {
        Self { name: server.name, version: (server.version)(), settings: server.settings }
    }

    /// As it is built in.
    pub fn of_client(client: &Client) -> Self {
        Self { name: client.name, version: (client.version)(), settings: client.settings }
    }

    /// In one line.
    pub fn line(&self) -> String {
        format!("{:<13} {:<18} {}", self.name, self.version, self.settings)
    }
}

/// How a bar is set.
#[derive(Clone, Copy)]
pub enum Bound {
    /// The value must not be above this.
    AtMost(f64),
    /// The value must be below this.
    Below(f64),
    /// The value must not be below this.
    AtLeast(f64),
}

impl Bound {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound:.2}"),
            Self::Below(bound) => format!("< {bound:.2}"),
            Self::AtLeast(bound) => format!(">= {bound:.2}"),
        }
    }
}

/// A bar and whether it was met.
#[derive(Serialize)]
pub struct Bar {
    /// The figure that is judged.
    pub what: String,
    /// The bar, as text.
    pub bar: String,
    /// The median that was measured; `None` if it was not.
    pub value: Option<f64>,
    /// Whether it is met; `None` if it was not measured.
    pub met: Option<bool>,
}

impl Bar {
    /// Judges a value.
    pub fn judge(what: String, bound: Bound, value: Option<f64>) -> Self {
        Self { what, bar: bound.text(), value, met: value.map(|value| bound.met(value)) }
    }

    /// Judges the median of a ratio.
    pub fn judge_ratio(what: String, bound: Bound, ratio: Option<Spread>) -> Self {
        Self::judge(what, bound, ratio.map(|ratio| ratio.median))
    }
}

/// The bars as a table.
pub fn bars_table(bars: &[Bar]) -> Table {
    let mut table = Table::new(&["must reach", "bar", "measured", ""]);
    for bar in bars {
        let verdict = match bar.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        table.row([bar.what.clone(), bar.bar.clone(), figure(bar.value, 3), verdict.to_owned()]);
    }
    table
}

/// Writes a result, and the folders above it.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, result: &impl Serialize) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {} failed", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(result)? + "\n";
    fs::write(file, text).with_context(|| format!("writing {} failed", file.display()))?;
    eprintln!("written: {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_at_its_bound_is_met_only_if_the_bound_is_included() {
        let met = |bound, value| Bar::judge(String::new(), bound, value).met;
        assert_eq!(met(Bound::AtMost(1.1), Some(1.1)), Some(true));
        assert_eq!(met(Bound::Below(1.0), Some(1.0)), Some(false));
        assert_eq!(met(Bound::AtLeast(1.8), Some(1.8)), Some(true));
        assert_eq!(met(Bound::Below(1.0), None), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && !machine.kernel.is_empty() && machine.memory_mib > 0);
    }
}
