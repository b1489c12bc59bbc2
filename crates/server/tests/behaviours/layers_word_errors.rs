//! Errors are worded in one place: as problem documents (RFC 9457), or by functions.

use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::{Body, BodyError, Bytes, Method, StatusCode};
use anywire_server::layers::{Problem, Problems, RequestIds, map_errors, map_request, map_response};
use anywire_server::{
    Handler, Html, IntoResponse, Json, Next, Path, Request, Response, Router, Server, State,
};

use crate::support::serve;

#[derive(serde::Deserialize)]
struct Order {
    #[expect(dead_code, reason = "it is only parsed")]
    count: u32,
}

/// A body that comes in parts.
fn ended() -> Body {
    let (mut sender, body) = Body::channel(100);
    let _ = sender.try_send(Bytes::from_static(b"in parts"));
    sender.finish();
    body
}

fn router() -> Router {
    let panics = async || -> &'static str { std::hint::black_box(None).expect("on purpose") };
    Router::new()
        .get("/", async || "fine")
        .get("/{id}", async |Path(id): Path<u32>| id.to_string())
        .post("/orders", async |_: Json<Order>| "ordered")
        .get("/json", async || (StatusCode::CONFLICT, Json("a document of its own")))
        .get("/page", async || (StatusCode::NOT_FOUND, Html("<p>lost</p>")))
        .get("/bare", async || StatusCode::GONE)
        .get("/encoded", async || (StatusCode::GONE, [("content-encoding", "x-rot13")], "ybfg"))
        .get("/shouts", async || (StatusCode::GONE, [("content-type", "TEXT/PLAIN ; charset=utf-8")], "gone"))
        .get("/plainly", async || (StatusCode::GONE, [("content-type", "text/plain-as-day")], "gone"))
        .get("/streams", async || (StatusCode::BAD_GATEWAY, ended()))
        .get("/varies", async || (StatusCode::GONE, [("vary", "*")], "gone"))
        .get("/panics", panics)
        .get("/own", async || {
            Problem::new(StatusCode::FORBIDDEN).kind("https://a/b").title("No").member("balance", 30)
        })
}

