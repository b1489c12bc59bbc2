//! `anywire udp`: a service that returns datagrams, and a load that accounts for each of them.

mod load;
mod serve;

use anywire::wire::udp::DatagramAddress;
use clap::{Args, Subcommand};

pub(crate) use self::load::UdpLoad;
use self::serve::UdpServe;
use crate::failure::Failure;

/// Serve datagrams
///
/// An address is udp:HOST:PORT or unixgram:PATH. What loads such a service is 'anywire lab udp-load'.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Udp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(UdpServe),
    /// As it was called before there was a lab.
    #[command(hide = true)]
    Load(Box<UdpLoad>),
}

impl Udp {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Load(load) => load.run(),
        }
    }

    /// Whether it is a service, which logs its start and end.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }
}

/// An address for datagrams.
fn address(text: &str) -> Result<DatagramAddress, String> {
    text.parse().map_err(|error: anywire::wire::AddressError| error.to_string())
}

const EXAMPLES: &str = "\
Examples:
  anywire udp serve --listen udp:127.0.0.1:9000
  anywire lab udp-load udp:127.0.0.1:9000 --rate 100000 --duration 5s
  anywire lab udp-load udp:127.0.0.1:9000 --search 0.001 --html udp.html";
