//! What two implementations could read in two ways is refused, with the status that RFC 9112 asks for.

use crate::support::{request_error, response_error};
use anywire_http::h1::DecodeError::{self, *};

/// A head of POST with these field lines, and a body that is complete under any reading.
fn post(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n").into_bytes()
}

#[track_caller]
fn refused(bytes: &[u8], error: DecodeError) {
    assert_eq!(request_error(bytes), Some(error), "{}", bytes.escape_ascii());
}

#[test]
fn both_lengths() {
    refused(&post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), BothLengths);
    refused(&post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), BothLengths);
    refused(&post("Transfer-Encoding: x\r\nContent-Length: x\r\n"), BothLengths);
}

#[test]
fn content_lengths_that_are_not_one_number() {
    for value in ["+5", "-5", "5,5", "5, 5", "0x5", "5 5", "5e0", "", "18446744073709551616", "\u{b2}", "5;"]
    {
        refused(&post(&format!("Content-Length: {value}\r\n")), ContentLength);
    }
    refused(&post("Content-Length: 5\r\nContent-Length: 5\r\n"), DuplicateContentLength);
    refused(&post("Content-Length: 5\r\ncontent-length: 6\r\n"), DuplicateContentLength);
}

#[test]
fn transfer_codings_other_than_chunked() {
    for value in
        ["gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "chunked,", "identity", "", "xchunked"]
    {
        refused(&post(&format!("Transfer-Encoding: {value}\r\n")), TransferCoding);
    }
    refused(&post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), DuplicateTransferEncoding);
    assert_eq!(request_error(&post("Transfer-Encoding: Chunked\r\n")), None);
    refused(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", TransferEncodingInHttp10);
}

#[test]
fn names_with_white_space_or_none() {
    for line in
        ["Content-Length : 5", " Content-Length: 5", "Content-Length\t: 5", "A B: 5", ": 5", "novalue"]
    {
        refused(&post(&format!("{line}\r\n")), HeaderName);
    }
    refused(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", HeaderName);
}

#[test]
fn folded_lines() {
    refused(&post("X: a\r\n b\r\n"), HeaderName);
    refused(&post("X: a\r\n\tb\r\n"), HeaderName);
    refused(&post("Transfer-Encoding:\r\n chunked\r\n"), HeaderName);
}

#[test]
fn bare_line_feeds() {
    refused(b"GET / HTTP/1.1\nHost: a\r\n\r\n", LineEnding);
    refused(b"GET / HTTP/1.1\r\nHost: a\n\r\n", LineEnding);
    refused(b"GET / HTTP/1.1\r\nHost: a\r\n\n", LineEnding);
    refused(b"GET / HTTP/1.1\nHost: a\n\n", LineEnding);
    refused(b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", LineEnding);
    refused(b"GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n", LineEnding);
    refused(b"GET / HTTP/1.0\n\n", LineEnding);
    refused(b"GET / HTTP/1.0\r\n\n", LineEnding);
    refused(b"GET / HTTP/1.0\n\r\n", LineEnding);
    refused(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", LineEnding);
}

#[test]
fn bare_carriage_returns_and_other_controls() {
    refused(b"GET / HTTP/1.1\rHost: a\r\n\r\n", LineEnding);
    refused(&post("X: a\rb\r\n"), HeaderValue);
    refused(&post("X: a\r\r\n"), HeaderValue);
    refused(&post("X: a\0b\r\n"), HeaderValue);
    refused(&post("X: a\u{7f}b\r\n"), HeaderValue);
    refused(b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", StartLine);
    refused(b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", StartLine);
    refused(b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", StartLine);
}

#[test]
fn start_lines_with_other_spaces_or_words() {
    for line in [
        "GET  / HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / a HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.10",
        "GET / HTTP/1.20",
        "GET / HTTP/1.1x",
        "GET / HTTP/1.",
        "GET / HTTP/1",
        "GET / HTTP/11",
        "GET / HTTP/a.b",
        "GET /",
    ] {
        refused(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), StartLine);
    }
    refused(b"G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n", StartLine);
    refused(b"\x16\x03\x01\x02\x00\x01\x00\x01", StartLine);
}

#[test]
fn versions_other_than_1_0_and_1_1() {
    for version in ["0.9", "2.0", "2.1", "3.0", "9.9"] {
        let head = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        refused(head.as_bytes(), Version);
        let head = format!("HTTP/{version} 200 OK\r\n\r\n");
        assert_eq!(response_error(head.as_bytes()), Some(Version));
    }
    refused(b"GET / http/1.1\r\nHost: a\r\n\r\n", StartLine);
    assert_eq!(Version.status().as_u16(), 505);
}

#[test]
fn hosts_that_are_missing_double_or_none() {
    refused(b"GET / HTTP/1.1\r\n\r\n", MissingHost);
    refused(b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", DuplicateHost);
    refused(b"GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n", DuplicateHost);
    for host in ["a b", "a/b", "a@b", "a:b", "a, b", "a\\b", "<a>"] {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), InvalidHost);
    }
    assert_eq!(request_error(b"GET / HTTP/1.0\r\n\r\n"), None);
    assert_eq!(request_error(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), None);
}

#[test]
fn targets_of_no_form() {
    for target in ["a", "*", "a:80", "http:/a", "http://a b"] {
        let error = request_error(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(matches!(error, Some(Target | StartLine)), "{target}: {error:?}");
    }
    // A fragment (RFC 9112 section 3.2): other readers cut it off, or take it for a part of the path.
    for target in ["/a#b", "/#", "/a?b#c", "http://a/#b", "http://a#b", "http://a?b#c"] {
        refused(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), Target);
    }
    assert_eq!(request_error(b"GET /a%23b HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    assert_eq!(request_error(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    assert_eq!(request_error(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), None);
    assert_eq!(request_error(b"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n"), None);
}

#[test]
fn chunk_sizes_that_are_not_plain_hexadecimal() {
    for size in [
        "+1",
        "-1",
        "0x1",
        " 1",
        "1 ",
        "1\t",
        "g",
        "",
        "1_0",
        "00000000000000001",
        "10000000000000000",
        "1,1",
    ] {
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nx\r\n0\r\n\r\n"
        );
        refused(bytes.as_bytes(), ChunkSize);
    }
}

#[test]
fn chunks_with_other_line_ends() {
    let chunked =
        |body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    refused(chunked("1\nx\r\n0\r\n\r\n").as_bytes(), LineEnding);
    refused(chunked("1\rx\r\n0\r\n\r\n").as_bytes(), ChunkSize);
    refused(chunked("1\r\nxy\r\n0\r\n\r\n").as_bytes(), ChunkEnd);
    refused(chunked("1\r\nx\n0\r\n\r\n").as_bytes(), ChunkEnd);
    refused(chunked("1\r\nx\r0\r\n\r\n").as_bytes(), ChunkEnd);
    refused(chunked("0\r\n\n").as_bytes(), LineEnding);
    refused(chunked("0\r\nx: y\n\r\n").as_bytes(), LineEnding);
    refused(chunked("0\r\nx: y\r\n\n").as_bytes(), LineEnding);
    refused(chunked("0\r\n x: y\r\n\r\n").as_bytes(), HeaderName);
}

#[test]
fn chunk_extensions_are_ignored_if_well_formed() {
    let chunked = |line: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{line}\r\nx\r\n0\r\n\r\n")
    };
    for line in ["1;a", "1;a=b", "1;a=\"b c\"", "1 ;a", "1\t;a", "1;"] {
        assert_eq!(request_error(chunked(line).as_bytes()), None, "{line}");
    }
    for line in ["1 a", "1;a\rb", "1;\0", "1 \r;a", "1 a;b"] {
        refused(chunked(line).as_bytes(), ChunkSize);
    }
    refused(chunked("1;a\nb").as_bytes(), LineEnding);
}

#[test]
fn trailers_that_would_frame_or_route() {
    for name in ["Content-Length", "Transfer-Encoding", "Host"] {
        let bytes =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{name}: 5\r\n\r\n");
        refused(bytes.as_bytes(), ForbiddenTrailer);
    }
}

#[test]
fn responses_are_read_as_strictly() {
    let cases: [(&[u8], DecodeError); 12] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", BothLengths),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", DuplicateContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx", ContentLength),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", TransferCoding),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", TransferEncodingInHttp10),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", LineEnding),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\nx", HeaderName),
        (b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n", HeaderName),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", StartLine),
        (b"HTTP/1.1 2000 OK\r\n\r\n", StartLine),
        (b"HTTP/2.0 200 OK\r\n\r\n", Version),
    ];
    for (bytes, error) in cases {
        assert_eq!(response_error(bytes), Some(error), "{}", bytes.escape_ascii());
    }
}
