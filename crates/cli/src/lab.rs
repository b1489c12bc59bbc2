//! `anywire lab`: what lies below services: I/O models, messages within a machine, TCP in user space, datagrams.

use clap::{Args, Subcommand};

use crate::failure::Failure;
#[cfg(feature = "ipc")]
use crate::ipc::Ipc;
use crate::ladder::Ladder;
#[cfg(feature = "swarm")]
use crate::swarm::Swarm;
#[cfg(feature = "udp")]
use crate::udp::UdpLoad;

/// Measure what lies below services: I/O models, messages, TCP in user space, datagrams
///
/// These measure this machine and what programs are built of, and no service of yours. The service that returns datagrams stays
/// 'anywire udp serve'.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ladder(Ladder),
    #[cfg(feature = "ipc")]
    Ipc(Ipc),
    #[cfg(feature = "swarm")]
    Swarm(Swarm),
    #[cfg(feature = "udp")]
    UdpLoad(Box<UdpLoad>),
}

impl Lab {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Ladder(ladder) => ladder.run(),
            #[cfg(feature = "ipc")]
            Command::Ipc(ipc) => ipc.run(),
            #[cfg(feature = "swarm")]
            Command::Swarm(swarm) => swarm.run(),
            #[cfg(feature = "udp")]
            Command::UdpLoad(load) => load.run(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire lab ladder                        what a request costs on each I/O model
  anywire lab ipc --spin                    what a message costs within this machine
  anywire lab swarm --connections 1000000   TCP in user space, both ends in one process
  anywire lab udp-load udp:127.0.0.1:9000 --rate 100000

'anywire lab COMMAND --help' shows the options and examples of a command.";
