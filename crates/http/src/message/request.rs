//! A request head, and a request with its body.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;
use std::thread::LocalKey;

use anywire_advice::Advice;
use http::{Extensions, Method, Version};

use super::target::{Target, has_fragment, is_origin, is_target};
use crate::free_list::{self, FreeList, Placeholder, Reused, ReusedBox};
use crate::headers::Kind;
use crate::{Body, Headers, InvalidHeader};

/// The head of a request: method, target, version, header fields and extensions, in any version of HTTP.
///
/// One pointer, so it is cheap to move. A dropped head leaves its memory to the next one.
///
/// ```
/// use anywire_http::{Method, RequestHead};
///
/// let mut head = RequestHead::new(Method::GET, "/orders?page=2")?;
/// head.set_origin("https", "shop.example")?;
/// assert_eq!((head.authority(), head.path(), head.query()), (Some("shop.example"), "/orders", Some("page=2")));
/// assert_eq!(head.target(), "https://shop.example/orders?page=2");
/// # Ok::<(), anywire_http::InvalidTarget>(())
/// ```
#[derive(Clone)]
pub struct RequestHead {
    parts: ReusedBox<RequestHeadInner>,
}

/// What a request head holds.
#[derive(Clone, Debug)]
pub(crate) struct RequestHeadInner {
    pub(crate) headers: Headers,
    /// Path and query, or `*`. Empty for CONNECT.
    pub(crate) path: String,
    /// Empty unless the target names an authority.
    pub(crate) authority: String,
    /// Empty unless the target is a URL.
    pub(crate) scheme: String,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) extensions: Extensions,
}

impl RequestHead {
    /// A head in HTTP/1.1 without fields. `target` is `/path?query` or a URL; `host:port` for CONNECT; it may be `*` for
    /// OPTIONS (RFC 9112 section 3.2).
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] if the target has another form, or holds white space, a control character or a `#`.
    pub fn new(method: Method, target: &str) -> Result<Self, InvalidTarget> {
        let mut parts = free_list::take::<RequestHeadInner>();
        parts.method = method;
        if !is_target(target) || !parts.set_target(target) {
            return Err(InvalidTarget::new(target));
        }
        Ok(Self::from_parts(parts))
    }

    /// A head that a decoder filled.
    #[inline]
    pub(crate) fn from_parts(parts: Box<RequestHeadInner>) -> Self {
        Self { parts: parts.into() }
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Sets the method.
    pub fn set_method(&mut self, method: Method) {
        self.parts.method = method;
    }

    /// The whole target as HTTP/1 writes it: `/path?query`, `http://host/path?query` if the target names scheme and
    /// authority, `host:port` for CONNECT, or `*`. Allocates for a URL.
    pub fn target(&self) -> Cow<'_, str> {
        let RequestHeadInner { path, authority, scheme, .. } = &*self.parts;
        match (&**scheme, &**authority) {
            ("", "") => path.into(),
            _ if path == "*" => path.into(),
            ("", authority) => authority.into(),
            (scheme, authority) => format!("{scheme}://{authority}{path}").into(),
        }
    }

    /// The scheme of the target, if the target is a URL: `http`. HTTP/2 always sends it, HTTP/1 to proxies only.
    pub fn scheme(&self) -> Option<&str> {
        Some(&*self.parts.scheme).filter(|scheme| !scheme.is_empty())
    }

    /// The authority of the target, if the target names one: `host` or `host:port`. See also [`RequestHead::host`].
    pub fn authority(&self) -> Option<&str> {
        Some(&*self.parts.authority).filter(|authority| !authority.is_empty())
    }

    /// Replaces scheme and authority. Path and query stay, as a proxy needs it.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] if the scheme is none, or the authority is not `host` or `host:port`.
    pub fn set_origin(&mut self, scheme: &str, authority: &str) -> Result<(), InvalidTarget> {
        if !is_origin(scheme, authority) {
            return Err(InvalidTarget::new(&format!("{scheme}://{authority}")));
        }
        scheme.clone_into(&mut self.parts.scheme);
        authority.clone_into(&mut self.parts.authority);
        Ok(())
    }

    /// Path and query: `/path?query`; `*` if that is the target; empty for CONNECT.
    #[inline]
    pub fn path_and_query(&self) -> &str {
        &self.parts.path
    }

    /// Replaces path and query. Scheme and authority stay.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] if the text does not begin with `/`, or holds white space, a control character or a `#`.
    pub fn set_path_and_query(&mut self, path: &str) -> Result<(), InvalidTarget> {
        if !path.starts_with('/') || !is_target(path) {
            return Err(InvalidTarget::new(path));
        }
        path.clone_into(&mut self.parts.path);
        Ok(())
    }

    /// The path, without the query and not decoded: `/path`, or `*`; empty for CONNECT.
    pub fn path(&self) -> &str {
        split_query(self.path_and_query()).0
    }

    /// The text behind the first `?` of the target, if there is one.
    pub fn query(&self) -> Option<&str> {
        split_query(self.path_and_query()).1
    }

    /// The version of HTTP that the head came in, or is meant for. HTTP/1.1 unless set.
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

    /// Values that layers and handlers attach to the request, by their type. Never sent.
    pub fn extensions(&self) -> &Extensions {
        &self.parts.extensions
    }

    /// The extensions, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.parts.extensions
    }

    /// The host that is asked, with the port if one was given: the target's authority, else the `Host` field (RFC 9112
    /// section 3.2.2).
    pub fn host(&self) -> Option<&str> {
        self.authority().or_else(|| std::str::from_utf8(self.headers().value_of(Kind::Host)?).ok())
    }
}

