//! A call that cannot be made is refused before anything is sent, with the reason.

use crate::support::{OK, Peer, block_on, client, on_each_wire, wire};
use anywire_client::{CallRequest, ClientBuilder, Error, Fault, Next, Response, UrlError};
use anywire_http::{Method, Request};

#[test]
fn header_fields_that_would_break_the_message() {
    let (_loops, client) = client(1, |builder| builder);
    for (name, value) in
        [("x", "a\r\nevil: 1"), ("x", "a\nb"), ("x\r\ny", "a"), ("x y", "a"), ("", "a"), ("x", "\0")]
    {
        let sending = client.get("http://127.0.0.1/").header(name, value).send();
        let error = block_on(sending).expect_err("no header");
        assert!(matches!(error, Error::Header(_)), "{error:?}");
        assert_eq!(error.fault(), Fault::Caller);
    }
    for name in ["Content-Length", "transfer-encoding"] {
        let sending = client.get("http://127.0.0.1/").header(name, "5").send();
        let error = block_on(sending).expect_err("the client's");
        assert!(matches!(error, Error::ReservedHeader { .. }), "{error:?}");
    }
    let sending = client.get("http://127.0.0.1/").header("host", "a b").send();
    let error = block_on(sending).expect_err("no host");
    assert!(matches!(error, Error::Encode(_)), "{error:?}");
}

#[test]
fn urls_that_are_none() {
    let (_loops, client) = client(1, |builder| builder);
    let error = |url: &str| block_on(client.get(url).send()).expect_err("no URL to call");
    #[cfg(not(feature = "tls"))]
    assert!(matches!(error("https://127.0.0.1/"), Error::Url { source: UrlError::Tls, .. }));
    assert!(matches!(error("ftp://127.0.0.1/"), Error::Url { source: UrlError::Scheme, .. }));
    assert!(matches!(error("/path"), Error::Url { source: UrlError::Syntax(_), .. }));
    assert!(matches!(error("http://"), Error::Url { .. }));
    assert!(!error("ftp://127.0.0.1/").may_have_been_processed());
    let tunnel = || client.request(Method::CONNECT, "http://127.0.0.1/");
    for call in [tunnel(), tunnel().header("host", "a.test")] {
        let error = block_on(call.send()).expect_err("no call");
        assert!(matches!(error, Error::Tunnel), "{error:?}");
    }
}

#[test]
fn a_host_of_the_callers_goes_out_and_connection_close_is_kept() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            let request = talk.request().expect("a request");
            assert_eq!(request.head.host(), Some("other.example"));
            assert_eq!(request.head.headers().get("connection"), Some("close"));
            talk.say(OK);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        for round in 1..=2 {
            let call = client.get(peer.url("/")).via(peer.via()).header("host", "other.example");
            let call = call.header("connection", "close");
            block_on(call.send()).expect("an answer");
            assert_eq!(peer.accepted(), round);
        }
    });
}

#[test]
fn values_that_do_not_serialise_and_answers_that_do_not_parse() {
    on_each_wire(|wire| {
        let (_loops, client) = client(1, |builder| builder);
        let peer = Peer::answering(wire, "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>");
        let unkeyed = std::collections::HashMap::from([((1, 2), 3)]);
        let error =
            block_on(client.post(peer.url("/")).via(peer.via()).json(&unkeyed).send()).expect_err("no JSON");
        assert!(matches!(error, Error::JsonBody(_)), "{error:?}");
        let error =
            block_on(client.get(peer.url("/")).via(peer.via()).query(&5).send()).expect_err("no pairs");
        assert!(matches!(error, Error::Query(_)), "{error:?}");
        let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let error = block_on(answer.json::<Vec<u8>>()).expect_err("HTML");
        assert!(error.to_string().contains("<html>"), "{error}");
        assert_eq!(error.fault(), Fault::Peer);
    });
}

#[test]
fn a_request_keeps_its_connection_close_and_not_its_length() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        let request = talk.request().expect("a request");
        let headers = request.head.headers();
        assert_eq!((headers.get("connection"), headers.get("content-length")), (Some("close"), None));
        talk.say(OK);
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, |builder| builder);
    for round in 1..=2 {
        let request =
            Request::get(&peer.url("/")).header("connection", "close").header("content-length", "7");
        block_on(client.send(request)).expect("an answer");
        assert_eq!(peer.accepted(), round);
    }
}

#[test]
fn an_interceptor_makes_no_tunnel_either() {
    async fn tunnels(mut request: CallRequest, next: Next) -> Result<Response, Error> {
        request.set_method(Method::CONNECT);
        next.call(request).await
    }
    for is_http2 in [false, true] {
        let peer = Peer::answering(wire("tcp"), OK);
        let version = |builder: ClientBuilder| {
            if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
        };
        let (_one, outer) = client(1, |builder| version(builder).intercept(tunnels));
        let (_two, inner) = client(1, |builder| version(builder).intercept_attempts(tunnels));
        for client in [outer, inner] {
            let error = block_on(client.get(peer.url("/")).send()).expect_err("no call");
            assert!(matches!(error, Error::Tunnel), "{error:?}");
        }
        assert_eq!(peer.accepted(), 0);
    }
}
