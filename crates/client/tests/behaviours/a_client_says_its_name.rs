//! `user-agent` is sent if the client has a name, and only by calls that say none themselves.

use anywire_client::{Client, Error};
use anywire_http::Request;

use crate::support::{OK, Peer, block_on, client, wire};

/// Answers with the name that it is told.
fn peer() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let said: Vec<_> = request.head.headers().get_all("user-agent").collect();
            let said = String::from_utf8(said.join(&b'|')).expect("UTF-8");
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len()));
        }
    })
}

#[test]
fn nothing_is_said_by_default() {
    let peer = peer();
    let (_loops, client) = client(1, |builder| builder);
    assert_eq!(
        block_on(async { client.get(peer.url("/")).send().await?.text().await }).expect("an answer"),
        ""
    );
}

#[test]
fn a_name_is_said_once() {
    let peer = peer();
    let (_loops, client) = client(1, |builder| builder.user_agent("shop/1.0"));
    let said =
        |call: anywire_client::Call| block_on(async { call.send().await?.text().await }).expect("an answer");
    assert_eq!(said(client.get(peer.url("/"))), "shop/1.0");
    assert_eq!(said(client.get(peer.url("/")).header("User-Agent", "other")), "other");
    // What is forwarded stays as it came.
    assert_eq!(said(client.forward(Request::get("/"), peer.url(""))), "");
}

#[test]
fn a_name_that_no_field_may_have_is_an_error() {
    let peer = Peer::answering(wire("tcp"), OK);
    let client = Client::builder().user_agent("a\r\nx: y").build();
    let error = block_on(client.get(peer.url("/")).send()).expect_err("it is no value");
    assert!(matches!(error, Error::Header(_)), "{error:?}");
    assert_eq!(peer.accepted(), 0);
}
