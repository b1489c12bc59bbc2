//! Each limit of a route holds for it alone, wherever it was set: on the handler, its router, or one around that; in both
//! versions, and within layers of the server. A neighbour has the limits of the server.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_http::h2::StreamId;
use anywire_server::{Handler, Limits, Next, Request, RouteLimits, Router, Server, State};
use tokio::sync::Notify;

use crate::support::h2::H2;
use crate::support::{HANG, Peer, Remote, Scene, Served};

#[derive(Clone)]
struct Cues {
    began: Sender<()>,
    /// Told when a handler ends, in whatever way.
    ended: Sender<()>,
    goes_on: Arc<Notify>,
}

struct Ends(Sender<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Answers the length of the text; waits or panics before that if the text says so.
async fn work(State(cues): State<Cues>, text: String) -> String {
    let _ends = Ends(cues.ended.clone());
    if text.starts_with("wait") {
        let _ = cues.began.send(());
        cues.goes_on.notified().await;
    }
    assert!(!text.starts_with("panic"), "on purpose");
    text.len().to_string()
}

/// Where a limit is set, and the path of the route that has it. `/other` has none.
type Place = (&'static str, fn(RouteLimits) -> Router);

const PLACES: &[Place] = &[
    ("/limited", |limits| {
        // What is set within says less.
        let within = RouteLimits { handler_timeout: None, ..NEVER };
        Router::new().post("/limited", work.limits(within).limits(limits))
    }),
    ("/limited", |limits| Router::new().merge(Router::new().post("/limited", work).limits(limits))),
    ("/in/limited", |limits| {
        let inner = Router::new().post("/limited", work);
        Router::new().merge(Router::new().limits(limits).nest("/in", inner))
    }),
    ("/in/limited", |limits| {
        let inner = Router::new().post("/limited", work).limits(limits);
        Router::new().merge(Router::new().nest("/in", inner).limits(NEVER))
    }),
    ("/limited", |limits| {
        Router::new().merge(Router::new().post("/limited", work.limits(limits)).limits(NEVER))
    }),
];

/// Limits that nothing here reaches.
const NEVER: RouteLimits = RouteLimits {
    handler_timeout: Some(Duration::MAX),
    body_bytes: Some(usize::MAX),
    body_timeout: Some(Duration::MAX),
    concurrency: Some(usize::MAX),
    queue_deadline: None,
};

const NONE: RouteLimits = RouteLimits {
    handler_timeout: None,
    body_bytes: None,
    body_timeout: None,
    concurrency: None,
    queue_deadline: None,
};

/// A server with a limited route.
struct Play {
    served: Served,
    path: &'static str,
    version: u8,
    began: Receiver<()>,
    ended: Receiver<()>,
    goes_on: Arc<Notify>,
}

/// A request on its way.
enum Asked {
    H1(Peer<Remote>),
    H2(Box<H2>, StreamId),
}

/// Plays with a route that has these limits, on a server with those.
fn in_each_way(limits: RouteLimits, of_server: &Limits, play: impl Fn(&Play)) {
    for (path, place) in PLACES {
        for version in [1, 2] {
            for has_layer in [false, true] {
                let (began, has_begun) = channel();
                let (ended, has_ended) = channel();
                let goes_on = Arc::<Notify>::default();
                let cues = Cues { began, ended, goes_on: Arc::clone(&goes_on) };
                let router = place(limits).post("/other", work).state(cues);
                let mut server = Server::new(router).limits(of_server.clone());
                if has_layer {
                    server = server.layer(async |request: Request, next: Next| next.run(request).await);
                }
                let served = Scene::tcp().serve_by(server);
                play(&Play { served, path, version, began: has_begun, ended: has_ended, goes_on });
            }
        }
    }
}

impl Play {
    /// Sends a head, and a part of the body that it announces.
    fn begin(&self, path: &str, length: usize, part: &str) -> Asked {
        if self.version == 1 {
            let mut peer = self.served.connect();
            let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
            peer.send(head + part);
            return Asked::H1(peer);
        }
        let mut peer = H2::connect(&self.served);
        let id = peer.open("POST", path, &[], Some(length as u64), false);
        peer.body(id, part.as_bytes(), part.len() == length);
        Asked::H2(Box::new(peer), id)
    }

    fn ask(&self, path: &str, text: &str) -> (u16, String) {
        let (status, text, _) = self.begin(path, text.len(), text).answer();
        (status, text)
    }

    /// A request whose handler waits.
    fn waiting(&self, path: &str) -> Asked {
        let asked = self.begin(path, 4, "wait");
        self.began.recv_timeout(HANG).expect("the handler runs");
        asked
    }
}

impl Asked {
    /// Sends the rest of the body.
    fn end(&mut self, part: &str) {
        match self {
            Self::H1(peer) => peer.send(part),
            Self::H2(peer, id) => peer.body(*id, part.as_bytes(), true),
        }
    }

    /// Status, text, and when to try again.
    fn answer(self) -> (u16, String, Option<String>) {
        match self {
            Self::H1(mut peer) => {
                let answer = peer.answer(false);
                let retry = answer.header("retry-after").map(str::to_owned);
                (answer.status, answer.text().to_owned(), retry)
            }
            Self::H2(mut peer, id) => {
                let answer = peer.answer(id);
                let retry = answer.header("retry-after").map(str::to_owned);
                (answer.status(), answer.text().to_owned(), retry)
            }
        }
    }
}

fn short() -> Option<Duration> {
    Some(Duration::from_millis(20))
}

#[test]
fn the_time_of_a_handler() {
    let limits = RouteLimits { handler_timeout: short(), ..NONE };
    in_each_way(limits, &Limits::default(), |play| {
        let other = play.waiting("/other");
        assert_eq!(play.waiting(play.path).answer().0, 503);
        assert_eq!(play.served.running.counters().handler_timeouts, 1);
        play.goes_on.notify_one();
        assert_eq!(other.answer().1, "4");
    });
    // The server's is shorter, and the route has none.
    let limits = RouteLimits { handler_timeout: Some(Duration::MAX), ..NONE };
    let of_server = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    in_each_way(limits, &of_server, |play| {
        let limited = play.waiting(play.path);
        assert_eq!(play.waiting("/other").answer().0, 503);
        play.goes_on.notify_one();
        assert_eq!(limited.answer().1, "4");
    });
}

#[test]
fn the_size_of_a_body() {
    let of_server = || Limits { body_bytes: 10, ..Limits::default() };
    in_each_way(RouteLimits { body_bytes: Some(20), ..NONE }, &of_server(), |play| {
        assert_eq!(play.ask(play.path, &"x".repeat(20)), (200, "20".to_owned()));
        assert_eq!(play.ask(play.path, &"x".repeat(21)).0, 413);
        assert_eq!(play.ask("/other", &"x".repeat(10)), (200, "10".to_owned()));
        assert_eq!(play.ask("/other", &"x".repeat(11)).0, 413);
    });
    in_each_way(RouteLimits { body_bytes: Some(0), ..NONE }, &of_server(), |play| {
        assert_eq!(play.ask(play.path, "x").0, 413);
        assert_eq!(play.ask("/other", "x").0, 200);
    });
}

#[test]
fn the_silence_of_a_body() {
    in_each_way(RouteLimits { body_timeout: short(), ..NONE }, &Limits::default(), |play| {
        let mut other = play.begin("/other", 4, "so");
        assert_eq!(play.begin(play.path, 4, "so").answer().0, 408);
        assert_eq!(play.served.running.counters().body_timeouts, 1);
        other.end("me");
        assert_eq!(other.answer().1, "4");
    });
    let of_server = Limits { body_timeout: Duration::from_millis(20), ..Limits::default() };
    in_each_way(RouteLimits { body_timeout: Some(Duration::MAX), ..NONE }, &of_server, |play| {
        let mut limited = play.begin(play.path, 4, "so");
        assert_eq!(play.begin("/other", 4, "so").answer().0, 408);
        limited.end("me");
        assert_eq!(limited.answer().1, "4");
    });
}

#[test]
fn how_many_there_are_at_once() {
    in_each_way(RouteLimits { concurrency: Some(2), ..NONE }, &Limits::default(), |play| {
        let (first, second) = (play.waiting(play.path), play.waiting(play.path));
        let (status, text, retry) = play.begin(play.path, 4, "more").answer();
        assert_eq!((status, retry.as_deref()), (503, Some("1")), "{text}");
        assert_eq!(play.served.running.counters().concurrency_refusals, 1);
        assert_eq!(play.ask("/other", "more").0, 200);
        play.goes_on.notify_one();
        play.goes_on.notify_one();
        assert_eq!((first.answer().0, second.answer().0), (200, 200));
        for _ in 0..3 {
            assert_eq!(play.ask(play.path, "more").0, 200);
        }
    });
}

/// However a request ends, it makes room for another one.
#[test]
fn a_request_that_ends_badly_makes_room() {
    let limits = RouteLimits { concurrency: Some(1), ..NONE };
    in_each_way(limits, &Limits::default(), |play| {
        for _ in 0..3 {
            assert_eq!(play.ask(play.path, "panic").0, 500);
            while play.ended.try_recv().is_ok() {}
            match play.waiting(play.path) {
                Asked::H1(peer) => peer.reset(),
                Asked::H2(peer, _) => peer.link.reset(),
            }
            play.ended.recv_timeout(HANG).expect("the handler is dropped");
        }
        assert_eq!(play.ask(play.path, "more").0, 200);
        assert_eq!(play.served.running.counters().concurrency_refusals, 0);
    });
    let limits = RouteLimits { concurrency: Some(1), handler_timeout: short(), ..NONE };
    in_each_way(limits, &Limits::default(), |play| {
        for _ in 0..3 {
            assert_eq!(play.waiting(play.path).answer().0, 503);
        }
        assert_eq!(play.served.running.counters().handler_timeouts, 3);
    });
}

/// All loops count together.
#[test]
fn no_loop_has_requests_of_its_own() {
    let (began, has_begun) = channel();
    let cues = Cues { began, ended: channel().0, goes_on: Arc::default() };
    let goes_on = Arc::clone(&cues.goes_on);
    let limits = RouteLimits { concurrency: Some(3), ..NONE };
    let router = Router::new().post("/limited", work.limits(limits)).state(cues);
    let served = Scene::tcp().serve_on(4, router, Limits::default());
    let request = "POST /limited HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nwait";
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..20 {
            threads.spawn(|| {
                let answer = served.ask(request).status;
                answers.lock().expect("no panic under the lock").push(answer);
            });
        }
        for _ in 0..3 {
            has_begun.recv_timeout(HANG).expect("the handler runs");
        }
        served.await_count("refusals", |counters| counters.concurrency_refusals, 17);
        (0..3).for_each(|_| goes_on.notify_one());
    });
    let answers = answers.into_inner().expect("no panic under the lock");
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(200), count(503)), (3, 17));
}

#[test]
fn none_at_once_is_a_mistake() {
    let none = RouteLimits { concurrency: Some(0), ..NONE };
    let line = line!() + 2;
    let routers = [
        Router::new().get("/", (async || "").limits(none)),
        Router::new().get("/", async || "").limits(none),
        Router::new().nest("/in", Router::new().get("/", async || "")).limits(none),
    ];
    for (index, router) in (0..).zip(routers) {
        let error = Server::new(router).listen("tcp:127.0.0.1:0").start().err().expect("a mistake");
        let text = error.to_string();
        let place = format!("routes_have_limits_of_their_own.rs:{}:", line + index);
        assert!(text.contains(&place) && text.contains("concurrency is 0"), "{text}");
    }
}
