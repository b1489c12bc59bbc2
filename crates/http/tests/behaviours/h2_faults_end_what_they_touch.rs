//! A fault of the peer ends its stream where the RFC lets the others live, and the connection where it does not. Each case
//! names the section of RFC 9113 that it is about.

use anywire_http::h2::{Code, Error, FrameFault, Limits, MessageError, MessageFault, Rate, ResponseParts};
use anywire_http::{Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// A request with these fields instead of the usual ones.
fn fields(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &literals(fields))
}

/// Name and value of a field.
type Line<'a> = (&'a str, &'a str);

const USUAL: [Line<'_>; 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&USUAL[..], more].concat()
}

#[test]
fn a_malformed_request_ends_its_stream() {
    use MessageFault::*;

    let cases: &[(&str, Vec<Line<'_>>, MessageFault)] = &[
        ("8.2.1 upper case", with(&[("X-A", "1")]), Field),
        ("8.2.1 space in a name", with(&[("x a", "1")]), Field),
        ("8.2.1 empty name", with(&[("", "1")]), Field),
        ("8.2.1 colon in a name", with(&[("x:a", "1")]), Field),
        ("8.2.1 no ASCII in a name", with(&[("x\u{ff}", "1")]), Field),
        ("8.2.1 line break in a value", with(&[("x", "1\r\ny: 2")]), Field),
        ("8.2.1 NUL in a value", with(&[("x", "1\0")]), Field),
        ("8.2.1 white space around a value", with(&[("x", " 1")]), Field),
        ("8.2.2 connection", with(&[("connection", "close")]), ConnectionField),
        ("8.2.2 keep-alive", with(&[("keep-alive", "1")]), ConnectionField),
        ("8.2.2 proxy-connection", with(&[("proxy-connection", "close")]), ConnectionField),
        ("8.2.2 transfer-encoding", with(&[("transfer-encoding", "chunked")]), ConnectionField),
        ("8.2.2 upgrade", with(&[("upgrade", "x")]), ConnectionField),
        ("8.2.2 te", with(&[("te", "gzip")]), Te),
        ("8.3 behind a field", with(&[("x", "1"), (":path", "/")]), PseudoBehindOthers),
        ("8.3 unknown", with(&[(":x", "1")]), RequestPseudo),
        ("8.3 of a response", with(&[(":status", "200")]), RequestPseudo),
        ("8.3.1 twice", with(&[(":path", "/")]), RequestPseudo),
        ("8.3.1 twice, the first one empty", [&[(":path", "")], &USUAL[..]].concat(), RequestPseudo),
        (
            "8.3.1 twice, both empty",
            [&[(":authority", ""), (":authority", "")], &USUAL[..3]].concat(),
            RequestPseudo,
        ),
        ("8.3.1 no method", USUAL[1..].to_vec(), Target),
        ("8.3.1 no path", vec![USUAL[0], USUAL[1], USUAL[3]], Target),
        ("8.3.1 no scheme", vec![USUAL[0], USUAL[2], USUAL[3]], Target),
        ("8.3.1 empty path", vec![USUAL[0], USUAL[1], (":path", ""), USUAL[3]], Target),
        ("8.3.1 path without a slash", vec![USUAL[0], USUAL[1], (":path", "x"), USUAL[3]], Target),
        ("8.3.1 white space in a path", vec![USUAL[0], USUAL[1], (":path", "/a b"), USUAL[3]], Target),
        ("8.3.1 a fragment behind a path", vec![USUAL[0], USUAL[1], (":path", "/a#b"), USUAL[3]], Target),
        ("8.3.1 a fragment behind a query", vec![USUAL[0], USUAL[1], (":path", "/a?b#c"), USUAL[3]], Target),
        ("8.3.1 star of another method", vec![USUAL[0], USUAL[1], (":path", "*"), USUAL[3]], Target),
        ("8.3.1 no authority", USUAL[..3].to_vec(), Host),
        ("8.3.1 a user", vec![USUAL[0], USUAL[1], USUAL[2], (":authority", "u@a")], Authority),
        ("8.3.1 no authority, and an empty host", [&USUAL[..3], &[("host", "")]].concat(), Host),
        ("8.3.1 another host", with(&[("host", "b")]), Host),
        ("8.3.1 two hosts", with(&[("host", "a"), ("host", "a")]), Host),
        ("8.1.1 a length without a body", with(&[("content-length", "1")]), NoBody),
        ("8.1.1 two lengths", with(&[("content-length", "0"), ("content-length", "1")]), TwoLengths),
        // RFC 9110 section 8.6, as over HTTP/1.
        (
            "8.1.1 the same length twice",
            with(&[("content-length", "0"), ("content-length", "0")]),
            TwoLengths,
        ),
        ("8.1.1 no number", with(&[("content-length", "+0")]), Length),
        ("8.5 CONNECT with a path", vec![(":method", "CONNECT"), USUAL[2], (":authority", "a:1")], Target),
        (
            "8.5 CONNECT with an empty path",
            vec![(":method", "CONNECT"), (":path", ""), (":authority", "a:1")],
            Target,
        ),
        (
            "8.5 CONNECT with an empty scheme",
            vec![(":method", "CONNECT"), (":scheme", ""), (":authority", "a:1")],
            Target,
        ),
        ("8.5 CONNECT without a port", vec![(":method", "CONNECT"), (":authority", "a")], Target),
        ("8.3.1 empty scheme", vec![USUAL[0], (":scheme", ""), USUAL[2], USUAL[3]], Target),
        (
            "RFC 8441 not allowed",
            [&[(":method", "CONNECT"), (":protocol", "x")], &USUAL[1..]].concat(),
            Protocol,
        ),
    ];
    let mut server = End::server(Limits::default());
    for (at, (name, case, fault)) in cases.iter().enumerate() {
        let stream = at as u32 * 4 + 1;
        let told = format!("{stream} reset PROTOCOL_ERROR");
        assert_eq!(server.events(&fields(stream, case)), Ok(vec![told]), "{name}");
        assert_eq!(server.resets(), [(stream, Code::PROTOCOL_ERROR)], "{name}");
        assert_eq!(server.why, Some(MessageError::Malformed(*fault)), "{name}");
        let next = server.events(&request(stream + 2, true)).expect("other streams live");
        assert_eq!(next, [format!("{} GET http://a/ end", stream + 2)], "{name}");
    }
}

/// No pseudo-header field holds what no field may hold, or what changes the meaning of others that are joined with it (RFC 9113
/// sections 8.2.1 and 10.3).
#[test]
fn pseudo_header_fields_hold_what_they_are_for() {
    let bad = ["\r\nx: y", "\n", "\r", "\0", " ", "\t", "\u{7f}", "\u{e4}"];
    let fields = [(":method", "CONNECT"), (":protocol", "websocket"), USUAL[1], USUAL[2], USUAL[3]];
    let mut cases = vec![];
    for (at, (name, value)) in fields.iter().enumerate() {
        // A path may hold what is no ASCII, as over HTTP/1.
        for bad in bad.iter().filter(|bad| *name != ":path" || bad.is_ascii()) {
            let values = [format!("{value}{bad}"), format!("{bad}{value}"), format!("a{bad}b")];
            cases.extend(values.map(|value| (at, value)));
        }
    }
    cases.extend(
        [
            (2, "http://evil/?"),
            (2, "http:"),
            (2, "1http"),
            (2, "-"),
            (1, ""),
            (1, "a/b/c"),
            (1, "a,b"),
            (1, "websocket:"),
            (3, "http://evil/"),
            (4, "a/b"),
            (4, "a?b"),
            (4, "a#b"),
        ]
        .map(|(at, value)| (at, value.to_owned())),
    );
    let resets = Rate { burst: 1000, per_second: 0 };
    let limits = Limits { extended_connect: true, resets, ..Limits::default() };
    let mut server = End::server(limits);
    let mut stream = 1;
    for (at, value) in cases {
        let mut fields_of_case = fields;
        fields_of_case[at].1 = &value;
        let events = server.events(&self::fields(stream, &fields_of_case));
        let (name, _) = fields[at];
        assert_eq!(events, Ok(vec![format!("{stream} reset PROTOCOL_ERROR")]), "{name} {value:?}");
        stream += 2;
    }
    let good = server.events(&self::fields(stream, &fields));
    assert_eq!(good, Ok(vec![format!("{stream} CONNECT http://a/ end")]));
    // Of a response.
    let mut client = End::client(Limits::default());
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    for status in ["", "20", "2000", "2 0", "20\0", "099", "-20", "abc"] {
        let id = client.engine.open(&head, None, true, &mut client.out).expect("a slot").get();
        let events = client.events(&frame(HEADERS, END_HEADERS, id, &literals(&[(":status", status)])));
        assert_eq!(events, Ok(vec![format!("{id} reset PROTOCOL_ERROR")]), "{status:?}");
    }
}

#[test]
fn a_request_in_order_is_taken() {
    let limits = Limits { extended_connect: true, ..Limits::default() };
    let mut server = End::server(limits);
    for (at, (case, text)) in [
        (with(&[("host", "A"), ("te", "trailers"), ("content-length", "0")]), "GET http://a/"),
        (vec![(":method", "OPTIONS"), (":scheme", "https"), (":path", "*"), USUAL[3]], "OPTIONS *"),
        (vec![(":method", "CONNECT"), (":authority", "a:1")], "CONNECT a:1"),
        ([&[(":method", "CONNECT"), (":protocol", "x")], &USUAL[1..]].concat(), "CONNECT http://a/"),
        ([&USUAL[..3], &[("host", "b")]].concat(), "GET http://b/"),
    ]
    .iter()
    .enumerate()
    {
        let stream = at as u32 * 2 + 1;
        assert_eq!(server.events(&fields(stream, case)), Ok(vec![format!("{stream} {text} end")]));
        assert_eq!(server.resets(), []);
    }
}

#[test]
fn a_tunnel_carries_data_alone() {
    let mut server = End::server(Limits::default());
    let connect = literals(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let trailers = literals(&[("x", "1")]);
    let opened = [frame(HEADERS, END_HEADERS, 1, &connect), frame(DATA, 0, 1, b"x")].concat();
    assert_eq!(server.events(&opened), Ok(vec!["1 CONNECT a:1".into(), "1 x".into()]));
    let events = server.events(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
    assert_eq!(events, Ok(vec!["1 reset PROTOCOL_ERROR".into()]));
    // A refusal is a response as any other.
    let head = RequestHead::new(Method::CONNECT, "a:1").expect("a target");
    let mut client = End::client(Limits::default());
    for (status, last) in [("200", "reset PROTOCOL_ERROR"), ("403", "trailers {\"x\": \"1\"}")] {
        let stream = client.engine.open(&head, None, false, &mut client.out).expect("a slot").get();
        let answer = [
            frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", status)])),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers),
        ];
        let events = client.events(&answer.concat()).expect("other streams live");
        assert_eq!(events.last(), Some(&format!("{stream} {last}")));
    }
}

#[test]
fn a_body_has_the_length_that_its_head_states() {
    let body = |stream, flags, data: &[u8]| frame(DATA, flags, stream, data);
    let head = |stream| frame(HEADERS, END_HEADERS, stream, &literals(&with(&[("content-length", "3")])));
    let trailers_of = |stream, field| frame(HEADERS, END_HEADERS | END_STREAM, stream, &literals(&[field]));
    let trailers = |stream| trailers_of(stream, ("x", "1"));
    let mut server = End::server(Limits::default());
    let good = [head(1), body(1, 0, b"ab"), body(1, END_STREAM, b"c")].concat();
    assert_eq!(server.events(&good), Ok(vec!["1 GET http://a/".into(), "1 ab".into(), "1 c end".into()]));
    let good = [head(3), body(3, 0, b"abc"), trailers(3)].concat();
    assert_eq!(server.events(&good).expect("good").last().expect("some"), "3 trailers {\"x\": \"1\"}");
    for (stream, rest) in [
        (5, body(5, END_STREAM, b"ab")),
        (7, body(7, 0, b"abcd")),
        (9, [body(9, 0, b"ab"), trailers(9)].concat()),
        (11, [body(11, 0, b"abc"), frame(HEADERS, END_HEADERS, 11, &literals(&[("x", "1")]))].concat()),
        (13, [body(13, 0, b"abc"), trailers_of(13, (":path", "/"))].concat()),
        // RFC 9110 section 6.5.1, as over HTTP/1.
        (15, [body(15, 0, b"abc"), trailers_of(15, ("content-length", "3"))].concat()),
        (17, [body(17, 0, b"abc"), trailers_of(17, ("host", "a"))].concat()),
        (19, [body(19, 0, b"abc"), trailers_of(19, (":status", "200"))].concat()),
        (21, [body(21, 0, b"abc"), trailers_of(21, (":unknown", "1"))].concat()),
    ] {
        let events = server.events(&[head(stream), rest].concat()).expect("other streams live");
        assert_eq!(events.last(), Some(&format!("{stream} reset PROTOCOL_ERROR")));
        assert_eq!(server.resets(), [(stream, Code::PROTOCOL_ERROR)]);
    }
    // What was on its way when the reset left is no fault.
    assert_eq!(
        server.events(&[body(5, 0, b"x"), trailers(9), body(7, END_STREAM, b"")].concat()),
        Ok(vec![])
    );
}

/// RFC 9113 section 8.1.1, as over HTTP/1.
#[test]
fn an_answer_that_has_no_body_may_state_a_length() {
    for (method, status, may_have) in [
        (Method::GET, "204", false),
        (Method::GET, "304", false),
        (Method::HEAD, "200", false),
        (Method::HEAD, "204", false),
        // Only a sender must not use it (RFC 9110 section 15.3.6).
        (Method::GET, "205", true),
    ] {
        let mut client = End::client(Limits::default());
        let mut request = RequestHead::new(method, "/").expect("a target");
        request.set_origin("http", "a").expect("an origin");
        let head = literals(&[(":status", status), ("content-length", "1")]);
        let mut answer = |data: Option<&[u8]>| {
            let id = client.engine.open(&request, None, true, &mut client.out).expect("a slot").get();
            let bytes = match data {
                None => frame(HEADERS, END_HEADERS | END_STREAM, id, &head),
                Some(data) => {
                    [frame(HEADERS, END_HEADERS, id, &head), frame(DATA, END_STREAM, id, data)].concat()
                }
            };
            let events = client.events(&bytes).expect("the connection lives");
            events.into_iter().map(|event| event.replacen(&format!("{id} "), "", 1)).collect::<Vec<_>>()
        };
        let whole = if may_have { "reset PROTOCOL_ERROR".to_owned() } else { format!("{status} end") };
        assert_eq!(answer(None), [whole], "{status}");
        let end = if may_have { "reset PROTOCOL_ERROR" } else { " end" };
        assert_eq!(answer(Some(b"")), [status, end], "{status}");
        let body = if may_have { "x end" } else { "reset PROTOCOL_ERROR" };
        assert_eq!(answer(Some(b"x")), [status, body], "{status}");
    }
}

#[test]
fn a_frame_in_the_wrong_place_ends_the_connection() {
    use FrameFault::*;

    let headers = frame(HEADERS, END_STREAM, 1, REQUEST);
    let cases: &[(&str, Vec<u8>, Option<FrameFault>)] = &[
        ("4.2 too long", frame(DATA, 0, 1, &[0; 16_385]), Some(TooLong)),
        ("4.3 no HPACK", frame(HEADERS, END_HEADERS, 1, &[0x80]), None),
        ("4.3 interrupted", [headers.clone(), frame(PING, 0, 0, &[0; 8])].concat(), Some(WithinHeaderBlock)),
        (
            "4.3 by an unknown frame",
            [headers.clone(), frame(77, 0, 0, &[])].concat(),
            Some(WithinHeaderBlock),
        ),
        (
            "4.3 on another stream",
            [headers, frame(CONTINUATION, 4, 3, &[])].concat(),
            Some(WithinHeaderBlock),
        ),
        ("5.1 DATA on an idle stream", frame(DATA, 0, 1, &[]), Some(NoStream)),
        ("5.1 RST_STREAM on an idle stream", frame(RST_STREAM, 0, 1, &[0; 4]), Some(NoStream)),
        ("5.1 WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 1, &[1; 4]), Some(NoStream)),
        ("5.1.1 an even stream", request(2, true), Some(NoStream)),
        ("5.1.1 a lower stream", [request(5, true), request(3, true)].concat(), Some(HeadersOnClosed)),
        ("6.1 DATA without a stream", frame(DATA, 0, 0, &[]), Some(NoStream)),
        (
            "6.1 no room for the length of the padding",
            [request(1, false), frame(DATA, PADDED, 1, &[])].concat(),
            Some(DataTooShort),
        ),
        (
            "6.1 padding beyond its frame",
            [request(1, false), frame(DATA, PADDED, 1, &[4, 0, 0])].concat(),
            Some(Padding),
        ),
        ("6.2 HEADERS without a stream", request(0, true), Some(NoStream)),
        ("6.2 padding beyond its frame", frame(HEADERS, PADDED | 4, 1, &[9, 0x82]), Some(Padding)),
        ("6.3 PRIORITY without a stream", frame(PRIORITY, 0, 0, &[0; 5]), Some(PriorityOnConnection)),
        ("6.5 SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), Some(SettingsOnStream)),
        ("6.5 SETTINGS of another size", frame(SETTINGS, 0, 0, &[0; 5]), Some(SettingsLength)),
        ("6.5 an acknowledgement with a payload", frame(SETTINGS, ACK, 0, &[0; 6]), Some(SettingsAckLength)),
        ("6.5.2 push", frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), Some(EnablePush)),
        ("6.5.2 window", frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), Some(InitialWindowSize)),
        ("6.5.2 frame size", frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff]), Some(MaxFrameSize)),
        ("6.6 a client pushes", frame(PUSH_PROMISE, 4, 1, &[0; 4]), Some(PushPromise)),
        ("6.7 PING on a stream", frame(PING, 0, 1, &[0; 8]), Some(PingOnStream)),
        ("6.7 PING of another size", frame(PING, 0, 0, &[0; 7]), Some(PingLength)),
        ("6.8 GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8]), Some(GoAwayOnStream)),
        ("6.9 a window that does not open", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), Some(NoIncrement)),
        ("6.9 WINDOW_UPDATE of another size", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Some(WindowUpdateLength)),
        (
            "6.9.1 a window too large",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]),
            Some(WindowOverflow),
        ),
        ("6.10 CONTINUATION alone", frame(CONTINUATION, 4, 1, &[]), Some(ContinuationAlone)),
        ("RFC 9218 7.1 too short", frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), Some(PriorityUpdate)),
        ("RFC 9218 7.1 no stream", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\0u=1"), Some(PriorityUpdateStream)),
        ("RFC 9218 7.1 a push", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x02u=1"), Some(PriorityUpdateStream)),
        ("RFC 9218 2.1", frame(SETTINGS, 0, 0, &[0, 9, 0, 0, 0, 2]), Some(NoRfc7540Priorities)),
    ];
    for (name, case, fault) in cases {
        let mut server = End::server(Limits::default());
        let error = server.events(case).expect_err(name);
        let code = match fault {
            None => Code::COMPRESSION_ERROR,
            Some(TooLong | DataTooShort | SettingsLength | SettingsAckLength) => Code::FRAME_SIZE_ERROR,
            Some(PingLength | WindowUpdateLength) => Code::FRAME_SIZE_ERROR,
            Some(InitialWindowSize | WindowOverflow) => Code::FLOW_CONTROL_ERROR,
            Some(HeadersOnClosed) => Code::STREAM_CLOSED,
            Some(_) => Code::PROTOCOL_ERROR,
        };
        assert_eq!(error.code(), code, "{name}: {error}");
        let found = if let Error::Frame(found) = error { Some(found) } else { None };
        assert_eq!(found, *fault, "{name}");
        let last = frames(&server.out).pop().expect("a GOAWAY");
        assert_eq!((last.0, &last.3[4..]), (GOAWAY, &code.0.to_be_bytes()[..]), "{name}");
    }
}

