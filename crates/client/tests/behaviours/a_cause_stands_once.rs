//! What this crate says of a failed call does not repeat its cause, so that a printed chain shows each cause once.

use std::error::Error;

use crate::support::{Peer, block_on, client, wire};
use anywire_advice::{Chain, Help, Message};
use anywire_http::{Body, BodyError};

#[track_caller]
fn assert_each_cause_once(error: &anywire_client::Error) -> String {
    let chain = Chain(error).to_string();
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        next = error.source().map(|cause| cause as &dyn Error);
        let found = Message::read(error).found;
        assert_eq!(chain.matches(&found).count(), 1, "{found:?} in {chain:?}");
    }
    chain
}

#[test]
fn of_calls_that_cannot_be_made() {
    let (_loops, client) = client(1, |builder| builder);
    for (url, part) in [
        ("no url", "absolute URL"),
        ("http://h:1/", "cannot call by way of"),
        ("http://127.0.0.1:1/", "nobody listens there"),
    ] {
        let call = client.get(url);
        let call = if part.contains("by way of") { call.via("tpc:h:1") } else { call };
        let error = block_on(call.send()).expect_err("no answer");
        let chain = assert_each_cause_once(&error);
        assert!(chain.contains(part) && !error.to_string().contains(&*chain), "{chain}");
    }
}

#[test]
fn what_the_caller_wrote_stays_whole() {
    let (_loops, client) = client(1, |builder| builder);
    let error = block_on(client.get("ftp://h/a; b").send()).expect_err("no such scheme");
    let message = Chain(&error).message();
    assert!(message.found.contains("ftp://h/a; b"), "{message:?}");
    assert_eq!(error.help(), message.help);
    assert!(message.help.is_some_and(|help| help.contains("name a wire")), "{error}");
}

#[test]
fn of_answers_that_cannot_be_read() {
    let (_loops, client) = client(1, |builder| builder);
    for (answer, part) in [
        ("nonsense\r\n\r\n", "reading the start line: "),
        ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "finding the body's length: "),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n", "reading a chunk: "),
    ] {
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            talk.request();
            talk.say(answer);
        });
        let error = block_on(async { client.get(peer.url("/")).send().await?.bytes().await });
        let chain = assert_each_cause_once(&error.expect_err("no answer"));
        assert!(chain.contains(part), "{chain}");
    }
}

#[test]
fn of_a_body_that_fails_on_its_way_up() {
    let (_loops, client) = client(1, |builder| builder);
    let peer = Peer::start(wire("tcp"), |mut talk| drop(talk.request()));
    let (mut sender, body) = Body::channel(16);
    sender.try_send("part").expect("room for it");
    sender.abort(BodyError::failed("the disk is gone"));
    let error = block_on(client.post(peer.url("/")).body(body).send()).expect_err("no whole request");
    let chain = assert_each_cause_once(&error);
    assert!(chain.ends_with("reading a body: its source failed: the disk is gone"), "{chain}");
}
