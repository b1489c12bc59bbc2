//! A layer of the server may go on with a request in a task of its own. The limits of the route hold there as well, and what is
//! observed names the route, however many requests are on their way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anywire_http::{Body, Response, StatusCode};
use anywire_server::{Ended, Handler, Limits, Next, Request, RouteLimits, Router, Server, State};
use tokio::sync::Notify;

use crate::support::h2::H2;
use crate::support::{HANG, Scene, Served};

const SHORT: Duration = Duration::from_millis(500);

#[derive(Clone)]
struct Cues {
    began: Sender<()>,
    goes_on: Arc<Notify>,
}

async fn work(State(cues): State<Cues>) -> &'static str {
    // Before the test is told: what it does from then on is not missed.
    let goes_on = cues.goes_on.notified();
    let _ = cues.began.send(());
    goes_on.await;
    "done"
}

async fn in_a_task(request: Request, next: Next) -> Response {
    anywire_loops::spawn(async move { next.run(request).await }).await.expect("it runs to its end")
}

struct Play {
    served: Served,
    began: Receiver<()>,
    goes_on: Arc<Notify>,
}

/// A server with this timeout, and a route with that one.
fn play(of_server: Duration, of_route: Duration) -> Play {
    let (began, has_begun) = channel();
    let goes_on = Arc::<Notify>::default();
    let limits = RouteLimits { handler_timeout: Some(of_route), ..RouteLimits::default() };
    let router = Router::new()
        .get("/limited", work.limits(limits))
        .get("/other", work)
        .state(Cues { began, goes_on: Arc::clone(&goes_on) });
    let limits = Limits { handler_timeout: of_server, ..Limits::default() };
    let served = Scene::tcp().serve_by(Server::new(router).limits(limits).layer(in_a_task));
    Play { served, began: has_begun, goes_on }
}

impl Play {
    fn has_begun(&self) {
        self.began.recv_timeout(HANG).expect("the handler runs");
    }
}

#[test]
fn a_route_may_take_longer_than_others() {
    let play = play(SHORT, HANG);
    let mut patient = play.served.connect();
    patient.send("GET /limited HTTP/1.1\r\nhost: x\r\n\r\n");
    play.has_begun();
    let mut streams = H2::connect(&play.served);
    let stream = streams.get("/limited");
    play.has_begun();
    // Another route meets the deadline of the server, which is that of an earlier request as well.
    assert_eq!(play.served.ask("GET /other HTTP/1.1\r\nhost: x\r\n\r\n").status, 503);
    play.goes_on.notify_waiters();
    let answer = patient.answer(false);
    assert_eq!((answer.status, answer.text()), (200, "done"));
    assert_eq!(streams.answer(stream).text(), "done");
    assert_eq!(play.served.running.counters().handler_timeouts, 1);
}

#[test]
fn a_route_may_take_less_time_than_others() {
    let play = play(HANG, SHORT);
    assert_eq!(play.served.ask("GET /limited HTTP/1.1\r\nhost: x\r\n\r\n").status, 503);
    assert_eq!(H2::connect(&play.served).ask("/limited").status(), 503);
    assert_eq!(play.served.running.counters().handler_timeouts, 2);
}

#[test]
fn requests_that_are_on_their_way_at_once_keep_their_routes() {
    let (began, has_begun) = channel();
    let goes_on = Arc::<Notify>::default();
    let router = Router::new()
        .get("/one/{id}", work)
        .get("/two/{id}", work)
        .state(Cues { began, goes_on: Arc::clone(&goes_on) });
    let (ended, routes) = crate::support::channel();
    let server = Server::new(router)
        .layer(in_a_task)
        .observe(move |exchange: &Ended<'_>| drop(ended.send(exchange.route.map(str::to_owned))));
    let play = Play { served: Scene::tcp().serve_by(server), began: has_begun, goes_on };
    let mut peers = ["/one/1", "/two/2"].map(|path| {
        let mut peer = play.served.connect();
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        play.has_begun();
        peer
    });
    play.goes_on.notify_waiters();
    for peer in &mut peers {
        assert_eq!(peer.answer(false).text(), "done");
    }
    let mut seen = [routes.next(), routes.next()];
    seen.sort();
    assert_eq!(seen.each_ref().map(Option::as_deref), [Some("/one/{id}"), Some("/two/{id}")]);
}

/// A layer answers at once and goes on in a task, with a request that was an `http::Request` meanwhile. The next request of the
/// connection waits in the layer, and has no route.
#[test]
fn a_request_that_lives_on_is_not_the_next_one_of_its_connection() {
    for version in ["HTTP/1.1", "HTTP/2"] {
        let (goes_on, leaves) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let (began, has_begun) = channel();
        let (waits, is_waiting) = channel();
        let (ended, routes) = crate::support::channel();
        let (go_on, leave) = (Arc::clone(&goes_on), Arc::clone(&leaves));
        let layer = async move |request: Request, next: Next| {
            if request.path() == "/waits" {
                let _ = waits.send(());
                leave.notified().await;
                return StatusCode::ACCEPTED;
            }
            let converted: http::Request<Body> = request.try_into().expect("a request");
            let request: Request = converted.try_into().expect("the same");
            let go_on = Arc::clone(&go_on);
            drop(anywire_loops::spawn(async move {
                go_on.notified().await;
                drop(next.run(request).await);
            }));
            StatusCode::ACCEPTED
        };
        let lives = async move || {
            let _ = began.send(());
        };
        let server = Server::new(Router::new().get("/lives/{on}", lives))
            .layer(layer)
            .observe(move |exchange: &Ended<'_>| drop(ended.send(exchange.route.map(str::to_owned))));
        let served = Scene::tcp().serve_by(server);
        let meanwhile = || {
            assert_eq!(routes.next(), None, "{version}");
            is_waiting.recv_timeout(HANG).expect("the layer has the second request");
            goes_on.notify_one();
            has_begun.recv_timeout(HANG).expect("the handler of the first one runs");
            leaves.notify_one();
        };
        if version == "HTTP/2" {
            let mut peer = H2::connect(&served);
            assert_eq!(peer.ask("/lives/1").status(), 202);
            let second = peer.get("/waits");
            meanwhile();
            assert_eq!(peer.answer(second).status(), 202);
        } else {
            let mut peer = served.connect();
            peer.send("GET /lives/1 HTTP/1.1\r\nhost: x\r\n\r\n");
            assert_eq!(peer.answer(false).status, 202);
            peer.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
            meanwhile();
            assert_eq!(peer.answer(false).status, 202);
        }
        assert_eq!(routes.next(), None, "{version}: that of the request before");
    }
}
