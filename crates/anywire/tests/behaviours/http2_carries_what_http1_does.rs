//! Calls to a server of ours over HTTP/2: many at a time on one connection, with bodies, trailers and heads both ways.

use crate::support::{
    HANG, Served, all, block_on, client, client_of_http2, on_each_wire, wire_with_handshake,
};
use anywire::Router;
use anywire::client::{Call, Limits};
use anywire::http::{Body, Headers, IntoResponse, Method, StatusCode, Version, h2};
use anywire::server::Request;
use bytes::Bytes;

/// Sends the body back as it comes, with its trailers.
async fn echo(request: Request) -> Body {
    request.into_body()
}

#[test]
fn calls_side_by_side_share_a_connection() {
    on_each_wire(|wire| {
        let router = Router::new().get("/{number}", async |request: Request| request.path().to_owned());
        let served = Served::start(wire, router);
        let (_loops, client) = client_of_http2(|builder| builder);
        let call = async |number: usize| {
            let answer = served.get(&client, &format!("/{number}")).send().await?;
            assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
            answer.text().await
        };
        for (number, answer) in all((0..100).map(call)).into_iter().enumerate() {
            assert_eq!(answer.expect("an answer"), format!("/{number}"));
        }
        let counters = client.counters().total();
        assert_eq!((counters.requests, counters.dialed, counters.idle), (100, 1, 1));
    });
}

#[test]
fn bodies_and_trailers_come_back() {
    on_each_wire(|wire| {
        let served = Served::start(wire, Router::new().post("/", echo));
        let (_loops, client) = client_of_http2(|builder| builder);
        for (piece, pieces) in [(0, 0), (1, 1), (5, 2), (10_000, 300)] {
            let (mut sender, body) = Body::channel(10_000);
            let call = served.post(&client, "/").body(body).send();
            let feeding = std::thread::spawn(move || {
                for number in 0..pieces {
                    block_on(sender.send(vec![number as u8; piece])).expect("a reader");
                }
                let mut trailers = Headers::new();
                trailers.append("x-sum", "7").expect("a good trailer");
                sender.trailers(trailers);
                sender.finish();
            });
            let mut answer = block_on(call).expect("an answer");
            let mut read = 0;
            while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
                for byte in chunk {
                    assert_eq!(byte, (read / piece) as u8, "at {read}");
                    read += 1;
                }
            }
            assert_eq!(read, piece * pieces);
            assert_eq!(answer.trailers().and_then(|trailers| trailers.get("x-sum")), Some("7"));
            feeding.join().expect("no panic");
        }
        assert_eq!(client.counters().total().dialed, 1);
    });
}

#[test]
fn a_whole_body_and_what_it_is_reach_the_handler() {
    on_each_wire(|wire| {
        let told = async |request: Request| {
            let (parts, mut body) = request.into_parts();
            let body = body.bytes(1 << 20).await.expect("a body");
            let field = |name| parts.headers().get(name).unwrap_or("-").to_owned();
            let host = parts.head().host().unwrap_or("-");
            let (target, length) = (parts.head().path_and_query(), field("content-length"));
            format!("{target} {host} {length} {} {}", field("x-one"), String::from_utf8_lossy(&body))
        };
        let served = Served::start(wire, Router::new().put("/a", told).post("/a", told));
        let (_loops, client) = client_of_http2(|builder| builder);
        let call = served.call(&client, Method::PUT, "/a?b=1").header("x-one", "1").body("whole");
        let text = block_on(async { call.send().await?.text().await }).expect("an answer");
        assert_eq!(text, "/a?b=1 peer.example 5 1 whole");
        let call = served.post(&client, "/a").header("host", "other.example");
        let text = block_on(async { call.send().await?.text().await }).expect("an answer");
        assert_eq!(text, "/a other.example 0 - ");
    });
}

/// A request that is passed on asks the upstream by its own name, unless the caller says otherwise.
#[test]
fn what_is_forwarded_has_the_authority_of_the_upstream() {
    on_each_wire(|wire| {
        let told = async |request: Request| request.host().unwrap_or("-").to_owned();
        let served = Served::start(wire, Router::new().get("/", told));
        for (_loops, client) in [client(|builder| builder), client_of_http2(|builder| builder)] {
            let forward = || {
                let request =
                    anywire::http::Request::get("http://shop.example/").header("host", "shop.example");
                client.forward(request, "http://peer.example").via(&served.address)
            };
            let text = |call: Call| block_on(async { call.send().await?.text().await }).expect("an answer");
            assert_eq!(text(forward()), "peer.example");
            assert_eq!(text(forward().header("host", "shop.example")), "shop.example");
        }
    });
}

