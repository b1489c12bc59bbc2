//! Each abuse of HTTP/2 that has a name, on a connection of its own: the connection ends with a GOAWAY that says why, the
//! counter of that abuse grows by one, and another connection of the same loop is answered all the while.

use crate::support::h2::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, PING, PREFACE, PRIORITY,
    PRIORITY_UPDATE, REQUEST, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, frames, request,
};
use crate::support::{Scene, Served};
use anywire_http::h2::Code;
use anywire_server::{Counters, Limits, Router};
use bytes::Bytes;

/// What a peer sends, first once and then again and again.
struct Abuse {
    name: &'static str,
    first: Vec<u8>,
    again: Box<dyn Fn(u32) -> Vec<u8> + Sync>,
    /// What counts it.
    counter: fn(&Counters) -> u64,
}

#[test]
fn rapid_reset() {
    // CVE-2023-44487: asked, and taken back while the handler runs.
    let rst = |stream| frame(RST_STREAM, 0, stream, &Code::CANCEL.0.to_be_bytes());
    play(&[
        resets("with the request", move |stream| [request(stream, true), rst(stream)].concat()),
        resets("in the middle of the body", move |stream| {
            [request(stream, false), frame(DATA, 0, stream, b"abc"), rst(stream)].concat()
        }),
    ]);
}

#[test]
fn made_you_reset() {
    // CVE-2025-8671: the peer breaks a rule in such a way that the reset is ours.
    let asks_and = |stream, kind, flags, payload: &[u8]| {
        [request(stream, true), frame(kind, flags, stream, payload)].concat()
    };
    play(&[
        resets("a window that opens by nothing", move |s| asks_and(s, WINDOW_UPDATE, 0, &[0; 4])),
        resets("a window that is too large", move |s| asks_and(s, WINDOW_UPDATE, 0, &[0x7f, 255, 255, 255])),
        resets("DATA behind the end", move |s| asks_and(s, DATA, 0, b"x")),
        resets("HEADERS behind the end", move |s| asks_and(s, HEADERS, END_HEADERS | END_STREAM, REQUEST)),
        resets("PRIORITY of another size", move |s| asks_and(s, PRIORITY, 0, &[0; 4])),
        resets("more data than was stated", |stream| {
            let head = [REQUEST, b"\x0f\x0d\x011"].concat();
            [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, 0, stream, b"xx")].concat()
        }),
    ]);
}

#[test]
fn requests_that_are_none() {
    let large = [b"\x40\x01x\x7f\xa1\x1f".as_slice(), &[b'x'; 4000 + 128]].concat();
    let large = [REQUEST, &large.repeat(5)].concat();
    play(&[
        // CVE-2019-9516.
        resets("names without a letter", |stream| {
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &[REQUEST, &[0; 300]].concat())
        }),
        resets("more streams than may be open", |stream| request(stream, true)),
        resets("heads above their limit", move |stream| {
            let (head, rest) = large.split_at(16_000);
            [frame(HEADERS, END_STREAM, stream, head), frame(CONTINUATION, END_HEADERS, stream, rest)]
                .concat()
        }),
    ]);
}

#[test]
fn frames_that_move_nothing() {
    let tiny = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let asks = [tiny, get("/large", 1)].concat();
    play(&[
        // CVE-2019-9512.
        idle("PING", frame(PING, 0, 0, &[0; 8])),
        // CVE-2019-9515.
        idle("SETTINGS", frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])),
        idle("SETTINGS acknowledged", frame(SETTINGS, ACK, 0, &[])),
        idle("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        // CVE-2019-9513.
        idle("PRIORITY", frame(PRIORITY, 0, 1, &[0; 5])),
        idle("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1'])),
        idle("frames of an unknown kind", frame(99, 0, 0, b"unknown")),
        // CVE-2019-9518.
        idle("empty DATA", frame(DATA, 0, 1, &[])),
        idle("padding without data", frame(DATA, 8, 1, &[3, 0, 0, 0])),
        Abuse { first: get("/", 1), ..idle("a stream that is gone", frame(RST_STREAM, 0, 1, &[0; 4])) },
        Abuse {
            first: [request(1, false), frame(WINDOW_UPDATE, 0, 1, &[0; 4])].concat(),
            ..idle("heads for a stream that was reset", frame(HEADERS, END_HEADERS, 1, REQUEST))
        },
        // CVE-2019-9517, and a variant of CVE-2019-9511.
        Abuse { first: asks, ..idle("a window of one byte", frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])) },
    ]);
}

