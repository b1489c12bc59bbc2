//! A handler that fails is logged with the method and the path of its route, and with each cause once. A fault of the
//! peer is counted, and logged at debug level.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::io;
use std::time::Duration;

use anywire_http::{Body, BodyError, Response, StatusCode};
use anywire_server::{
    Error, FromRequest, FromRequestParts, Handler, Json, Limits, Next, Parts, Path, Rejection, Request,
    Router, Server,
};
use support::log;
use tracing::Level;

/// Why an order cannot be read, in three layers.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("reading order {id}")]
    Order { id: u32, source: Box<Self> },
    #[error("asking the store")]
    Store(#[source] io::Error),
}

fn order_error() -> OrderError {
    let store = OrderError::Store(io::Error::other("the disk is gone"));
    OrderError::Order { id: 7, source: Box::new(store) }
}

/// The only line about this route: its level and text.
#[track_caller]
fn only_line(route: &str) -> (Level, String) {
    log::wait_for(&format!(" route={route} "));
    let lines = log::with(&format!(" route={route} "));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    (lines[0].level, lines[0].text.clone())
}

#[test]
fn an_error_with_its_whole_chain() {
    log::keep();
    let orders = Router::new().get("/{id}", async || -> Result<(), Error> { Err(order_error())? }).get(
        "/{id}/later",
        async || -> Result<(), Error> {
            tokio::task::yield_now().await;
            Err(order_error())?
        },
    );
    let served = support::serve(Router::new().nest("/failing", orders));
    for (target, route) in [("/failing/7", "/failing/{id}"), ("/failing/7/later", "/failing/{id}/later")] {
        assert_eq!(served.ask(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).status, 500);
        let (level, text) = only_line(route);
        assert_eq!(level, Level::ERROR);
        assert!(text.contains(" method=GET ") && text.contains(" status=500 "), "{text}");
        assert!(text.contains("cause=reading order 7: asking the store: the disk is gone"), "{text}");
        assert_eq!(text.matches("asking the store").count(), 1, "{text}");
    }
    assert_eq!(served.running.counters().failures, 2);
}

