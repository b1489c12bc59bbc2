//! A TLS stream that ends without its `close_notify` is no end of a message, and between messages no error.
#![cfg(feature = "tls")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::support::h2::H2;
use crate::support::remote::dialling;
use crate::support::{Peer, Remote, Scene, Served};
use anywire_http::Body;
use anywire_server::{Counters, Router};
use anywire_wire::DialOptions;

/// Sits between a peer and a server, and can end the connection below TLS, as an attacker can.
struct Cutter {
    to_server: TcpStream,
}

impl Cutter {
    /// Connects through it.
    fn connect(served: &Served, protocols: &[&str]) -> (Self, Remote) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("tls:{}", listener.local_addr().expect("it listens"));
        let to_server = TcpStream::connect(served.address.location()).expect("the server listens");
        let server = to_server.try_clone().expect("a descriptor");
        thread::spawn(move || {
            let (peer, _) = listener.accept().expect("the peer connects");
            let (from_peer, from_server) = (peer.try_clone(), server.try_clone());
            thread::spawn(move || copy(from_peer.expect("a descriptor"), &server));
            copy(from_server.expect("a descriptor"), &peer);
        });
        let protocols = protocols.iter().map(|&protocol| protocol.to_owned()).collect();
        let options = DialOptions { protocols, ..dialling() };
        let address = address.parse().expect("an address");
        (Self { to_server }, Remote::try_dial_with(&address, options).expect("the server listens"))
    }

    /// The server reads the end of the connection, and no end of the stream of TLS.
    fn cut(&self) {
        self.to_server.shutdown(Shutdown::Write).expect("it is open");
    }
}

fn copy(mut from: TcpStream, mut to: &TcpStream) {
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut part)
        && to.write_all(&part[..read]).is_ok()
    {}
}

/// A server that tells when a handler has the first bytes of a body, and how the body ends.
fn serve() -> (Served, crate::support::Told<String>) {
    let (tells, told) = crate::support::channel();
    let router = Router::new().get("/", async || "ok").post("/", move |mut body: Body| {
        let tells = tells.clone();
        async move {
            // On after the handler: it is dropped with its connection.
            drop(anywire_loops::spawn(async move {
                loop {
                    let said = match body.chunk().await {
                        Ok(Some(chunk)) => format!("{} bytes", chunk.len()),
                        Err(error) => format!("broken: {error}"),
                        Ok(None) => "whole".to_owned(),
                    };
                    let is_over = !said.ends_with("bytes");
                    let _ = tells.send(said);
                    if is_over {
                        return;
                    }
                }
            }));
            std::future::pending::<()>().await;
        }
    });
    (Scene::at("tls:127.0.0.1:0").serve(router), told)
}

fn open(counters: &Counters) -> u64 {
    counters.connections_open
}

#[test]
fn an_idle_connection_just_closes() {
    let (served, _told) = serve();
    let (cutter, link) = Cutter::connect(&served, &["http/1.1"]);
    let mut peer = Peer::new(link);
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    cutter.cut();
    served.await_count("connections", open, 0);

    let (cutter, link) = Cutter::connect(&served, &["h2"]);
    let mut peer = H2::over(link, anywire_http::h2::Limits::default());
    let id = peer.get("/");
    assert_eq!(peer.answer(id).text(), "ok");
    cutter.cut();
    served.await_count("connections", open, 0);
    assert_eq!(served.running.counters().wire_errors, 0, "nothing was lost");
}

#[test]
fn a_body_that_was_cut_is_not_whole() {
    let framings = ["content-length: 9\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"];
    for (framing, errors) in framings.iter().zip(1..) {
        let (served, told) = serve();
        for count in 1..=errors {
            let (cutter, link) = Cutter::connect(&served, &["http/1.1"]);
            let mut peer = Peer::new(link);
            peer.send(format!("POST / HTTP/1.1\r\nhost: x\r\n{framing}"));
            assert_eq!(told.next(), "5 bytes", "{framing}");
            cutter.cut();
            let end = told.next();
            assert!(end.starts_with("broken: "), "{framing}: {end}");
            served.await_count("wire errors", |counters| counters.wire_errors, count);
            served.await_count("connections", open, 0);
        }
    }
}

#[test]
fn a_stream_that_was_cut_is_not_whole() {
    let (served, told) = serve();
    let (cutter, link) = Cutter::connect(&served, &["h2"]);
    let mut peer = H2::over(link, anywire_http::h2::Limits::default());
    let id = peer.open("POST", "/", &[], None, false);
    peer.body(id, b"hello", false);
    assert_eq!(told.next(), "5 bytes");
    cutter.cut();
    let end = told.next();
    assert!(end.starts_with("broken: "), "{end}");
    served.await_count("wire errors", |counters| counters.wire_errors, 1);
    served.await_count("abandoned", |counters| counters.abandoned, 1);
}
