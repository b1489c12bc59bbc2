//! An error about the answer's status or its JSON names the URL and the status.

use crate::support::{Peer, block_on, client, on_each_wire};
use anywire_client::{Error, Fault};
use anywire_http::BodyError;

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_status_of_an_error_becomes_one() {
    on_each_wire(|wire| {
        for (status, fault) in [
            ("404 Not Found", Some(Fault::Caller)),
            ("503 Service Unavailable", Some(Fault::Peer)),
            ("302 Found", None),
        ] {
            let answer = answer(status, "sorry").leak();
            let peer = Peer::answering(wire, answer);
            let (_loops, client) = client(1, |builder| builder);
            let call = client.get(peer.url("/x")).query(&[("a", "1")]).via(peer.via());
            let response = block_on(call.send()).expect("a status is no error by itself");
            assert_eq!(response.url(), &*peer.url("/x?a=1"));
            let Err(error) = response.error_for_status() else {
                assert_eq!(fault, None);
                continue;
            };
            assert_eq!(Some(error.fault()), fault);
            assert_eq!(error.status().map(|status| status.as_u16()), status[..3].parse().ok());
            let text = error.to_string();
            assert!(text.contains(&peer.url("/x?a=1")) && text.contains(status), "{text}");
            assert!(error.may_have_been_processed());
        }
    });
}

#[test]
fn a_body_that_is_no_json_is_shown_with_status_and_url() {
    on_each_wire(|wire| {
        let whole = answer("502 Bad Gateway", "<html>");
        // More than is read ahead, so that it comes as a stream.
        let streamed = answer("502 Bad Gateway", &format!("<html>{}", " ".repeat(1 << 18)));
        for answer in [whole, streamed] {
            let peer = Peer::answering(wire, answer.leak());
            let (_loops, client) = client(1, |builder| builder);
            let response = block_on(client.get(peer.url("/y")).via(peer.via()).send()).expect("an answer");
            let error = block_on(response.json::<u64>()).expect_err("no JSON");
            assert!(matches!(error, Error::JsonResponse { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&peer.url("/y")) && text.contains("502 Bad Gateway"), "{text}");
            assert!(text.contains("<html>"), "{text}");
        }
    });
}

#[test]
fn a_body_that_is_coded_is_no_text_and_no_json() {
    on_each_wire(|wire| {
        for (fields, coding) in [
            ("content-encoding: gzip", "gzip"),
            ("content-encoding: identity, br\r\ncontent-encoding: GZip", "br, GZip"),
        ] {
            let answer =
                format!("HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: 3\r\n\r\n\u{1f}\u{8b}").leak();
            let peer = Peer::answering(wire, answer);
            let (_loops, client) = client(1, |builder| builder);
            let ask = || block_on(client.get(peer.url("/z")).via(peer.via()).send()).expect("an answer");
            for error in [
                block_on(ask().text()).expect_err("no text"),
                block_on(ask().json::<u8>()).expect_err("no JSON"),
            ] {
                assert!(matches!(&error, Error::Coded { coding: found, .. } if found == coding), "{error:?}");
                let text = error.to_string();
                assert!(text.contains(&peer.url("/z")) && text.contains("bytes()"), "{text}");
            }
            assert_eq!(block_on(ask().bytes()).expect("bytes").len(), 3);
        }
        let identity = "HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 1\r\n\r\n7";
        let empty = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n";
        for (answer, text) in [(identity, "7"), (empty, "")] {
            let peer = Peer::answering(wire, answer);
            let (_loops, client) = client(1, |builder| builder);
            let response = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(response.text()).expect("not coded"), text);
        }
    });
}

#[test]
fn a_body_that_is_no_text_is_the_fault_of_the_peer() {
    on_each_wire(|wire| {
        // The larger one comes as a stream.
        for len in [4, 1 << 18] {
            let peer = Peer::start(wire, move |mut talk| {
                talk.request();
                talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n"));
                talk.say(vec![0xff; len]);
                talk.wait_for_end();
            });
            let (_loops, client) = client(1, |builder| builder);
            let response = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("a response");
            let error = block_on(response.text()).expect_err("no text");
            assert!(matches!(error, Error::Body(BodyError::Text(_))), "{error:?}");
            assert_eq!((error.fault(), error.may_have_been_processed()), (Fault::Peer, true));
        }
    });
}
