//! Calls of pages of other origins: browsers are told which are allowed (CORS), and what they are made to send is refused (CSRF).

use std::time::Duration;

use anywire_http::{Method, StatusCode};
use anywire_server::guards::{header, host};
use anywire_server::layers::{Cors, Csrf};
use anywire_server::{Handler, Next, Path, Request, Response, Router};

use crate::support::{Served, serve};

const SHOP: &str = "https://shop.example";

async fn refuses(_: Request, _: Next) -> StatusCode {
    StatusCode::UNAUTHORIZED
}

/// The fields of a response that browsers look at.
fn allowed(served: &Served, request: &str, fields: &[(&str, &str)]) -> Vec<String> {
    let reply = served.alike(request, fields, "");
    let of_cors =
        reply.fields.iter().filter(|(name, _)| name.starts_with("access-control-") || name == "vary");
    of_cors.map(|(name, value)| format!("{}: {value}", name.trim_start_matches("access-control-"))).collect()
}

const PREFLIGHT_VARY: &str = "vary: origin, access-control-request-method, access-control-request-headers";

#[test]
fn nothing_is_allowed_unless_it_is_named() {
    let served = serve(Router::new().get("/", async || "ok").layer(Cors::new()));
    let preflight = [("origin", SHOP), ("access-control-request-method", "PUT")];
    assert_eq!(allowed(&served, "OPTIONS /", &preflight), [PREFLIGHT_VARY]);
    assert_eq!(allowed(&served, "GET /", &[("origin", SHOP)]), ["vary: origin"]);
    assert_eq!(allowed(&served, "GET /", &[]), ["vary: origin"], "a cache may give it to a page");
}

#[test]
fn what_is_named_is_allowed() {
    let cors = Cors::new()
        .origins([SHOP, "http://localhost:3000"])
        .origins_that(|origin, request| origin.ends_with(".shop.example") && request.path() == "/")
        .methods([Method::PUT, Method::DELETE])
        .headers(["authorization", "content-type"])
        .expose(["x-total"])
        .credentials()
        .max_age(Duration::from_secs(600))
        .private_network();
    let own = async || ([("access-control-allow-origin", "*"), ("vary", "accept")], "ok");
    let router = Router::new().get("/", async || "ok").get("/own", own).layer(cors).layer(refuses);
    let served = serve(router);
    let preflight = [("origin", SHOP), ("access-control-request-method", "PUT")];
    let expected = [
        "allow-credentials: true",
        "allow-headers: authorization, content-type",
        "allow-methods: PUT, DELETE",
        "allow-origin: https://shop.example",
        "max-age: 600",
        PREFLIGHT_VARY,
    ];
    // Before the layer that refuses, and for each path.
    assert_eq!(allowed(&served, "OPTIONS /", &preflight), expected);
    assert_eq!(allowed(&served, "OPTIONS /nowhere", &preflight), expected);
    assert_eq!(served.alike("OPTIONS /", &preflight, "").status, 204);
    let private = [preflight[0], preflight[1], ("access-control-request-private-network", "true")];
    assert!(allowed(&served, "OPTIONS /", &private).contains(&"allow-private-network: true".to_owned()));
    // A response that another layer gave, too.
    let expected = [
        "allow-credentials: true",
        "allow-origin: https://shop.example",
        "expose-headers: x-total",
        "vary: origin",
    ];
    assert_eq!(allowed(&served, "GET /", &[("origin", SHOP)]), expected);
    assert_eq!(served.alike("GET /", &[("origin", SHOP)], "").status, 401);
    assert_eq!(
        allowed(&served, "GET /", &[("origin", "https://a.shop.example")])[1],
        "allow-origin: https://a.shop.example"
    );
    for other in ["https://shop.example.evil", "https://shop.example:8443", "http://shop.example", "null", ""]
    {
        assert_eq!(allowed(&served, "GET /", &[("origin", other)]), ["vary: origin"], "{other}");
    }
    assert_eq!(allowed(&served, "GET /own", &[("origin", "https://a.shop.example")]), ["vary: origin"]);
    let named = [("origin", SHOP), ("access-control-request-method", "PUT")];
    assert_eq!(served.alike("GET /", &named, "").status, 401, "only a question is a preflight");
    // A question that is no preflight is the router's.
    assert_eq!(served.alike("OPTIONS /", &[("origin", SHOP)], "").status, 401);
}

