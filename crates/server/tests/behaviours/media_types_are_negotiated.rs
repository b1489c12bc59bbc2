//! What a handler consumes and produces decides who answers, or that nobody does: 415 and 406.

use anywire_http::{Method, Request};
use anywire_loops::block_on;
use anywire_server::{Handler, Produces, Router};

struct Answer {
    status: u16,
    body: String,
    headers: anywire_http::Headers,
}

fn ask(router: &Router, request: Request) -> Answer {
    let mut response = block_on(router.call(request));
    let body = block_on(response.body.text(1000)).expect("a whole body");
    Answer { status: response.status.as_u16(), body, headers: response.headers }
}

/// A handler that answers this.
fn says(text: &'static str) -> impl Handler<((), ())> {
    async move || text
}

fn takes() -> Router {
    Router::new()
        .post("/orders", says("json").consumes(["application/json", "application/*+json"]))
        .post("/orders", says("text").consumes("text/plain;charset=utf-8"))
        .patch("/orders", says("patch").consumes("application/merge-patch+json"))
        .put("/orders", says("octets").consumes("application/octet-stream"))
        .post("/all", says("all"))
        .post("/all", says("json").consumes("application/json"))
}

#[test]
fn the_type_of_the_content_decides() {
    let router = takes();
    let post =
        |target: &str, of: &str| ask(&router, Request::post(target).header("content-type", of).body("1"));
    for (of, expected) in [
        ("application/json", "json"),
        ("Application/JSON; charset=utf-8", "json"),
        ("application/problem+json", "json"),
        ("text/plain", "text"),
        ("text/plain; charset=\"UTF-8\"", "text"),
    ] {
        assert_eq!(post("/orders", of).body, expected, "{of}");
    }
    for of in
        ["text/plain; charset=latin1", "application/jsonp", "text/html", "nonsense", "application/json; x"]
    {
        let answer = post("/orders", of);
        assert_eq!(answer.status, 415, "{of}");
        let takes = "application/json, application/*+json, text/plain; charset=utf-8";
        assert_eq!(answer.headers.get("accept"), Some(takes));
        assert_eq!(answer.headers.get("accept-post"), Some(takes));
        assert!(answer.body.contains(of) && answer.body.contains(takes), "{}", answer.body);
    }
    assert_eq!(post("/all", "application/json").body, "json");
    assert_eq!(post("/all", "text/html").body, "all");
    let patch = ask(&router, Request::patch("/orders").header("content-type", "text/plain").body("1"));
    assert_eq!(
        (patch.status, patch.headers.get("accept-patch")),
        (415, Some("application/merge-patch+json"))
    );
    assert_eq!(patch.headers.get("accept-post"), None);
}

#[test]
fn content_without_a_type_is_octets_and_none_at_all_passes() {
    let router = takes();
    assert_eq!(ask(&router, Request::put("/orders").body("1")).body, "octets");
    assert_eq!(ask(&router, Request::post("/orders").body("1")).status, 415);
    assert_eq!(ask(&router, Request::post("/orders")).body, "json");
}

fn offers() -> Router {
    let shown = async |produces: Produces| produces.to_string();
    Router::new()
        .get("/count", shown.produces(["application/json", "text/html;charset=utf-8"]))
        .get("/each", says("json").produces("application/json"))
        .get("/each", says("html").produces("text/html"))
        .get("/some", says("json").produces("application/json"))
        .get("/some", says("plain"))
        .get("/others", says("plain"))
        .get("/others", says("json").produces("application/json"))
        .format_parameter("format")
}

