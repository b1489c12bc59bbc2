//! Layers of tower-http and tower around routes of a router, around a service within it, and around a router as a service.

mod common;

use std::time::Duration;

use anywire::http::Headers;
use anywire::loops::Loops;
use anywire::server::{Handler, ServerHandle, tower as with};
use anywire::{Body, Bytes, Request, Router, StatusCode};
use http::{HeaderName, HeaderValue, Method};
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer as Late;
use tower::timeout::error::Elapsed;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use self::common::{Caller, serve};

const ID: HeaderName = HeaderName::from_static("x-request-id");
/// For what never responds.
const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(60);

fn routes() -> Router {
    Router::new()
        .get("/small", async || "small")
        .get("/large", async || "x".repeat(10_000))
        .get("/id", async |fields: Headers| fields.get("x-request-id").unwrap_or("none").to_owned())
        .post("/sum", async |body: Bytes| body.len().to_string())
        .post("/echo", async |body: Body| body)
        .get("/route/{name}", async |request: Request| {
            let name = request.param("name").unwrap_or("none").to_owned();
            format!("{name} {}", request.peer().scheme())
        })
}

/// Never responds.
async fn late() {
    std::future::pending().await
}

fn at(timeout: Duration) -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, timeout)
}

fn cors() -> CorsLayer {
    CorsLayer::new().allow_origin(HeaderValue::from_static("http://other")).allow_methods([Method::PUT])
}

/// All layers on the router, the outermost first.
fn layered() -> Router {
    routes()
        .get("/late", late.layer(with::layer(at(SHORT))))
        .layer(with::layer(TraceLayer::new_for_http()))
        .layer(with::layer(SetRequestIdLayer::new(ID, MakeRequestUuid)))
        .layer(with::layer(PropagateRequestIdLayer::new(ID)))
        .layer(with::layer(cors()))
        .layer(with::layer(CompressionLayer::new()))
        .layer(with::layer(at(LONG)))
        .layer(with::layer(RequestBodyLimitLayer::new(8)))
        .layer(with::layer(SetResponseHeaderLayer::overriding(
            HeaderName::from_static("x-set"),
            HeaderValue::from_static("set"),
        )))
        .layer(with::layer(ConcurrencyLimitLayer::new(64)))
}

/// The same as one stack around a router as a service.
fn around() -> Router {
    let loops = Loops::start(1).expect("loops");
    let service = routes().into_service(&loops).expect("routes are right");
    let never = Router::new().fallback(late).into_service(&loops).expect("routes are right");
    let never = ServiceBuilder::new().layer(at(SHORT)).service(never);
    let stack = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(SetRequestIdLayer::new(ID, MakeRequestUuid))
        .layer(PropagateRequestIdLayer::new(ID))
        .layer(cors())
        .layer(CompressionLayer::new())
        .layer(at(LONG))
        .layer(RequestBodyLimitLayer::new(8))
        .layer(SetResponseHeaderLayer::overriding(
            HeaderName::from_static("x-set"),
            HeaderValue::from_static("set"),
        ))
        .layer(ConcurrencyLimitLayer::new(64))
        .service(service);
    Router::new().any("/late", with::service(never)).nest_service("/", stack)
}

