//! Every phase of a request with all deadlines on, at a fifth of their defaults: nothing comes, one byte comes at a
//! time, or nothing is taken. Which deadline fires, what the peer sees, and that no other deadline fired.
//!
//! A peer with a pace sleeps between its steps. The assertions say what happened, never when.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{HANG, Peer, Remote, Served};
use anywire_http::Body;
use anywire_server::{Counters, Router};
use bytes::Bytes;

/// What a peer does, and which count says that it was seen.
struct Phase {
    name: &'static str,
    play: fn(&Served),
    /// The timeout that counts, once, or one of these; none if there are none.
    expires: &'static [&'static str],
}

/// A peer that takes what the wire's buffers hold and then nothing: by their size it is silent or slow first.
const NOT_TAKEN: &[&str] = &["write", "slow reader"];

const PHASES: &[Phase] = &[
    Phase { name: "fresh, nothing comes", play: fresh_and_silent, expires: &["head"] },
    Phase { name: "fresh, the head drips", play: fresh_and_dripping, expires: &["head"] },
    Phase { name: "fresh, empty lines drip", play: fresh_and_blank, expires: &["head"] },
    Phase { name: "idle, empty lines drip", play: idle_and_blank, expires: &["idle"] },
    Phase { name: "the second head drips", play: second_head_drips, expires: &["head"] },
    Phase { name: "requests come in pieces without a pause", play: requests_in_pieces, expires: &[] },
    Phase { name: "idle", play: idle, expires: &["idle"] },
    Phase { name: "idle, half an empty line came first", play: idle_after_half_a_line, expires: &[] },
    Phase { name: "the handler is silent", play: handler_is_silent, expires: &["handler"] },
    Phase { name: "the handler of a HEAD is silent", play: handler_of_head_is_silent, expires: &["handler"] },
    Phase { name: "the handler is silent, requests drip", play: requests_drip, expires: &["handler"] },
    Phase { name: "the handler ignores a body that drips", play: ignored_body_drips, expires: &["handler"] },
    Phase {
        name: "the handler reads some and is silent",
        play: handler_stops_reading,
        expires: &["handler"],
    },
    Phase { name: "the body does not come", play: body_does_not_come, expires: &["body"] },
    Phase { name: "the body drips", play: body_drips, expires: &["slow body"] },
    Phase { name: "the body comes at a decent rate", play: body_comes, expires: &[] },
    Phase { name: "an echo's body stops", play: echo_stops, expires: &["body"] },
    Phase { name: "an echo's body drips", play: echo_drips, expires: &["slow body"] },
    Phase { name: "an ignored body does not come", play: discarded_stops, expires: &["body"] },
    Phase { name: "an ignored body drips", play: discarded_drips, expires: &["slow body"] },
    Phase { name: "the answer is not taken", play: answer_is_not_taken, expires: NOT_TAKEN },
    Phase { name: "a lively stream is not taken", play: stream_is_not_taken, expires: NOT_TAKEN },
    Phase { name: "earlier answers are not taken", play: earlier_answers_are_not_taken, expires: NOT_TAKEN },
    Phase { name: "the answer is taken at a decent rate", play: answer_is_taken, expires: &[] },
    Phase { name: "half-closed, the handler is silent", play: half_closed_handler, expires: &["half-close"] },
    Phase { name: "half-closed, the stream is silent", play: half_closed_stream, expires: &["half-close"] },
    Phase { name: "half-closed, the stream is not taken", play: half_closed_not_taken, expires: NOT_TAKEN },
    Phase { name: "half-closed, the stream is lively", play: half_closed_lively, expires: &[] },
    Phase { name: "lingering, the peer stays", play: peer_stays, expires: &["linger"] },
    Phase { name: "lingering, the peer drips", play: peer_stays_and_drips, expires: &["linger"] },
];

