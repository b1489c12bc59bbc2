//! A connection that ends loses no request: those under way are answered, and the others are known to be safe to send again.
//! A peer that says nothing is found out.

use std::time::Duration;

use anywire_http::h2::{Code, Engine, Error, Limits, Refused, ResponseParts, Unacknowledged};
use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

fn open(client: &mut End) -> Result<u32, Refused> {
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    client.engine.open(&head, None, true, &mut client.out).map(|id| id.get())
}

fn answer(server: &mut End) {
    let headers = Headers::new();
    let parts = ResponseParts::new(StatusCode::NO_CONTENT, &headers);
    let id = server.newest.expect("a request");
    server.engine.respond(id, &parts, true, &mut server.out).expect("open");
}

fn go_away(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

#[test]
fn a_server_takes_what_was_on_its_way() {
    let mut server = End::server(Limits::default());
    server.events(&request(1, true)).expect("good");
    let until = server.now + Duration::from_secs(1);
    server.engine.shut_down(until, &mut server.out);
    let said = frames(&std::mem::take(&mut server.out));
    let [(GOAWAY, _, 0, last), (PING, 0, 0, opaque)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(last[..4], [0x7f, 255, 255, 255]);
    // Sent before the client knew.
    assert_eq!(server.events(&request(3, true)), Ok(vec!["3 GET http://a/ end".into()]));
    answer(&mut server);
    server.out.clear();
    server.events(&frame(PING, ACK, 0, opaque)).expect("good");
    let said = frames(&std::mem::take(&mut server.out));
    let [(GOAWAY, _, 0, last)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(last[..4], [0, 0, 0, 3]);
    // Sent against that, and so not taken. Its block is decoded all the same.
    let indexed = [REQUEST, b"\x40\x01x\x011"].concat();
    assert_eq!(server.events(&frame(HEADERS, END_HEADERS | END_STREAM, 5, &indexed)), Ok(vec![]));
    assert_eq!(server.events(&frame(DATA, 0, 5, b"x")), Ok(vec![]));
    assert!(!server.engine.is_drained());
    server.events(&frame(RST_STREAM, 0, 1, &[0; 4])).expect("good");
    assert!(server.engine.is_drained());
}

/// The peer may sleep. Without this its connection would be there as long as it likes.
#[test]
fn a_server_does_not_wait_for_an_acknowledgement_for_ever() {
    let mut server = End::server(Limits::default());
    let until = server.now + Duration::from_secs(1);
    server.engine.shut_down(until, &mut server.out);
    server.out.clear();
    // Asked to again.
    server.engine.shut_down(until + Duration::from_secs(1), &mut server.out);
    assert_eq!(server.engine.next_deadline(), Some(until));
    server.engine.advance(until - Duration::from_millis(1), &mut server.out).expect("good");
    assert_eq!(frames(&server.out), []);
    assert_eq!(server.events(&request(1, true)), Ok(vec!["1 GET http://a/ end".into()]));
    server.engine.advance(until, &mut server.out).expect("good");
    assert_eq!(std::mem::take(&mut server.out), go_away(1));
    assert_eq!(server.engine.next_deadline(), None);
    assert_eq!(server.events(&request(3, true)), Ok(vec![]));
    assert!(!server.engine.is_drained());
    answer(&mut server);
    assert!(server.engine.is_drained());
}

#[test]
fn a_server_that_leaves_says_what_it_took() {
    let mut server = End::server(Limits::default());
    server.events(&[request(1, true), request(3, true)].concat()).expect("good");
    server.engine.go_away(&mut server.out);
    let said = frames(&std::mem::take(&mut server.out));
    let [(GOAWAY, _, 0, last)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(last, &[3_u32.to_be_bytes(), [0; 4]].concat());
    // Sent before the client knew, and not taken: it may send that again.
    assert_eq!(server.events(&request(5, true)), Ok(vec![]));
    server.engine.go_away(&mut server.out);
    assert_eq!(frames(&server.out), [], "it has said so");
}

/// Section 6.8: the last stream that was taken, also in the GOAWAY of a fault. Without it the peer would send again what was
/// processed.
#[test]
fn a_connection_that_fails_says_what_it_took() {
    let last = |end: &mut End| {
        end.events(&frame(PING, 0, 1, &[0; 8])).expect_err("a PING on a stream");
        let (kind, _, _, payload) = frames(&end.out).pop().expect("a GOAWAY");
        assert_eq!((kind, &payload[4..]), (GOAWAY, &Code::PROTOCOL_ERROR.0.to_be_bytes()[..]));
        u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])
    };
    let mut server = End::server(Limits::default());
    assert_eq!(last(&mut server), 0);
    let taken = || {
        let mut server = End::server(Limits::default());
        server.events(&[request(1, true), request(5, true)].concat()).expect("good");
        server
    };
    assert_eq!(last(&mut taken()), 5);
    // What came behind an earlier GOAWAY was not taken, and the number does not rise.
    let mut leaves = taken();
    leaves.engine.go_away(&mut leaves.out);
    leaves.events(&request(7, true)).expect("good");
    assert_eq!(last(&mut leaves), 5);
    // A server opens no stream.
    let mut client = End::client(Limits::default());
    assert_eq!(open(&mut client), Ok(1));
    assert_eq!(last(&mut client), 0);
}

#[test]
fn a_client_opens_few_streams_before_it_knows_the_limit() {
    for (settings, slots) in [(&[][..], usize::MAX), (&[0, 3, 0, 0, 0, 3], 3), (&[0, 3, 0, 0, 4, 0], 1024)] {
        let (now, mut out) = (clock(), Vec::new());
        let engine = Engine::client(Limits::default(), now, &mut out);
        let mut client = End { engine, input: Buffer::new(), out, now, newest: None, why: None };
        assert_eq!(client.engine.slots(), 100);
        client.events(&frame(SETTINGS, 0, 0, settings)).expect("good");
        assert_eq!(client.engine.slots(), slots);
        assert_eq!(open(&mut client), Ok(1));
    }
}

/// A server's limit of streams is not known before its settings are. What is above it is refused, and harms nothing else.
#[test]
fn streams_that_a_client_opens_before_it_knows_the_limit_are_refused_alone() {
    let (now, mut out) = (clock(), Vec::new());
    let engine = Engine::server(Limits::default(), now, &mut out);
    let mut server = End { engine, input: Buffer::new(), out, now, newest: None, why: None };
    let ids = || (0..500).map(|number| number * 2 + 1);
    let early: Vec<u8> = ids().flat_map(|id| request(id, true)).collect();
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &early].concat();
    let events = server.events(&begin).expect("the connection lives");
    let (taken, refused) = events.split_at(256);
    assert!(taken.iter().all(|event| event.ends_with(" GET http://a/ end")), "{taken:?}");
    assert!(refused.iter().all(|event| event.ends_with(" reset REFUSED_STREAM")), "{refused:?}");
    assert_eq!(server.resets(), ids().skip(256).map(|id| (id, Code::REFUSED_STREAM)).collect::<Vec<_>>());
    // From here on it knows.
    server.events(&frame(SETTINGS, ACK, 0, &[])).expect("good");
    let late: Vec<u8> = (500..701).flat_map(|number| request(number * 2 + 1, true)).collect();
    assert_eq!(server.events(&late).expect_err("200 are the most").code(), Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_client_knows_what_it_may_send_again() {
    let mut client = End::client(Limits::default());
    assert_eq!([open(&mut client), open(&mut client), open(&mut client)], [Ok(1), Ok(3), Ok(5)]);
    let events = client.events(&go_away(1)).expect("good");
    assert_eq!(events, ["goaway 1 NO_ERROR", "3 reset REFUSED_STREAM", "5 reset REFUSED_STREAM"]);
    assert_eq!((client.engine.slots(), open(&mut client)), (0, Err(Refused::Slots)));
    assert!(!client.engine.is_drained());
    let response = frame(HEADERS, END_HEADERS | END_STREAM, 1, &literals(&[(":status", "204")]));
    assert_eq!(client.events(&response), Ok(vec!["1 204 end".into()]));
    assert!(client.engine.is_drained());
    // A later one names the same stream or a lower one.
    assert_eq!(client.events(&go_away(0)), Ok(vec!["goaway 0 NO_ERROR".into()]));
    assert_eq!(client.events(&go_away(1)).expect_err("higher").code(), Code::PROTOCOL_ERROR);
}

#[test]
fn a_client_opens_as_many_streams_as_the_server_takes() {
    let mut client = End::client(Limits::default());
    client.events(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2])).expect("good");
    assert_eq!(
        [open(&mut client), open(&mut client), open(&mut client)],
        [Ok(1), Ok(3), Err(Refused::Slots)]
    );
    let refused = frame(RST_STREAM, 0, 1, &Code::REFUSED_STREAM.0.to_be_bytes());
    assert_eq!(client.events(&refused), Ok(vec!["1 reset REFUSED_STREAM".into()]));
    assert_eq!((client.engine.slots(), open(&mut client)), (1, Ok(5)));
}

#[test]
fn a_request_that_cannot_be_sent_is_refused() {
    let mut client = End::client(Limits::default());
    let origin = RequestHead::new(Method::GET, "/").expect("a target");
    assert_eq!(client.engine.open(&origin, None, true, &mut client.out), Err(Refused::Origin));
    let mut extended = RequestHead::new(Method::CONNECT, "a:1").expect("a target");
    extended.extensions_mut().insert(anywire_http::h2::Protocol("websocket".into()));
    assert_eq!(client.engine.open(&extended, None, false, &mut client.out), Err(Refused::ExtendedConnect));
    // From here on it is allowed, and what it names is looked at (RFC 8441 sections 3 and 4).
    client.events(&frame(SETTINGS, 0, 0, &[0, 8, 0, 0, 0, 1])).expect("good");
    client.out.clear();
    extended.set_origin("http", "a:1").expect("an origin");
    assert_eq!(client.engine.open(&extended, None, false, &mut client.out), Err(Refused::Origin), "no path");
    extended.set_path_and_query("/").expect("a path");
    for protocol in ["", "web\r\nsocket", "web socket", "a/", "/1", "a/b/c", "\u{e4}"] {
        extended.extensions_mut().insert(anywire_http::h2::Protocol(protocol.into()));
        let refused = client.engine.open(&extended, None, false, &mut client.out);
        assert_eq!(refused, Err(Refused::Protocol), "{protocol:?}");
    }
    assert_eq!((client.out.len(), client.engine.open_streams()), (0, 0));
    for protocol in ["websocket", "connect-udp", "HTTP/2.0"] {
        extended.extensions_mut().insert(anywire_http::h2::Protocol(protocol.into()));
        assert!(client.engine.open(&extended, None, false, &mut client.out).is_ok(), "{protocol:?}");
    }
}

#[test]
fn a_silent_peer_is_found_out() {
    let limits = Limits { ping_interval: Some(Duration::from_secs(30)), ..Limits::default() };
    let mut server = End::server(limits);
    let begin = server.now;
    let at = |seconds| begin + Duration::from_secs(seconds);
    assert_eq!(server.engine.next_deadline(), Some(at(30)));
    assert_eq!(server.engine.advance(at(29), &mut server.out), Ok(()));
    assert_eq!(server.out, []);
    assert_eq!(server.engine.advance(at(30), &mut server.out), Ok(()));
    let said = frames(&std::mem::take(&mut server.out));
    let [(PING, 0, 0, opaque)] = &said[..] else { panic!("{said:?}") };
    server.now = at(31);
    server.events(&frame(PING, ACK, 0, opaque)).expect("good");
    assert_eq!(server.engine.next_deadline(), Some(at(61)));
    assert_eq!(server.engine.advance(at(61), &mut server.out), Ok(()));
    assert_eq!(server.engine.next_deadline(), Some(at(71)));
    let silent = Error::Silent { what: Unacknowledged::Ping };
    assert_eq!(server.engine.advance(at(71), &mut server.out), Err(silent));
    assert_eq!(silent.code(), Code::NO_ERROR, "no code is for that");
    assert_eq!(silent.to_string(), "waiting for the peer: it has not acknowledged a ping in time");
    // What has ended waits for nothing.
    assert_eq!(server.engine.next_deadline(), None);
    assert_eq!(server.engine.advance(at(99), &mut server.out), Ok(()));
}

/// The answer to a ping stands behind all that a slow line has yet to carry.
#[test]
fn a_peer_that_is_heard_is_not_silent() {
    let limits = Limits { ping_interval: Some(Duration::from_secs(30)), ..Limits::default() };
    let mut client = End::client(limits);
    let begin = client.now;
    let at = |seconds| begin + Duration::from_secs(seconds);
    open(&mut client).expect("a slot");
    client.events(&frame(HEADERS, END_HEADERS, 1, &literals(&[(":status", "200")]))).expect("good");
    client.engine.advance(at(30), &mut client.out).expect("good");
    for seconds in [35, 44, 53] {
        client.now = at(seconds);
        client.events(&frame(DATA, 0, 1, b"x")).expect("good");
        assert_eq!(client.engine.next_deadline(), Some(at(seconds + 10)));
        assert_eq!(client.engine.advance(at(seconds + 9), &mut client.out), Ok(()));
    }
    let pings = frames(&client.out).iter().filter(|frame| frame.0 == PING).count();
    assert_eq!(pings, 1, "one waits for its answer");
    assert_eq!(
        client.engine.advance(at(63), &mut client.out),
        Err(Error::Silent { what: Unacknowledged::Ping })
    );
}

/// The rest of a frame may never come. What has come of it is a sign of life once, not at each look at it.
#[test]
fn a_peer_that_stops_within_a_frame_is_silent() {
    let limits = Limits { ping_interval: Some(Duration::from_secs(30)), ..Limits::default() };
    let data = frame(DATA, 0, 1, &[0; 100]);
    let priority = frame(PRIORITY, 0, 1, &[0; 5]);
    for begun in [&[][..], &data[..5], &data[..9], &data[..50], &priority[..13]] {
        let cut = begun.len();
        let mut client = End::client(limits);
        let begin = client.now;
        let at = |seconds| begin + Duration::from_secs(seconds);
        open(&mut client).expect("a slot");
        let head = frame(HEADERS, END_HEADERS, 1, &literals(&[(":status", "200")]));
        client.now = at(5);
        client.events(&[&head, begun].concat()).expect("good");
        client.out.clear();
        for seconds in [10, 20, 30] {
            let more = client.engine.receive(at(seconds), &mut client.input, &mut client.out);
            assert!(matches!(more, Ok(None)), "{more:?}");
            assert_eq!(client.engine.advance(at(seconds), &mut client.out), Ok(()));
            assert_eq!((client.engine.next_deadline(), client.out.len()), (Some(at(35)), 0), "{cut}");
        }
        assert_eq!(client.engine.advance(at(35), &mut client.out), Ok(()));
        let said = frames(&std::mem::take(&mut client.out));
        assert!(matches!(said[..], [(PING, 0, 0, _)]), "{cut}: {said:?}");
        let more = client.engine.receive(at(40), &mut client.input, &mut client.out);
        assert!(matches!(more, Ok(None)), "{more:?}");
        assert_eq!(client.engine.next_deadline(), Some(at(45)), "{cut}");
        let silent = client.engine.advance(at(45), &mut client.out);
        assert_eq!(silent, Err(Error::Silent { what: Unacknowledged::Ping }), "{cut}");
    }
}

/// Even a byte of a frame shows that the peer is there.
#[test]
fn a_frame_that_trickles_shows_a_peer() {
    let limits = Limits { ping_interval: Some(Duration::from_secs(30)), ..Limits::default() };
    let mut client = End::client(limits);
    let begin = client.now;
    open(&mut client).expect("a slot");
    let answer = frame(HEADERS, END_HEADERS, 1, &literals(&[(":status", "200")]));
    for (at, byte) in answer.chunks(1).enumerate() {
        client.now = begin + Duration::from_secs(20 * at as u64);
        client.events(byte).expect("good");
        assert_eq!(client.engine.next_deadline(), Some(client.now + Duration::from_secs(30)), "{at}");
    }
}

#[test]
fn settings_are_acknowledged_in_time() {
    let (now, mut out) = (clock(), Vec::new());
    let mut engine = Engine::server(Limits::default(), now, &mut out);
    let late = now + Duration::from_secs(10);
    assert_eq!(engine.next_deadline(), Some(late));
    let error = engine.advance(late, &mut out).expect_err("too late");
    assert_eq!(error.code(), Code::SETTINGS_TIMEOUT);
    assert_eq!(frames(&out).pop().map(|frame| frame.0), Some(GOAWAY));
}
