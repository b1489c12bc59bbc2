//! Each number that RFC 9113 bounds: the last value within the bound is taken, and the first one beyond it ends what the RFC
//! says. Sizes are tried where nothing but the size is wrong.

use anywire_http::h2::{Code, Limits, ResponseParts};
use anywire_http::{Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// What an end makes of frames.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    /// The connection ends.
    Connection(Code),
    /// The stream 1 ends.
    Stream(Code),
}

use Fate::{Connection, Stream, Taken};

fn server() -> End {
    let mut server = End::server(Limits::default());
    server.events(&request(1, false)).expect("good");
    server.out.clear();
    server
}

fn client() -> End {
    let mut client = End::client(Limits::default());
    let mut head = RequestHead::new(Method::POST, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    client.engine.open(&head, None, false, &mut client.out).expect("a slot");
    client.out.clear();
    client
}

fn fate(mut end: End, bytes: &[u8]) -> Fate {
    if let Err(error) = end.events(bytes) {
        let last = frames(&end.out).pop().expect("a GOAWAY");
        assert_eq!((last.0, &last.3[4..8]), (GOAWAY, &error.code().0.to_be_bytes()[..]));
        return Connection(error.code());
    }
    let reset = end.resets().pop().map_or(Taken, |(stream, code)| {
        assert_eq!(stream, 1);
        Stream(code)
    });
    // A stream that was ended, or a connection that goes on, takes a ping.
    assert_eq!(end.events(&frame(PING, 0, 0, &[7; 8])), Ok(vec![]));
    reset
}

fn setting(id: u8, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, id], &value.to_be_bytes()[..]].concat())
}

