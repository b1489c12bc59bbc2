//! Interim responses (1xx) are told to the caller who has asked, as they come, over HTTP/1 and HTTP/2.

use std::sync::mpsc;

use anywire_client::{Error, Limits};
use anywire_http::StatusCode;

use crate::support::bytes_of_http2::{END_HEADERS, HEADERS};
use crate::support::{HANG, OK, Peer, block_on, client, client_of_http2, on_each_wire, wire};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";

#[test]
fn each_comes_before_the_response() {
    on_each_wire(|wire| {
        let (answer, to_answer) = mpsc::channel();
        let to_answer = std::sync::Mutex::new(to_answer);
        let peer = Peer::start(wire, move |mut talk| {
            while talk.request().is_some() {
                talk.say("HTTP/1.1 102 Processing\r\n\r\n");
                talk.say(HINTS);
                let _ = to_answer.lock().expect("no panic").recv();
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder.http1_only());
        let (told, hears) = mpsc::channel();
        let call = client.get(peer.url("/")).via(peer.via()).on_interim(move |head| {
            let link = head.headers().get("link").map(str::to_owned);
            told.send((head.status().as_u16(), link)).expect("the test waits");
        });
        let response = std::thread::spawn(move || block_on(call.send()));
        assert_eq!(hears.recv_timeout(HANG).expect("it has come"), (102, None));
        let hints = hears.recv_timeout(HANG).expect("it has come");
        assert_eq!(hints, (103, Some("</a.css>; rel=preload".to_owned())));
        // Only now the final one is sent.
        answer.send(()).expect("the peer waits");
        assert_eq!(response.join().expect("no panic").expect("an answer").status(), StatusCode::OK);
    });
}

#[test]
fn over_http2_as_well() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        let Some(stream) = frames.request() else { return };
        // `:status` 103 as a literal without an index, then `link: x`.
        frames.say(HEADERS, END_HEADERS, stream, b"\x08\x03103\x00\x04link\x01x");
        frames.answer(stream);
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    let (told, hears) = mpsc::channel();
    let call = client.get(peer.url("/")).on_interim(move |head| {
        told.send((head.status().as_u16(), head.headers().get("link").map(str::to_owned)))
            .expect("the test waits");
    });
    assert_eq!(block_on(call.send()).expect("an answer").status(), StatusCode::OK);
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), [(103, Some("x".to_owned()))]);
}

#[test]
fn more_than_the_limit_end_the_call() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        if talk.request().is_some() {
            talk.say(HINTS.repeat(4));
            talk.wait_for_end();
        }
    });
    let limits = Limits { interim_responses: 3, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits));
    let (told, hears) = mpsc::channel();
    let call =
        client.get(peer.url("/")).on_interim(move |head| told.send(head.status()).expect("the test waits"));
    let error = block_on(call.send()).expect_err("there are too many");
    assert!(matches!(error, Error::Interim { count: 4, .. }), "{error:?}");
    assert_eq!(hears.try_iter().count(), 3, "the one over the limit is told to nobody");
}

#[test]
fn a_panic_of_the_function_costs_nothing() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while talk.request().is_some() {
            talk.say([HINTS, OK].concat());
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let response = block_on(client.get(peer.url("/")).on_interim(|_| panic!("of the caller")).send());
    assert_eq!(response.expect("an answer").status(), StatusCode::OK);
    assert_eq!(peer.accepted(), 1);
}
