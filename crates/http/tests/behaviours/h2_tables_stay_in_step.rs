//! Each field block counts for the tables of HPACK, whatever becomes of it: behind a block that was refused, that came late, or
//! whose stream is closed, the next one is still read as its sender means it (RFC 9113 sections 4.3, 5.1, 5.1.2 and 6.8).

use anywire_http::h2::{Code, Engine, EngineLimits, Event, Limits, ResponseParts};
use anywire_http::{HeadLimits, Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// GET http://a/, which puts nothing into the table.
const ASK: &[u8] = b"\x82\x86\x84\x01\x01a";

/// Puts `x: 1` into the table.
const INSERT: &[u8] = b"\x40\x01x\x011";

/// The newest entry of the table.
const NEWEST: &[u8] = b"\xbe";

/// Empties the table, and gives it its size again.
const EMPTY: &[u8] = b"\x20\x3f\xe1\x1f";

fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, block)
}

fn limits() -> EngineLimits {
    // A body, a head and trailers reach these soon.
    let head = HeadLimits { bytes: 300, target_bytes: 20, fields: 3, trailer_bytes: 100, trailer_fields: 2 };
    EngineLimits { head, connection: Limits { streams: 3, ..Limits::default() } }
}

/// What comes, and what has come of it.
type Case = (&'static str, Vec<u8>, &'static str);

/// The value of `x` in the next head.
fn next(end: &mut End, bytes: &[u8]) -> Option<String> {
    end.input.fill_from(bytes);
    let event = end.engine.receive(end.now, &mut end.input, &mut end.out).expect("the tables are in step");
    match event.expect("a head") {
        Event::Request { head, .. } => head.headers().get("x").map(str::to_owned),
        Event::Response { head, .. } => head.headers().get("x").map(str::to_owned),
        other => panic!("{other:?}"),
    }
}

/// Blocks of a client. Streams 1 and 3 are open: the one was asked whole, the other has a body.
#[test]
fn of_a_server() {
    let large = literals(&[("y", &"v".repeat(100)), ("z", &"v".repeat(100))]);
    let long = literals(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", &"/p".repeat(20)),
        (":authority", "a"),
    ]);
    let x = literals(&[("y", "1")]);
    let whole = END_STREAM;
    let cases: Vec<Case> = vec![
        ("a request in order", headers(5, whole, &[ASK, INSERT].concat()), "5 GET http://a/ end"),
        ("malformed before it", headers(5, whole, &[&x[..], ASK, INSERT].concat()), "5 reset PROTOCOL_ERROR"),
        ("malformed behind it", headers(5, whole, &[ASK, INSERT, ASK].concat()), "5 reset PROTOCOL_ERROR"),
        ("without a method", headers(5, whole, INSERT), "5 reset PROTOCOL_ERROR"),
        ("too many bytes before it", headers(5, whole, &[ASK, &large, INSERT].concat()), "5 reset NO_ERROR"),
        (
            "too many fields before it",
            headers(5, whole, &[ASK, &x, &x, &x, &x, INSERT].concat()),
            "5 reset NO_ERROR",
        ),
        ("a long target", headers(5, whole, &[&long[..], INSERT].concat()), "5 reset NO_ERROR"),
        (
            "a length without a body",
            headers(5, whole, &[ASK, INSERT, b"\x0f\x0d\x011"].concat()),
            "5 reset PROTOCOL_ERROR",
        ),
        ("a stream that has ended", headers(1, whole, INSERT), "1 reset STREAM_CLOSED"),
        ("trailers", headers(3, whole, INSERT), "3 trailers {\"x\": \"1\"}"),
        ("trailers without an end", headers(3, 0, INSERT), "3 reset PROTOCOL_ERROR"),
        (
            "trailers with a pseudo-header field",
            headers(3, whole, &[ASK, INSERT].concat()),
            "3 reset PROTOCOL_ERROR",
        ),
        ("trailers of too many bytes", headers(3, whole, &[&large[..], INSERT].concat()), "3 reset NO_ERROR"),
        (
            "trailers of too many fields",
            headers(3, whole, &[&x[..], &x, &x, INSERT].concat()),
            "3 reset NO_ERROR",
        ),
        (
            "trailers behind a body that is too short",
            [
                headers(5, 0, &[ASK, b"\x0f\x0d\x012"].concat()),
                frame(DATA, 0, 5, b"1"),
                headers(5, whole, INSERT),
            ]
            .concat(),
            "5 reset PROTOCOL_ERROR",
        ),
        (
            "one stream too many",
            [headers(5, 0, ASK), headers(7, whole, &[ASK, INSERT].concat())].concat(),
            "7 reset REFUSED_STREAM",
        ),
        (
            "in several frames",
            [
                frame(HEADERS, END_STREAM, 1, &INSERT[..2]),
                frame(CONTINUATION, 0, 1, &[]),
                frame(CONTINUATION, END_HEADERS, 1, &INSERT[2..]),
            ]
            .concat(),
            "1 reset STREAM_CLOSED",
        ),
        (
            "with another size of the table",
            headers(1, whole, &[EMPTY, INSERT].concat()),
            "1 reset STREAM_CLOSED",
        ),
    ];
    for (name, bytes, what) in cases {
        println!("{name}");
        let mut server = End::server(limits());
        // An entry that is older.
        let first = headers(1, whole, &[ASK, b"\x40\x01x\x010"].concat());
        server.events(&[first, headers(3, 0, ASK)].concat()).expect("good");
        let events = server.events(&bytes).expect("the connection lives");
        assert_eq!(events.last().map(String::as_str), Some(what), "{name}");
        // Stream 1 ends, so that another one may be opened.
        server.events(&frame(RST_STREAM, 0, 1, &[0; 4])).expect("good");
        server.events(&frame(RST_STREAM, 0, 3, &[0; 4])).expect("good");
        assert_eq!(
            next(&mut server, &headers(9, whole, &[ASK, NEWEST].concat())).as_deref(),
            Some("1"),
            "{name}"
        );
    }
}

