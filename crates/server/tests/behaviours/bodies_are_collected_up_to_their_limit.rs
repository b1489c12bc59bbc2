//! What an extractor collects into memory is bounded by `Limits::body_bytes`, with a length and without one.

use anywire_http::{Request, StatusCode};
use anywire_loops::PoolLimits;
use anywire_server::codec::Decoded;
use anywire_server::{Blocking, Form, Handler, Json, Limits, Rejection, RouteLimits, Router, Server};
use bytes::Bytes;

use crate::support::Scene;
use crate::support::h2::H2;

#[test]
fn bodies_are_collected_up_to_their_limit() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { body_bytes: 1000, ..Limits::default() };
        let router = Router::new()
            .post("/bytes", async |body: Bytes| body.len().to_string())
            .post("/text", async |body: String| body.len().to_string());
        let served = scene.serve_with(router, limits);
        for path in ["/bytes", "/text"] {
            for (bytes, status) in [(1000, 200), (1001, 413)] {
                let body = "x".repeat(bytes);
                let sized = format!("content-length: {bytes}\r\n\r\n{body}");
                let chunked = format!("transfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n");
                for framed in [sized, chunked] {
                    let answer = served.ask(&format!("POST {path} HTTP/1.1\r\nhost: x\r\n{framed}"));
                    assert_eq!(answer.status, status, "{path}, {bytes} bytes: {}", answer.text());
                }
            }
        }
    });
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let router = Router::new().post("/text", async |body: String| body);
    let request = Request::post("/text").body(vec![0xff]);
    let mut response = anywire_loops::block_on(router.call(request));
    assert_eq!(response.status, StatusCode::BAD_REQUEST);
    let text = anywire_loops::block_on(response.body.text(1000)).expect("a sentence");
    assert!(text.starts_with("the body is not UTF-8: "), "{text}");
}

/// Whatever collects the body, in both versions, with and without a length, under the limit of the server and under one of a router.
#[test]
fn each_extractor_keeps_the_limit_in_both_versions() {
    let routes = || {
        Router::new()
            .post("/bytes", async |body: Bytes| body.len().to_string())
            .post("/text", async |body: String| body.len().to_string())
            .post("/json", async |Json(text): Json<String>| (text.len() + 2).to_string())
            .post("/decoded", async |Decoded(text): Decoded<String>| (text.len() + 2).to_string())
            .post("/form", async |Form(fields): Form<Vec<(String, String)>>| {
                (fields[0].1.len() + 2).to_string()
            })
            .post("/maybe", async |body: Option<Bytes>| body.map_or(0, |body| body.len()).to_string())
            .post("/result", async |body: Result<Bytes, Rejection>| body.map(|body| body.len().to_string()))
            .post("/chosen", (async |body: Bytes| body.len().to_string()).consumes("*/*"))
            .post("/pooled", (|body: Bytes| body.len().to_string()).on_pool("cpu"))
    };
    let less = RouteLimits { body_bytes: Some(100), ..RouteLimits::default() };
    let server = Server::new(routes().nest("/less", routes().limits(less)))
        .limits(Limits { body_bytes: 1000, ..Limits::default() })
        .pool("cpu", PoolLimits { threads: 1, ..PoolLimits::default() });
    let served = Scene::tcp().serve_by(server);
    for (prefix, limit) in [("", 1000), ("/less", 100)] {
        for kind in ["bytes", "text", "json", "decoded", "form", "maybe", "result", "chosen", "pooled"] {
            let path = format!("{prefix}/{kind}");
            for (bytes, status) in [(limit, 200), (limit + 1, 413)] {
                let (content_type, body) = match kind {
                    "json" | "decoded" => ("application/json", format!("\"{}\"", "x".repeat(bytes - 2))),
                    "form" => ("application/x-www-form-urlencoded", format!("a={}", "x".repeat(bytes - 2))),
                    _ => ("text/plain", "x".repeat(bytes)),
                };
                let fields = format!("host: x\r\ncontent-type: {content_type}");
                let sized = format!("content-length: {bytes}\r\n\r\n{body}");
                let chunked = format!("transfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n");
                for framed in [sized, chunked] {
                    let answer = served.ask(&format!("POST {path} HTTP/1.1\r\n{fields}\r\n{framed}"));
                    assert_eq!(answer.status, status, "{path}, {bytes} bytes: {}", answer.text());
                }
                for length in [Some(bytes as u64), None] {
                    let mut peer = H2::connect(&served);
                    let id = peer.open("POST", &path, &[("content-type", content_type)], length, false);
                    peer.body(id, body.as_bytes(), true);
                    let answer = peer.answer(id);
                    assert_eq!(
                        answer.status(),
                        status,
                        "{path}, {bytes} bytes over HTTP/2: {}",
                        answer.text()
                    );
                }
            }
        }
    }
}

/// None at all, and without a limit.
#[test]
fn a_limit_may_be_nothing_or_everything() {
    for (body_bytes, body, status) in [(0, "", 200), (0, "x", 413), (usize::MAX, "x", 200)] {
        let router = Router::new().post("/", async |body: Bytes| body.len().to_string());
        let served = Scene::tcp().serve_with(router, Limits { body_bytes, ..Limits::default() });
        let length = body.len();
        let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
        assert_eq!(served.ask(&request).status, status, "{body_bytes}");
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/", &[], None, false);
        peer.body(id, body.as_bytes(), true);
        assert_eq!(peer.answer(id).status(), status, "{body_bytes} over HTTP/2");
    }
}