/// Opens a window.
fn opens(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

const MAX: u32 = 0x7fff_ffff;
/// Of a stream and of the connection.
const FIRST_WINDOW: u32 = 65_535;

#[test]
fn of_settings() {
    let (of_protocol, of_flow) = (Connection(Code::PROTOCOL_ERROR), Connection(Code::FLOW_CONTROL_ERROR));
    for (name, id, within, beyond, refused) in [
        // Section 6.5.2.
        ("table", 1, vec![0, u32::MAX], vec![], &of_protocol),
        ("push, said by a client", 2, vec![0, 1], vec![2, u32::MAX], &of_protocol),
        ("streams", 3, vec![0, u32::MAX], vec![], &of_protocol),
        ("window", 4, vec![0, MAX], vec![MAX + 1, u32::MAX], &of_flow),
        ("frames", 5, vec![1 << 14, (1 << 24) - 1], vec![0, (1 << 14) - 1, 1 << 24, u32::MAX], &of_protocol),
        ("heads", 6, vec![0, u32::MAX], vec![], &of_protocol),
        // RFC 8441 section 3.
        ("extended CONNECT", 8, vec![0, 1], vec![2, u32::MAX], &of_protocol),
        // Of no meaning here.
        ("none", 0, vec![0, u32::MAX], vec![], &of_protocol),
        ("none", 0xff, vec![0, u32::MAX], vec![], &of_protocol),
    ] {
        for value in within {
            assert_eq!(fate(server(), &setting(id, value)), Taken, "{name} {value}");
            if id != 2 {
                assert_eq!(fate(client(), &setting(id, value)), Taken, "{name} {value}");
            }
        }
        for value in beyond {
            assert_eq!(fate(server(), &setting(id, value)), *refused, "{name} {value}");
            assert_eq!(fate(client(), &setting(id, value)), *refused, "{name} {value}");
        }
    }
    // A server pushes, or says nothing of it.
    assert_eq!(fate(client(), &setting(2, 0)), Taken);
    assert_eq!(fate(client(), &setting(2, 1)), of_protocol);
    // What was allowed is not taken back (RFC 8441 section 3).
    let again = |first, second| [setting(8, first), setting(8, second)].concat();
    assert_eq!(fate(client(), &again(1, 1)), Taken);
    assert_eq!(fate(client(), &again(1, 0)), of_protocol);
}

#[test]
fn of_windows() {
    let of_flow = |is_stream: bool| match is_stream {
        true => Stream(Code::FLOW_CONTROL_ERROR),
        false => Connection(Code::FLOW_CONTROL_ERROR),
    };
    for make in [server, client] {
        // Sections 6.9 and 6.9.1: an increment is 1 at least, and a window 2^31-1 at most.
        for stream in [0, 1] {
            let none =
                if stream == 1 { Stream(Code::PROTOCOL_ERROR) } else { Connection(Code::PROTOCOL_ERROR) };
            assert_eq!(fate(make(), &opens(stream, 0)), none);
            // The first bit has no meaning.
            assert_eq!(fate(make(), &opens(stream, 0x8000_0000)), none);
            assert_eq!(fate(make(), &opens(stream, 1)), Taken);
            assert_eq!(fate(make(), &opens(stream, MAX - FIRST_WINDOW)), Taken);
            assert_eq!(fate(make(), &opens(stream, MAX - FIRST_WINDOW + 1)), of_flow(stream == 1));
            let twice = [opens(stream, MAX - FIRST_WINDOW), opens(stream, 1)].concat();
            assert_eq!(fate(make(), &twice), of_flow(stream == 1));
        }
        // Section 6.9.2: a first window that makes that of a stream larger, while others are as they were.
        let moved = |by: u32, to: u32| [opens(1, by), setting(4, to)].concat();
        assert_eq!(fate(make(), &moved(1, MAX - 1)), Taken);
        assert_eq!(fate(make(), &moved(2, MAX - 1)), of_flow(false));
        assert_eq!(fate(make(), &moved(MAX - FIRST_WINDOW, FIRST_WINDOW)), Taken);
        assert_eq!(fate(make(), &moved(MAX - FIRST_WINDOW, FIRST_WINDOW + 1)), of_flow(false));
        // The connection's is none of these.
        let wide = [opens(0, MAX - FIRST_WINDOW), setting(4, MAX)].concat();
        assert_eq!(fate(make(), &wide), Taken);
    }
}

/// Sections 4.2 and 6.9.1: what we send fits a frame, which every peer takes, and both windows.
#[test]
fn of_what_is_sent() {
    let frame_bytes = 16_384;
    let body = |bytes: &[u8]| {
        let mut server = server();
        server.events(bytes).expect("good");
        let headers = Headers::new();
        let id = server.newest.expect("open");
        server
            .engine
            .respond(id, &ResponseParts::new(StatusCode::OK, &headers), false, &mut server.out)
            .expect("open");
        (server, id)
    };
    let windows = |of_stream: u32, of_connection: u32| {
        [opens(1, of_stream - FIRST_WINDOW), opens(0, of_connection - FIRST_WINDOW)].concat()
    };
    // However long the frames are that a peer takes: it has no use of longer ones, and other streams wait meanwhile.
    for settings in [vec![], setting(5, 1 << 14), setting(5, (1 << 24) - 1)] {
        let (mut server, id) = body(&[windows(1 << 20, 1 << 20), settings].concat());
        assert!(
            server.engine.may_send_at_once(id, frame_bytes)
                && !server.engine.may_send_at_once(id, frame_bytes + 1)
        );
        server.engine.wants_to_send(id, true);
        assert_eq!(server.engine.next_to_send(), Some((id, frame_bytes)));
        server.engine.data_head(id, frame_bytes, false, &mut server.out);
    }
    // All but so many bytes of both windows, or of one of them.
    for (of_stream, of_connection, left) in [
        (100_000, 100_000, 0),
        (100_000, 100_000, 1),
        (100_000, 100_000, 100),
        (200_000, 100_000, 100),
        (100_000, 200_000, 100),
    ] {
        let (mut server, id) = body(&windows(of_stream, of_connection));
        let mut sent = 0;
        let whole = of_stream.min(of_connection) as usize - left;
        while sent < whole {
            server.engine.wants_to_send(id, true);
            let (_, most) = server.engine.next_to_send().expect("a window is open");
            server.engine.data_head(id, most.min(whole - sent), false, &mut server.out);
            sent += most.min(whole - sent);
        }
        server.engine.wants_to_send(id, true);
        let most = server.engine.next_to_send();
        assert_eq!(most, (left > 0).then_some((id, left)), "{of_stream} and {of_connection}");
        assert!(server.engine.may_send_at_once(id, left), "{of_stream} and {of_connection}");
        assert!(!server.engine.may_send_at_once(id, left + 1), "{of_stream} and {of_connection}");
    }
}

/// Section 6.8: the last stream of a GOAWAY has 31 bits, as all numbers of streams have.
#[test]
fn of_a_goaway() {
    let go_away = |last: u32| frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    for (last, told) in [(0, 0), (1, 1), (MAX, MAX), (MAX + 1, 0), (MAX + 2, 1), (u32::MAX, MAX)] {
        let events = client().events(&go_away(last)).expect("good");
        assert_eq!(events[0], format!("goaway {told} NO_ERROR"));
        assert_eq!(events[1..], if told == 0 { vec!["1 reset REFUSED_STREAM".to_owned()] } else { vec![] });
    }
    // A later one may say the same or less, and no more.
    for (first, second, expected) in
        [(5, 5, Taken), (5, 3, Taken), (5, 7, Connection(Code::PROTOCOL_ERROR)), (5, MAX + 5, Taken)]
    {
        assert_eq!(fate(client(), &[go_away(first), go_away(second)].concat()), expected);
    }
}

#[test]
fn of_the_sizes_of_frames() {
    let of_size = Connection(Code::FRAME_SIZE_ERROR);
    let flagged = |kind: u8, flags: u8, stream: u32, size: usize| frame(kind, flags, stream, &vec![0; size]);
    /// A frame of a size, sizes that are taken, and others.
    type Case<'c> = (&'c str, &'c dyn Fn(usize) -> Vec<u8>, &'c [usize], &'c [usize], &'c Fate);
    let cases: [Case<'_>; 10] = [
        // Section 4.2.
        ("DATA", &|size| flagged(DATA, 0, 1, size), &[1, 16_383, 16_384], &[16_385, 1 << 20], &of_size),
        ("unknown", &|size| flagged(77, 0, 1, size), &[0, 16_384], &[16_385], &of_size),
        // Section 6.3.
        (
            "PRIORITY",
            &|size| flagged(PRIORITY, 0, 1, size),
            &[5],
            &[0, 4, 6],
            &Stream(Code::FRAME_SIZE_ERROR),
        ),
        (
            "PRIORITY of a stream that is not open",
            &|size| flagged(PRIORITY, 0, 9, size),
            &[5],
            &[0, 4, 6],
            &of_size,
        ),
        // Section 6.4, on a stream that is open.
        ("RST_STREAM", &|size| flagged(RST_STREAM, 0, 1, size), &[4], &[0, 3, 5, 8], &of_size),
        // Section 6.5.
        (
            "SETTINGS",
            &|size| frame(SETTINGS, 0, 0, &[0xff; 60][..size]),
            &[0, 6, 12],
            &[1, 5, 7, 11],
            &of_size,
        ),
        ("SETTINGS with ACK", &|size| flagged(SETTINGS, ACK, 0, size), &[0], &[1, 6], &of_size),
        // Section 6.7.
        ("PING", &|size| flagged(PING, 0, 0, size), &[8], &[0, 7, 9], &of_size),
        // Section 6.8. Behind the first eight bytes is text.
        ("GOAWAY", &|size| flagged(GOAWAY, 0, 0, size), &[8, 9, 100], &[0, 7], &of_size),
        // Section 6.9.
        ("WINDOW_UPDATE", &|size| frame(WINDOW_UPDATE, 0, 1, &[1; 8][..size]), &[4], &[0, 3, 5, 8], &of_size),
    ];
    for (name, make, within, beyond, refused) in cases {
        // A client takes no DATA before a response.
        for end in [server, client].into_iter().take(if name == "DATA" { 1 } else { 2 }) {
            for size in within {
                assert_eq!(fate(end(), &make(*size)), Taken, "{name} of {size} bytes");
            }
            for size in beyond {
                assert_eq!(fate(end(), &make(*size)), *refused, "{name} of {size} bytes");
            }
        }
    }
}

