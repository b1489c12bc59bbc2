//! A request becomes an `http::Request` and comes back with its parameters, its states and its peer. One that a program made is a
//! good one, without parameters and of an unknown peer.

use anywire_http::{Body, StatusCode};
use anywire_loops::block_on;
use anywire_server::{FromRequestParts, MatchedPath, Path, Request, Router, State};

use crate::support::h2::H2;
use crate::support::serve;

#[derive(Clone)]
struct Greeting(&'static str);

/// What the extractors find.
async fn found(mut request: Request) -> String {
    let name = Path::<String>::from_request_parts(&mut request).await.map(|Path(name)| name);
    let state = State::<Greeting>::from_request_parts(&mut request).await.map(|state| state.0.0);
    let path = MatchedPath::from_request_parts(&mut request).await.map(|path| path.to_string());
    let target = request.target().into_owned();
    let field = request.headers().get("x-field").unwrap_or("-").to_owned();
    let peer = request.peer().to_string();
    let count = request.extensions().len();
    let body = request.into_body().text(100).await.expect("a whole body");
    format!(
        "{} {} {} {target} {field} {body} {count} {peer}",
        name.as_deref().unwrap_or("-"),
        state.unwrap_or("-"),
        path.as_deref().unwrap_or("-")
    )
}

async fn there_and_back(request: http::Request<Body>) -> String {
    let (mut parts, body) = request.into_parts();
    parts.uri = "/stripped?query".parse().expect("a URI");
    parts.headers.insert("x-field", "set".parse().expect("a value"));
    let request = http::Request::from_parts(parts, body);
    found(request.try_into().expect("convertible")).await
}

/// As a service that works on another thread would do it.
async fn elsewhere(request: http::Request<Body>) -> String {
    std::thread::spawn(|| block_on(there_and_back(request))).join().expect("no panic")
}

fn router() -> Router {
    Router::new()
        .state(Greeting("hello"))
        .post("/straight/{name}", found)
        .post("/back/{name}", there_and_back)
        .post("/elsewhere/{name}", elsewhere)
        .get("/gone", async |request: http::Request<Body>| {
            let request = Request::try_from(request).expect("convertible");
            request.peer_gone().await;
            "the peer has ended its direction"
        })
        .get("/peer", async |request: Request| request.peer().to_string())
        .get("/within", async |request: http::Request<Body>| {
            let inner = Router::new().get("/within", async |request: Request| request.peer().to_string());
            let request: anywire_http::Request = request.try_into().expect("convertible");
            inner.call(request).await
        })
}

#[test]
fn with_all_that_it_had() {
    let served = serve(router());
    let ask = |path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
        served.ask(&head).text().to_owned()
    };
    let straight = ask("/straight/ann?x");
    assert!(
        straight.starts_with("ann hello /straight/{name} /straight/ann?x - hi 0 tcp:127.0.0.1:"),
        "{straight}"
    );
    let back = ask("/back/ann?x");
    assert!(back.starts_with("ann hello /back/{name} /stripped?query set hi 0 tcp:127.0.0.1:"), "{back}");
    let elsewhere = ask("/elsewhere/ann?x");
    assert!(elsewhere.starts_with("ann - - /stripped?query set hi 0 tcp:127.0.0.1:"), "{elsewhere}");
}

#[test]
fn over_http2_as_well() {
    let served = serve(router());
    let mut peer = H2::connect(&served);
    let id = peer.open("POST", "/back/ann", &[], Some(2), false);
    peer.body(id, b"hi", true);
    let answer = peer.answer(id);
    assert!(
        answer.text().starts_with("ann hello /back/{name} /stripped?query set hi 0 tcp:"),
        "{}",
        answer.text()
    );
}

#[test]
fn the_connection_keeps_its_context() {
    let served = serve(router());
    let mut peer = served.connect();
    let mut ask = |path: &str| {
        peer.send(format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"));
        let text = peer.answer(false).text().to_owned();
        text.rsplit(' ').next().map(str::to_owned)
    };
    let first = ask("/straight/a");
    assert_eq!([ask("/back/b"), ask("/elsewhere/c"), ask("/back/d")], [first.clone(), first.clone(), first]);
}

#[test]
fn it_is_told_when_its_peer_ends() {
    let served = serve(router());
    let mut peer = served.connect();
    peer.send("GET /gone HTTP/1.1\r\nhost: a\r\n\r\n");
    peer.half_close();
    assert_eq!(peer.answer(false).text(), "the peer has ended its direction");
}

#[test]
fn a_peer_is_known_to_a_router_within() {
    let served = serve(router());
    let mut peer = served.connect();
    let mut ask = |path: &str| {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        peer.answer(false).text().to_owned()
    };
    assert_eq!(ask("/within"), ask("/peer"));
}

#[test]
fn one_that_a_program_made_is_a_good_one() {
    let made = http::Request::post("http://a/b?c").body(String::from("hi")).expect("a request");
    let request = Request::try_from(made).expect("convertible");
    assert_eq!((request.path(), request.host(), request.params().count()), ("/b", Some("a"), 0));
    assert_eq!(block_on(found(request)), "- - - http://a/b?c - hi 0 memory:unknown");
    let made = anywire_http::Request::get("/a").header("x-field", "1");
    let mut request = Request::try_from(made).expect("a right request");
    *request.body_mut() = Body::from("put");
    assert_eq!(block_on(found(request)), "- - - /a 1 put 0 memory:unknown");
    assert!(Request::try_from(anywire_http::Request::get("/a b")).is_err());
}

#[test]
fn one_that_the_other_types_cannot_hold_is_refused() {
    let served = serve(Router::new().fallback(async |_: http::Request<Body>| StatusCode::OK));
    let ask = |target: &str| served.ask(&format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"));
    assert_eq!(ask("/a\u{e4}").status, 200);
    let refused = ask("/?<b>");
    assert_eq!((refused.status, served.running.counters().refused), (400, 1), "{}", refused.text());
}

/// What a gateway sends on; the parameters stay those of the path as it came.
#[test]
fn a_prefix_is_taken_off_its_path() {
    let behind = async |mut request: Request| {
        let is_below = request.strip_prefix("/api/v1");
        let rest = request.param("rest").unwrap_or("-").to_owned();
        format!("{is_below} {} {rest}", request.target())
    };
    let router = Router::new().any("/{*rest}", behind);
    for (target, expected) in [
        ("/api/v1/orders?page=2", "true /orders?page=2 api/v1/orders"),
        ("/api/v1", "true / api/v1"),
        ("/api/v1?", "true /? api/v1"),
        ("/%61pi/v1/%2F;a", "true /%2F;a %61pi/v1/%2F;a"),
        ("/api/v1//x", "true //x api/v1//x"),
        ("/api/v10", "false /api/v10 api/v10"),
        ("/api", "false /api api"),
        ("/api%2fv1/x", "false /api%2fv1/x api%2fv1/x"),
    ] {
        let mut response = block_on(router.call(anywire_http::Request::get(target)));
        assert_eq!(block_on(response.body.text(1000)).expect("text"), expected, "{target}");
    }
}