#[test]
fn what_the_peer_accepts_decides() {
    let router = offers();
    let get = |target: &str, accept: &str| ask(&router, Request::get(target).header("accept", accept));
    for (accept, expected) in [
        ("*/*", "application/json"),
        ("text/html", "text/html; charset=utf-8"),
        ("application/json;q=0.5, text/*;q=0.6", "text/html; charset=utf-8"),
        ("text/html;q=0, */*", "application/json"),
        ("", "application/json"),
        ("nonsense", "application/json"),
    ] {
        let answer = get("/count", accept);
        assert_eq!((answer.status, answer.body.as_str()), (200, expected), "{accept}");
        assert_eq!(answer.headers.get("vary"), Some("accept"));
    }
    assert_eq!(ask(&router, Request::get("/count")).body, "application/json");
    let refused = get("/count", "image/png, */*;q=0");
    assert_eq!((refused.status, refused.headers.get("vary")), (406, Some("accept")));
    assert!(refused.body.contains("application/json, text/html; charset=utf-8"), "{}", refused.body);
    assert_eq!(get("/each", "text/html, application/json;q=0.9").body, "html");
    assert_eq!(get("/each", "application/*").body, "json");
    assert_eq!(get("/each", "text/plain").status, 406);
    assert_eq!(get("/some", "application/json;q=0.1").body, "json");
    assert_eq!(get("/some", "text/html").body, "plain", "it does not say what it produces");
    assert_eq!(get("/others", "application/json").body, "json", "in whatever order they were added");
    assert_eq!(get("/others", "text/html").body, "plain");
    let head = ask(&router, Request::new(Method::HEAD, "/each").header("accept", "text/html"));
    assert_eq!(head.status, 200);
    let head = ask(&router, Request::new(Method::HEAD, "/each").header("accept", "text/css"));
    assert_eq!(head.status, 406);
}

#[test]
fn a_parameter_of_the_query_decides_where_the_router_says_so() {
    let router = offers();
    let get = |target: &str| ask(&router, Request::get(target).header("accept", "application/json"));
    assert_eq!(get("/each?format=html").body, "html");
    assert_eq!(get("/each?x=1&format=text%2Fhtml").body, "html");
    assert_eq!(get("/each?format=JSON").body, "json");
    assert_eq!(get("/each?format=xml").status, 406);
    assert_eq!(get("/each?format=").status, 406);
    assert_eq!(get("/each?format=%ff").status, 406);
    let without = Router::new().get("/", says("html").produces("text/html"));
    assert_eq!(ask(&without, Request::get("/?format=json")).body, "html");
    let formats = Router::new().get("/", says("css").produces("text/css")).format_parameter("f");
    let merged = without.merge(formats);
    assert_eq!(ask(&merged, Request::get("/?f=css")).body, "css", "one of several routers has said so");
    let problem = Router::new().get("/", says("problem").produces("application/problem+json"));
    assert_eq!(ask(&problem.format_parameter("f"), Request::get("/?f=json")).body, "problem");
}

#[test]
fn more_conditions_come_before_a_better_type() {
    let router = Router::new()
        .get("/", says("html").produces("text/html"))
        .get("/", says("second").produces("application/json").when(anywire_server::guards::query("v")));
    let get = |target: &str, accept: &str| ask(&router, Request::get(target).header("accept", accept)).body;
    assert_eq!(get("/?v", "text/html, application/json;q=0.1"), "second");
    assert_eq!(get("/?v", "text/html"), "html");
}

#[test]
fn a_type_that_is_consumed_counts_as_a_guard_does() {
    let json = says("json").consumes("application/json");
    let router = Router::new()
        .post("/", says("guarded").when(anywire_server::guards::query("v")))
        .post("/", json)
        .post("/", says("any"));
    let post = |of: &str| ask(&router, Request::post("/?v").header("content-type", of).body("1")).body;
    assert_eq!(post("application/json"), "json");
    assert_eq!(post("text/plain"), "guarded");
}

#[test]
fn a_router_says_it_for_its_routes() {
    let inner = Router::new().post("/x", says("x")).post("/y", says("y").consumes("text/plain"));
    let router = Router::new().nest("/in", inner).consumes("application/json").produces("text/html");
    let post = |target: &str, of: &str, accept: &str| {
        let request = Request::post(target).header("content-type", of).header("accept", accept).body("1");
        ask(&router, request).status
    };
    assert_eq!(post("/in/x", "application/json", "*/*"), 200);
    assert_eq!(post("/in/x", "text/plain", "*/*"), 415);
    assert_eq!(post("/in/y", "text/plain", "*/*"), 200);
    assert_eq!(post("/in/y", "application/json", "*/*"), 415);
    assert_eq!(post("/in/x", "application/json", "text/css"), 406);
    assert_eq!(post("/in/nope", "text/plain", "text/css"), 404, "an unknown path has no types");
}

