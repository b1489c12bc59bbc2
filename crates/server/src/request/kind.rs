//! What the method of a request makes of its response.

use std::hint::cold_path;

use anywire_http::h2::Protocol;
use anywire_http::{Method, RequestHead, StatusCode};

/// What the method of a request makes of its response, in any version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The response has a body, if its status allows one.
    Message,
    /// HEAD: the body stays behind (RFC 9110 section 9.3.2).
    Head,
    /// CONNECT: a 2xx opens a tunnel (RFC 9110 section 9.3.6).
    Connect,
    /// An extended CONNECT: a 2xx goes on in another protocol on the same stream (RFC 8441 section 4).
    ExtendedConnect,
}

impl RequestKind {
    #[inline]
    pub(crate) fn of(head: &RequestHead) -> Self {
        if !matches!(*head.method(), Method::HEAD | Method::CONNECT) {
            return Self::Message;
        }
        cold_path();
        match *head.method() {
            Method::HEAD => Self::Head,
            _ if head.extensions().get::<Protocol>().is_some() => Self::ExtendedConnect,
            _ => Self::Connect,
        }
    }

    /// Whether a response of this status leaves HTTP, if its maker has accepted that.
    pub(crate) fn leaves_http(self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS || (self.is_connect() && status.is_success())
    }

    /// Whether a success leaves HTTP.
    #[inline]
    pub(crate) fn is_connect(self) -> bool {
        matches!(self, Self::Connect | Self::ExtendedConnect)
    }
}
