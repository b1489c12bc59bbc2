//! Every phase of a stream of HTTP/2, and of its connection, with all deadlines on, at a fifth of their defaults: nothing
//! comes, one byte comes at a time, or nothing is taken. Which deadline fires, that no other one fires, and that a stream
//! which is late ends alone.
//!
//! A peer with a pace sleeps between its steps. The assertions say what happened, never when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::h2::{
    CONTINUATION, Came, DATA, H2, HEADERS, PING, PREFACE, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::support::{HANG, Served};
use anywire_http::Body;
use anywire_http::h2::{Code, Limits as Http2, StreamId};
use anywire_server::{Counters, Router};
use bytes::Bytes;

/// What a peer does, and which count says that it was seen.
struct Phase {
    name: &'static str,
    play: fn(&Served),
    /// The timeout that counts, once, or one of these; none if there are none.
    expires: &'static [&'static str],
}

const PHASES: &[Phase] = &[
    Phase { name: "the preface drips", play: preface_drips, expires: &["head"] },
    Phase {
        name: "settings are not acknowledged",
        play: settings_are_not_acknowledged,
        expires: &["silent peer"],
    },
    Phase { name: "a frame drips", play: frame_drips, expires: &["head"] },
    Phase { name: "a head drips in many frames", play: continuations_drip, expires: &["head"] },
    Phase { name: "idle", play: idle, expires: &["idle"] },
    Phase { name: "idle, pings drip", play: idle_with_pings, expires: &["idle"] },
    Phase { name: "the handler is silent", play: handler_is_silent, expires: &["handler"] },
    Phase {
        name: "the handler is silent, frames drip",
        play: handler_is_silent_and_frames_drip,
        expires: &["handler"],
    },
    Phase { name: "the handler ignores a body that drips", play: ignored_body_drips, expires: &["handler"] },
    Phase { name: "the body does not come", play: body_does_not_come, expires: &["body"] },
    Phase { name: "the body drips", play: body_drips, expires: &["slow body"] },
    Phase { name: "empty parts of the body drip", play: empty_parts_drip, expires: &["body"] },
    Phase { name: "an echo's body stops", play: echo_stops, expires: &["body", "slow body"] },
    Phase { name: "the answer is not taken", play: answer_is_not_taken, expires: &["write"] },
    Phase {
        name: "the answer is taken by single bytes",
        play: answer_is_taken_by_bytes,
        expires: &["slow reader"],
    },
    Phase { name: "a lively stream is not taken", play: stream_is_not_taken, expires: &["write"] },
    Phase { name: "a body comes at a decent rate", play: body_comes, expires: &[] },
    Phase { name: "the answer is taken at a decent rate", play: answer_is_taken, expires: &[] },
    Phase { name: "a stream has nothing to say", play: silent_stream, expires: &[] },
    Phase { name: "requests come in pieces without a pause", play: requests_in_pieces, expires: &[] },
];

#[test]
fn each_stream_has_its_own_deadlines() {
    crate::support::on_each_wire(|scene| {
        std::thread::scope(|threads| {
            for phase in PHASES {
                let served = scene.serve_fivefold_faster(router());
                let named = std::thread::Builder::new().name(format!("{}, {scene:?}", phase.name));
                named
                    .spawn_scoped(threads, move || play(&served, phase))
                    .expect("the system has threads left");
            }
        });
    });
}

fn play(served: &Served, phase: &Phase) {
    (phase.play)(served);
    let hang = Instant::now() + HANG;
    loop {
        let mut expired = timeouts(&served.running.counters());
        // After its answer a peer may take its time to close.
        expired.retain(|name| !["idle", "linger"].contains(name) || phase.expires.contains(name));
        match expired[..] {
            [] if phase.expires.is_empty() => return,
            [one] if phase.expires.contains(&one) => return,
            [] if Instant::now() < hang => sleep(Duration::from_millis(1)),
            ref found => panic!("{found:?} expired"),
        }
    }
}

/// The deadlines that fired, once for each time.
fn timeouts(counters: &Counters) -> Vec<&'static str> {
    let counts = [
        ("head", counters.head_timeouts),
        ("idle", counters.idle_timeouts),
        ("handler", counters.handler_timeouts),
        ("body", counters.body_timeouts),
        ("slow body", counters.slow_bodies),
        ("write", counters.write_timeouts),
        ("slow reader", counters.slow_readers),
        ("half-close", counters.half_close_timeouts),
        ("linger", counters.linger_timeouts),
        ("silent peer", counters.silent_peers),
    ];
    counts.into_iter().flat_map(|(name, count)| (0..count).map(move |_| name)).collect()
}

