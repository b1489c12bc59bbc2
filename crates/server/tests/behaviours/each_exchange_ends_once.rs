//! An observer sees each exchange begin and end once, however it ends: with its last byte, by the peer, by a fault, by a
//! deadline or by the end of the server. In both versions, on every wire.

use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anywire_http::h2::Code;
use anywire_http::{Body, BodyError, Response, StatusCode};
use anywire_server::{
    Begun, Ended, ExchangeEnd, Limits, Next, Observer, Path, Request, Router, Server, State, Upgrade,
    Upgraded,
};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::support::h2::{Came, END_HEADERS, END_STREAM, H2, HEADERS, frame};
use crate::support::{Peer, Remote, Scene, Served, Told, channel};

/// What an observer was told of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    method: Option<String>,
    route: Option<String>,
    status: Option<u16>,
    received: u64,
    sent: u64,
    end: ExchangeEnd,
}

impl Seen {
    fn complete(method: &str, route: Option<&str>, status: u16, received: u64, sent: u64) -> Self {
        Self {
            method: Some(method.to_owned()),
            route: route.map(str::to_owned),
            status: Some(status),
            received,
            sent,
            end: ExchangeEnd::Complete,
        }
    }

    /// Of a request whose head could not be read.
    fn unknown(status: u16, sent: u64) -> Self {
        Self { method: None, ..Self::complete("", None, status, 0, sent) }
    }
}

/// Passes on what it is told.
#[derive(Clone)]
struct Witness {
    ends: Sender<Seen>,
    under_way: usize,
}

impl Observer for Witness {
    type Exchange = Sender<Seen>;

    fn begin(&mut self, begun: &Begun<'_>) -> Sender<Seen> {
        assert!(!begun.peer.to_string().is_empty());
        self.under_way += 1;
        self.ends.clone()
    }

    fn end(&mut self, ends: Sender<Seen>, ended: &Ended<'_>) {
        self.under_way -= 1;
        assert!(ended.time_to_head.is_none_or(|head| head <= ended.duration), "{ended:?}");
        assert_eq!(ended.time_to_head.is_some(), ended.status.is_some(), "{ended:?}");
        let _ = ends.send(Seen {
            method: ended.method.map(ToString::to_string),
            route: ended.route.map(str::to_owned),
            status: ended.status.map(|status| status.as_u16()),
            received: ended.received_bytes,
            sent: ended.sent_bytes,
            end: ended.end,
        });
    }
}

/// A server, and what its observer has seen.
struct Play {
    served: Served,
    seen: Told<Seen>,
    /// Lets the body of `/held` go on, or a handler.
    goes_on: Arc<Notify>,
    /// Handlers that wait.
    waits: mpsc::Receiver<()>,
}

#[derive(Clone)]
struct Cues {
    goes_on: Arc<Notify>,
    waits: Sender<()>,
}

impl Play {
    fn begin(scene: &Scene, limits: Limits) -> Self {
        let (ends, seen) = channel();
        let (waiting, waits) = mpsc::channel();
        let goes_on = Arc::<Notify>::default();
        let router = router().state(Cues { goes_on: Arc::clone(&goes_on), waits: waiting });
        let server = Server::new(router).limits(limits).observe(Witness { ends, under_way: 0 });
        Self { served: scene.elsewhere().serve_by(server), seen, goes_on, waits }
    }

    /// A request has been sent, and its handler waits.
    fn waiting(&self, request: &str) -> Peer<Remote> {
        let mut peer = self.served.connect();
        peer.send(request);
        self.waits.recv().expect("the handler runs");
        peer
    }

    #[track_caller]
    fn assert_next(&self, expected: &Seen) {
        assert_eq!(&self.seen.next(), expected);
    }

    #[track_caller]
    fn assert_ends(&self, route: &str, status: Option<u16>, sent: u64, end: ExchangeEnd) {
        let expected = Seen { status, sent, end, ..Seen::complete("GET", Some(route), 0, 0, 0) };
        assert_eq!(self.seen.next(), expected);
    }

    /// Nothing has ended so far.
    #[track_caller]
    fn assert_none(&self) {
        assert_eq!(self.seen.so_far(), None);
    }
}