#[test]
fn a_reader_that_takes_single_bytes_is_too_slow() {
    crate::support::on_each_wire(|scene| {
        // With buffers of the kernel between, the server cannot see single bytes being taken.
        if !scene.is("memory") {
            return;
        }
        let served = scene.serve_fivefold_faster(router());
        let mut peer = sent(&served, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        let hang = Instant::now() + HANG;
        while !is_over(&served.running.counters()) {
            assert!(Instant::now() < hang, "{:?}", served.running.counters());
            sleep(DRIP);
            let _ = peer.link.read(&mut [0; 1]);
        }
        // A machine that stands still makes the reader a silent one.
        let expired = timeouts(&served.running.counters());
        assert!(matches!(expired[..], [one] if NOT_TAKEN.contains(&one)), "{expired:?}");
    });
}

#[test]
fn each_deadline_fires_for_its_own_phase() {
    crate::support::on_few_wires_at_a_time(4, |scene| {
        std::thread::scope(|threads| {
            for phase in PHASES {
                let served = scene.serve_fivefold_faster(router());
                let named = std::thread::Builder::new().name(format!("{scene:?}: {}", phase.name));
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
        let is_after = |name| ["idle", "linger"].contains(&name) && !phase.expires.contains(&name);
        expired.retain(|&name| !is_after(name));
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
    ];
    counts.into_iter().flat_map(|(name, count)| (0..count).map(move |_| name)).collect()
}

fn router() -> Router {
    Router::new()
        .get("/", async || "ok")
        .get("/never", async || std::future::pending::<()>().await)
        .post("/never", async || std::future::pending::<()>().await)
        .post("/reads-some", async |mut body: Body| {
            body.chunk().await.expect("some has come");
            std::future::pending::<()>().await;
        })
        .post("/ignores", async || "ignored")
        .post("/collects", async |body: Bytes| body.len().to_string())
        .post("/echo", async |body: Body| body)
        .get("/large", async || Bytes::from_static(&LARGE))
        .get("/silent", async || ticking(usize::MAX, Duration::from_secs(3600)))
        .get("/lively", async || ticking(60, Duration::from_millis(50)))
        .get("/lively-and-large", async || ticking(usize::MAX, Duration::from_millis(1)))
}

/// Larger than what the kernel's buffers hold, by Linux's defaults.
static LARGE: [u8; 24 * 1024 * 1024] = [b'x'; 24 * 1024 * 1024];

/// A body that gives its first chunk at once, and then one after each interval, as long as it is read.
fn ticking(chunks: usize, interval: Duration) -> Body {
    let (mut sender, body) = Body::channel(64 * 1024);
    drop(anywire_loops::spawn(async move {
        for _ in 0..chunks {
            if sender.ready().await.is_err()
                || sender.try_send(Bytes::from_static(&LARGE[..16 * 1024])).is_err()
            {
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

/// Sends single bytes until the server closes. Returns the answer.
fn drip(peer: &mut Peer<Remote>) -> Vec<u8> {
    drip_of(peer, DRIP, b"x")
}

fn drip_of(peer: &mut Peer<Remote>, interval: Duration, drop_of_it: &'static [u8]) -> Vec<u8> {
    std::thread::scope(|threads| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let mut writer = peer.link.clone();
        threads.spawn(move || {
            while stopped
                .recv_timeout(interval)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let _ = writer.write_all(drop_of_it);
            }
        });
        let rest = peer.rest();
        drop(stop);
        rest
    })
}

/// Waits until the server has given the connection up.
fn await_abort(served: &Served) {
    served.await_count("given up", |counters| u64::from(is_over(counters)), 1);
}

/// The one connection of a scene has come and gone, after that of `serve_fivefold_faster`.
fn is_over(counters: &Counters) -> bool {
    counters.connections == 2 && counters.connections_open == 0
}

/// Sends single bytes and reads nothing.
fn drip_until(peer: &mut Peer<Remote>, is_over: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_over() && Instant::now() < hang {
        sleep(DRIP);
        peer.send("x");
    }
}

#[track_caller]
fn assert_status(answer: &[u8], status: &str) {
    let text = String::from_utf8_lossy(answer);
    assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text:?} instead of {status}");
}

fn sent(served: &Served, bytes: &str) -> Peer<Remote> {
    let mut peer = served.connect();
    peer.send(bytes);
    peer
}

fn fresh_and_silent(served: &Served) {
    served.connect().assert_closed();
}

fn fresh_and_dripping(served: &Served) {
    assert_status(&drip(&mut sent(served, "GET /")), "408");
}

/// Rare enough that not many empty lines arrive together, which would be refused.
const RARE: Duration = Duration::from_millis(300);

fn fresh_and_blank(served: &Served) {
    assert_eq!(drip_of(&mut served.connect(), RARE, b"\r\n"), b"");
}

fn idle_and_blank(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(drip_of(&mut peer, RARE, b"\r\n"), b"");
}

fn second_head_drips(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.send("GET /");
    assert_status(&drip(&mut peer), "408");
}

fn idle(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.assert_closed();
}

/// Whenever the server waits, half a head has come: it is never idle, and never waits for one head for long.
fn requests_in_pieces(served: &Served) {
    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let (first, second) = REQUEST.split_at(REQUEST.len() / 2);
    let mut peer = sent(served, first);
    for _ in 0..40 {
        sleep(DRIP);
        peer.send([second, first].concat());
        assert_eq!(peer.answer(false).text(), "ok");
    }
}

/// A wait between the answer and the idle time leaves no deadline behind.
fn idle_after_half_a_line(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\n\r\n\r");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.send("\n");
    // Longer than the deadline of a head, and much shorter than that of an idle connection.
    sleep(40 * DRIP);
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
}

fn handler_of_head_is_silent(served: &Served) {
    let answer = sent(served, "HEAD /never HTTP/1.1\r\nhost: x\r\n\r\n").rest();
    assert_status(&answer, "503");
    assert!(answer.ends_with(b"\r\n\r\n"), "{:?}", String::from_utf8_lossy(&answer));
}

fn handler_is_silent(served: &Served) {
    assert_status(&sent(served, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n").rest(), "503");
}

fn requests_drip(served: &Served) {
    assert_status(&drip(&mut sent(served, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n")), "503");
}

fn ignored_body_drips(served: &Served) {
    let head = "POST /never HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n";
    assert_status(&drip(&mut sent(served, head)), "503");
}

fn handler_stops_reading(served: &Served) {
    let head = "POST /reads-some HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nsome";
    assert_status(&sent(served, head).rest(), "503");
}

fn body_does_not_come(served: &Served) {
    let head = "POST /collects HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n";
    assert_status(&sent(served, head).rest(), "408");
}

fn body_drips(served: &Served) {
    let head = "POST /collects HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n";
    assert_status(&drip(&mut sent(served, head)), "408");
}

/// Longer than the handler's deadline, and three times as fast as the least rate.
fn body_comes(served: &Served) {
    const PIECES: usize = 130;
    let mut peer = served.connect();
    let length = PIECES * 3 * 1024;
    peer.send(format!("POST /collects HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"));
    for _ in 0..PIECES {
        sleep(Duration::from_millis(100));
        peer.send(&LARGE[..3 * 1024]);
    }
    assert_eq!(peer.answer(false).text(), length.to_string());
}

fn echo_stops(served: &Served) {
    let mut peer = sent(served, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nsome");
    let rest = peer.rest();
    assert!(rest.ends_with(b"\r\n\r\nsome"), "{:?}", String::from_utf8_lossy(&rest));
}

fn echo_drips(served: &Served) {
    let mut peer = sent(served, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nsome");
    assert_status(&drip(&mut peer), "200");
}

fn discarded_stops(served: &Served) {
    let mut peer = sent(served, "POST /ignores HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ignored");
    peer.assert_closed();
}

fn discarded_drips(served: &Served) {
    let mut peer = sent(served, "POST /ignores HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ignored");
    assert_eq!(drip(&mut peer), b"");
}

fn answer_is_not_taken(served: &Served) {
    let peer = sent(served, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
    await_abort(served);
    drop(peer);
}

fn stream_is_not_taken(served: &Served) {
    let peer = sent(served, "GET /lively-and-large HTTP/1.1\r\nhost: x\r\n\r\n");
    await_abort(served);
    drop(peer);
}

/// A handler that works and a body that drips wake the connection all the while.
fn earlier_answers_are_not_taken(served: &Served) {
    let mut peer =
        sent(served, "GET /large HTTP/1.1\r\nhost: x\r\n\r\nGET /never HTTP/1.1\r\nhost: x\r\n\r\n");
    drip_until(&mut peer, || is_over(&served.running.counters()));
}

/// For longer than the deadline for writing, and much faster than the least rate.
fn answer_is_taken(served: &Served) {
    let mut peer = sent(served, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
    let head = peer.head();
    assert_eq!(head.header("content-length"), Some("25165824"));
    for _ in 0..160 {
        sleep(DRIP);
        peer.read_exactly(LARGE.len() / 160);
    }
    peer.read_exactly(LARGE.len() % 160);
}

fn half_closed_handler(served: &Served) {
    let mut peer = sent(served, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.half_close();
    let (rest, ended_in_order) = peer.rest_and_end();
    assert!(rest.is_empty() && ended_in_order, "{rest:?}");
}

/// The end of the input is seen before the answer fills the wire.
fn half_closed_not_taken(served: &Served) {
    let mut peer = sent(served, "GET /lively-and-large HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.half_close();
    assert_eq!(peer.head().status, 200);
    await_abort(served);
    drop(peer);
}

fn half_closed_stream(served: &Served) {
    let mut peer = sent(served, "GET /silent HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.half_close();
    assert_eq!(peer.head().status, 200);
    assert_eq!(peer.chunk().map(|chunk| chunk.len()), Some(16 * 1024));
    let (rest, ended_in_order) = peer.rest_and_end();
    assert_eq!(rest, b"");
    // A Unix socket knows no reset.
    assert_eq!(ended_in_order, served.address.scheme() == "unix");
}

fn half_closed_lively(served: &Served) {
    let mut peer = sent(served, "GET /lively HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.half_close();
    assert_eq!(peer.answer(false).body.len(), 60 * 16 * 1024);
}

fn peer_stays(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.assert_closed();
    served.await_count("linger_timeouts", |counters| counters.linger_timeouts, 1);
}

fn peer_stays_and_drips(served: &Served) {
    let mut peer = sent(served, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.assert_closed();
    drip_until(&mut peer, || served.running.counters().linger_timeouts > 0);
}
