//! What an engine sends keeps the rules to which it holds its peer, whatever its caller gives it: names are in lower case,
//! fields of a connection of HTTP/1 are left out, frames fit, and what answers a frame does so once.

use anywire_http::h2::{Engine, Event, Limits, ResponseParts};
use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// Fields that HTTP/1 has for a connection, and what HTTP/2 leaves of each.
const OF_A_CONNECTION: [(&str, &str); 7] = [
    ("Connection", "close, x-hop"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "close"),
    ("Transfer-Encoding", "chunked"),
    ("Upgrade", "h2c"),
    ("TE", "gzip"),
    ("X-Kept", "Yes"),
];

fn with_all(headers: &mut Headers) {
    for (name, value) in OF_A_CONNECTION {
        headers.append(name, value).expect("a field");
    }
}

fn names(headers: &Headers) -> Vec<&str> {
    headers.iter().map(|(name, _)| name).collect()
}

#[test]
fn heads_keep_the_rules_for_fields() {
    let mut client = End::client(Limits::default());
    let mut server = End::server(Limits::default());
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    with_all(head.headers_mut());
    head.headers_mut().append("Host", "b").expect("a field");
    client.engine.open(&head, None, true, &mut client.out).expect("a slot");
    server.input.fill_from(&client.out);
    let request = server.engine.receive(server.now, &mut server.input, &mut server.out).expect("good");
    let Some(Event::Request { id, head, .. }) = request else { panic!("{request:?}") };
    assert_eq!((head.host(), names(head.headers())), (Some("a"), vec!["x-kept"]));

    let mut fields = Headers::new();
    with_all(&mut fields);
    server.out.clear();
    let parts = ResponseParts::new(StatusCode::OK, &fields);
    server.engine.respond(id, &parts, false, &mut server.out).expect("open");
    let mut trailers = Headers::new();
    with_all(&mut trailers);
    server.engine.send_trailers(id, &trailers, &mut server.out).expect("open");
    client.input.fill_from(&server.out);
    client.out.clear();
    let response = client.engine.receive(client.now, &mut client.input, &mut client.out).expect("good");
    let Some(Event::Response { head, .. }) = response else { panic!("{response:?}") };
    assert_eq!(names(head.headers()), ["x-kept"]);
    let last = client.engine.receive(client.now, &mut client.input, &mut client.out).expect("good");
    let Some(Event::Trailers { fields, .. }) = last else { panic!("{last:?}") };
    assert_eq!(names(&fields), ["x-kept"]);
}

#[test]
fn heads_of_any_size_fit_their_frames() {
    let mut client = End::client(Limits::default());
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    for number in 0..5 {
        head.headers_mut().append(format!("x-{number}"), "~".repeat(9_000)).expect("a field");
    }
    client.engine.open(&head, None, true, &mut client.out).expect("a slot");
    let sent = frames(&client.out);
    let kinds: Vec<_> = sent.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    let last = kinds.len() - 1;
    assert!(last > 1, "{kinds:?}");
    assert_eq!(kinds[0], (HEADERS, END_STREAM, 1));
    assert!(kinds[1..last].iter().all(|kind| *kind == (CONTINUATION, 0, 1)), "{kinds:?}");
    assert_eq!(kinds[last], (CONTINUATION, END_HEADERS, 1));
    assert!(sent.iter().all(|(.., payload)| payload.len() <= 16_384));
}

#[test]
fn a_frame_is_answered_once_and_only_if_it_asks() {
    let mut server = End::server(Limits::default());
    let said = |server: &mut End, bytes: &[u8]| {
        server.events(bytes).expect("good");
        frames(&std::mem::take(&mut server.out))
    };
    assert_eq!(said(&mut server, &frame(PING, 0, 0, b"likewise")), [(PING, ACK, 0, b"likewise".to_vec())]);
    assert_eq!(said(&mut server, &frame(PING, ACK, 0, b"likewise")), []);
    // Flags, settings and kinds without a meaning have none (RFC 9113 sections 4.1 and 5.5).
    assert_eq!(said(&mut server, &frame(PING, 0xfe, 0, b"likewise")), [(PING, ACK, 0, b"likewise".to_vec())]);
    let unknown = frame(SETTINGS, 0xfe, 0, &[0xff, 0xff, 0, 0, 0, 1, 0, 3, 0, 0, 0, 9]);
    assert_eq!(said(&mut server, &unknown), [(SETTINGS, ACK, 0, Vec::new())]);
    assert_eq!(said(&mut server, &frame(SETTINGS, ACK, 0, &[])), []);
    assert_eq!(said(&mut server, &frame(0xfa, 0xff, 77, b"unknown")), []);
    // The bit before a stream's number, too.
    let mut reserved = request(1, false);
    reserved[5] |= 0x80;
    assert_eq!(server.events(&reserved), Ok(vec!["1 GET http://a/".into()]));
    // A reset is not answered by one (section 5.4.2), and nothing is sent on the stream any more (section 6.4).
    let id = server.newest.expect("just begun");
    server.engine.wants_to_send(id, true);
    assert_eq!(said(&mut server, &frame(RST_STREAM, 0, 1, &0xdead_beef_u32.to_be_bytes())), []);
    server.engine.data_head(id, 1, true, &mut server.out);
    server.engine.reset(id, anywire_http::h2::Code::CANCEL, &mut server.out);
    assert!(server.engine.next_to_send().is_none() && server.out.is_empty());
}

