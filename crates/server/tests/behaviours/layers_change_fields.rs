//! The layers that set fields: of requests and responses, for caches, and for careful browsers.

use std::time::Duration;

use anywire_http::StatusCode;
use anywire_server::layers::{CacheControl, RequestHeaders, ResponseHeaders, SecurityHeaders};
use anywire_server::{Request, Router};

use crate::support::serve;

/// What the handler sees and sends.
async fn shown(request: Request) -> ([(&'static str, &'static str); 2], String) {
    let seen: Vec<String> = request
        .headers()
        .iter()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
        .collect();
    ([("x-own", "handler"), ("x-powered-by", "handler")], seen.join(" "))
}

#[test]
fn of_requests_and_responses() {
    let requests =
        RequestHeaders::new().set("x-a", "1").append("x-b", "2").remove("x-c").set_if_absent("x-d", "3");
    let responses = ResponseHeaders::new()
        .set("x-own", "layer")
        .append("x-own", "more")
        .remove("x-powered-by")
        .set_if_absent("x-own", "no");
    let served = serve(Router::new().get("/", shown).layer(requests).layer(responses));
    let fields = [("x-a", "peer"), ("x-b", "peer"), ("x-c", "peer"), ("x-d", "peer")];
    let reply = served.alike("GET /", &fields, "");
    assert_eq!(reply.text, "x-b=peer x-d=peer x-a=1 x-b=2");
    assert_eq!(reply.all("x-own"), ["layer", "more"]);
    assert_eq!(reply.field("x-powered-by"), None);
    assert_eq!(served.get("/nowhere").all("x-own"), ["layer", "more"]);
    // A field that the peer's `connection` names does not take the layer's out.
    let sent = "GET / HTTP/1.1\r\nhost: x\r\nconnection: x-a\r\nx-a: peer\r\n\r\n";
    assert!(served.ask(sent).text().contains("x-a=1"));
}

#[test]
fn that_no_field_may_have_are_errors_at_start() {
    for (wrong, line) in [
        (Router::new().layer(ResponseHeaders::new().set("x-a", "a\nb")), line!()),
        (Router::new().layer(RequestHeaders::new().append("x a", "b")), line!()),
        (Router::new().layer(ResponseHeaders::new().remove("")), line!()),
        (Router::new().layer(CacheControl::new("a\r\nb")), 0),
        (Router::new().layer(SecurityHeaders::new().content_security_policy("a\nb")), 0),
    ] {
        let error = wrong.describe().expect_err("a wrong field").to_string();
        assert!(line == 0 || error.matches(&format!(".rs:{line}:")).count() == 2, "{error}");
    }
}

#[test]
fn for_caches() {
    let own = async || ([("cache-control", "private")], "own");
    let images = Router::new()
        .get("/own", own)
        .get("/image", async || "pixels")
        .layer(CacheControl::max_age(Duration::from_secs(60)).immutable());
    let served =
        serve(Router::new().layer(CacheControl::no_store()).get("/", async || "now").nest("/images", images));
    let kept = |path: &str| served.get(path).all("cache-control").join(" and ");
    assert_eq!(kept("/images/image"), "max-age=60, immutable");
    assert_eq!(kept("/images/own"), "private");
    assert_eq!(kept("/images/nowhere"), "no-store", "an error is not kept");
    assert_eq!(kept("/"), "no-store");
    assert_eq!(kept("/nowhere"), "no-store");
}

#[test]
fn for_careful_browsers() {
    let own = async || ([("x-frame-options", "SAMEORIGIN")], StatusCode::OK);
    let headers =
        SecurityHeaders::new().content_security_policy("default-src 'self'").hsts(Duration::from_secs(60));
    let served = serve(Router::new().get("/own", own).layer(headers));
    let reply = served.get("/nowhere");
    assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.field("x-frame-options"), Some("DENY"));
    assert_eq!(reply.field("referrer-policy"), Some("no-referrer"));
    assert_eq!(reply.field("content-security-policy"), Some("default-src 'self'"));
    assert_eq!(reply.field("strict-transport-security"), None, "in clear text (RFC 6797 section 7.2)");
    assert_eq!(served.get("/own").all("x-frame-options"), ["SAMEORIGIN"]);
    let behind = SecurityHeaders::new()
        .include_subdomains()
        .hsts_behind_proxy(Duration::from_secs(60))
        .referrer("origin");
    let reply = serve(Router::new().layer(behind)).get("/");
    assert_eq!(reply.field("strict-transport-security"), Some("max-age=60; includeSubDomains"));
    assert_eq!(reply.all("referrer-policy"), ["origin"]);
}

#[cfg(feature = "tls")]
#[test]
fn hsts_is_sent_over_tls() {
    let headers = SecurityHeaders::new().hsts(Duration::from_secs(60));
    let served = crate::support::Scene::at("tls+memory:hsts").serve(Router::new().layer(headers));
    assert_eq!(served.get("/").field("strict-transport-security"), Some("max-age=60"));
}