#[test]
fn heads_without_bodies_end_their_calls() {
    on_each_wire(|wire| {
        let router = Router::new()
            .get("/", async || "hello")
            .get("/204", async || StatusCode::NO_CONTENT)
            .get("/304", async || StatusCode::NOT_MODIFIED.into_response());
        let served = Served::start(wire, router);
        let (_loops, client) = client_of_http2(|builder| builder);
        for (method, path, status) in
            [(Method::HEAD, "/", 200), (Method::GET, "/204", 204), (Method::GET, "/304", 304)]
        {
            let answer = block_on(served.call(&client, method.clone(), path).send()).expect("an answer");
            assert_eq!(answer.status(), status);
            if method == Method::HEAD {
                assert_eq!(answer.headers().get("content-length"), Some("5"));
            }
            assert_eq!(block_on(answer.bytes()).expect("a body"), Bytes::new());
        }
        assert_eq!(client.counters().total().dialed, 1);
    });
}

#[test]
fn the_handshake_chooses_the_protocol() {
    let calls = |protocols: &[&str], http1_only: bool| {
        let router = Router::new().get("/", async || "hello");
        let served =
            Served::start_with(wire_with_handshake(), router, anywire::server::Limits::default(), protocols);
        let (_loops, client) = client(|builder| if http1_only { builder.http1_only() } else { builder });
        let answer = block_on(served.get(&client, "/").send()).expect("an answer");
        let version = answer.version();
        assert_eq!(block_on(answer.text()).expect("a body"), "hello");
        version
    };
    assert_eq!(calls(&["h2", "http/1.1"], false), Version::HTTP_2);
    assert_eq!(calls(&["http/1.1"], false), Version::HTTP_11);
    assert_eq!(calls(&["h2", "http/1.1"], true), Version::HTTP_11);
    // A server that was told nothing offers both.
    assert_eq!(calls(&[], false), Version::HTTP_2);
    assert_eq!(calls(&[], true), Version::HTTP_11);
}

#[test]
fn a_reader_who_is_slow_stops_the_peer_and_nobody_else() {
    on_each_wire(|wire| {
        let (sent, produced) = std::sync::mpsc::channel();
        let router = Router::new().get("/", async || "hello").get("/large", async move || {
            let (mut sender, body) = Body::channel(10_000);
            let sent = sent.clone();
            std::thread::spawn(move || {
                while block_on(sender.send(vec![0; 10_000])).is_ok() {
                    let _ = sent.send(10_000);
                }
            });
            body
        });
        let served = Served::start(wire, router);
        let limits = Limits {
            http2: h2::Limits { stream_window_bytes: 100_000, ..Limits::default().http2 },
            body_ahead_bytes: 10_000,
            ..Limits::default()
        };
        let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
        let mut large = block_on(served.get(&client, "/large").send()).expect("an answer");
        // Until nothing more has gone for a while; what holds is the bound below.
        let count = || {
            let mut count = 0;
            while let Ok(more) = produced.recv_timeout(std::time::Duration::from_millis(200)) {
                count += more;
            }
            count
        };
        let first = count();
        assert!(first < 400_000, "{first} bytes went to a caller who reads nothing");
        for _ in 0..10 {
            let answer = block_on(served.get(&client, "/").send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "hello");
        }
        let mut read = 0;
        while read < 1_000_000 {
            read += block_on(large.chunk()).expect("a good body").expect("it has no end").len();
        }
        assert!(produced.recv_timeout(HANG).is_ok(), "it goes on");
        drop(large);
        assert_eq!(client.counters().total().dialed, 1);
    });
}

#[test]
fn windows_that_hold_all_lock_neither_end() {
    // Both ends may send all of a body before they read: each has to read while what it wants to write is not taken.
    // Two of them are more than a socket holds in both directions: 20 MiB by Linux's defaults.
    const TOTAL: usize = 12 << 20;
    let http2 =
        h2::Limits { stream_window_bytes: 1 << 30, connection_window_bytes: 1 << 30, ..Default::default() };
    on_each_wire(|wire| {
        let limits = anywire::server::Limits { http2, ..Default::default() };
        let served = Served::start_with(wire, Router::new().post("/", echo), limits, &[]);
        let limits = Limits { http2, ..Limits::default() };
        let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
        let answers = all((0..2).map(|_| async {
            let mut answer = served.post(&client, "/").body(vec![7; TOTAL]).send().await?;
            let mut read = 0;
            while let Some(chunk) = answer.chunk().await? {
                read += chunk.len();
            }
            Ok::<_, anywire::client::Error>(read)
        }));
        for answer in answers {
            assert_eq!(answer.expect("an answer"), TOTAL);
        }
    });
}