/// Blocks that came too late, or for streams that are not taken.
#[test]
fn of_a_server_that_has_reset_or_leaves() {
    let fits = |mut server: End, name: &str, bytes: Vec<u8>| {
        assert_eq!(server.events(&bytes), Ok(vec![]), "{name}");
        server
    };
    let trailers = headers(1, END_STREAM, INSERT);
    let mut reset = End::server(limits());
    reset.events(&headers(1, 0, ASK)).expect("good");
    reset.engine.reset(reset.newest.expect("open"), Code::CANCEL, &mut reset.out);
    let mut reset = fits(reset, "trailers of a stream that we have reset", trailers);
    assert_eq!(next(&mut reset, &headers(3, END_STREAM, &[ASK, NEWEST].concat())).as_deref(), Some("1"));

    // Too large for a stream whose response has begun, which cannot be answered any more.
    let large = literals(&[("y", &"v".repeat(100))]);
    let mut begun = End::server(limits());
    begun.events(&headers(1, 0, ASK)).expect("good");
    let fields = Headers::new();
    let parts = ResponseParts::new(StatusCode::OK, &fields);
    begun.engine.respond(begun.newest.expect("open"), &parts, false, &mut begun.out).expect("open");
    let events = begun.events(&headers(1, END_STREAM, &[&large, INSERT].concat()));
    assert_eq!(events, Ok(vec!["1 reset ENHANCE_YOUR_CALM".into()]));
    assert_eq!(next(&mut begun, &headers(3, END_STREAM, &[ASK, NEWEST].concat())).as_deref(), Some("1"));

    // Streams behind a GOAWAY are not taken, and those before it are, so that only trailers can follow.
    let mut leaves = End::server(limits());
    leaves.events(&headers(1, 0, ASK)).expect("good");
    leaves.engine.go_away(&mut leaves.out);
    let late = [ASK, INSERT].concat();
    let mut leaves = fits(leaves, "a request behind the last one", headers(3, END_STREAM, &late));
    let events = leaves.events(&headers(1, END_STREAM, NEWEST));
    assert_eq!(events, Ok(vec!["1 trailers {\"x\": \"1\"}".into()]));

    // Before our settings are known.
    let (now, mut out) = (clock(), Vec::new());
    let engine = Engine::server(limits(), now, &mut out);
    let mut early = End { engine, input: anywire_http::Buffer::new(), out, now, newest: None, why: None };
    let opened: Vec<u8> = [1, 3, 5].into_iter().flat_map(|stream| headers(stream, 0, ASK)).collect();
    early.events(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &opened].concat()).expect("good");
    let events = early.events(&headers(7, END_STREAM, &[ASK, INSERT].concat()));
    assert_eq!(events, Ok(vec!["7 reset REFUSED_STREAM".into()]));
    early.events(&frame(RST_STREAM, 0, 1, &[0; 4])).expect("good");
    assert_eq!(next(&mut early, &headers(9, END_STREAM, &[ASK, NEWEST].concat())).as_deref(), Some("1"));
}

