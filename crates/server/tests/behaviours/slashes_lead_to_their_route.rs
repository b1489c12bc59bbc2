//! A path with a `/` at its end differs from one without. A router may lead from one to the other, and nowhere else.

use std::collections::HashMap;

use anywire_http::{Method, Request, Url};
use anywire_loops::block_on;
use anywire_server::{Handler, Matrix, Next, Path, Response, Router, Server, guards};

use crate::support::Scene;

fn routes() -> Router {
    let page = async |Path(name): Path<String>| name;
    Router::new()
        .get("/orders", async || "orders")
        .post("/orders", async || "ordered")
        .get("/both", async || "without")
        .post("/both", async || "without")
        .get("/both/", async || "with")
        .get("/pages/", async || "pages")
        .get("/of/{name}", page)
        .get("/files/{*rest}", page)
        .get("/", async || "root")
        .get("/guarded", (async || "guarded").when(guards::query("a")).produces("text/html"))
        .put("/typed", (async || "json").consumes("application/json"))
        .put("/typed", (async || "text").consumes("text/plain"))
        .nest("/in", Router::new().get("/", async || "inner").get("/x", async || "x"))
}

/// Status, and where it leads a client.
fn ask(router: &Router, method: Method, target: &str) -> (u16, Option<String>) {
    let response = block_on(router.call(Request::new(method, target)));
    let location = response.headers.get("location").map(|location| led_to(target, location));
    (response.status.as_u16(), location)
}

/// Where a location leads from there (RFC 3986 section 5.2).
fn led_to(target: &str, location: &str) -> String {
    let base = format!("http://a.test{target}");
    let url = Url::parse(&base).expect("a URL").resolve(location).expect("a reference");
    assert_eq!(url.origin(), "http://a.test", "{target} leads to {location}");
    url.path_and_query().to_owned()
}

#[test]
fn they_differ() {
    let router = routes();
    for path in ["/orders/", "/pages", "/of/me/", "/in/", "/in/x/"] {
        assert_eq!(ask(&router, Method::GET, path), (404, None), "{path}");
    }
}

#[test]
fn a_router_leads_to_the_other_path() {
    let router = routes().redirect_slashes();
    let to = |path: &str| (308, Some(path.to_owned()));
    for (from, expected) in [
        ("/orders/", "/orders"),
        ("/orders/?a=1&b=%2F", "/orders?a=1&b=%2F"),
        ("/orders/?", "/orders?"),
        ("/pages", "/pages/"),
        ("/pages?x", "/pages/?x"),
        ("/of/me/", "/of/me"),
        ("/of/a:b/", "/of/a:b"),
        ("/of/a%2Fb/", "/of/a%2Fb"),
        ("/in/", "/in"),
        ("/in/x/", "/in/x"),
        ("/guarded/?a", "/guarded?a"),
    ] {
        assert_eq!(ask(&router, Method::GET, from), to(expected), "{from}");
    }
    assert_eq!(ask(&router, Method::POST, "/orders/"), to("/orders"));
    assert_eq!(ask(&router, Method::HEAD, "/orders/"), to("/orders"));
    assert_eq!(ask(&router, Method::PUT, "/typed/"), to("/typed"));
    assert_eq!(ask(&router, Method::PUT, "/orders/"), (405, None));
    assert_eq!(ask(&router, Method::POST, "/both/"), (405, None), "the path has routes of its own");
    for path in ["/orders", "/both", "/both/", "/pages/", "/", "/files/a/", "/in"] {
        assert_eq!(ask(&router, Method::GET, path).0, 200, "{path}");
    }
    for path in ["/nope/", "//", "/orders//", "//orders/", "/of//", "/guarded/", "/files/"] {
        assert_eq!(ask(&router, Method::GET, path), (404, None), "{path}");
    }
    let table = router.describe().expect("right routes");
    assert!(table.contains("GET /orders/ at ") && table.contains(" redirects\n"), "{table}");
}

