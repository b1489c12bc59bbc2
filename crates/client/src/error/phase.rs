//! The parts of a call in which it may fail.

use std::fmt;

/// A part of a call, each with its own deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// Waiting for a connection.
    Acquire,
    /// Finding the address of a name, to make one.
    Resolve,
    /// Making one.
    Connect,
    /// Making its handshake, on wires with TLS.
    Handshake,
    /// Sending the request.
    Write,
    /// Waiting for the response's head.
    Read,
    /// Reading the response's body.
    Body,
    /// The call as a whole.
    Total,
}

impl Phase {
    /// What would help if it took too long.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Acquire => "all connections are busy: call less at a time, or raise connections_per_origin",
            Self::Resolve => "see that a name server answers, or raise resolve_timeout",
            Self::Handshake => "see what the peer does, or raise handshake_timeout",
            Self::Connect => "see that the peer runs and is reachable, or raise connect_timeout",
            Self::Write => "the peer does not take the request: see what it does, or raise write_timeout",
            Self::Read => {
                "the peer is silent: see what it does, or raise read_timeout, or first_byte_timeout"
            }
            Self::Body => {
                "the peer is silent: see what it does, or raise read_timeout, or stream_timeout for a stream"
            }
            Self::Total => "raise total_timeout, or Timeouts::total alone and stream the body",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Acquire => "waiting for a connection",
            Self::Resolve => "resolving the name",
            Self::Connect => "connecting",
            Self::Handshake => "the TLS handshake",
            Self::Write => "sending the request",
            Self::Read => "waiting for the response",
            Self::Body => "reading the body",
            Self::Total => "the whole call",
        })
    }
}
