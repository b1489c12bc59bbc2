//! An `axum::Router` within a router of anywire, and a router of anywire within axum and under `axum::serve` and hyper.

mod common;

use std::rc::Rc;
use std::sync::Arc;

use anywire::http::Version;
use anywire::loops::Loops;
use anywire::server::{Json, Path, Request, Router, State};
use anywire::{Body, StatusCode};
use axum::extract::State as AxumState;
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Notify;

use self::common::{callers, serve};

#[derive(Clone)]
struct Greeting(&'static str);

/// A service as it stands in a program on axum.
fn on_axum() -> axum::Router {
    async fn tagged(request: axum::extract::Request, next: Next) -> axum::response::Response {
        let mut response = next.run(request).await;
        response.headers_mut().insert("x-tagged", "by axum".parse().expect("a value"));
        response
    }
    let more = axum::Router::new().route("/deep", get(async |uri: http::Uri| uri.path().to_owned()));
    axum::Router::new()
        .route("/", get(async || "the root"))
        .route(
            "/hello/{name}",
            get(
                async |axum::extract::Path(name): axum::extract::Path<String>,
                       AxumState(greeting): AxumState<Greeting>| {
                    format!("{}, {name}", greeting.0)
                },
            ),
        )
        .route("/echo", post(async |body: axum::body::Body| body))
        .route("/sum", post(async |body: bytes::Bytes| body.len().to_string()))
        .route("/panic", get(async || -> &'static str { panic!("on purpose") }))
        .route(
            "/socket",
            get(async |request: axum::extract::Request| {
                // What a WebSocket would need.
                match hyper::upgrade::on(request).await {
                    Ok(_) => "upgraded",
                    Err(_) => "cannot be upgraded",
                }
            }),
        )
        .nest("/more", more)
        .layer(from_fn(tagged))
        .with_state(Greeting("hello"))
}

#[tokio::test]
async fn an_axum_router_below_a_prefix() {
    let router = Router::new().get("/", async || "ours").nest_service("/axum", on_axum());
    let (running, callers) = serve(router);
    for caller in &callers {
        assert_eq!(caller.get("/").await.text(), "ours");
        assert_eq!(caller.get("/axum").await.text(), "the root");
        let hello = caller.get("/axum/hello/ann").await;
        assert_eq!((hello.text(), hello.header("x-tagged")), ("hello, ann", Some("by axum")));
        assert_eq!(caller.get("/axum/more/deep").await.text(), "/deep");
        assert_eq!(caller.post("/axum/sum", "four").await.text(), "4");
        let large = "x".repeat(1 << 20);
        assert_eq!(caller.post("/axum/echo", &large).await.text(), large);
        let (unknown, wrong) = (caller.get("/axum/unknown").await, caller.get("/axum/sum").await);
        assert_eq!((unknown.status, wrong.status), (StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(unknown.header("x-tagged"), Some("by axum"), "axum's own answer");
        assert_eq!(caller.get("/elsewhere").await.header("x-tagged"), None, "ours");
        let head = caller.send(caller.request("HEAD", "/axum/hello/ann", &[], "")).await;
        assert_eq!((head.header("content-length"), head.text()), (Some("10"), ""));
        assert_eq!(caller.get("/axum/panic").await.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(caller.get("/axum/socket").await.text(), "cannot be upgraded");
    }
    assert_eq!(running.counters().panics, 2);
}

/// Handlers that are not `Send`.
fn on_anywire(read: Arc<Notify>) -> Router {
    Router::new()
        .state(Greeting("hello"))
        .get("/hello/{name}", async |Path(name): Path<String>, State(greeting): State<Greeting>| {
            let held = Rc::new(name);
            tokio::task::yield_now().await;
            format!("{}, {held}", greeting.0)
        })
        .post("/echo", async |body: Body| body)
        .post("/json", async |Json(numbers): Json<Vec<u32>>| Json(numbers.iter().sum::<u32>()))
        .get("/version", async |request: Request| format!("{:?}", request.version()))
        .get("/panic", async || -> &'static str { panic!("on purpose") })
        .get("/half", async move || {
            let (mut sender, body) = Body::channel(1024);
            anywire::loops::spawn(async move {
                sender.send("half").await.expect("it is read");
                read.notified().await;
                sender.abort(anywire::http::BodyError::failed("on purpose"));
            });
            body
        })
}

async fn assert_serves(place: &str, prefix: &str, read: &Notify) {
    for (caller, version) in callers(place).iter().zip([Version::HTTP_11, Version::HTTP_2]) {
        let hello = caller.get(&format!("{prefix}/hello/ann")).await;
        assert_eq!((hello.text(), hello.header("content-length")), ("hello, ann", Some("10")));
        assert_eq!(caller.get(&format!("{prefix}/version")).await.text(), format!("{version:?}"));
        let large = "x".repeat(1 << 20);
        assert_eq!(caller.post(&format!("{prefix}/echo"), &large).await.text(), large);
        let json = [("content-type", "application/json")];
        let sum = caller.send(caller.request("POST", &format!("{prefix}/json"), &json, "[1,2,3]")).await;
        assert_eq!(sum.text(), "6");
        assert_eq!(caller.get(&format!("{prefix}/nowhere")).await.status, StatusCode::NOT_FOUND);
        assert_eq!(caller.get(&format!("{prefix}/panic")).await.status, StatusCode::INTERNAL_SERVER_ERROR);
        let half = caller.begin(caller.request("GET", &format!("{prefix}/half"), &[], "")).await;
        assert_eq!(half.status(), StatusCode::OK);
        let mut body = half.into_body();
        let first = body.frame().await.expect("not the end").expect("no error");
        assert_eq!(first.into_data().ok().as_deref(), Some(&b"half"[..]));
        read.notify_one();
        assert!(body.collect().await.is_err(), "it breaks off");
        assert_eq!(caller.get(&format!("{prefix}/hello/bob")).await.text(), "hello, bob", "others go on");
    }
}

async fn listener() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let place = listener.local_addr().expect("it listens").to_string();
    (listener, place)
}

#[tokio::test]
async fn a_router_of_ours_under_axum_serve() {
    let (listener, place) = listener().await;
    let read = Arc::<Notify>::default();
    let service = on_anywire(Arc::clone(&read))
        .into_service(&Loops::start(2).expect("loops"))
        .expect("routes are right");
    let router = axum::Router::new().fallback_service(service);
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    assert_serves(&place, "", &read).await;
    serving.abort();
}

#[tokio::test]
async fn a_router_of_ours_within_an_axum_router() {
    let (listener, place) = listener().await;
    let read = Arc::<Notify>::default();
    let service = on_anywire(Arc::clone(&read))
        .into_service(&Loops::start(2).expect("loops"))
        .expect("routes are right");
    let router = axum::Router::new().route("/", get(async || "axum")).nest_service("/ours", service);
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    assert_serves(&place, "/ours", &read).await;
    assert_eq!(callers(&place)[0].get("/").await.text(), "axum");
    serving.abort();
}

#[tokio::test]
async fn a_router_of_ours_under_hyper() {
    let (listener, place) = listener().await;
    let read = Arc::<Notify>::default();
    let service = on_anywire(Arc::clone(&read))
        .into_service(&Loops::start(2).expect("loops"))
        .expect("routes are right");
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    assert_serves(&place, "", &read).await;
    serving.abort();
}
