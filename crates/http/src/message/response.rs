//! A response head, and a response with its body.

use std::error::Error;
use std::fmt;
use std::thread::LocalKey;

use http::{StatusCode, Version};

use crate::h1;
use crate::headers::Kind;
use crate::spare::{self, Spare, Spares};
use crate::{Body, Chain, Headers, InvalidHeader};

/// The head of a response that was decoded: status, version and header fields.
///
/// One pointer, so that it is cheap to move; its memory is kept for the next one when it is dropped.
pub struct ResponseHead {
    /// `None` only while it is dropped.
    parts: Option<Box<ResponseParts>>,
}

/// What a response head holds.
#[derive(Clone, Debug)]
pub(crate) struct ResponseParts {
    pub(crate) headers: Headers,
    pub(crate) reason: String,
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
}

impl ResponseHead {
    /// A head that a decoder filled.
    #[inline]
    pub(crate) fn from_parts(parts: Box<ResponseParts>) -> Self {
        Self { parts: Some(parts) }
    }

    /// The status.
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.parts().status
    }

    /// The reason phrase as the server sent it, which has no meaning; empty if there is none or it is not
    /// ASCII (RFC 9112 section 4).
    pub fn reason(&self) -> &str {
        &self.parts().reason
    }

    /// The version of the status line: 1.0 or 1.1.
    #[inline]
    pub fn version(&self) -> Version {
        self.parts().version
    }

    /// The header fields.
    #[inline]
    pub fn headers(&self) -> &Headers {
        &self.parts().headers
    }

    /// The header fields, to be changed.
    pub fn headers_mut(&mut self) -> &mut Headers {
        &mut self.parts_mut().headers
    }

    /// The header fields, alone.
    pub fn into_headers(mut self) -> Headers {
        std::mem::take(self.headers_mut())
    }

    /// The length that `Content-Length` states, whether or not a body follows: an answer to HEAD, or a 304, has the
    /// length of the body that it leaves out. `None` if it states none.
    ///
    /// ```
    /// use anywire_http::Method;
    /// use anywire_http::h1::{Limits, ResponseDecoder, ResponseEvent};
    ///
    /// let mut decoder = ResponseDecoder::new(Limits::default());
    /// decoder.request_method(&Method::HEAD);
    /// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..];
    /// let Some(ResponseEvent::Head(head, info)) = decoder.decode(&mut input)? else { panic!("a whole head was given") };
    /// assert!(info.framing.is_empty());
    /// assert_eq!(head.stated_length(), Some(5));
    /// # Ok::<(), anywire_http::h1::DecodeError>(())
    /// ```
    pub fn stated_length(&self) -> Option<u64> {
        h1::decimal(self.headers().value_of(Kind::ContentLength)?)
    }

    #[inline]
    fn parts(&self) -> &ResponseParts {
        static NOTHING: ResponseParts = ResponseParts::new();
        self.parts.as_deref().unwrap_or(&NOTHING)
    }

    #[inline]
    fn parts_mut(&mut self) -> &mut ResponseParts {
        self.parts.get_or_insert_with(spare::draw)
    }
}

impl Clone for ResponseHead {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone() }
    }
}

impl Drop for ResponseHead {
    #[inline]
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            spare::give_back(parts);
        }
    }
}

impl fmt::Debug for ResponseHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResponseParts { headers, reason, status, version } = self.parts();
        f.debug_struct("ResponseHead")
            .field("status", status)
            .field("reason", reason)
            .field("version", version)
            .field("headers", headers)
            .finish()
    }
}

impl ResponseParts {
    const fn new() -> Self {
        Self {
            headers: Headers::new(),
            reason: String::new(),
            status: StatusCode::OK,
            version: Version::HTTP_11,
        }
    }
}

