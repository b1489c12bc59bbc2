//! A head that is looked at where it lies says the same as one that is copied.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anywire_http::h1::{Framing, Limits, RequestDecoder, RequestEvent, ResponseDecoder, ResponseEvent};
use anywire_http::{Method, StatusCode, Version};

#[test]
fn all_of_a_request_can_be_seen() {
    let bytes =
        b"PUT /a?b HTTP/1.0\r\nConnection: keep-alive\r\nX: \xff \r\nx:\r\nContent-Length: 2\r\n\r\nhiGET";
    let mut input = &bytes[..];
    let event = RequestDecoder::new(Limits::default()).decode_with(&mut input, |head| {
        assert_eq!((head.method(), head.target()), (&Method::PUT, "/a?b"));
        assert_eq!((head.version(), head.framing()), (Version::HTTP_10, Framing::Length(2)));
        assert!(head.keep_alive());
        let fields: Vec<_> = head.fields().collect();
        let lines: [(&str, &[u8]); 4] =
            [("Connection", b"keep-alive"), ("X", b"\xff"), ("x", b""), ("Content-Length", b"2")];
        assert_eq!(fields, lines);
        "seen"
    });
    assert!(matches!(event, Ok(Some(RequestEvent::Head("seen", _)))), "{event:?}");
    assert_eq!(input, b"hiGET");
}

#[test]
fn all_of_a_response_can_be_seen() {
    let bytes = b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.0 404 Not here\r\nX: y\r\n\r\nuntil the end";
    let mut input = &bytes[..];
    let mut decoder = ResponseDecoder::new(Limits::default());
    let event = decoder.decode_with(&mut input, |head| {
        assert_eq!((head.status(), head.reason()), (StatusCode::EARLY_HINTS, "Early"));
        assert_eq!((head.version(), head.framing()), (Version::HTTP_11, Framing::None));
        assert!(head.keep_alive());
        assert_eq!(head.fields().collect::<Vec<_>>(), [("Link", &b"a"[..])]);
    });
    assert!(matches!(event, Ok(Some(ResponseEvent::Informational(())))), "{event:?}");
    let event = decoder.decode_with(&mut input, |head| {
        assert_eq!((head.status(), head.reason()), (StatusCode::NOT_FOUND, "Not here"));
        assert_eq!((head.version(), head.framing()), (Version::HTTP_10, Framing::UntilClose));
        assert!(!head.keep_alive());
        assert_eq!(head.fields().collect::<Vec<_>>(), [("X", &b"y"[..])]);
    });
    assert!(matches!(event, Ok(Some(ResponseEvent::Head((), _)))), "{event:?}");
    assert_eq!(input, b"until the end");
}

/// After a caught panic one message must not be read as a part of another.
#[test]
fn a_look_that_panics_takes_nothing_of_a_request() {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n";
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut input = &bytes[..30];
    assert!(matches!(decoder.decode(&mut input), Ok(None)));
    input = &bytes[..];
    assert!(panics(|| drop(decoder.decode_with(&mut input, |_| panic!("as wanted")))));
    assert_eq!(input, bytes);
    assert!(matches!(decoder.decode(&mut input), Ok(Some(RequestEvent::Head(..)))));
    assert_eq!(input, b"");
}

#[test]
fn a_look_that_panics_takes_nothing_of_a_response() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let mut decoder = ResponseDecoder::new(Limits::default());
    let mut input = &bytes[..30];
    assert!(matches!(decoder.decode(&mut input), Ok(None)));
    input = &bytes[..];
    assert!(panics(|| drop(decoder.decode_with(&mut input, |_| panic!("as wanted")))));
    assert_eq!(input, bytes);
    assert!(matches!(decoder.decode(&mut input), Ok(Some(ResponseEvent::Head(..)))));
    assert_eq!(input, b"hello");
}

fn panics(decode: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(decode)).is_err()
}
