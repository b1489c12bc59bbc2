//! Facts about the machine and the tool, without which no figure means anything.

use std::fs;

use anywire_loops::Loops;
use serde::{Deserialize, Serialize};

/// The tool that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit it was built from, if the build knew it.
    pub commit: Option<String>,
}

impl Tool {
    /// This crate, at the version it was built as.
    pub fn this() -> Self {
        Self {
            name: "anywire".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("ANYWIRE_COMMIT").map(str::to_owned),
        }
    }
}

/// The machine that measured; what cannot be read is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's model.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
    /// Loops that generated the load.
    pub loops: usize,
    /// The core of each of these loops; `null` for a loop that is not pinned.
    pub pinning: Vec<Option<usize>>,
}

impl Host {
    /// Reads the facts now.
    pub fn of(loops: &Loops) -> Self {
        let pinning = loops.iter().map(|one| one.core()).collect();
        Self { loops: loops.len(), pinning, ..Self::without_loops() }
    }

    /// Reads the facts now, for a measurement that has no loops.
    pub fn without_loops() -> Self {
        Self {
            cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: anywire_sys::cpu::available_cores().len(),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            loops: 0,
            pinning: Vec::new(),
        }
    }

    /// One line for the head of a table.
    pub fn line(&self) -> String {
        let cpu = self.cpu.as_deref().unwrap_or("unknown CPU");
        let kernel = self.kernel.as_deref().unwrap_or("unknown");
        format!("{cpu}, {} cores, kernel {kernel}", self.cores)
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // "model name" on x86; Arm names none, and "Hardware" is there on some.
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name").or_else(|| value("Hardware"))
}

fn line_of(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_from_cpuinfo() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t: fpu\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }
}
