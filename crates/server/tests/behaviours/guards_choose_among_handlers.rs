//! Guards decide which of the handlers of one path answers; to a request that none takes the path is unknown.

use anywire_http::{Method, Request, Response, StatusCode};
use anywire_loops::block_on;
use anywire_server::codec::{Format, Negotiated};
use anywire_server::guards::{header, host, of, param_matches, query};
use anywire_server::layers::Cors;
use anywire_server::{Handler, IntoResponse, MatchedPath, Next, Parts, Path, Router, Server};

fn ask(router: &Router, request: Request) -> (u16, String) {
    let mut response = block_on(router.call(request));
    let body = block_on(response.body.text(1000)).expect("a whole body");
    (response.status.as_u16(), body)
}

fn get(router: &Router, target: &str) -> (u16, String) {
    ask(router, Request::get(target))
}

fn at(host: &str, target: &str) -> Request {
    Request::get(target).header("host", host)
}

fn found(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

fn unknown() -> (u16, String) {
    (404, "nothing is here".to_owned())
}

/// A handler that answers this.
fn says(text: &'static str) -> impl Handler<((), ())> {
    async move || text
}

#[test]
fn the_host_decides() {
    let router = Router::new()
        .get("/", says("api").when(host("api.example.com")))
        .get("/", says("tenant").when(host("*.example.com")))
        .get("/", says("admin").when(host("admin.test:8443")))
        .get("/", says("plain").when(host("plain.test:80")))
        .get("/", says("secure").when(host("secure.test:443")))
        .get("/", says("six").when(host("[::1]")));
    for (host, expected) in [
        ("api.example.com", "api"),
        ("API.Example.COM.", "api"),
        ("api.example.com:8080", "api"),
        ("a.b.example.com", "tenant"),
        ("admin.test:8443", "admin"),
        ("plain.test", "plain"),
        ("plain.test:80", "plain"),
        ("plain.test:", "plain"),
        ("secure.test:443", "secure"),
        ("[::1]:9", "six"),
    ] {
        assert_eq!(ask(&router, at(host, "/")), found(expected), "{host}");
    }
    let others = [
        "example.com",
        "admin.test",
        "admin.test:84430",
        "plain.test:443",
        "xexample.com",
        "[::2]",
        "plain.test:+80",
    ];
    for host in others.into_iter().chain([".example.com", "[::1].example.com", "secure.test"]) {
        assert_eq!(ask(&router, at(host, "/")), unknown(), "{host}");
    }
    let target = Request::get("http://api.example.com/").header("host", "other");
    assert_eq!(ask(&router, target), found("api"), "the authority of the target comes before the field");
    assert_eq!(get(&router, "https://secure.test/"), found("secure"), "443 is the port of https");
}

#[test]
fn fields_and_queries_decide() {
    let router = Router::new()
        .get("/", says("second").when(header("X-Version").equals("2")))
        .get("/", says("some").when(header("x-version")))
        .get("/q", says("red").when(query("the colour").equals("r\u{e4}d+")))
        .get("/q", says("colour").when(query("the colour")))
        .get("/q", says("none"));
    let version = |values: &[&str]| {
        values.iter().fold(Request::get("/"), |request, value| request.header("x-version", *value))
    };
    assert_eq!(ask(&router, version(&["2"])), found("second"));
    assert_eq!(ask(&router, version(&["3"])), found("some"));
    assert_eq!(
        ask(&router, version(&["2", "2"])),
        found("some"),
        "a field that stands there twice equals nothing"
    );
    assert_eq!(ask(&router, version(&[])), unknown());
    for (target, expected) in [
        ("/q?the+colour=r%C3%a4d%2B", "red"),
        ("/q?x&the%20colour=r%c3%A4d%2b&y=1", "red"),
        ("/q?the+colour=blue", "colour"),
        ("/q?the+colour", "colour"),
        ("/q?the+colour=r%c3%A4d%2b&the+colour=x", "colour"),
        ("/q?the+colours=1", "none"),
        ("/q?", "none"),
        ("/q", "none"),
    ] {
        assert_eq!(get(&router, target), found(expected), "{target}");
    }
}

#[test]
fn functions_and_expressions_decide() {
    let is_short = |parts: &Parts| parts.param("id").is_some_and(|id| id.len() < 3);
    let shown = async |path: MatchedPath, Path(id): Path<String>| format!("{} {id}", path.0);
    let router = Router::new()
        .get("/orders/{id}", shown.when(param_matches("id", "[0-9]+|x \u{e4}")))
        .get("/orders/{id}", says("short").when(of(is_short)));
    assert_eq!(get(&router, "/orders/12345"), found("/orders/{id} 12345"));
    assert_eq!(get(&router, "/orders/x%20%c3%a4"), found("/orders/{id} x \u{e4}"));
    assert_eq!(get(&router, "/orders/ab"), found("short"));
    for target in ["/orders/12345x", "/orders/x12345", "/orders/%ff1", "/orders/12345%0A", "/orders/x+%c3%a4"]
    {
        assert_eq!(get(&router, target), unknown(), "{target}: the whole value has to match");
    }
}

#[test]
fn more_guards_come_first_and_then_the_order_of_adding() {
    let routes = [(says("none"), 0), (says("first"), 1), (says("both"), 2)];
    // In whatever order they are added.
    for turn in 0..routes.len() {
        let mut routes = routes.clone();
        routes.rotate_left(turn);
        let router = routes.into_iter().fold(Router::new(), |router, (handler, guards)| match guards {
            0 => router.get("/", handler),
            1 => router.get("/", handler.when(query("a"))),
            _ => router.get("/", handler.when(query("b")).when(query("c"))),
        });
        assert_eq!(get(&router, "/"), found("none"));
        assert_eq!(get(&router, "/?b"), found("none"));
        assert_eq!(get(&router, "/?a"), found("first"));
        assert_eq!(get(&router, "/?a&b&c"), found("both"));
    }
    let router = Router::new().get("/", says("a").when(query("a"))).get("/", says("b").when(query("b")));
    assert_eq!(get(&router, "/?b&a"), found("a"));
}

/// Two handlers of which the wide one takes all requests of the narrow one, and one of these requests.
struct Pair {
    narrow: fn(Router) -> Router,
    wide: fn(Router) -> Router,
    request: fn() -> Request,
}

const PAIRS: [Pair; 6] = [
    Pair {
        narrow: |router| router.get("/", says("narrow").when(host("api.shop.test"))),
        wide: |router| router.get("/", says("wide").when(host("*.shop.test"))),
        request: || at("api.shop.test", "/"),
    },
    Pair {
        narrow: |router| router.get("/", says("narrow").when(host("*.eu.shop.test"))),
        wide: |router| router.get("/", says("wide").when(host("*.test"))),
        request: || at("api.eu.shop.test:8443", "/"),
    },
    Pair {
        narrow: |router| router.get("/", says("narrow").when(host("shop.test:8443"))),
        wide: |router| router.get("/", says("wide").when(host("shop.test"))),
        request: || at("shop.test:8443", "/"),
    },
    Pair {
        narrow: |router| router.get("/", says("narrow").when(header("x-version").equals("2"))),
        wide: |router| router.get("/", says("wide").when(header("x-version"))),
        request: || Request::get("/").header("x-version", "2"),
    },
    Pair {
        narrow: |router| router.get("/", says("narrow").when(query("a").equals("1")).when(query("b"))),
        wide: |router| router.get("/", says("wide").when(query("b")).when(query("a"))),
        request: || Request::get("/?b&a=1"),
    },
    Pair {
        narrow: |router| router.merge(Router::new().fallback(says("narrow").when(query("a").equals("1")))),
        wide: |router| router.merge(Router::new().fallback(says("wide").when(query("a")))),
        request: || Request::get("/nowhere?a=1"),
    },
];

/// Of two handlers with as many guards the narrower one comes first, in whatever order they are added: after the wider one it would never
/// answer.
#[test]
fn a_narrower_handler_comes_before_a_wider_one() {
    for (index, Pair { narrow, wide, request }) in PAIRS.into_iter().enumerate() {
        assert_eq!(ask(&wide(narrow(Router::new())), request()), found("narrow"), "{index}");
        assert_eq!(ask(&narrow(wide(Router::new())), request()), found("narrow"), "{index}, wide first");
    }
    let three = Router::new()
        .get("/", says("field").when(header("a")))
        .get("/", says("any").when(query("a")))
        .get("/", says("one").when(query("a").equals("1")));
    assert_eq!(get(&three, "/?a=1"), found("one"));
    assert_eq!(get(&three, "/?a=2"), found("any"));
    assert_eq!(ask(&three, Request::get("/?a=1").header("a", "1")), found("field"), "it was added first");
}

#[test]
fn a_guard_that_says_no_more_than_another_does_not_count() {
    for twice in [query("a"), query("a").equals("1")] {
        let router = Router::new()
            .get("/", says("first").when(query("b")))
            .get("/", says("twice").when(twice).when(query("a")));
        assert_eq!(get(&router, "/?b&a=1"), found("first"));
    }
}

#[test]
fn another_method_that_would_be_answered_is_a_405() {
    let router = Router::new()
        .get("/", says("get").when(query("a")))
        .post("/", says("post").when(query("b")))
        .put("/always", says("put"))
        .get("/always", says("get").when(query("a")))
        .any("/any", says("any"))
        .get("/any", says("get").when(query("a")));
    let ask = |method: Method, target: &str| {
        let response = block_on(router.call(Request::new(method, target)));
        (response.status.as_u16(), response.headers.get("allow").map(str::to_owned))
    };
    let allow = |status, allow: &str| (status, Some(allow.to_owned()));
    assert_eq!(ask(Method::GET, "/?b"), allow(405, "POST, OPTIONS"));
    assert_eq!(ask(Method::HEAD, "/?a"), (200, None));
    assert_eq!(ask(Method::DELETE, "/?a"), allow(405, "GET, HEAD, OPTIONS"));
    assert_eq!(ask(Method::DELETE, "/?a&b"), allow(405, "GET, POST, HEAD, OPTIONS"));
    assert_eq!(ask(Method::OPTIONS, "/?b"), allow(204, "POST, OPTIONS"));
    assert_eq!(ask(Method::OPTIONS, "/"), (404, None));
    assert_eq!(ask(Method::POST, "/"), (404, None));
    assert_eq!(ask(Method::GET, "/always"), allow(405, "PUT, OPTIONS"));
    assert_eq!(ask(Method::PUT, "/always"), (200, None));
    assert_eq!(ask(Method::GET, "/any"), (200, None));
}

#[test]
fn a_router_with_a_guard_is_not_there_for_others() {
    let a = Router::new()
        .get("/", says("a"))
        .nest("/deep", Router::new().get("/x", says("a x")).fallback(says("a deep")))
        .fallback(says("a fallback"))
        .when(host("a.test"));
    let b = Router::new().get("/", says("b")).fallback(says("b fallback")).when(host("b.test"));
    let router = Router::new().merge(a).merge(b).get("/common", says("common")).fallback(says("outer"));
    for (host, target, expected) in [
        ("a.test", "/", "a"),
        ("b.test", "/", "b"),
        ("a.test", "/nope", "a fallback"),
        ("b.test", "/nope", "b fallback"),
        ("a.test", "/deep/x", "a x"),
        ("a.test", "/deep/y", "a deep"),
        ("b.test", "/deep/x", "b fallback"),
        ("b.test", "/deep/y", "b fallback"),
    ] {
        assert_eq!(ask(&router, at(host, target)), found(expected), "{host}{target}");
    }
    assert_eq!(ask(&router, at("c.test", "/common")), found("common"));
    for target in ["/", "/nope", "/deep/x", "/deep/y"] {
        assert_eq!(ask(&router, at("c.test", target)), found("outer"), "{target}");
    }
}

#[test]
fn a_fallback_with_a_guard_leaves_others_to_what_is_around_it() {
    let api = Router::new().get("/users", says("users")).fallback(says("no such call")).when(header("x-api"));
    let guarded_page = says("page").when(query("page"));
    let router = Router::new().nest("/api", api).get("/{name}/{*rest}", guarded_page).fallback(says("outer"));
    let api = |target: &str| Request::get(target).header("x-api", "1");
    assert_eq!(ask(&router, api("/api/users")), found("users"));
    assert_eq!(ask(&router, api("/api/nope?page")), found("no such call"));
    assert_eq!(get(&router, "/api/nope?page"), found("page"));
    assert_eq!(get(&router, "/api/nope"), found("outer"));
    assert_eq!(get(&router, "/api/users"), found("outer"));
    assert_eq!(get(&router, "/api"), found("outer"));
}

#[test]
fn layers_are_around_what_is_refused_and_those_of_a_router_that_is_not_there_are_not() {
    async fn marked(request: anywire_server::Request, next: Next) -> Response {
        next.run(request).await.header("x-layer", "yes")
    }
    let inner = Router::new().get("/x", says("x").when(query("a"))).post("/x", says("x")).layer(marked);
    let hidden = Router::new().get("/x", says("x")).layer(marked).when(header("x-see"));
    let router = Router::new().nest("/inner", inner).nest("/hidden", hidden);
    let ask = |request: Request| {
        let response = block_on(router.call(request));
        (response.status.as_u16(), response.headers.contains("x-layer"))
    };
    assert_eq!(ask(Request::get("/inner/x?a")), (200, true));
    assert_eq!(ask(Request::get("/inner/x")), (405, true));
    assert_eq!(ask(Request::get("/hidden/y").header("x-see", "1")), (404, true));
    assert_eq!(ask(Request::get("/hidden/y")), (404, false));
    assert_eq!(ask(Request::get("/hidden/x")), (404, false));
}

/// As of two hosts: what the one refuses is within its layers and not within those of the other, although they share a path.
#[test]
fn layers_are_around_what_their_own_router_refuses() {
    let cors = |origin: &'static str| Cors::new().origins([origin]);
    let of = |name: &'static str, layer: Cors| {
        Router::new()
            .post("/", says(name).consumes("text/plain"))
            .get("/", says(name).produces("text/html"))
            .layer(layer)
            .when(host(&format!("{name}.test")))
    };
    let router = Router::new()
        .merge(of("shop", cors("https://shop.test")))
        .merge(of("blog", cors("https://blog.test")))
        .put("/", says("anybody").when(header("x-any")));
    let allowed = |method: Method, fields: &[(&str, &str)]| {
        let request = fields
            .iter()
            .fold(Request::new(method.clone(), "/"), |request, (name, value)| request.header(name, *value));
        let body = if method == Method::POST { "x" } else { "" };
        let response = block_on(router.call(request.body(body)));
        (response.status.as_u16(), response.headers.get("access-control-allow-origin").map(str::to_owned))
    };
    for name in ["shop", "blog"] {
        let (host, origin) =
            (("host", &*format!("{name}.test")), ("origin", &*format!("https://{name}.test")));
        let within = |status: u16| (status, Some(format!("https://{name}.test")));
        let preflight = ("access-control-request-method", "POST");
        assert_eq!(allowed(Method::OPTIONS, &[host, origin, preflight]), within(204), "{name}");
        assert_eq!(allowed(Method::DELETE, &[host, origin]), within(405), "{name}");
        assert_eq!(allowed(Method::GET, &[host, origin, ("accept", "image/png")]), within(406), "{name}");
        assert_eq!(
            allowed(Method::POST, &[host, origin, ("content-type", "text/css")]),
            within(415),
            "{name}"
        );
        let other = ("host", if name == "shop" { "blog.test" } else { "shop.test" });
        assert_eq!(allowed(Method::OPTIONS, &[other, origin, preflight]), (204, None), "{name}");
        // What is of both is within none of the two.
        assert_eq!(allowed(Method::DELETE, &[host, origin, ("x-any", "1")]), (405, None), "{name}");
    }
}

