//! A name with a password, or a token, goes to the origin that it is for, is not shown, and does not follow a redirect to another one.

use anywire_client::{Error, UrlError};

use crate::support::{Peer, block_on, client, wire};

/// A peer that answers with the credential it got, or redirects to what stands behind `?` of the target.
fn echo() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let credential = request.head.headers().get("authorization").unwrap_or("none").to_owned();
            match request.head.query() {
                Some(to) => {
                    talk.say(format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
                }
                None => talk.say(format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{credential}",
                    credential.len()
                )),
            }
        }
    })
}

fn text(call: anywire_client::Call) -> String {
    block_on(async { call.send().await?.text().await }).expect("answered")
}

#[test]
fn credentials_of_a_call() {
    let (here, there) = (echo(), echo());
    let (_loops, client) = client(1, |builder| builder);
    let call = || client.get(here.url("/"));
    assert_eq!(text(call()), "none");
    assert_eq!(text(call().basic("ada", "x:\u{e4}")), "Basic YWRhOng6w6Q=");
    assert_eq!(text(call().bearer("t-1").bearer("t-2")), "Bearer t-2");
    let shown = format!("{:?}", call().basic("ada", "secret").bearer("secret"));
    assert!(!shown.contains("secret"), "{shown}");
    // Over redirects: within the origin, and to another one.
    assert_eq!(text(client.get(here.url("/?/end")).bearer("t")), "Bearer t");
    assert_eq!(text(client.get(format!("{}?{}", here.url("/"), there.url("/end"))).bearer("t")), "none");
    // A token that is no text of a field costs no connection.
    let wrong = block_on(call().bearer("a\r\nx: y").send()).expect_err("it cannot be sent");
    assert!(matches!(wrong, Error::Header(_)), "{wrong:?}");
}

#[test]
fn credentials_of_a_url() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    let url = peer.url("/").replace("http://", "http://ada:x%3Ay@");
    assert_eq!(text(client.get(&url)), "Basic YWRhOng6eQ==");
    let response = block_on(client.get(&url).send()).expect("answered");
    assert_eq!(response.url(), &*peer.url("/"));
    assert_eq!(text(client.get(&url).bearer("t")), "Bearer t");
}

#[test]
fn credentials_of_a_client_are_for_one_origin() {
    let (here, there, other) = (echo(), echo(), echo());
    let (_loops, client) = client(1, |builder| {
        builder.basic(here.url("/path"), "ada", "x").bearer(there.url(""), "old").bearer(there.url(""), "t")
    });
    assert_eq!(text(client.get(here.url("/"))), "Basic YWRhOng=");
    assert_eq!(text(client.get(there.url("/"))), "Bearer t");
    assert_eq!(text(client.get(other.url("/"))), "none");
    assert_eq!(text(client.get(here.url("/")).bearer("own")), "Bearer own");
    // Each hop has that of its origin.
    assert_eq!(text(client.get(format!("{}?{}", here.url("/"), there.url("/end")))), "Bearer t");
    assert_eq!(text(client.get(format!("{}?{}", here.url("/"), other.url("/end")))), "none");
    assert_eq!(
        text(client.get(format!("{}?{}", here.url("/"), there.url("/end"))).bearer("own")),
        "Bearer t"
    );
}

#[test]
fn an_origin_that_is_none_is_reported_by_calls() {
    let (_loops, client) = client(1, |builder| builder.bearer("shop.example", "t"));
    let error = block_on(client.get("http://shop.example/").send()).expect_err("no origin");
    assert!(matches!(error, Error::Url { source: UrlError::Syntax(_), .. }), "{error:?}");
}