#[test]
fn an_error_with_a_status_of_its_own_keeps_its_cause() {
    log::keep();
    fn fails(status: StatusCode) -> Result<(), Error> {
        Err(Error::new(status, "later").caused_by(order_error()))
    }
    let router = Router::new()
        .get("/unavailable", async || fails(StatusCode::SERVICE_UNAVAILABLE))
        .get("/gone", async || fails(StatusCode::GONE));
    let served = support::serve(router);
    let answer = served.ask("GET /unavailable HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((answer.status, answer.text()), (503, "later"));
    let (level, text) = only_line("/unavailable");
    assert!(level == Level::ERROR && text.contains(" status=503 cause=reading order 7: asking"), "{text}");
    assert_eq!(served.ask("GET /gone HTTP/1.1\r\nhost: x\r\n\r\n").status, 410);
    assert_eq!(only_line("/gone").0, Level::DEBUG);
}

#[test]
fn a_handler_that_takes_too_long() {
    log::keep();
    let router = Router::new().get("/for/ever", async || -> &'static str { std::future::pending().await });
    let limits = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    let served = support::Scene::tcp().serve_with(router, limits);
    assert_eq!(served.ask("GET /for/ever HTTP/1.1\r\nhost: x\r\n\r\n").status, 503);
    let (level, text) = only_line("/for/ever");
    assert!(
        level == Level::ERROR && text.contains(" status=503") && text.contains("took too long"),
        "{text}"
    );
    assert_eq!(served.running.counters().handler_timeouts, 1);
}

async fn passes(request: Request, next: Next) -> Response {
    next.run(request).await
}

#[test]
fn a_layer_that_panics() {
    log::keep();
    async fn fragile(_: Request, _: Next) -> Response {
        panic!("a layer, on purpose")
    }
    let hello = async || "not reached";
    let router = Router::new()
        .get("/layers/outermost", hello.layer(fragile))
        .merge(Router::new().layer(passes).layer(fragile).get("/layers/inner", hello));
    let served = support::Scene::tcp().serve_by(Server::new(router).layer(passes));
    for path in ["/layers/outermost", "/layers/inner"] {
        assert_eq!(served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status, 500);
        let (level, text) = only_line(path);
        assert_eq!(level, Level::ERROR);
        assert!(text.contains(" layer=fragile ") && text.contains("a layer panicked"), "{text}");
        assert!(text.contains(" panic=a layer, on purpose"), "{text}");
    }
    assert_eq!(served.running.counters().panics, 2);
}

#[test]
fn what_fails_within_layers_of_the_server() {
    log::keep();
    let forever = async || -> &'static str { std::future::pending().await };
    let fails = async || -> Result<(), Error> { Err(order_error())? };
    let late = async |request: Request, next: Next| {
        tokio::task::yield_now().await;
        next.run(request).await
    };
    let short = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    for (path, status, limits) in
        [("/within/for/ever", 503, short), ("/within/failing", 500, Limits::default())]
    {
        let router = Router::new().get("/within/for/ever", forever).get("/within/failing", fails);
        let set_up = |server: Server| server.limits(limits).layer(passes).layer(late);
        let served = support::Scene::tcp().serve_by(set_up(Server::new(router.layer(passes))));
        assert_eq!(served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status, status);
        let (level, text) = only_line(path);
        assert!(level == Level::ERROR && text.contains(&format!(" status={status}")), "{text}");
    }
}

#[test]
fn a_panic_at_once_and_a_later_one() {
    log::keep();
    let router = Router::new().put("/panics/at-once", async || -> &'static str { panic!("on purpose") }).put(
        "/panics/later",
        async || -> &'static str {
            tokio::task::yield_now().await;
            panic!("on purpose, {}", "later")
        },
    );
    let served = support::serve(router);
    for path in ["/panics/at-once", "/panics/later"] {
        assert_eq!(served.ask(&format!("PUT {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status, 500);
        let (level, text) = only_line(path);
        assert_eq!(level, Level::ERROR);
        assert!(text.contains(" method=PUT ") && text.contains(" status=500 "), "{text}");
        assert!(text.contains(" panic=on purpose"), "{text}");
    }
}

#[test]
fn each_request_if_that_is_asked_for() {
    log::keep();
    let router = Router::new().get("/logged/{id}", async || "Hello!");
    let served = support::Scene::tcp().serve_by(Server::new(router).log_requests());
    let request = "GET /logged/7 HTTP/1.1\r\nhost: x\r\nx-request-id: a-1\r\n\r\n";
    assert_eq!(served.ask(request).status, 200);
    let (level, text) = only_line("/logged/{id}");
    assert_eq!(level, Level::INFO);
    assert!(text.contains(" message=request method=GET "), "{text}");
    assert!(text.contains(" status=200 bytes=6 received=0 time_us="), "{text}");
    assert!(text.contains(" end=complete request_id=a-1 peer=tcp:127.0.0.1:"), "{text}");
    assert_eq!(served.ask("GET /logged/7/more HTTP/1.1\r\nhost: x\r\n\r\n").status, 404);
    assert!(log::wait_for(" route=- status=404 ").text.contains(" method=GET "));
}

#[derive(serde::Deserialize)]
struct Named {
    order: u32,
}

/// An extractor of a user's that does not say what it needs, so that the start cannot know whether it fits.
struct Silent<T>(T);

impl<T: serde::de::DeserializeOwned> FromRequestParts for Silent<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        Path::from_request_parts(parts).await.map(|Path(value)| Self(value))
    }
}

#[test]
fn a_handler_that_does_not_fit_its_route_is_our_fault() {
    log::keep();
    let router = Router::new()
        .get("/unnamed/{id}", async |Silent(named): Silent<Named>| named.order.to_string())
        .get("/too-few/{id}", async |Silent((a, b)): Silent<(u32, u32)>| format!("{a} {b}"));
    let served = support::serve(router);
    for (path, route, cause) in [
        ("/unnamed/7", "/unnamed/{id}", "the route has no parameter \"order\""),
        ("/too-few/7", "/too-few/{id}", "the route has 1 parameters, the handler takes 2"),
    ] {
        let answer = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(answer.status, 500, "{path}");
        assert!(!answer.text().contains("parameter"), "{}", answer.text());
        let (level, text) = only_line(route);
        assert!(level == Level::ERROR && text.contains(cause), "{text}");
    }
}

#[test]
fn a_fallback_is_named_as_such() {
    log::keep();
    let served = support::serve(Router::new().fallback(async || -> &'static str { panic!("on purpose") }));
    assert_eq!(served.ask("GET /somewhere HTTP/1.1\r\nhost: x\r\n\r\n").status, 500);
    assert_eq!(only_line("(the fallback)").0, Level::ERROR);
}

#[test]
fn a_body_that_fails_under_way() {
    log::keep();
    struct Failing;
    impl futures_core::Stream for Failing {
        type Item = Result<bytes::Bytes, BodyError>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(Some(Err(BodyError::failed("the tape is torn"))))
        }
    }
    let torn = async || Response::new(StatusCode::OK).body(Body::stream(Failing));
    let served = support::serve(Router::new().get("/torn", torn));
    let mut peer = served.connect();
    peer.send("GET /torn HTTP/1.1\r\nhost: x\r\n\r\n");
    let answer = peer.answer(false);
    assert_eq!((answer.status, answer.text()), (500, "the server failed to answer this request"));
    let (level, text) = only_line("/torn");
    assert_eq!(level, Level::ERROR);
    assert!(text.contains("cause=reading a body: its source failed: the tape is torn"), "{text}");
}

#[test]
fn a_request_body_that_breaks_off_is_no_error_of_ours() {
    log::keep();
    let read =
        async |mut body: Body| -> Result<String, Error> { Ok(body.bytes(10).await?.len().to_string()) };
    let echo = async |body: Body| body;
    let by_hand = async |request: Request| -> Result<String, Error> {
        let Json(number) = Json::<u32>::from_request(request).await?;
        Ok(number.to_string())
    };
    let router = Router::new().post("/read", read).post("/echo-cut", echo).post("/by-hand", by_hand);
    let served = support::serve(router);

    let post = |path: &str, rest: &str| served.ask(&format!("POST {path} HTTP/1.1\r\nhost: x\r\n{rest}"));
    let too_large = post("/read", "content-length: 11\r\n\r\nhello world");
    assert_eq!(too_large.status, 413);
    assert!(too_large.text().contains("larger than 10 bytes"), "{}", too_large.text());
    assert_eq!(only_line("/read").0, Level::DEBUG);

    assert_eq!(post("/by-hand", "content-type: application/json\r\ncontent-length: 1\r\n\r\n{").status, 422);
    assert_eq!(only_line("/by-hand").0, Level::DEBUG);

    let mut peer = served.connect();
    peer.send("POST /echo-cut HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n");
    peer.rest();
    let (level, text) = only_line("/echo-cut");
    assert_eq!(level, Level::DEBUG);
    assert_eq!(text.matches("reading a").count(), 1, "{text}");

    let counters = served.running.counters();
    assert_eq!((counters.refused, counters.failures), (3, 0));
}

#[test]
fn a_request_that_cannot_be_read() {
    log::keep();
    let served = support::serve(Router::new());
    let answer = served.ask(&format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "q".repeat(10_000)));
    assert_eq!(answer.status, 414);
    // The peer is not told what only the owner of the server can do.
    assert!(answer.text().ends_with("use a shorter target"), "{}", answer.text());
    log::wait_for("raise HeadLimits::target_bytes");
    let lines = log::with("raise HeadLimits::target_bytes");
    assert_eq!(lines[0].level, Level::DEBUG);
    assert!(lines[0].text.contains("status=414"), "{}", lines[0].text);
}

#[test]
fn a_request_that_an_argument_refuses() {
    log::keep();
    let router = Router::new().post("/orders", async |Json(n): Json<u32>| n.to_string());
    let served = support::serve(router);
    let answer = served.ask(
        "POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    );
    assert_eq!(answer.status, 422);
    let said = "the JSON body does not fit: invalid type: map, expected u32";
    assert!(answer.text().starts_with(said), "{}", answer.text());
    let (level, text) = only_line("/orders");
    assert_eq!(level, Level::DEBUG);
    assert!(text.contains(" method=POST ") && text.contains(said), "{text}");
    assert_eq!(served.running.counters().refused, 1);
}