/// The head of a GET request without a path. It allocates nothing until it is changed.
impl Default for RequestHead {
    #[inline]
    fn default() -> Self {
        Self { parts: ReusedBox::default() }
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", self.method())
            .field("target", &self.target())
            .field("version", &self.version())
            .field("headers", self.headers())
            .finish_non_exhaustive()
    }
}

impl RequestHeadInner {
    fn new() -> Self {
        Self {
            headers: Headers::new(),
            path: String::new(),
            authority: String::new(),
            scheme: String::new(),
            method: Method::GET,
            version: Version::HTTP_11,
            extensions: Extensions::new(),
        }
    }

    /// Replaces the target by one that fits the method. `false` if it has none of the forms of a target.
    #[inline]
    pub(crate) fn set_target(&mut self, target: &str) -> bool {
        self.scheme.clear();
        self.authority.clear();
        self.path.clear();
        if !Target::is_origin_form(&self.method, target) {
            return self.set_other_target(target);
        }
        self.path.push_str(target);
        !has_fragment(target)
    }

    #[cold]
    #[inline(never)]
    fn drop_extensions(&mut self) {
        self.extensions.clear();
    }

    /// Sets a target in another form. A URL without a path has the path `/` (RFC 9110 section 4.2.3).
    #[inline(never)]
    fn set_other_target(&mut self, target: &str) -> bool {
        let Some(target) = Target::parse(&self.method, target) else { return false };
        self.scheme.push_str(target.scheme);
        self.authority.push_str(target.authority);
        if !target.scheme.is_empty() && !target.path.starts_with('/') {
            self.path.push('/');
        }
        self.path.push_str(target.path);
        true
    }
}

impl Reused for RequestHeadInner {
    fn kept() -> &'static LocalKey<FreeList<Self>> {
        &KEPT
    }

    #[cold]
    fn allocate() -> Box<Self> {
        Box::new(Self { path: String::with_capacity(PATH_BYTES), ..Self::new() })
    }

    #[inline]
    fn is_small(&self) -> bool {
        let target_bytes = self.path.capacity() | self.authority.capacity() | self.scheme.capacity();
        target_bytes <= TARGET_BYTES_KEPT_MAX
            && (self.method == Method::GET || self.method.as_str().len() <= METHOD_BYTES_KEPT_MAX)
            && self.headers.is_small()
    }

    #[inline]
    fn release(&mut self) {
        if !self.extensions.is_empty() {
            self.drop_extensions();
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.headers.clear();
        self.path.clear();
        self.authority.clear();
        self.scheme.clear();
        self.method = Method::GET;
        self.version = Version::HTTP_11;
    }
}

impl Placeholder for RequestHeadInner {
    #[cold]
    #[inline]
    fn gone() -> &'static Self {
        static GONE: LazyLock<RequestHeadInner> = LazyLock::new(RequestHeadInner::new);
        &GONE
    }
}

thread_local! {
    static KEPT: FreeList<RequestHeadInner> = const { FreeList::new() };
}

/// Room for most paths.
const PATH_BYTES: usize = 128;

/// Larger parts of a target are freed: 256 heads with three parts of this size are 768 KiB a thread at most. One less
/// than a power of two, so that one comparison holds for all parts.
const TARGET_BYTES_KEPT_MAX: usize = 1023;

/// A longer method has memory of its own. It is rarely sent twice.
const METHOD_BYTES_KEPT_MAX: usize = 15;

/// A request: head and body.
///
/// ```
/// use anywire_http::Request;
///
/// let request = Request::post("/orders").header("content-type", "text/plain").body("two teas");
/// assert_eq!(request.body.length(), Some(8));
/// assert!(request.fault().is_none());
/// ```
#[derive(Debug)]
pub struct Request {
    /// Method, target, version, fields and extensions.
    pub head: RequestHead,
    /// The body; empty unless set.
    pub body: Body,
    /// The first mistake that a builder method was given; a builder cannot return it.
    fault: Option<Box<InvalidRequest>>,
}

