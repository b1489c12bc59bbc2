//! The options that say by which way a call goes, and how long it may take.

use std::time::Duration;

use anywire::load::text;
use anywire::wire::Address;
use clap::Args;

use crate::values;
use crate::versions::Versions;

/// The way of a call.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionOptions {
    /// The wire to go by instead of the URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    pub(super) via: Option<Address>,
    /// How long each call may take, such as 5 (seconds) or 300ms
    #[arg(short = 'm', long, visible_alias = "max-time", value_name = "TIME", value_parser = text::positive_duration)]
    pub(super) timeout: Option<Duration>,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration, hide_short_help = true)]
    pub(super) connect_timeout: Duration,
    #[command(flatten)]
    pub(super) versions: Versions,
}