#[test]
fn all_fields_that_a_page_asks_for_may_be_allowed() {
    let served = serve(Router::new().get("/", async || "ok").layer(Cors::new().any_origin().any_headers()));
    let asked = "access-control-request-headers";
    let preflight =
        [("origin", SHOP), ("access-control-request-method", "PUT"), (asked, "x-a, x-b"), (asked, "x-c")];
    let expected = ["allow-headers: x-a, x-b, x-c", "allow-origin: *", PREFLIGHT_VARY];
    assert_eq!(allowed(&served, "OPTIONS /", &preflight), expected);
}

/// The layers of a handler are around the preflights that ask for its method, and around no others.
#[test]
fn a_handler_may_have_its_own() {
    let cors = |origin| Cors::new().origins([origin]).methods([Method::PUT]).headers(["content-type"]);
    let known = async |Path(id): Path<u32>, request: Request, next: Next| {
        next.run(request).await.header("x-id", id.to_string())
    };
    let inner = Router::new().put("/{id}", (async || "put").layer(known).layer(cors(SHOP)));
    let served = serve(
        Router::new()
            .put("/one", (async || "put").layer(cors(SHOP)))
            .get("/one", async || "got")
            .delete("/one", (async || "gone").layer(cors("https://other.example")))
            .put("/guarded", (async || "put").layer(cors(SHOP)).when(header("x-version").equals("2")))
            .nest("/nested", inner),
    );
    let asked = |path: &str, method: &str| {
        let fields = [("origin", SHOP), ("access-control-request-method", method)];
        served.alike(&format!("OPTIONS {path}"), &fields, "")
    };
    for path in ["/one", "/guarded", "/nested/7"] {
        let reply = asked(path, "PUT");
        assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(SHOP)), "{path}");
        assert_eq!(reply.field("access-control-allow-methods"), Some("PUT"), "{path}");
        let id = path.ends_with('7').then_some("7");
        assert_eq!(reply.field("x-id"), id, "the layers of the handler, and its path");
        let reply = served.alike(&format!("PUT {path}"), &[("origin", SHOP), ("x-version", "2")], "");
        assert_eq!((reply.status, &*reply.text), (200, "put"), "{path}");
        assert_eq!(reply.field("access-control-allow-origin"), Some(SHOP), "{path}");
    }
    // Of the method with another layer, of one without, and of one that the path does not have.
    for method in ["DELETE", "GET", "HEAD", "PATCH"] {
        let reply = asked("/one", method);
        assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, None), "{method}");
    }
    assert_eq!(asked("/one", "GET").field("allow"), Some("PUT, GET, DELETE, HEAD, OPTIONS"));
    // No preflights: what the router says of the path, outside of the layers of its handlers.
    let question = served.alike("OPTIONS /one", &[("origin", SHOP)], "");
    assert_eq!((question.status, question.field("vary")), (204, None));
    let patch = served.alike("PATCH /one", &[("origin", SHOP), ("access-control-request-method", "PUT")], "");
    assert_eq!((patch.status, patch.field("vary")), (405, None));
}

/// One handler lets pages call, another one of the same path does not.
#[test]
fn a_permission_is_that_of_the_handler_that_will_answer() {
    let lets = |text: &'static str| {
        let cors = Cors::new().origins([SHOP]).methods([Method::PUT]).headers(["content-type"]);
        (async move || text).layer(cors)
    };
    let strict = async || "strict";
    let served = serve(
        Router::new()
            .put("/host", strict.when(host("admin.example")))
            .put("/host", lets("open"))
            .put("/type", strict.consumes("application/json"))
            .put("/type", lets("open").consumes("application/xml"))
            .put("/field", strict.when(header("x-admin")))
            .put("/field", lets("open"))
            .any("/any", lets("open"))
            .put("/any", strict)
            .any("/own", strict)
            .put("/own", lets("open")),
    );
    let permits = |path: &str, host: &str, method: &str| {
        let fields = [("host", host), ("origin", SHOP), ("access-control-request-method", method)];
        let reply = served.alike(&format!("OPTIONS {path}"), &fields, "");
        reply.field("access-control-allow-origin").is_some()
    };
    for (path, host, is_permitted) in [
        ("/host", "admin.example", false),
        ("/host", "shop.example", true),
        // Which of them answers is not known before the request has its fields.
        ("/type", "x", false),
        ("/field", "x", false),
        ("/any", "x", false),
        ("/own", "x", true),
    ] {
        assert_eq!(permits(path, host, "PUT"), is_permitted, "{path} of {host}");
    }
    assert_eq!(served.alike("PUT /any", &[], "").text, "strict");
    assert_eq!(served.alike("PUT /own", &[], "").text, "open");
    // The method that no handler of its own has is that of the handler of all.
    assert!(permits("/any", "x", "DELETE") && !permits("/own", "x", "DELETE"));
    assert_eq!(served.alike("OPTIONS /own", &[], "").text, "strict", "no preflight");
}

