//! Heads in place, in the received bytes, for programs that do not keep them.
//!
//! They have passed the same checks as a [`crate::RequestHead`] and a [`crate::ResponseHead`].

use http::{Method, StatusCode, Version};
use httparse::Header;

use super::{Framing, HeadInfo};

/// The head of a request, in place: see [`super::RequestDecoder::decode_with`].
#[derive(Debug)]
pub struct RequestView<'h> {
    pub(super) method: Method,
    pub(super) target: &'h str,
    pub(super) version: Version,
    pub(super) info: HeadInfo,
    pub(super) fields: &'h [Header<'h>],
}

/// The head of a response, in place: see [`super::ResponseDecoder::decode_with`].
#[derive(Debug)]
pub struct ResponseView<'h> {
    pub(super) status: StatusCode,
    pub(super) reason: &'h [u8],
    pub(super) version: Version,
    pub(super) info: HeadInfo,
    pub(super) fields: &'h [Header<'h>],
}

impl<'h> RequestView<'h> {
    /// The method.
    #[inline]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The target as it stands in the request line.
    #[inline]
    pub fn target(&self) -> &'h str {
        self.target
    }

    /// The version of the request line: 1.0 or 1.1.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How the body's end is found.
    #[inline]
    pub fn framing(&self) -> Framing {
        self.info.framing
    }

    /// Whether the client wants the connection to stay open (RFC 9112 section 9.3).
    #[inline]
    pub fn keep_alive(&self) -> bool {
        self.info.keep_alive
    }

    /// Names and values of the fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}

impl<'h> ResponseView<'h> {
    /// The status.
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The reason phrase, which has no meaning; empty if there is none or it is not UTF-8.
    pub fn reason(&self) -> &'h str {
        std::str::from_utf8(self.reason).unwrap_or_default()
    }

    /// The version of the status line: 1.0 or 1.1.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How the body's end is found (RFC 9112 section 6.3).
    #[inline]
    pub fn framing(&self) -> Framing {
        self.info.framing
    }

    /// Whether the connection stays open after this response (RFC 9112 section 9.3).
    #[inline]
    pub fn keep_alive(&self) -> bool {
        self.info.keep_alive
    }

    /// Names and values of the fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}
