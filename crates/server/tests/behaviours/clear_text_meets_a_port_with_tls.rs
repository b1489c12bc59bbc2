//! A peer that speaks clear text to a port with TLS is told so, or served if the server allows it.
#![cfg(feature = "tls")]

use std::net::TcpStream;

use crate::support::{Peer, Scene, Served, trial};
use anywire_server::{Router, TlsInfo};
use anywire_wire::tls::{ServerTls, ServerTlsOptions};

fn serve(takes_clear_text: bool) -> Served {
    let options = ServerTlsOptions {
        identities: vec![trial::identity()],
        takes_clear_text,
        ..ServerTlsOptions::default()
    };
    let router = Router::new().get("/", async |tls: Option<TlsInfo>| match tls {
        Some(_) => "TLS",
        None => "clear text",
    });
    Scene::at("tls:127.0.0.1:0").serve_tls(router, &ServerTls::new(options).expect("a certificate"))
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[test]
fn it_is_told_to_use_https() {
    let served = serve(false);
    let mut peer = served.connect_tcp();
    peer.send(REQUEST);
    let answer = peer.answer(false);
    assert_eq!((answer.status, answer.text()), (400, "this port speaks TLS: use https://\n"));
    assert!(answer.closes() && answer.header("date").is_some(), "{}", answer.head);
    // In order: a reset could overtake the answer.
    assert_eq!(peer.rest_and_end(), (Vec::new(), true));
    drop(peer);
    served.await_count("failed handshakes", |counters| counters.failed_handshakes, 1);
    served.await_count("peers without TLS", |counters| counters.clear_text_peers, 1);
    assert_eq!(served.running.counters().connections, 0, "it is no connection of HTTP");
}

#[test]
fn a_client_of_http2_is_told_so_in_frames() {
    let served = serve(false);
    let mut peer = served.connect_tcp();
    peer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let (frames, is_in_order) = peer.rest_and_end();
    // Empty settings, and GOAWAY: stream 0 was the last one, INADEQUATE_SECURITY, and the reason for a person.
    let head = b"\0\0\0\x04\0\0\0\0\0\0\0\x2a\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0c";
    assert!(frames.starts_with(head) && is_in_order, "{frames:?}");
    assert_eq!(&frames[head.len()..], b"this port speaks TLS: use https://");
    drop(peer);
    served.await_count("failed handshakes", |counters| counters.failed_handshakes, 1);
    served.await_count("peers without TLS", |counters| counters.clear_text_peers, 1);
}

/// Another fault of a handshake is not counted as clear text.
#[test]
fn what_only_begins_as_tls_is_another_failure() {
    let served = serve(false);
    let mut peer = served.connect_tcp();
    // A record of a handshake that holds no message of one.
    peer.send([22, 3, 1, 0, 4, 255, 255, 255, 255]);
    drop(peer.rest_and_end());
    drop(peer);
    served.await_count("failed handshakes", |counters| counters.failed_handshakes, 1);
    assert_eq!(served.running.counters().clear_text_peers, 0);
}

#[test]
fn one_port_serves_both_if_it_is_told_to() {
    let served = serve(true);
    let mut clear: Peer<TcpStream> = served.connect_tcp();
    let mut secure = served.connect();
    for _ in 0..2 {
        clear.send(REQUEST);
        assert_eq!(clear.answer(false).text(), "clear text");
        secure.send(REQUEST);
        assert_eq!(secure.answer(false).text(), "TLS");
    }
    // HTTP/2 with prior knowledge: the engine's answer begins with its SETTINGS.
    let mut preface = served.connect_tcp();
    preface.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let head = preface.read_exactly(9);
    assert_eq!((head[3], head[4]), (4, 0), "{head:?}");
}
