//! Layers apply as they were added, the outermost first: those of the server, of a router, of a router nested or merged into it,
//! of a handler. They are around everything that the router answers, in each version of HTTP.

use anywire_http::{Method, StatusCode};
use anywire_server::guards::header;
use anywire_server::{Ended, Handler, MatchedPath, Next, Path, Request, Response, Router, Server};

use crate::support::{Scene, channel, serve};

/// A layer that adds its name to the field `way`, behind those inside of it.
macro_rules! named {
    ($name:literal) => {
        async |request: Request, next: Next| next.run(request).await.header("way", $name)
    };
}

async fn hello() -> &'static str {
    "hello"
}

/// The layers that a request goes through, from the outside.
#[track_caller]
fn way(served: &crate::support::Served, request: &str, status: u16) -> String {
    let reply = served.alike(request, &[], "");
    assert_eq!(reply.status, status, "{request}: {reply:?}");
    let mut way = reply.all("way");
    way.reverse();
    way.concat()
}

#[test]
fn layers_of_routers_and_handlers() {
    let merged = Router::new().layer(named!("m")).get("/merged", hello);
    let deep = Router::new().get("/", hello).layer(named!("d"));
    let nested = Router::new().layer(named!("n")).get("/", hello).nest("/deep", deep).layer(named!("o"));
    let router = Router::new()
        .get("/before", hello)
        .layer(named!("a"))
        .nest("/nested", nested)
        .get("/own", hello.layer(named!("1")).layer(named!("2")))
        .layer(named!("b"))
        .merge(merged)
        .get("/after", hello);
    let served = serve(router);
    assert_eq!(way(&served, "GET /before", 200), "ab");
    assert_eq!(way(&served, "GET /after", 200), "ab");
    assert_eq!(way(&served, "GET /own", 200), "ab12");
    assert_eq!(way(&served, "GET /merged", 200), "abm");
    assert_eq!(way(&served, "GET /nested", 200), "abno");
    assert_eq!(way(&served, "GET /nested/deep", 200), "abnod");
}

#[test]
fn layers_are_around_what_the_router_itself_answers() {
    let nested = Router::new().get("/", hello).layer(named!("n"));
    let plain = Router::new().get("/", hello);
    let merged = Router::new().post("/both", hello).post("/merged", hello).layer(named!("m"));
    let router = Router::new()
        .layer(named!("a"))
        .get("/both", hello)
        .get("/{id}", async |Path(id): Path<u8>| id.to_string())
        .get("/own", hello.layer(named!("1")))
        .nest("/nested", nested)
        .nest("/plain", plain)
        .merge(merged);
    let served = serve(router);
    assert_eq!(way(&served, "GET /nowhere/at/all", 404), "a");
    assert_eq!(
        way(&served, "GET /nested/nowhere", 404),
        "an",
        "unknown paths below a nested router are its own"
    );
    assert_eq!(way(&served, "GET /plain/nowhere", 404), "a");
    assert_eq!(way(&served, "POST /own", 405), "a", "the handler is one of GET");
    assert_eq!(way(&served, "OPTIONS /own", 204), "a");
    assert_eq!(way(&served, "OPTIONS *", 204), "a");
    assert_eq!(way(&served, "PUT /nested", 405), "an");
    assert_eq!(way(&served, "PUT /merged", 405), "am");
    assert_eq!(way(&served, "PUT /both", 405), "a", "two routers share this path");
    assert_eq!(way(&served, "POST /both", 200), "am");
    assert_eq!(way(&served, "GET /seven", 400), "a", "a rejection");
    assert_eq!(way(&served, "HEAD /own", 200), "a1");
    let tunnel = served.ask("CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n");
    assert_eq!((tunnel.status, tunnel.header("way")), (501, Some("a")));
}

