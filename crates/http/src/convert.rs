//! Conversions from and to the types of the `http` crate, which the rest of the ecosystem speaks.

use std::sync::Arc;

use anywire_advice::Advice;
use bytes::{Buf, Bytes};
use http::Uri;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};

use crate::body::BoxError;
use crate::{Body, Headers, IntoResponse, InvalidRequest, InvalidTarget, Request, RequestHead, Response};

/// A message that the `http` crate's types cannot hold, or the other way round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The target cannot stand in a request line. The caller is at fault.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// The target is no URI in the sense of the `http` crate. The caller is at fault.
    #[error(
        "converting a request: its target is no URI{help}",
        help = Advice("percent-encode what is not ASCII")
    )]
    Uri(#[from] http::uri::InvalidUri),
    /// A name or a value is refused by the `http` crate. The caller is at fault.
    #[error(
        "converting headers: the http crate refuses a name or a value{help}",
        help = Advice("shorten or correct it")
    )]
    Header(#[source] http::Error),
    /// There are more fields than a `HeaderMap` holds. Fault: limit.
    #[error(
        "converting headers: there are more of them than a HeaderMap holds{help}",
        help = Advice("convert fewer")
    )]
    TooManyHeaders,
    /// A builder method was given a field that cannot be sent. The caller is at fault.
    #[error(transparent)]
    Fault(#[from] crate::InvalidHeader),
}

impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Self {
        let mut headers = Self::new();
        map.iter().for_each(|(name, value)| headers.append_typed(name, value));
        headers
    }
}

impl TryFrom<&Headers> for HeaderMap {
    type Error = ConvertError;

    fn try_from(headers: &Headers) -> Result<Self, ConvertError> {
        let map = Self::try_with_capacity(headers.len() + ADDED);
        let map = map.or_else(|_| Self::try_with_capacity(headers.len()));
        let mut map = map.map_err(|_| ConvertError::TooManyHeaders)?;
        // One piece of memory for all values.
        let all = Bytes::copy_from_slice(headers.wire_bytes());
        let start = headers.wire_bytes().as_ptr().addr();
        for (name, value, is_sensitive) in headers.iter_marked() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| ConvertError::Header(e.into()))?;
            let at = value.as_ptr().addr() - start;
            let value = HeaderValue::from_maybe_shared(all.slice(at..at + value.len()));
            let mut value = value.map_err(|e| ConvertError::Header(e.into()))?;
            value.set_sensitive(is_sensitive);
            map.try_append(name, value).map_err(|_| ConvertError::TooManyHeaders)?;
        }
        Ok(map)
    }
}

impl<B> TryFrom<http::Request<B>> for Request
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    type Error = ConvertError;

    /// The target is the URI, without a user. Version and extensions stay.
    fn try_from(request: http::Request<B>) -> Result<Self, ConvertError> {
        let (parts, body) = request.into_parts();
        Ok(Self::from_parts(parts.try_into()?, Body::wrap(body)))
    }
}

impl TryFrom<http::request::Parts> for RequestHead {
    type Error = ConvertError;

    /// The target is the URI, without a user. Version and extensions stay.
    fn try_from(parts: http::request::Parts) -> Result<Self, ConvertError> {
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let authority = authority.map(|authority| authority.rsplit('@').next().unwrap_or(authority));
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut head = match (authority, parts.uri.scheme_str()) {
            (Some(authority), None) => Self::new(parts.method, authority)?,
            (Some(authority), Some(scheme)) => {
                let mut head = Self::new(parts.method, path)?;
                head.set_origin(scheme, authority)?;
                head
            }
            (None, _) => Self::new(parts.method, path)?,
        };
        head.set_version(parts.version);
        *head.headers_mut() = Headers::from(&parts.headers);
        *head.extensions_mut() = parts.extensions;
        Ok(head)
    }
}

