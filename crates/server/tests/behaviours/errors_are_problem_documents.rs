//! One line makes problem documents (RFC 9457) of all errors: rejections, the router's own, those of handlers, and what the server
//! refuses by itself.

use anywire_http::{Bytes, StatusCode};
use anywire_server::layers::{Problem, Problems, RequestIds};
use anywire_server::{
    Error, Handler, IntoResponse, Json, Limits, Path, Query, Response, RouteLimits, Router, Server,
};
use serde_json::{Value, json};

use crate::support::{Scene, Served};

#[derive(serde::Deserialize)]
struct Order {
    #[expect(dead_code, reason = "it is only parsed")]
    count: u32,
}

/// An error of a program's own.
struct SoldOut {
    left: u32,
}

impl IntoResponse for SoldOut {
    fn into_response(self) -> Response {
        let problem =
            Problem::new(StatusCode::CONFLICT).kind("https://shop.example/sold-out").title("Sold out");
        problem.detail("too few are left").member("left", self.left).into_response()
    }
}

fn router() -> Router {
    let small = RouteLimits { body_bytes: Some(10), ..RouteLimits::default() };
    let collects = async |_: Bytes| "collected";
    let panics = async || -> &'static str { std::hint::black_box(None).expect("on purpose") };
    Router::new()
        .get("/", async || "fine")
        .get("/items/{id}", async |Path(id): Path<u32>| id.to_string())
        .get("/search", async |_: Query<Order>| "found")
        .post("/orders", async |_: Json<Order>| "ordered")
        .post("/small", collects.limits(small))
        .get("/sold-out", async || Err::<(), _>(SoldOut { left: 3 }))
        .get("/text", async || {
            Problem::new(StatusCode::GONE).detail("it is gone").member("since", 1999).into_text()
        })
        .get("/occurrence", async || Problem::new(StatusCode::GONE).instance("/occurrences/7"))
        .get("/later", async || (StatusCode::IM_A_TEAPOT, SoldOut { left: 1 }))
        .get("/failed", async || -> Result<(), Error> { Err(std::io::Error::other("a secret"))? })
        .get("/bad", async || Response::new(StatusCode::OK).header("x", "a\r\nb: c"))
        .get("/panics", panics)
        .post("/typed", (async || "typed").consumes(["text/plain", "text/csv"]).produces("image/png"))
}

fn serve(problems: Problems) -> Served {
    Scene::tcp().serve_by(Server::new(router()).layer(RequestIds::new().trust(|_| true)).problems(problems))
}

const ID: (&str, &str) = ("x-request-id", "id-1");

#[track_caller]
fn document(served: &Served, request: &str, fields: &[(&str, &str)], body: &str) -> Value {
    let fields: Vec<_> = [ID].iter().chain(fields).copied().collect();
    let reply = served.alike(request, &fields, body);
    assert_eq!(reply.field("content-type"), Some("application/problem+json"), "{request}: {}", reply.text);
    let document: Value = serde_json::from_str(&reply.text).expect("a document");
    assert_eq!(document["status"], json!(reply.status), "{request}");
    document
}

#[test]
fn whoever_makes_them() {
    let served = serve(Problems::new().with_path());
    let json_type = ("content-type", "application/json");
    for (request, fields, body, status, title, detail) in [
        ("GET /nowhere", &[][..], "", 404, "Not Found", "nothing is here"),
        ("PUT /orders", &[], "", 405, "Method Not Allowed", "this path does not answer PUT"),
        ("GET /items/seven", &[], "", 400, "Bad Request", "does not fit"),
        ("GET /search?count=x", &[], "", 400, "Bad Request", "the query does not fit"),
        ("POST /orders", &[], "{}", 415, "Unsupported Media Type", "expected application/json"),
        ("POST /orders", &[json_type], "{", 400, "Bad Request", "the JSON body does not fit"),
        ("POST /orders", &[json_type], "{}", 422, "Unprocessable Entity", "missing field `count`"),
        ("POST /small", &[], "more than ten bytes", 413, "Payload Too Large", "larger than 10 bytes"),
        ("GET /failed", &[], "", 500, "Internal Server Error", "the server failed to answer this request"),
        ("GET /panics", &[], "", 500, "Internal Server Error", "the server failed to answer this request"),
        ("GET /text", &[], "", 410, "Gone", "it is gone"),
    ] {
        let document = document(&served, request, fields, body);
        let path = request.split_once(' ').map(|(_, target)| target.split('?').next());
        assert_eq!((&document["status"], &document["title"]), (&json!(status), &json!(title)), "{request}");
        assert!(document["detail"].as_str().is_some_and(|text| text.contains(detail)), "{document}");
        assert_eq!(document["type"], "about:blank", "{request}");
        assert_eq!(
            (&document["instance"], &document["request_id"]),
            (&json!(path), &json!("id-1")),
            "{request}"
        );
    }
    assert_eq!(document(&served, "GET /text", &[], "")["since"], 1999);
    assert_eq!(document(&served, "GET /occurrence", &[], "")["instance"], "/occurrences/7", "its own");
    assert_eq!(served.alike("GET /", &[ID], "").text, "fine");
    assert_eq!(document(&served, "PUT /orders", &[], "")["allowed"], json!(["POST", "OPTIONS"]));
    let typed = document(&served, "POST /typed", &[("content-type", "text/css")], "x");
    assert_eq!((&typed["status"], &typed["supported"]), (&json!(415), &json!(["text/plain", "text/csv"])));
    let typed = document(&served, "POST /typed", &[("accept", "application/json")], "");
    assert_eq!((&typed["status"], &typed["available"]), (&json!(406), &json!(["image/png"])));
}