/// A preflight asks whether a field may be sent, and does not have it.
#[test]
fn a_preflight_meets_guards_on_fields() {
    let guarded = || (async || "version 2").when(header("x-version").equals("2"));
    let cors = || Cors::new().origins([SHOP]).methods([Method::PUT]).headers(["x-version"]);
    let of_router = Router::new().put("/router", async || "version 2").when(header("x-version"));
    let router = Router::new()
        .merge(Router::new().put("/orders", guarded()).any("/any", guarded()).layer(cors()))
        .nest("/nested", Router::new().put("/orders", guarded()).layer(cors()))
        .merge(of_router.layer(cors()));
    let served = serve(router);
    let preflight = [
        ("origin", SHOP),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "x-version"),
    ];
    for path in ["/orders", "/any", "/nested/orders", "/router"] {
        let reply = served.alike(&format!("OPTIONS {path}"), &preflight, "");
        assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(SHOP)), "{path}");
        assert_eq!(reply.field("access-control-allow-headers"), Some("x-version"), "{path}");
        // Without the field the path is unknown to all others, as is its `OPTIONS`.
        for request in [format!("PUT {path}"), format!("OPTIONS {path}")] {
            assert_eq!(served.alike(&request, &[("origin", SHOP)], "").status, 404, "{request}");
        }
        let reply = served.alike(&format!("PUT {path}"), &[("origin", SHOP), ("x-version", "2")], "");
        assert_eq!((reply.status, &*reply.text), (200, "version 2"), "{path}");
    }
}

#[test]
fn any_origin_may_be_allowed_without_credentials() {
    let router =
        Router::new().get("/", async || ([("vary", "Accept, Origin")], "ok")).get("/same", async || "ok");
    let listed = Router::new().get("/listed", async || ([("vary", "Accept, Origin")], "ok"));
    let listed = serve(listed.layer(Cors::new().origins([SHOP]).headers([])));
    let expected = ["allow-origin: https://shop.example", "vary: Accept, Origin"];
    assert_eq!(allowed(&listed, "GET /listed", &[("origin", SHOP)]), expected, "it is said once");
    let preflight = [("origin", SHOP), ("access-control-request-method", "PUT")];
    let expected = ["allow-origin: https://shop.example", PREFLIGHT_VARY];
    assert_eq!(allowed(&listed, "OPTIONS /listed", &preflight), expected, "no names, no field");
    let served = serve(router.layer(Cors::new().any_origin().any_headers()));
    assert_eq!(allowed(&served, "GET /", &[("origin", "null")]), ["allow-origin: *", "vary: Accept, Origin"]);
    // The same for each page, and for a cache that asks for none, so one page's is good for another.
    for fields in [&[("origin", SHOP)][..], &[]] {
        assert_eq!(allowed(&served, "GET /same", fields), ["allow-origin: *"], "{fields:?}");
    }
    let preflight = [
        ("origin", SHOP),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "x-a,x-b"),
    ];
    let expected = ["allow-headers: x-a,x-b", "allow-origin: *", PREFLIGHT_VARY];
    assert_eq!(allowed(&served, "OPTIONS /", &preflight), expected);
}

/// The message of the error at start, and how many places of this file it names.
fn mistake(router: &Router) -> (String, usize) {
    let error = router.describe().expect_err("a contradiction").to_string();
    let places = error.matches(file!()).count();
    (error, places)
}

