//! A handler that answers CONNECT by a 2xx gets the connection, or the stream of HTTP/2 (RFC 9110 section 9.3.6). Nobody else can make a
//! tunnel.

use std::time::Duration;

use anywire_http::{Method, Request as Ask, Response, StatusCode};
use anywire_loops::block_on;
use anywire_server::guards::host;
use anywire_server::{Ended, ExchangeEnd, Handler, Request, RouteError, Router, Server, Tunnel, Upgraded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::h2::{Came, H2};
use crate::support::{Scene, channel, on_each_wire, serve};

/// Answers each byte by the next one of the alphabet.
async fn toy(mut stream: Upgraded) {
    let mut buffer = [0; 100];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        buffer[..read].iter_mut().for_each(|byte| *byte += 1);
        if stream.write_all(&buffer[..read]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

async fn open(tunnel: Tunnel) -> Response {
    let authority = tunnel.authority().to_owned();
    tunnel.accept(toy).header("x-to", authority)
}

fn router() -> Router {
    let guarded = Router::new().connect(open).when(host("*.inside.test:443"));
    Router::new().get("/", async || "ok").fallback(async || "fallback").merge(guarded)
}

fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n")
}

#[test]
fn a_connection_becomes_a_tunnel() {
    on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        // An ordinary request before it is answered before it, and what comes behind it is for the tunnel.
        peer.send(format!("GET / HTTP/1.1\r\nhost: x\r\n\r\n{}abc", connect("a.inside.test:443")));
        assert_eq!(peer.answer(false).text(), "ok");
        let head = peer.head();
        assert_eq!((head.status, head.header("x-to")), (200, Some("a.inside.test:443")));
        for absent in ["content-length", "transfer-encoding", "connection"] {
            assert_eq!(head.header(absent), None);
        }
        assert_eq!(peer.read_exactly(3), b"bcd");
        peer.send("x");
        assert_eq!(peer.read_exactly(1), b"y");
        peer.half_close();
        assert_eq!(peer.rest(), b"");
        assert_eq!(served.running.counters().upgrades, 1);
    });
}

#[test]
fn a_stream_becomes_a_tunnel_beside_others() {
    on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = H2::connect(&served);
        assert_eq!(peer.ask("/").text(), "ok");
        let id = peer.connect_to("a.inside.test:443");
        match peer.next() {
            Came::Head(of, head, false) if of == id => assert_eq!(head.status(), 200),
            other => panic!("{other:?}"),
        }
        peer.body(id, b"abc", false);
        assert!(matches!(peer.next(), Came::Data(of, data, false) if of == id && data == b"bcd"));
        assert_eq!(peer.ask("/").text(), "ok");
        peer.body(id, b"", true);
        assert!(matches!(peer.next(), Came::Data(of, data, true) if of == id && data.is_empty()));
        assert_eq!(served.running.counters().upgrades, 1);
        let refused = peer.connect_to("b.outside.test:443");
        assert_eq!(peer.answer(refused).status(), 501);
    });
}

#[test]
fn what_no_handler_takes_is_refused_and_ends_the_connection() {
    let served = serve(router());
    for authority in ["a.inside.test:80", "inside.test:443", "outside.test:443"] {
        let mut peer = served.connect();
        // Behind it stands what was to go through the tunnel, which is no request (RFC 9931 section 8).
        peer.send(format!("{}GET / HTTP/1.1\r\nhost: x\r\n\r\n", connect(authority)));
        let refused = peer.answer(false);
        assert_eq!((refused.status, refused.header("connection")), (501, Some("close")), "{authority}");
        assert_eq!(peer.rest(), b"", "{authority}");
    }
    let mut peer = served.connect();
    // The rest of its body would be taken for bytes of the tunnel.
    let with_body = connect("a.inside.test:443").replace("\r\n\r\n", "\r\ncontent-length: 3\r\n\r\na");
    peer.send(with_body);
    assert_eq!(peer.answer(false).status, 400);
}