impl Spare for ResponseParts {
    fn kept() -> &'static LocalKey<Spares<Self>> {
        &KEPT
    }

    #[cold]
    fn allocate() -> Box<Self> {
        Box::new(Self::new())
    }

    #[inline]
    fn is_small(&self) -> bool {
        self.reason.capacity() <= REASON_BYTES_KEPT_MAX && self.headers.is_small()
    }

    #[inline]
    fn clear(&mut self) {
        self.headers.clear();
        self.reason.clear();
        self.status = StatusCode::OK;
        self.version = Version::HTTP_11;
    }
}

thread_local! {
    static KEPT: Spares<ResponseParts> = const { Spares::new() };
}

/// A longer reason is not kept: 256 spares of this size are 64 KiB a thread at most.
const REASON_BYTES_KEPT_MAX: usize = 256;

/// A response: status, fields and body.
///
/// ```
/// use anywire_http::{Response, StatusCode};
///
/// let response = Response::new(StatusCode::OK).header("content-type", "text/plain").body("hello");
/// assert_eq!(response.body.length(), Some(5));
/// ```
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The fields; those that frame the message are written by the encoder and left out if they stand here.
    pub headers: Headers,
    /// The body; empty unless set.
    pub body: Body,
    /// What few responses have, behind one pointer so that a response is cheap to move.
    aside: Option<Box<Aside>>,
}

/// What is known of a response and not sent.
#[derive(Debug, Default)]
struct Aside {
    /// The first mistake that a builder method was given; a builder cannot return it.
    fault: Option<InvalidHeader>,
    /// Why this is the answer, for the log.
    cause: Option<String>,
}

impl Response {
    /// A response without fields and body; allocates nothing.
    #[inline]
    pub fn new(status: StatusCode) -> Self {
        Self::from_parts(status, Headers::new(), Body::empty())
    }

    /// Puts a response together.
    #[inline]
    pub fn from_parts(status: StatusCode, headers: Headers, body: Body) -> Self {
        Self { status, headers, body, aside: None }
    }

    /// Adds a field. One that cannot be sent is remembered as the response's [`Response::fault`].
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if let Err(fault) = self.headers.append(name, value) {
            self.aside.get_or_insert_default().fault.get_or_insert(fault);
        }
        self
    }

    /// Remembers why this is the answer: the error and its causes, as [`Chain`] prints them. The peer never sees it; a
    /// server logs it with the route.
    ///
    /// ```
    /// use anywire_http::{BodyError, Response, StatusCode};
    ///
    /// let response = Response::new(StatusCode::BAD_GATEWAY).caused_by(&BodyError::Timeout);
    /// assert!(response.cause().is_some_and(|cause| cause.starts_with("reading a body: ")));
    /// ```
    #[must_use]
    pub fn caused_by(mut self, error: &dyn Error) -> Self {
        self.aside.get_or_insert_default().cause = Some(Chain(error).to_string());
        self
    }

    /// Sets the body.
    #[inline]
    #[must_use]
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// The first field that a builder method refused. A server answers 500 instead if there is one: something
    /// that the handler meant to say would be missing.
    #[inline]
    pub fn fault(&self) -> Option<&InvalidHeader> {
        self.aside.as_ref()?.fault.as_ref()
    }

    /// Why this is the answer, as [`Response::caused_by`] was told.
    #[inline]
    pub fn cause(&self) -> Option<&str> {
        self.aside.as_ref()?.cause.as_deref()
    }
}

impl From<StatusCode> for Response {
    fn from(status: StatusCode) -> Self {
        Self::new(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_field_is_remembered() {
        let response = Response::new(StatusCode::OK).header("x", "a\r\nb: c").header("y", "1");
        assert!(matches!(response.fault(), Some(InvalidHeader::Value { .. })));
        assert_eq!(response.headers.wire_bytes(), b"y: 1\r\n");
    }

    #[test]
    fn heads_are_small_to_move() {
        assert_eq!(size_of::<ResponseHead>(), size_of::<usize>());
    }
}