/// Section 4.3: neither does a frame of the same stream, which its number does not give away.
#[test]
fn nothing_stands_within_a_block() {
    for kind in (DATA..CONTINUATION).chain([PRIORITY_UPDATE, 77]) {
        for stream in [0, 3, 5] {
            let mut server = End::server(Limits::default());
            server.events(&request(3, false)).expect("good");
            let block = frame(HEADERS, END_STREAM, 5, REQUEST);
            let within = frame(kind, 0, stream, &[0; 8]);
            let error = server.events(&[block, within].concat()).expect_err("a frame within a block");
            assert_eq!(error, Error::Frame(FrameFault::WithinHeaderBlock), "{kind} on {stream}");
        }
    }
}

#[test]
fn a_stream_that_has_ended_takes_nothing() {
    let mut server = End::server(Limits::default());
    server.events(&request(1, true)).expect("good");
    // Half-closed: the stream ends (5.1).
    assert_eq!(server.events(&frame(DATA, 0, 1, b"x")), Ok(vec!["1 reset STREAM_CLOSED".into()]));
    server.events(&request(3, true)).expect("good");
    assert_eq!(server.events(&request(3, true)), Ok(vec!["3 reset STREAM_CLOSED".into()]));
    // Closed: the connection ends.
    server.events(&request(5, true)).expect("good");
    let headers = Headers::new();
    let parts = ResponseParts::new(StatusCode::NO_CONTENT, &headers);
    server.engine.respond(server.newest.expect("just begun"), &parts, true, &mut server.out).expect("open");
    assert_eq!(
        server.events(&[frame(WINDOW_UPDATE, 0, 5, &[1; 4]), frame(RST_STREAM, 0, 5, &[0; 4])].concat()),
        Ok(vec![])
    );
    let error = server.events(&frame(DATA, 0, 5, b"x")).expect_err("closed");
    assert_eq!(error.code(), Code::STREAM_CLOSED);
}

