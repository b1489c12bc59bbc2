//! Commands of the system, which must not fail.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs commands in the namespace of this process.
pub(crate) fn run(commands: &str) -> Result<()> {
    finish(Command::new("sh").args(["-ec", commands]), commands)
}

/// Runs commands in the network namespace of that process.
pub(crate) fn run_in(pid: u32, commands: &str) -> Result<()> {
    let mut enter = Command::new("nsenter");
    finish(enter.args(["--target", &pid.to_string(), "--net", "sh", "-ec", commands]), commands)
}

fn finish(command: &mut Command, commands: &str) -> Result<()> {
    let done = command.output().context("`sh`, and `nsenter` of util-linux, are needed")?;
    ensure!(done.status.success(), "{commands}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}
