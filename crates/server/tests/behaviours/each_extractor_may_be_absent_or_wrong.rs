//! An extractor whose value a request may lack may be taken as an `Option`, which is `None` then. Each one may be taken as a `Result`, which
//! has what is wrong with it.

use std::num::ParseIntError;

use anywire_http::{Body, Bytes, IntoResponse, Request, StatusCode};
use anywire_server::codec::{CodecRejection, Decoded};
use anywire_server::{
    Cookies, Extension, Form, FromHeader, Header, Json, MatchedPath, Matrix, Multipart, Path, Produces,
    Protobuf, Query, Rejection, Router, State, Upgrade, Valid, ValidRejection,
};
use anywire_wire::Credentials;

#[derive(serde::Deserialize, garde::Validate)]
struct Number {
    #[garde(range(max = 200))]
    number: u8,
}

struct Tenant;

impl FromHeader for Tenant {
    type Error = ParseIntError;

    fn name() -> &'static str {
        "x-tenant"
    }

    fn from_header(value: &str) -> Result<Self, ParseIntError> {
        value.parse().map(|_: u8| Self)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sent {
    #[prost(string, tag = "1")]
    text: String,
}

/// Two routes for each extractor: as an `Option`, which says whether it is there, and as a `Result`, which says what is wrong.
macro_rules! routes {
    ($($path:literal: $extractor:ty,)*) => {
        Router::new()$(
            .post(concat!("/option/", $path), async |it: Option<$extractor>| it.is_some().to_string())
            .post(concat!("/result/", $path), async |it: Result<$extractor, Rejection>| {
                it.map_or_else(|wrong| wrong.status().as_u16(), |_| 200).to_string()
            })
        )*
    };
}

fn router() -> Router {
    let not_refused = Router::new()
        .post("/option/body", async |it: Option<Body>| it.is_some().to_string())
        .post("/option/decoded", async |it: Option<Decoded<Number>>| it.is_some().to_string())
        .post("/option/matched", async |it: Option<MatchedPath>| it.is_some().to_string())
        .post("/option/produces", async |it: Option<Produces>| it.is_some().to_string())
        .post("/option/upgrade", async |it: Option<Upgrade>| it.is_some().to_string())
        .post("/option/valid", async |it: Option<Valid<Json<Number>>>| it.is_some().to_string());
    #[cfg(feature = "tls")]
    let not_refused = not_refused.merge(routes! { "tls": anywire_server::TlsInfo, });
    not_refused
        .merge(routes! {
            "cookies": Cookies,
            "query": Query<Number>,
            "matrix": Matrix<Number>,
            "header": Header<Tenant>,
            "extension": Extension<u8>,
            "credentials": Credentials,
            "form": Form<Number>,
            "multipart": Multipart,
            "json": Json<Number>,
            "protobuf": Protobuf<Sent>,
            "text": String,
            "bytes": Bytes,
        })
        .state(7_u8)
        .post("/result/state", async |it: Result<State<u8>, Rejection>| {
            status(it.map_err(|wrong| wrong.status()))
        })
        .post("/result/decoded", async |it: Result<Decoded<Number>, CodecRejection>| {
            status(it.map_err(|wrong| wrong.status()))
        })
        .post("/result/valid", async |it: Result<Valid<Json<Number>>, ValidRejection<Rejection>>| {
            status(it.map_err(|wrong| wrong.into_response().status))
        })
        .post("/option/path", async |it: Option<Path<u8>>| it.is_some().to_string())
        .post("/result/path/{number}", async |it: Result<Path<u8>, Rejection>| {
            it.map_or_else(|wrong| wrong.status().as_u16(), |_| 200).to_string()
        })
}

fn status<T>(taken: Result<T, StatusCode>) -> String {
    taken.map_or_else(|wrong| wrong.as_u16(), |_| 200).to_string()
}

fn ask(request: Request) -> String {
    let answer = async { router().call(request).await.body.text(1000).await };
    anywire_loops::block_on(answer).expect("a text")
}

#[test]
fn none_is_there() {
    for path in [
        "query",
        "matrix",
        "header",
        "extension",
        "credentials",
        "form",
        "multipart",
        "json",
        "decoded",
        "protobuf",
        "text",
        "bytes",
        "body",
        "cookies",
        "produces",
        "upgrade",
        "valid",
        "path",
    ] {
        assert_eq!(ask(Request::post(&format!("/option/{path}"))), "false", "{path}");
    }
    assert_eq!(ask(Request::post("/option/matched")), "true");
    // Some proxies send the one field with each request, and the other only if there is a protocol (RFC 9110 section 7.8).
    for (field, value) in [("connection", "upgrade"), ("upgrade", "websocket")] {
        assert_eq!(ask(Request::post("/option/upgrade").header(field, value)), "false", "{field} alone");
    }
}

#[test]
fn each_is_there() {
    let json =
        |path: &str| Request::post(path).header("content-type", "application/json").body(r#"{"number": 7}"#);
    let of_type = |path: &str, kind: &str, body: &'static [u8]| {
        Request::post(path).header("content-type", kind).body(body)
    };
    let form = "application/x-www-form-urlencoded";
    for request in [
        Request::post("/option/query?number=7"),
        Request::post("/option/matrix;number=7"),
        Request::post("/option/header").header("x-tenant", "7"),
        Request::post("/option/cookies").header("cookie", "a=1"),
        of_type("/option/form", form, b"number=7"),
        of_type("/option/multipart", "multipart/form-data; boundary=x", b"--x--"),
        of_type("/option/protobuf", "application/protobuf", b""),
        of_type("/option/protobuf", "application/protobuf", b"\n\x011"),
        of_type("/option/text", "text/plain", b"7"),
        of_type("/option/bytes", "image/png", b"7"),
        of_type("/option/body", "image/png", b"7"),
        Request::post("/option/upgrade").header("connection", "upgrade").header("upgrade", "websocket"),
        json("/option/json"),
        json("/option/decoded"),
        json("/option/valid"),
    ] {
        let (path, is_empty) =
            (request.head.path().to_owned(), request.body.is_empty() && request.head.query().is_none());
        let is_absent = is_empty && path.ends_with("protobuf");
        assert_eq!(ask(request), (!is_absent).to_string(), "{path}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    let of_type = |path: &str, kind: &str, body: &'static [u8]| {
        Request::post(path).header("content-type", kind).body(body)
    };
    for (expected, request) in [
        ("400", Request::post("/result/path/x")),
        ("200", Request::post("/result/path/7")),
        ("400", Request::post("/result/query?number=x")),
        ("400", Request::post("/result/matrix;number=x")),
        ("400", Request::post("/result/header").header("x-tenant", "x")),
        ("500", Request::post("/result/extension")),
        ("200", Request::post("/result/state")),
        ("200", Request::post("/result/cookies").header("cookie", "a=1")),
        ("431", Request::post("/result/cookies").header("cookie", "a=1;".repeat(10_000))),
        ("415", of_type("/result/decoded", "text/plain", b"7")),
        ("422", of_type("/result/decoded", "application/json", b"{}")),
        ("200", of_type("/result/valid", "application/json", br#"{"number": 200}"#)),
        ("422", of_type("/result/valid", "application/json", br#"{"number": 201}"#)),
        ("415", of_type("/result/valid", "text/plain", b"7")),
        ("403", Request::post("/result/credentials")),
        ("422", of_type("/result/form", "application/x-www-form-urlencoded", b"number=x")),
        ("400", of_type("/result/multipart", "multipart/form-data", b"--x--")),
        ("415", of_type("/result/multipart", "text/plain", b"--x--")),
        ("422", of_type("/result/json", "application/json", b"{}")),
        ("400", of_type("/result/protobuf", "application/protobuf", b"\xff")),
        ("400", of_type("/result/text", "text/plain", b"\xff")),
        ("200", of_type("/result/bytes", "text/plain", b"\xff")),
    ] {
        let path = request.head.path().to_owned();
        assert_eq!(ask(request), expected, "{path}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn a_handshake_is_absent_in_clear_text() {
    assert_eq!(ask(Request::post("/option/tls")), "false");
    assert_eq!(ask(Request::post("/result/tls")), "403");
}
