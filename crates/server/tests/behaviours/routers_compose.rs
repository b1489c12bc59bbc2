//! Nested and merged routers keep their own states and their own fallback, and see those of the router around them.

use anywire_http::{Method, Request, Response};
use anywire_loops::block_on;
use anywire_server::guards::query;
use anywire_server::{Handler, MatchedPath, Next, Path, RouteLimits, Router, State};

/// A name that several routers have, each its own.
#[derive(Clone)]
struct Name(&'static str);

/// A value that only the outermost router has.
#[derive(Clone)]
struct Outer(u32);

async fn name(State(name): State<Name>, State(outer): State<Outer>) -> String {
    format!("{} {}", name.0, outer.0)
}

/// What a `GET` answers.
fn get(served: &crate::support::Served, target: &str) -> (u16, String) {
    let answer = served.ask(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"));
    (answer.status, answer.text().to_owned())
}

fn text(status: u16, text: &str) -> (u16, String) {
    (status, text.to_owned())
}

#[test]
fn each_router_sees_its_own_states_before_those_around_it() {
    let innermost = Router::new().state(Name("innermost")).get("/", name);
    let inner = Router::new().get("/", name).nest("/c", innermost).get("/late", name).state(Name("inner"));
    let without = Router::new().get("/", name);
    let merged = Router::new().state(Name("merged")).get("/merged", name);
    let router = Router::new().nest("/b", inner).nest("/without", without).merge(merged);
    let served = crate::support::serve(router.get("/", name).state(Name("outermost")).state(Outer(7)));
    for (target, expected) in [
        ("/", "outermost 7"),
        ("/b", "inner 7"),
        ("/b/late", "inner 7"),
        ("/b/c", "innermost 7"),
        ("/without", "outermost 7"),
        ("/merged", "merged 7"),
    ] {
        assert_eq!(get(&served, target), text(200, expected), "{target}");
    }
}

#[test]
fn each_router_has_its_own_fallback() {
    let fallback = async |State(name): State<Name>| (anywire_http::StatusCode::NOT_FOUND, name.0);
    let api = || Router::new().get("/orders/{id}", async |Path(id): Path<u32>| id.to_string());
    let innermost = Router::new().state(Name("innermost")).fallback(fallback);
    let inner = api().state(Name("inner")).fallback(fallback).nest("/deep", innermost);
    let orders = async |Path((tenant, id)): Path<(String, u32)>| format!("{tenant} {id}");
    let tenant = Router::new().get("/orders/{id}", orders).state(Name("tenant")).fallback(fallback);
    let router = Router::new().nest("/api", inner).nest("/plain", api()).nest("/of/{tenant}", tenant);
    let served = crate::support::serve(router.state(Name("outermost")).fallback(fallback));
    for (target, expected) in [
        ("/api", "inner"),
        ("/api/", "inner"),
        ("/api/users/7", "inner"),
        ("/api/orders", "inner"),
        ("/api/orders/7/8?query", "inner"),
        ("/api/deep", "innermost"),
        ("/api/deep/er/still", "innermost"),
        ("/api/deeper/still", "inner"),
        ("/apis", "outermost"),
        ("/plain/users", "outermost"),
        ("/of", "outermost"),
        ("/of/7", "tenant"),
        ("/of/7/users", "tenant"),
        ("/", "outermost"),
    ] {
        assert_eq!(get(&served, target), text(404, expected), "{target}");
    }
    assert_eq!(get(&served, "/api/orders/7"), text(200, "7"));
    assert_eq!(get(&served, "/plain/orders/7"), text(200, "7"));
    assert_eq!(get(&served, "/of/7/orders/8"), text(200, "7 8"));
}

#[test]
fn a_nested_fallback_comes_before_variables_of_the_outer_router() {
    let api = || Router::new().get("/users", async || "users").get("/users/{id}", async || "user");
    let tenant = Router::new().get("/{*rest}", async || "below").fallback(async || "tenant");
    let router = Router::new()
        .nest("/api", api().fallback(async || "no such call"))
        .nest("/without", api())
        .nest("/of/{tenant}", tenant)
        .nest("/\u{e4}", Router::new().fallback(async || "no such letter"))
        .get("/api/health", async || "healthy")
        .get("/api/{version}/health", async || "healthy too")
        .get("/of/all/{what}", async || "all")
        .get("/{name}", async || "page")
        .get("/{name}/{version}", async || "page of a version");
    let served = crate::support::serve(router);
    for (target, expected) in [
        ("/api", "no such call"),
        ("/api/", "no such call"),
        ("/api/nope", "no such call"),
        ("/%61pi/nope", "no such call"),
        ("/api/nope/at/all", "no such call"),
        ("/%c3%a4/x", "no such letter"),
        ("/api/users", "users"),
        ("/api/users/7", "user"),
        ("/api/health", "healthy"),
        ("/api/2/health", "healthy too"),
        ("/of/7", "tenant"),
        ("/of/7/x", "below"),
        ("/of/all/x", "all"),
        ("/of/all/x/y", "below"),
        ("/apis", "page"),
        ("/a/b", "page of a version"),
        ("/without/nope", "page of a version"),
    ] {
        assert_eq!(get(&served, target), text(200, expected), "{target}");
    }
}

#[test]
fn a_nested_fallback_comes_before_a_rest_of_the_outer_router_whatever_the_method() {
    let api = Router::new().get("/users", async || "users").fallback(async || "no such call");
    let page = async || "the page";
    let served = crate::support::serve(Router::new().nest("/api", api).get("/", page).get("/{*rest}", page));
    for (target, expected) in [
        ("/api", "no such call"),
        ("/api/nope", "no such call"),
        ("/api/users", "users"),
        ("/", "the page"),
        ("/apis/nope", "the page"),
    ] {
        assert_eq!(get(&served, target), text(200, expected), "{target}");
    }
    let post =
        |target| served.ask(&format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"));
    assert_eq!(post("/api/nope").text(), "no such call");
    assert_eq!(post("/api/users").status, 405);
    assert_eq!(post("/apis/nope").status, 405);
    let tunnel = served.ask("CONNECT /api/nope HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(tunnel.status >= 400, "no fallback may answer it");
}

#[test]
fn a_merged_fallback_is_that_of_both() {
    let merged = Router::new().get("/merged", async || "merged").fallback(async || "nothing here");
    let served = crate::support::serve(Router::new().get("/", async || "own").merge(merged));
    assert_eq!(get(&served, "/"), text(200, "own"));
    assert_eq!(get(&served, "/merged"), text(200, "merged"));
    assert_eq!(get(&served, "/else"), text(200, "nothing here"));
}

#[test]
fn a_path_of_several_routers_answers_the_methods_of_all() {
    let reads = Router::new().get("/orders", async || "read").fallback(async || "fallback");
    let writes = Router::new().post("/orders", async || "written").head("/orders", async || "");
    let served = crate::support::serve(Router::new().nest("/api", reads.merge(writes)));
    assert_eq!(
        served.ask("POST /api/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").text(),
        "written"
    );
    let refused = served.ask(&format!("{} /api/orders HTTP/1.1\r\nhost: x\r\n\r\n", Method::DELETE));
    assert_eq!(refused.status, 405, "the path is there: the fallback is not asked");
    assert_eq!(refused.header("allow"), Some("GET, POST, HEAD, OPTIONS"), "each once");
}

#[test]
fn the_matched_path_is_the_routes_with_its_prefixes() {
    let shown = async |path: Option<MatchedPath>| path.map_or("none".to_owned(), |path| path.to_string());
    let orders = Router::new().get("/", shown).get("/{id}", shown).any("/{id}/{*rest}", shown);
    let served = crate::support::serve(Router::new().get("/", shown).nest("/orders", orders).fallback(shown));
    let matched = |target: &str| get(&served, target).1;
    assert_eq!(matched("/"), "/");
    assert_eq!(matched("/orders"), "/orders");
    assert_eq!(matched("/orders/%37?page=2"), "/orders/{id}");
    assert_eq!(matched("/orders/7/lines/8"), "/orders/{id}/{*rest}");
    assert_eq!(matched("/nowhere"), "none");
}

async fn marked(request: anywire_server::Request, next: Next) -> Response {
    next.run(request).await.header("x-layer", "yes")
}

/// Status, text, and whether the layer was around it.
fn call(router: &Router, method: Method, target: &str) -> (u16, String, bool) {
    let mut response = block_on(router.call(Request::new(method, target)));
    let text = block_on(response.body.text(1000)).expect("a whole body");
    (response.status.as_u16(), text, response.headers.contains("x-layer"))
}

/// A handler that answers this.
fn says(text: &'static str) -> impl Handler<((), ())> {
    async move || text
}

#[test]
fn an_unknown_path_that_a_guard_lets_not_in_is_of_the_router_around_it() {
    let guarded = || Router::new().fallback(says("guarded").when(query("a")));
    let layered = Router::new().get("/x", says("x")).layer(marked).when(query("a"));
    let api = Router::new().fallback(says("api")).nest("/v1", guarded()).nest("/v2", layered);
    let router = Router::new()
        .nest("/api", api)
        .nest("/apis", guarded())
        .get("/{*rest}", says("page"))
        .fallback(says("outer"));
    for (target, expected, has_layer) in [
        ("/api/v1/nope?a", "guarded", false),
        ("/api/v1/nope", "api", false),
        ("/api/v2/nope?a", "api", true),
        ("/api/v2/nope", "api", false),
        ("/apis/nope?a", "guarded", false),
        ("/apis/nope", "page", false),
        ("/", "outer", false),
    ] {
        assert_eq!(call(&router, Method::GET, target), (200, expected.to_owned(), has_layer), "{target}");
    }
    let without = Router::new().nest("/api", Router::new().fallback(says("api"))).nest("/apis", guarded());
    assert_eq!(call(&without, Method::GET, "/apis/nope").0, 404, "it is beside the other one, not below");
}

#[test]
fn a_layer_does_not_change_who_answers_an_unknown_path() {
    for has_layer in [false, true] {
        let inner = Router::new().get("/x", says("x"));
        let inner = if has_layer { inner.layer(marked) } else { inner };
        let api = Router::new().fallback(says("no such call")).nest("/v1", inner);
        let router = Router::new().nest("/api", api).get("/{*rest}", says("page"));
        assert_eq!(call(&router, Method::GET, "/api/v1/x"), (200, "x".to_owned(), has_layer));
        assert_eq!(call(&router, Method::GET, "/api/v1/nope"), (200, "no such call".to_owned(), has_layer));
        assert_eq!(call(&router, Method::GET, "/api/nope"), (200, "no such call".to_owned(), false));
        assert_eq!(call(&router, Method::GET, "/nope"), (200, "page".to_owned(), false));
    }
}

#[test]
fn a_fallback_without_guards_answers_within_the_layers_of_a_router_that_has_none() {
    let nested = Router::new().get("/x", says("x")).layer(marked);
    let router =
        Router::new().nest("/in", nested).fallback(says("guarded").when(query("a"))).fallback(says("open"));
    assert_eq!(call(&router, Method::GET, "/in/nope"), (200, "open".to_owned(), true));
    assert_eq!(call(&router, Method::GET, "/nope?a"), (200, "guarded".to_owned(), false));
    assert_eq!(call(&router, Method::GET, "/nope"), (200, "open".to_owned(), false));
}

#[test]
fn a_refusal_for_a_path_of_several_routers_is_within_what_is_around_all() {
    let reads = Router::new().get("/x", says("read")).layer(marked);
    let writes = Router::new().post("/x", says("written"));
    let router = Router::new().merge(reads).merge(writes);
    assert_eq!(call(&router, Method::GET, "/x"), (200, "read".to_owned(), true));
    let (status, _, has_layer) = call(&router, Method::DELETE, "/x");
    assert_eq!((status, has_layer), (405, false));
    let (status, _, has_layer) = call(&Router::new().merge(router).layer(marked), Method::DELETE, "/x");
    assert_eq!((status, has_layer), (405, true));
}

#[test]
fn a_handler_that_a_guard_has_chosen_sees_what_is_its_own() {
    let told = async |State(name): State<Name>, path: MatchedPath, body: Result<String, _>| {
        let _: &Result<_, anywire_server::Rejection> = &body;
        format!("{} {} {}", name.0, path.0, body.is_ok())
    };
    let limits = RouteLimits { body_bytes: Some(1), ..RouteLimits::default() };
    let inner = Router::new().post("/x", told.when(query("a")).limits(limits)).post("/x", told);
    let router = Router::new().nest("/in", inner.state(Name("inner"))).state(Name("outer"));
    let post = |target: &str| {
        let mut response = block_on(router.call(Request::post(target).body("12")));
        block_on(response.body.text(1000)).expect("a whole body")
    };
    assert_eq!(post("/in/x?a"), "inner /in/x false");
    assert_eq!(post("/in/x"), "inner /in/x true");
}

/// Unknown paths of a router with layers alone are answered by the closest fallback, and the table does not list another one as if it could be
/// reached there.
#[test]
fn a_fallback_behind_another_one_is_listed_once() {
    async fn pass(request: anywire_server::Request, next: Next) -> Response {
        next.run(request).await
    }
    let innermost = Router::new().get("/c", async || "c").layer(pass);
    let inner = Router::new().nest("/b", innermost).fallback(async || "inner");
    let router = Router::new().nest("/a", inner).fallback(async || "outer");
    let table = router.describe().expect("right routes");
    let fallbacks: Vec<&str> = table.lines().filter(|line| line.contains("(the fallback)")).collect();
    assert_eq!(fallbacks.len(), 3, "{table}");
}
