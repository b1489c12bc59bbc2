//! The options that say by which way a call goes, and how long it may take.

use std::path::PathBuf;
use std::time::Duration;

use anywire::client::proxy::Proxies;
use anywire::client::{ClientBuilder, Redirects, Retries};
use anywire::http::StatusCode;
use anywire::load::text;
use anywire::wire::Address;
use clap::Args;

use super::rules;
use crate::failure::{Code, Failure};
use crate::hosts::KnownHosts;
use crate::values;
use crate::versions::Versions;

/// The way of a call.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionOptions {
    /// Follow redirects; to another host go no credentials
    #[arg(short = 'L', long)]
    pub(super) location: bool,
    /// How many redirects are followed
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::up_to(1, 1000), requires = "location", hide_short_help = true)]
    max_redirs: usize,
    /// Call again up to N times where that does no harm: no POST twice
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    retry: u32,
    /// The wire to go by instead of the URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    pub(super) via: Option<Address>,
    /// Go through a proxy of HTTP or SOCKS5 [default: that of the environment]
    #[arg(short = 'x', long, value_name = "URL")]
    proxy: Option<String>,
    /// Hosts that are reached without a proxy, with commas between them; '*' is all
    #[arg(long, value_name = "HOSTS", hide_short_help = true)]
    noproxy: Option<String>,
    #[command(flatten)]
    pub(super) known: KnownHosts,
    /// Send calls elsewhere, or change them, by the traffic rules of this file (TOML)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    rules: Option<PathBuf>,
    /// Longest time of a call, such as 5 (seconds), 300ms
    #[arg(short = 'm', long, visible_alias = "max-time", value_name = "TIME", value_parser = text::positive_duration)]
    pub(super) timeout: Option<Duration>,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration, hide_short_help = true)]
    pub(super) connect_timeout: Duration,
    #[command(flatten)]
    pub(super) versions: Versions,
}

impl ConnectionOptions {
    /// The proxies: the one that is given, else those of the environment.
    pub(super) fn proxies(&self) -> Result<Proxies, Failure> {
        let proxies = match self.proxy.as_deref() {
            None => Proxies::from_environment(),
            // As with curl.
            Some("") => Ok(Proxies::none()),
            Some(url) if url.contains("://") => Proxies::all(url),
            Some(place) => Proxies::all(format!("http://{place}")),
        };
        // Read here, and not with the arguments, whose errors repeat what was typed: it may have a password.
        let proxies = proxies.map_err(|error| Failure::of(Code::Usage, &error))?;
        Ok(match &self.noproxy {
            Some(hosts) => proxies.except(hosts),
            None => proxies,
        })
    }

    /// The client with the rules of the file, if there is one.
    pub(super) fn with_rules(&self, client: ClientBuilder) -> Result<ClientBuilder, Failure> {
        match &self.rules {
            Some(path) => rules::apply(path, client),
            None => Ok(client),
        }
    }

    /// Which redirects are followed.
    pub(super) fn redirects(&self) -> Redirects {
        Redirects { hops: if self.location { self.max_redirs } else { 0 }, ..Redirects::default() }
    }

    /// Which attempts are repeated: at what curl calls transient.
    pub(super) fn retries(&self) -> Retries {
        Retries {
            max: self.retry,
            first_pause: Duration::from_millis(500),
            pause_max: Duration::from_secs(60),
            retry_after_max: Duration::from_secs(10 * 60),
            statuses: TRANSIENT.into_iter().filter_map(|status| StatusCode::from_u16(status).ok()).collect(),
            // A person has said how often.
            budget_percent: u32::MAX,
            ..Retries::default()
        }
    }

    /// Whether a request may be sent more than once.
    pub(super) fn may_repeat(&self) -> bool {
        self.location || self.retry > 0
    }
}

const TRANSIENT: [u16; 6] = [408, 429, 500, 502, 503, 504];