/// All streams of a connection can be reset in one turn, while data of each is on its way.
#[test]
fn what_was_on_its_way_to_many_resets_is_no_fault() {
    const STREAMS: u32 = 200;
    let ids = || (0..STREAMS).map(|count| 2 * count + 1);
    let limits = Limits { connection_window_bytes: 65_535, ..Limits::default() };
    let mut server = End::server(limits);
    let mut open = Vec::new();
    server
        .take(&ids().flat_map(|id| request(id, false)).collect::<Vec<_>>(), |end, _| open.extend(end.newest))
        .expect("good");
    for id in open {
        server.engine.reset(id, Code::NO_ERROR, &mut server.out);
    }
    assert_eq!(server.resets().len(), STREAMS as usize);
    let late: Vec<_> = ids()
        .flat_map(|id| {
            let trailers = frame(HEADERS, END_HEADERS | END_STREAM, id, &literals(&[("x", "1")]));
            [frame(DATA, 0, id, &[0; 1000]), trailers].concat()
        })
        .collect();
    assert_eq!(server.events(&late), Ok(vec![]));
    let opened = frames(&std::mem::take(&mut server.out));
    assert!(opened.iter().all(|frame| (frame.0, frame.2) == (WINDOW_UPDATE, 0)), "{opened:?}");
    // A newer stream that has ended in order is closed as ever.
    let next = 2 * STREAMS + 1;
    server.events(&request(next, true)).expect("good");
    let headers = Headers::new();
    let parts = ResponseParts::new(StatusCode::NO_CONTENT, &headers);
    server.engine.respond(server.newest.expect("just begun"), &parts, true, &mut server.out).expect("open");
    assert_eq!(server.events(&frame(DATA, 0, next, b"x")).expect_err("closed").code(), Code::STREAM_CLOSED);
}