#[test]
fn layers_are_around_fallbacks() {
    let missing = async || (StatusCode::NOT_FOUND, "not here");
    let with = Router::new().get("/", hello).fallback(missing).layer(named!("f"));
    let without = Router::new().get("/", hello).layer(named!("n"));
    let deep = Router::new().get("/", hello).layer(named!("d"));
    let outer = Router::new().nest("/deep", deep).fallback(missing).layer(named!("e"));
    let twice = || Router::new().layer(named!("t"));
    let router = Router::new()
        .layer(named!("a"))
        .nest("/with", with)
        .nest("/without", without)
        .nest("/outer", outer)
        .nest("/twice", twice().get("/one", hello))
        .nest("/twice", twice().get("/two", hello))
        .get("/twice/{*rest}", async || "rest")
        .get("/without/{*rest}", async || "rest")
        .merge(Router::new().fallback(missing.layer(named!("1"))).layer(named!("m")));
    let served = serve(router);
    assert_eq!(way(&served, "GET /with/x", 404), "af");
    assert_eq!(way(&served, "GET /with", 200), "af");
    assert_eq!(way(&served, "GET /x", 404), "am1");
    assert_eq!(way(&served, "GET /outer/x", 404), "ae");
    assert_eq!(way(&served, "GET /outer/deep/x", 404), "aed");
    assert_eq!(way(&served, "GET /twice", 404), "am1", "the prefix is that of two routers");
    assert_eq!(way(&served, "GET /without/", 404), "anm1");
    assert_eq!(way(&served, "GET /without/x", 200), "a", "a route answers as it does without layers");
    assert_eq!(way(&served, "GET /twice/x", 200), "a");
}

/// What answers is the same with and without them, whatever the guards of the fallbacks around say.
#[test]
fn layers_change_nothing_of_which_fallback_answers() {
    let says = |name: &'static str| async move || (StatusCode::NOT_FOUND, name);
    let app = |has_layers: bool| {
        let within = |router: Router| if has_layers { router.layer(named!("n")) } else { router };
        let hidden = within(Router::new().get("/x", hello)).when(header("x-hidden"));
        let own = Router::new().fallback(says("own").when(header("x-own")));
        let inner = Router::new().get("/x", hello).nest("/hidden", hidden).nest("/own", own);
        let api = Router::new().fallback(says("api").when(header("x-api"))).nest("/v1", within(inner));
        Router::new()
            .nest("/api", api)
            .get("/{*rest}", (async || "rest").when(header("x-rest")))
            .fallback(says("first").when(header("x-first")))
            .fallback(says("second"))
    };
    let (with, without) = (serve(app(true)), serve(app(false)));
    let answer = |name: &str| (if name == "rest" { 200 } else { 404 }, name.to_owned());
    for (target, field, expected, way) in [
        ("/api/v1/none", "", "second", "n"),
        ("/api/v1/none", "x-first", "first", "n"),
        ("/api/v1/none", "x-api", "api", "n"),
        ("/api/v1/none", "x-rest", "rest", ""),
        ("/api/v1/own/none", "x-own", "own", "n"),
        ("/api/v1/own/none", "x-api", "api", "n"),
        ("/api/v1/own/none", "x-first", "first", "n"),
        ("/api/v1/own/none", "x-rest", "rest", ""),
        ("/api/v1/own/none", "", "second", "n"),
        ("/api/v1/hidden/none", "x-hidden", "second", "nn"),
        ("/api/v1/hidden/none", "", "second", "n"),
        ("/api/v1/hidden/none", "x-first", "first", "n"),
        ("/api/none", "x-api", "api", ""),
        ("/api/none", "x-rest", "rest", ""),
        ("/none", "x-first", "first", ""),
    ] {
        let fields: &[(&str, &str)] = if field.is_empty() { &[] } else { &[(field, "1")] };
        let reply = with.alike(&format!("GET {target}"), fields, "");
        assert_eq!((reply.status, reply.text.clone()), answer(expected), "{target} {field}");
        assert_eq!(reply.all("way").concat(), way, "{target} {field}");
        let plain = without.alike(&format!("GET {target}"), fields, "");
        assert_eq!((plain.status, plain.text), (reply.status, reply.text), "{target} {field}");
    }
}