#[test]
fn caches_learn_of_fields_that_decide() {
    let router = Router::new()
        .get("/", says("second").when(header("X-Version").equals("2")))
        .get("/", says("first"))
        .get("/q", says("q").when(query("a")));
    let vary = |request: Request| block_on(router.call(request)).headers.get("vary").map(str::to_owned);
    assert_eq!(vary(Request::get("/").header("x-version", "2")).as_deref(), Some("x-version"));
    assert_eq!(vary(Request::get("/")).as_deref(), Some("x-version"));
    assert_eq!(vary(Request::get("/q?a")), None, "a query is a part of the URL");
}

#[test]
fn each_field_is_said_once() {
    let said = |vary: &'static str| async move |format: Format| ([("vary", vary)], Negotiated(1, format));
    let of = |vary| {
        let json = said(vary).produces("application/json").when(header("x-version"));
        let response =
            block_on(Router::new().get("/", json).call(Request::get("/").header("x-version", "1")));
        let all = response.headers.get_all("vary").map(|value| String::from_utf8_lossy(value).into_owned());
        all.collect::<Vec<_>>()
    };
    assert_eq!(of("origin"), ["origin", "accept, x-version"]);
    assert_eq!(of("Origin, X-Version, Accept"), ["Origin, X-Version, Accept"]);
    assert_eq!(of("*"), ["*"]);
    let negotiated = async |format: Format| Negotiated(1, format);
    let router = Router::new().get("/", negotiated.produces("application/json"));
    let response = block_on(router.call(Request::get("/")));
    assert_eq!(response.headers.get_all("vary").collect::<Vec<_>>(), [b"accept"]);
    let router = Router::new()
        .get("/", says("second").produces("text/css").when(header("x-version").equals("2")))
        .get("/", says("third").produces("text/css").when(header("x-version").equals("3")));
    let response = block_on(router.call(Request::get("/").header("x-version", "3")));
    assert_eq!(response.headers.get("vary"), Some("accept, x-version"), "of several handlers, too");
}

