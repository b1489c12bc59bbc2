//! Targets that are no plain path, methods that no route has, and paths that no honest client would send.

use anywire_http::Method;
use anywire_server::{Path, Request, Router};

fn routes() -> Router {
    Router::new()
        .get("/", async || "root")
        .get("/orders/{id}", async |Path(id): Path<String>| format!("order {id}"))
        .get("/orders/{id}/lines", async |Path(id): Path<String>| format!("lines of {id}"))
        .get("/files/{*rest}", async |Path(rest): Path<String>| format!("file {rest}"))
        .post("/made", async || "made")
        .head("/headed", async || "")
        .options("/asked", async || "own answer")
        .nest("/nested", Router::new().get("/", async || "nested").get("/{*rest}", async || "below"))
}

fn answer(served: &crate::support::Served, line: &str) -> (u16, String) {
    let answer = served.ask(&format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n"));
    (answer.status, answer.text().to_owned())
}

#[test]
fn absolute_targets_are_their_path() {
    let served = crate::support::serve(routes());
    assert_eq!(answer(&served, "GET http://example.com/"), (200, "root".into()));
    assert_eq!(answer(&served, "GET http://example.com"), (200, "root".into()));
    assert_eq!(answer(&served, "GET http://example.com?q"), (200, "root".into()));
    assert_eq!(answer(&served, "GET http://example.com/orders/7?q=/"), (200, "order 7".into()));
    assert_eq!(answer(&served, "GET http://example.com//").0, 404);
}

#[test]
fn empty_segments_match_no_variable() {
    let served = crate::support::serve(routes());
    for path in
        ["//", "/orders", "/orders/", "/orders//lines", "//orders/7", "/files/", "/files", "/Orders/7"]
    {
        assert_eq!(answer(&served, &format!("GET {path}")).0, 404, "{path}");
    }
    assert_eq!(answer(&served, "GET /files//"), (200, "file /".into()));
    assert_eq!(answer(&served, "GET /nested"), (200, "nested".into()));
    assert_eq!(answer(&served, "GET /nested/").0, 404);
    assert_eq!(answer(&served, "GET /nested/x/y"), (200, "below".into()));
}

#[test]
fn percent_encoding_is_undone_after_matching() {
    let served = crate::support::serve(routes());
    assert_eq!(answer(&served, "GET /orders/a%2Fb"), (200, "order a/b".into()));
    assert_eq!(answer(&served, "GET /orders/%2e%2e/lines"), (200, "lines of ..".into()));
    assert_eq!(answer(&served, "GET /orders/100%"), (200, "order 100%".into()));
    assert_eq!(answer(&served, "GET /orders/%zz"), (200, "order %zz".into()));
    assert_eq!(answer(&served, "GET /orders/a+b"), (200, "order a+b".into()));
    assert_eq!(answer(&served, "GET /orders/%C3%A4"), (200, "order \u{e4}".into()));
    let (status, text) = answer(&served, "GET /orders/%FF");
    assert_eq!(status, 400);
    assert!(text.contains("is not UTF-8 after percent-decoding"), "{text}");
}

#[test]
fn long_paths_are_matched_like_short_ones() {
    let served = crate::support::serve(routes());
    let id = "x".repeat(7000);
    assert_eq!(answer(&served, &format!("GET /orders/{id}")), (200, format!("order {id}")));
    assert_eq!(answer(&served, &format!("GET {}", "/x".repeat(3500))).0, 404);
    assert_eq!(answer(&served, &format!("GET /files{}", "/x".repeat(3500))).0, 200);
}

#[test]
fn a_tunnel_is_refused_even_with_a_fallback() {
    let asked = "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n";
    for router in [routes(), routes().fallback(async || "anything")] {
        let served = crate::support::serve(router);
        let mut peer = served.connect();
        // What came before the refusal was for the tunnel, and is no request (RFC 9931 section 8).
        peer.send(format!("{asked}GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
        let refused = peer.answer(false);
        assert_eq!((refused.status, refused.header("connection")), (501, Some("close")));
        assert_eq!(peer.rest(), b"");
    }
}

#[test]
fn the_server_as_a_whole_has_options() {
    assert_eq!(answer(&crate::support::serve(routes()), "OPTIONS *").0, 204);
    let fallback = async |request: Request| request.target().into_owned();
    assert_eq!(answer(&crate::support::serve(routes().fallback(fallback)), "OPTIONS *"), (200, "*".into()));
    // The form is for OPTIONS alone.
    assert_eq!(answer(&crate::support::serve(routes()), "GET *").0, 400);
}

#[test]
fn methods_that_a_path_does_not_have() {
    let served = crate::support::serve(routes());
    let ask = |line: &str| {
        let answer = served.ask(&format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n"));
        (answer.status, answer.header("allow").map(str::to_owned))
    };
    let allows = |status, methods: &str| (status, Some(methods.to_owned()));
    assert_eq!(ask("HEAD /made"), allows(405, "POST, OPTIONS"));
    assert_eq!(ask("OPTIONS /made"), allows(204, "POST, OPTIONS"));
    assert_eq!(ask("GET /headed"), allows(405, "HEAD, OPTIONS"));
    assert_eq!(ask("TRACE /"), allows(405, "GET, HEAD, OPTIONS"));
    assert_eq!(ask("get /"), allows(405, "GET, HEAD, OPTIONS"));
    assert_eq!(ask("BREW /asked"), allows(405, "OPTIONS"));
    assert_eq!(answer(&served, "OPTIONS /asked"), (200, "own answer".into()));
    assert_eq!(ask("OPTIONS /nowhere"), (404, None));
}

#[test]
fn a_trace_is_for_a_handler_that_takes_it() {
    let trace = async |request: Request| format!("TRACE {}", request.target());
    let served = crate::support::serve(routes().route(Method::TRACE, "/traced", trace));
    assert_eq!(answer(&served, "TRACE /traced?x"), (200, "TRACE /traced?x".into()));
    assert_eq!(answer(&served, "TRACE /orders/7").0, 405);
}

#[test]
fn head_on_a_fallback_has_no_body() {
    let fallback = async |method: Method| format!("nothing for {method}");
    let served = crate::support::serve(routes().fallback(fallback));
    let mut peer = served.connect();
    peer.send("HEAD /nowhere HTTP/1.1\r\nhost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n");
    let head = peer.answer(true);
    assert_eq!((head.status, head.header("content-length")), (200, Some("16")));
    assert_eq!(peer.answer(false).text(), "nothing for GET");
}
