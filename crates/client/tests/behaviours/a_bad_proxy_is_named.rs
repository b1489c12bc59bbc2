//! A proxy that refuses, hangs, closes or talks nonsense is named in the error, with what it did, and without who we are to it.

use std::time::Duration;

use anywire_client::proxy::{Proxy, ProxyReason};
use anywire_client::{Client, Error, Fault, Phase};
use anywire_http::{IntoResponse, StatusCode};

use crate::support::{Peer, Talk, block_on, client, wire};

/// The error of a call through a proxy with this script, and the counters behind it. It is reached in memory, where a dial takes no time.
fn error_of(
    scheme: &str,
    limit: Duration,
    script: impl Fn(Talk) + Send + Sync + 'static,
) -> (Error, anywire_client::Counters, Peer) {
    let peer = Peer::start(wire("memory"), script);
    let proxy: Proxy = format!("{scheme}://me:secret@proxy.example:3128").parse().expect("a proxy");
    let proxy = proxy.via(peer.via()).expect("an address");
    let (_loops, client) = client(1, |builder| builder.proxy(proxy).connect_timeout(limit).retries(0));
    // HTTP/2 by prior knowledge, or an upgrade, takes a tunnel without TLS.
    let error =
        block_on(client.get("http://origin.example/").upgrade("other").send()).expect_err("no tunnel");
    (error, client.counters().total(), peer)
}

const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn check(error: &Error, fault: Fault, said: &str) {
    assert!(matches!(error, Error::Proxy { .. }), "{error:?}");
    assert!(error.is_connect() && !error.is_handshake() && !error.may_have_been_processed());
    assert_eq!((error.fault(), error.phase()), (fault, Some(Phase::Connect)));
    let text = anywire_advice::Chain(error).to_string();
    assert!(text.contains("cannot connect to http://origin.example"), "{text}");
    assert_eq!(text.matches("://proxy.example:3128").count(), 1, "{text}");
    assert!(text.contains(said), "{said:?} in {text}");
    let shown = format!("{text} {error:?}");
    assert!(!shown.contains("secret") && !shown.contains("c2VjcmV0") && !shown.contains("bWU6"), "{shown}");
}

fn reason(error: &Error) -> &ProxyReason {
    match error {
        Error::Proxy { source, .. } => source.reason(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_an_http_proxy_did_is_said() {
    let wanted = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 4\r\n\r\nbody";
    for (answer, fault, said) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", Fault::Peer, "answered 403 Forbidden to CONNECT"),
        ("HTTP/1.0 503 Busy\r\n\r\nbody", Fault::Peer, "answered 503 Service Unavailable to CONNECT"),
        (wanted, Fault::Caller, "does not take the user and password"),
        ("HTTP/1.1 200 OK\r\nx: ", Fault::Peer, "closed the connection before it had answered"),
        ("HTTP/1.1 100 Continue\r\n\r\n", Fault::Peer, "closed the connection before it had answered"),
        ("", Fault::Peer, "closed the connection before it had answered"),
        ("220 ftp.example ready\r\n", Fault::Peer, "gave an answer that cannot be read"),
    ] {
        let (error, counters, _peer) = error_of("http", PATIENCE, move |talk| {
            talk.read(1 << 10);
            talk.say(answer);
            talk.half_close();
            talk.wait_for_end();
        });
        check(&error, fault, said);
        assert_eq!((counters.proxy_failures, counters.dial_failures, counters.connect_timeouts), (1, 1, 0));
        assert_eq!(
            error.into_response().status,
            if fault == Fault::Caller { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_GATEWAY }
        );
    }
}

#[test]
fn a_flood_is_cut_at_the_limits() {
    for flood in ["x: y\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let (error, ..) = error_of("http", PATIENCE, move |talk| {
            talk.read(1 << 10);
            if flood.starts_with('x') {
                talk.say("HTTP/1.1 200 OK\r\n");
            }
            // Until the client leaves.
            while talk.try_say(flood.repeat(100)) {}
        });
        let is_head = flood.starts_with('x');
        check(
            &error,
            if is_head { Fault::Limit } else { Fault::Peer },
            if is_head { "cannot be read" } else { "17 interim" },
        );
    }
}

