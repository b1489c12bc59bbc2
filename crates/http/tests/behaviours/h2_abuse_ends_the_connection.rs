//! Each abuse of HTTP/2 that has a name meets a limit of its own: the connection ends with `ENHANCE_YOUR_CALM`, after a
//! bounded number of frames, with bounded output. What a peer may do in good faith goes on.

use std::time::Duration;

use anywire_http::h2::{Abuse, Code, Error, Limits, ResponseParts};
use anywire_http::{Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// A server that answers at once, with a body that does not end.
struct Server {
    end: End,
    requests: usize,
}

impl Server {
    fn new(limits: Limits) -> Self {
        Self { end: End::server(limits), requests: 0 }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.end.take(bytes, |end, event| {
            if event.contains(" GET ") {
                self.requests += 1;
                let id = end.newest.expect("just begun");
                let headers = Headers::new();
                let parts = ResponseParts::new(StatusCode::OK, &headers);
                end.engine.respond(id, &parts, false, &mut end.out).expect("open");
                end.engine.wants_to_send(id, true);
            }
        })
    }

    /// Sends a little data of the stream whose turn it is.
    fn send(&mut self) {
        let End { engine, out, .. } = &mut self.end;
        if let Some((id, room)) = engine.next_to_send() {
            let length = room.min(100);
            engine.data_head(id, length, false, out);
            out.extend(std::iter::repeat_n(b'x', length));
        }
    }
}

/// Sends one piece after the other until the server ends the connection. Returns the error, and how many it took.
fn abuse(limits: Limits, mut piece: impl FnMut(u32) -> Vec<u8>) -> (Error, u32) {
    let mut server = Server::new(limits);
    for count in 0..100_000 {
        let before = server.end.out.len();
        let taken = server.take(&piece(count));
        server.send();
        assert!(
            server.end.out.len() - before < 64 * 1024,
            "one piece costs {} bytes",
            server.end.out.len() - before
        );
        assert!(server.end.engine.open_streams() <= limits.streams);
        if let Err(error) = taken {
            assert_eq!(error.code(), Code::ENHANCE_YOUR_CALM, "{error}");
            assert!(
                server.end.out.ends_with(&Code::ENHANCE_YOUR_CALM.0.to_be_bytes()),
                "GOAWAY is the last that leaves"
            );
            assert_eq!(server.take(&request(99_999, true)), Err(error), "nothing is taken any more");
            return (error, count);
        }
    }
    panic!("it goes on for ever")
}

fn stream(count: u32) -> u32 {
    count * 2 + 1
}

#[test]
fn streams_that_end_too_early() {
    let limits = Limits::default();
    let excess = Error::Excess { what: Abuse::Resets, limit: 200 };
    let rst = |id| frame(RST_STREAM, 0, id, &Code::CANCEL.0.to_be_bytes());
    // CVE-2023-44487: asked and taken back.
    let rapid_reset = abuse(limits, |count| [request(stream(count), false), rst(stream(count))].concat());
    assert_eq!(rapid_reset, (excess, 200));
    // CVE-2025-8671: made to be reset by us.
    let made_you_reset = abuse(limits, |count| {
        [request(stream(count), false), frame(WINDOW_UPDATE, 0, stream(count), &[0; 4])].concat()
    });
    assert_eq!(made_you_reset, (excess, 200));
    // CVE-2019-9516: names without a letter.
    let empty_names = abuse(limits, |count| {
        frame(HEADERS, END_HEADERS | END_STREAM, stream(count), &[REQUEST, &[0; 300]].concat())
    });
    assert_eq!(empty_names, (excess, 200));
    // More than may be open at once, again and again.
    let (error, count) = abuse(limits, |count| request(stream(count), false));
    assert_eq!((error, count), (excess, 256 + 200));
    // By one that never says that it knows the limit.
    let mut server = Server::new(limits);
    server.end.engine = anywire_http::h2::Engine::server(limits, server.end.now, &mut Vec::new());
    server.take(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).expect("a good start");
    let refused = (0..).find_map(|count| server.take(&request(stream(count), false)).err());
    assert_eq!(refused, Some(Error::Excess { what: Abuse::IdleFrames, limit: 1000 }));
    // Heads above their limit.
    let large = [b"\x40\x01x\x7f\xa1\x1f".as_slice(), &[b'x'; 4000 + 128]].concat();
    let (error, count) = abuse(limits, |count| {
        let block = [REQUEST, &large, &large, &large, &large, &large].concat();
        let (first, rest) = block.split_at(16_000);
        [
            frame(HEADERS, END_STREAM, stream(count), first),
            frame(CONTINUATION, END_HEADERS, stream(count), rest),
        ]
        .concat()
    });
    assert_eq!((error, count), (excess, 200));
}

#[test]
fn frames_that_move_nothing() {
    let limits = Limits::default();
    let excess = Error::Excess { what: Abuse::IdleFrames, limit: 1000 };
    let settings = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let floods: [(&str, Vec<u8>); 9] = [
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", settings),
        ("SETTINGS acknowledged", frame(SETTINGS, ACK, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 8])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0; 5])),
        ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1'])),
        ("unknown", frame(99, 0, 0, &[])),
        ("empty DATA", frame(DATA, 0, 1, &[])),
    ];
    for (name, flood) in floods {
        let (error, count) =
            abuse(limits, |count| if count == 0 { request(1, false) } else { flood.clone() });
        assert_eq!(error, excess, "{name}");
        // The answer's window holds 655 pieces, each of which makes up for three frames, at once or later.
        assert!((2950..=2980).contains(&count), "{name}: {count}");
    }
    // Heads that nobody asks for: their stream was reset, for a window's frame that counts, too.
    let reset = [request(1, false), frame(WINDOW_UPDATE, 0, 1, &[0; 4])].concat();
    let head = frame(HEADERS, END_HEADERS, 1, REQUEST);
    let (error, count) = abuse(limits, |count| if count == 0 { reset.clone() } else { head.clone() });
    assert_eq!((error, count), (excess, 1002));
}

