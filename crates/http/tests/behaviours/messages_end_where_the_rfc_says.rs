//! The end of a message is found by the rules of RFC 9112 section 6.3, and the next message follows.

use crate::support::{Event, requests, responses};
use anywire_http::h1::{
    DecodeError, Framing, Limits, RequestDecoder, RequestEvent, ResponseDecoder, ResponseEvent,
};
use anywire_http::{Buffer, Headers, Method};

fn lines(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Head(line, _) => line.clone(),
            Event::Data(data) => format!("data {}", data.escape_ascii()),
            Event::Trailers(trailers) => format!("trailers {trailers:?}"),
            Event::End => "end".to_owned(),
        })
        .collect()
}

#[test]
fn pipelined_requests_come_out_in_order() {
    let bytes = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x\r\nf\r\n0\r\nSum: 1\r\n\r\n\
        POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n\
        GET /5 HTTP/1.0\r\n\r\n\
        GET /6 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let (events, error) = requests([&bytes[..]], Limits::default());
    assert_eq!(error, None);
    assert_eq!(
        lines(&events),
        [
            "GET /1 HTTP/1.1 None true",
            "POST /2 HTTP/1.1 Length(3) true",
            "data abc",
            "end",
            "POST /3 HTTP/1.1 Chunked true",
            "data def",
            "trailers {\"Sum\": \"1\"}",
            "end",
            "POST /4 HTTP/1.1 Length(0) false",
            "end",
            "GET /5 HTTP/1.0 None false",
            "GET /6 HTTP/1.0 None true",
        ]
    );
}

#[test]
fn responses_end_by_status_method_and_fields() {
    let of = |bytes: &str, method: Method| {
        let (events, error) = responses([bytes.as_bytes()], &method, Limits::default());
        assert_eq!(error, None, "{bytes}");
        lines(&events).join("; ")
    };
    let get = |bytes: &str| of(bytes, Method::GET);
    assert_eq!(
        get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"),
        "200 OK HTTP/1.1 Length(2) true; data ab; end"
    );
    assert_eq!(get("HTTP/1.1 200 OK\r\n\r\nab"), "200 OK HTTP/1.1 UntilClose false; data ab; end");
    assert_eq!(get("HTTP/1.1 204 No Content\r\n\r\n"), "204 No Content HTTP/1.1 None true");
    assert_eq!(
        get("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        "304 Not Modified HTTP/1.1 None true"
    );
    assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", Method::HEAD), "200 OK HTTP/1.1 None true");
    assert_eq!(of("HTTP/1.1 200 OK\r\n\r\n", Method::CONNECT), "200 OK HTTP/1.1 None true");
    assert_eq!(
        get(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        ),
        "100 Continue HTTP/1.1 interim; 200 OK HTTP/1.1 Chunked true; data a; end"
    );
}

#[test]
fn an_answer_to_head_is_for_one_response_and_survives_interim_ones() {
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.request_method(&Method::HEAD);
    let mut input = Buffer::new();
    input.fill_from(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
    assert!(matches!(decoder.decode(&mut input), Ok(Some(ResponseEvent::Informational(_)))));
    assert!(
        matches!(decoder.decode(&mut input), Ok(Some(ResponseEvent::Head(_, info))) if info.framing == Framing::None)
    );
    input.fill_from(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
    assert!(
        matches!(decoder.decode(&mut input), Ok(Some(ResponseEvent::Head(_, info))) if info.framing == Framing::Length(1))
    );
}

#[test]
fn switching_protocols_is_final() {
    let mut decoder = ResponseDecoder::new(Limits::default());
    let mut input = Buffer::new();
    input.fill_from(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\x01\x02");
    assert!(
        matches!(decoder.decode(&mut input), Ok(Some(ResponseEvent::Head(_, info))) if info.framing == Framing::None)
    );
    assert_eq!(input.data(), b"\x01\x02");
}

#[test]
fn a_connection_that_ends_within_a_message_cut_it_short() {
    let cut = |bytes: &str| requests([bytes.as_bytes()], Limits::default()).1;
    assert_eq!(cut(""), None);
    assert_eq!(cut("GET / HT"), Some(DecodeError::HeadCutShort));
    assert_eq!(
        cut("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na"),
        Some(DecodeError::BodyCutShort)
    );
    assert_eq!(
        cut("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"),
        Some(DecodeError::BodyCutShort)
    );
    let answer =
        responses([&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"[..]], &Method::GET, Limits::default());
    assert_eq!(answer.1, Some(DecodeError::BodyCutShort));
}

#[test]
fn a_decoder_is_idle_between_messages_only() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut input = Buffer::new();
    assert!(decoder.is_idle());
    input.fill_from(b"POST / HTTP/1.1\r\n");
    assert!(matches!(decoder.decode(&mut input), Ok(None)));
    assert!(!decoder.is_idle());
    input.fill_from(b"Host: a\r\nContent-Length: 1\r\n\r\n");
    assert!(matches!(decoder.decode(&mut input), Ok(Some(RequestEvent::Head(..)))));
    assert!(!decoder.is_idle());
    input.fill_from(b"x");
    assert!(matches!(decoder.decode(&mut input), Ok(Some(RequestEvent::Data(b"x")))));
    assert!(matches!(decoder.decode(&mut input), Ok(Some(RequestEvent::End))));
    assert!(decoder.is_idle());
}

#[test]
fn nothing_behind_an_error_is_read() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut input = Buffer::new();
    input.fill_from(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(decoder.decode(&mut input).err(), Some(DecodeError::MissingHost));
    input.clear();
    input.fill_from(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(decoder.decode(&mut input).err(), Some(DecodeError::MissingHost));
    assert_eq!(decoder.finish().err(), Some(DecodeError::MissingHost));
}

#[test]
fn a_client_that_waits_for_continue_is_known() {
    let expects = |bytes: &str| {
        let mut input = Buffer::new();
        input.fill_from(bytes.as_bytes());
        match RequestDecoder::new(Limits::default()).decode(&mut input) {
            Ok(Some(RequestEvent::Head(_, info))) => info.expects_continue,
            other => panic!("no head: {other:?}"),
        }
    };
    assert!(expects("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"));
    assert!(!expects("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"));
    assert!(!expects("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"));
    assert!(!expects("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"));
}

#[test]
fn received_fields_keep_their_bytes() {
    let (events, _) = requests(
        [&b"GET / HTTP/1.1\r\nHost:a\r\nX-Odd: \t b\xff \t\r\nEmpty:\r\n\r\n"[..]],
        Limits::default(),
    );
    let [Event::Head(_, headers)] = &events[..] else { panic!("one head: {events:?}") };
    assert_eq!(headers.get("host"), Some("a"));
    assert_eq!(headers.get_bytes("x-odd"), Some(&b"b\xff"[..]));
    assert_eq!(headers.get("empty"), Some(""));
    assert_eq!(headers.wire_bytes(), b"Host:a\r\nX-Odd: \t b\xff \t\r\nEmpty:\r\n");
    let mut changed: Headers = headers.clone();
    assert!(changed.remove("x-odd"));
    assert_eq!(changed.wire_bytes(), b"Host:a\r\nEmpty:\r\n");
}
