//! `100 Continue` is an answer of its own: it stands before the final answer or nowhere (RFC 9110 10.1.1, 15.2).

use anywire_http::{Body, StatusCode};
use anywire_server::Router;

use crate::support::h2::{Came, H2};

/// The head of a request with a body of three bytes that waits to be asked for.
fn asking(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
}

fn router() -> Router {
    Router::new()
        .post("/echo", async |body: Body| body)
        .post("/late", async |mut body: Body| {
            // Answers first, and reads while the answer streams.
            let (mut sender, answer) = Body::channel(1024);
            drop(anywire_loops::spawn(async move {
                sender.try_send("first ").expect("there is room");
                let rest = body.bytes(1024).await.expect("the peer sends it");
                sender.ready().await.expect("the peer reads");
                sender.try_send(rest).expect("there is room");
                sender.finish();
            }));
            answer
        })
        .post("/reads", async |body: String| body)
        .post("/refuses", async || (StatusCode::FORBIDDEN, "no"))
}

#[test]
fn an_answer_that_streams_is_not_cut_by_a_continue() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        for (path, expected) in [("/echo", "abc"), ("/late", "first abc")] {
            peer.send(asking(path));
            assert_eq!(peer.answer(false).status, 100);
            peer.send("abc");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.text(), answer.closes()), (200, expected, false));
        }
    });
}

#[test]
fn a_body_of_which_a_part_has_come_is_not_asked_for() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        // The second one answers before it has read.
        for (path, number) in [("/reads", 1), ("/echo", 2)] {
            let fields = "host: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked";
            peer.send(format!("POST {path} HTTP/1.1\r\n{fields}\r\n\r\n3"));
            served.await_count("requests", |counters| counters.requests, number);
            peer.send("\r\nabc\r\n0\r\n\r\n");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.text(), answer.closes()), (200, "abc", false), "{path}");
        }
    });
}

#[test]
fn a_body_that_comes_unasked_is_not_asked_for() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        for path in ["/echo", "/reads"] {
            peer.send(asking(path) + "abc");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.text(), answer.closes()), (200, "abc", false));
        }
    });
}

#[test]
fn a_body_that_nobody_reads_is_not_asked_for() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for (path, status) in [("/refuses", 403), ("/nowhere", 404)] {
            let mut peer = served.connect();
            peer.send(asking(path));
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.closes()), (status, true), "{path}");
            // Nothing tells whether these bytes are the announced body or a request, so they are neither.
            peer.send("GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n");
            peer.assert_closed();
        }
    });
}

/// What follows can be told apart from it.
#[test]
fn a_body_that_has_begun_keeps_the_connection_though_nobody_reads_it() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        for (path, status) in [("/refuses", 403), ("/nowhere", 404)] {
            peer.send(asking(path) + "ab");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.closes()), (status, false), "{path}");
            peer.send("c");
        }
    });
}

#[test]
fn a_1_0_client_is_never_told_to_continue() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    peer.send("POST /reads HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
    peer.send("abc");
    assert_eq!(peer.answer(false).text(), "abc");
}

/// A client that has waited long enough sends the body although nobody asked.
#[test]
fn a_body_that_has_begun_is_not_asked_for() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router().post("/begins", async |mut body: Body| {
            body.chunk().await.expect("the peer sends it").map_or(0, |chunk| chunk.len()).to_string()
        }));
        let mut peer = served.connect();
        for _ in 0..2 {
            peer.send(asking("/begins") + "ab");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.text(), answer.closes()), (200, "2", false));
            peer.send("c");
        }
    });
}

/// The field is a list, and may stand in several lines (RFC 9110 section 10.1.1).
#[test]
fn it_is_asked_for_among_others_in_each_version() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    let mut over_http2 = H2::connect(&served);
    for expect in
        [&["100-Continue"][..], &["100-continue, x"], &["x", "100-continue"], &["x ,\t100-continue"]]
    {
        let lines: String = expect.iter().map(|value| format!("expect: {value}\r\n")).collect();
        peer.send(format!("POST /reads HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n{lines}\r\n"));
        assert_eq!(peer.answer(false).status, 100, "{expect:?}");
        peer.send("abc");
        assert_eq!(peer.answer(false).text(), "abc");
        let fields: Vec<_> = expect.iter().map(|value| ("expect", *value)).collect();
        let id = over_http2.open("POST", "/reads", &fields, Some(3), false);
        let Came::Interim(_, 100, _) = over_http2.next() else { panic!("no 100 for {expect:?}") };
        over_http2.body(id, b"abc", true);
        assert_eq!(over_http2.answer(id).text(), "abc");
    }
}
