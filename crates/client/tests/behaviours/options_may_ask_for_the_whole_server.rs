//! OPTIONS to a URL without a path asks for the server as a whole: its target is `*` (RFC 9110 section 9.3.7).

use crate::support::bytes_of_http2::HEADERS;
use crate::support::{Peer, block_on, client, client_of_http2, wire};
use anywire_http::{Method, Request};

#[test]
fn over_http1() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let target = request.head.target().into_owned();
            talk.say(format!("HTTP/1.1 200 OK\r\nx-target: {target}\r\ncontent-length: 0\r\n\r\n"));
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let slash = peer.url("/");
    let bare = slash.trim_end_matches('/').to_owned();
    let target = |call: anywire_client::Call| {
        let answer = block_on(call.send()).expect("an answer");
        answer.headers().get("x-target").map(str::to_owned).expect("the field")
    };
    assert_eq!(target(client.options(&bare)), "*");
    assert_eq!(target(client.options(&slash)), "/");
    assert_eq!(target(client.get(&bare)), "/");
    assert_eq!(target(client.options(&bare).query(&[("a", "b")])), "/?a=b");
    // A proxy is the last one that could say it (RFC 9112 section 3.2.4).
    let request = || Request::new(Method::OPTIONS, "*");
    assert_eq!(target(client.forward(request(), &bare)), "*");
    assert_eq!(target(client.forward(request(), peer.url("/behind"))), "/behind");
}

#[test]
fn over_http2() {
    let (report, heads) = std::sync::mpsc::channel();
    let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        while let Some(frame) = frames.until(HEADERS) {
            frames.answer(frame.stream);
            drop(report.send(frame.payload));
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    let bare = peer.url("/").trim_end_matches('/').to_owned();
    for (url, is_whole) in [(bare, true), (peer.url("/"), false)] {
        block_on(client.options(url).send()).expect("an answer");
        assert_eq!(heads.recv().expect("a head").windows(3).any(|bytes| bytes == [4, 1, b'*']), is_whole);
    }
}
