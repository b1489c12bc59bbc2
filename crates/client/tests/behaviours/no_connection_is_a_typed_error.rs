//! A dial that is refused, or a name that does not exist: the error says so, and that nothing was sent.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{OK, Peer, all, block_on, client, wire};
use anywire_client::connector::{Connecting, Connector, Direct, Target};
use anywire_client::{Error, Fault};

#[test]
fn refused() {
    let (_loops, client) = client(1, |builder| builder);
    // A port that was free a moment ago. The system does not give it out again soon.
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let error = block_on(client.get(format!("http://{address}/")).send()).expect_err("nobody listens");
    assert!(error.is_connect() && !error.may_have_been_processed() && !error.is_timeout(), "{error:?}");
    assert!(matches!(&error, Error::Connect { source, .. } if source.is_refused()), "{error:?}");
    assert_eq!(error.fault(), Fault::Wire);
    assert_eq!(client.counters().total().dial_failures, 1);
    let peer = Peer::answering(wire("tcp"), OK);
    block_on(client.get(peer.url("/")).send()).expect("other calls go on");
}

#[test]
fn a_name_that_does_not_exist() {
    let (_loops, client) = client(1, |builder| builder);
    let error = block_on(client.get("http://nobody.invalid/").send()).expect_err("RFC 6761 section 6.4");
    assert!(error.is_connect() && !error.may_have_been_processed(), "{error:?}");
    assert!(error.to_string().contains("nobody.invalid"), "{error}");
}

#[test]
fn each_of_many_waiting_calls_gets_the_error() {
    let (_loops, client) = client(2, |builder| builder);
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        calls.spawn_on(client.get(format!("http://{address}/")).send(), runtime.handle());
    }
    while let Some(call) = block_on(calls.join_next()) {
        assert!(call.expect("no panic").expect_err("nobody listens").is_connect());
    }
    let counters = client.counters().total();
    assert_eq!((counters.dial_failures, counters.waiting, counters.active), (100, 0, 0));
}

/// Panics at once, then from within, and then dials.
#[derive(Default)]
struct Panicking(AtomicUsize);

impl Connector for Panicking {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("no way"),
            1 => Box::pin(async { panic!("no way {}", "on") }),
            _ => Direct.connect(target),
        }
    }
}

/// Its call knows at once, and those behind it have dials of their own.
#[test]
fn a_connector_that_panics() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| {
        builder.connector(Panicking::default()).acquire_timeout(Duration::MAX).total_timeout(Duration::MAX)
    });
    let mut responses = all((0..3).map(|_| client.get(peer.url("/")).send()));
    responses.sort_by_key(Result::is_ok);
    for failed in &responses[..2] {
        let error = failed.as_ref().expect_err("a panic");
        assert!(matches!(error, Error::Connect { sent: false, .. }), "{error:?}");
        let chain = anywire_advice::Chain(error).to_string();
        assert!(chain.contains("no way"), "{chain}");
    }
    assert_eq!(responses[2].as_ref().expect("an answer").status(), 200);
    let counters = client.counters().total();
    assert_eq!((counters.dial_failures, counters.dialed, counters.waiting), (2, 1, 0));
}