fn router() -> Router {
    Router::new()
        .get("/", async || "ok")
        .get("/never", async || std::future::pending::<()>().await)
        .post("/never", async || std::future::pending::<()>().await)
        .post("/collects", async |body: Bytes| body.len().to_string())
        .post("/echo", async |body: Body| body)
        .get("/large", async || Bytes::from_static(&LARGE))
        .get("/silent", async || ticking(usize::MAX, Duration::from_secs(3600)))
        .get("/lively", async || ticking(usize::MAX, Duration::from_millis(10)))
}

static LARGE: [u8; 1024 * 1024] = [b'x'; 1024 * 1024];

/// A body that gives its first chunk at once, and then one after each interval, as long as it is read.
fn ticking(chunks: usize, interval: Duration) -> Body {
    let (mut sender, body) = Body::channel(64 * 1024);
    drop(anywire_loops::spawn(async move {
        for _ in 0..chunks {
            if sender.ready().await.is_err() || sender.try_send("tick").is_err() {
                return;
            }
            tokio::time::sleep(interval).await;
        }
        sender.finish();
    }));
    body
}

/// Far below a fifth of any deadline's default, so that only a machine that stands still makes it one.
const DRIP: Duration = Duration::from_millis(50);

/// Plays `with` while a drop leaves every now and then.
fn dripping<T>(peer: &mut H2, drop_of_it: &[u8], with: impl FnOnce(&mut H2) -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let mut link = peer.link.clone();
        let (drop_of_it, stops) = (drop_of_it.to_vec(), &is_over);
        threads.spawn(move || {
            // `with` may fail, and would be waited for without end.
            let hang = Instant::now() + HANG;
            while !stops.load(Ordering::Relaxed) && Instant::now() < hang {
                sleep(DRIP);
                let _ = std::io::Write::write_all(&mut link, &drop_of_it);
            }
        });
        let result = with(peer);
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// The connection lives, and answers.
#[track_caller]
fn assert_lives(peer: &mut H2) {
    assert_eq!(peer.ask("/").text(), "ok");
}

fn preface_drips(served: &Served) {
    let mut peer = served.connect();
    for byte in &PREFACE[..14] {
        sleep(DRIP);
        peer.send([*byte]);
    }
    peer.rest();
}

fn settings_are_not_acknowledged(served: &Served) {
    let mut peer = served.connect();
    peer.send([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    peer.rest();
}

fn frame_drips(served: &Served) {
    let mut peer = H2::connect(served);
    assert_lives(&mut peer);
    peer.raw(&[0, 3, 0, HEADERS, 4, 0, 0, 0, 3]);
    assert_eq!(dripping(&mut peer, b"x", H2::end), Some(Code::NO_ERROR));
}

fn continuations_drip(served: &Served) {
    let mut peer = H2::connect(served);
    assert_lives(&mut peer);
    let [method, scheme, path, authority] = [0x82, 0x86, 0x84, 0x01];
    peer.raw(&frame(HEADERS, 1, 3, &[method]));
    for part in [scheme, path, authority] {
        sleep(10 * DRIP);
        peer.raw(&frame(CONTINUATION, 0, 3, &[part]));
    }
    assert_eq!(peer.end(), Some(Code::NO_ERROR));
}

fn idle(served: &Served) {
    let mut peer = H2::connect(served);
    assert_lives(&mut peer);
    assert_eq!(peer.end(), Some(Code::NO_ERROR));
}

fn idle_with_pings(served: &Served) {
    let mut peer = H2::connect(served);
    assert_lives(&mut peer);
    assert_eq!(dripping(&mut peer, &frame(PING, 0, 0, &[0; 8]), H2::end), Some(Code::NO_ERROR));
}

fn handler_is_silent(served: &Served) {
    let mut peer = H2::connect(served);
    assert_eq!(peer.ask("/never").status(), 503);
    assert_lives(&mut peer);
}

fn handler_is_silent_and_frames_drip(served: &Served) {
    let mut peer = H2::connect(served);
    let drops = [frame(PING, 0, 0, &[0; 8]), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])].concat();
    assert_eq!(dripping(&mut peer, &drops, |peer| peer.ask("/never").status()), 503);
    assert_lives(&mut peer);
}

fn ignored_body_drips(served: &Served) {
    let mut peer = H2::connect(served);
    let id = peer.open("POST", "/never", &[], None, false);
    assert_eq!(dripping_body(&mut peer, id, b"x", |peer| peer.answer(id).status()), 503);
    assert_lives(&mut peer);
}

fn dripping_body<T>(peer: &mut H2, id: StreamId, drop_of_it: &[u8], with: impl FnOnce(&mut H2) -> T) -> T {
    dripping(peer, &frame(DATA, 0, id.get(), drop_of_it), with)
}

fn body_does_not_come(served: &Served) {
    let mut peer = H2::connect(served);
    let id = peer.open("POST", "/collects", &[], None, false);
    assert_eq!(peer.answer(id).status(), 408);
    assert_lives(&mut peer);
}

fn body_drips(served: &Served) {
    let mut peer = H2::connect(served);
    let id = peer.open("POST", "/collects", &[], None, false);
    assert_eq!(dripping_body(&mut peer, id, b"x", |peer| peer.answer(id).status()), 408);
    assert_lives(&mut peer);
}

fn empty_parts_drip(served: &Served) {
    let mut peer = H2::connect(served);
    let id = peer.open("POST", "/collects", &[], None, false);
    assert_eq!(dripping_body(&mut peer, id, b"", |peer| peer.answer(id).status()), 408);
    assert_lives(&mut peer);
}

fn echo_stops(served: &Served) {
    let mut peer = H2::connect(served);
    let id = peer.open("POST", "/echo", &[], None, false);
    peer.body(id, b"some", false);
    let answer = peer.answer(id);
    assert_eq!((answer.text(), answer.reset), ("some", Some(Code::CANCEL)));
    assert_lives(&mut peer);
}

/// A peer whose streams' windows stay as they are.
fn reading_nothing(served: &Served) -> H2 {
    let mut peer = H2::connect_with(served, Http2 { connection_window_bytes: 1 << 30, ..Http2::default() });
    peer.reads = false;
    peer
}

fn answer_is_not_taken(served: &Served) {
    let mut peer = reading_nothing(served);
    let id = peer.get("/large");
    assert_eq!(peer.answer(id).reset, Some(Code::CANCEL));
    assert_lives(&mut peer);
}

fn answer_is_taken_by_bytes(served: &Served) {
    // Half a window is worth an update: one byte.
    let mut peer = H2::connect_with(served, Http2 { stream_window_bytes: 2, ..Http2::default() });
    assert_lives(&mut peer);
    let id = peer.get("/large");
    loop {
        match peer.next() {
            Came::Head(..) => {}
            Came::Data(_, data, _) if data.len() <= 2 => sleep(DRIP),
            Came::Reset(of, code) => {
                assert_eq!((of, code), (id, Code::CANCEL));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_lives(&mut peer);
}

fn stream_is_not_taken(served: &Served) {
    let limits = Http2 { stream_window_bytes: 10, ..Http2::default() };
    let mut peer = H2::connect_with(served, limits);
    assert_lives(&mut peer);
    peer.reads = false;
    let id = peer.get("/lively");
    assert_eq!(peer.answer(id).reset, Some(Code::CANCEL));
    assert_lives(&mut peer);
}

/// Longer than the handler's deadline, and three times as fast as the least rate.
fn body_comes(served: &Served) {
    const PIECES: usize = 130;
    let mut peer = H2::connect(served);
    assert_lives(&mut peer);
    let id = peer.open("POST", "/collects", &[], None, false);
    for _ in 0..PIECES {
        sleep(Duration::from_millis(100));
        peer.body(id, &LARGE[..3 * 1024], false);
    }
    peer.body(id, b"", true);
    assert_eq!(peer.answer(id).text(), (PIECES * 3 * 1024).to_string());
}

/// For longer than the deadline for writing, and much faster than the least rate.
fn answer_is_taken(served: &Served) {
    let mut peer = H2::connect(served);
    peer.reads = false;
    let id = peer.get("/large");
    let mut taken = 0;
    while taken < LARGE.len() {
        match peer.next() {
            Came::Data(_, data, _) => {
                sleep(3 * DRIP);
                taken += data.len();
                peer.consumed(id, data.len());
            }
            Came::Head(..) => {}
            other => panic!("{other:?} after {taken}"),
        }
    }
}

/// For longer than any deadline of a stream.
fn silent_stream(served: &Served) {
    let mut peer = H2::connect(served);
    peer.get("/silent");
    assert!(matches!(peer.next(), Came::Head(..)));
    assert!(matches!(peer.next(), Came::Data(_, data, false) if data == b"tick"));
    sleep(Duration::from_secs(14));
    assert_lives(&mut peer);
}

/// Whenever the server waits, half a frame has come: it never waits for one for long.
fn requests_in_pieces(served: &Served) {
    let mut peer = served.connect();
    peer.send([PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, 1, 0, &[])].concat());
    let request = |stream| crate::support::h2::request(stream, true);
    let mut rest = Vec::new();
    for at in 0..80 {
        sleep(DRIP);
        let next = request(at * 2 + 1);
        let (first, second) = next.split_at(next.len() / 2);
        peer.send([&rest[..], first].concat());
        rest = second.to_vec();
    }
    // And the one that `serve_fivefold_faster` sent.
    served.await_count("requests", |counters| counters.requests, 79 + 1);
}