fn router() -> Router {
    Router::new()
        .get("/whole", async || "Hello, World!")
        .post("/echo", async |body: Body| body)
        .post("/length", async |bytes: Bytes| bytes.len().to_string())
        .query("/asked", async |bytes: Bytes| bytes.len().to_string())
        .get("/held/{end}", async |Path(end): Path<String>, State(cues): State<Cues>| {
            let (mut sender, body) = Body::channel(1024);
            drop(anywire_loops::spawn(async move {
                let _ = sender.send("some").await;
                cues.goes_on.notified().await;
                match end.as_str() {
                    "well" => sender.finish(),
                    _ => sender.abort(BodyError::failed("on purpose")),
                }
            }));
            body
        })
        .get("/breaks", async || {
            let (mut sender, body) = Body::channel(1024);
            let _ = sender.send("some").await;
            sender.abort(BodyError::failed("on purpose"));
            body
        })
        .get("/large", async || vec![7u8; 32 << 20])
        .get("/waits", async |State(cues): State<Cues>| {
            let _ = cues.waits.send(());
            std::future::pending::<String>().await
        })
        .get("/id", async || Response::new(StatusCode::OK).header("x-request-id", "theirs"))
        .get("/upgrade", async |upgrade: Upgrade| upgrade.accept("none", async |_: Upgraded| {}))
        .get("/panics", async || -> String { panic!("on purpose") })
}

type Plain = (&'static str, &'static str, &'static str, u16, Option<&'static str>, u64, u64);

/// Method, path, body; then status, route, and the bytes of both bodies.
const PLAIN: &[Plain] = &[
    ("GET", "/whole", "", 200, Some("/whole"), 0, 13),
    ("HEAD", "/whole", "", 200, Some("/whole"), 0, 0),
    ("POST", "/length", "12345", 200, Some("/length"), 5, 1),
    ("POST", "/echo", "12345", 200, Some("/echo"), 5, 5),
    ("GET", "/nowhere", "", 404, None, 0, 15),
    ("OPTIONS", "/whole", "", 204, Some("/whole"), 0, 0),
    ("PUT", "/held/well", "", 405, Some("/held/{end}"), 0, 60),
    ("QUERY", "/asked", "", 415, Some("/asked"), 0, 53),
    ("GET", "/panics", "", 500, Some("/panics"), 0, 40),
];

#[test]
fn with_the_last_byte_of_a_response() {
    crate::support::on_each_wire(|scene| {
        let play = Play::begin(scene, Limits::default());
        let mut all = String::new();
        for &(method, path, body, status, route, received, sent) in PLAIN {
            let length = body.len();
            let request =
                format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
            assert_eq!(play.served.ask(&request).status, status);
            play.assert_next(&Seen::complete(method, route, status, received, sent));
            all.push_str(&request);
            let mut peer = H2::connect(&play.served);
            let id = peer.open(method, path, &[], Some(length as u64), body.is_empty());
            if !body.is_empty() {
                peer.body(id, body.as_bytes(), true);
            }
            assert_eq!(peer.answer(id).status(), status);
            play.assert_next(&Seen::complete(method, route, status, received, sent));
        }
        // In one piece, and in their order.
        let mut peer = play.served.connect();
        peer.send(all);
        for &(method, _, _, status, route, received, sent) in PLAIN {
            assert_eq!(peer.answer(method == "HEAD").status, status);
            play.assert_next(&Seen::complete(method, route, status, received, sent));
        }
    });
}

#[test]
fn not_with_its_head_if_its_body_streams() {
    crate::support::on_each_wire(|scene| {
        let play = Play::begin(scene, Limits::default());
        for (way, sent, end) in [("well", 4, ExchangeEnd::Complete), ("badly", 4, ExchangeEnd::Failed)] {
            let mut peer = play.served.connect();
            peer.send(format!("GET /held/{way} HTTP/1.1\r\nhost: x\r\n\r\n"));
            assert_eq!(peer.head().status, 200);
            assert_eq!(peer.chunk().as_deref(), Some(&b"some"[..]));
            play.assert_none();
            play.goes_on.notify_one();
            play.assert_ends("/held/{end}", Some(200), sent, end);
            let mut peer = H2::connect(&play.served);
            let id = peer.get(&format!("/held/{way}"));
            while !matches!(peer.next(), Came::Data(of, data, _) if of == id && data == b"some") {}
            play.assert_none();
            play.goes_on.notify_one();
            play.assert_ends("/held/{end}", Some(200), sent, end);
        }
    });
}

