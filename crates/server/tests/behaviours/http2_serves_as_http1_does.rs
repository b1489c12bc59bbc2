//! HTTP/2 on the port of HTTP/1, by its preface: handlers, extractors and bodies are the same, and know nothing of it.

use crate::support::h2::{Came, DATA, GOAWAY, H2, HEADERS, PREFACE, SETTINGS, frame, frames};
use crate::support::{Peer, Remote, Scene};
use anywire_http::h2::Code;
use anywire_http::{Body, HeadLimits, Headers, Response, StatusCode, Version};
use anywire_server::{Json, Limits, Path, Request, Router};
use bytes::Bytes;

fn router() -> Router {
    Router::new()
        .get("/", async || "ok")
        .get("/{name}", async |name: Path<String>| format!("hello {}", name.0))
        .get("/none", async || StatusCode::NO_CONTENT)
        .get("/fields", async |request: Request| {
            let headers = request.headers();
            let cookies: Vec<_> = headers.get_all("cookie").collect();
            let host = request.host().unwrap_or_default();
            format!("{:?} {host} {}", request.head().version(), String::from_utf8_lossy(&cookies.concat()))
        })
        .post("/echo", async |body: Body| body)
        .post("/collects", async |body: Bytes| body.len().to_string())
        .post("/ignores", async || "ignored")
        .post("/sum", async |mut body: Body| {
            let read = body.bytes(100).await.expect("a whole body");
            let sum = body.trailers().and_then(|trailers| trailers.get("sum")).unwrap_or_default();
            format!("{} {sum}", read.len())
        })
        .get("/trailers", async || {
            let (mut sender, body) = Body::channel(1024);
            sender.try_send("abc").expect("there is room");
            let mut trailers = Headers::new();
            trailers.append("sum", "7").expect("a field");
            sender.trailers(trailers);
            sender.finish();
            body
        })
        .get("/only-trailers", async || only_trailers())
        .get("/no-bytes-but-trailers", async || only_trailers().with_length(0))
}

fn only_trailers() -> Body {
    let (mut sender, body) = Body::channel(1024);
    let mut trailers = Headers::new();
    trailers.append("grpc-status", "0").expect("a field");
    sender.trailers(trailers);
    sender.finish();
    body
}

#[test]
fn the_preface_chooses_the_protocol() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        assert_eq!(served.ask("GET / HTTP/1.1\r\nhost: a\r\n\r\n").text(), "ok");
        assert_eq!(H2::connect(&served).ask("/").text(), "ok");
        assert_eq!(served.running.counters().http2_connections, 1);
        // The preface byte by byte, and a request behind it.
        let mut peer = served.connect();
        for byte in [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat() {
            peer.send([byte]);
        }
        assert_eq!(peer.read_exactly(4)[3], SETTINGS);
        served.await_count("connections", |counters| counters.http2_connections, 2);
    });
}

#[test]
fn a_preface_that_goes_wrong_ends_the_connection() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        peer.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
        let rest = peer.rest();
        let Some((GOAWAY, _, 0, payload)) = frames(&rest).pop() else { panic!("{rest:?}") };
        assert_eq!(payload[4..8], Code::PROTOCOL_ERROR.0.to_be_bytes());
        assert_eq!(served.running.counters().bad_requests, 1);
        // These begin like it and are HTTP/1.
        let mut peer = served.connect();
        peer.send("PRI /a HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(peer.answer(false).status, 405);
        assert_eq!(served.running.counters().http2_connections, 1);
    });
}

/// Behind anything else it is a request of HTTP/1 with a version that there is not.
#[test]
fn a_preface_within_a_connection_is_refused() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let preface = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let ask = |peer: &mut Peer<Remote>| {
            peer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(peer.answer(false).text(), "ok");
        };
        let is_refused = |mut peer: Peer<Remote>| {
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.closes()), (505, true));
            peer.assert_closed();
        };
        // Behind a request, once the connection is idle.
        let mut peer = served.connect();
        ask(&mut peer);
        served.await_count("requests", |counters| counters.requests, 1);
        peer.send(&preface);
        is_refused(peer);
        // In one piece with a request, and with an empty line.
        let mut peer = served.connect();
        peer.send([b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", &preface[..]].concat());
        assert_eq!(peer.answer(false).text(), "ok");
        is_refused(peer);
        let mut peer = served.connect();
        peer.send([b"\r\n", &preface[..]].concat());
        is_refused(peer);
        // Behind an empty line that has come alone, byte by byte.
        let mut peer = served.connect();
        peer.send("\r\n");
        served.assert_alive();
        for byte in PREFACE.iter().take_while(|byte| **byte != b'\r') {
            peer.send([*byte]);
        }
        peer.send("\r\n\r\nSM\r\n\r\n");
        is_refused(peer);
        assert_eq!(served.running.counters().http2_connections, 0);
        assert_eq!(served.running.counters().bad_requests, 4);
    });
}