#[test]
fn layers_of_the_server_come_before_the_route_is_looked_up() {
    let matched = async |path: Option<MatchedPath>, request: Request, next: Next| {
        next.run(request).await.header("matched", path.map_or("none".to_owned(), |path| path.to_string()))
    };
    let replaces = async |mut request: Request, next: Next| {
        if let Some(method) = request.headers().get("x-method").and_then(|method| method.parse().ok()) {
            request.set_method(method);
        }
        if let Some(path) = request.path().strip_prefix("/v1").map(str::to_owned) {
            request.set_path_and_query(&path).expect("a path");
        }
        next.run(request).await.header("way", "s")
    };
    let router = || {
        Router::new()
            .get("/{id}/lines", async |Path(id): Path<u8>, path: MatchedPath| format!("{id} {}", &*path))
            .delete("/", async || "deleted")
            .get("/", hello)
            .layer(named!("a"))
            .layer(matched)
    };
    let set_up = |server: Server| server.layer(named!("x")).layer(replaces).layer(matched);
    let served = Scene::tcp().serve_by(set_up(Server::new(router())));
    let reply = served.get("/v1/7/lines");
    assert_eq!((reply.status, &*reply.text), (200, "7 /{id}/lines"));
    assert_eq!(reply.all("matched"), ["/{id}/lines", "none"]);
    assert_eq!(reply.all("way"), ["a", "s", "x"]);
    assert_eq!(way(&served, "GET /", 200), "xsa");
    assert_eq!(way(&served, "GET /nowhere", 404), "xsa");
    assert_eq!(way(&served, "PUT /", 405), "xsa");
    assert_eq!(way(&served, "OPTIONS *", 204), "xsa");
    let reply = served.alike("POST /", &[("x-method", "DELETE")], "");
    assert_eq!(reply.text, "deleted");
    assert_eq!(served.alike("HEAD /", &[("x-method", "GET")], "").text, "", "what was asked counts");
    // No layer makes a tunnel (RFC 9110 section 9.3.6).
    let tunnel = served.ask("CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\nx-method: GET\r\n\r\n");
    assert!(tunnel.status >= 400, "{tunnel:?}");
    let opens = async |_: Request, _: Next| StatusCode::OK;
    let served = serve(router().layer(opens));
    assert_eq!(served.ask("CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n").status, 500);
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn observers_see_the_route_within_layers_of_the_server() {
    let waits = async |request: Request, next: Next| {
        if request.headers().contains("x-wait") {
            tokio::task::yield_now().await;
        }
        next.run(request).await
    };
    let (ended, routes) = channel();
    let router =
        Router::new().get("/{id}", hello).get("/waits/{id}", async || tokio::task::yield_now().await);
    let observer = move |exchange: &Ended<'_>| {
        ended.send(exchange.route.map(str::to_owned)).expect("the test waits");
    };
    let served = Scene::tcp().serve_by(Server::new(router).layer(waits).observe(observer));
    for (path, route) in [("/7", Some("/{id}")), ("/waits/7", Some("/waits/{id}")), ("/a/b/c", None)] {
        for fields in [&[][..], &[("x-wait", "1")]] {
            served.alike(&format!("GET {path}"), fields, "");
            for _ in 0..2 {
                assert_eq!(routes.next().as_deref(), route, "{path} {fields:?}");
            }
        }
    }
}

#[test]
fn what_a_router_does_is_told() {
    async fn outer(request: Request, next: Next) -> Response {
        next.run(request).await
    }
    async fn inner(request: Request, next: Next) -> Response {
        next.run(request).await
    }
    let line = line!() + 1;
    let router = Router::new().get("/{id}", hello.layer(inner)).layer(outer).route(Method::PUT, "/", hello);
    let text = without_columns(&router.describe().expect("right routes"));
    let at = format!("{}:{line}", file!());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("GET /{{id}} at {at} within outer ({at}), inner ({at})"));
    assert_eq!(lines[1], format!("* (the router) within outer ({at})"));
    assert_eq!(lines[2], format!("PUT / at {at} within outer ({at})"));
    assert_eq!(lines.len(), 3, "what the router answers itself is one line: {text}");
}

/// Places without their column.
fn without_columns(text: &str) -> String {
    let mut parts = text.split(".rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (line, rest) = part.split_once(':').expect("line and column");
        format!("{text}.rs:{line}{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
    })
}
