//! An `Option` of an extractor is `None` only if the request lacks what it takes.

use anywire_http::{Body, HeadLimits, StatusCode};
use anywire_server::{
    Error, FromRequestParts, Json, Limits, OptionalFromRequestParts, Parts, Path, Query, Rejection, Request,
    Router,
};
use bytes::Bytes;

#[derive(serde::Deserialize)]
struct Paging {
    page: u32,
}

/// The number in the field `x-number`.
struct Number(u32);

impl FromRequestParts for Number {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
        let field = parts.headers().get("x-number").and_then(|text| text.parse().ok());
        field.map(Self).ok_or_else(|| Error::new(StatusCode::BAD_REQUEST, "x-number is a number"))
    }
}

impl OptionalFromRequestParts for Number {
    fn is_absent(parts: &Parts) -> bool {
        !parts.headers().contains("x-number")
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    count: u32,
}

fn shown(number: Option<u32>) -> String {
    number.map_or("none".to_owned(), |number| number.to_string())
}

fn served() -> crate::support::Served {
    let part = async |id: Option<Path<u32>>| shown(id.map(|Path(id)| id));
    crate::support::serve(
        Router::new()
            .get("/query", async |paging: Option<Query<Paging>>| shown(paging.map(|Query(it)| it.page)))
            .get("/parts", part)
            .get("/parts/{id}", part)
            .get("/header", async |number: Option<Number>| shown(number.map(|Number(it)| it)))
            .get("/result", async |page: Result<Query<Paging>, Rejection>| match page {
                Ok(Query(paging)) => paging.page.to_string(),
                Err(refused) => format!("first page, as {}", refused.status()),
            })
            .post("/json-result", async |json: Result<Json<u32>, Rejection>| match json {
                Ok(Json(number)) => number.to_string(),
                Err(refused) => format!("no number, as {}", refused.status()),
            })
            .post("/json", async |json: Option<Json<u32>>| shown(json.map(|Json(number)| number)))
            .post("/text", async |text: Option<String>| text.unwrap_or("none".into()))
            .post("/bytes", async |bytes: Option<Bytes>| shown(bytes.map(|bytes| bytes.len() as u32)))
            .post("/body", async |body: Option<Body>| shown(body.map(|_| 1)))
            .post("/has", async |request: Request| request.has_body().to_string()),
    )
}

#[test]
fn in_the_head() {
    let served = served();
    let get = |path: &str, fields: &str| {
        let answer = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n{fields}\r\n"));
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(get("/query", ""), (200, "none".into()));
    assert_eq!(get("/query?page=2", ""), (200, "2".into()));
    assert_eq!(get("/query?page=two", "").0, 400);
    assert_eq!(get("/query?", "").0, 400);
    assert_eq!(get("/parts", ""), (200, "none".into()));
    assert_eq!(get("/parts/7", ""), (200, "7".into()));
    assert_eq!(get("/parts/seven", "").0, 400);
    assert_eq!(get("/header", ""), (200, "none".into()));
    assert_eq!(get("/header", "x-number: 5\r\n"), (200, "5".into()));
    assert_eq!(get("/header", "x-number: five\r\n"), (400, "x-number is a number".into()));
}

#[test]
fn in_the_body() {
    let served = served();
    let post = |path: &str, rest: &str| {
        let answer = served.ask(&format!("POST {path} HTTP/1.1\r\nhost: x\r\n{rest}"));
        (answer.status, answer.text().to_owned())
    };
    for absent in ["\r\n", "content-length: 0\r\n\r\n"] {
        for path in ["/json", "/text", "/bytes", "/body"] {
            assert_eq!(post(path, absent), (200, "none".into()), "{path}");
        }
        assert_eq!(post("/has", absent), (200, "false".into()));
    }
    assert_eq!(post("/has", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"), (200, "true".into()));
    let json = |body: &str| {
        let length = body.len();
        post("/json", &format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"))
    };
    assert_eq!(json("7"), (200, "7".into()));
    assert_eq!(json("{").0, 422);
    assert_eq!(json("seven").0, 400);
    assert_eq!(post("/json", "content-length: 1\r\n\r\n7").0, 415);
    assert_eq!(post("/text", "content-length: 2\r\n\r\nhi"), (200, "hi".into()));
    assert_eq!(served.ask("POST /bytes HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi").text(), "2");
}

#[test]
fn a_handler_that_takes_a_result_answers_for_what_is_wrong() {
    let served = served();
    assert_eq!(served.ask("GET /result?page=2 HTTP/1.1\r\nhost: x\r\n\r\n").text(), "2");
    let answer = served.ask("GET /result?page=two HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((answer.status, answer.text()), (200, "first page, as 400 Bad Request"));
    let answer = served.ask("POST /json-result HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n7");
    assert_eq!((answer.status, answer.text()), (200, "no number, as 415 Unsupported Media Type"));
}

#[test]
fn text_that_is_not_utf8() {
    let served = served();
    let mut peer = served.connect();
    peer.send(b"POST /text HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n\xff");
    assert_eq!(peer.answer(false).status, 400);
}

#[test]
fn a_refusal_repeats_the_names_of_the_peer() {
    let router = Router::new().post("/", async |order: Json<Order>| order.0.count.to_string());
    let body = r#"{"this, or raise that; and so on": 1}"#;
    let answer = crate::support::serve(router).ask(&format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let text = answer.text();
    assert!(text.contains("`this, or raise that; and so on`, expected `count`"), "{text}");
}

#[test]
fn a_refusal_names_no_limit_that_the_peer_cannot_raise() {
    let head = HeadLimits { bytes: 100, ..HeadLimits::default() };
    let limits = Limits { body_bytes: 3, head, ..Limits::default() };
    let router = Router::new()
        .post("/", async |body: Bytes| body.len().to_string())
        .post("/by-hand", async |mut body: Body| Ok::<_, Error>(body.bytes(3).await?));
    let served = crate::support::Scene::tcp().serve_with(router, limits);
    for path in ["/", "/by-hand"] {
        let answer = served.ask(&format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n1234"));
        assert_eq!(answer.text(), "reading a body: it is larger than 3 bytes; send less");
    }
    let answer = served.ask(&format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n", "x".repeat(200)));
    let text = answer.text();
    assert!(text.ends_with("; send fewer or shorter headers"), "{text}");
}

/// As everywhere in Rust, and in other frameworks: what the type's `FromStr` takes.
#[test]
fn numbers_of_a_path_and_a_query_are_read_as_rust_reads_them() {
    #[derive(serde::Deserialize)]
    struct Of<T> {
        n: T,
    }
    let router = Router::new()
        .get("/i8/{n}", async |Path(n): Path<i8>| n.to_string())
        .get("/i8", async |Query(of): Query<Of<i8>>| of.n.to_string())
        .get("/u64/{n}", async |Path(n): Path<u64>| n.to_string())
        .get("/u64", async |Query(of): Query<Of<u64>>| of.n.to_string())
        .get("/f64/{n}", async |Path(n): Path<f64>| n.to_string())
        .get("/f64", async |Query(of): Query<Of<f64>>| of.n.to_string());
    for (kind, text, expected) in [
        ("i8", "-128", Some("-128")),
        ("i8", "+7", Some("7")),
        ("i8", "-0", Some("0")),
        ("i8", "128", None),
        ("i8", "-129", None),
        ("i8", "1.0", None),
        ("i8", "0x1", None),
        ("i8", "\u{663}", None),
        ("u64", "18446744073709551615", Some("18446744073709551615")),
        ("u64", "18446744073709551616", None),
        ("u64", "-0", None),
        ("u64", "007", Some("7")),
        ("u64", "1_0", None),
        ("f64", "1e3", Some("1000")),
        ("f64", ".5", Some("0.5")),
        ("f64", "NaN", Some("NaN")),
        ("f64", "-Infinity", Some("-inf")),
        ("f64", "1e999", Some("inf")),
        ("f64", "1,5", None),
        ("f64", "e", None),
    ] {
        // A plus of a query stands for a space.
        let in_query = text.replace('+', "%2B");
        for target in [format!("/{kind}/{text}"), format!("/{kind}?n={in_query}")] {
            let mut response = anywire_loops::block_on(router.call(anywire_http::Request::get(&target)));
            let body = anywire_loops::block_on(response.body.text(1000)).expect("a whole body");
            let read = Some(&*body).filter(|_| response.status == StatusCode::OK);
            assert_eq!(
                (read, response.status.as_u16()),
                (expected, if read.is_some() { 200 } else { 400 }),
                "{target}"
            );
        }
    }
}
