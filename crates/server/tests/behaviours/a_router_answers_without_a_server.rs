//! `Router::call` answers as a server does, with neither server nor runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anywire_http::{Body, Method, Request, Response, StatusCode};
use anywire_loops::block_on;
use anywire_server::{Error, FromRequestParts, Json, Parts, Path, Router, State};

#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

fn app() -> Router {
    let nested = Router::new().fallback(async || (StatusCode::NOT_FOUND, "nothing nested"));
    Router::new()
        .state(Calls::default())
        .get("/count", async |State(calls): State<Calls>| calls.0.fetch_add(1, Ordering::Relaxed).to_string())
        .get("/square/{n}", async |Path(n): Path<u32>| (n * n).to_string())
        .post("/double", async |Json(n): Json<u32>| Json(2 * n))
        .post("/echo", async |request: anywire_server::Request| {
            let request: Request = request.into();
            let kind = request.head.headers().get("content-type").unwrap_or_default().to_owned();
            Response::new(StatusCode::OK).header("content-type", kind).body(request.body)
        })
        .get("/panic", async || -> String { panic!("on purpose") })
        .get("/gone", async || Err::<(), _>(Error::new(StatusCode::GONE, "it is gone")))
        .get("/yields", async || {
            // A runtime would not be there: the future wakes its own waker.
            let mut yielded = false;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut yielded, true) { ().into() } else { std::task::Poll::Pending }
            })
            .await;
            "later"
        })
        .nest("/nested", nested)
}

fn request(method: Method, target: &str) -> Request {
    Request::new(method, target)
}

fn answer(router: &Router, request: Request) -> (u16, String) {
    block_on(async {
        let mut response = router.call(request).await;
        let body = response.body.bytes(1000).await.expect("a whole body");
        (response.status.as_u16(), String::from_utf8(body.into()).expect("text"))
    })
}

#[test]
fn as_over_a_wire() {
    let app = app();
    let get = |target: &str| answer(&app, request(Method::GET, target));
    let text = |status: u16, text: &str| (status, text.to_owned());
    assert_eq!(get("/square/7?query"), text(200, "49"));
    assert_eq!(get("/square/seven").0, 400);
    assert_eq!(
        (get("/count"), get("/count")),
        (text(200, "0"), text(200, "1")),
        "calls share what is in an Arc"
    );
    assert_eq!(get("/panic"), text(500, "the server failed to answer this request"));
    assert_eq!(get("/gone"), text(410, "it is gone"));
    assert_eq!(get("/yields"), text(200, "later"));
    assert_eq!(get("/nested/any"), text(404, "nothing nested"));
    assert_eq!(get("/nowhere"), text(404, "nothing is here"));
    assert_eq!(answer(&app, request(Method::DELETE, "/count")).0, 405);
    let json = request(Method::POST, "/double").header("content-type", "application/json").body("21");
    assert_eq!(answer(&app, json), text(200, "42"));
    assert_eq!(answer(&app, request(Method::POST, "/double").body("21")).0, 415);
    let echo = request(Method::POST, "/echo").header("content-type", "text/x").body("hello");
    assert_eq!(answer(&app, echo), text(200, "hello"));
}

/// Leaves a value for the handler.
struct Mark;

impl FromRequestParts for Mark {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Self::Rejection> {
        let given: u32 = parts.extensions().get().copied().unwrap_or_default();
        parts.extensions_mut().insert(given + 1);
        Ok(Self)
    }
}

#[test]
fn extensions_travel_with_the_request() {
    let router = Router::new().get("/", async |_: Mark, _: Mark, request: anywire_server::Request| {
        let request: Request = request.into();
        request.head.extensions().get::<u32>().expect("marked twice").to_string()
    });
    let mut marked = request(Method::GET, "/");
    marked.head.extensions_mut().insert(5_u32);
    assert_eq!(answer(&router, marked), (200, "7".to_owned()));
}

#[test]
fn the_answer_to_head_has_no_body() {
    let response = block_on(app().call(request(Method::HEAD, "/square/7")));
    assert_eq!((response.status, response.body.stated_length()), (StatusCode::OK, Some(2)));
}

#[test]
fn what_an_answer_to_head_states_stays() {
    for length in [None, Some(5)] {
        let router =
            Router::new().get("/", async move || Response::new(StatusCode::OK).body(Body::withheld(length)));
        let response = block_on(router.call(request(Method::HEAD, "/")));
        assert_eq!((response.body.is_withheld(), response.body.stated_length()), (true, length));
    }
}

#[test]
#[should_panic = "GET /a has two handlers"]
fn a_mistake_of_the_router_is_named() {
    let router = Router::new().get("/a", async || ()).get("/a", async || ());
    block_on(router.call(request(Method::GET, "/a")));
}