/// Sections 6.1 and 6.2: padding, with its length, is at most as long as its frame.
#[test]
fn of_padding() {
    let padded = |kind: u8, flags: u8, stream: u32, padding: u8, rest: usize| {
        frame(kind, PADDED | flags, stream, &[&[padding][..], &vec![0; rest]].concat())
    };
    for (padding, rest, expected) in [
        (0, 0, Taken),
        (1, 1, Taken),
        (255, 255, Taken),
        (1, 0, Connection(Code::PROTOCOL_ERROR)),
        (255, 254, Connection(Code::PROTOCOL_ERROR)),
    ] {
        assert_eq!(fate(server(), &padded(DATA, 0, 1, padding, rest)), expected, "{padding} of {rest}");
        // Trailers without a field.
        let trailers = padded(HEADERS, END_HEADERS | END_STREAM, 1, padding, rest);
        assert_eq!(fate(server(), &trailers), expected, "{padding} of {rest}");
    }
    // No room for the length of the padding, or for a priority.
    let of_size = Connection(Code::FRAME_SIZE_ERROR);
    assert_eq!(fate(server(), &frame(DATA, PADDED, 1, &[])), of_size);
    assert_eq!(fate(server(), &frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, &[])), of_size);
    let with_priority = |size: usize| frame(HEADERS, 0x20 | END_HEADERS | END_STREAM, 1, &vec![0; size]);
    assert_eq!(fate(server(), &with_priority(5)), Taken);
    assert_eq!(fate(server(), &with_priority(4)), of_size);
}

/// Section 5.1.1: the numbers of streams rise, are odd, and have 31 bits.
#[test]
fn of_the_numbers_of_streams() {
    let fresh = || End::server(Limits::default());
    for (first, second, is_taken) in
        [(1, 3, true), (1, MAX, true), (5, 7, true), (5, 3, false), (1, 2, false), (1, 0, false)]
    {
        let mut server = fresh();
        server.events(&request(first, true)).expect("good");
        let taken = server.events(&request(second, true));
        assert_eq!(taken.is_ok_and(|events| events.len() == 1), is_taken, "{first}, then {second}");
    }
    // One that was refused is used up.
    let mut server = End::server(Limits { streams: 1, ..Limits::default() });
    let events = server.events(&[request(1, false), request(3, true)].concat());
    assert_eq!(events.expect("good").last().map(String::as_str), Some("3 reset REFUSED_STREAM"));
    server.events(&frame(RST_STREAM, 0, 1, &[0; 4])).expect("good");
    assert_eq!(server.events(&request(3, true)), Ok(vec![]));
    assert_eq!(server.events(&request(5, true)), Ok(vec!["5 GET http://a/ end".into()]));
    // The bit before it has no meaning.
    let mut reserved = request(3, true);
    reserved[5] |= 0x80;
    assert_eq!(fresh().events(&reserved), Ok(vec!["3 GET http://a/ end".into()]));
}
