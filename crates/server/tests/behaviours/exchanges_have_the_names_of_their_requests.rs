//! Observers, and so the log, know a request by the name that the layer has given it: by whatever field it goes, and also if its
//! handler timed out, its peer left, or the response is not what the layer saw. A name that a peer has made up is none.

use std::sync::mpsc;
use std::time::Duration;

use anywire_http::StatusCode;
use anywire_server::layers::{RequestId, RequestIds};
use anywire_server::{
    Ended, ExchangeEnd, Handler, Limits, Next, Request, Response, RouteLimits, Router, Server,
};

use crate::support::h2::H2;
use crate::support::{Scene, Served, Told, channel};

/// Names of one request: of the handler that waits, if there is one, and of its exchange.
struct Play {
    served: Served,
    waiting: mpsc::Receiver<String>,
    ended: Told<(ExchangeEnd, Option<u16>, Option<String>)>,
}

impl Play {
    fn begin(limits: Limits, layers: impl FnOnce(Router) -> Router, around: Option<RequestIds>) -> Self {
        let (waits, waiting) = mpsc::channel();
        let (ends, ended) = channel();
        let waits = async move |id: RequestId| -> StatusCode {
            let _ = waits.send(id.to_string());
            std::future::pending().await
        };
        let full = async || -> StatusCode { std::future::pending().await };
        let router = Router::new()
            .get("/named", async |id: RequestId| id.to_string())
            .get("/panics", async || -> StatusCode { panic!("on purpose") })
            .get("/waits", waits)
            .get("/full", full.limits(RouteLimits { concurrency: Some(1), ..RouteLimits::default() }));
        let server = Server::new(layers(router)).limits(limits).observe(move |exchange: &Ended<'_>| {
            let status = exchange.status.map(|status| status.as_u16());
            let _ = ends.send((exchange.end, status, exchange.request_id.map(str::to_owned)));
        });
        let server = match around {
            Some(layer) => server.layer(layer),
            None => server,
        };
        Self { served: Scene::tcp().serve_by(server), waiting, ended }
    }

    /// Sends a request whose peer makes up names, and then does this to its connection.
    fn ask(&self, version: u8, path: &str, then: Then<'_>) {
        let forged = [("x-request-id", "forged"), ("x-trace", "forged")];
        match version {
            1 => {
                let mut peer = self.served.connect();
                peer.send(format!(
                    "GET {path} HTTP/1.1\r\nhost: x\r\nx-request-id: forged\r\nx-trace: forged\r\n\r\n"
                ));
                match then {
                    Then::Reads => drop(peer.answer(false)),
                    Then::Leaves(waiting) => {
                        *waiting = self.waiting.recv().expect("the handler runs");
                        peer.reset();
                    }
                }
            }
            _ => {
                let mut peer = H2::connect(&self.served);
                let id = peer.open("GET", path, &forged, None, true);
                match then {
                    Then::Reads => drop(peer.answer(id)),
                    Then::Leaves(waiting) => {
                        *waiting = self.waiting.recv().expect("the handler runs");
                        peer.link.reset();
                    }
                }
            }
        }
    }
}

enum Then<'n> {
    Reads,
    /// Once the handler waits, whose name of the request this gets.
    Leaves(&'n mut String),
}

fn traced() -> RequestIds {
    RequestIds::new().field("x-trace")
}

/// Outside of the layer that names requests, and answers on its own.
async fn another_response(request: Request, next: Next) -> Response {
    next.run(request).await;
    StatusCode::ACCEPTED.into()
}

/// The layer is around a router, and around the whole server.
fn on_each_side(limits: &Limits, play: impl Fn(&Play, u8)) {
    for version in [1, 2] {
        play(&Play::begin(limits.clone(), |router| router.layer(traced()), None), version);
        play(&Play::begin(limits.clone(), |router| router, Some(traced())), version);
    }
}

