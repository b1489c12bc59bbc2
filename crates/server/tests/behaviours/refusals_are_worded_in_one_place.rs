//! What the server refuses by itself reaches one function, which sees what and why, and words the response. Status, framing
//! and the end of the connection stay the server's. In both versions, on every wire.

use std::sync::mpsc::Sender;
use std::time::Duration;

use anywire_http::{Body, BodyError, Fault, Headers, Response, StaticHeader, StatusCode};
use anywire_server::{
    Handler, IntoResponse, Limits, Refusal, RefusalKind, RouteLimits, Router, Server, Upgrade, Upgraded,
};

use crate::support::h2::H2;
use crate::support::{Scene, Served, Told, channel};

/// What the function was told.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    kind: RefusalKind,
    fault: Fault,
    method: Option<String>,
    route: Option<String>,
    has_peer: bool,
}

fn router() -> Router {
    Router::new()
        .get("/fine", async || "fine")
        .get("/panics", async || -> String { panic!("on purpose") })
        .get("/unsendable", async || Response::new(StatusCode::OK).header("x", "a\r\nb: c"))
        .get("/waits", async || std::future::pending::<String>().await)
        .get("/fails", async || {
            let (sender, body) = Body::channel(1);
            sender.abort(BodyError::failed("on purpose"));
            body
        })
        .post("/echo", async |body: Body| body)
        .post("/upgrade", async |upgrade: Upgrade| upgrade.accept("none", async |_: Upgraded| {}))
        .post("/collects", async |text: String| text)
}

fn worded(scene: &Scene, limits: Limits) -> (Served, Told<Seen>) {
    let (told, seen) = channel();
    let server = Server::new(router()).limits(limits).on_refusal(move |refusal| word(refusal, &told));
    (scene.elsewhere().serve_by(server), seen)
}

fn word(refusal: &Refusal<'_>, told: &Sender<Seen>) -> Response {
    let _ = told.send(Seen {
        kind: refusal.kind,
        fault: refusal.fault,
        method: refusal.method.map(ToString::to_string),
        route: refusal.route.map(str::to_owned),
        has_peer: refusal.peer.is_some(),
    });
    let text = format!("{} {}", refusal.kind.name(), refusal.status.as_u16());
    // A status that is no error, and fields that would frame it otherwise.
    Response::typed(&TYPE, text)
        .header("content-length", "3")
        .header("transfer-encoding", "chunked")
        .header("connection", "keep-alive")
}

static TYPE: StaticHeader = StaticHeader::new("content-type: text/x-refusal");

/// A request, its status, and whether the connection ends.
struct Case {
    request: &'static str,
    status: u16,
    kind: RefusalKind,
    fault: Fault,
    route: Option<(&'static str, &'static str)>,
    closes: bool,
}

const fn unread(request: &'static str, status: u16) -> Case {
    let (kind, fault) = (RefusalKind::Malformed, Fault::Peer);
    Case { request, status, kind, fault, route: None, closes: true }
}

const fn of_route(
    request: &'static str,
    status: u16,
    kind: RefusalKind,
    fault: Fault,
    route: (&'static str, &'static str),
) -> Case {
    let closes = matches!(kind, RefusalKind::HandlerTimeout | RefusalKind::RequestBody);
    Case { request, status, kind, fault, route: Some(route), closes }
}

