//! The command line: its commands, each with its arguments in a file of its own, and what all of them share.

use anywire::wire::{self, Wire};
use clap::{ArgAction, Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use crate::ab::Ab;
use crate::call::Verb;
use crate::compare::Compare;
#[cfg(feature = "completions")]
use crate::completions::Completions;
use crate::diff::Diff;
use crate::failure::Failure;
#[cfg(feature = "ipc")]
use crate::ipc::Ipc;
use crate::lab::Lab;
use crate::ladder::Ladder;
use crate::load::Load;
#[cfg(feature = "man")]
use crate::man::Man;
use crate::pipe::Pipe;
use crate::probe::Probe;
use crate::serve::Serve;
use crate::stack::Stack;
#[cfg(feature = "swarm")]
use crate::swarm::Swarm;
#[cfg(feature = "udp")]
use crate::udp::Udp;
use crate::usage;

/// One service, any wire: serve, call, load and compare
///
/// An address names the wire: WIRE:WHERE, such as tcp:127.0.0.1:8080 or unix:/run/app.sock. URLs stay as usual.
#[derive(Debug, Parser)]
#[command(name = "anywire", version, after_help = format!("{EXAMPLES}\n\n{}{}", wires(), usage::absent_commands()), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print more to stderr: the heads of a call, the requests of a service, else the log; repeat it for more (RUST_LOG sets levels by target)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Stack(Stack),
    #[command(flatten)]
    Call(Verb),
    Load(Box<Load>),
    Probe(Box<Probe>),
    Pipe(Pipe),
    Compare(Compare),
    Ab(Box<Ab>),
    Diff(Diff),
    #[cfg(feature = "udp")]
    Udp(Udp),
    Lab(Lab),
    #[cfg(feature = "completions")]
    Completions(Completions),
    #[cfg(feature = "man")]
    Man(Man),
    // As they were called before there was a lab; each works as the one there.
    #[command(hide = true)]
    Ladder(Ladder),
    #[cfg(feature = "swarm")]
    #[command(hide = true)]
    Swarm(Swarm),
    #[cfg(feature = "ipc")]
    #[command(hide = true)]
    Ipc(Ipc),
}

impl Command {
    /// Does it; `verbose` is how often -v was given.
    pub(crate) fn run(self, verbose: u8) -> Result<(), Failure> {
        match self {
            Self::Serve(serve) => serve.run(verbose > 0),
            Self::Stack(stack) => stack.run(),
            Self::Call(verb) => verb.run(verbose > 0),
            Self::Load(load) => load.run(verbose > 0),
            Self::Probe(probe) => probe.run(),
            Self::Pipe(pipe) => pipe.run(),
            Self::Compare(compare) => compare.run(),
            Self::Ab(ab) => ab.run(),
            Self::Diff(diff) => diff.run(),
            Self::Lab(lab) => lab.run(),
            Self::Ladder(ladder) => ladder.run(),
            #[cfg(feature = "swarm")]
            Self::Swarm(swarm) => swarm.run(),
            #[cfg(feature = "ipc")]
            Self::Ipc(ipc) => ipc.run(),
            #[cfg(feature = "udp")]
            Self::Udp(udp) => udp.run(),
            #[cfg(feature = "completions")]
            Self::Completions(completions) => completions.run(),
            #[cfg(feature = "man")]
            Self::Man(man) => man.run(),
        }
    }

    /// The log level, unless RUST_LOG sets another. A service logs its start and end. A call logs warnings only: its
    /// first -v shows the heads and raises no level.
    pub(crate) fn log_level(&self, verbose: u8) -> LevelFilter {
        match (self, verbose) {
            (Self::Serve(_), 0) => LevelFilter::INFO,
            #[cfg(feature = "udp")]
            (Self::Udp(udp), 0) if udp.serves() => LevelFilter::INFO,
            (_, 0) | (Self::Call(_), 1) => LevelFilter::WARN,
            (_, 1) | (Self::Call(_), 2) => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }
}

/// The wires that an address may name, from the one place where they are listed.
fn wires() -> String {
    let (outward, inward): (Vec<_>, Vec<_>) = wire::wires().partition(|wire| wire.reaches_other_processes());
    let lines = |wires: &[&dyn Wire]| -> String {
        wires.iter().map(|wire| format!("\n  {:<10}  {}", wire.scheme(), wire.summary())).collect()
    };
    format!(
        "Wires that addresses of this command name:{}\nWires of programs that use the crate, compared by 'anywire \
         compare':{}",
        lines(&outward),
        lines(&inward),
    )
}

const EXAMPLES: &str = "\
Examples:
  anywire compare                         one service over each wire, beside the kernel's limit
  anywire serve                           a demo service on tcp:127.0.0.1:8080
  anywire serve --dir public --listen unix:/run/app.sock
  anywire get localhost:8080/json
  anywire load http://127.0.0.1:8080/ -c 64 -d 10s
  anywire probe localhost:8080            why it is slow, and what to change

'anywire COMMAND --help' shows the options and examples of a command.";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::Cli;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        let root = Cli::command();
        let below = root.get_subcommands().flat_map(Command::get_subcommands);
        for command in root.get_subcommands().chain(below.filter(|command| command.get_name() != "tasks")) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n  anywire "), "{}", command.get_name());
        }
    }
}