#[test]
fn it_leads_to_no_other_host() {
    let page = async |Path(name): Path<String>| name;
    let router = Router::new().get("/{name}", page).get("//evil.test", async || "odd").redirect_slashes();
    for path in
        ["//evil.test/", "/%2Fevil.test/", "/\\evil.test/", "/%5cevil.test/", "http://a.test//evil.test/"]
    {
        let response = block_on(router.call(Request::get(path)));
        let location = response.headers.get("location").unwrap_or_default();
        let is_safe = location.starts_with("../%") && !location.contains(['\\', ' ']);
        assert!(response.status == 404 || response.status == 308 && is_safe, "{path}: {location}");
    }
    // A client resolves these against the path, so they name no segment.
    for path in ["/of/%2e%2E/", "/of/../", "/of/./", "/of/%2e/"] {
        let response = block_on(routes().redirect_slashes().call(Request::get(path)));
        assert_eq!((response.status.as_u16(), response.headers.get("location")), (404, None), "{path}");
    }
}

/// The router does not know the path that the peer asked for.
#[test]
fn a_prefix_that_was_taken_off_stays_on_the_way() {
    async fn below(mut request: anywire_server::Request, next: Next) -> Response {
        request.strip_prefix("/v1");
        next.run(request).await
    }
    let served = Scene::tcp().serve_by(Server::new(routes().redirect_slashes()).layer(below));
    for (from, expected) in [
        ("/v1/orders/?a=1", "/v1/orders?a=1"),
        ("/v1/pages", "/v1/pages/"),
        ("/v1/of/me/", "/v1/of/me"),
        ("/orders/", "/orders"),
    ] {
        let reply = served.get(from);
        let location = reply.field("location").map(|location| led_to(from, location));
        assert_eq!((reply.status, location.as_deref()), (308, Some(expected)), "{from}");
    }
}

#[test]
fn the_type_of_the_content_decides_only_where_it_is_taken() {
    let router = Router::new().put("/x", async || "x").consumes("application/json").redirect_slashes();
    let put = |target: &str| Request::new(Method::PUT, target).header("content-type", "text/plain").body("1");
    assert_eq!(block_on(router.call(put("/x"))).status, 415);
    assert_eq!(block_on(router.call(put("/x/"))).status, 308);
}

#[test]
fn only_its_own_routes_are_led_to() {
    let inner = Router::new().get("/x", async || "x").redirect_slashes();
    let router = Router::new().nest("/in", inner).get("/out", async || "out");
    assert_eq!(ask(&router, Method::GET, "/in/x/").0, 308);
    assert_eq!(ask(&router, Method::GET, "/out/").0, 404);
}

#[test]
fn matrix_parameters_stay_on_the_way() {
    let car = async |Path(id): Path<u32>, _: Matrix<HashMap<String, String>>| id.to_string();
    let list = async |_: Matrix<HashMap<String, String>>| "cars";
    let router = Router::new().get("/cars/{id}", car).get("/cars/", list).redirect_slashes();
    for (from, expected) in [
        ("/cars;colour=red/7;year=2012/", "/cars;colour=red/7;year=2012"),
        ("/cars/7;year=2012/?a", "/cars/7;year=2012?a"),
        ("/cars/7;year=2012/;a=b", "/cars/7;year=2012;a=b"),
        ("/cars;colour=red", "/cars;colour=red/"),
    ] {
        assert_eq!(ask(&router, Method::GET, from), (308, Some(expected.to_owned())), "{from}");
        assert_eq!(ask(&router, Method::GET, expected), (200, None), "{expected}");
    }
}

#[cfg(feature = "openapi")]
#[test]
fn the_page_of_a_description_is_a_route_as_any_other() {
    let info = || anywire_server::openapi::Info::new("Pages", "1.0.0");
    let router = Router::new().get("/x", async || "x").redirect_slashes().openapi("/docs", info());
    assert_eq!(ask(&router, Method::GET, "/docs/"), (308, Some("/docs".to_owned())));
    let both = Router::new().get("/docs/", async || "other docs").redirect_slashes().openapi("/docs", info());
    for path in ["/docs", "/docs/"] {
        assert_eq!(ask(&both, Method::GET, path), (200, None), "{path}");
    }
}
