//! Header fields of the connection, which each version of HTTP writes its own: a request that is sent again does not have them.

/// Whether a field of this name is of the connection, or written by the encoder.
pub(super) fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other))
}

const OF_CONNECTION: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
