//! Bodies are streams both ways: nothing is read that nobody asked for, and a slow reader stops the handler.

use std::future::poll_fn;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::task::Poll;

use anywire_http::{Body, BodyError};
use anywire_loops::Loops;
use anywire_server::{Ended, Limits, Router, Server, State};
use anywire_wire::Dialer;
use bytes::Bytes;
use tokio::sync::Notify;

use crate::support::h2::H2;
use crate::support::{Scene, channel};

#[test]
fn an_echo_of_any_size_comes_back() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(Router::new().post("/echo", async |body: Body| body));
        let mut peer = served.connect();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut writer = peer.link.clone();
        let body = sent.clone();
        // Written beside the reading: the echo holds no more than its limits, so it does not take all before it answers.
        let writing = std::thread::spawn(move || {
            write!(writer, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len())?;
            writer.write_all(&body)
        });
        let answer = peer.answer(false);
        assert_eq!(answer.status, 200);
        assert!(answer.body == sent, "the echo differs");
        writing.join().expect("no panic").expect("written");
        peer.send(
            "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        );
        assert_eq!(peer.answer(false).text(), "abc");
    });
}

#[test]
fn trailers_come_behind_the_body() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().post("/", async |mut body: Body| {
            let read = body.bytes(100).await.expect("a whole body");
            let sum = body.trailers().and_then(|trailers| trailers.get("sum")).unwrap_or_default();
            format!("{} {sum}", read.len())
        });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send(
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nsum: 7\r\n\r\n",
        );
        assert_eq!(peer.answer(false).text(), "3 7");
    });
}

#[test]
fn a_slow_reader_stops_the_handler() {
    crate::support::on_each_wire(|scene| {
        const CHUNK: usize = 64 * 1024;
        const CHUNKS: usize = 2_000;
        let made = Arc::new(AtomicUsize::new(0));
        let router =
            Router::new().state(Arc::clone(&made)).get("/", async |made: State<Arc<AtomicUsize>>| {
                let (mut sender, body) = Body::channel(CHUNK);
                drop(anywire_loops::spawn(async move {
                    for _ in 0..CHUNKS {
                        if sender.ready().await.is_err() {
                            return;
                        }
                        made.fetch_add(1, Ordering::Relaxed);
                        if sender.try_send(Bytes::from_static(&[b'x'; CHUNK])).is_err() {
                            return;
                        }
                    }
                    sender.finish();
                }));
                body
            });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        peer.read_exactly(1);
        // The peer reads no further. Both loops of the server still answer. The handler has made no more than the socket
        // buffers (at most 4 MiB + 6 MiB by Linux's defaults) and the server's limits hold.
        for _ in 0..200 {
            served.assert_alive();
        }
        let stopped = made.load(Ordering::Relaxed);
        assert!(stopped < CHUNKS / 4, "{stopped} of {CHUNKS} chunks were made for a peer that reads nothing");
        drop(peer);
    });
}

#[test]
fn a_body_that_nobody_reads_keeps_the_connection() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(Router::new().post("/", async || "unread"));
        let mut peer = served.connect();
        for _ in 0..3 {
            peer.send(format!(
                "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 30000\r\n\r\n{}",
                "x".repeat(30_000)
            ));
            assert_eq!(peer.answer(false).text(), "unread");
        }
    });
}

#[test]
fn a_long_body_that_nobody_reads_ends_the_connection() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(Router::new().post("/", async || "unread"));
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\nx");
        let answer = peer.answer(false);
        assert_eq!((answer.text(), answer.header("connection")), ("unread", Some("close")));
        peer.assert_closed();
    });
}

