//! No path, query or field of a request makes the look-up of a route panic. Paths that are equivalent have one answer, a redirect stays on its host
//! and leads to a route, and a path variable is a part of the path.

#![no_main]

use std::sync::OnceLock;

use anywire_http::{Method, Request};
use anywire_server::guards::{header, host, of, query};
use anywire_server::{Handler, Matrix, Parts, Router};
use libfuzzer_sys::fuzz_target;

type Pairs = Vec<(String, String)>;

fn routes() -> Router {
    let shown = async |request: anywire_server::Request| {
        let params: Vec<String> = request.params().map(|(name, value)| format!("{name}={value}")).collect();
        assert!(request.params().all(|(_, value)| request.path().contains(value)));
        params.join("&")
    };
    let matrix = async |pairs: Option<Matrix<Pairs>>| format!("{:?}", pairs.map(|Matrix(pairs)| pairs));
    // It counts what stays when a path is written otherwise: a redirect encodes octets, and adds or takes a slash.
    let short = |parts: &Parts| parts.path().split('/').filter(|part| !part.is_empty()).count() < 4;
    let nested = Router::new().get("/", shown).get("/{b}", shown).fallback(async || "nested").when(of(short));
    Router::new()
        .get("/a", shown)
        .get("/a/{b}", shown.when(query("x")))
        .get("/a/{b}", shown.when(header("accept")).produces(["text/plain", "text/html"]))
        .get("/a/b-{c}.d", shown)
        .get("/m/{b}/c", matrix)
        .get("/m", matrix)
        .get("/\u{e4};b", shown)
        .get("/r/{*rest}", shown)
        .post("/a", shown.consumes("a/b"))
        .get("/{x}/{y}/z/", shown.when(host("*.c")))
        .nest("/n", nested)
        .redirect_slashes()
        .format_parameter("f")
}

fn ask(method: &Method, target: &str, fields: &[(&str, &str)]) -> Option<(u16, Option<String>, String)> {
    static ROUTES: OnceLock<Router> = OnceLock::new();
    let mut request = Request::new(method.clone(), target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if request.fault().is_some() {
        return None;
    }
    anywire_loops::block_on(async {
        let mut response = ROUTES.get_or_init(routes).call(request).await;
        let location = response.headers.get("location").map(str::to_owned);
        let text = response.body.text(1 << 20).await.expect("the router answers text");
        Some((response.status.as_u16(), location, text))
    })
}

/// Where a relative location leads (RFC 3986 section 5.2.3). The path that it is resolved against keeps its dot segments, as routes do.
fn led_to(target: &str, location: &str) -> String {
    let end = target.find('?').unwrap_or(target.len());
    let path = &target[origin(target).len()..end];
    let (above, _) = path.rsplit_once('/').expect("a path");
    let (above, segment) = match location.strip_prefix("../") {
        Some(segment) => (above.rsplit_once('/').expect("a segment that is left").0, segment),
        None => (above, location.strip_prefix("./").expect("a relative location")),
    };
    assert!(!segment.starts_with(['/', '\\']), "{location:?}");
    format!("{}{above}/{segment}", origin(target))
}

/// What stands before the path: a relative location stays on its host.
fn origin(target: &str) -> &str {
    let authority = target.find("://").filter(|_| !target.starts_with('/')).map_or(0, |at| at + 3);
    let end = target[authority..].find(['/', '?']).map_or(target.len(), |at| authority + at);
    if authority == 0 { "" } else { &target[..end] }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.splitn(3, '\n');
    let (target, accept, of) = (lines.next().unwrap_or_default(), lines.next(), lines.next());
    let mut fields = Vec::new();
    fields.extend(accept.map(|accept| ("accept", accept)));
    fields.extend(of.map(|of| ("content-type", of)));
    for method in [Method::GET, Method::POST, Method::OPTIONS, Method::QUERY] {
        let Some((status, location, _)) = ask(&method, target, &fields) else { return };
        assert_ne!(status, 500, "{target:?}");
        if let Some(location) = location {
            assert_eq!(status, 308);
            let led_to = led_to(target, &location);
            let (led, again, _) = ask(&method, &led_to, &fields).expect("a target");
            assert!(again.is_none() && led != 404, "{target:?} leads to {location:?}, {led}");
        }
    }
    // An unreserved octet may be encoded or not (RFC 3986 section 6.2.2.2).
    let encoded: String =
        target
            .chars()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() { format!("%{:02x}", byte as u32) } else { byte.to_string() }
            })
            .collect();
    if target.starts_with('/') && !target.contains(['%', '?']) && encoded.len() < 8000 {
        let (plain, coded) = (ask(&Method::GET, target, &fields), ask(&Method::GET, &encoded, &fields));
        assert_eq!(plain.map(|answer| answer.0), coded.map(|answer| answer.0), "{target:?}");
    }
});
