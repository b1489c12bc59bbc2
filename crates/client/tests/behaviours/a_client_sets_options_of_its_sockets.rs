//! The sockets of a client have its options, also those that lead to a proxy, and come from the address that it names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anywire_client::Error;
use anywire_wire::{SocketHook, SocketOptions};

use crate::support::{OK, Peer, block_on, client, wire};

#[test]
fn a_client_sets_options_of_its_sockets() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while talk.request().is_some() {
            let from = talk.with(async |connection| connection.peer().ip()).flatten();
            assert_eq!(from, Some("127.0.0.7".parse().expect("an address")));
            talk.say(OK);
        }
    });
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let hook = SocketHook::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let socket = SocketOptions { hook: Some(hook), ..SocketOptions::default() };
    let from = "127.0.0.7".parse().expect("an address");
    let (_loops, client) = client(1, |builder| builder.socket(socket).local_address(from));
    for _ in 0..2 {
        assert_eq!(block_on(client.get(peer.url("/")).send()).expect("an answer").status(), 200);
    }
    let proxied = client.get("http://origin.example/").proxy(format!("http://{}", peer.via().location()));
    assert_eq!(block_on(proxied.send()).expect("an answer").status(), 200);
    assert_eq!(seen.load(Ordering::Relaxed), 2, "one a connection");
}

#[test]
fn an_option_that_is_refused_is_named_by_the_call() {
    let peer = Peer::answering(wire("tcp"), OK);
    let socket = SocketOptions { interface: Some("no-such-name-0".to_owned()), ..SocketOptions::default() };
    let (_loops, client) = client(1, |builder| builder.socket(socket).retries(0));
    let error = block_on(client.get(peer.url("/")).send()).expect_err("no interface");
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    let text = anywire_advice::Chain(&error).to_string();
    assert!(text.contains("the socket option `interface` is refused"), "{text}");
}
