//! The options that name places without asking a resolver, for calls and for loads.

use anywire::wire::names::Hosts;
use clap::Args;

/// Places that are known, and places that stand for others.
#[derive(Debug, Args)]
pub(crate) struct KnownHosts {
    /// An address for a host, HOST:PORT:ADDRESS, instead of its name's
    #[arg(long, value_name = "PLACE", value_parser = resolve, hide_short_help = true)]
    resolve: Vec<String>,
    /// Connect to another place instead, HOST1:PORT1:HOST2:PORT2; what is empty is any, or the same
    #[arg(long, value_name = "PLACES", value_parser = connect_to, hide_short_help = true)]
    connect_to: Vec<String>,
}

impl KnownHosts {
    /// All of them.
    pub(crate) fn hosts(&self) -> Hosts {
        let mut hosts = Hosts::default();
        // All of them were read before.
        let resolved = self.resolve.iter().try_for_each(|text| hosts.add_resolve(text));
        let moved = self.connect_to.iter().try_for_each(|text| hosts.add_connect_to(text));
        debug_assert!(resolved.is_ok() && moved.is_ok(), "they were checked as arguments");
        hosts
    }
}

fn resolve(text: &str) -> Result<String, String> {
    Hosts::default().add_resolve(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn connect_to(text: &str) -> Result<String, String> {
    Hosts::default().add_connect_to(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}