#[test]
fn of_an_error_type_of_ones_own() {
    let served = serve(Problems::new());
    let own = document(&served, "GET /sold-out", &[], "");
    let expected = json!({
        "type": "https://shop.example/sold-out", "title": "Sold out", "status": 409, "detail": "too few are left",
        "left": 3, "request_id": "id-1"
    });
    assert_eq!(own, expected);
    // The status that goes out is that of the document.
    assert_eq!(document(&served, "GET /later", &[], "")["status"], 418);
    let alone = Scene::tcp().serve(router());
    let reply = alone.get("/sold-out");
    let text = r#"{"type":"https://shop.example/sold-out","title":"Sold out","status":409,"detail":"too few are left","left":3}"#;
    assert_eq!((&*reply.text, reply.field("vary")), (text, None));
    let reply = alone.get("/text");
    assert_eq!((reply.status, &*reply.text), (410, "it is gone"));
    assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn what_the_server_refuses_by_itself() {
    let problems = Problems::new().each(|problem| {
        let seen = problem.members.get("seen").and_then(Value::as_u64).unwrap_or(0);
        problem.members.insert("seen".to_owned(), (seen + 1).into());
    });
    let served = serve(problems);
    let refused = |head: &str| {
        let answer = served.ask(head);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{head}");
        let document: Value = serde_json::from_str(answer.text()).expect("a document");
        assert_eq!((&document["status"], &document["seen"]), (&json!(answer.status), &json!(1)), "{head}");
        (answer.status, document["title"].as_str().expect("a title").to_owned())
    };
    let long = "a".repeat(Limits::default().head.bytes + 1);
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n");
    assert_eq!(refused(&head), (431, "Request Header Fields Too Large".to_owned()));
    assert_eq!(refused("GET / HTTP/1.1\r\nbad header: x\r\n\r\n"), (400, "Bad Request".to_owned()));
    let target = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9000));
    assert_eq!(refused(&target), (414, "URI Too Long".to_owned()));
    // Within the layer: its members are there, and each function has seen the document once.
    for path in ["/panics", "/failed", "/sold-out", "/nowhere"] {
        let document = document(&served, &format!("GET {path}"), &[], "");
        assert_eq!((&document["seen"], &document["request_id"]), (&json!(1), &json!("id-1")), "{path}");
    }
    // Outside of it.
    let bad = served.alike("GET /bad", &[ID], "");
    assert_eq!((bad.status, bad.field("content-type")), (500, Some("application/problem+json")));
    assert!(bad.text.contains("\"seen\":1"), "{}", bad.text);
}

#[test]
fn a_peer_that_refuses_json_keeps_the_text() {
    let served = serve(Problems::new());
    for (accept, is_document) in [
        ("*/*", true),
        ("application/json", true),
        ("application/*;q=0.1", true),
        ("application/problem+json", true),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
        ("no media type at all", true),
        ("text/plain", false),
        ("text/*, application/json;q=0", false),
        ("*/*, application/json;q=0, application/problem+json;q=0", false),
    ] {
        let reply = served.alike("GET /nowhere", &[ID, ("accept", accept)], "");
        let expected = if is_document { "application/problem+json" } else { "text/plain; charset=utf-8" };
        assert_eq!((reply.status, reply.field("content-type")), (404, Some(expected)), "{accept}");
        assert_eq!(reply.field("vary"), Some("accept"), "{accept}");
        if !is_document {
            assert_eq!(reply.text, "nothing is here");
        }
    }
    // What is a document anyway is one for all.
    let reply = served.alike("GET /sold-out", &[ID, ("accept", "text/plain")], "");
    assert_eq!((reply.field("content-type"), reply.field("vary")), (Some("application/problem+json"), None));
}

/// A coded body is no text that the layer could read, though it carries the problem.
#[test]
fn what_another_layer_has_coded_stays() {
    let rot13 = anywire_server::layers::map_response(async |response: Response| {
        response.header("content-encoding", "x-rot13")
    });
    let router = Router::new()
        .get("/", (async || SoldOut { left: 1 }).layer(rot13))
        .layer(Problems::new().each(|_| panic!("not asked")));
    let reply = Scene::tcp().serve(router).get("/");
    assert_eq!((reply.status, reply.field("content-encoding")), (409, Some("x-rot13")));
    assert!(!reply.text.contains("request_id"), "{}", reply.text);
}
