//! A response head, and a response with its body.

use std::error::Error;
use std::fmt;
use std::sync::LazyLock;
use std::thread::LocalKey;

use anywire_advice::Chain;
use http::{Extensions, StatusCode, Version};

use crate::free_list::{self, FreeList, Placeholder, Reused, ReusedBox};
use crate::{Body, Headers, InvalidHeader, StaticHeader};

/// The head of a response as a client gets it: status, version and header fields, in any version of HTTP.
///
/// One pointer, so it is cheap to move. A dropped head leaves its memory to the next one.
#[derive(Clone)]
pub struct ResponseHead {
    parts: ReusedBox<ResponseHeadInner>,
}

/// What a response head holds.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHeadInner {
    pub(crate) headers: Headers,
    pub(crate) reason: Vec<u8>,
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
}

impl ResponseHeadInner {
    /// Sets what a status line says.
    #[inline]
    pub(crate) fn set_line(&mut self, status: StatusCode, version: Version, reason: &[u8]) {
        self.status = status;
        self.version = version;
        self.reason.clear();
        self.reason.extend_from_slice(reason);
    }
}

impl ResponseHead {
    /// A head in HTTP/1.1 without fields.
    pub fn new(status: StatusCode) -> Self {
        let mut parts = free_list::take::<ResponseHeadInner>();
        parts.status = status;
        Self::from_parts(parts)
    }

    /// A head that a decoder filled.
    #[inline]
    pub(crate) fn from_parts(parts: Box<ResponseHeadInner>) -> Self {
        Self { parts: parts.into() }
    }

    /// The status.
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.parts.status
    }

    /// The reason phrase of HTTP/1 as the server sent it, which has no meaning; empty if there is none or it is not
    /// UTF-8. It may hold control characters beyond ASCII.
    pub fn reason(&self) -> &str {
        std::str::from_utf8(self.reason_bytes()).unwrap_or_default()
    }

    /// The reason phrase byte by byte: it need not be text (`obs-text`, RFC 9112 section 4).
    pub fn reason_bytes(&self) -> &[u8] {
        &self.parts.reason
    }

    /// The version of HTTP that the head came in.
    #[inline]
    pub fn version(&self) -> Version {
        self.parts.version
    }

    /// Sets the version.
    pub fn set_version(&mut self, version: Version) {
        self.parts.version = version;
    }

    /// The header fields.
    #[inline]
    pub fn headers(&self) -> &Headers {
        &self.parts.headers
    }

    /// The header fields, to be changed.
    pub fn headers_mut(&mut self) -> &mut Headers {
        &mut self.parts.headers
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
        self.headers().stated_length()
    }
}

impl fmt::Debug for ResponseHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResponseHeadInner { headers, status, version, .. } = &*self.parts;
        f.debug_struct("ResponseHead")
            .field("status", status)
            .field("reason", &String::from_utf8_lossy(self.reason_bytes()))
            .field("version", version)
            .field("headers", headers)
            .finish()
    }
}

impl ResponseHeadInner {
    const fn new() -> Self {
        Self {
            headers: Headers::new(),
            reason: Vec::new(),
            status: StatusCode::OK,
            version: Version::HTTP_11,
        }
    }
}

impl Reused for ResponseHeadInner {
    fn kept() -> &'static LocalKey<FreeList<Self>> {
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

impl Placeholder for ResponseHeadInner {
    #[inline]
    fn gone() -> &'static Self {
        static GONE: ResponseHeadInner = ResponseHeadInner::new();
        &GONE
    }
}

thread_local! {
    static KEPT: FreeList<ResponseHeadInner> = const { FreeList::new() };
}

/// A longer reason is freed: 256 of this size are 64 KiB a thread at most.
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
    /// The version of HTTP that the response came in. A server sends it in the version of the connection.
    pub version: Version,
    /// The fields. The encoder writes the fields that frame the message itself, and skips them here.
    pub headers: Headers,
    /// The body; empty unless set.
    pub body: Body,
    /// Rare parts, behind one pointer so that a response is cheap to move.
    aside: Option<Box<Aside>>,
}

/// Facts about a response that are not sent.
#[derive(Debug, Default)]
struct Aside {
    /// The first mistake that a builder method was given; a builder cannot return it.
    fault: Option<InvalidHeader>,
    /// Why this is the answer, for the log.
    cause: Option<String>,
    extensions: Extensions,
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
        Self { status, version: Version::HTTP_11, headers, body, aside: None }
    }

    /// A 200 with a `content-type` and a body; what an [`IntoResponse`](crate::IntoResponse) of a media type gives.
    ///
    /// ```
    /// use anywire_http::{Response, StaticHeader};
    ///
    /// static CSV: StaticHeader = StaticHeader::new("content-type: text/csv");
    /// assert_eq!(Response::typed(&CSV, "a,b").headers.get("content-type"), Some("text/csv"));
    /// ```
    #[inline]
    pub fn typed(content_type: &'static StaticHeader, body: impl Into<Body>) -> Self {
        let mut headers = Headers::new();
        headers.append_static(content_type);
        Self::from_parts(StatusCode::OK, headers, body.into())
    }

    /// Makes a response of a head that was received.
    pub fn from_head(head: ResponseHead, body: Body) -> Self {
        let version = head.version();
        Self { version, ..Self::from_parts(head.status(), head.into_headers(), body) }
    }

    /// Values that handlers and layers attach to the response, by their type. Never sent.
    pub fn extensions(&self) -> &Extensions {
        static NONE: LazyLock<Extensions> = LazyLock::new(Extensions::new);
        self.aside.as_ref().map_or(&NONE, |aside| &aside.extensions)
    }

    /// The extensions, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.aside.get_or_insert_default().extensions
    }

    pub(crate) fn take_extensions(&mut self) -> Extensions {
        self.aside.as_mut().map(|aside| std::mem::take(&mut aside.extensions)).unwrap_or_default()
    }

    pub(crate) fn set_cause(&mut self, cause: String) {
        self.aside.get_or_insert_default().cause = Some(cause);
    }

    /// Adds a field. One that cannot be sent is remembered as the response's [`Response::fault`].
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let appended = self.headers.append(name, value);
        self.note(appended);
        self
    }

    /// Remembers a field that was refused, if it is the first one.
    pub(crate) fn note(&mut self, added: Result<(), InvalidHeader>) {
        if let Err(fault) = added {
            self.aside.get_or_insert_default().fault.get_or_insert(fault);
        }
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
        self.set_cause(Chain(error).to_string());
        self
    }

    /// Sets the body.
    #[inline]
    #[must_use]
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Whether it has nothing but a status, fields and a whole body: no stream, no extensions, no [fault](Self::fault) and no
    /// [cause](Self::cause). So there is nothing to look at before it is sent, and no code of others runs when it is dropped.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.aside.is_none() && self.body.is_full()
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
    fn messages_are_small_to_move() {
        assert_eq!(size_of::<ResponseHead>(), size_of::<usize>());
        assert_eq!(size_of::<Response>(), size_of::<[usize; 8]>());
    }

    #[test]
    fn extensions_are_kept_and_not_sent() {
        let mut response = Response::new(StatusCode::OK);
        assert!(response.extensions().is_empty());
        response.extensions_mut().insert(7_u8);
        assert_eq!((response.extensions().get(), response.headers.len()), (Some(&7_u8), 0));
    }
}
