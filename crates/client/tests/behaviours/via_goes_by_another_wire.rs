//! `via` says the wire; the URL still says host and path.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use crate::support::{OK, Peer, block_on, client, wire};
use anywire_client::Error;
use anywire_wire::{Address, ListenOptions, Listener};

#[test]
fn a_unix_socket_carries_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (report, heads) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut seen = Vec::new();
        loop {
            let mut piece = [0; 1024];
            match std::io::Read::read(&mut stream, &mut piece) {
                Ok(0) | Err(_) => return,
                Ok(count) => seen.extend_from_slice(&piece[..count]),
            }
            if seen.ends_with(b"\r\n\r\n") {
                let _ = report.send(String::from_utf8(std::mem::take(&mut seen)).expect("text"));
                let _ = stream.write_all(OK.as_bytes());
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let address: Address = format!("unix:{}", path.display()).parse().expect("an address");
    for _ in 0..2 {
        let answer =
            block_on(client.get("http://shop.example/orders").via(&address).send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        let head = heads.recv().expect("a request");
        assert!(head.starts_with("GET /orders HTTP/1.1\r\nhost: shop.example\r\n"), "{head}");
    }
    assert_eq!(client.counters().total().dialed, 1);
}

#[test]
fn the_wire_in_memory_carries_calls_without_a_kernel() {
    let (loops, client) = client(2, |builder| builder);
    let address: Address = "memory:orders".parse().expect("an address");
    let listener = Listener::bind(&address, &ListenOptions::default(), &loops).expect("a free name");
    let serving = listener.serve(|mut connection| {
        drop(anywire_loops::spawn(async move {
            let mut bytes = [0; 4096];
            while connection.read(&mut bytes).await.is_ok_and(|count| count > 0) {
                connection.write_all(OK.as_bytes()).await.expect("a client that reads");
            }
        }));
    });
    for _ in 0..10 {
        let answer = block_on(client.get("http://shop/").via("memory:orders").send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
    }
    // One connection for each loop that calls went to.
    assert_eq!(client.counters().total().dialed, 2);
    serving.stop();
    let error = block_on(client.get("http://shop/").via("memory:nobody").send()).expect_err("nobody listens");
    assert!(error.is_connect(), "{error:?}");
}

#[test]
fn pools_are_told_apart_by_wire() {
    let (one, two) = (Peer::answering(wire("tcp"), OK), Peer::answering(wire("tcp"), OK));
    let (_loops, client) = client(1, |builder| builder);
    let via = two.via().to_string();
    block_on(client.get(one.url("/")).send()).expect("an answer");
    block_on(client.get(one.url("/")).via(&via).send()).expect("an answer");
    block_on(client.get(one.url("/")).send()).expect("an answer");
    assert_eq!((one.accepted(), two.accepted()), (1, 1));
    assert_eq!(client.counters().total().dialed, 2);
}

#[test]
fn a_bad_address_and_a_missing_socket_are_typed() {
    let (_loops, client) = client(1, |builder| builder);
    let error =
        block_on(client.get("http://h/").via("carrier-pigeon:roof").send()).expect_err("no such wire");
    assert!(matches!(error, Error::Via { .. }), "{error:?}");
    let error =
        block_on(client.get("http://h/").via("unix:/nobody/here.sock").send()).expect_err("no such file");
    assert!(error.is_connect() && !error.may_have_been_processed(), "{error:?}");
}
