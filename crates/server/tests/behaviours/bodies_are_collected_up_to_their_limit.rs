//! What an extractor collects into memory is bounded by `Limits::body_bytes`, with a length and without one.

use anywire_http::{Request, StatusCode};
use anywire_server::{Limits, Router};
use bytes::Bytes;

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