#[test]
fn a_body_that_breaks_the_protocol_is_a_bad_request_of_both() {
    let served = Scene::tcp().serve(Router::new().post("/", async |bytes: Bytes| bytes.len().to_string()));
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd";
    assert_eq!(served.ask(chunked).status, 400);
    let mut peer = H2::connect(&served);
    let id = peer.open("POST", "/", &[], Some(3), false);
    // Longer than its head has said, by hand: the engine would not send it.
    peer.raw(&frame(DATA, 0, id.get(), b"abcd"));
    assert_eq!(peer.reset_of(id), Code::PROTOCOL_ERROR);
    let counters = served.running.counters();
    assert_eq!((counters.bad_requests, counters.abandoned), (2, 0), "{counters:?}");
}

#[test]
fn trailers_that_are_too_large_are_431_in_both() {
    let router = Router::new()
        .post("/bytes", async |bytes: Bytes| bytes.len().to_string())
        .post("/text", async |text: String| text)
        .post("/json", async |Json(any): Json<serde_json::Value>| any.to_string());
    let head = HeadLimits { trailer_bytes: 100, ..HeadLimits::default() };
    let served = Scene::tcp().serve_with(router, Limits { head, ..Limits::default() });
    let long = "v".repeat(200);
    for path in ["/bytes", "/text", "/json"] {
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\n123\r\n0\r\nsum: {long}\r\n\r\n"
        );
        assert_eq!(served.ask(&chunked).status, 431, "{path}");
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", path, &[("content-type", "application/json")], None, false);
        peer.body(id, b"123", false);
        let mut trailers = Headers::new();
        trailers.append("sum", &*long).expect("a field");
        peer.trailers(id, &trailers);
        assert_eq!(peer.answer(id).status(), 431, "{path}");
    }
    let counters = served.running.counters();
    // No peer has reset anything.
    assert_eq!((counters.bad_requests, counters.abandoned), (6, 0), "{counters:?}");
}

#[test]
fn the_same_handlers_serve_both() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        let answer = peer.ask("/you");
        assert_eq!((answer.status(), answer.text()), (200, "hello you"));
        assert_eq!(answer.header("content-length"), Some("9"));
        assert!(answer.header("date").is_some() && answer.header("connection").is_none());
        let answer = peer.ask("/none");
        assert_eq!((answer.status(), answer.body.len(), answer.header("content-length")), (204, 0, None));
        assert_eq!(peer.ask("/a/b").status(), 404);
        let id = peer.open("DELETE", "/", &[], None, true);
        let answer = peer.answer(id);
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
        let id = peer.open("HEAD", "/you", &[], None, true);
        let answer = peer.answer(id);
        assert_eq!((answer.status(), answer.header("content-length")), (200, Some("9")));
        assert_eq!((answer.body.len(), answer.reset), (0, None));
        // Cookies may come in pieces (RFC 9113 section 8.2.3).
        let id = peer.open("GET", "/fields", &[("cookie", "a=1"), ("cookie", "b=2")], None, true);
        assert_eq!(peer.answer(id).text(), format!("{:?} a a=1; b=2", Version::HTTP_2));
        let answer = served.ask("GET /fields HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=2\r\n\r\n");
        assert_eq!(answer.text(), format!("{:?} a a=1; b=2", Version::HTTP_11));
    });
}

/// A peer says how large a head it takes. What is above that is a fault of its handler, and costs its own stream.
#[test]
fn heads_that_the_peer_does_not_take_are_not_sent() {
    let router = router()
        .get("/large-head", async || Response::new(StatusCode::OK).header("x", "v".repeat(5000)).body("ok"))
        .get("/large-trailers", async || {
            let (mut sender, body) = Body::channel(1024);
            let mut trailers = Headers::new();
            trailers.append("x", "v".repeat(5000)).expect("a field");
            sender.trailers(trailers);
            sender.finish();
            body
        });
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let takes = |bytes| HeadLimits { bytes, ..HeadLimits::default() };
    let mut peer = H2::connect_with(&served, takes(400));
    assert_eq!(peer.ask("/").text(), "ok");
    let answer = peer.ask("/large-head");
    assert_eq!((answer.status(), answer.header("x")), (500, None));
    let id = peer.get("/large-trailers");
    assert_eq!(peer.reset_of(id), Code::INTERNAL_ERROR);
    assert_eq!(peer.ask("/").text(), "ok");
    assert_eq!(served.running.counters().failures, 2);
    // Not even a 500 fits.
    let mut peer = H2::connect_with(&served, takes(50));
    let id = peer.get("/large-head");
    assert_eq!(peer.reset_of(id), Code::INTERNAL_ERROR);
    // One that does not say takes all.
    assert_eq!(
        served.ask("GET /large-head HTTP/1.1\r\nhost: a\r\n\r\n").header("x").map(str::len),
        Some(5000)
    );
}

#[test]
fn bodies_of_any_size_go_both_ways() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        for size in [0, 1, 16_384, 65_535, 65_536, 3_000_000] {
            let sent: Vec<u8> = (0..size).map(|at: u32| (at % 251) as u8).collect();
            for length in [None, Some(u64::from(size))] {
                let id = peer.open("POST", "/echo", &[], length, false);
                peer.body(id, &sent, true);
                let answer = peer.answer(id);
                assert_eq!(answer.status(), 200);
                assert!(answer.body == sent, "the echo of {size} bytes differs: {}", answer.body.len());
            }
        }
    });
}

