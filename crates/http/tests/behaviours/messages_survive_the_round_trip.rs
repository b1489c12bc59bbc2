//! An encoded message is decoded as the same message, with any fields, body, chunks and trailers.

use crate::support::{Event, requests, responses};
use anywire_http::h1::{Framing, Limits, encode};
use anywire_http::{Headers, Method, StatusCode, Version};
use proptest::prelude::*;

fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let value = prop::collection::vec(prop_oneof![8 => 0x21..0x7fu8, 1 => Just(b' '), 1 => 0x80u8..], 0..30);
    // The prefix keeps clear of the names that the encoder writes itself.
    prop::collection::vec(("x-[a-zA-Z0-9!#$%&'*+.^_`|~-]{0,20}", value), 0..12)
}

fn headers(fields: &[(String, Vec<u8>)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value).expect("the strategy makes valid fields");
    }
    headers
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..5)
}

fn encode_body(out: &mut Vec<u8>, framing: Framing, chunks: &[Vec<u8>], trailers: &Headers) {
    for chunk in chunks {
        match framing {
            Framing::Chunked => encode::chunk(out, chunk),
            _ => out.extend_from_slice(chunk),
        }
    }
    if framing == Framing::Chunked {
        encode::last_chunk(out, Some(trailers));
    }
}

/// The events of a body: data if there is any, trailers if there are any, the end.
fn body_events(framing: Framing, chunks: &[Vec<u8>], trailers: &Headers) -> Vec<Event> {
    if framing == Framing::None {
        return Vec::new();
    }
    let data = chunks.concat();
    let mut events = Vec::new();
    if !data.is_empty() {
        events.push(Event::Data(data));
    }
    if framing == Framing::Chunked && !trailers.is_empty() {
        events.push(Event::Trailers(trailers.clone()));
    }
    events.push(Event::End);
    events
}

proptest! {
    #[test]
    fn of_requests(
        method in "(GET|POST|PUT|PATCH|X-[A-Z]{1,12})",
        target in "/[a-zA-Z0-9/._~%?&=-]{0,40}",
        fields in fields(),
        chunks in bodies(),
        trailers in fields(),
        framing in prop::sample::select(&["none", "length", "chunked"][..]),
    ) {
        let (headers, trailers) = (headers(&fields), headers(&trailers));
        let framing = match framing {
            "none" => Framing::None,
            "length" => Framing::Length(chunks.concat().len() as u64),
            _ => Framing::Chunked,
        };
        let chunks = if framing == Framing::None { Vec::new() } else { chunks };
        let method = Method::from_bytes(method.as_bytes()).expect("a token");
        let mut out = Vec::new();
        for _ in 0..2 {
            encode::request_head(&mut out, &method, &target, "a.example:80", &headers, framing).expect("valid");
            encode_body(&mut out, framing, &chunks, &trailers);
        }
        let (events, error) = requests([&out[..]], Limits::default());
        prop_assert_eq!(error, None);
        let body = body_events(framing, &chunks, &trailers);
        prop_assert_eq!(events.len(), 2 * (1 + body.len()));
        for message in events.chunks(1 + body.len()) {
            let Event::Head(line, decoded) = &message[0] else { panic!("no head: {message:?}") };
            prop_assert_eq!(line, &format!("{method} {target} HTTP/1.1 {framing:?} true"));
            let mut decoded = decoded.clone();
            prop_assert_eq!(decoded.get("host"), Some("a.example:80"));
            for name in ["host", "content-length", "transfer-encoding"] {
                decoded.remove(name);
            }
            prop_assert_eq!(&decoded, &headers);
            prop_assert_eq!(&message[1..], &body[..]);
        }
    }

    #[test]
    fn of_responses(
        status in 200u16..600,
        fields in fields(),
        chunks in bodies(),
        trailers in fields(),
        chunked in any::<bool>(),
        old in any::<bool>(),
        keep_alive in any::<bool>(),
    ) {
        let (headers, trailers) = (headers(&fields), headers(&trailers));
        let status = StatusCode::from_u16(status).expect("three digits");
        // Whatever its maker gives it, its body is empty.
        let chunks = if status == StatusCode::RESET_CONTENT { Vec::new() } else { chunks };
        let mut out = Vec::new();
        let commitment = encode::response_head(&mut out, &encode::FramedHead {
            status,
            headers: &headers,
            framing: if chunked { Framing::Chunked } else { Framing::Length(chunks.concat().len() as u64) },
            stated_length: None,
            version: if old { Version::HTTP_10 } else { Version::HTTP_11 },
            keep_alive,
            answers_head: false,
            date: Some(b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        });
        if commitment.framing != Framing::None {
            encode_body(&mut out, commitment.framing, &chunks, &trailers);
        }
        let (events, error) = responses([&out[..]], &Method::GET, Limits::default());
        prop_assert_eq!(error, None);
        let Some((Event::Head(line, decoded), body)) = events.split_first() else { panic!("no head: {events:?}") };
        prop_assert_eq!(
            line,
            &format!("{status} HTTP/1.1 {:?} {}", commitment.framing, commitment.keep_alive)
        );
        let mut decoded = decoded.clone();
        prop_assert!(decoded.remove("date"));
        for name in ["connection", "content-length", "transfer-encoding"] {
            decoded.remove(name);
        }
        prop_assert_eq!(&decoded, &headers);
        prop_assert_eq!(body, &body_events(commitment.framing, &chunks, &trailers)[..]);
    }
}