#[test]
fn continue_is_said_when_the_handler_reads() {
    crate::support::on_each_wire(|scene| {
        let served = scene
            .serve(Router::new().post("/reads", async |body: String| body).post("/refuses", async || "no"));
        let mut peer = served.connect();
        peer.send("POST /reads HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        assert_eq!(peer.answer(false).status, 100);
        peer.send("abc");
        assert_eq!(peer.answer(false).text(), "abc");
        peer.send("POST /refuses HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        let refusal = peer.answer(false);
        assert_eq!((refusal.text(), refusal.header("connection")), ("no", Some("close")));
    });
}

#[test]
fn chunks_of_single_bytes_wait_in_pieces() {
    crate::support::on_each_wire(|scene| {
        // What the wire in memory has taken the server has read, but for 64 KiB.
        if !scene.is("memory") {
            return;
        }
        let (has_written, written) = tokio::sync::oneshot::channel::<()>();
        let written = Arc::new(Mutex::new(Some(written)));
        let router = Router::new().post("/", move |mut body: Body| {
            let written = written.lock().expect("no panic").take();
            async move {
                // With this the rest is asked for, too.
                let mut bytes = body.chunk().await.expect("whole").map_or(0, |chunk| chunk.len());
                written.expect("one request").await.expect("the test goes on");
                let mut chunks = 1;
                while let Some(chunk) = body.chunk().await.expect("whole") {
                    bytes += chunk.len();
                    chunks += 1;
                }
                format!("{bytes} bytes in {chunks} chunks")
            }
        });
        let served = scene.serve_with(router, Limits { min_bytes_per_second: 0, ..Limits::default() });
        let (address, loops) = (served.address, Loops::start(1).expect("loops start"));
        let asking = loops.get(0).spawn(move || async move {
            let mut connection = Dialer::default().dial(&address).await.expect("it listens");
            let head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
            connection.write_all(head.as_bytes()).await.expect("the server reads");
            connection.write_all("1\r\nx\r\n".repeat(60_000).as_bytes()).await.expect("the server reads");
            has_written.send(()).expect("the handler waits");
            connection.write_all(b"0\r\n\r\n").await.expect("the server reads");
            connection.half_close().await.expect("the server reads");
            let (mut answer, mut part) = (Vec::new(), [0; 1000]);
            while let read @ 1.. = connection.read(&mut part).await.expect("an answer") {
                answer.extend_from_slice(&part[..read]);
            }
            String::from_utf8(answer).expect("text")
        });
        let answer = asking.wait().expect("no panic");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        let chunks = body.strip_prefix("60000 bytes in ").and_then(|rest| rest.strip_suffix(" chunks"));
        let chunks: usize = chunks.unwrap_or_else(|| panic!("{answer}")).parse().expect("a number");
        // The part that the wire still held comes as it is decoded.
        assert!(chunks < 64 * 1024 / 6 + 200, "{body}");
    });
}

/// The handler asks for one piece, and answers. Ten have come.
#[test]
fn only_so_many_bytes_are_on_their_way_to_the_handler() {
    for (limit, expected) in [(1, 100), (250, 300)] {
        let (ends, seen) = channel();
        let first = async |mut body: Body| body.chunk().await.ok().flatten().unwrap_or_default();
        let limits = Limits { body_in_flight_bytes: limit, ..Limits::default() };
        let server = Server::new(Router::new().post("/", first)).limits(limits);
        let server = server.observe(move |ended: &Ended<'_>| _ = ends.send(ended.received_bytes));
        let served = Scene::at("memory:").serve_by(server);
        let piece = "x".repeat(100);
        let mut peer = served.connect();
        let pieces = format!("64\r\n{piece}\r\n").repeat(10);
        peer.send(format!(
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n"
        ));
        assert_eq!(peer.answer(false).text(), piece);
        assert_eq!(seen.next(), expected, "{limit}");
    }
}

/// The same over HTTP/2: the handler asks for one piece, and when all have come it finds only so many bytes at hand. The others wait in the
/// window of their stream.
#[test]
fn only_so_many_bytes_of_a_stream_are_on_their_way_to_the_handler() {
    let counts = async |State(cues): State<Cues>, mut body: Body| {
        let first = body.chunk().await.ok().flatten().map_or(0, |piece| piece.len());
        cues.has_first.send(()).expect("the test goes on");
        cues.all_came.notified().await;
        let mut at_hand = Vec::new();
        while let Some(piece) = poll_fn(|cx| Poll::Ready(at_once(body.poll_chunk(cx)))).await {
            at_hand.push(piece.len());
        }
        let mut rest = 0;
        while let Some(piece) = body.chunk().await.expect("whole") {
            rest += piece.len();
        }
        format!("{first} {} {rest}", at_hand.iter().sum::<usize>())
    };
    for (limit, at_hand) in [(1, 2000), (5000, 6000), (64 * 1024, 18_000)] {
        let ((has_first, told), all_came) = (channel(), Arc::new(Notify::new()));
        let cues = Cues { has_first, all_came: Arc::clone(&all_came) };
        let router = Router::new().post("/", counts).get("/", async || "").state(cues);
        let limits = Limits { body_in_flight_bytes: limit, ..Limits::default() };
        let served = Scene::tcp().serve_with(router, limits);
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/", &[], None, false);
        peer.body(id, &[b'x'; 2000], false);
        told.next();
        for _ in 0..9 {
            peer.body(id, &[b'x'; 2000], false);
        }
        // Behind the pieces on the same connection.
        assert_eq!(peer.ask("/").status(), 200);
        all_came.notify_one();
        peer.body(id, b"", true);
        assert_eq!(peer.answer(id).text(), format!("2000 {at_hand} {}", 18_000 - at_hand), "{limit}");
    }
}

#[derive(Clone)]
struct Cues {
    has_first: Sender<()>,
    all_came: Arc<Notify>,
}

/// A piece, if there is one now.
fn at_once(polled: Poll<Result<Option<Bytes>, BodyError>>) -> Option<Bytes> {
    match polled {
        Poll::Ready(piece) => piece.expect("whole"),
        Poll::Pending => None,
    }
}