/// Whether method, target, version and fields are the same, these in the same order, their names in letters of any case. Extensions
/// are not compared.
///
/// So what was made of a head and comes back with nothing changed needs no head anew, which is four times as dear (345 instructions
/// beside 1,500, callgrind).
impl PartialEq<http::request::Parts> for RequestHead {
    fn eq(&self, parts: &http::request::Parts) -> bool {
        let uri = &parts.uri;
        let authority = uri.authority().map(Authority::as_str);
        let path = uri.path_and_query().map_or("", PathAndQuery::as_str);
        let mut fields = self.headers().iter_marked().zip(&parts.headers);
        self.method() == parts.method
            && self.version() == parts.version
            && (self.scheme(), self.authority(), self.path_and_query()) == (uri.scheme_str(), authority, path)
            && self.headers().len() == parts.headers.len()
            // A map has its names in small letters, a head as the peer wrote them.
            && fields.all(|((name, value, is_sensitive), (other, other_value))| {
                name.eq_ignore_ascii_case(other.as_str())
                    && (value, is_sensitive) == (other_value.as_bytes(), other_value.is_sensitive())
            })
    }
}

impl TryFrom<&mut RequestHead> for http::Request<()> {
    type Error = ConvertError;

    /// The URI is the target. The extensions move, and all else is copied.
    fn try_from(head: &mut RequestHead) -> Result<Self, ConvertError> {
        let mut converted = Self::new(());
        *converted.method_mut() = head.method().clone();
        *converted.uri_mut() = head.target().parse::<Uri>()?;
        *converted.version_mut() = head.version();
        *converted.headers_mut() = HeaderMap::try_from(head.headers())?;
        *converted.extensions_mut() = std::mem::take(head.extensions_mut());
        Ok(converted)
    }
}

impl TryFrom<Request> for http::Request<Body> {
    type Error = ConvertError;

    /// The URI is the target. Version and extensions stay.
    fn try_from(mut request: Request) -> Result<Self, ConvertError> {
        match request.fault() {
            None => {}
            Some(InvalidRequest::Target(fault)) => return Err(fault.clone().into()),
            Some(InvalidRequest::Header(fault)) => return Err(fault.clone().into()),
        }
        Ok(http::Request::try_from(&mut request.head)?.map(|()| request.body))
    }
}

impl<B> From<http::Response<B>> for Response
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    /// Version and extensions stay.
    fn from(response: http::Response<B>) -> Self {
        let (mut parts, body) = response.into_parts();
        let mut converted = Self::from_parts(parts.status, Headers::from(&parts.headers), Body::wrap(body));
        converted.version = parts.version;
        if let Some(Cause(cause)) = parts.extensions.remove() {
            converted.set_cause(String::from(&*cause));
        }
        if !parts.extensions.is_empty() {
            *converted.extensions_mut() = parts.extensions;
        }
        converted
    }
}

impl<B> IntoResponse for http::Response<B>
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    fn into_response(self) -> Response {
        self.into()
    }
}

impl TryFrom<Response> for http::Response<Body> {
    type Error = ConvertError;

    /// Version and extensions stay, and so does the [cause](Response::cause) if the response is converted back.
    fn try_from(mut response: Response) -> Result<Self, ConvertError> {
        if let Some(fault) = response.fault() {
            return Err(fault.clone().into());
        }
        let headers = HeaderMap::try_from(&response.headers)?;
        let cause = response.cause().map(|cause| Cause(cause.into()));
        let mut extensions = response.take_extensions();
        if let Some(cause) = cause {
            extensions.insert(cause);
        }
        let mut converted = Self::new(response.body);
        *converted.status_mut() = response.status;
        *converted.version_mut() = response.version;
        *converted.headers_mut() = headers;
        *converted.extensions_mut() = extensions;
        Ok(converted)
    }
}

/// Room for fields that layers add. A map that has to grow for the first of them costs a response 680 instructions more.
const ADDED: usize = 4;

