//! The command line: its commands, each with its arguments in a file of its own, and what all of them share.

use anywire::wire;
use clap::{ArgAction, Parser, Subcommand};

use crate::call::{Get, Post};
use crate::compare::Compare;
use crate::completions::Completions;
use crate::failure::Failure;
use crate::load::Load;
use crate::man::Man;
use crate::serve::Serve;
use crate::swarm::Swarm;

/// One service, any wire: serve, call, load and compare
///
/// The wire is said in an address, WIRE:WHERE, such as tcp:127.0.0.1:8080 or unix:/run/app.sock; URLs stay what
/// they are.
#[derive(Debug, Parser)]
#[command(name = "anywire", version, after_help = format!("{EXAMPLES}\n\n{}", wires()), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say more on stderr; twice: everything (RUST_LOG chooses in detail)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Get(Get),
    Post(Post),
    Load(Load),
    Compare(Compare),
    Swarm(Swarm),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Get(get) => get.run(),
            Self::Post(post) => post.run(),
            Self::Load(load) => load.run(),
            Self::Compare(compare) => compare.run(),
            Self::Swarm(swarm) => swarm.run(),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }

    /// What is logged unless `-v` or RUST_LOG says otherwise: a service tells of its life, a call says nothing.
    pub(crate) fn log_level(&self) -> &'static str {
        match self {
            Self::Serve(_) => "info",
            _ => "warn",
        }
    }
}

/// The wires that an address may name, from the one place where they are listed.
fn wires() -> String {
    let others = wire::wires().filter(|wire| wire.reaches_other_processes());
    let lines = others.map(|wire| format!("\n  {:<6} {}", wire.scheme(), wire.summary()));
    format!("Wires:{}", lines.collect::<String>())
}

const EXAMPLES: &str = "\
Examples:
  anywire compare                         one service over each wire, beside the kernel's limit
  anywire serve                           a demo service on tcp:127.0.0.1:8080
  anywire serve --dir public --listen unix:/run/app.sock
  anywire get http://127.0.0.1:8080/json
  anywire load http://127.0.0.1:8080/ -c 64 -d 10s

'anywire COMMAND --help' shows the options and examples of a command.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        for command in Cli::command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n  anywire "), "{}", command.get_name());
        }
    }
}
