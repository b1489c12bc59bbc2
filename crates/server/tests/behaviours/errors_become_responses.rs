//! `?` in a handler is a 500 that tells the peer nothing; an error with a status says what its author meant.

use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::h1::DecodeError;
use anywire_http::{Body, BodyError, IntoResponse, Method, StatusCode};
use anywire_loops::PoolError;
use anywire_server::{Error, Json, Query, Rejection, Router};
use bytes::Bytes;
use futures_core::Stream;

#[derive(serde::Deserialize, serde::Serialize)]
struct Order {
    item: String,
}

#[derive(serde::Deserialize)]
struct Paging {
    page: u32,
}

fn served() -> crate::support::Served {
    crate::support::serve(
        Router::new()
            .get("/io", async || -> Result<String, Error> { Ok(std::fs::read_to_string("/nowhere/at/all")?) })
            .get("/boxed", async || -> Result<String, Error> { Ok(boxed()?) })
            .get("/text", async || -> Result<String, Error> { Err("the stock is locked")? })
            .get("/gone", async || Err::<(), _>(Error::new(StatusCode::GONE, "it is gone")))
            .get("/page", async |Query(paging): Query<Paging>| paging.page.to_string())
            .post("/orders", async |Json(order): Json<Order>| (StatusCode::CREATED, Json(order))),
    )
}

#[test]
fn fields_beside_a_value_replace_its_own_and_not_each_other() {
    let cookies = async || {
        let fields = [("Set-Cookie", "a=1"), ("content-type", "text/css"), ("set-cookie", "b=2")];
        (StatusCode::OK, fields, "text")
    };
    let served = crate::support::serve(Router::new().get("/", cookies));
    let head = served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").head;
    assert!(head.contains("Set-Cookie: a=1\r\n") && head.contains("set-cookie: b=2\r\n"), "{head}");
    assert!(head.contains("content-type: text/css\r\n") && !head.contains("text/plain"), "{head}");
}