#[test]
fn by_a_field_of_ones_own() {
    on_each_side(&Limits::default(), |play, version| {
        play.ask(version, "/named", Then::Reads);
        let (end, status, name) = play.ended.next();
        assert_eq!((end, status), (ExchangeEnd::Complete, Some(200)));
        let name = name.expect("the layer gave one");
        assert_eq!(name.len(), 24, "{name}");
        play.ask(version, "/panics", Then::Reads);
        let (_, status, other) = play.ended.next();
        assert_eq!((status, other.as_ref().map(String::len)), (Some(500), Some(24)), "{other:?}");
        assert_ne!(other.as_ref(), Some(&name));
    });
}

#[test]
fn of_a_handler_that_times_out() {
    let limits = Limits { handler_timeout: Duration::from_millis(30), ..Limits::default() };
    on_each_side(&limits, |play, version| {
        play.ask(version, "/waits", Then::Reads);
        let name = play.waiting.recv().expect("the handler ran");
        assert_eq!(play.ended.next(), (ExchangeEnd::Complete, Some(503), Some(name)));
    });
}

#[test]
fn of_a_peer_that_left() {
    on_each_side(&Limits::default(), |play, version| {
        let mut name = String::new();
        play.ask(version, "/waits", Then::Leaves(&mut name));
        assert_eq!(play.ended.next(), (ExchangeEnd::PeerLeft, None, Some(name)));
    });
}

#[test]
fn of_a_response_that_the_layer_did_not_see() {
    for version in [1, 2] {
        let layers = |router: Router| router.layer(another_response).layer(traced());
        let play = Play::begin(Limits::default(), layers, None);
        play.ask(version, "/named", Then::Reads);
        let (_, status, name) = play.ended.next();
        assert_eq!((status, name.as_ref().map(String::len)), (Some(202), Some(24)), "{name:?}");
    }
}

/// A request too many is refused before the layers of its router have named it.
#[test]
fn no_name_is_forged_where_the_layer_has_not_run() {
    for version in [1, 2] {
        let play = Play::begin(Limits::default(), |router| router.layer(traced()), None);
        let mut first = play.served.connect();
        first.send("GET /full HTTP/1.1\r\nhost: x\r\n\r\n");
        // Counted on its way to the handler: by the time that the other connection is read, it is in work.
        play.served.await_count("requests", |counters| counters.requests, 1);
        play.ask(version, "/full", Then::Reads);
        assert_eq!(play.ended.next(), (ExchangeEnd::Complete, Some(503), None));
        let play = Play::begin(Limits::default(), |router| router, Some(traced()));
        let mut first = play.served.connect();
        first.send("GET /full HTTP/1.1\r\nhost: x\r\n\r\n");
        play.served.await_count("requests", |counters| counters.requests, 1);
        play.ask(version, "/full", Then::Reads);
        let (_, status, name) = play.ended.next();
        assert_eq!((status, name.as_ref().map(String::len)), (Some(503), Some(24)), "{name:?}");
    }
}

/// Without the layer the peer's own counts, such as that of a proxy, unless it would deface a log.
#[test]
fn without_the_layer_it_is_a_name_that_fits() {
    let play = Play::begin(Limits::default(), |router| router, None);
    let cases = [("proxy-7", Some("proxy-7")), ("a\" status=500 end=\"x", None), ("a b", None)];
    for (sent, expected) in cases {
        let ids =
            play.served.ask(&format!("GET /nowhere HTTP/1.1\r\nhost: x\r\nx-request-id: {sent}\r\n\r\n"));
        assert_eq!(ids.status, 404);
        assert_eq!(play.ended.next(), (ExchangeEnd::Complete, Some(404), expected.map(str::to_owned)));
        let mut peer = H2::connect(&play.served);
        let id = peer.open("GET", "/nowhere", &[("x-request-id", sent)], None, true);
        assert_eq!(peer.answer(id).status(), 404);
        assert_eq!(play.ended.next(), (ExchangeEnd::Complete, Some(404), expected.map(str::to_owned)));
    }
}
