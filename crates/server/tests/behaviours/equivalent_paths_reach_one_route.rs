//! Paths are compared in normal form (RFC 3986 section 6.2.2), whichever way the route or the request writes them.

use anywire_http::{Method, Request, StatusCode};
use anywire_server::{Path, Request as ServerRequest, Router};

async fn text(router: &Router, path: &str) -> (StatusCode, String) {
    let mut response = router.call(Request::new(Method::GET, path)).await;
    (response.status, response.body.text(1024).await.expect("text"))
}

#[track_caller]
fn assert_reached(router: &Router, paths: &[&str], expected: &str) {
    for path in paths {
        let found = anywire_loops::block_on(text(router, path));
        assert_eq!(found, (StatusCode::OK, expected.to_owned()), "{path}");
    }
}

#[track_caller]
fn assert_unknown(router: &Router, paths: &[&str]) {
    for path in paths {
        assert_eq!(anywire_loops::block_on(text(router, path)).0, StatusCode::NOT_FOUND, "{path}");
    }
}

const PATHS: [&str; 4] = ["/\u{e4}", "/%C3%A4", "/%c3%a4", "/%C3%a4"];

#[test]
fn a_route_is_written_decoded_or_encoded() {
    for route in PATHS {
        assert_reached(&Router::new().get(route, async || "found"), &PATHS, "found");
        // Behind the literals that are compared first, and beside a parameter that would take it too.
        let mut router = Router::new().get("/{name}", async || "another");
        for number in 0..10 {
            router = router.get(&format!("/{number}"), async || "another");
        }
        let router = router.get(route, async || "found");
        assert_reached(&router, &PATHS, "found");
        assert_reached(&router, &["/%C3%A5", "/1", "/%31"], "another");
    }
    let router = Router::new().get("/about us/{{x}}", async || "found");
    assert_reached(&router, &["/about%20us/%7Bx%7d", "/%61bout%20us/{x}"], "found");
    assert_reached(&Router::new().get("/100%", async || "found"), &["/100%25", "/100%"], "found");
}

#[test]
fn unreserved_octets_are_decoded_and_reserved_ones_are_not() {
    let router = Router::new().get("/orders/a-b", async || "found").get("/user:x", async || "reserved");
    assert_reached(&router, &["/%6frders/a-b", "/%6Frders/%61%2db", "/orders/a%2Db"], "found");
    assert_reached(&router, &["/user:x", "/%75ser:x"], "reserved");
    assert_unknown(&router, &["/orders%2Fa-b", "/%2forders/a-b", "/user%3Ax", "/%256frders/a-b"]);
    let router = Router::new().get("/a%2fb", async || "found");
    assert_reached(&router, &["/a%2Fb", "/%61%2fb"], "found");
    assert_unknown(&router, &["/a/b", "/a%252Fb"]);
}

#[test]
fn parameters_are_those_of_the_path_as_it_came() {
    let shown = async |Path((id, rest)): Path<(String, String)>, request: ServerRequest| {
        format!("{:?} {:?} {id} {rest}", request.param("id"), request.param("rest"))
    };
    let router = Router::new().get("/\u{e4}/x-{id}.y/{*rest}", shown);
    assert_reached(
        &router,
        &["/%c3%a4/%78-%61%2fb.y/%e2%82%ac/c", "/\u{e4}/x-%61%2fb%2ey/%e2%82%ac/c"],
        r#"Some("%61%2fb") Some("%e2%82%ac/c") a/b €/c"#,
    );
}

#[test]
fn nested_routers_and_their_fallbacks_too() {
    let inner =
        Router::new().get("/", async || "root").get("/\u{fc}", async || "leaf").fallback(async || "below");
    let router = Router::new().nest("/\u{e4}/", inner);
    assert_reached(&router, &["/\u{e4}", "/%C3%A4", "/%c3%a4"], "root");
    assert_reached(&router, &["/%c3%a4/%c3%bc", "/\u{e4}/\u{fc}"], "leaf");
    assert_reached(&router, &["/%c3%a4/x", "/%C3%A4/", "/\u{e4}/x/%2F"], "below");
    assert_unknown(&router, &["/x", "/%c3%a5/x"]);
}

#[test]
fn methods_of_one_path_come_together() {
    let router = Router::new().get("/\u{e4}", async || "got").post("/%C3%A4", async || "posted");
    anywire_loops::block_on(async {
        let mut response = router.call(Request::new(Method::POST, "/%c3%a4")).await;
        assert_eq!(response.body.text(64).await.expect("text"), "posted");
        let response = router.call(Request::new(Method::PUT, "/%c3%a4")).await;
        assert_eq!(response.headers.get("allow"), Some("GET, POST, HEAD, OPTIONS"));
    });
}