#[test]
fn windows_hold() {
    let limits = Limits { connection_window_bytes: 65_535, stream_window_bytes: 100, ..Limits::default() };
    let mut server = End::server(limits);
    server.events(&request(1, false)).expect("good");
    // Padding counts. It is returned at once, as nobody reads it.
    assert_eq!(server.events(&frame(DATA, PADDED, 1, &[49; 100])).map(|events| events.len()), Ok(1));
    assert_eq!(server.events(&frame(DATA, 0, 1, &[0; 50])).map(|events| events.len()), Ok(1));
    assert_eq!(server.events(&frame(DATA, 0, 1, b"x")), Ok(vec!["1 reset FLOW_CONTROL_ERROR".into()]));
    assert_eq!(server.resets(), [(1, Code::FLOW_CONTROL_ERROR)]);
    // A peer that has not seen the small window yet may use the first one.
    let now = clock();
    let (mut out, mut input) = (Vec::new(), anywire_http::Buffer::new());
    let mut engine = anywire_http::h2::Engine::server(limits, now, &mut out);
    let early =
        [PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1, false), &frame(DATA, 0, 1, &[0; 5000])].concat();
    input.fill_from(&early);
    while engine.receive(now, &mut input, &mut out).expect("good").is_some() {}
    assert_eq!(frames(&out).iter().filter(|frame| frame.0 == RST_STREAM).count(), 0);
}

