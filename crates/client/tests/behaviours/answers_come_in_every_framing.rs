//! Lengths, chunks, trailers, no body at all, and bodies that last until the peer closes.

use crate::support::{AnyWire, Peer, block_on, client, on_each_wire};
use anywire_http::{Method, Version};

/// Calls twice; the text of both answers, and how many connections that took.
fn twice(wire: AnyWire, method: &Method, answer: &'static str, closes: bool) -> (String, usize) {
    let peer = Peer::start(wire, move |mut talk| {
        while talk.request().is_some() {
            talk.say(answer);
            if closes {
                return;
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let call =
        || block_on(client.request(method.clone(), peer.url("/")).via(peer.via()).send()).expect("an answer");
    let text = block_on(call().text()).expect("a body");
    assert_eq!(block_on(call().text()).expect("a body"), text);
    (text, peer.accepted())
}

#[test]
fn framed_answers_leave_the_connection_to_the_next_call() {
    on_each_wire(|wire| {
        let same = |answer| twice(wire, &Method::GET, answer, false);
        assert_eq!(same("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"), ("hello".into(), 1));
        assert_eq!(same("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), ("".into(), 1));
        assert_eq!(same("HTTP/1.1 204 No Content\r\n\r\n"), ("".into(), 1));
        assert_eq!(same("HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n"), ("".into(), 1));
        assert_eq!(
            same("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
            ("hello".into(), 1)
        );
        assert_eq!(
            same(
                "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
            ),
            ("ok".into(), 1)
        );
        assert_eq!(
            same("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok"),
            ("ok".into(), 1)
        );
        let head = twice(wire, &Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", false);
        assert_eq!(head, ("".into(), 1));
    });
}

#[test]
fn answers_that_end_the_connection_are_the_last_on_it() {
    on_each_wire(|wire| {
        let until_close = |answer| twice(wire, &Method::GET, answer, true);
        assert_eq!(until_close("HTTP/1.1 200 OK\r\n\r\nto the end"), ("to the end".into(), 2));
        assert_eq!(until_close("HTTP/1.0 200 OK\r\n\r\nold"), ("old".into(), 2));
        // These are framed, or have no body, so it is the client that has to close.
        let framed = |answer| twice(wire, &Method::GET, answer, false);
        assert_eq!(framed("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nold"), ("old".into(), 2));
        assert_eq!(
            framed("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"),
            ("ok".into(), 2)
        );
    });
}

#[test]
fn the_version_and_the_fields_are_the_peers() {
    on_each_wire(|wire| {
        let peer = Peer::answering(
            wire,
            "HTTP/1.0 404 Nothing Here\r\nX-One: a\r\nx-one: b\r\ncontent-length: 0\r\n\r\n",
        );
        let (_loops, client) = client(1, |builder| builder);
        let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.version()), (404, Version::HTTP_10));
        let all: Vec<_> = answer.headers().get_all("x-one").collect();
        assert_eq!(all, [b"a", b"b"]);
        let converted = http::Response::try_from(answer).expect("convertible");
        assert_eq!((converted.status().as_u16(), converted.version()), (404, Version::HTTP_10));
    });
}

#[test]
fn folds_and_statuses_of_no_class_are_read() {
    on_each_wire(|wire| {
        let answer = "HTTP/1.1 799 Odd\r\nx-long: one\r\n two\r\ncontent-length: 2\r\n\r\nok";
        let peer = Peer::answering(wire, answer);
        let (_loops, client) = client(1, |builder| builder);
        for _ in 0..2 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(answer.status().as_u16(), 799);
            assert_eq!(answer.headers().get("x-long"), Some("one two"));
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn trailers_follow_a_chunked_body() {
    on_each_wire(|wire| {
        let small = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n";
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                match request.head.path() {
                    "/small" => talk.say(small),
                    _ => {
                        talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
                        for _ in 0..100 {
                            talk.say(format!("1000\r\n{}\r\n", "x".repeat(0x1000)));
                        }
                        talk.say("0\r\nx-sum: 7\r\n\r\n");
                    }
                }
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for (path, length) in [("/small", 2), ("/large", 100 * 0x1000), ("/small", 2)] {
            let mut answer = block_on(client.get(peer.url(path)).via(peer.via()).send()).expect("an answer");
            let mut read = 0;
            while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
                read += chunk.len();
            }
            assert_eq!(read, length, "{path}");
            assert_eq!(answer.trailers().and_then(|trailers| trailers.get("x-sum")), Some("7"), "{path}");
        }
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn an_answer_in_single_bytes_is_the_same_answer() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while talk.request().is_some() {
                for byte in
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".bytes()
                {
                    talk.say([byte]);
                }
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for _ in 0..2 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        assert_eq!(peer.accepted(), 1);
    });
}
