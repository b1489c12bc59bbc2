//! A peer of HTTP/2 that breaks no rule makes a server hold bounded memory. It sends unread bodies in the smallest pieces, opens
//! streams whose handlers wait, keeps its windows closed, or reads no answer.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::{Body, BodyError};
use anywire_server::{Limits, Router, State};
use anywire_sys::memory::anonymous_bytes;
use bytes::Bytes;
use futures_core::Stream;
use support::h2::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, REQUEST, SETTINGS, WINDOW_UPDATE, frame,
    request,
};
use support::{Peer, Scene, Served};

/// How many peers do the same at once.
const PEERS: u64 = 4;

// One test: memory is the process's.
#[test]
fn http2_peers_take_bounded_memory() {
    let produced = Arc::new(AtomicUsize::new(0));
    let router = Router::new()
        .state(Arc::clone(&produced))
        .get("/ok", async || "ok")
        .get("/", async |_: Body| std::future::pending::<()>().await)
        .get("/lazy", async |produced: State<Arc<AtomicUsize>>| Body::stream(Lazy(Arc::clone(&produced))));
    let mut limits = Limits::default();
    let window = 4 * limits.http2.stream_window_bytes;
    limits.http2.connection_window_bytes = window;
    let served = Scene::tcp().serve_on(1, router, limits);

    let bytes: Vec<u8> = (0..4).flat_map(|at| frame(DATA, 0, at * 2 + 1, b"x").repeat(65_535)).collect();
    let requests: Vec<u8> = (0..4).flat_map(|at| request(at * 2 + 1, false)).collect();
    let before = anonymous_bytes().expect("/proc is mounted");
    let assert_below = |name, limit_bytes, play: &dyn Fn(&mut Peer<TcpStream>)| {
        assert_below(&served, name, before, limit_bytes, play);
    };
    // As much as the connection's window, and what a vector keeps as it grows.
    assert_below("bodies byte by byte", 3 * u64::from(window), &|peer| {
        peer.send(&requests);
        peer.send(&bytes);
        await_pong(peer);
    });

    let fields = [REQUEST, &[b"\0\x01x\x7f\x80\x18".as_slice(), &[b'x'; 3199]].concat()].concat();
    let requests: Vec<u8> =
        (0..256).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, &fields)).collect();
    // A head of 3 KiB and what belongs to a stream.
    assert_below("streams that wait", 256 * (8 << 10), &|peer| {
        peer.send(&requests);
        await_pong(peer);
    });

    let tiny = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let path = b"\x82\x86\x04\x05/lazy\x41\x01a";
    let asks: Vec<u8> =
        (0..256).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, path)).collect();
    assert_below("windows of one byte", 256 * (4 << 10) + 256 * CHUNK.len() as u64, &|peer| {
        peer.send([&tiny, &asks[..]].concat());
        await_pong(peer);
    });
    // Each is answered, and no answer is read, until the server takes no more.
    let path = b"\x82\x86\x04\x03/ok\x41\x01a";
    assert_below("answers that nobody reads", 2 << 20, &|peer| {
        peer.link.set_write_timeout(Some(Duration::from_millis(200))).expect("a TCP socket");
        let asks = |from: u32| -> Vec<u8> {
            let streams = (from..from + 1000).map(|at| at * 2 + 1);
            streams.flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, path)).collect()
        };
        peer.send(frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        let refused = (0..).step_by(1000).find_map(|from| peer.link.write_all(&asks(from)).err());
        let refused = refused.expect("the server stops").kind();
        assert!(matches!(refused, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{refused}");
    });
    // Of each answer a single piece was asked for.
    assert_eq!(produced.load(Ordering::Relaxed), PEERS as usize * 256);
    served.assert_alive();
}

/// Plays on several connections, and compares what the process has taken since the start with the limit of each.
#[track_caller]
fn assert_below(
    served: &Served,
    name: &str,
    before: u64,
    limit_bytes: u64,
    play: &dyn Fn(&mut Peer<TcpStream>),
) {
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    let peers: Vec<_> = (0..PEERS)
        .map(|_| {
            let mut peer = served.connect_tcp();
            peer.send(&hello);
            play(&mut peer);
            peer
        })
        .collect();
    let each = anonymous_bytes().expect("/proc is mounted").saturating_sub(before) / PEERS;
    println!("{name}: {each} bytes a connection");
    assert!(each < limit_bytes, "{name}: {each} bytes a connection, and {limit_bytes} are allowed");
    let counters = served.running.counters();
    assert_eq!((counters.connections_open, counters.bad_requests), (PEERS, 0), "{name} breaks no rule");
    drop(peers);
    served.await_count("open connections", |counters| counters.connections_open, 0);
}

/// Waits until the server has taken all that was sent.
fn await_pong(peer: &mut Peer<TcpStream>) {
    peer.send(frame(PING, 0, 0, b"all done"));
    peer.read_until(b"all done");
}

/// An answer that is made as it is asked for, and does not end.
struct Lazy(Arc<AtomicUsize>);

static CHUNK: [u8; 4096] = [b'x'; 4096];

impl Stream for Lazy {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Bytes::copy_from_slice(&CHUNK))))
    }
}
