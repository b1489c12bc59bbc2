//! The version of HTTP that a run speaks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of HTTP that every connection of a run speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/1.1; a depth above 1 is pipelining.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113 section 3.3); the depth is the number of streams that are open at once.
    #[serde(rename = "http/2")]
    Http2,
}

impl Protocol {
    /// Its name in the handshake of TLS (ALPN).
    pub(crate) fn alpn(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }

    /// What the depth counts: `depth` or `streams`. Figures of the two must never be taken for one another.
    pub fn depth_name(self) -> &'static str {
        match self {
            Self::Http1 => "depth",
            Self::Http2 => "streams",
        }
    }
}

/// The name in results: `http/1.1` or `http/2`.
impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "http/2",
        })
    }
}
