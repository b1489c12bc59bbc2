//! Each limit of a decoder ends in its own error, whether the bytes come at once or one by one, and whether they are copied.

use crate::support::{requests, requests_in_place, responses};
use anywire_http::Method;
use anywire_http::h1::DecodeError::{self, *};
use anywire_http::h1::Limits;
use anywire_http::{Fault, HeadLimits};

#[track_caller]
fn refused(bytes: &[u8], limits: Limits, error: DecodeError) {
    assert_eq!(requests([bytes], limits).1, Some(error), "at once");
    assert_eq!(requests(bytes.chunks(1), limits).1, Some(error), "one by one");
    assert_eq!(requests_in_place([bytes], limits).1, Some(error), "in place");
    assert_eq!(requests_in_place(bytes.chunks(1), limits).1, Some(error), "in place, one by one");
    assert_eq!(error.fault(), Fault::Limit);
}

#[track_caller]
fn accepted(bytes: &[u8], limits: Limits) {
    assert_eq!(requests([bytes], limits).1, None, "at once");
    assert_eq!(requests(bytes.chunks(1), limits).1, None, "one by one");
    assert_eq!(requests_in_place([bytes], limits).1, None, "in place");
    assert_eq!(requests_in_place(bytes.chunks(1), limits).1, None, "in place, one by one");
}

fn get(target_bytes: usize, fields: &str) -> Vec<u8> {
    format!("GET /{} HTTP/1.1\r\nHost: a\r\n{fields}\r\n", "x".repeat(target_bytes - 1)).into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}

#[test]
fn start_line() {
    let limits = HeadLimits { target_bytes: 100, ..HeadLimits::default() }.into();
    let around = "GET  HTTP/1.1".len();
    accepted(&get(100 - around, ""), limits);
    refused(&get(101 - around, ""), limits, StartLineTooLong { limit: 100 });
    refused(&[b'A'; 200], limits, StartLineTooLong { limit: 100 });
    assert_eq!(StartLineTooLong { limit: 100 }.status().as_u16(), 414);
}

#[test]
fn head() {
    let limits = HeadLimits { bytes: 1000, ..HeadLimits::default() }.into();
    let rest = get(1, "X: \r\n").len();
    accepted(&get(1, &format!("X: {}\r\n", "y".repeat(1000 - rest))), limits);
    refused(&get(1, &format!("X: {}\r\n", "y".repeat(1001 - rest))), limits, HeadTooLarge { limit: 1000 });
    refused(&get(1, &format!("X: {}", "y".repeat(20_000))), limits, HeadTooLarge { limit: 1000 });
    assert_eq!(HeadTooLarge { limit: 1000 }.status().as_u16(), 431);
}

#[test]
fn headers() {
    let limits = HeadLimits { fields: 10, ..HeadLimits::default() }.into();
    accepted(&get(1, &"a: b\r\n".repeat(9)), limits);
    refused(&get(1, &"a: b\r\n".repeat(10)), limits, TooManyHeaders { limit: 10 });
    accepted(&get(1, &"a: b\r\n".repeat(99)), Limits::default());
    refused(&get(1, &"a: b\r\n".repeat(100)), Limits::default(), TooManyHeaders { limit: 100 });
    accepted(&get(1, &"a: b\r\n".repeat(199)), HeadLimits { fields: 200, ..HeadLimits::default() }.into());
}

#[test]
fn chunk_extensions() {
    let limits = Limits { chunk_extension_bytes: 10, chunk_extensions_bytes: 30, ..Limits::default() };
    accepted(&chunked("1;23456789a\r\nx\r\n0\r\n\r\n"), limits);
    refused(&chunked("1;23456789ab\r\nx\r\n0\r\n\r\n"), limits, ChunkExtensions { limit: 10 });
    refused(&chunked(&format!("1;{}", "x".repeat(100))), limits, ChunkExtensions { limit: 10 });
    accepted(&chunked(&("1;23456789a\r\nx\r\n".repeat(3) + "0\r\n\r\n")), limits);
    refused(&chunked(&"1;23456789a\r\nx\r\n".repeat(4)), limits, ChunkExtensions { limit: 30 });
}

#[test]
fn trailers() {
    let limits = HeadLimits { trailer_bytes: 50, trailer_fields: 3, ..HeadLimits::default() }.into();
    accepted(&chunked("0\r\na: b\r\na: b\r\na: b\r\n\r\n"), limits);
    refused(&chunked("0\r\na: b\r\na: b\r\na: b\r\na: b\r\n\r\n"), limits, TooManyTrailers { limit: 3 });
    accepted(&chunked(&format!("0\r\na: {}\r\n\r\n", "b".repeat(43))), limits);
    refused(&chunked(&format!("0\r\na: {}\r\n\r\n", "b".repeat(44))), limits, TrailersTooLarge { limit: 50 });
}

#[test]
fn a_head_that_no_buffer_can_hold_ends_in_an_error() {
    let limits = HeadLimits {
        bytes: usize::MAX,
        target_bytes: usize::MAX,
        fields: usize::MAX,
        ..HeadLimits::default()
    };
    let error = requests([&get(1, &format!("X: {}\r\n", "y".repeat(100_000)))[..]], limits.into()).1;
    assert!(matches!(error, Some(HeadTooLarge { .. })), "{error:?}");
}

#[test]
fn responses_have_the_same_limits() {
    let limits = HeadLimits { bytes: 100, fields: 2, ..HeadLimits::default() }.into();
    let error = |bytes: &str| responses([bytes.as_bytes()], &Method::GET, limits).1;
    assert_eq!(error("HTTP/1.1 200 OK\r\na: b\r\na: b\r\na: b\r\n\r\n"), Some(TooManyHeaders { limit: 2 }));
    assert_eq!(error(&format!("HTTP/1.1 200 {}", "x".repeat(100))), Some(HeadTooLarge { limit: 100 }));
}

#[test]
fn blank_lines_before_a_request_are_few() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    accepted(format!("{}{request}", "\r\n".repeat(4)).as_bytes(), Limits::default());
    accepted(format!("{request}\r\n{request}\r\n").as_bytes(), Limits::default());
    assert_eq!(requests(["\r\n".repeat(5).as_bytes()], Limits::default()).1, Some(StartLine));
}