#[test]
fn heads_without_an_end() {
    // CVE-2024-27316.
    let continuations = |name, payload: Vec<u8>| Abuse {
        name,
        first: frame(HEADERS, END_STREAM, 1, REQUEST),
        again: Box::new(move |_| frame(CONTINUATION, 0, 1, &payload)),
        counter: |counters| counters.continuation_floods,
    };
    play(&[
        continuations("empty", Vec::new()),
        continuations("full", [0x82; 16_384].to_vec()),
        continuations("a byte each", [0x82].to_vec()),
    ]);
}

#[test]
fn few_bytes_that_mean_many() {
    // A field of 4,000 bytes goes into the table; then comes its index, a byte each time (CVE-2016-6581).
    let bomb = [REQUEST, b"\x40\x01x\x7f\xa1\x1e", &[b'x'; 4000], &[0x80 | 62; 12_000]].concat();
    play(&[Abuse {
        name: "HPACK bomb",
        first: Vec::new(),
        again: Box::new(move |count| frame(HEADERS, END_HEADERS | END_STREAM, stream(count), &bomb)),
        counter: |counters| counters.header_bombs,
    }]);
}

fn resets(name: &'static str, again: impl Fn(u32) -> Vec<u8> + Sync + 'static) -> Abuse {
    let again = Box::new(move |count| again(stream(count)));
    Abuse { name, first: Vec::new(), again, counter: |counters| counters.reset_floods }
}

fn idle(name: &'static str, again: Vec<u8>) -> Abuse {
    let (first, again) = (request(1, false), Box::new(move |_| again.clone()));
    Abuse { name, first, again, counter: |counters| counters.frame_floods }
}

/// Far more than any limit.
const PIECES: u32 = 4000;

/// Plays one after the other on one loop of each wire.
fn play(abuses: &[Abuse]) {
    crate::support::on_each_wire(|scene| {
        let served = serve(scene);
        let mut bystander = H2::connect(&served);
        for (at, abuse) in abuses.iter().enumerate() {
            println!("{} on {scene:?}", abuse.name);
            assert_ends(&served, abuse, &mut bystander, at as u64 + 1);
        }
        let counters = served.running.counters();
        assert_eq!((counters.panics, counters.failures), (0, 0));
        assert_eq!(counters.connections_open, 1, "the bystander alone");
    });
}

/// The handler of `/` does not end: what ends its streams is the peer, or the server because of the peer.
fn serve(scene: &Scene) -> Served {
    let router = Router::new()
        .get("/", async || std::future::pending::<()>().await)
        .get("/ok", async || "ok")
        .get("/large", async || Bytes::from_static(&[b'x'; 1 << 20]));
    // What ends a connection is its abuse, however slow the machine is. A peer that waits for the end of the connection gets that at once,
    // and not when this has passed.
    let long = crate::support::HANG * 10;
    let limits = Limits {
        head_timeout: long,
        idle_timeout: long,
        body_timeout: long,
        handler_timeout: long,
        write_timeout: long,
        min_bytes_per_second: 0,
        half_close_timeout: long,
        linger_timeout: long,
        ..Limits::default()
    };
    scene.serve_on(1, router, limits)
}

fn assert_ends(served: &Served, abuse: &Abuse, bystander: &mut H2, counted: u64) {
    let mut peer = served.connect();
    peer.send([PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), &abuse.first].concat());
    for from in (0..PIECES).step_by(100) {
        let pieces: Vec<_> = (from..from + 100).map(&abuse.again).collect();
        peer.send(pieces.concat());
        assert_eq!(bystander.ask("/ok").text(), "ok", "{}", abuse.name);
        if (abuse.counter)(&served.running.counters()) == counted {
            break;
        }
    }
    let sent = peer.rest();
    let Some((GOAWAY, _, 0, payload)) = frames(&sent).pop() else {
        panic!("{}: {sent:?}", abuse.name);
    };
    assert_eq!(payload[4..8], Code::ENHANCE_YOUR_CALM.0.to_be_bytes(), "{}", abuse.name);
    served.await_count(abuse.name, abuse.counter, counted);
    drop(peer);
    served.await_count("open connections", |counters| counters.connections_open, 1);
    assert_eq!(bystander.ask("/ok").text(), "ok", "{}", abuse.name);
}

fn stream(count: u32) -> u32 {
    count * 2 + 1
}

fn get(path: &str, stream: u32) -> Vec<u8> {
    let block = [b"\x82\x86\x04", &[path.len() as u8][..], path.as_bytes(), b"\x41\x01a"].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}
