//! A withheld body states its length where no body may follow, and nowhere else; a status that is not final is refused.

use crate::support::h2::H2;
use crate::support::log;
use anywire_http::{Body, Response, StatusCode};
use anywire_server::{Router, State};

fn withheld(status: StatusCode) -> Response {
    Response::new(status).body(Body::withheld(Some(12_345_678_901)))
}

fn served() -> crate::support::Served {
    crate::support::serve(
        Router::new()
            .get("/withheld", async || withheld(StatusCode::OK))
            .get("/not-modified", async || withheld(StatusCode::NOT_MODIFIED))
            .get("/not-modified-plain", async || (StatusCode::NOT_MODIFIED, "text"))
            .get("/no-content", async || withheld(StatusCode::NO_CONTENT))
            .get("/unknown", async || Response::new(StatusCode::OK).body(Body::withheld(None)))
            .get("/as-others-do", async || Response::new(StatusCode::OK).header("content-length", "1000"))
            .get("/status/{code}", async |code: anywire_server::Path<u16>, tag: State<&'static str>| {
                let status = StatusCode::from_u16(code.0).expect("a test's status");
                Response::new(status).header("upgrade", *tag).body("nothing of this")
            })
            .get("/", async || "ok")
            .state("websocket"),
    )
}

fn ask(served: &crate::support::Served, line: &str) -> crate::support::Answer {
    served.ask(&format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n"))
}

#[test]
fn an_answer_to_head_has_it_and_the_connection_goes_on() {
    let served = served();
    let mut peer = served.connect();
    peer.send("HEAD /withheld HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let head = peer.answer(true);
    assert_eq!((head.status, head.header("content-length")), (200, Some("12345678901")));
    assert_eq!(peer.answer(false).text(), "ok");
}

#[test]
fn an_answer_of_304_has_it() {
    let served = served();
    for method in ["GET", "HEAD"] {
        let head = ask(&served, &format!("{method} /not-modified"));
        assert_eq!((head.status, head.header("content-length")), (304, Some("12345678901")));
    }
    // The text is not what a 200 would have brought.
    assert_eq!(ask(&served, "GET /not-modified-plain").header("content-length"), None);
    assert_eq!(ask(&served, "GET /no-content").header("content-length"), None);
}

#[test]
fn it_is_the_same_in_each_version() {
    let served = served();
    let mut peer = H2::connect(&served);
    for (method, path, status, length) in [
        ("HEAD", "/", 200, Some("2")),
        ("HEAD", "/withheld", 200, Some("12345678901")),
        // Not even 0: GET has a body.
        ("HEAD", "/unknown", 200, None),
        ("GET", "/not-modified", 304, Some("12345678901")),
        ("HEAD", "/not-modified", 304, Some("12345678901")),
        ("GET", "/not-modified-plain", 304, None),
        ("GET", "/no-content", 204, None),
        ("HEAD", "/no-content", 204, None),
        // Where nothing follows, the field cannot contradict what does.
        ("HEAD", "/as-others-do", 200, Some("1000")),
        ("GET", "/as-others-do", 200, Some("0")),
    ] {
        let answer = ask(&served, &format!("{method} {path}"));
        assert_eq!((answer.status, answer.header("content-length")), (status, length), "{method} {path}");
        let id = peer.open(method, path, &[], None, true);
        let answer = peer.answer(id);
        assert_eq!((answer.status(), answer.header("content-length")), (status, length), "{method} {path}");
        assert_eq!((answer.body.as_slice(), answer.reset), (&b""[..], None), "{method} {path}");
    }
}

#[test]
fn where_a_body_must_follow_it_is_a_fault_of_the_handler() {
    log::keep();
    let served = served();
    let mut peer = served.connect();
    peer.send("GET /withheld HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let answer = peer.answer(false);
    assert_eq!((answer.status, answer.text()), (500, "the server failed to answer this request"));
    assert_eq!(peer.answer(false).text(), "ok");
    let line = log::wait_for(" route=/withheld ");
    assert!(line.level == tracing::Level::ERROR && line.text.contains("withheld; that is for"), "{line:?}");
    assert_eq!(served.running.counters().failures, 1);
}

#[test]
fn a_status_that_is_not_final_is_refused_and_the_connection_goes_on() {
    log::keep();
    let served = served();
    let mut peer = served.connect();
    for code in [100, 101, 103, 199] {
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
        peer.send(format!("GET /status/{code} HTTP/1.1\r\nhost: x\r\n{upgrade}\r\n"));
        let answer = peer.answer(false);
        assert_eq!((answer.status, answer.header("upgrade")), (500, None), "{code}");
        log::wait_for(&format!(" status={code} cause=the status {code} ends no request"));
    }
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(served.running.counters().failures, 4);
}