#[test]
fn as_problem_documents() {
    let served = serve(router().layer(Problems::new()));
    let problem = |request: &str, status: u16, title: &str, detail: &str| {
        let reply = served.alike(request, &[("content-type", "application/json")], "");
        assert_eq!(
            (reply.status, reply.field("content-type")),
            (status, Some("application/problem+json")),
            "{request}"
        );
        let head = format!(r#"{{"type":"about:blank","title":"{title}","status":{status}"#);
        let detail = if detail.is_empty() { "}".to_owned() } else { format!(r#","detail":"{detail}""#) };
        assert!(reply.text.starts_with(&(head + &detail)), "{request}: {}", reply.text);
        reply
    };
    problem("GET /nowhere/at/all", 404, "Not Found", "nothing is here");
    let refused = problem(
        "PUT /orders",
        405,
        "Method Not Allowed",
        "this path does not answer PUT, it answers POST, OPTIONS",
    );
    assert_eq!(refused.field("allow"), Some("POST, OPTIONS"), "fields stay");
    problem("GET /bare", 410, "Gone", "");
    problem("GET /shouts", 410, "Gone", "gone");
    problem("GET /panics", 500, "Internal Server Error", "the server failed to answer this request");
    assert!(
        served.alike("GET /seven", &[], "").text.contains(r#""status":400,"detail":"the path does not fit"#)
    );
    let field = r#""errors":[{"field":"id","message":"\"seven\" is no u32"}]"#;
    let named = served.alike("GET /seven", &[], "").text;
    assert!(named.contains(field), "{named}");
    let rejected = served.alike("POST /orders", &[("content-type", "application/json")], "{}");
    assert_eq!((rejected.status, rejected.field("content-type")), (422, Some("application/problem+json")));
    // What has a type of its own stays, and so does what is no error.
    assert_eq!(served.get("/json").text, "\"a document of its own\"");
    assert_eq!(served.get("/page").field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(served.get("/plainly").text, "gone", "of another type");
    assert_eq!(served.get("/encoded").text, "ybfg", "its words are not known");
    assert_eq!(served.get("/streams").text, "in parts", "they have not come yet");
    assert_eq!(served.get("/varies").all("vary"), ["*"], "which is all that can be said");
    assert_eq!(served.get("/").text, "fine");
    assert_eq!(served.get("/own").text, r#"{"type":"https://a/b","title":"No","status":403,"balance":30}"#);
    let head = served.alike("HEAD /nowhere/at/all", &[], "");
    assert_eq!((head.status, head.field("content-type")), (404, Some("application/problem+json")));
    assert!(served.running.counters().failures == 0);
}

#[test]
fn as_problem_documents_of_ones_own() {
    let named = Problems::new().each(|problem| {
        problem.kind = Some(format!("https://shop.example/problems/{}", problem.status.as_u16()));
        problem.members.insert("status".to_owned(), 1.into());
    });
    let ids = RequestIds::new().trust(|_| true);
    let served = serve(router().layer(ids).layer(named));
    let reply = served.alike("GET /bare", &[("x-request-id", "7")], "");
    let expected =
        r#"{"type":"https://shop.example/problems/410","title":"Gone","status":410,"request_id":"7"}"#;
    assert_eq!(reply.text, expected);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a destructor, on purpose");
    }
}

impl http_body::Body for Bomb {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        Poll::Pending
    }
}

#[test]
fn a_function_that_panics_costs_its_own_request() {
    let fragile = Problems::new().each(|_| panic!("a function, on purpose"));
    let outer = async |request: Request, next: Next| next.run(request).await.header("x-seen", "yes");
    // The response that the layer looks at is dropped while it panics.
    let explodes = async || Response::new(StatusCode::OK).body(Body::wrap(Bomb));
    let looks = map_response(async |response: Response| -> Response {
        drop(response);
        StatusCode::OK.into()
    });
    let router = router().get("/explodes", explodes.layer(looks)).layer(outer).layer(fragile);
    let served = crate::support::Scene::tcp().serve_by(Server::new(router));
    for path in ["/bare", "/explodes", "/bare"] {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.field("x-seen")), (500, Some("yes")), "{path}");
        assert_eq!(served.get("/").text, "fine");
    }
}

#[test]
fn by_functions() {
    async fn as_page(method: Method, mut response: Response) -> Response {
        let text = response.body.text(1000).await.unwrap_or_default();
        (response.status, Html(format!("{method}: {text}"))).into_response()
    }
    async fn counted(State(name): State<&'static str>, response: Response) -> Response {
        response.header("x-served-by", *name)
    }
    async fn known(State(name): State<&'static str>, mut request: Request) -> Result<Request, StatusCode> {
        if request.headers().contains("x-unknown") {
            return Err(StatusCode::UNAUTHORIZED);
        }
        request.extensions_mut().insert(*name);
        Ok(request)
    }
    let extension = async |request: Request| request.extensions().get::<&str>().copied().unwrap_or("none");
    let cuts =
        map_request(async |request: Request| Request::from_parts(request.into_parts().0, "cut".into()));
    let router = router()
        .state("the shop")
        .layer(map_errors(as_page))
        .layer(map_response(counted))
        .layer(map_request(known))
        .get("/extension", extension)
        .post("/cut", (async |body: String| body).layer(cuts));
    let served = serve(router);
    let reply = served.get("/nowhere/at/all");
    assert_eq!((reply.status, &*reply.text), (404, "GET: nothing is here"));
    let reply = served.get("/panics");
    assert_eq!((reply.status, &*reply.text), (500, "GET: the server failed to answer this request"));
    let reply = served.get("/");
    assert_eq!((&*reply.text, reply.field("x-served-by")), ("fine", Some("the shop")));
    let reply = served.alike("GET /", &[("x-unknown", "1")], "");
    assert_eq!((reply.status, &*reply.text, reply.field("x-served-by")), (401, "GET: ", None));
    assert_eq!(served.get("/extension").text, "the shop");
    assert_eq!(served.alike("POST /cut", &[], "a body that is replaced").text, "cut");
    let text =
        Router::new().get("/", async || "").layer(map_response(counted)).describe().expect_err("no state");
    assert!(text.to_string().contains("the layer map_response, given at "), "{text}");
}
