//! How one server is reached, as options of the commands that look at it closely: `pipe` and `probe`.

use std::path::PathBuf;
use std::time::Duration;

use anywire::load::text;
use anywire::wire::Address;
use clap::Args;

use crate::heads::HeadLimits;
use crate::trust::Trust;
use crate::values::{self, Field};

/// The way to a server, what is sent to it beside the request, and where the result goes.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// The wire to go by instead of the URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    pub(crate) via: Option<Address>,
    /// A header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(crate) headers: Vec<Field>,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = text::positive_duration)]
    pub(crate) connect_timeout: Duration,
    /// Write the result as JSON to a file, or to stdout (-) instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) heads: HeadLimits,
}
