//! Calls one after the other go out on one connection, each in one segment, with the fields that HTTP wants.

use std::sync::mpsc;

use crate::support::{OK, Peer, block_on, client, on_each_wire, wire};
use anywire_sys::tcp_info::TcpInfo;
use anywire_wire::Connection;

#[test]
fn calls_in_a_row_use_one_connection_and_one_write_each() {
    on_each_wire(|wire| {
        let (report, segments) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                talk.say(OK);
                // Only TCP counts segments; a coat around it adds those of its handshake.
                let info = async |connection: &mut Connection| {
                    connection.as_fd().filter(|_| connection.local().scheme() == "tcp").map(TcpInfo::of)
                };
                let info = talk.with(info).flatten().and_then(Result::ok);
                let _ = report.send((info.map(|info| info.data_segments_in), request.body.len()));
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for round in 1..=20u64 {
            let body = vec![b'x'; 1000];
            let answer =
                block_on(client.post(peer.url("/")).via(peer.via()).body(body).send()).expect("an answer");
            assert_eq!(answer.status(), 200);
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
            let (segments_in, body_bytes) = segments.recv().expect("a report");
            assert_eq!(body_bytes, 1000);
            assert_eq!(segments_in, (wire.scheme() == "tcp").then_some(round as _));
        }
        assert_eq!(peer.accepted(), 1);
        let counters = client.counters().total();
        assert_eq!((counters.requests, counters.dialed, counters.reused, counters.idle), (20, 1, 19, 1));
    });
}

#[test]
fn requests_say_what_the_caller_said() {
    on_each_wire(|wire| {
        let (report, requests) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(request);
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        let call = client.post(peer.url("/a?b=1")).via(peer.via()).header("x-one", "1");
        block_on(call.query(&[("c", "2 3")]).json(&[1, 2]).send()).expect("an answer");
        let request = requests.recv().expect("a request");
        assert_eq!(request.head.method(), "POST");
        assert_eq!(request.head.target(), "/a?b=1&c=2+3");
        assert_eq!(request.head.host(), peer.url("").split("://").nth(1));
        assert_eq!(request.head.headers().get("x-one"), Some("1"));
        assert_eq!(request.head.headers().get("content-type"), Some("application/json"));
        assert_eq!(request.body, b"[1,2]");

        block_on(client.get(peer.url("")).via(peer.via()).send()).expect("an answer");
        let request = requests.recv().expect("a request");
        assert_eq!(request.head.target(), "/");
        assert_eq!(request.head.headers().get("content-length"), None);

        block_on(client.post(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let request = requests.recv().expect("a request");
        assert_eq!(request.head.headers().get("content-length"), Some("0"));
    });
}

#[test]
fn a_request_of_the_http_crate_goes_by_its_uri() {
    let (report, requests) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let _ = report.send(request);
            talk.say(OK);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let request = http::Request::put(peer.url("/z")).header("x-two", "2").body("text".to_owned());
    block_on(client.send(request.expect("a good request"))).expect("an answer");
    let request = requests.recv().expect("a request");
    assert_eq!((request.head.method().as_str(), &*request.head.target()), ("PUT", "/z"));
    assert_eq!(request.head.headers().get("x-two"), Some("2"));
    assert_eq!(request.body, b"text");
}
