//! Runs the matrix, and prints or writes its tables.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use anywire_interop::matrix::{self, Extent};

/// How to call it.
const USAGE: &str = "\
Transfers between the engine and Linux over TAP, through an impaired line, in both roles; and between Linux and Linux.

    anywire-interop [OPTION...]

--short          a few seconds of it
--only WORD      the rows alone whose name has this word
--control NAMES  congestion controls of the kernel's, separated by commas (default: cubic,bbr, or what there is of them)
--into FILE      writes the tables into FILE, between <!-- interop --> and <!-- end of interop -->

Needs user namespaces or root, /dev/net/tun, and util-linux and iproute2. Exit code 1: something was not as it must be.";

struct Options {
    extent: Extent,
    only: Option<String>,
    controls: Vec<String>,
    into: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(code) = anywire_interop::serve_role() {
        return code;
    }
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(fault) => {
            eprintln!("{fault}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = anywire_interop::in_own_network().and_then(|outer| match outer {
        Some(code) => Ok(code),
        None => run(&options),
    });
    done.unwrap_or_else(|fault| {
        eprintln!("{fault:#}");
        ExitCode::from(2)
    })
}

fn run(options: &Options) -> Result<ExitCode> {
    let mut rows = matrix::rows(options.extent);
    if let Some(word) = &options.only {
        rows.retain(|row| row.name.contains(word.as_str()));
    }
    let controls: Vec<_> = options.controls.iter().map(String::as_str).collect();
    let program = std::env::current_exe().context("this program has no file")?;
    let matrix = matrix::run(&program, rows, &controls, |line| eprintln!("{line}"))?;
    println!("{}", matrix.tables());
    if let Some(page) = &options.into {
        matrix::write_into(page, &matrix.tables())?;
    }
    Ok(if matrix.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options { extent: Extent::Long, only: None, controls: controls_here(), into: None };
    while let Some(word) = words.next() {
        let mut value = |name| words.next().with_context(|| format!("{name} has no value"));
        match word.as_str() {
            "--short" => options.extent = Extent::Short,
            "--only" => options.only = Some(value("--only")?),
            "--control" => options.controls = value("--control")?.split(',').map(str::to_owned).collect(),
            "--into" => options.into = Some(PathBuf::from(value("--into")?)),
            other => bail!("there is no option {other}"),
        }
    }
    Ok(options)
}

/// Of cubic and bbr those that this kernel has.
fn controls_here() -> Vec<String> {
    let there =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let has = |name: &&str| there.split_whitespace().any(|control| control == *name);
    ["cubic", "bbr"].iter().filter(|name| has(name)).map(|&name| name.to_owned()).collect()
}
