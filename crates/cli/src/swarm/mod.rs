//! `anywire swarm`: very many connections over user-space TCP in this process, and how fast they go.
//!
//! Both ends of each are tasks of a swarm, with the switch between them. `swarm tasks` measures the executor alone.

mod book;
mod decoding;
mod drive;
mod http;
mod measures;
mod network;
mod options;
mod outcome;
mod pattern;
mod permutation;
mod roles;
mod run;
mod target;
mod tasks;

use clap::{Args, Subcommand};

use self::options::Options;
use self::tasks::Tasks;
use crate::failure::Failure;

/// Run millions of connections in this process, and measure them
///
/// Both ends of every connection are here, on one core: two engines of user-space TCP with the switch between them.
/// Every payload is verified byte for byte.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Swarm {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    what: Option<What>,
}

/// What is measured instead of connections.
#[derive(Debug, Subcommand)]
enum What {
    Tasks(Tasks),
}

impl Swarm {
    /// Measures it, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            Some(What::Tasks(tasks)) => tasks.run(),
            None => self.options.run(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire swarm
  anywire swarm --connections 6000000 --duration 30s --json swarm.json
  anywire swarm -c 1000000 --mode http --loss 0.001
  anywire swarm -c 1000 --mode short --time-wait 60s
  anywire swarm -c 10 --duration 100ms --capture frames.pcap
  anywire swarm tasks --count 100000000

'anywire swarm tasks --help' shows the options of the executor alone.

Exit codes: 0 measured, 1 could not run (memory), or a payload was corrupt, 2 bad arguments,
23 result not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";