/// However long they are.
#[test]
fn names_are_in_lower_case() {
    for length in [1, 63, 64, 65, 127, 128, 1000] {
        let (mut client, mut server) = (End::client(Limits::default()), End::server(Limits::default()));
        let mut head = RequestHead::new(Method::GET, "/").expect("a target");
        head.set_origin("http", "a").expect("an origin");
        let name = "X".repeat(length);
        head.headers_mut().append(&name, "1").expect("a field");
        client.engine.open(&head, None, true, &mut client.out).expect("a slot");
        server.input.fill_from(&client.out);
        let request = server.engine.receive(server.now, &mut server.input, &mut server.out).expect("good");
        let Some(Event::Request { head, .. }) = request else { panic!("{request:?}") };
        assert_eq!(names(head.headers()), [name.to_ascii_lowercase()]);
    }
}

#[test]
fn settings_come_first_and_are_acknowledged() {
    let now = clock();
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    let mut client = Engine::client(Limits::default(), now, &mut from_client);
    let mut server = Engine::server(Limits::default(), now, &mut from_server);
    let settings = from_client.strip_prefix(PREFACE).expect("a client's first bytes");
    assert_eq!(frames(settings)[0].0, SETTINGS);
    assert_eq!(frames(&from_server)[0].0, SETTINGS);
    // A client refuses push, and a server does not speak of it (section 6.5.2).
    let push = |frames: &[(u8, u8, u32, Vec<u8>)]| -> Vec<Vec<u8>> {
        frames[0].3.chunks(6).filter(|setting| setting[..2] == [0, 2]).map(<[u8]>::to_vec).collect()
    };
    assert_eq!(push(&frames(settings)), [[0, 2, 0, 0, 0, 0]]);
    assert_eq!(push(&frames(&from_server)), Vec::<Vec<u8>>::new());
    for (engine, bytes) in [(&mut client, &from_server), (&mut server, &from_client)] {
        let (mut input, mut out) = (Buffer::new(), Vec::new());
        input.fill_from(bytes);
        assert!(engine.receive(now, &mut input, &mut out).expect("good").is_none());
        assert_eq!(frames(&out), [(SETTINGS, ACK, 0, Vec::new())]);
    }
}

#[test]
fn windows_that_shrink_below_nothing_are_heeded() {
    let mut server = End::server(Limits::default());
    server.events(&request(1, true)).expect("good");
    let id = server.newest.expect("just begun");
    let headers = Headers::new();
    server
        .engine
        .respond(id, &ResponseParts::new(StatusCode::OK, &headers), false, &mut server.out)
        .expect("open");
    server.engine.wants_to_send(id, true);
    let send = |server: &mut End| {
        server.engine.next_to_send().map(|(id, room)| {
            server.engine.data_head(id, room, false, &mut server.out);
            room
        })
    };
    assert_eq!(send(&mut server), Some(16_384));
    // 16,384 bytes were sent, and 100 are allowed (section 6.9.2).
    server.events(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100])).expect("good");
    assert_eq!(send(&mut server), None);
    let opens = |by: u32| frame(WINDOW_UPDATE, 0, 1, &by.to_be_bytes());
    server.events(&opens(16_284)).expect("good");
    assert_eq!(send(&mut server), None);
    server.events(&opens(7)).expect("good");
    assert_eq!((send(&mut server), send(&mut server)), (Some(7), None));
    // The values of a frame count in their order (section 6.5.3).
    server.events(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0, 0, 4, 0, 0, 0, 105])).expect("good");
    assert_eq!(send(&mut server), Some(5));
}