#[test]
fn the_window_of_the_connection_holds() {
    let limits = Limits { connection_window_bytes: 65_535, ..Limits::default() };
    let plain = |stream| frame(DATA, 0, stream, &[0; 16_384]);
    // Padding counts, and its length.
    let padded = |stream| frame(DATA, PADDED, stream, &[&[255], &[0; 16_383][..]].concat());
    for data in [plain, padded] {
        let mut server = End::server(limits);
        server.events(&[request(1, false), request(3, false)].concat()).expect("good");
        // Each stream has a window of as much.
        server.events(&[data(1), data(3), data(1)].concat()).expect("there is room");
        let error = server.events(&data(3)).expect_err("a byte more than the window");
        assert_eq!(error.code(), Code::FLOW_CONTROL_ERROR);
    }
}

#[test]
fn a_bad_start_is_no_http2() {
    let now = clock();
    for start in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let (mut out, mut input) = (Vec::new(), anywire_http::Buffer::new());
        let mut engine = anywire_http::h2::Engine::server(Limits::default(), now, &mut out);
        input.fill_from(start);
        assert_eq!(engine.receive(now, &mut input, &mut out).expect_err("no preface"), Error::Preface);
    }
    // Each byte of it counts, whole and one by one.
    for wrong in 0..PREFACE.len() {
        let mut start = PREFACE.to_vec();
        start[wrong] ^= 1;
        for piece in [start.len(), 1] {
            let mut engine = anywire_http::h2::Engine::server(Limits::default(), now, &mut Vec::new());
            let (mut input, mut found) = (anywire_http::Buffer::new(), Ok(()));
            for bytes in start.chunks(piece) {
                input.fill_from(bytes);
                found = found.and(engine.receive(now, &mut input, &mut Vec::new()).map(|_| ()));
            }
            assert_eq!(found, Err(Error::Preface), "{wrong}, in pieces of {piece}");
        }
    }
    let ping = frame(PING, 0, 0, &[0; 8]);
    let no_settings = Error::Frame(FrameFault::NoSettings);
    // Which acknowledges some, and says none.
    let acknowledgement = frame(SETTINGS, ACK, 0, &[]);
    let mut server = anywire_http::h2::Engine::server(Limits::default(), now, &mut Vec::new());
    let mut input = anywire_http::Buffer::new();
    input.fill_from(&[PREFACE, &acknowledgement].concat());
    let error = server.receive(now, &mut input, &mut Vec::new()).expect_err("no SETTINGS");
    assert_eq!(error, no_settings);
    for (start, expected) in [
        (&ping[..], no_settings),
        (&acknowledgement, no_settings),
        (b"HTTP/1", Error::SpeaksHttp1),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Error::SpeaksHttp1),
    ] {
        let (mut out, mut input) = (Vec::new(), anywire_http::Buffer::new());
        let mut engine = anywire_http::h2::Engine::client(Limits::default(), now, &mut out);
        input.fill_from(start);
        let error = engine.receive(now, &mut input, &mut out).expect_err("no SETTINGS");
        assert_eq!((error, error.code()), (expected, Code::PROTOCOL_ERROR));
    }
}

