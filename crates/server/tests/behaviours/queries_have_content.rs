//! QUERY is answered as other methods are, and states the type of its content (RFC 10008).

use anywire_http::{Method, Request};
use anywire_loops::block_on;
use anywire_server::{Handler, Json, Router};

fn routes() -> Router {
    Router::new()
        .query("/orders", async |Json(least): Json<u32>| format!("at least {least}"))
        .query(
            "/text",
            (async |text: String| text).consumes(["text/plain", "application/sql; charset=utf-8"]),
        )
        .get("/text", async || "get")
}

#[test]
fn the_content_is_what_is_asked() {
    let served = crate::support::serve(routes());
    let ask = |fields: &str| {
        served.ask(&format!("QUERY /orders HTTP/1.1\r\nhost: x\r\n{fields}content-length: 1\r\n\r\n7"))
    };
    assert_eq!(ask("content-type: application/json\r\n").text(), "at least 7");
    assert_eq!(ask("").status, 415);
}

#[test]
fn what_is_taken_is_said() {
    let router = routes();
    let ask = |request: Request| {
        let response = block_on(router.call(request));
        let field = |name| response.headers.get(name).map(str::to_owned);
        (response.status.as_u16(), field("accept-query"), field("allow"))
    };
    let query = |of: &str| Request::new(Method::QUERY, "/text").header("content-type", of).body("1");
    assert_eq!(ask(query("text/plain")), (200, None, None));
    let takes = "text/plain, application/sql; charset=utf-8";
    assert_eq!(ask(query("text/html")), (415, Some(takes.to_owned()), None));
    assert_eq!(ask(Request::new(Method::QUERY, "/text")), (415, Some(takes.to_owned()), None));
    let options = Request::new(Method::OPTIONS, "/text");
    assert_eq!(ask(options).2.as_deref(), Some("QUERY, GET, HEAD, OPTIONS"));
    assert_eq!(ask(Request::post("/text")).0, 405);
}
