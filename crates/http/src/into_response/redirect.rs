//! Another place for a request.

use std::borrow::Cow;

use super::IntoResponse;
use crate::{Response, StatusCode};

/// A response that sends its peer to another place.
///
/// | | status | the next request is | it holds |
/// | --- | --- | --- | --- |
/// | [`see_other`](Self::see_other) | 303 | a GET | once: the way on from a form |
/// | [`temporary`](Self::temporary) | 307 | the same, with its body | once |
/// | [`permanent`](Self::permanent) | 308 | the same, with its body | from now on, and caches keep it |
/// | [`found`](Self::found), [`moved`](Self::moved) | 302, 301 | a GET if it was a POST, in practice | once; from now on. For old peers |
///
/// The place is a URL, or a path as seen from the request. What a URL cannot hold is percent-encoded: white space, `\`, quotes, and
/// letters beyond ASCII. A `%` stays if two hexadecimal digits follow. A line break or another control character is a
/// [fault](Response::fault): a server logs it and answers 500.
///
/// A place that the peer has named itself, such as in a query, may be on another host: `https://..` and `//..` are. Check for that
/// before.
///
/// ```
/// use anywire_http::{IntoResponse, Redirect};
///
/// let response = Redirect::see_other("/orders/grüner tee").into_response();
/// assert_eq!(response.status.as_u16(), 303);
/// assert_eq!(response.headers.get("location"), Some("/orders/gr%C3%BCner%20tee"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Redirect {
    status: StatusCode,
    location: String,
}

impl Redirect {
    /// 301: for good, where peers may turn a POST into a GET.
    pub fn moved(place: impl AsRef<str>) -> Self {
        Self::new(StatusCode::MOVED_PERMANENTLY, place.as_ref())
    }

    /// 302: this time, where peers may turn a POST into a GET.
    pub fn found(place: impl AsRef<str>) -> Self {
        Self::new(StatusCode::FOUND, place.as_ref())
    }

    /// 303: this time, and always by a GET.
    pub fn see_other(place: impl AsRef<str>) -> Self {
        Self::new(StatusCode::SEE_OTHER, place.as_ref())
    }

    /// 307: this time, by the same method and with the same body.
    pub fn temporary(place: impl AsRef<str>) -> Self {
        Self::new(StatusCode::TEMPORARY_REDIRECT, place.as_ref())
    }

    /// 308: for good, by the same method and with the same body.
    pub fn permanent(place: impl AsRef<str>) -> Self {
        Self::new(StatusCode::PERMANENT_REDIRECT, place.as_ref())
    }

    fn new(status: StatusCode, place: &str) -> Self {
        Self { status, location: encoded(place).into_owned() }
    }
}

impl IntoResponse for Redirect {
    fn into_response(self) -> Response {
        Response::new(self.status).header("location", self.location)
    }
}

/// The text with all percent-encoded that a URL cannot hold, except control characters, which no field takes.
pub(super) fn encoded(place: &str) -> Cow<'_, str> {
    let bytes = place.as_bytes();
    let stays = |at: usize, byte: u8| match byte {
        b'%' => matches!(bytes.get(at + 1..at + 3), Some(digits) if digits.iter().all(u8::is_ascii_hexdigit)),
        b' ' | b'\t' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => false,
        _ => byte.is_ascii(),
    };
    if bytes.iter().enumerate().all(|(at, &byte)| stays(at, byte)) {
        return place.into();
    }
    let mut out = String::with_capacity(place.len() + 16);
    for (at, &byte) in bytes.iter().enumerate() {
        match stays(at, byte) {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_cannot_hold_is_encoded() {
        for (place, location) in [
            ("/a?b=c&d=%20#e", "/a?b=c&d=%20#e"),
            ("https://[::1]:8080/~a/(b)*;c=1", "https://[::1]:8080/~a/(b)*;c=1"),
            ("/50%/100%zz%4", "/50%25/100%25zz%254"),
            (r"/\evil.example", "/%5Cevil.example"),
            (" /a\tb ", "%20/a%09b%20"),
            ("/ü<\"`{|}^>", "/%C3%BC%3C%22%60%7B%7C%7D%5E%3E"),
            ("", ""),
        ] {
            let response = Redirect::found(place).into_response();
            assert!(response.fault().is_none(), "{place}");
            assert_eq!(response.headers.get("location"), Some(location), "{place}");
        }
    }

    #[test]
    fn a_line_break_is_a_fault() {
        for place in ["/\r\nset-cookie: a=b", "/\n", "/\0", "/\x7f"] {
            let response = Redirect::moved(place).into_response();
            assert!(response.fault().is_some() && response.headers.is_empty(), "{place:?}");
        }
    }

    #[test]
    fn each_has_its_status() {
        let all = [
            (301, Redirect::moved("/")),
            (302, Redirect::found("/")),
            (303, Redirect::see_other("/")),
            (307, Redirect::temporary("/")),
            (308, Redirect::permanent("/")),
        ];
        for (status, redirect) in all {
            assert_eq!(redirect.into_response().status.as_u16(), status);
        }
    }
}
