//! 404, 405 with `Allow`, HEAD from GET, OPTIONS.

use anywire_http::Method;
use anywire_server::{Path, Router};

fn served() -> crate::support::Served {
    crate::support::serve(
        Router::new()
            .get("/", async || "Hello, World!")
            .post("/orders", async |body: String| body)
            .get("/orders/{id}", async |Path(id): Path<u32>| format!("order {id}")),
    )
}

fn ask(served: &crate::support::Served, line: &str) -> crate::support::Answer {
    served.ask(&format!("{line} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"))
}

#[test]
fn unknown_path_is_404() {
    assert_eq!(ask(&served(), "GET /nowhere").status, 404);
}

#[test]
fn other_method_is_405_and_says_which() {
    let answer = ask(&served(), "DELETE /orders");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")));
}

#[test]
fn head_is_get_without_its_body() {
    let served = served();
    let mut peer = served.connect();
    peer.send("HEAD / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let head = peer.answer(true);
    assert_eq!((head.status, head.header("content-length")), (200, Some("13")));
    assert_eq!(peer.answer(false).text(), "Hello, World!");
}

#[test]
fn options_lists_methods() {
    let answer = ask(&served(), "OPTIONS /");
    assert_eq!((answer.status, answer.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn any_answers_the_methods_without_a_handler_of_their_own() {
    let method = async |method: Method| method.to_string();
    let router = Router::new()
        .any("/all", method)
        .any("/orders/{id}", async |Path(id): Path<u32>| format!("any {id}"))
        .get("/orders/{id}", async |Path(id): Path<u32>| format!("get {id}"));
    let served = crate::support::serve(router);
    for method in ["GET", "POST", "OPTIONS", "PROPFIND"] {
        assert_eq!(ask(&served, &format!("{method} /all")).text(), method);
        // Not by the literal path.
        assert_eq!(ask(&served, &format!("{method} /all?x")).text(), method);
        let whose = if method == "GET" { "get 7" } else { "any 7" };
        assert_eq!(ask(&served, &format!("{method} /orders/7")).text(), whose);
    }
    let mut peer = served.connect();
    for (path, length) in [("/all", "4"), ("/orders/7", "5")] {
        peer.send(format!("HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let head = peer.answer(true);
        assert_eq!((head.status, head.header("content-length")), (200, Some(length)));
    }
}

#[test]
fn parameters_are_decoded_and_checked() {
    let served = served();
    assert_eq!(ask(&served, "GET /orders/7").text(), "order 7");
    let wrong = ask(&served, "GET /orders/seven");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("\"seven\" is no u32"), "{}", wrong.text());
}

#[test]
fn date_and_type_are_said() {
    let answer = ask(&served(), "GET /");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(answer.header("date").is_some_and(|date| date.ends_with(" GMT")));
}
