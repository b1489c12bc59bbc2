//! Pairs of a query or a form that are percent-encoded already go out as they are; others are encoded once.

use anywire_client::{Call, Client, Error};
use anywire_http::url::UrlError;

use crate::support::{Peer, block_on, client, wire};

/// Answers with the target, the type and the body of each request.
fn echo() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let kind = request.head.headers().get("content-type").unwrap_or("none");
            let body = String::from_utf8_lossy(&request.body);
            let said = format!("{} {kind} {body}", request.head.target());
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len()));
        }
    })
}

fn said(call: Call) -> String {
    block_on(async { call.send().await?.text().await }).expect("an answer")
}

fn fault(client: &Client, url: &str, pairs: &str) -> Error {
    block_on(client.get(url).query_encoded(pairs).send()).expect_err(pairs)
}

#[test]
fn a_query_goes_out_as_it_is() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    for (pairs, target) in [
        ("a=b%20c&d", "/x?a=b%20c&d"),
        ("a=%2f%2F+", "/x?a=%2f%2F+"),
        ("/?:@!$'()*,;", "/x?/?:@!$'()*,;"),
        ("", "/x"),
    ] {
        assert_eq!(said(client.get(peer.url("/x")).query_encoded(pairs)), format!("{target} none "));
    }
    // Behind what is there, and with pairs that are encoded once.
    let call = client.get(peer.url("/x?y=1")).query_encoded("a=%25").query(&[("b", "%25 &")]);
    assert_eq!(said(call), "/x?y=1&a=%25&b=%2525+%26 none ");
}

#[test]
fn what_no_query_may_have_is_the_callers_fault() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    for pairs in ["a b", "a#b", "a\r\nx: y", "\u{e9}", "%", "%2", "%zz", "a%2gb", "<a>", "\"", "a\u{7f}"] {
        let error = fault(&client, &peer.url("/x"), pairs);
        assert!(matches!(error, Error::Url { source: UrlError::Query, .. }), "{pairs:?}: {error:?}");
        let why = std::error::Error::source(&error).expect("what is wrong").to_string();
        assert!(why.contains("percent-encode"), "{why}");
    }
    assert_eq!(peer.accepted(), 0);
}

#[test]
fn a_form_goes_out_as_it_is() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    let form = "application/x-www-form-urlencoded";
    let call = || client.post(peer.url("/")).form_encoded("a=b+c&d=%C3%A9");
    assert_eq!(said(call()), format!("/ {form} a=b+c&d=%C3%A9"));
    let typed = client.post(peer.url("/")).header("content-type", "text/x").form_encoded("a");
    assert_eq!(said(typed), "/ text/x a");
}