#[test]
fn a_guard_that_panics_is_a_500_and_the_connection_stays() {
    let panics = |parts: &Parts| -> bool {
        assert!(parts.query().is_none(), "on purpose");
        true
    };
    let served = crate::support::serve(Router::new().get("/", says("calm").when(of(panics))));
    let mut peer = served.connect();
    peer.send("GET /?x HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 500);
    assert_eq!(peer.answer(false).text(), "calm");
    assert_eq!(served.running.counters().panics, 1);
}

/// As a panic of the handler is: the layers of the router that has the path see a 500. Which of several routers with one path would have
/// been chosen is not known then, so only the layers around all of them see it.
#[test]
fn a_guard_that_panics_is_answered_within_the_layers_around_it() {
    let panics = || {
        of(|parts: &Parts| -> bool {
            assert!(parts.query().is_none(), "on purpose");
            true
        })
    };
    let named = |name: &'static str| {
        async move |request: anywire_server::Request, next: Next| {
            let response = next.run(request).await;
            let status = response.status.as_u16().to_string();
            response.header(name, status)
        }
    };
    let one = Router::new().get("/shared", says("one").when(panics())).layer(named("x-one"));
    let other = Router::new().get("/shared", says("other").when(header("x-other"))).layer(named("x-other"));
    let nested = Router::new()
        .get("/", says("nested"))
        .fallback(says("nested fallback"))
        .when(panics())
        .layer(named("x-nested"));
    let layered = Router::new().get("/", says("layered")).when(panics()).layer(named("x-layered"));
    let router = Router::new()
        .get("/alone", says("alone").when(panics()))
        .merge(one)
        .merge(other)
        .nest("/nested", nested)
        .nest("/layered", layered)
        .connect(says("a tunnel").when(panics()))
        .layer(named("x-all"));
    let ask = |target: &str| {
        let response = block_on(router.call(Request::get(target)));
        let names = ["x-all", "x-one", "x-other", "x-nested", "x-layered"].into_iter();
        let seen: Vec<_> = names.filter(|name| response.headers.get(name) == Some("500")).collect();
        (response.status.as_u16(), seen)
    };
    assert_eq!(ask("/alone?x"), (500, vec!["x-all"]));
    assert_eq!(ask("/shared?x"), (500, vec!["x-all"]));
    assert_eq!(ask("/nested?x"), (500, vec!["x-all", "x-nested"]));
    assert_eq!(ask("/nested/unknown?x"), (500, vec!["x-all", "x-nested"]));
    assert_eq!(ask("/layered?x"), (500, vec!["x-all", "x-layered"]));
    assert_eq!(ask("/layered/unknown?x"), (500, vec!["x-all", "x-layered"]));
    assert_eq!(ask("/alone"), (200, Vec::new()));
    let tunnel = Request::new(Method::CONNECT, "a.test:80");
    assert_eq!(block_on(router.call(tunnel)).status, StatusCode::INTERNAL_SERVER_ERROR);
    let served = crate::support::serve(router);
    for path in ["/alone", "/nested/unknown"] {
        assert_eq!(served.ask(&format!("GET {path}?x HTTP/1.1\r\nhost: x\r\n\r\n")).status, 500);
    }
    assert_eq!(served.running.counters().panics, 2, "each once");
}