#[test]
fn a_bad_server_ends_its_stream_or_the_connection() {
    let ask = |client: &mut End, method: Method| {
        let mut head = RequestHead::new(method, "/").expect("a target");
        head.set_origin("http", "a").expect("an origin");
        client.engine.open(&head, None, true, &mut client.out).expect("a slot").get()
    };
    let respond = |stream, flags: u8, fields: &[(&str, &str)]| {
        frame(HEADERS, END_HEADERS | flags, stream, &literals(fields))
    };
    let mut client = End::client(Limits::default());
    for case in [
        &[("x", "1")][..],
        &[(":status", "20")],
        &[(":status", "200"), (":status", "200")],
        &[(":path", "/")],
        &[(":status", "101")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("content-length", "1")],
    ] {
        let stream = ask(&mut client, Method::GET);
        let events = client.events(&respond(stream, END_STREAM, case)).expect("other streams live");
        assert_eq!(events, [format!("{stream} reset PROTOCOL_ERROR")], "{case:?}");
        assert_eq!(client.resets(), [(stream, Code::PROTOCOL_ERROR)], "{case:?}");
    }
    // Interim responses, and the length of a body that HEAD leaves out.
    let stream = ask(&mut client, Method::HEAD);
    let good = [
        respond(stream, 0, &[(":status", "103")]),
        respond(stream, END_STREAM, &[(":status", "200"), ("content-length", "1")]),
    ];
    let events = client.events(&good.concat()).expect("good");
    assert_eq!(events, [format!("{stream} interim 103"), format!("{stream} 200 end")]);
    // DATA before the head.
    let stream = ask(&mut client, Method::GET);
    assert_eq!(
        client.events(&frame(DATA, 0, stream, b"x")),
        Ok(vec![format!("{stream} reset PROTOCOL_ERROR")])
    );
    for (name, case) in [
        ("push", frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])),
        ("a stream of the server's", respond(2, 0, &[(":status", "200")])),
        ("a stream that was not opened", respond(99, 0, &[(":status", "200")])),
        ("a server that allows push", frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])),
    ] {
        let mut client = End::client(Limits::default());
        ask(&mut client, Method::GET);
        assert_eq!(client.events(&case).expect_err(name).code(), Code::PROTOCOL_ERROR, "{name}");
    }
}
