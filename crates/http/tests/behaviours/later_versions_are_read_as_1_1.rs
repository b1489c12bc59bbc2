//! A message of a later version of HTTP/1 than ours is read as one of 1.1: nothing that has the same first number changes what it
//! means (RFC 9110 sections 2.5 and 15.6.6). In both roles, in pieces and in place.

use crate::support::{Event, requests, requests_in_place, responses, responses_in_place};
use anywire_http::Method;
use anywire_http::h1::{DecodeError, Limits};

const REQUESTS: [&str; 4] = [
    "GET / HTTP/1.x\r\nHost: a\r\n\r\n",
    "POST /a?b HTTP/1.x\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.x\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\nt: 1\r\n\r\n",
    "OPTIONS * HTTP/1.x\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
];

const RESPONSES: [&str; 4] = [
    "HTTP/1.x 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.x 204 \r\n\r\n",
    "HTTP/1.x 200 OK\r\na: b\r\n c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "HTTP/1.x 100 Continue\r\n\r\nHTTP/1.x 200 OK\r\n\r\nuntil the end",
];

/// What comes of the bytes, in one piece and byte by byte, copied and in place.
type Decoded = [(Vec<Event>, Option<DecodeError>); 4];

fn of_requests(bytes: &[u8]) -> Decoded {
    let limits = Limits::default();
    [
        requests([bytes], limits),
        requests(bytes.chunks(1), limits),
        requests_in_place([bytes], limits),
        requests_in_place(bytes.chunks(1), limits),
    ]
}

fn of_responses(bytes: &[u8]) -> Decoded {
    let (limits, get) = (Limits::default(), &Method::GET);
    [
        responses([bytes], get, limits),
        responses(bytes.chunks(1), get, limits),
        responses_in_place([bytes], get, limits),
        responses_in_place(bytes.chunks(1), get, limits),
    ]
}

#[test]
fn of_requests_and_responses() {
    for minor in 2..=9 {
        let named = |text: &str, minor| text.replace("1.x", &format!("1.{minor}")).into_bytes();
        for text in REQUESTS {
            let usual = of_requests(&named(text, 1));
            assert!(usual.iter().all(|(_, error)| error.is_none()), "{usual:?}");
            assert_eq!(of_requests(&named(text, minor)), usual, "{text} of 1.{minor}");
        }
        for text in RESPONSES {
            let usual = of_responses(&named(text, 1));
            assert!(usual.iter().all(|(_, error)| error.is_none()), "{usual:?}");
            assert_eq!(of_responses(&named(text, minor)), usual, "{text} of 1.{minor}");
        }
    }
}

#[test]
fn their_faults_are_the_same() {
    for rest in
        ["Host: a b\r\n\r\n", "a\r\n\r\n", "Host: a\nb: c\r\n\r\n", "\r\n", "Host: a\r\nx: \x01\r\n\r\n"]
    {
        let of = |minor: u8| of_requests(format!("GET / HTTP/1.{minor}\r\n{rest}").as_bytes());
        assert_eq!(of(2), of(1), "{rest:?}");
        let of = |minor: u8| of_responses(format!("HTTP/1.{minor} 200 OK\r\n{rest}").as_bytes());
        assert_eq!(of(2), of(1), "{rest:?}");
    }
}

/// A version of more digits, or one with something behind it, is none. The error says what it has to look like.
#[test]
fn what_is_no_version_is_explained() {
    for line in ["GET / HTTP/1.10", "GET / HTTP/1.1 ", "GET / HTTP/1."] {
        for (_, error) in of_requests(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()) {
            assert_eq!(error, Some(DecodeError::StartLine), "{line}");
        }
    }
    let said = DecodeError::StartLine.to_string();
    assert!(said.contains("end a request line with the version, which has one digit a part"), "{said}");
}
