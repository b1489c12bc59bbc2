//! QUERY is answered as other methods are, and states the type of its content (RFC 10008).

use anywire_http::{Method, Request};
use anywire_loops::block_on;
use anywire_server::codec::Decoded;
use anywire_server::guards::query;
use anywire_server::{Form, Handler, Json, Router};

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
    // Structured fields, in which a parameter follows without a space.
    let takes = "text/plain, application/sql;charset=utf-8";
    assert_eq!(ask(query("text/html")), (415, Some(takes.to_owned()), None));
    assert_eq!(ask(Request::new(Method::QUERY, "/text")), (415, Some(takes.to_owned()), None));
    let options = Request::new(Method::OPTIONS, "/text");
    let allow = "QUERY, GET, HEAD, OPTIONS";
    assert_eq!(ask(options), (204, Some(takes.to_owned()), Some(allow.to_owned())));
    let any = Request::new(Method::OPTIONS, "/orders");
    assert_eq!(ask(any), (204, Some("*/*".to_owned()), Some("QUERY, OPTIONS".to_owned())));
    assert_eq!(ask(Request::post("/text")).0, 405);
}

#[test]
fn each_refusal_of_a_type_says_what_is_taken() {
    let json = async |Json(_): Json<u32>| "";
    let form = async |_: Form<u32>| "";
    let decoded = async |Decoded(_): Decoded<u32>| "";
    let consuming = || (async || "").consumes(["a/b", "a/*"]);
    let router = Router::new()
        .query("/json", json)
        .post("/json", json)
        .patch("/json", json)
        .put("/json", json)
        .post("/form", form)
        .query("/decoded", decoded)
        .post("/decoded", decoded)
        .post("/consuming", consuming())
        .patch("/consuming", consuming())
        .patch("/consuming", (async || "").consumes("a/c"));
    let ask = |method: Method, path: &str| {
        let request = Request::new(method, path).header("content-type", "image/png").body("1");
        let response = block_on(router.call(request));
        let names = ["accept", "accept-query", "accept-post", "accept-patch"];
        let fields = names.map(|name| response.headers.get(name).map(str::to_owned));
        (response.status.as_u16(), fields)
    };
    let some = |text: &str| Some(text.to_owned());
    let json = "application/json";
    assert_eq!(ask(Method::QUERY, "/json"), (415, [some(json), some(json), None, None]));
    assert_eq!(ask(Method::POST, "/json"), (415, [some(json), None, some(json), None]));
    assert_eq!(ask(Method::PATCH, "/json"), (415, [some(json), None, None, some(json)]));
    assert_eq!(ask(Method::PUT, "/json"), (415, [some(json), None, None, None]));
    let form = "application/x-www-form-urlencoded";
    assert_eq!(ask(Method::POST, "/form"), (415, [some(form), None, some(form), None]));
    let both = "application/json, application/*+json";
    assert_eq!(ask(Method::QUERY, "/decoded"), (415, [some(both), some(both), None, None]));
    assert_eq!(ask(Method::POST, "/decoded"), (415, [some(both), None, some(both), None]));
    assert_eq!(ask(Method::POST, "/consuming"), (415, [some("a/b, a/*"), None, some("a/b, a/*"), None]));
    let options = (204, [None, None, some("a/b, a/*"), some("a/b, a/*, a/c")]);
    assert_eq!(ask(Method::OPTIONS, "/consuming"), options);
}

#[test]
fn several_types_are_none() {
    let router = Router::new()
        .post("/json", async |Json(_): Json<u32>| "")
        .post("/decoded", async |Decoded(_): Decoded<u32>| "")
        .post("/consuming", (async || "").consumes("application/json"))
        .query("/any", async || "");
    let several = |method: Method, path: &str| {
        let request = Request::new(method, path).header("content-type", "application/json");
        block_on(router.call(request.header("content-type", "text/plain").body("1"))).status.as_u16()
    };
    for path in ["/json", "/decoded", "/consuming"] {
        assert_eq!(several(Method::POST, path), 415, "{path}");
    }
    assert_eq!(several(Method::QUERY, "/any"), 415);
    let without = Request::new(Method::QUERY, "/any").body("1");
    assert_eq!(block_on(router.call(without)).status, 415, "content of a query states its type");
}

#[test]
fn a_guarded_handler_offers_its_types_to_those_whom_it_takes() {
    let post = |of: &'static str| (async || "").consumes(of);
    let router = Router::new()
        .post("/", post("a/b").when(query("b")))
        .post("/", post("a/c").when(query("c")))
        .post("/", (async || "").consumes(["a/b", "a/d"]).when(query("d")));
    let ask = |method: Method, target: &str| {
        let response = block_on(router.call(Request::new(method, target)));
        (response.status.as_u16(), response.headers.get("accept-post").map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ask(Method::OPTIONS, "/?c"), (204, some("a/c")));
    assert_eq!(ask(Method::OPTIONS, "/?b&d"), (204, some("a/b, a/d")), "each once");
    assert_eq!(ask(Method::OPTIONS, "/"), (404, None));
    assert_eq!(ask(Method::GET, "/?c"), (405, None), "only a question about the methods is told");
}