/// RFC 9110 section 9.3.6. Such a request over HTTP/2 is malformed, and ends its stream before it comes to a server.
#[test]
fn a_target_that_is_no_host_and_port_reaches_no_handler() {
    let served = serve(Router::new().connect(open));
    let mut peer = served.connect();
    peer.send(connect("a:443"));
    assert_eq!(peer.head().status, 200);
    for target in ["a", "a:", ":443", "[::1]", "a:0", "a:99999"] {
        let answer = served.ask(&format!("CONNECT {target} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!((answer.status, answer.header("x-to")), (400, None), "{target}");
    }
}

#[test]
fn a_2xx_without_a_continuation_is_none() {
    let drops = async |tunnel: Tunnel| {
        drop(tunnel.accept(toy));
        "no tunnel today"
    };
    let served = serve(Router::new().connect(drops));
    assert_eq!(served.ask(&connect("a:1")).status, 500);
    let mut peer = H2::connect(&served);
    let id = peer.connect_to("a:1");
    assert_eq!(peer.answer(id).status(), 500);
    let refuses = async |tunnel: Tunnel| (StatusCode::FORBIDDEN, tunnel.authority().to_owned());
    let served = serve(Router::new().connect(refuses));
    let answer = served.ask(&connect("a:1"));
    assert_eq!((answer.status, answer.text()), (403, "a:1"));
    let faulty = async |tunnel: Tunnel| tunnel.accept(toy).header("x-split", "a\r\nb: c");
    let served = serve(Router::new().connect(faulty));
    assert_eq!(served.ask(&connect("a:1")).status, 500, "what it says cannot be sent");
    let mut peer = H2::connect(&served);
    let id = peer.connect_to("a:1");
    assert_eq!(peer.answer(id).status(), 500);
    let not_connect = serve(Router::new().get("/", open));
    assert_eq!(not_connect.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").status, 400);
}

#[test]
fn mistakes_stop_the_start() {
    let refused = |router: Router| router.describe().expect_err("a mistake");
    let line = line!() + 1;
    let inner = Router::new().route(Method::CONNECT, "/b", open);
    let error = refused(Router::new().nest("/a", inner));
    let RouteError::Connect { path, place } = &error else { panic!("{error}") };
    assert_eq!((path.as_str(), place.line()), ("/a/b", line));
    let twice = refused(Router::new().connect(open).merge(Router::new().connect(open)));
    assert!(matches!(&twice, RouteError::Twice { path, .. } if path == "*"), "{twice}");
    let text = Router::new().connect(open.when(host("a"))).connect(open).describe().expect("right");
    assert!(text.contains("CONNECT * at ") && text.contains(" when host a"), "{text}");
}

#[test]
fn a_router_without_a_server_says_200() {
    let router = Router::new().connect(open);
    let response = block_on(router.call(Ask::new(Method::CONNECT, "a:1")));
    assert_eq!(response.status, StatusCode::OK);
}

#[test]
fn an_observer_and_a_shutdown_know_of_it() {
    let (seen, told) = channel();
    let stops = async |tunnel: Tunnel, request: Request| {
        let stopping = request.stopping();
        tunnel.accept(async move |mut stream| {
            stopping.await;
            let _ = stream.write_all(b"goodbye").await;
        })
    };
    let observe = move |ended: &Ended<'_>| _ = seen.send((ended.status, ended.end));
    let served = Scene::tcp().serve_by(Server::new(Router::new().connect(stops)).observe(observe));
    let mut peer = served.connect();
    peer.send(connect("a:1"));
    assert_eq!(peer.head().status, 200);
    assert_eq!(told.next(), (Some(StatusCode::OK), ExchangeEnd::Upgraded));
    let stopping = served.running.shutdown(Duration::from_secs(60));
    assert_eq!(peer.rest(), b"goodbye");
    drop(peer);
    assert_eq!(stopping.wait().connections_cut, 0);
}