/// Blocks of a server. Stream 1 waits for its response, and stream 3 has the head of one.
#[test]
fn of_a_client() {
    let large = literals(&[("y", &"v".repeat(100)), ("z", &"v".repeat(100))]);
    let x = literals(&[("y", "1")]);
    let ok = b"\x88".as_slice();
    let status = |status| literals(&[(":status", status)]);
    let whole = END_STREAM;
    let cases: Vec<Case> = vec![
        ("a response in order", headers(1, whole, &[ok, INSERT].concat()), "1 200 end"),
        ("an interim one", headers(1, 0, &[&status("103")[..], INSERT].concat()), "1 interim 103"),
        (
            "an interim one that ends",
            headers(1, whole, &[&status("103")[..], INSERT].concat()),
            "1 reset PROTOCOL_ERROR",
        ),
        (
            "a change of protocol",
            headers(1, 0, &[&status("101")[..], INSERT].concat()),
            "1 reset PROTOCOL_ERROR",
        ),
        ("without a status", headers(1, whole, INSERT), "1 reset PROTOCOL_ERROR"),
        ("malformed before it", headers(1, whole, &[ok, ok, INSERT].concat()), "1 reset PROTOCOL_ERROR"),
        ("malformed behind it", headers(1, whole, &[ok, INSERT, ok].concat()), "1 reset PROTOCOL_ERROR"),
        ("too many bytes before it", headers(1, whole, &[ok, &large, INSERT].concat()), "1 reset CANCEL"),
        (
            "too many fields before it",
            headers(1, whole, &[ok, &x, &x, &x, &x, INSERT].concat()),
            "1 reset CANCEL",
        ),
        (
            "a length without a body",
            headers(1, whole, &[ok, INSERT, b"\x0f\x0d\x011"].concat()),
            "1 reset PROTOCOL_ERROR",
        ),
        ("trailers", headers(3, whole, INSERT), "3 trailers {\"x\": \"1\"}"),
        ("trailers without an end", headers(3, 0, INSERT), "3 reset PROTOCOL_ERROR"),
        (
            "trailers with a pseudo-header field",
            headers(3, whole, &[ok, INSERT].concat()),
            "3 reset PROTOCOL_ERROR",
        ),
        (
            "trailers of too many bytes",
            headers(3, whole, &[&large[..], INSERT].concat()),
            "3 reset ENHANCE_YOUR_CALM",
        ),
        (
            "late for a stream that broke a rule",
            [headers(3, 0, ASK), headers(3, whole, INSERT)].concat(),
            "3 reset PROTOCOL_ERROR",
        ),
    ];
    let mut head = RequestHead::new(Method::POST, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    for (name, bytes, what) in cases {
        println!("{name}");
        let mut client = End::client(limits());
        for _ in 0..3 {
            client.engine.open(&head, None, false, &mut client.out).expect("a slot");
        }
        client.events(&headers(3, 0, &[ok, b"\x40\x01x\x010"].concat())).expect("good");
        let events = client.events(&bytes).expect("the connection lives");
        assert_eq!(events.last().map(String::as_str), Some(what), "{name}");
        assert_eq!(
            next(&mut client, &headers(5, whole, &[ok, NEWEST].concat())).as_deref(),
            Some("1"),
            "{name}"
        );
    }
    // Late for a call that was cancelled.
    let mut client = End::client(limits());
    let cancelled = client.engine.open(&head, None, false, &mut client.out).expect("a slot");
    client.engine.open(&head, None, false, &mut client.out).expect("a slot");
    client.engine.reset(cancelled, Code::CANCEL, &mut client.out);
    assert_eq!(client.events(&headers(1, whole, &[ok, INSERT].concat())), Ok(vec![]));
    assert_eq!(next(&mut client, &headers(3, whole, &[ok, NEWEST].concat())).as_deref(), Some("1"));
}

/// The other direction: the table that we encode with is at most as large as the peer says, and it is told of each change before
/// the next field (RFC 7541 sections 4.2 and 6.3).
#[test]
fn of_the_peers_size() {
    let settings = |bytes: u32| frame(SETTINGS, 0, 0, &[&[0, 1], &bytes.to_be_bytes()[..]].concat());
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    head.headers_mut().append("user-agent", "anywire").expect("a field");
    let mut fields = Headers::new();
    fields.append("server", "anywire").expect("a field");
    let parts = ResponseParts::new(StatusCode::OK, &fields);
    /// The block that an end sends next.
    type Next<'n> = Box<dyn FnMut(&mut End) -> Vec<u8> + 'n>;
    let block = |end: &mut End| frames(&std::mem::take(&mut end.out)).pop().expect("a frame").3;
    let mut stream = 1;
    let ends: [(&str, End, Next<'_>); 2] = [
        (
            "client",
            End::client(Limits::default()),
            Box::new(|client| {
                client.engine.open(&head, None, true, &mut client.out).expect("a slot");
                block(client)
            }),
        ),
        (
            "server",
            End::server(Limits::default()),
            Box::new(|server| {
                server.events(&headers(stream, END_STREAM, ASK)).expect("good");
                stream += 2;
                let id = server.newest.expect("open");
                server.engine.respond(id, &parts, true, &mut server.out).expect("open");
                block(server)
            }),
        ),
    ];
    for (role, mut end, mut next) in ends {
        let first = next(&mut end);
        let again = next(&mut end);
        assert!(again.len() < first.len(), "{role}: {first:02x?}, then {again:02x?}");
        // Nothing fits any more, and nothing is put in.
        end.events(&settings(0)).expect("good");
        end.out.clear();
        let smaller = next(&mut end);
        assert_eq!(smaller[0], 0x20, "{role}: {smaller:02x?}");
        let after = next(&mut end);
        assert_eq!(after, smaller[1..], "{role}: as a literal each time");
        // Smaller and larger again between two blocks: both are told.
        for bytes in [100, 0, 4096] {
            end.events(&settings(bytes)).expect("good");
        }
        end.out.clear();
        let larger = next(&mut end);
        assert!(larger.starts_with(&[0x20, 0x3f, 0xe1, 0x1f]), "{role}: {larger:02x?}");
        assert_eq!(next(&mut end), again, "{role}");
        // More than we use is no change.
        end.events(&settings(1 << 20)).expect("good");
        end.out.clear();
        assert_eq!(next(&mut end), again, "{role}");
        for bytes in [100, 4096] {
            end.events(&settings(bytes)).expect("good");
        }
        end.out.clear();
        let both = next(&mut end);
        assert!(both.starts_with(&[0x3f, 100 - 31, 0x3f, 0xe1, 0x1f]), "{role}: {both:02x?}");
        // In one frame as in several: the values count one after the other (RFC 9113 section 6.5.3).
        assert_eq!(next(&mut end), again, "{role}");
        let both = [&[0, 1, 0, 0, 0, 0], &[0, 1, 0, 0, 0x10, 0][..]].concat();
        end.events(&frame(SETTINGS, 0, 0, &both)).expect("good");
        end.out.clear();
        let larger = next(&mut end);
        assert!(larger.starts_with(&[0x20, 0x3f, 0xe1, 0x1f]), "{role}: {larger:02x?}");
    }
}