#[test]
fn by_a_peer_that_leaves() {
    crate::support::on_each_wire(|scene| {
        let play = Play::begin(scene, Limits::default());
        // A Unix socket has no reset, and shows an end of input.
        if !scene.is("unix") {
            play.waiting("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n").reset();
            play.assert_ends("/waits", None, 0, ExchangeEnd::PeerLeft);
        }
        let mut peer = H2::connect(&play.served);
        let id = peer.get("/waits");
        play.waits.recv().expect("the handler runs");
        let H2 { engine, out, .. } = &mut peer;
        engine.reset(id, Code::CANCEL, out);
        peer.flush();
        play.assert_ends("/waits", None, 0, ExchangeEnd::PeerReset);
        peer.get("/waits");
        play.waits.recv().expect("the handler runs");
        peer.link.reset();
        play.assert_ends("/waits", None, 0, ExchangeEnd::PeerLeft);
    });
}

#[test]
fn by_a_fault_of_the_peer() {
    crate::support::on_each_wire(|scene| {
        let play = Play::begin(scene, Limits::default());
        let text = play.served.ask("GET / HTTP/1.1\r\nbad header: x\r\n\r\n").body.len();
        play.assert_next(&Seen::unknown(400, text as u64));
        let mut peer = H2::connect(&play.served);
        peer.get("/waits");
        play.waits.recv().expect("the handler runs");
        // A head without a method, and one of too many fields.
        peer.raw(&frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x86\x84"));
        play.assert_next(&Seen { status: None, end: ExchangeEnd::Refused, ..Seen::unknown(0, 0) });
        let many = [("a", "b"); 150];
        let mut large = H2::connect(&play.served);
        let id = large.open("GET", "/whole", &many, None, true);
        let text = large.answer(id).body.len();
        play.assert_next(&Seen::unknown(431, text as u64));
        // A frame of settings for a stream.
        peer.raw(&[0, 0, 0, 4, 0, 0, 0, 0, 1]);
        play.assert_ends("/waits", None, 0, ExchangeEnd::PeerFault);
    });
}

#[test]
fn by_a_deadline() {
    crate::support::on_each_wire(|scene| {
        let short = Duration::from_millis(30);
        let play = Play::begin(scene, Limits { handler_timeout: short, ..Limits::default() });
        let text = play.served.ask("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n").body.len();
        play.assert_ends("/waits", Some(503), text as u64, ExchangeEnd::Complete);
        assert_eq!(H2::connect(&play.served).ask("/waits").status(), 503);
        play.assert_ends("/waits", Some(503), text as u64, ExchangeEnd::Complete);

        // From accept on: a handshake has to fit in, on a slow machine too.
        let head_timeout = Duration::from_secs(3);
        let play = Play::begin(scene, Limits { head_timeout, ..Limits::default() });
        let text = play.served.ask("GET /waits HTTP/1.1\r\n").body.len();
        play.assert_next(&Seen::unknown(408, text as u64));

        let play = Play::begin(scene, Limits { half_close_timeout: short, ..Limits::default() });
        let peer = play.waiting("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
        peer.half_close();
        play.assert_ends("/waits", None, 0, ExchangeEnd::HalfCloseTimeout);
        let mut peer = H2::connect(&play.served);
        peer.get("/waits");
        play.waits.recv().expect("the handler runs");
        peer.half_close();
        play.assert_ends("/waits", None, 0, ExchangeEnd::HalfCloseTimeout);

        let limits = Limits { write_timeout: Duration::from_secs(1), ..Limits::default() };
        let play = Play::begin(scene, limits);
        let mut peer = play.served.connect();
        peer.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        play.assert_ends("/large", Some(200), 32 << 20, ExchangeEnd::PeerSlow);
        let mut peer = H2::connect(&play.served);
        peer.reads = false;
        peer.get("/large");
        let seen = play.seen.next();
        assert_eq!((seen.status, seen.end), (Some(200), ExchangeEnd::PeerSlow));
    });
}

#[test]
fn by_the_end_of_the_server() {
    crate::support::on_each_wire(|scene| {
        for version in [1, 2] {
            let play = Play::begin(scene, Limits::default());
            let mut peers = (play.served.connect(), None);
            if version == 1 {
                peers.0.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
            } else {
                let mut peer = H2::connect(&play.served);
                peer.get("/waits");
                peers.1 = Some(peer);
            }
            play.waits.recv().expect("the handler runs");
            drop(play.served.running);
            assert_eq!(play.seen.next().end, ExchangeEnd::Cut);
        }
    });
}

/// The layer runs first, and the route is found behind it.
#[test]
fn with_its_route_within_layers_of_the_server() {
    crate::support::on_each_wire(|scene| {
        let (ends, seen) = channel();
        let later = async |request: Request, next: Next| {
            tokio::task::yield_now().await;
            next.run(request).await
        };
        let (waits, waiting) = mpsc::channel();
        let router = router().state(Cues { goes_on: Arc::default(), waits });
        let server = Server::new(router).layer(later).observe(Witness { ends, under_way: 0 });
        let served = scene.elsewhere().serve_by(server);
        assert_eq!(served.ask("GET /whole HTTP/1.1\r\nhost: x\r\n\r\n").status, 200);
        assert_eq!(seen.next(), Seen::complete("GET", Some("/whole"), 200, 0, 13));
        let mut peer = H2::connect(&served);
        assert_eq!(peer.ask("/whole").status(), 200);
        assert_eq!(seen.next(), Seen::complete("GET", Some("/whole"), 200, 0, 13));
        peer.get("/waits");
        waiting.recv().expect("the handler runs");
        peer.link.reset();
        assert_eq!(seen.next().route.as_deref(), Some("/waits"));
    });
}

/// Nothing of the first one has left, so its bytes do not count.
#[test]
fn with_the_response_that_replaces_another() {
    let play = Play::begin(&Scene::tcp(), Limits::default());
    let answer = play.served.ask("GET /breaks HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((answer.status, answer.text().len()), (500, 40));
    play.assert_next(&Seen::complete("GET", Some("/breaks"), 500, 0, 40));
}

/// The layer goes on at once, and the handler that waits never answers.
#[test]
fn with_its_route_if_it_is_never_answered() {
    let (ends, seen) = channel();
    let (waits, waiting) = mpsc::channel();
    let router = router().state(Cues { goes_on: Arc::default(), waits });
    let through = async |request: Request, next: Next| next.run(request).await;
    let server = Server::new(router).layer(through).observe(Witness { ends, under_way: 0 });
    let served = Scene::tcp().serve_by(server);
    let mut old = served.connect();
    old.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
    waiting.recv().expect("the handler runs");
    old.reset();
    assert_eq!(seen.next().route.as_deref(), Some("/waits"));
    let mut peer = H2::connect(&served);
    peer.get("/waits");
    waiting.recv().expect("the handler runs");
    peer.link.reset();
    assert_eq!(seen.next().route.as_deref(), Some("/waits"));
}

/// A layer of the server may go on in a task of its own. The route that is found there is not that of another request.
#[test]
fn without_the_route_of_another_request() {
    let (ends, seen) = channel();
    let (waits, waiting) = mpsc::channel();
    let router = router().state(Cues { goes_on: Arc::default(), waits });
    let answers = async |request: Request, next: Next| {
        if request.path() == "/waits" {
            drop(anywire_loops::spawn(async move { drop(next.run(request).await) }));
        }
        StatusCode::ACCEPTED
    };
    let server = Server::new(router).layer(answers).observe(Witness { ends, under_way: 0 });
    let served = Scene::tcp().serve_by(server);
    for path in ["/waits", "/whole", "/waits", "/whole"] {
        assert_eq!(served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status, 202);
        if path == "/waits" {
            waiting.recv().expect("the handler runs");
        }
        assert_eq!(seen.next(), Seen::complete("GET", None, 202, 0, 0), "{path}");
    }
}

#[test]
fn without_the_route_of_the_request_before() {
    let (ends, seen) = channel();
    let answers = async |request: Request, next: Next| match request.path() {
        "/refused" => StatusCode::ACCEPTED.into(),
        _ => next.run(request).await,
    };
    let router = Router::new().get("/", async || StatusCode::OK);
    let server = Server::new(router).layer(answers).observe(Witness { ends, under_way: 0 });
    let served = Scene::tcp().serve_by(server);
    let mut peer = served.connect();
    for (path, route, status) in [("/", Some("/"), 200), ("/refused", None, 202), ("/", Some("/"), 200)] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.answer(false).status, status);
        assert_eq!(seen.next(), Seen::complete("GET", route, status, 0, 0), "{path}");
    }
}

#[test]
fn by_leaving_http() {
    crate::support::on_each_wire(|scene| {
        let play = Play::begin(scene, Limits::default());
        let mut peer = play.served.connect();
        peer.send("GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: none\r\n\r\n");
        assert_eq!(peer.head().status, 101);
        play.assert_ends("/upgrade", Some(101), 0, ExchangeEnd::Upgraded);
    });
}

#[test]
fn a_request_has_the_id_of_its_response_or_its_own() {
    let (ids, told) = channel();
    let observer = move |ended: &Ended<'_>| {
        let _ = ids.send(ended.request_id.map(str::to_owned));
    };
    let (waits, _waiting) = mpsc::channel();
    let router = router().state(Cues { goes_on: Arc::default(), waits });
    let served = Scene::tcp().serve_by(Server::new(router).observe(observer));
    let long = "x".repeat(200);
    for (path, id, expected) in
        [("whole", "ours", Some("ours")), ("id", "ours", Some("theirs")), ("whole", &long, None)]
    {
        let request = format!("GET /{path} HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\n\r\n");
        assert_eq!(served.ask(&request).status, 200);
        assert_eq!(told.next().as_deref(), expected);
    }
}