const CASES: &[Case] = &[
    unread("GET / HTTP/1.1\r\nbad header: x\r\n\r\n", 400),
    unread("GET / HTTP/2.0\r\n\r\n", 505),
    unread("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 501),
    of_route(
        "GET /panics HTTP/1.1\r\nhost: x\r\n\r\n",
        500,
        RefusalKind::Panic,
        Fault::Caller,
        ("GET", "/panics"),
    ),
    of_route(
        "GET /unsendable HTTP/1.1\r\nhost: x\r\n\r\n",
        500,
        RefusalKind::Unsendable,
        Fault::Caller,
        ("GET", "/unsendable"),
    ),
    of_route(
        "GET /waits HTTP/1.1\r\nhost: x\r\n\r\n",
        503,
        RefusalKind::HandlerTimeout,
        Fault::Limit,
        ("GET", "/waits"),
    ),
    of_route(
        "GET /fails HTTP/1.1\r\nhost: x\r\n\r\n",
        500,
        RefusalKind::ResponseBody,
        Fault::Caller,
        ("GET", "/fails"),
    ),
    of_route(
        "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        400,
        RefusalKind::RequestBody,
        Fault::Peer,
        ("POST", "/echo"),
    ),
];

fn short() -> Limits {
    Limits { handler_timeout: Duration::from_millis(30), ..Limits::default() }
}

#[test]
fn in_http1() {
    crate::support::on_each_wire(|scene| {
        let (served, seen) = worded(scene, short());
        for Case { request, status, kind, fault, route, closes } in CASES {
            let mut peer = served.connect();
            peer.send(request);
            let answer = peer.answer(false);
            assert_eq!(answer.status, *status, "{request}");
            assert_eq!(answer.header("content-type"), Some("text/x-refusal"), "{request}");
            assert_eq!(answer.text(), format!("{} {status}", kind.name()), "{request}");
            assert_eq!(answer.closes(), *closes, "{request}");
            let (method, path) = route.unzip();
            let (method, route) = (method.map(str::to_owned), path.map(str::to_owned));
            let expected = Seen { kind: *kind, fault: *fault, method, route, has_peer: true };
            assert_eq!(seen.next(), expected, "{request}");
            if !closes {
                peer.send("GET /fine HTTP/1.1\r\nhost: x\r\n\r\n");
                assert_eq!(peer.answer(false).text(), "fine", "{request}");
            }
        }
        for (head, status) in [
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9000)), 414),
            (format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "a".repeat(20_000)), 431),
        ] {
            let answer = served.ask(&head);
            assert_eq!((answer.status, answer.text()), (status, &*format!("too_large {status}")));
            assert_eq!(seen.next().fault, Fault::Limit);
        }
        let answer = served.ask(
            "POST /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: none\r\n\
             content-length: 100000\r\n\r\n",
        );
        assert_eq!((answer.status, answer.text()), (400, "upgrade_with_body 400"));
        assert_eq!(seen.next().route.as_deref(), Some("/upgrade"));
    });
}