/// Why a response is what it is, on its way through the `http` crate's type.
#[derive(Clone)]
struct Cause(Arc<str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BodyError, Method, StatusCode, Version};

    #[test]
    fn requests_go_there_and_back() {
        let mut request = Request::put("/a?b=c").header("X-One", "1").body("hi");
        request.head.set_version(Version::HTTP_10);
        request.head.extensions_mut().insert(7_u8);
        let there = http::Request::<Body>::try_from(request).expect("convertible");
        assert_eq!((there.uri().query(), there.extensions().get()), (Some("b=c"), Some(&7_u8)));
        let back = Request::try_from(there).expect("convertible");
        assert_eq!((&*back.head.target(), back.head.version()), ("/a?b=c", Version::HTTP_10));
        assert_eq!(
            (back.head.headers().get("x-one"), back.head.extensions().get()),
            (Some("1"), Some(&7_u8))
        );
        assert_eq!(back.body.length(), Some(2));
    }

    #[test]
    fn targets_of_any_form_go_there_and_back() {
        for (method, target) in [
            (Method::GET, "/x?y"),
            (Method::GET, "http://a.example:81/x?y"),
            (Method::CONNECT, "a.example:443"),
            (Method::OPTIONS, "*"),
        ] {
            let mut head = RequestHead::new(method, target).expect("a target");
            let (there, ()) = http::Request::try_from(&mut head).expect("convertible").into_parts();
            assert!(head == there, "{target}");
            assert_eq!(RequestHead::try_from(there).expect("convertible").target(), target);
        }
        let request = http::Request::get("http://user@a.example:81/x").body(Body::empty()).expect("valid");
        let request = Request::try_from(request).expect("convertible");
        assert_eq!((request.head.path(), request.head.host()), ("/x", Some("a.example:81")));
    }

    #[test]
    fn whatever_is_changed_differs_from_the_head() {
        let mut request = Request::get("/a?b=c").header("X-One", "1").header("x-two", "2").body("");
        let (same, ()) = http::Request::try_from(&mut request.head).expect("convertible").into_parts();
        assert!(request.head == same);
        let changes: [fn(&mut http::request::Parts); 9] = [
            |parts| parts.method = Method::HEAD,
            |parts| parts.version = Version::HTTP_2,
            |parts| parts.uri = Uri::from_static("/a?b=d"),
            |parts| parts.uri = Uri::from_static("/a"),
            |parts| parts.uri = Uri::from_static("http://a.example/a?b=c"),
            |parts| drop(parts.headers.insert("x-two", HeaderValue::from_static("3"))),
            |parts| drop(parts.headers.remove("x-two")),
            |parts| assert!(parts.headers.append("x-one", HeaderValue::from_static("1"))),
            |parts| parts.headers.get_mut("x-one").expect("it has one").set_sensitive(true),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut parts = same.clone();
            change(&mut parts);
            assert!(request.head != parts, "change {number}");
        }
        let mut head = RequestHead::new(Method::GET, "http://A.example/").expect("a target");
        let (mut parts, ()) = http::Request::try_from(&mut head).expect("convertible").into_parts();
        assert!(head == parts);
        parts.uri = Uri::from_static("http://a.example/");
        assert!(head != parts, "the host in other letters");
    }

    #[test]
    fn responses_go_there_and_back() {
        let mut response = Response::new(StatusCode::CREATED).header("a", "1").header("a", "2").body("x");
        response.version = Version::HTTP_2;
        response.extensions_mut().insert(7_u8);
        let there = http::Response::<Body>::try_from(response).expect("convertible");
        assert_eq!(there.headers().get_all("a").iter().count(), 2);
        let back = Response::from(there);
        assert_eq!((back.status, back.headers.len()), (StatusCode::CREATED, 2));
        assert_eq!((back.version, back.extensions().get()), (Version::HTTP_2, Some(&7_u8)));
    }

    #[test]
    fn marks_of_secrets_go_there_and_back() {
        let mut map = HeaderMap::new();
        map.append("a", HeaderValue::from_static("plain"));
        let mut secret = HeaderValue::from_static("secret");
        secret.set_sensitive(true);
        map.append("a", secret);
        let mut headers = Headers::from(&map);
        headers.append("b", "later").expect("a field");
        assert_eq!(format!("{headers:?}"), r#"{"a": "plain", "a": "(sensitive)", "b": "later"}"#);
        let back = HeaderMap::try_from(&headers.clone()).expect("convertible");
        let marks: Vec<_> = back.values().map(HeaderValue::is_sensitive).collect();
        assert_eq!(marks, [false, true, false]);
    }

    #[test]
    fn the_cause_of_a_response_goes_there_and_back() {
        let response = Response::new(StatusCode::BAD_GATEWAY).caused_by(&BodyError::Timeout);
        let cause = response.cause().map(str::to_owned);
        let back = Response::from(http::Response::<Body>::try_from(response).expect("convertible"));
        assert_eq!((back.cause(), back.extensions().len()), (cause.as_deref(), 0));
    }

    #[test]
    fn a_fault_is_not_lost() {
        let response = Response::new(StatusCode::OK).header("a b", "1");
        assert!(matches!(http::Response::<Body>::try_from(response), Err(ConvertError::Fault(_))));
    }
}