#[test]
fn contradictions_are_errors_at_start() {
    let (text, places) = mistake(&Router::new().layer(Cors::new().any_origin().credentials()));
    assert!(text.contains("any origin") && text.contains("list the origins"), "{text}");
    assert_eq!(places, 3, "of the layer, and of both settings: {text}");
    assert_eq!(mistake(&Router::new().layer(Cors::new().any_origin().origins([SHOP]))).1, 3);
    let both = Cors::new().any_origin().origins_that(|_, _| true);
    assert_eq!(mistake(&Router::new().layer(both)).1, 3);
    for origin in [
        "null",
        "*",
        "shop.example",
        "https://shop.example/",
        "https://Shop.example",
        "https://shop.example:443",
    ] {
        assert_eq!(mistake(&Router::new().layer(Cors::new().origins([origin]))).1, 2, "{origin}");
        assert_eq!(mistake(&Router::new().layer(Csrf::new().trust(origin))).1, 2, "{origin}");
    }
    assert_eq!(mistake(&Router::new().layer(Cors::new().headers(["x a"]))).1, 2);
    assert_eq!(mistake(&Router::new().layer(Cors::new().expose(["a,b"]))).1, 2);
}

#[test]
fn what_a_browser_is_made_to_send_is_refused() {
    let csrf = Csrf::new().trust(SHOP).exempt(|request| request.path() == "/hook");
    let handler = async || "done";
    let router = Router::new().any("/", handler).any("/hook", handler).layer(csrf);
    let served = serve(router);
    let status = |request: &str, fields: &[(&str, &str)]| served.alike(request, fields, "").status;
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(status(&format!("{method} /"), &[("sec-fetch-site", "cross-site")]), 200, "{method}");
    }
    for (expected, fields) in [
        (200, &[][..]),
        (200, &[("sec-fetch-site", "same-origin")]),
        (200, &[("sec-fetch-site", "none")]),
        (200, &[("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")]),
        (403, &[("sec-fetch-site", "cross-site")]),
        (403, &[("sec-fetch-site", "same-site")]),
        (403, &[("sec-fetch-site", "")]),
        (403, &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")]),
        (403, &[("origin", "https://evil.example")]),
        (403, &[("origin", "null")]),
        (200, &[("sec-fetch-site", "cross-site"), ("origin", SHOP)]),
        (200, &[("origin", SHOP)]),
    ] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "BREW"] {
            assert_eq!(status(&format!("{method} /"), fields), expected, "{method} {fields:?}");
        }
    }
    // A page reads what such a connection says to its reader, so the method says nothing (RFC 6455 section 10.2).
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    for (expected, fields) in [
        (403, &[("sec-fetch-site", "cross-site")][..]),
        (403, &[("origin", "https://evil.example")]),
        (200, &[("sec-fetch-site", "same-origin")]),
        (200, &[("origin", SHOP)]),
        (200, &[]),
    ] {
        let fields = [&upgrade, fields].concat();
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let answer = served.ask(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n"));
        assert_eq!(answer.status, expected, "{fields}");
    }
    // Some proxies send this with each request. Without a protocol it asks for nothing.
    let link = "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nsec-fetch-site: cross-site\r\n\r\n";
    assert_eq!(served.ask(link).status, 200);
    assert_eq!(status("POST /hook", &[("sec-fetch-site", "cross-site")]), 200);
    // Without `sec-fetch-site` the host decides.
    let asks = |host: &str, origin: &str| {
        let request =
            format!("POST / HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\ncontent-length: 0\r\n\r\n");
        served.ask(&request).status
    };
    assert_eq!(asks("own.example", "https://own.example"), 200);
    assert_eq!(asks("own.example:8443", "https://own.example:8443"), 200);
    assert_eq!(asks("own.example", "https://own.example:8443"), 403);
    assert_eq!(asks("own.example", "https://own.example.evil"), 403);
}

#[test]
fn both_go_together() {
    async fn passes(request: Request, next: Next) -> Response {
        next.run(request).await
    }
    let cors = Cors::new().origins([SHOP]).credentials();
    let router =
        Router::new().layer(cors).layer(Csrf::new().trust(SHOP)).layer(passes).post("/", async || "done");
    let served = serve(router);
    let reply = served.alike("POST /", &[("origin", SHOP), ("sec-fetch-site", "cross-site")], "");
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (200, Some(SHOP)));
    let reply =
        served.alike("POST /", &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")], "");
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (403, None));
}