#[test]
fn layers_of_a_server_come_before_guards() {
    async fn rewritten(mut request: anywire_server::Request, next: Next) -> Response {
        request.set_path_and_query("/orders?a").expect("a path");
        next.run(request).await
    }
    let router = Router::new().get("/orders", says("guarded").when(query("a")));
    let server =
        Server::new(router).layer(rewritten).loops(1).listen("tcp:127.0.0.1:0").start().expect("it starts");
    let address = server.addresses().next().expect("an address").to_string();
    let mut stream = std::net::TcpStream::connect(address.trim_start_matches("tcp:")).expect("a connection");
    std::io::Write::write_all(&mut stream, b"GET /x HTTP/1.0\r\n\r\n").expect("written");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("read");
    assert!(answer.ends_with("guarded"), "{answer}");
}

#[test]
fn a_dressed_handler_keeps_its_guards() {
    async fn marked(request: anywire_server::Request, next: Next) -> Response {
        next.run(request).await.header("x-layer", "yes")
    }
    let status = async || (StatusCode::CREATED, "made").into_response();
    let limits = anywire_server::RouteLimits { concurrency: Some(1), ..Default::default() };
    let router = Router::new().get("/", status.when(query("a")).layer(marked).limits(limits));
    assert_eq!(get(&router, "/?a"), (201, "made".to_owned()));
    assert_eq!(get(&router, "/"), unknown());
}

#[test]
fn the_table_of_routes_has_them() {
    let limits =
        anywire_server::RouteLimits { body_bytes: Some(10), concurrency: Some(2), ..Default::default() };
    let inner = Router::new()
        .post("/x", says("x").when(of(|_: &Parts| true)).limits(limits))
        .post("/x", says("y").consumes(["text/plain", "image/*"]).when(param_matches("id", "[0-9]")))
        .fallback(says("fallback").when(query("a")))
        .when(host("*.test:80"));
    let router = Router::new().nest("/{id}", inner.produces("text/html")).get("/", says("plain"));
    let table = router.describe().expect("right routes");
    let lines: Vec<&str> =
        table.lines().filter_map(|line| Some(line.split_once(".rs:")?.1.split_once(' ')?.1)).collect();
    let expected = [
        "when host *.test:80 and a closure produces text/html limited to body_bytes 10, concurrency 2",
        "when host *.test:80 and {id} matches \"[0-9]\" consumes text/plain, image/* produces text/html",
    ];
    assert_eq!(lines[..2], expected, "{table}");
    assert!(table.contains("when host *.test:80 and query a\n"), "{table}");
    assert!(!table.contains("{id} when"), "what chooses is no route: {table}");
}
