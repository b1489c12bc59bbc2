//! A request of the probe, in both forms: as the bytes of HTTP/1, and as the parts of which HTTP/2 makes a stream.

use anywire_http::h2::RequestParts;
use anywire_http::{Headers, Method};

use super::link::Wanted;

/// A request without a body.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) path: String,
    /// All fields but the host.
    pub(super) headers: Headers,
    /// The authority.
    pub(super) host: String,
    pub(super) scheme: &'static str,
    /// The same for HTTP/1.
    pub(super) bytes: Vec<u8>,
}

impl Question {
    /// What an answer to it is to.
    pub(super) fn wanted(&self) -> Wanted {
        if self.method == Method::HEAD { Wanted::Head } else { Wanted::Get }
    }

    /// The same for HTTP/2.
    pub(super) fn parts(&self) -> RequestParts<'_> {
        RequestParts {
            method: &self.method,
            scheme: self.scheme,
            authority: &self.host,
            path: &self.path,
            protocol: None,
            headers: &self.headers,
            length: None,
        }
    }
}