#[test]
fn an_error_of_the_system_is_not_shown() {
    let answer = served().ask("GET /io HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(answer.status, 500);
    assert_eq!(answer.text(), "the server failed to answer this request");
}

#[test]
fn failures_are_counted_apart_from_refusals() {
    let served = served();
    let counted = |path: &str| {
        let status = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status;
        let counters = served.running.counters();
        (status, counters.failures, counters.refused)
    };
    assert_eq!(counted("/io"), (500, 1, 0));
    assert_eq!(counted("/page?page=x"), (400, 1, 1));
    assert_eq!(counted("/gone"), (410, 1, 1), "its author has meant it");
}

/// As `anyhow::Error`, it is none itself.
fn boxed() -> Result<String, Box<dyn std::error::Error>> {
    Ok(std::fs::read_to_string("/nowhere/at/all")?)
}

#[test]
fn what_can_become_an_error_is_one() {
    for path in ["/boxed", "/text"] {
        let reply = served().alike(&format!("GET {path}"), &[], "");
        assert_eq!((reply.status, &*reply.text), (500, "the server failed to answer this request"));
    }
    let error = Error::from(boxed().expect_err("there is no such file"));
    assert!(error.cause().expect("that of the box").is::<std::io::Error>());
    let busy = Error::new(StatusCode::SERVICE_UNAVAILABLE, "busy").caused_by("the stock is locked");
    assert_eq!(busy.cause().expect("a text").to_string(), "the stock is locked");
}

#[test]
fn the_status_of_a_body_that_breaks_off_says_whose_fault_it_was() {
    for (status, error) in [
        (413, BodyError::TooLarge { limit_bytes: 1 }),
        (408, BodyError::Timeout),
        (400, BodyError::Incomplete),
        (400, BodyError::Malformed(DecodeError::ChunkSize)),
        (500, BodyError::failed("a layer of ours gave up")),
    ] {
        assert_eq!(Error::from(error).status().as_u16(), status);
    }
    let large = Error::from(BodyError::TooLarge { limit_bytes: 1 });
    assert_eq!(large.message(), "reading a body: it is larger than 1 bytes; send less");
    // As of a handler that takes a `Result` and passes what is wrong on by `?`.
    let rejection = Rejection::ContentType {
        found: "text/plain".to_owned(),
        expected: "application/json",
        method: Method::POST,
    };
    let passed_on = Error::from(rejection);
    assert_eq!(passed_on.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(passed_on.message().contains("text/plain"), "{}", passed_on.message());
    let argument = Rejection::Body(BodyError::failed("a layer of ours gave up"));
    assert_eq!(argument.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn what_has_caused_an_error_of_ones_own_says_whose_fault_it_was() {
    #[derive(Debug, thiserror::Error)]
    #[error("storing it in /var/secret")]
    struct Storing(#[source] Box<dyn std::error::Error + Send + Sync>);

    let storing = |cause: Box<dyn std::error::Error + Send + Sync>| Error::from(Storing(cause));
    let large = || BodyError::TooLarge { limit_bytes: 1 };
    for error in [
        storing(large().into()),
        storing(Rejection::Body(large()).into()),
        storing(std::io::Error::other(large()).into()),
        Error::from(std::io::Error::other(large())),
        Error::from(std::io::Error::other(std::io::Error::other(Storing(large().into())))),
    ] {
        assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE, "{error:?}");
        assert_eq!(error.message(), "reading a body: it is larger than 1 bytes; send less");
    }
    let full = storing(PoolError::Full.into());
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(full.into_response().headers.get("retry-after"), Some("1"));
    for ours in [storing("the disk is full".into()), storing(BodyError::failed("a layer gave up").into())] {
        assert_eq!(ours.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(ours.message(), "the server failed to answer this request");
    }
}

#[test]
fn a_body_that_fails_before_its_head_has_left_says_whose_fault_it_was() {
    /// Fails at once.
    struct Fails(Option<BodyError>);

    impl Stream for Fails {
        type Item = Result<Bytes, BodyError>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.take().map(Err))
        }
    }

    let fails = |error: fn() -> BodyError| async move || Body::stream(Fails(Some(error())));
    let router = Router::new()
        .get("/500", fails(|| BodyError::failed("a layer of ours gave up")))
        .get("/502", fails(|| BodyError::Incomplete))
        .get("/504", fails(|| BodyError::Timeout));
    let served = crate::support::serve(router);
    for status in [500, 502, 504] {
        assert_eq!(served.ask(&format!("GET /{status} HTTP/1.1\r\nhost: x\r\n\r\n")).status, status);
    }
}

#[test]
fn an_error_with_a_status_is() {
    let answer = served().ask("GET /gone HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((answer.status, answer.text()), (410, "it is gone"));
}

#[test]
fn a_query_is_decoded_or_400() {
    let served = served();
    assert_eq!(served.ask("GET /page?page=3 HTTP/1.1\r\nhost: x\r\n\r\n").text(), "3");
    assert_eq!(served.ask("GET /page?page=x HTTP/1.1\r\nhost: x\r\n\r\n").status, 400);
    assert_eq!(served.ask("GET /page HTTP/1.1\r\nhost: x\r\n\r\n").status, 400);
}

#[test]
fn json_is_decoded_or_refused() {
    let served = served();
    let post = |kind: &str, body: &str| {
        let length = body.len();
        served.ask(&format!(
            "POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    };
    let made = post("application/json", "{\"item\":\"tea\"}");
    assert_eq!((made.status, made.text()), (201, "{\"item\":\"tea\"}"));
    assert_eq!(made.header("content-type"), Some("application/json"));
    assert_eq!(post("application/json", "{\"item\":").status, 400);
    assert_eq!(post("application/json", "{\"thing\":1}").status, 422);
    assert_eq!(post("text/plain", "{\"item\":\"tea\"}").status, 415);
}

#[test]
fn a_coded_body_is_415_if_it_is_wanted_as_text() {
    let router = Router::new()
        .post("/json", async |_: Json<u8>| "json")
        .post("/text", async |text: String| text)
        .post("/bytes", async |bytes: Bytes| bytes.len().to_string());
    let served = crate::support::serve(router);
    let post = |path: &str, fields: &str, body: &str| {
        let length = body.len();
        served.ask(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\n\r\n{body}"
        ))
    };
    for path in ["/json", "/text"] {
        let refused = post(path, "content-encoding: gzip\r\n", "\u{1f}\u{8b}x");
        assert_eq!((refused.status, refused.header("accept-encoding")), (415, Some("identity")), "{path}");
        assert!(refused.text().contains("gzip"), "{}", refused.text());
        assert_eq!(post(path, "content-encoding: Identity\r\n", "7").status, 200, "{path}");
    }
    assert_eq!(post("/bytes", "content-encoding: gzip\r\n", "abc").text(), "3");
    assert_eq!(post("/text", "content-encoding: gzip\r\n", "").status, 200, "nothing is coded");
}
