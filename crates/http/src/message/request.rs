//! A request head, and a request with its body.

use std::fmt;
use std::thread::LocalKey;

use http::{Method, Version};

use crate::h1;
use crate::headers::Kind;
use crate::spare::{self, Spare, Spares};
use crate::{Body, Headers, InvalidHeader};

/// The head of a request: method, target, version and header fields.
///
/// One pointer, so that it is cheap to move; its memory is kept for the next one when it is dropped.
pub struct RequestHead {
    /// `None` only while it is dropped.
    parts: Option<Box<RequestParts>>,
}

/// What a request head holds.
#[derive(Clone, Debug)]
pub(crate) struct RequestParts {
    pub(crate) headers: Headers,
    pub(crate) target: String,
    pub(crate) method: Method,
    pub(crate) version: Version,
}

impl RequestHead {
    /// A head in HTTP/1.1 without fields. `target` is what stands in the request line: `/path?query`.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] if the target is empty, or holds white space or a control character.
    pub fn new(method: Method, target: &str) -> Result<Self, InvalidTarget> {
        if !h1::is_target(target) {
            return Err(InvalidTarget::new(target));
        }
        let mut parts = spare::draw::<RequestParts>();
        parts.target.push_str(target);
        parts.method = method;
        Ok(Self { parts: Some(parts) })
    }

    /// A head that a decoder filled.
    #[inline]
    pub(crate) fn from_parts(parts: Box<RequestParts>) -> Self {
        Self { parts: Some(parts) }
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> &Method {
        &self.parts().method
    }

    /// The target as it stands in the request line: `/path?query`, `http://host/path`, `host:port` or `*`.
    #[inline]
    pub fn target(&self) -> &str {
        &self.parts().target
    }

    /// The path, without the query and not decoded: `/path`; `/` if the target is a URL without one; `*` or
    /// empty for the other forms (RFC 9112 section 3.2).
    pub fn path(&self) -> &str {
        let (path, _) = split_query(self.origin_form());
        if path.is_empty() && *self.method() != Method::CONNECT { "/" } else { path }
    }

    /// What follows the first `?` of the target, if there is one.
    pub fn query(&self) -> Option<&str> {
        split_query(self.origin_form()).1
    }

    /// The version of the request line: 1.0 or 1.1.
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

    /// The host that is asked, with the port if one was given: that of the target if it is a URL, else that
    /// of the `Host` field (RFC 9112 section 3.2.2).
    pub fn host(&self) -> Option<&str> {
        let target = self.target();
        if *self.method() == Method::CONNECT {
            return Some(target);
        }
        match absolute(target) {
            Some((authority, _)) => Some(authority),
            None => std::str::from_utf8(self.headers().value_of(Kind::Host)?).ok(),
        }
    }

    /// The target without scheme and authority.
    fn origin_form(&self) -> &str {
        let target = self.target();
        if target.starts_with('/') {
            return target;
        }
        if *self.method() == Method::CONNECT {
            return "";
        }
        absolute(target).map_or(target, |(_, rest)| rest)
    }

    #[inline]
    fn parts(&self) -> &RequestParts {
        static NOTHING: RequestParts = RequestParts::new();
        self.parts.as_deref().unwrap_or(&NOTHING)
    }

    #[inline]
    fn parts_mut(&mut self) -> &mut RequestParts {
        self.parts.get_or_insert_with(spare::draw)
    }
}

impl Clone for RequestHead {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone() }
    }
}

impl Drop for RequestHead {
    #[inline]
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            spare::give_back(parts);
        }
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestParts { headers, target, method, version } = self.parts();
        f.debug_struct("RequestHead")
            .field("method", method)
            .field("target", target)
            .field("version", version)
            .field("headers", headers)
            .finish()
    }
}

impl RequestParts {
    const fn new() -> Self {
        Self {
            headers: Headers::new(),
            target: String::new(),
            method: Method::GET,
            version: Version::HTTP_11,
        }
    }
}

impl Spare for RequestParts {
    fn kept() -> &'static LocalKey<Spares<Self>> {
        &KEPT
    }

    #[cold]
    fn allocate() -> Box<Self> {
        Box::new(Self { target: String::with_capacity(TARGET_BYTES), ..Self::new() })
    }

    #[inline]
    fn is_small(&self) -> bool {
        self.target.capacity() <= TARGET_BYTES_KEPT_MAX
            && (self.method == Method::GET || self.method.as_str().len() <= METHOD_BYTES_KEPT_MAX)
            && self.headers.is_small()
    }

    #[inline]
    fn clear(&mut self) {
        self.headers.clear();
        self.target.clear();
        self.method = Method::GET;
        self.version = Version::HTTP_11;
    }
}

thread_local! {
    static KEPT: Spares<RequestParts> = const { Spares::new() };
}

/// Room for most targets.
const TARGET_BYTES: usize = 128;

/// A larger target is not kept: 256 spares of this size are 256 KiB a thread at most.
const TARGET_BYTES_KEPT_MAX: usize = 1024;

