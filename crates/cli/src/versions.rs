//! The version of HTTP as options, for all commands that call.

use anywire::client::ClientBuilder;
use anywire::load::Protocol;
use clap::Args;

/// A version by its short name.
pub(crate) fn named(name: &str) -> Result<Protocol, String> {
    match name {
        "h1" => Ok(Protocol::Http1),
        "h2" => Ok(Protocol::Http2),
        _ => Err("there is no such protocol; choose from h1, h2".to_owned()),
    }
}

/// Which version of HTTP is spoken.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(crate) struct Versions {
    /// Speak HTTP/1.1 only
    #[arg(long)]
    http1: bool,
    /// Speak HTTP/2 only; without TLS by prior knowledge
    #[arg(long)]
    http2: bool,
}

impl Versions {
    /// A client that keeps to them.
    pub(crate) fn apply(self, client: ClientBuilder) -> ClientBuilder {
        match self {
            Self { http1: true, .. } => client.http1_only(),
            Self { http2: true, .. } => client.http2_prior_knowledge(),
            _ => client,
        }
    }

    /// What the start line of a request says, as curl shows it.
    pub(crate) fn name(self) -> &'static str {
        if self.http2 { "HTTP/2" } else { "HTTP/1.1" }
    }

    /// What a load speaks.
    pub(crate) fn protocol(self) -> Protocol {
        if self.http2 { Protocol::Http2 } else { Protocol::Http1 }
    }
}
