//! `anywire stack`: what a service on `stack:` devices does, and the frames that pass.

mod blocks;
mod capture;
mod offer;
mod process;
mod stat;
mod table;

use clap::{Args, Subcommand};

use self::capture::Capture;
pub(crate) use self::offer::Offer;
use self::stat::Stat;
use crate::failure::Failure;

/// Look into a service on a device: its connections and counters, and the frames that pass
///
/// The service is one of 'anywire serve' with an address such as stack:tap0/10.0.0.2:80, named by its PID or its device, or left out if
/// there is one alone; or any program with the routes of 'server::stack', named by their address.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stack {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stat(Stat),
    Capture(Capture),
}

impl Stack {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Stat(stat) => stat.run(),
            Command::Capture(capture) => capture.run(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire stack stat                        the one service on a device: all of it
  anywire stack stat tap0 --counters        as nstat prints them
  anywire stack capture tap0 -o tap0.pcapng --filter 'tcp port 80'

'anywire stack COMMAND --help' shows the options and examples of a command.";