#[test]
fn trailers_go_both_ways() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/sum", &[], None, false);
        peer.body(id, b"abc", false);
        let mut trailers = Headers::new();
        trailers.append("sum", "7").expect("a field");
        peer.trailers(id, &trailers);
        assert_eq!(peer.answer(id).text(), "3 7");
        let answer = peer.ask("/trailers");
        assert_eq!((answer.text(), answer.trailers.as_ref()), ("abc", Some(&trailers)));
        // With a stated length of 0 as well, which libraries of gRPC have.
        for (path, length) in [("/only-trailers", None), ("/no-bytes-but-trailers", Some("0"))] {
            let answer = peer.ask(path);
            assert_eq!((answer.body.len(), answer.header("content-length")), (0, length));
            assert_eq!(answer.trailers.as_ref().and_then(|fields| fields.get("grpc-status")), Some("0"));
        }
    });
}

#[test]
fn a_body_is_asked_for_once() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        let expects = [("expect", "100-continue")];
        let id = peer.open("POST", "/collects", &expects, Some(3), false);
        assert!(matches!(peer.next(), Came::Interim(of, 100, _) if of == id));
        peer.body(id, b"abc", true);
        let answer = peer.answer(id);
        assert_eq!((answer.text(), &answer.interim[..]), ("3", &[][..]));
        // The handler does not read the body, so no 100 is sent.
        let id = peer.open("POST", "/ignores", &expects, Some(3), false);
        let answer = peer.answer(id);
        assert_eq!((answer.text(), &answer.interim[..]), ("ignored", &[][..]));
    });
}

#[test]
fn a_body_that_nobody_reads_ends_with_its_answer() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/ignores", &[], Some(1_000_000), false);
        peer.body(id, &[0; 20_000], false);
        assert_eq!(peer.answer(id).text(), "ignored");
        // The rest is not wanted (RFC 9113 section 8.1), and the windows are as before.
        assert!(matches!(peer.next(), Came::Reset(of, Code::NO_ERROR) if of == id));
        for _ in 0..100 {
            let id = peer.open("POST", "/ignores", &[], Some(1_000_000), false);
            peer.body(id, &[0; 60_000], false);
            assert_eq!(peer.answer(id).text(), "ignored");
        }
        let id = peer.open("POST", "/collects", &[], None, false);
        peer.body(id, &[0; 1_000_000], true);
        assert_eq!(peer.answer(id).text(), "1000000");
    });
}

#[test]
fn a_body_above_its_limit_is_refused_alone() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { body_bytes: 1000, ..Default::default() };
        let served = scene.serve_with(router(), limits);
        let mut peer = H2::connect(&served);
        let stated = peer.open("POST", "/collects", &[], Some(1001), false);
        assert_eq!(peer.answer(stated).status(), 413);
        let found = peer.open("POST", "/collects", &[], None, false);
        peer.body(found, &[0; 1001], false);
        assert_eq!(peer.answer(found).status(), 413);
        assert_eq!(peer.ask("/").text(), "ok");
    });
}

#[test]
fn many_streams_share_the_connection() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        assert_eq!(peer.ask("/").text(), "ok");
        for _ in 0..10 {
            let ids: Vec<_> = (0..100).map(|at| (peer.get(&format!("/{at}")), at)).collect();
            for (id, at) in ids {
                assert_eq!(peer.answer(id).text(), format!("hello {at}"));
            }
        }
        assert_eq!(served.running.counters().requests, 1001);
        assert_eq!(served.running.counters().http2_connections, 1);
    });
}

#[test]
fn what_is_refused_is_counted() {
    crate::support::on_each_wire(|scene| {
        let mut limits = Limits::default();
        limits.http2.streams = 2;
        limits.head.bytes = 1000;
        let router = router().get("/never", async || std::future::pending::<()>().await);
        let served = scene.serve_with(router, limits);
        let mut peer = H2::connect(&served);
        peer.ask("/");
        // One stream more than was announced.
        for stream in [3, 5, 7] {
            let path = [&b"\x82\x86\x04\x06"[..], b"/never", b"\x41\x01a"].concat();
            peer.raw(&frame(HEADERS, 5, stream, &path));
        }
        served.await_count("refused streams", |counters| counters.refused_streams, 1);
        let mut peer = H2::connect(&served);
        // Before it has read what the server takes.
        let large = "x".repeat(2000);
        let id = peer.open("GET", "/", &[("x", &large)], None, true);
        assert_eq!(peer.answer(id).status(), 431);
        served.await_count("bad requests", |counters| counters.bad_requests, 1);
        peer.raw(&frame(HEADERS, 5, 3, b"\x82\x86\x84"));
        served.await_count("bad requests", |counters| counters.bad_requests, 2);
        served.assert_alive();
    });
}