#[test]
fn a_proxy_that_hangs_is_given_up() {
    for (scheme, said) in
        [("http", ""), ("http", "HTTP/1.1 200 OK\r\n"), ("socks5h", ""), ("socks5h", "\x05\x00")]
    {
        let (error, counters, _peer) = error_of(scheme, Duration::from_millis(50), move |talk| {
            talk.say(said);
            talk.wait_for_end();
        });
        check(&error, Fault::Peer, "made no connection within 50ms");
        assert!(error.is_timeout() && matches!(reason(&error), ProxyReason::TimedOut { .. }));
        assert_eq!((counters.connect_timeouts, counters.proxy_failures), (1, 1));
        assert_eq!(error.into_response().status, StatusCode::GATEWAY_TIMEOUT);
    }
}

#[test]
fn what_a_socks_proxy_did_is_said() {
    type Answers = &'static [&'static [u8]];
    let cases: [(Answers, Fault, &str); 7] = [
        (&[b"\x05\xff"], Fault::Caller, "does not take the user and password"),
        (&[b"\x05\x02", b"\x01\x01"], Fault::Caller, "does not take the user and password"),
        (&[b"\x05\x00", b"\x05\x02\x00\x01"], Fault::Peer, "rules do not allow"),
        (
            &[b"\x05\x00", b"\x05\x05\x00\x01\0\0\0\0\0\0"],
            Fault::Peer,
            "the origin refuses the connection (SOCKS5 reply 5)",
        ),
        (
            &[b"\x05\x00", b"\x05\x00\x00\x01\0\0\0"],
            Fault::Peer,
            "closed the connection before it had answered",
        ),
        (&[b"\x05"], Fault::Peer, "closed the connection before it had answered"),
        (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], Fault::Peer, "does not speak SOCKS5"),
    ];
    for (answers, fault, said) in cases {
        let (error, ..) = error_of("socks5h", PATIENCE, move |talk| {
            for answer in answers {
                talk.read(1 << 10);
                talk.say(answer);
            }
            talk.half_close();
            talk.wait_for_end();
        });
        check(&error, fault, said);
    }
}

#[test]
fn a_proxy_that_resets_or_is_not_there_is_named() {
    let peer = Peer::start(wire("tcp"), |talk| {
        talk.read(1 << 10);
        talk.reset();
    });
    let proxied = |peer: &Peer| -> (anywire_loops::Loops, Client) {
        let proxy = format!("http://{}", peer.via().location());
        client(1, |builder| builder.proxy(proxy).retries(0))
    };
    let (_loops, client) = proxied(&peer);
    let call = || block_on(client.get("http://origin.example/").upgrade("other").send());
    let error = call().expect_err("a reset");
    assert!(matches!(reason(&error), ProxyReason::Broken(_)), "{error:?}");
    assert_eq!(error.fault(), Fault::Wire);
    // A refusal that comes with a reset behind it is read, if it was there before.
    let location = peer.via().location().to_owned();
    drop(peer);
    let error = call().expect_err("nobody listens");
    assert!(matches!(reason(&error), ProxyReason::Dial(cause) if cause.is_refused()), "{error:?}");
    let text = anywire_advice::Chain(&error).to_string();
    assert!(text.contains(&format!("the proxy http://{location} cannot be reached")), "{text}");
    // The same where the proxy would read the request.
    let error = block_on(client.get("http://origin.example/").send()).expect_err("nobody listens");
    assert!(matches!(reason(&error), ProxyReason::Dial(cause) if cause.is_refused()), "{error:?}");
}

#[test]
fn a_name_that_socks_cannot_carry_is_the_callers_fault() {
    let peer = Peer::start(wire("memory"), |talk| talk.wait_for_end());
    let proxy: Proxy = "socks5h://proxy.example:3128".parse().expect("a proxy");
    let proxy = proxy.basic_auth("x".repeat(256), "y").via(peer.via()).expect("an address");
    let (_loops, client) = client(1, |builder| builder.proxy(proxy).retries(0));
    let error = block_on(client.get("http://origin.example/").send()).expect_err("too long");
    check(&error, Fault::Caller, "cannot be told of that host");
}
