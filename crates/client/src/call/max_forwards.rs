//! `Max-Forwards`: how many proxies an `OPTIONS` or a `TRACE` may still pass (RFC 9110 section 7.6.2).

use anywire_http::{Body, Method, RequestHead, ResponseHead, StatusCode};

/// Counts one proxy more. Returns the response of this one if the request may pass no other.
///
/// Other methods are sent on as they came, and so is a value that is no number.
pub(crate) fn count(head: &mut RequestHead) -> Option<(ResponseHead, Body)> {
    if !matches!(*head.method(), Method::OPTIONS | Method::TRACE) {
        return None;
    }
    // If there are two fields, the lower one holds.
    let left = head.headers().get_all(NAME).filter_map(number).min()?;
    let Some(left) = left.checked_sub(1) else { return Some(answer(head)) };
    let set = head.headers_mut().insert(NAME, left.to_string());
    debug_assert!(set.is_ok(), "digits are a value");
    None
}

/// A number, as large as it fits.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).map(|number| number.unwrap_or(u64::MAX))
}

/// What the last recipient says: to `TRACE` the request as it came, but for what is secret (RFC 9110 section 9.3.8).
fn answer(head: &RequestHead) -> (ResponseHead, Body) {
    if *head.method() != Method::TRACE {
        return (ResponseHead::new(StatusCode::NO_CONTENT), Body::empty());
    }
    let mut response = ResponseHead::new(StatusCode::OK);
    let set = response.headers_mut().append("content-type", "message/http");
    debug_assert!(set.is_ok(), "it is a field");
    let mut fields = head.headers().clone();
    for secret in ["authorization", "proxy-authorization", "cookie"] {
        fields.remove(secret);
    }
    let mut echo = format!("TRACE {} HTTP/1.1\r\n", head.target()).into_bytes();
    echo.extend_from_slice(fields.wire_bytes());
    echo.extend_from_slice(b"\r\n");
    (response, echo.into())
}

const NAME: &str = "max-forwards";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_proxy_more_is_counted() {
        for (method, values, expected) in [
            (Method::OPTIONS, &["1"][..], Some("0")),
            (Method::TRACE, &["10"], Some("9")),
            (Method::TRACE, &["007"], Some("6")),
            (Method::OPTIONS, &["99999999999999999999999"], Some("18446744073709551614")),
            (Method::OPTIONS, &["3", "2"], Some("1")),
            (Method::OPTIONS, &[], None),
            (Method::OPTIONS, &["-1"], Some("-1")),
            (Method::OPTIONS, &["many"], Some("many")),
            (Method::GET, &["0"], Some("0")),
            (Method::GET, &["5"], Some("5")),
        ] {
            let mut head = RequestHead::new(method, "/").expect("a target");
            for value in values {
                head.headers_mut().append("Max-Forwards", value).expect("a field");
            }
            assert!(count(&mut head).is_none(), "{values:?}");
            assert_eq!(head.headers().get(NAME), expected, "{values:?}");
        }
    }
}
