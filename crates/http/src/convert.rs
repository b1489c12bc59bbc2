//! Conversions from and to the types of the `http` crate, which the rest of the ecosystem speaks.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri, Version};

use crate::{Body, Headers, InvalidTarget, Request, RequestHead, Response};

/// A message that the `http` crate's types cannot hold, or the other way round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The target cannot stand in a request line. The caller is at fault.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// The target is no URI in the sense of the `http` crate. The caller is at fault.
    #[error("converting a request: its target is no URI; percent-encode what is not ASCII")]
    Uri(#[from] http::uri::InvalidUri),
    /// A name or a value is refused by the `http` crate. The caller is at fault.
    #[error("converting headers: the http crate refuses a name or a value; shorten or correct it")]
    Header(#[source] http::Error),
    /// There are more fields than a `HeaderMap` holds. Fault: limit.
    #[error("converting headers: there are more of them than a HeaderMap holds; convert fewer")]
    TooManyHeaders,
    /// A builder method was given a field that cannot be sent. The caller is at fault.
    #[error(transparent)]
    Fault(#[from] crate::InvalidHeader),
}

impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Self {
        map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl TryFrom<&Headers> for HeaderMap {
    type Error = ConvertError;

    fn try_from(headers: &Headers) -> Result<Self, ConvertError> {
        let mut map = Self::new();
        for (name, value) in headers.iter() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| ConvertError::Header(e.into()))?;
            let value = HeaderValue::from_bytes(value).map_err(|e| ConvertError::Header(e.into()))?;
            map.try_append(name, value).map_err(|_| ConvertError::TooManyHeaders)?;
        }
        Ok(map)
    }
}

impl TryFrom<http::Request<Body>> for Request {
    type Error = ConvertError;

    /// Takes path and query as the target (CONNECT: the authority), and the URI's authority as `Host` if the
    /// fields hold none. The version becomes 1.1; extensions are dropped.
    fn try_from(request: http::Request<Body>) -> Result<Self, ConvertError> {
        let (parts, body) = request.into_parts();
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let target = match (&parts.method, authority) {
            (&Method::CONNECT, Some(authority)) => authority,
            _ => parts.uri.path_and_query().map_or("/", |target| target.as_str()),
        };
        let mut head = RequestHead::new(parts.method.clone(), target)?;
        let host = authority.map(|authority| authority.rsplit('@').next().unwrap_or(authority));
        if let Some(host) = host
            && !parts.headers.contains_key(http::header::HOST)
        {
            head.headers_mut().append("host", host)?;
        }
        head.headers_mut().extend(parts.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(Self::from_parts(head, body))
    }
}

impl TryFrom<Request> for http::Request<Body> {
    type Error = ConvertError;

    /// The URI is the target as it stands in the request line.
    fn try_from(request: Request) -> Result<Self, ConvertError> {
        if let Some(fault) = request.fault() {
            return Err(fault.clone().into());
        }
        let mut converted = Self::new(request.body);
        *converted.method_mut() = request.head.method().clone();
        *converted.uri_mut() = request.head.target().parse::<Uri>()?;
        *converted.version_mut() = request.head.version();
        *converted.headers_mut() = HeaderMap::try_from(request.head.headers())?;
        Ok(converted)
    }
}

impl From<http::Response<Body>> for Response {
    /// Version and extensions are dropped: the encoder decides the version.
    fn from(response: http::Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        Self::from_parts(parts.status, Headers::from(&parts.headers), body)
    }
}

impl TryFrom<Response> for http::Response<Body> {
    type Error = ConvertError;

    fn try_from(response: Response) -> Result<Self, ConvertError> {
        if let Some(fault) = response.fault() {
            return Err(fault.clone().into());
        }
        let headers = HeaderMap::try_from(&response.headers)?;
        let mut converted = Self::new(response.body);
        *converted.status_mut() = response.status;
        *converted.version_mut() = Version::HTTP_11;
        *converted.headers_mut() = headers;
        Ok(converted)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn requests_go_there_and_back() {
        let request = Request::new(Method::PUT, "/a?b=c").expect("valid").header("X-One", "1").body("hi");
        let there = http::Request::<Body>::try_from(request).expect("convertible");
        assert_eq!(there.uri().query(), Some("b=c"));
        let back = Request::try_from(there).expect("convertible");
        assert_eq!(back.head.target(), "/a?b=c");
        assert_eq!(back.head.headers().get("x-one"), Some("1"));
        assert_eq!(back.body.length(), Some(2));
    }

    #[test]
    fn the_authority_of_a_uri_becomes_the_host() {
        let request = http::Request::get("http://user@a.example:81/x").body(Body::empty()).expect("valid");
        let request = Request::try_from(request).expect("convertible");
        assert_eq!(request.head.target(), "/x");
        assert_eq!(request.head.headers().get("host"), Some("a.example:81"));
    }

    #[test]
    fn responses_go_there_and_back() {
        let response = Response::new(StatusCode::CREATED).header("a", "1").header("a", "2").body("x");
        let there = http::Response::<Body>::try_from(response).expect("convertible");
        assert_eq!(there.headers().get_all("a").iter().count(), 2);
        let back = Response::from(there);
        assert_eq!((back.status, back.headers.len()), (StatusCode::CREATED, 2));
    }

    #[test]
    fn a_fault_is_not_lost() {
        let response = Response::new(StatusCode::OK).header("a b", "1");
        assert!(matches!(http::Response::<Body>::try_from(response), Err(ConvertError::Fault(_))));
    }
}