/// A longer method has memory of its own; nobody sends it twice.
const METHOD_BYTES_KEPT_MAX: usize = 15;

/// A request: head and body.
///
/// ```
/// use anywire_http::{Method, Request};
///
/// let request = Request::new(Method::POST, "/orders")?.header("content-type", "text/plain").body("two teas");
/// assert_eq!(request.body.length(), Some(8));
/// # Ok::<(), anywire_http::InvalidTarget>(())
/// ```
#[derive(Debug)]
pub struct Request {
    /// Method, target, version and fields.
    pub head: RequestHead,
    /// The body; empty unless set.
    pub body: Body,
    /// The first mistake that a builder method was given; a builder cannot return it.
    fault: Option<Box<InvalidHeader>>,
}

impl Request {
    /// A request in HTTP/1.1 without fields and body.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] as [`RequestHead::new`].
    pub fn new(method: Method, target: &str) -> Result<Self, InvalidTarget> {
        Ok(Self::from_parts(RequestHead::new(method, target)?, Body::empty()))
    }

    /// Puts head and body together.
    pub fn from_parts(head: RequestHead, body: Body) -> Self {
        Self { head, body, fault: None }
    }

    /// Adds a field. One that cannot be sent is remembered as the request's [`Request::fault`].
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if let Err(fault) = self.head.headers_mut().append(name, value) {
            self.fault.get_or_insert_with(|| Box::new(fault));
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// The first field that a builder method refused. Who sends the request must refuse to if there is one.
    pub fn fault(&self) -> Option<&InvalidHeader> {
        self.fault.as_deref()
    }
}

/// A request target that cannot stand in a request line. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "building a request: the target `{shown}` is empty or holds white space or control characters; percent-encode them"
)]
pub struct InvalidTarget {
    /// The beginning of the target, made printable.
    shown: String,
}

impl InvalidTarget {
    pub(crate) fn new(target: &str) -> Self {
        Self { shown: target.chars().take(64).flat_map(char::escape_debug).collect() }
    }
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'?', target.as_bytes()) {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    }
}

/// Splits `scheme://authority/rest` into authority and `/rest`.
fn absolute(target: &str) -> Option<(&str, &str)> {
    if target.starts_with('/') {
        return None;
    }
    let (_, after) = target.split_once("://")?;
    Some(after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: Method, target: &str) -> RequestHead {
        RequestHead::new(method, target).expect("a valid target")
    }

    #[test]
    fn targets_have_paths_and_queries() {
        let cases = [
            ("/", "/", None),
            ("/a/b?c=d?e", "/a/b", Some("c=d?e")),
            ("/?", "/", Some("")),
            ("http://h:1/p?q", "/p", Some("q")),
            ("http://h", "/", None),
            ("http://h?q", "/", Some("q")),
            ("*", "*", None),
        ];
        for (target, path, query) in cases {
            let head = head(Method::OPTIONS, target);
            assert_eq!((head.target(), head.path(), head.query()), (target, path, query));
        }
        assert_eq!(head(Method::CONNECT, "h:443").path(), "");
    }

    #[test]
    fn the_host_of_the_target_wins() {
        let mut direct = head(Method::GET, "/");
        direct.headers_mut().append("Host", "a").expect("valid");
        assert_eq!(direct.host(), Some("a"));
        let mut proxied = head(Method::GET, "http://b:8/c");
        proxied.headers_mut().append("Host", "a").expect("valid");
        assert_eq!(proxied.host(), Some("b:8"));
        assert_eq!(head(Method::CONNECT, "c:1").host(), Some("c:1"));
        assert_eq!(head(Method::GET, "/").host(), None);
    }

    #[test]
    fn changing_fields_leaves_the_target_alone() {
        let mut head = head(Method::GET, "/a?b");
        head.headers_mut().append("x", "1").expect("valid");
        head.headers_mut().insert("x", "2").expect("valid");
        head.headers_mut().clear();
        head.headers_mut().append("y", "3").expect("valid");
        assert_eq!(head.target(), "/a?b");
        let clone = head.clone();
        drop(head);
        assert_eq!((clone.target(), clone.headers().get("y")), ("/a?b", Some("3")));
        assert_eq!(clone.headers().wire_bytes(), b"y: 3\r\n");
    }

    #[test]
    fn targets_that_break_the_line_are_refused() {
        for target in ["", "/a b", "/a\r\nx: y", "/\u{7f}", "/\0"] {
            assert!(RequestHead::new(Method::GET, target).is_err(), "{target:?}");
        }
    }

    #[test]
    fn heads_are_small_to_move() {
        assert_eq!(size_of::<RequestHead>(), size_of::<usize>());
    }

    #[test]
    fn a_refused_field_is_remembered() {
        let request = head(Method::GET, "/");
        let request = Request::from_parts(request, Body::empty()).header("a b", "1").header("c", "2");
        assert!(matches!(request.fault(), Some(InvalidHeader::Name { .. })));
        assert_eq!(request.head.headers().len(), 1);
    }
}
