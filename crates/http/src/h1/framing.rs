//! Where a body ends (RFC 9112 section 6.3), and whether the connection stays open after it (section 9.3).

use http::{Method, Version};

use super::DecodeError;
use super::head::{Scanned, refuse};
use crate::Body;
use crate::headers::{Kind, Kinds, list_token};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, nor could there be one: a request without a length, a response to HEAD, 1xx, 204,
    /// 304.
    None,
    /// So many bytes follow; may be 0.
    Length(u64),
    /// Chunks follow, perhaps trailers (RFC 9112 section 7.1).
    Chunked,
    /// All bytes until the peer closes; in responses only.
    UntilClose,
}

/// What a head says about its connection, and not about its message. A decoder gives it beside each head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadInfo {
    /// How the end of the body is found (RFC 9112 section 6.3).
    pub framing: Framing,
    /// Whether the connection stays open after this message, as far as its sender says (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1). Never in a
    /// response.
    pub expects_continue: bool,
}

impl Framing {
    /// The framing of a response with this body: its length if that is known, else chunks. None for a body that is
    /// [withheld](Body::withheld).
    #[inline]
    pub fn of_response(body: &Body) -> Self {
        match body.length() {
            Some(_) if body.is_withheld() => Self::None,
            Some(length) => Self::Length(length),
            None => Self::Chunked,
        }
    }

    /// The framing of a request with this body. An empty body has a length of 0 if the method suggests a body, and else
    /// none (RFC 9110 section 8.6).
    ///
    /// ```
    /// use anywire_http::h1::Framing;
    /// use anywire_http::{Body, Method};
    ///
    /// assert_eq!(Framing::of_request(&Method::POST, &Body::empty()), Framing::Length(0));
    /// assert_eq!(Framing::of_request(&Method::GET, &Body::empty()), Framing::None);
    /// ```
    pub fn of_request(method: &Method, body: &Body) -> Self {
        match Self::of_response(body) {
            Self::Length(0) if ![Method::POST, Method::PUT, Method::PATCH].contains(method) => Self::None,
            framing => framing,
        }
    }

    /// Whether no byte of a body follows.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Length(0))
    }

    /// The number of bytes that follow, if it is known.
    pub fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(length) => Some(length),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}

/// Fields that must not appear twice.
pub(super) const SINGLE: Kinds = Kinds::of(&[Kind::Host, Kind::ContentLength, Kind::TransferEncoding]);

/// What the head declares, or `None` if it declares nothing.
#[inline]
pub(super) fn declared(scanned: &Scanned<'_>, version: Version) -> Result<Option<Framing>, DecodeError> {
    if scanned.present.contains(Kind::TransferEncoding) {
        return chunked(scanned, version).map(Some);
    }
    let Some(digits) = scanned.length else { return Ok(None) };
    if scanned.repeated.contains(Kind::ContentLength) {
        return refuse(DecodeError::DuplicateContentLength);
    }
    match decimal(digits) {
        Some(length) => Ok(Some(Framing::Length(length))),
        None => refuse(DecodeError::ContentLength),
    }
}

fn chunked(scanned: &Scanned<'_>, version: Version) -> Result<Framing, DecodeError> {
    if scanned.present.contains(Kind::ContentLength) {
        return Err(DecodeError::BothLengths);
    }
    if version == Version::HTTP_10 {
        return Err(DecodeError::TransferEncodingInHttp10);
    }
    if scanned.repeated.contains(Kind::TransferEncoding) {
        return Err(DecodeError::DuplicateTransferEncoding);
    }
    let value = scanned.values_of(Kind::TransferEncoding).next().unwrap_or_default();
    if !value.eq_ignore_ascii_case(b"chunked") {
        return Err(DecodeError::TransferCoding);
    }
    Ok(Framing::Chunked)
}

/// Whether the connection is to stay open after this message, as far as its head says (RFC 9112 section 9.3).
#[inline]
pub(super) fn keep_alive(scanned: &Scanned<'_>, version: Version) -> bool {
    if !scanned.present.contains(Kind::Connection) {
        return version == Version::HTTP_11;
    }
    says_keep_alive(scanned, version)
}

fn says_keep_alive(scanned: &Scanned<'_>, version: Version) -> bool {
    let says = |token| list_token(scanned.values_of(Kind::Connection), token);
    !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}

/// Whether a request's sender waits before it sends the body (RFC 9110 section 10.1.1).
#[inline]
pub(super) fn expects_continue(scanned: &Scanned<'_>, version: Version, framing: Framing) -> bool {
    scanned.present.contains(Kind::Expect)
        && version == Version::HTTP_11
        && !framing.is_empty()
        && list_token(scanned.values_of(Kind::Expect), "100-continue")
}

/// Plain digits only: no sign, no space, no list (RFC 9110 section 8.6).
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::head::scan;
    use super::*;

    #[test]
    fn decimals_are_plain_digits_that_fit() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"0012"), Some(12));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"1,1", b"0x1", b"18446744073709551616", b"1e3"] {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_methods_that_suggest_a_body_declare_an_empty_one() {
        assert_eq!(Framing::of_request(&Method::DELETE, &Body::empty()), Framing::None);
        assert_eq!(Framing::of_request(&Method::PUT, &Body::empty()), Framing::Length(0));
        assert_eq!(Framing::of_request(&Method::GET, &"a".into()), Framing::Length(1));
    }

    #[test]
    fn connections_stay_open_as_the_rfc_says() {
        let of = |lines: &str, version| {
            let mut slots = [httparse::EMPTY_HEADER; 2];
            let section = format!("{lines}\r\n");
            let (_, parsed) =
                httparse::parse_headers(section.as_bytes(), &mut slots).expect("valid").unwrap();
            keep_alive(&scan(&section.as_bytes()[..lines.len()], parsed, |_| ()).expect("valid"), version)
        };
        let stays = |value: &str, version| of(&format!("connection: {value}\r\n"), version);
        assert!(of("", Version::HTTP_11));
        assert!(!of("", Version::HTTP_10));
        assert!(stays("Keep-Alive", Version::HTTP_10));
        assert!(!stays("close", Version::HTTP_11));
        assert!(!stays("keep-alive, CLOSE", Version::HTTP_10));
        assert!(stays("upgrade", Version::HTTP_11));
        assert!(!stays("upgrade", Version::HTTP_10));
    }
}
