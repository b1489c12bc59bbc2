//! Connections of HTTP/2 and their calls: as few connections as the calls need, never more streams than the peer takes or
//! the client is to open, and calls beyond that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, mpsc};

use crate::support::bytes_of_http2::RST_STREAM;
use crate::support::simulated::Simulated;
use crate::support::{AnyWire, Peer, all, block_on, client_of_http2, eventually, on_each_wire, poll_once};
use anywire_client::connector::{Connecting, Connector, Target};
use anywire_client::{ClientBuilder, Error, Limits, Phase};
use anywire_http::h2::{self, Code};
use anywire_wire::{Address, DialError, Dialer};

#[test]
fn calls_beyond_the_peers_limit_wait() {
    on_each_wire(|wire| {
        // Two streams at a time, which it says late: the first calls may be refused.
        let settings = &[0, 3, 0, 0, 0, 2];
        let (report, most) = mpsc::channel();
        let peer = Peer::of_http2_with(wire, settings, move |mut frames, _| {
            let mut open = Vec::new();
            while let Some(stream) = frames.request() {
                if open.len() == 2 {
                    frames.say(RST_STREAM, 0, stream, &Code::REFUSED_STREAM.0.to_be_bytes());
                    continue;
                }
                open.push(stream);
                let _ = report.send(open.len());
                if open.len() == 2 {
                    open.drain(..).for_each(|stream| frames.answer(stream));
                }
            }
        });
        let limits = Limits { connections_per_origin: 1, ..Limits::default() };
        let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
        let call = async || client.post(peer.url("/")).via(peer.via()).send().await?.text().await;
        for answer in all((0..40).map(|_| call())) {
            assert_eq!(answer.expect("an answer"), "ok");
        }
        assert_eq!(most.try_iter().max(), Some(2));
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.waiting), (1, 0));
    });
}

/// Answers each request when the test lets it, and those that come later at once.
fn held(wire: AnyWire) -> (Peer, impl FnOnce()) {
    let gate = std::sync::Arc::new((Mutex::new(false), Condvar::new()));
    let held = gate.clone();
    let peer = Peer::of_http2(wire, move |mut frames, _| {
        // Several are to be answered at once, so they are read first.
        while let Some(stream) = frames.request() {
            let (open, opened) = &*held;
            drop(opened.wait_while(open.lock().expect("no panic"), |open| !*open).expect("no panic"));
            frames.answer(stream);
        }
    });
    let open = move || {
        *gate.0.lock().expect("no panic") = true;
        gate.1.notify_all();
    };
    (peer, open)
}

fn limits(connections: usize, streams: usize, queue: usize) -> impl FnOnce(ClientBuilder) -> ClientBuilder {
    let http2 = h2::Limits { streams, ..Limits::default().http2 };
    let limits =
        Limits { connections_per_origin: connections, queue_per_origin: queue, http2, ..Limits::default() };
    let long = crate::support::HANG;
    move |builder| builder.limits(limits).acquire_timeout(long).read_timeout(long)
}

#[test]
fn one_more_connection_is_dialled_when_the_others_are_full() {
    on_each_wire(|wire| {
        let (peer, open) = held(wire);
        let (_loops, client) = client_of_http2(limits(3, 2, 16));
        let mut calls = Vec::new();
        for number in 1..=8u64 {
            let mut call = client.get(peer.url("/")).via(peer.via()).send();
            assert!(poll_once(&mut call).is_pending());
            calls.push(call);
            let (active, waiting) = (number.div_ceil(2).min(3), number.saturating_sub(6));
            eventually("it is placed", || {
                let counters = client.counters().total();
                (counters.active, counters.waiting, counters.requests) == (active, waiting, number)
            });
        }
        open();
        for call in calls {
            assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), "ok");
        }
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.idle, counters.waiting), (3, 3, 0));
    });
}

#[test]
fn a_burst_needs_one_connection() {
    on_each_wire(|wire| {
        let (peer, open) = held(wire);
        let (_loops, client) = client_of_http2(limits(8, 100, 200));
        let mut calls: Vec<_> = (0..100).map(|_| client.get(peer.url("/")).via(peer.via()).send()).collect();
        assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()));
        open();
        for call in calls {
            assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), "ok");
        }
        assert_eq!(client.counters().total().dialed, 1);
    });
}

#[test]
fn the_queue_is_exact() {
    on_each_wire(|wire| {
        let (peer, open) = held(wire);
        let (_loops, client) = client_of_http2(limits(1, 3, 2));
        let place = |count: usize| {
            let mut calls: Vec<_> =
                (0..count).map(|_| client.get(peer.url("/")).via(peer.via()).send()).collect();
            assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()));
            calls
        };
        let first = place(1);
        eventually("it has a connection", || client.counters().total().active == 1);
        let more = place(4);
        eventually("two wait", || client.counters().total().waiting == 2);
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no room");
        assert!(matches!(error, Error::QueueFull { connections: 1, queue: 2, .. }), "{error:?}");
        assert_eq!(error.phase(), Some(Phase::Acquire));
        open();
        for call in first.into_iter().chain(more) {
            assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), "ok");
        }
        assert_eq!(client.counters().total().queue_full, 1);
    });
}

/// How many calls it takes, a peer says last. Calls that wait are then given to it, though their own dials would be beyond the cap.
#[test]
fn a_connection_takes_what_waits_once_its_peer_has_said_how_much() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.greet(&[]).await;
        let (Some(first), Some(second)) = (line.request().await, line.request().await) else { return };
        line.answer(first).await;
        line.answer(second).await;
        line.wait_for_end().await;
    });
    let road = FailsOnce(peer.via().clone(), AtomicBool::new(false));
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let client = scene.client(|builder| builder.http2_prior_knowledge().limits(limits).connector(road));
    scene.run(async move || {
        let calls: Vec<_> =
            (0..3).map(|_| anywire_loops::spawn(client.get("http://peer.example/").send())).collect();
        let mut failed = 0;
        for call in calls {
            match call.await.expect("no panic") {
                Ok(response) => assert_eq!(response.status(), 200),
                Err(error) => {
                    assert!(error.is_connect(), "{error:?}");
                    failed += 1;
                }
            }
        }
        assert_eq!((failed, client.counters().total().dialed), (1, 1));
    });
}

/// A way to a peer whose first dial fails.
struct FailsOnce(Address, AtomicBool);

impl Connector for FailsOnce {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            if !self.1.swap(true, Ordering::SeqCst) {
                return Err(DialError::Refused { address: self.0.clone() }.into());
            }
            Ok(Dialer::default().dial(&self.0).await?)
        })
    }
}