/// Panics at the begin or at the end.
#[derive(Clone)]
struct Panics {
    at_begin: bool,
}

impl Observer for Panics {
    type Exchange = ();

    fn begin(&mut self, _: &Begun<'_>) {
        assert!(!self.at_begin, "on purpose");
    }

    fn end(&mut self, (): (), _: &Ended<'_>) {
        panic!("on purpose");
    }
}

#[test]
fn an_observer_that_panics_costs_no_request_and_no_other_observer() {
    crate::support::on_each_wire(|scene| {
        let (ends, seen) = channel();
        let observer = move |ended: &Ended<'_>| {
            let _ = ends.send(ended.end);
        };
        let (waits, _waiting) = mpsc::channel();
        let router = router().state(Cues { goes_on: Arc::default(), waits });
        let server = Server::new(router)
            .observe(Panics { at_begin: true })
            .observe(Panics { at_begin: false })
            .observe(observer);
        let served = scene.elsewhere().serve_by(server);
        let mut peer = served.connect();
        for _ in 0..2 {
            peer.send("GET /whole HTTP/1.1\r\nhost: x\r\n\r\n");
            assert_eq!(peer.answer(false).status, 200);
            assert_eq!(seen.next(), ExchangeEnd::Complete);
        }
        assert_eq!(H2::connect(&served).ask("/whole").status(), 200);
        assert_eq!(seen.next(), ExchangeEnd::Complete);
        served.await_count("panics of observers", |counters| counters.hook_panics, 6);
    });
}

/// Its clone panics as it is dropped.
struct Fragile {
    is_clone: bool,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        Self { is_clone: true }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.is_clone, "on purpose");
    }
}

impl Observer for Fragile {
    type Exchange = ();

    fn begin(&mut self, _: &Begun<'_>) {}

    fn end(&mut self, (): (), _: &Ended<'_>) {}
}

#[test]
fn an_observer_that_panics_as_it_is_dropped_ends_nothing_else() {
    let (ends, seen) = channel();
    let observer = move |ended: &Ended<'_>| {
        let _ = ends.send(ended.end);
    };
    let (waits, _waiting) = mpsc::channel();
    let router = router().state(Cues { goes_on: Arc::default(), waits });
    let server = Server::new(router).observe(Fragile { is_clone: false }).observe(observer);
    let served = Scene::tcp().serve_by(server);
    assert_eq!(served.ask("GET /whole HTTP/1.1\r\nhost: x\r\n\r\n").status, 200);
    assert_eq!(seen.next(), ExchangeEnd::Complete);
    // The clone of the loop panics as it is dropped, which ends nothing else.
    served.running.shutdown(Duration::ZERO).wait();
}
