//! What decides about a route is the same over HTTP/1 and HTTP/2, however each of them says it: one case of each condition.

use anywire_server::guards::{header, host, param_matches, query};
use anywire_server::{Handler, Matrix, Path, Produces, Router};

use crate::support::serve;

/// A handler that answers this.
fn says(text: &'static str) -> impl Handler<((), ())> {
    async move || text
}

fn routes() -> Router {
    let car = async |Path(id): Path<u32>, Matrix(all): Matrix<Vec<(String, String)>>| format!("{id} {all:?}");
    Router::new()
        .get("/", says("the shop").when(host("shop.test")))
        .get("/", says("a tenant").when(host("*.shop.test:80")))
        .get("/", says("any host"))
        .get("/guarded", says("by field").when(header("x-version").equals("2")))
        .get("/guarded", says("by query").when(query("a").equals("b c")))
        .get("/by/{id}", says("by number").when(param_matches("id", "[0-9]+")))
        .post("/typed", says("JSON").consumes("application/json"))
        .get("/typed", (async |of: Produces| of.to_string()).produces(["application/json", "text/html"]))
        .query("/asked", (async |text: String| text).consumes("text/plain"))
        .get("/cars/{id}", car)
        .redirect_slashes()
}

/// A request, and what comes back.
struct Case {
    request: &'static str,
    fields: &'static [(&'static str, &'static str)],
    status: u16,
    /// A field of the response.
    field: Option<(&'static str, &'static str)>,
    /// The body of the response. What words a refusal is left open.
    text: Option<&'static str>,
}

const fn found(
    request: &'static str,
    fields: &'static [(&'static str, &'static str)],
    text: &'static str,
) -> Case {
    Case { request, fields, status: 200, field: None, text: Some(text) }
}

const fn refused(
    request: &'static str,
    fields: &'static [(&'static str, &'static str)],
    status: u16,
    field: Option<(&'static str, &'static str)>,
) -> Case {
    Case { request, fields, status, field, text: None }
}

const CASES: [Case; 20] = [
    found("GET /", &[("host", "SHOP.test:8080")], "the shop"),
    // The port by the scheme.
    found("GET /", &[("host", "a.shop.test")], "a tenant"),
    found("GET /", &[("host", "a.shop.test:81")], "any host"),
    found("GET /guarded", &[("x-version", "2")], "by field"),
    found("GET /guarded?a=b+c", &[], "by query"),
    refused("GET /guarded", &[("x-version", "3")], 404, None),
    found("GET /by/7", &[], "by number"),
    refused("GET /by/x", &[], 404, None),
    found("POST /typed", &[("content-type", "application/json")], "JSON"),
    refused("POST /typed", &[("content-type", "text/css")], 415, Some(("accept", "application/json"))),
    found("GET /typed", &[("accept", "text/html")], "text/html"),
    refused("GET /typed", &[("accept", "image/png")], 406, Some(("vary", "accept"))),
    found("QUERY /asked", &[("content-type", "text/plain")], "content"),
    refused("QUERY /asked", &[], 415, Some(("accept-query", "text/plain"))),
    refused("GET /typed/?a=1", &[], 308, Some(("location", "../typed?a=1"))),
    found("GET /cars/7;a=1;b", &[], r#"7 [("a", "1"), ("b", "")]"#),
    refused("OPTIONS *", &[], 204, None),
    refused("OPTIONS /typed", &[], 204, Some(("allow", "POST, GET, HEAD, OPTIONS"))),
    refused("TRACE /typed", &[], 405, Some(("allow", "POST, GET, HEAD, OPTIONS"))),
    refused("DELETE /asked", &[], 405, Some(("allow", "QUERY, OPTIONS"))),
];

#[test]
fn each_condition_decides_alike() {
    let served = serve(routes());
    for Case { request, fields, status, field, text } in CASES {
        let body = if request.starts_with("POST") || request.starts_with("QUERY") { "content" } else { "" };
        let reply = served.alike(request, fields, body);
        assert_eq!(reply.status, status, "{request} {fields:?}: {reply:?}");
        if let Some((name, value)) = field {
            assert_eq!(reply.field(name), Some(value), "{request} {fields:?}");
        }
        if let Some(text) = text {
            assert_eq!(reply.text, text, "{request} {fields:?}");
        }
    }
}
