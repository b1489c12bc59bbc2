//! The command `anywire`: serve, call, load and compare over any wire.
//!
//! Each command has a file with its arguments and its code. This file only starts it and reports its end. Some of them are
//! features, so that the first build is a short one.

mod ab;
mod agents;
mod blocks;
mod call;
mod candidates;
mod certificates;
mod cli;
mod compare;
#[cfg(feature = "completions")]
mod completions;
mod conditions;
mod contrast;
mod demo;
mod diff;
mod explain;
mod exports;
mod failure;
mod files;
mod heads;
mod hosts;
#[cfg(feature = "ipc")]
mod ipc;
mod lab;
mod ladder;
mod limit;
mod load;
mod loops;
#[cfg(feature = "man")]
mod man;
mod openapi;
mod output;
mod pace;
mod pipe;
mod probe;
mod progress;
mod reach;
mod repeat;
mod requests;
mod restart;
#[cfg_attr(not(feature = "screen"), path = "no_screen.rs")]
mod screen;
mod serve;
mod signals;
mod stack;
#[cfg(feature = "swarm")]
mod swarm;
mod trust;
#[cfg(feature = "udp")]
mod udp;
mod usage;
mod values;
mod versions;
mod watch;

use std::io;
use std::process::ExitCode;

use anywire_sys::descriptors;
use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::cli::Cli;

/// The program: takes its arguments from the environment, and gives its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage::report(error)),
    };
    start_log(&cli);
    // A service that holds many connections needs as many descriptors as it may have; one that may not goes on.
    if let Err(cause) = descriptors::raise_limit() {
        tracing::warn!(%cause, "the limit on open files could not be raised; 'ulimit -n' shows it");
    }
    match cli.command.run(cli.verbose) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.report()),
    }
}

/// Logs to stderr: stdout carries results only.
fn start_log(cli: &Cli) {
    let level = cli.command.log_level(cli.verbose);
    let chosen =
        std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()).and_then(|text| text.parse().ok());
    let filter = chosen.unwrap_or_else(|| Targets::new().with_default(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(screen::log).with_target(false);
    // A line that cannot be written is no reason to end.
    let lines = lines.with_ansi(output::is_coloured(&io::stderr())).log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