#[test]
fn of_one_request_too_many() {
    crate::support::on_each_wire(|scene| {
        let (told, seen) = channel();
        let (began, has_begun) = channel();
        let waits = async move || -> String {
            let _ = began.send(());
            std::future::pending().await
        };
        let alone = RouteLimits { concurrency: Some(1), ..Default::default() };
        let server = Server::new(Router::new().get("/alone", waits.limits(alone)));
        let served = scene.elsewhere().serve_by(server.on_refusal(move |refusal| word(refusal, &told)));
        let mut first = served.connect();
        first.send("GET /alone HTTP/1.1\r\nhost: x\r\n\r\n");
        has_begun.next();
        let answer = served.ask("GET /alone HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!((answer.status, answer.text()), (503, "concurrency 503"));
        assert_eq!((answer.header("retry-after"), answer.closes()), (Some("1"), false));
        let answer = H2::connect(&served).ask("/alone");
        assert_eq!((answer.status(), answer.text()), (503, "concurrency 503"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        for _ in 0..2 {
            let told = seen.next();
            assert_eq!((told.kind, told.fault), (RefusalKind::Concurrency, Fault::Limit));
            assert_eq!((told.route.as_deref(), told.has_peer), (Some("/alone"), true));
        }
    });
}

#[test]
fn with_a_time_to_try_again_of_ones_own() {
    let waits = async || -> String { std::future::pending().await };
    let none = RouteLimits { concurrency: Some(1), ..Default::default() };
    let server = Server::new(Router::new().get("/alone", waits.limits(none)));
    let later = |_: &Refusal<'_>| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]);
    let served = Scene::tcp().serve_by(server.loops(1).on_refusal(later));
    let mut first = served.connect();
    first.send("GET /alone HTTP/1.1\r\nhost: x\r\n\r\n");
    served.await_count("requests", |counters| counters.requests, 1);
    let mut peer = served.connect();
    peer.send("GET /alone HTTP/1.1\r\nhost: x\r\n\r\n");
    let head = peer.answer(false).head;
    assert_eq!(head.matches("retry-after").count(), 1, "{head}");
    assert!(head.contains(" 429 ") && head.contains("retry-after: 7"), "{head}");
}

#[test]
fn of_a_late_head() {
    crate::support::on_each_wire(|scene| {
        // From accept on: a handshake has to fit in, on a slow machine too.
        let limits = Limits { head_timeout: Duration::from_secs(3), ..Limits::default() };
        let (served, seen) = worded(scene, limits);
        for first in ["", "GET /fine HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let answer = {
                let mut peer = served.connect();
                peer.send(first);
                if !first.is_empty() {
                    assert_eq!(peer.answer(false).text(), "fine");
                }
                peer.send("GET /");
                peer.answer(false)
            };
            assert_eq!((answer.status, answer.text()), (408, "head_timeout 408"));
            assert_eq!(seen.next().kind, RefusalKind::HeadTimeout);
        }
    });
}

#[test]
fn in_http2() {
    crate::support::on_each_wire(|scene| {
        let (served, seen) = worded(scene, short());
        let mut peer = H2::connect(&served);
        for Case { request, status, kind, route, .. } in CASES {
            let Some(("GET", path)) = *route else { continue };
            let kind = *kind;
            if kind == RefusalKind::ResponseBody {
                // The head has left: only a reset tells.
                continue;
            }
            let answer = peer.ask(path);
            assert_eq!(answer.status(), *status, "{request}");
            assert_eq!(answer.text(), format!("{} {status}", kind.name()), "{request}");
            let told = seen.next();
            assert_eq!((told.kind, told.route.as_deref(), told.has_peer), (kind, Some(path), true));
        }
        // So many that a peer is not told.
        let many = [("a", "b"); 150];
        for (method, text) in [("GET", "too_large 431"), ("HEAD", "")] {
            let id = peer.open(method, "/fine", &many, None, true);
            let answer = peer.answer(id);
            assert_eq!((answer.status(), answer.text()), (431, text));
            assert_eq!(answer.header("content-type"), Some("text/x-refusal"));
            assert_eq!((answer.header("transfer-encoding"), answer.header("connection")), (None, None));
            let told = seen.next();
            assert_eq!((told.kind, told.route, told.has_peer), (RefusalKind::TooLarge, None, true));
        }
        // The handler waits for the body that these trailers would end.
        let mut trailers = Headers::new();
        many.iter().for_each(|(name, value)| trailers.append(name, value).expect("a field"));
        let id = peer.open("POST", "/collects", &[], None, false);
        peer.body(id, b"some", false);
        peer.trailers(id, &trailers);
        assert_eq!(peer.answer(id).text(), "too_large 431");
        assert_eq!(seen.next().kind, RefusalKind::TooLarge);
        assert_eq!(peer.ask("/fine").text(), "fine");
    });
}

#[test]
fn a_function_that_fails_changes_nothing() {
    let with_hook =
        |hook: fn(&Refusal<'_>) -> Response| Scene::tcp().serve_by(Server::new(router()).on_refusal(hook));
    let default = Scene::tcp().serve_by(Server::new(router()));
    let hooks: [fn(&Refusal<'_>) -> Response; 4] = [
        |refusal| refusal.response(),
        |_| panic!("on purpose"),
        |_| Response::new(StatusCode::OK).header("x", "a\nb"),
        |_| Body::channel(1).1.into_response(),
    ];
    for hook in hooks {
        let served = with_hook(hook);
        for request in ["GET / HTTP/1.1\r\n\r\n", "GET /panics HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let (expected, answer) = (default.ask(request), served.ask(request));
            assert_eq!(answer.status, expected.status);
            assert_eq!(answer.text(), expected.text());
            assert_eq!(answer.header("content-type"), expected.header("content-type"));
            assert_eq!(answer.closes(), expected.closes());
        }
        served.assert_alive();
    }
    let served = with_hook(|_| panic!("on purpose"));
    assert_eq!(H2::connect(&served).ask("/panics").status(), 500);
    assert_eq!(served.running.counters().hook_panics, 1);
    // Another error status is the function's own.
    let served = with_hook(|_| Response::new(StatusCode::IM_A_TEAPOT));
    assert_eq!(served.ask("GET / HTTP/1.1\r\n\r\n").status, 418);
}