#[test]
fn a_window_that_opens_by_single_bytes() {
    let tiny = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let (error, count) = abuse(Limits::default(), |count| match count {
        0 => [tiny.clone(), request(1, true)].concat(),
        _ => frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
    });
    assert_eq!(error, Error::Excess { what: Abuse::IdleFrames, limit: 1000 });
    assert!((990..=1010).contains(&count), "{count}");
}

#[test]
fn header_blocks_without_an_end() {
    // CVE-2024-27316.
    let (error, count) = abuse(Limits::default(), |count| match count {
        0 => frame(HEADERS, END_STREAM, 1, REQUEST),
        _ => frame(CONTINUATION, 0, 1, b""),
    });
    assert_eq!((error, count), (Error::Excess { what: Abuse::Continuations, limit: 8 }, 9));
}

#[test]
fn few_bytes_that_mean_many() {
    // A field of 4,000 bytes that goes into the table, and then its index, a byte each.
    let bomb = [REQUEST, b"\x40\x01x\x7f\xa1\x1e", &[b'x'; 4000], &[0x80 | 62; 12_000]].concat();
    let (error, count) = abuse(Limits::default(), |_| frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert_eq!((error, count), (Error::Excess { what: Abuse::HeadBytes, limit: 16 * 1024 }, 0));
}

#[test]
fn good_faith_lasts() {
    let mut server = Server::new(Limits::default());
    let mut id = 1;
    // A minute of a busy client: it cancels 40 streams each second, pings, and opens windows as it reads.
    for _ in 0..60 {
        server.end.now += Duration::from_secs(1);
        for turn in 0..100 {
            server.take(&request(id, true)).expect("good");
            server.send();
            if turn < 40 {
                server.take(&frame(RST_STREAM, 0, id, &Code::CANCEL.0.to_be_bytes())).expect("good");
            } else {
                let newest = server.end.newest.expect("just begun");
                server.end.engine.data_head(newest, 0, true, &mut server.end.out);
            }
            server.take(&frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 100])).expect("good");
            id += 2;
        }
        server.take(&frame(PING, 0, 0, &[0; 8])).expect("good");
        server.end.out.clear();
    }
    assert_eq!((server.requests, server.end.engine.open_streams()), (6000, 0));
}

#[test]
fn a_peer_may_open_windows_for_each_message() {
    // As gRPC's core does, which asks for the round trip now and then, too.
    let mut server = Server::new(Limits::default());
    server.take(&request(1, false)).expect("good");
    let id = server.end.newest.expect("just begun");
    for message in 0..5_000 {
        let engine = &mut server.end.engine;
        engine.wants_to_send(id, true);
        assert!(engine.next_to_send().is_some(), "the windows are open");
        engine.data_head(id, 1, false, &mut server.end.out);
        server.end.out.push(b'x');
        let opens = |stream| frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]);
        server.take(&[frame(DATA, 0, 1, b"x"), opens(0), opens(1)].concat()).expect("good");
        if message % 100 == 0 {
            server.take(&frame(PING, 0, 0, &[0; 8])).expect("good");
        }
        server.end.engine.consumed(id, 1, &mut server.end.out);
        server.end.out.clear();
    }
}

/// As Go's client does: two for each 4 KiB that its user reads, and that may be long after all has come.
#[test]
fn a_peer_may_open_windows_long_after() {
    let mut server = Server::new(Limits::default());
    let large = frame(SETTINGS, 0, 0, &[0, 4, 0, 0x40, 0, 0]);
    let opens = |stream, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    server.take(&[large, opens(0, 1 << 30), request(1, true)].concat()).expect("good");
    let id = server.end.newest.expect("just begun");
    for _ in 0..(4 << 20) / 16_384 {
        assert!(server.end.engine.next_to_send().is_some(), "the windows are open");
        server.end.engine.data_head(id, 16_384, false, &mut server.end.out);
        server.end.out.clear();
    }
    for _ in 0..(4 << 20) / 4096 {
        server.take(&[opens(0, 4096), opens(1, 4096)].concat()).expect("good");
    }
}

#[test]
fn a_server_may_open_windows_for_each_request() {
    let mut client = End::client(Limits::default());
    let mut head = RequestHead::new(Method::POST, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    for _ in 0..5_000 {
        let id = client.engine.open(&head, Some(1), false, &mut client.out).expect("a slot");
        client.engine.data_head(id, 1, true, &mut client.out);
        let answer = [
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
            frame(WINDOW_UPDATE, 0, id.get(), &[0, 0, 0, 1]),
            frame(HEADERS, END_HEADERS | END_STREAM, id.get(), b"\x89"),
        ];
        client.take(&answer.concat(), |_, _| {}).expect("good");
        client.out.clear();
    }
}
