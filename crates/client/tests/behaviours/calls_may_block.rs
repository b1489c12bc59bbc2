//! A program without `async` calls by the blocking face, which refuses to hold up a loop.

use std::io::Read;
use std::thread;

use anywire_client::{Error, blocking};
use anywire_loops::Loops;

use crate::support::{OK, Peer, builder, wire};

#[test]
fn a_plain_thread_waits_for_its_call() {
    let peer = Peer::start(wire("memory"), |mut talk| {
        while let Some(request) = talk.request() {
            let body = [request.head.target().as_bytes(), b" ", &request.body].concat();
            let head = format!("HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: {}\r\n\r\n", body.len());
            talk.say([head.as_bytes(), &body].concat());
        }
    });
    let client = blocking::Client::from(builder().build());
    let call = |path: &str| client.post(peer.url(path)).with(|call| call.via(peer.via())).header("x-b", "2");
    let response = call("/a").query(&[("b", "c")]).json(&[1, 2]).send().expect("answered");
    assert_eq!((response.status().as_u16(), response.headers().get("x-a")), (200, Some("1")));
    assert_eq!(response.error_for_status().expect("200").text().expect("text"), "/a?b=c [1,2]");
    let mut response = call("/").body("x".repeat(100_000)).send().expect("answered");
    let mut start = [0; 2];
    response.read_exact(&mut start).expect("two bytes");
    let mut rest = Vec::new();
    response.read_to_end(&mut rest).expect("the rest");
    assert_eq!((&start, rest.len()), (b"/ ", 100_000));
    assert_eq!(response.chunk().expect("its end"), None);
    // Threads share it.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(call("/t").send().expect("answered").bytes().expect("a body"), "/t "));
        }
    });
}

#[test]
fn an_error_is_that_of_the_call() {
    let peer = Peer::start(wire("memory"), |mut talk| {
        talk.request_head();
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nhalf");
    });
    let client = blocking::Client::from(builder().build());
    let mut response = client.get(peer.url("/")).with(|call| call.via(peer.via())).send().expect("its head");
    let error = response.read_to_end(&mut Vec::new()).expect_err("cut short");
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    assert!(matches!(cause, Some(Error::Response { .. })), "{error:?}");
}

#[test]
fn a_loop_is_not_held_up() {
    let loops = Loops::start(1).expect("loops start");
    let peer = Peer::answering(wire("memory"), OK);
    let client = blocking::Client::from(builder().on(&loops).build());
    let call = client.get(peer.url("/")).with(|call| call.via(peer.via()));
    let on_loop = loops.get(0).spawn(move || async move { call.send().map(drop) });
    let error = on_loop.wait().expect("no panic").expect_err("it would block the loop");
    assert!(matches!(error, Error::OnLoop), "{error:?}");
    assert_eq!(peer.accepted(), 0);
}
