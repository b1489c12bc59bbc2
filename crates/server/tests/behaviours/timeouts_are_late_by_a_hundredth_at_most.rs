//! Each timeout of [`Limits`], set to a millisecond, a minute and much between: it is never early, and late by 1 ms and
//! 1 % of its length at most.
//!
//! Server and peer share one loop, whose time stands still while one of them has something to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anywire_http::h2::Limits as Http2;
use anywire_loops::Loops;
use anywire_server::{Counters, Limits, Router, Server, ServerHandle};
use anywire_wire::{Address, Connection, Dialer};
use bytes::Bytes;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, pause, sleep_until};

use crate::support::h2::{ACK, END_HEADERS, HEADERS, PREFACE, REQUEST, SETTINGS, frame, literals, request};

/// A timeout: how it is set, what a peer does to meet it, and what counts that it has.
struct Timeout {
    name: &'static str,
    set: fn(&mut Limits, Duration),
    play: fn(Connection) -> Playing,
    count: fn(&Counters) -> u64,
}

/// Gives the connection, and the time from which the timeout counts.
type Playing = Pin<Box<dyn Future<Output = (Connection, Instant)>>>;

const TIMEOUTS: &[Timeout] = &[
    Timeout {
        name: "head_timeout, of a peer that says nothing",
        set: |limits, after| limits.head_timeout = after,
        play: |peer| played(peer, &[]),
        count: |counters| counters.head_timeouts,
    },
    Timeout {
        name: "head_timeout, of a second head",
        set: |limits, after| limits.head_timeout = after,
        play: |peer| played(peer, &[b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"GET / HTTP/1.1\r\n"]),
        count: |counters| counters.head_timeouts,
    },
    Timeout {
        name: "idle_timeout",
        set: |limits, after| limits.idle_timeout = after,
        play: |peer| played(peer, &[b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"]),
        count: |counters| counters.idle_timeouts,
    },
    Timeout {
        name: "handler_timeout",
        set: |limits, after| limits.handler_timeout = after,
        play: |peer| played(peer, &[b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n"]),
        count: |counters| counters.handler_timeouts,
    },
    Timeout {
        name: "body_timeout",
        set: |limits, after| limits.body_timeout = after,
        play: |peer| played(peer, &[b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1"]),
        count: |counters| counters.body_timeouts,
    },
    Timeout {
        name: "min_rate_grace",
        set: |limits, after| (limits.min_rate_grace, limits.min_bytes_per_second) = (after, 1 << 40),
        play: |peer| {
            played(peer, &[b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", b"1", b"2", b"3"])
        },
        count: |counters| counters.slow_bodies,
    },
    Timeout {
        name: "write_timeout",
        set: |limits, after| limits.write_timeout = after,
        play: |peer| played(peer, &[b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n"]),
        count: |counters| counters.write_timeouts,
    },
    Timeout {
        name: "half_close_timeout",
        set: |limits, after| limits.half_close_timeout = after,
        play: |peer| {
            Box::pin(async {
                let (mut peer, _) = played(peer, &[b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n"]).await;
                settle().await;
                let begin = Instant::now();
                peer.half_close().await.expect("the server is there");
                (peer, begin)
            })
        },
        count: |counters| counters.half_close_timeouts,
    },
    Timeout {
        name: "linger_timeout",
        set: |limits, after| limits.linger_timeout = after,
        play: |peer| played(peer, &[b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"]),
        count: |counters| counters.linger_timeouts,
    },
    Timeout {
        name: "HTTP/2: head_timeout",
        set: |limits, after| limits.head_timeout = after,
        play: |peer| greeted(peer, &[&frame(HEADERS, END_HEADERS, 1, REQUEST)[..9]]),
        count: |counters| counters.head_timeouts,
    },
    Timeout {
        name: "HTTP/2: idle_timeout",
        set: |limits, after| limits.idle_timeout = after,
        play: |peer| greeted(peer, &[]),
        count: |counters| counters.idle_timeouts,
    },
    Timeout {
        name: "HTTP/2: handler_timeout",
        set: |limits, after| limits.handler_timeout = after,
        play: |peer| {
            let never = [b"\x82\x86\x44\x06/never", &literals(&[(":authority", "a")])[..]].concat();
            greeted(peer, &[&frame(HEADERS, END_HEADERS | 1, 1, &never)])
        },
        count: |counters| counters.handler_timeouts,
    },
    Timeout {
        name: "HTTP/2: body_timeout",
        set: |limits, after| limits.body_timeout = after,
        play: |peer| {
            let post = [b"\x83\x86\x84", &literals(&[(":authority", "a")])[..]].concat();
            greeted(peer, &[&frame(HEADERS, END_HEADERS, 1, &post)])
        },
        count: |counters| counters.body_timeouts,
    },
    Timeout {
        name: "HTTP/2: settings_deadline",
        set: |limits, after| limits.http2.settings_deadline = after,
        play: |peer| played_at_once(peer, &[PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1, true)]),
        count: |counters| counters.silent_peers,
    },
    Timeout {
        name: "HTTP/2: ping_deadline",
        set: |limits, after| {
            (limits.http2.ping_interval, limits.http2.ping_deadline) = (Some(Duration::ZERO), after);
        },
        play: |peer| greeted(peer, &[]),
        count: |counters| counters.silent_peers,
    },
];

/// Sends each part when the answer to the one before has come. The timeout counts from the last.
fn played(mut peer: Connection, parts: &[&[u8]]) -> Playing {
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
    Box::pin(async move {
        let mut begin = Instant::now();
        for part in parts {
            settle().await;
            begin = Instant::now();
            peer.write_all(&part).await.expect("the server takes it");
        }
        (peer, begin)
    })
}

/// As [`played`], all in one.
fn played_at_once(peer: Connection, parts: &[&[u8]]) -> Playing {
    played(peer, &[&parts.concat()])
}

/// As [`played`], behind the beginning of a connection of HTTP/2.
fn greeted(peer: Connection, parts: &[&[u8]]) -> Playing {
    let greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    let parts = [&[&greeting[..]], parts].concat();
    played(peer, &parts)
}

/// Lets everybody else do what there is to do, without time passing.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

fn router() -> Router {
    static LARGE: [u8; 1 << 20] = [b'x'; 1 << 20];
    Router::new()
        .get("/", async || "ok")
        .post("/", async |body: Bytes| body.len().to_string())
        .get("/never", async || std::future::pending::<()>().await)
        .get("/large", async || Bytes::from_static(&LARGE))
}

/// No timeout comes before this, but the one that is tried.
const NO_TIMEOUT: Duration = Duration::from_secs(1000 * 24 * 60 * 60);

fn limits() -> Limits {
    Limits {
        head_timeout: NO_TIMEOUT,
        idle_timeout: NO_TIMEOUT,
        body_timeout: NO_TIMEOUT,
        handler_timeout: NO_TIMEOUT,
        write_timeout: NO_TIMEOUT,
        min_bytes_per_second: 0,
        min_rate_grace: NO_TIMEOUT,
        half_close_timeout: NO_TIMEOUT,
        linger_timeout: NO_TIMEOUT,
        http2: Http2 { settings_deadline: NO_TIMEOUT, ping_deadline: NO_TIMEOUT, ..Http2::default() },
        ..Limits::default()
    }
}

#[test]
fn each_timeout_is_late_by_a_millisecond_and_a_hundredth_at_most() {
    std::thread::scope(|threads| {
        for timeout in TIMEOUTS {
            let named = std::thread::Builder::new().name(timeout.name.to_owned());
            named.spawn_scoped(threads, || try_lengths(timeout)).expect("the system has threads left");
        }
    });
}

fn try_lengths(timeout: &'static Timeout) {
    for ms in [1, 10, 150, 1000, 10_000, 60_000] {
        try_length(timeout, Duration::from_millis(ms));
    }
    try_length(timeout, Duration::MAX);
}

fn try_length(timeout: &'static Timeout, after: Duration) {
    let loops = Loops::start(1).expect("one loop can be had");
    let mut limits = limits();
    (timeout.set)(&mut limits, after);
    let server = Server::new(router()).limits(limits).on(&loops).listen("memory:");
    let running = Arc::new(server.start().expect("a free name"));
    let address = running.addresses().next().expect("one address").clone();
    let seen = Arc::clone(&running);
    let watched = loops.get(0).spawn(move || watch(timeout, after, address, seen)).wait();
    watched.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loops.get(0).counters().panics, 0, "{}", timeout.name);
}

async fn watch(timeout: &Timeout, after: Duration, address: Address, server: Arc<ServerHandle>) {
    pause();
    let peer = Dialer::default().dial(&address).await.expect("it listens");
    let (_peer, begin) = (timeout.play)(peer).await;
    let expired = || (timeout.count)(&server.counters());
    let name = timeout.name;
    settle().await;
    if after == Duration::MAX {
        sleep_until(begin + Duration::from_secs(600)).await;
        assert_eq!(expired(), 0, "{name}: the endless one expired");
        return;
    }
    if let Some(most) = after.checked_sub(Duration::from_millis(2)) {
        sleep_until(begin + most).await;
    }
    while expired() == 0 {
        let late = begin.elapsed().saturating_sub(after);
        assert!(late <= Duration::from_millis(1) + after / 100, "{name}: {after:?} has not expired in time");
        advance(STEP).await;
        settle().await;
    }
    assert!(begin.elapsed() >= after, "{name}: {after:?} expired after {:?}", begin.elapsed());
}

const STEP: Duration = Duration::from_micros(100);
