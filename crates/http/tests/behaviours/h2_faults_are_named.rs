//! A stream that ends for a fault of the peer comes with the rule that was broken, and the end of a connection with what the
//! peer says of it.

use anywire_http::h2::{Engine, Event, GoAway, Limits, MessageError, MessageFault};
use anywire_http::{Buffer, RequestHead};

use crate::support::h2::*;

/// What is wrong with what a server sends on stream 1, where a client asks.
#[track_caller]
fn named(bytes: &[&[u8]], expected: MessageFault) {
    let mut client = End::client(Limits::default());
    let mut head = RequestHead::new(anywire_http::Method::GET, "/").expect("a good target");
    head.set_origin("http", "a").expect("a good origin");
    client.engine.open(&head, None, true, &mut client.out).expect("a slot");
    client.events(&bytes.concat()).expect("other streams live");
    assert_eq!(client.why, Some(MessageError::Malformed(expected)));
    assert_eq!(client.resets(), [(1, expected.code())]);
}

#[test]
fn a_fault_of_a_stream_has_a_name() {
    let head =
        |fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS, 1, &[b"\x88", &literals(fields)[..]].concat());
    let plain = head(&[]);
    let data = |flags, bytes: &[u8]| frame(DATA, flags, 1, bytes);
    named(&[&data(0, b"x")], MessageFault::DataBeforeHead);
    named(&[&head(&[("content-length", "3")]), &data(0, b"four")], MessageFault::BodyTooLong);
    named(&[&head(&[("content-length", "3")]), &data(END_STREAM, b"x")], MessageFault::BodyTooShort);
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &literals(&[("x", "1")]));
    named(&[&head(&[("content-length", "3")]), &trailers], MessageFault::BodyTooShort);
    let too_much: Vec<_> = (0..5).flat_map(|_| data(0, &[0; 16 << 10])).collect();
    named(&[&plain, &too_much], MessageFault::WindowExceeded);
    named(&[&frame(WINDOW_UPDATE, 0, 1, &[0; 4])], MessageFault::NoIncrement);
    named(&[&frame(WINDOW_UPDATE, 0, 1, &[0x7f, 255, 255, 255])], MessageFault::WindowOverflow);
    named(&[&frame(PRIORITY, 0, 1, &[0; 4])], MessageFault::PriorityLength);
}

#[test]
fn a_frame_behind_the_end_of_its_stream_has_a_name() {
    let mut server = End::server(Limits::default());
    server.events(&request(1, true)).expect("a good request");
    for (bytes, expected) in [
        (frame(DATA, 0, 1, b"x"), Some(MessageFault::DataBehindEnd)),
        (request(3, true), None),
        (request(3, true), Some(MessageFault::HeadersBehindEnd)),
    ] {
        server.why = None;
        server.events(&bytes).expect("other streams live");
        assert_eq!(server.why, expected.map(MessageError::Malformed));
    }
}

/// The `GOAWAY` with this text behind its code.
fn said(text: &[u8]) -> GoAway {
    let now = clock();
    let mut out = Vec::new();
    let mut engine = Engine::client(Limits::default(), now, &mut out);
    let mut input = Buffer::new();
    input.fill_from(&frame(SETTINGS, 0, 0, &[]));
    input.fill_from(&frame(GOAWAY, 0, 0, &[b"\0\0\0\x07\0\0\0\x0b", text].concat()));
    match engine.receive(now, &mut input, &mut out) {
        Ok(Some(Event::GoAway(said))) => said,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_peer_says_as_it_leaves_is_kept() {
    let plain = said(b"");
    assert_eq!((plain.last.get(), &*plain.text), (7, ""));
    assert_eq!(plain.to_string(), "ENHANCE_YOUR_CALM");
    assert_eq!(said(b"too_many_pings").to_string(), "ENHANCE_YOUR_CALM (\"too_many_pings\")");
    // Nothing in it acts on a terminal, and bytes that are no text do no harm.
    let odd = said(b"\x1b[31m\xff\nsecond");
    assert_eq!(odd.to_string(), "ENHANCE_YOUR_CALM (\"\\u{1b}[31m\u{fffd}\\nsecond\")");
    assert_eq!(said(&[b'x'; 10_000]).text.len(), 256);
}