async fn assert_layered(served: &(ServerHandle, [Caller; 2])) {
    for caller in &served.1 {
        let small = caller.get("/small").await;
        assert_eq!((small.text(), small.header("x-set")), ("small", Some("set")));
        let id = caller.get("/id").await;
        assert_eq!((id.body.len(), id.header("x-request-id")), (36, Some(id.text())), "{id:?}");
        let coded = caller.get_with("/large", &[("accept-encoding", "gzip")]).await;
        assert_eq!(coded.header("content-encoding"), Some("gzip"), "{coded:?}");
        assert!(coded.body.starts_with(&[0x1f, 0x8b]) && coded.body.len() < 1000, "{}", coded.body.len());
        assert_eq!(caller.get("/large").await.text().len(), 10_000);
        assert_eq!(caller.get("/late").await.status, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(caller.post("/sum", "four").await.text(), "4");
        assert_eq!(caller.post("/echo", "four").await.text(), "four");
        assert_eq!(caller.post("/sum", "more than eight").await.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(caller.post_in_chunks("/sum", "four").await.text(), "4");
        let longer = caller.post_in_chunks("/sum", "more than eight").await;
        assert_eq!(longer.status, StatusCode::PAYLOAD_TOO_LARGE, "{longer:?}");
        let route = caller.get("/route/ann").await;
        assert!(route.text().starts_with("ann "), "{route:?}");

        let fields = [("origin", "http://other"), ("access-control-request-method", "PUT")];
        let preflight = caller.send(caller.request("OPTIONS", "/sum", &fields, "")).await;
        assert_eq!(preflight.header("access-control-allow-methods"), Some("PUT"), "{preflight:?}");
        let unknown = caller.get_with("/nowhere", &fields).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND);
        assert_eq!(unknown.header("access-control-allow-origin"), Some("http://other"), "also for 404");
        assert_eq!(unknown.header("x-set"), Some("set"));
    }
}

#[tokio::test]
async fn around_the_routes_of_a_router() {
    let served = serve(layered());
    assert_layered(&served).await;
    let told = layered().describe().expect("routes are right");
    let first = told.lines().next().expect("a route");
    assert!(first.contains(" TraceLayer (") && first.contains(" ConcurrencyLimitLayer ("), "{first}");
    assert_eq!(served.1[0].get("/route/ann").await.text(), "ann tcp", "the peer is known");
}

#[tokio::test]
async fn around_a_router_as_a_service() {
    assert_layered(&serve(around())).await;
}

#[tokio::test]
async fn around_an_axum_router_within_a_router() {
    let axum = axum::Router::new().route("/large", axum::routing::get(async || "x".repeat(10_000)));
    let stack = ServiceBuilder::new().layer(CompressionLayer::new()).service(axum);
    let (_running, callers) = serve(Router::new().nest_service("/axum", stack));
    for caller in &callers {
        let coded = caller.get_with("/axum/large", &[("accept-encoding", "gzip")]).await;
        assert_eq!(coded.header("content-encoding"), Some("gzip"), "{coded:?}");
    }
}

#[tokio::test]
async fn middleware_of_axum_around_a_route() {
    async fn tagged(
        request: axum::extract::Request,
        next: axum::middleware::Next,
    ) -> axum::response::Response {
        let mut response = next.run(request).await;
        response.headers_mut().insert("x-tagged", HeaderValue::from_static("by axum"));
        response
    }
    // It is for bodies of axum alone.
    let to_axum = |request: http::Request<Body>| request.map(axum::body::Body::new);
    let layer =
        ServiceBuilder::new().map_request(to_axum).layer(axum::middleware::from_fn(tagged)).into_inner();
    let router = routes().layer(with::layer(layer));
    let (_running, callers) = serve(router);
    for caller in &callers {
        let route = caller.get("/route/ann").await;
        assert_eq!((route.text(), route.header("x-tagged")), ("ann tcp", Some("by axum")));
        assert_eq!(caller.post("/echo", "four").await.header("x-tagged"), Some("by axum"));
    }
}

#[tokio::test]
async fn an_error_of_a_layer_is_a_response() {
    let (running, callers) = serve(routes().get("/late", late.layer(with::layer(Late::new(SHORT)))));
    for caller in &callers {
        assert_eq!(caller.get("/late").await.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(caller.get("/small").await.text(), "small");
    }
    assert_eq!(running.counters().failures, 2);
}

#[tokio::test]
async fn an_error_of_a_layer_is_worded_by_its_program() {
    let worded = |result: Result<http::Response<Body>, BoxError>| match result {
        Err(error) if error.is::<Elapsed>() => {
            let mut response = http::Response::new(Body::from("it took too long"));
            *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            Ok(response)
        }
        other => other,
    };
    let layer = ServiceBuilder::new().map_result(worded).layer(Late::new(SHORT)).into_inner();
    let (running, callers) = serve(Router::new().get("/late", late.layer(with::layer(layer))));
    for caller in &callers {
        let late = caller.get("/late").await;
        assert_eq!((late.status, late.text()), (StatusCode::GATEWAY_TIMEOUT, "it took too long"));
    }
    assert_eq!(running.counters().failures, 0);
}

/// Services without a type, and those that work on another task.
#[tokio::test]
async fn boxed_and_buffered_services() {
    let axum = axum::Router::new().route("/", axum::routing::get(async || "axum"));
    let boxed = BoxCloneService::new(axum.clone());
    let buffered = Buffer::new(axum, 16);
    let router = Router::new().any("/", with::service(boxed)).nest_service("/buffered", buffered);
    let (_running, callers) = serve(router);
    for caller in &callers {
        assert_eq!(caller.get("/").await.text(), "axum");
        assert_eq!(caller.get("/buffered").await.text(), "axum");
    }
}