impl Request {
    /// A request in HTTP/1.1 without fields and body. `target` as for [`RequestHead::new`]. One that cannot be sent is
    /// remembered as the request's [`Request::fault`], and `/` stands in its place.
    pub fn new(method: Method, target: &str) -> Self {
        match RequestHead::new(method, target) {
            Ok(head) => Self::from_parts(head, Body::empty()),
            Err(invalid) => {
                let head = RequestHead::from_parts(free_list::take());
                Self { head, body: Body::empty(), fault: Some(Box::new(invalid.into())) }
            }
        }
    }

    /// A GET request, as [`Request::new`].
    pub fn get(target: &str) -> Self {
        Self::new(Method::GET, target)
    }

    /// A HEAD request, as [`Request::new`].
    pub fn head(target: &str) -> Self {
        Self::new(Method::HEAD, target)
    }

    /// A POST request, as [`Request::new`].
    pub fn post(target: &str) -> Self {
        Self::new(Method::POST, target)
    }

    /// A PUT request, as [`Request::new`].
    pub fn put(target: &str) -> Self {
        Self::new(Method::PUT, target)
    }

    /// A PATCH request, as [`Request::new`].
    pub fn patch(target: &str) -> Self {
        Self::new(Method::PATCH, target)
    }

    /// A DELETE request, as [`Request::new`].
    pub fn delete(target: &str) -> Self {
        Self::new(Method::DELETE, target)
    }

    /// Puts head and body together.
    pub fn from_parts(head: RequestHead, body: Body) -> Self {
        Self { head, body, fault: None }
    }

    /// Adds a field. One that cannot be sent is remembered as the request's [`Request::fault`].
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if let Err(invalid) = self.head.headers_mut().append(name, value) {
            self.fault.get_or_insert_with(|| Box::new(invalid.into()));
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// The first mistake that a builder method was given. A sender of requests has to refuse a request that has one.
    pub fn fault(&self) -> Option<&InvalidRequest> {
        self.fault.as_deref()
    }
}

/// A request that cannot be sent. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The target.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// A header field.
    #[error(transparent)]
    Header(#[from] InvalidHeader),
}

/// A request target that cannot be sent. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "building a request: the target `{shown}` is neither `/path?query` nor `http://host/path?query`{help}",
    help = Advice("percent-encode white space, control characters and `#`, and leave out a user")
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
            ("*", "*", None),
        ];
        for (target, path, query) in cases {
            let head = head(Method::OPTIONS, target);
            assert_eq!((&*head.target(), head.path(), head.query()), (target, path, query));
        }
        for (target, path_and_query) in [("http://h", "/"), ("http://h?q", "/?q")] {
            let head = head(Method::GET, target);
            assert_eq!((head.path_and_query(), head.authority()), (path_and_query, Some("h")));
        }
        assert_eq!(head(Method::CONNECT, "h:443").path(), "");
        assert_eq!(head(Method::CONNECT, "h:443").target(), "h:443");
    }

    #[test]
    fn the_origin_of_a_request_can_be_replaced() {
        let mut head = head(Method::GET, "http://a:1/b?c");
        head.set_origin("https", "d").expect("an origin");
        assert_eq!(
            (head.scheme(), head.authority(), head.path_and_query()),
            (Some("https"), Some("d"), "/b?c")
        );
        head.set_path_and_query("/e").expect("a path");
        assert_eq!(head.target(), "https://d/e");
        for (scheme, authority) in
            [("", "d"), ("https", ""), ("https", "u@d"), ("h ttp", "d"), ("http", "d/x")]
        {
            assert!(head.set_origin(scheme, authority).is_err(), "{scheme} {authority}");
        }
        for path in ["", "e", "/e f", "/e\r\n"] {
            assert!(head.set_path_and_query(path).is_err(), "{path}");
        }
        assert_eq!(head.target(), "https://d/e");
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
        assert_eq!((&*clone.target(), clone.headers().get("y")), ("/a?b", Some("3")));
    }

    #[test]
    fn messages_are_small_to_move() {
        assert_eq!(size_of::<RequestHead>(), size_of::<usize>());
        assert_eq!(size_of::<Request>(), size_of::<[usize; 6]>());
    }

    #[test]
    fn extensions_end_with_their_request() {
        let value = std::sync::Arc::new(());
        let mut request = Request::get("/");
        request.head.extensions_mut().insert(value.clone());
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
        drop(request);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
        assert!(Request::get("/").head.extensions().is_empty());
    }

    #[test]
    fn the_first_mistake_is_remembered() {
        let request = Request::get("/").header("a b", "1").header("c", "2");
        assert!(matches!(request.fault(), Some(InvalidRequest::Header(InvalidHeader::Name { .. }))));
        assert_eq!(request.head.headers().len(), 1);
        let request = Request::get("/a b").header("a b", "1");
        assert!(matches!(request.fault(), Some(InvalidRequest::Target(_))));
        assert!(matches!(Request::get("a").fault(), Some(InvalidRequest::Target(_))));
        assert!(Request::get("http://a/b").fault().is_none());
    }
}