#[test]
fn the_chosen_type_is_optional_for_a_handler_without() {
    let shown = async |produces: Option<Produces>| format!("{}", produces.is_some());
    let router = Router::new().get("/", shown).get("/with", shown.produces("text/plain"));
    assert_eq!(ask(&router, Request::get("/")).body, "false");
    assert_eq!(ask(&router, Request::get("/with")).body, "true");
    let wrong = Router::new().get("/", async |_: Produces| ());
    assert_eq!(ask(&wrong, Request::get("/")).status, 500);
}

#[test]
fn types_are_negotiated_over_every_wire() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(takes().merge(offers()));
        let html = served.alike("GET /count", &[("accept", "text/html, application/json;q=0.9")], "");
        assert_eq!((html.status, html.field("vary")), (200, Some("accept")));
        assert_eq!(html.text, "text/html; charset=utf-8");
        assert_eq!(served.alike("GET /count", &[("accept", "image/png")], "").status, 406);
        assert_eq!(served.alike("POST /orders", &[("content-type", "text/plain")], "1").text, "text");
        assert_eq!(served.alike("POST /orders", &[], "1").status, 415);
        let chunked =
            "POST /orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n";
        assert_eq!(served.ask(chunked).status, 415);
    });
}

#[test]
fn the_type_that_says_most_of_the_content_comes_first() {
    let router = Router::new()
        .post("/", says("all").consumes("*/*"))
        .post("/", says("text").consumes("text/*"))
        .post("/", says("plain").consumes(["image/png", "text/plain"]))
        .post("/", says("german").consumes("text/plain; lang=de"))
        .post("/", says("suffix").consumes("application/*+json"))
        .post("/", says("json").consumes("application/json"))
        .post("/offers", says("one").consumes("text/plain").produces("text/html"))
        .post("/offers", says("many").consumes("text/*").produces("text/css"))
        .post("/several", says("text").consumes("text/*"))
        .post("/several", says("all").consumes(["*/*", "text/plain"]));
    let post = |target: &str, of: &str, accept: &str| {
        let request = Request::post(target).header("content-type", of).header("accept", accept);
        ask(&router, request.body("x")).body
    };
    for (of, expected) in [
        ("text/html", "text"),
        ("text/plain", "plain"),
        ("text/plain;lang=de", "german"),
        ("text/plain;lang=en", "plain"),
        ("application/json", "json"),
        ("application/a+json", "suffix"),
        ("image/png", "plain"),
        ("image/gif", "all"),
    ] {
        assert_eq!(post("/", of, "*/*"), expected, "{of}");
    }
    assert_eq!(post("/offers", "text/plain", "text/css, text/html"), "one");
    assert_eq!(post("/offers", "text/plain", "text/css"), "many");
    assert_eq!(post("/several", "text/plain", "*/*"), "all", "that one of its types counts that says most");
    assert_eq!(post("/several", "text/css", "*/*"), "text");
}

#[test]
fn fewer_types_come_before_more_of_them() {
    let json = "application/json";
    let router = Router::new()
        .post("/", says("both").consumes([json, "text/plain"]))
        .post("/", says("json").consumes(json))
        .get("/", says("both").produces([json, "text/html"]))
        .get("/", says("json").produces(json));
    let post = |of: &str| ask(&router, Request::post("/").header("content-type", of).body("1")).body;
    assert_eq!((post(json), post("text/plain")), ("json".to_owned(), "both".to_owned()));
    let get = |accept: &str| ask(&router, Request::get("/").header("accept", accept)).body;
    assert_eq!((get(json), get("text/html")), ("json".to_owned(), "both".to_owned()));
    assert_eq!(get("application/json;q=0.1, text/html"), "both", "the peer's own weights decide first");
}

#[test]
fn a_type_without_content_refuses_nobody() {
    let router = Router::new()
        .post("/", says("json").consumes("application/json"))
        .post("/", says("text").consumes("text/plain"))
        .get("/", says("get").consumes("text/plain"))
        .query("/", says("query").consumes("text/plain"));
    let send = |method: Method, of: &str| {
        let answer = ask(&router, Request::new(method, "/").header("content-type", of));
        (answer.status, answer.body)
    };
    assert_eq!(send(Method::GET, "application/json"), (200, "get".to_owned()));
    assert_eq!(send(Method::POST, "image/png"), (200, "json".to_owned()));
    // It still chooses.
    assert_eq!(send(Method::POST, "text/plain"), (200, "text".to_owned()));
    // A query has content, of no bytes if need be.
    assert_eq!(send(Method::QUERY, "application/json").0, 415);
}
