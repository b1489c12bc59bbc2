//! 1000 callers from outside, a cap of 8 and a queue of 16: never more than 8 connections, 976 refused at once.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::support::{OK, Peer, all, block_on, client, on_each_wire, wire};
use anywire_client::{ClientBuilder, Error, Fault, Limits};

#[test]
fn no_call_beyond_cap_and_queue_waits() {
    on_each_wire(|wire| {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let peer = Peer::start(wire, {
            let gate = gate.clone();
            move |mut talk| {
                while talk.request().is_some() {
                    let (open, opened) = &*gate;
                    drop(opened.wait_while(open.lock().expect("no panic"), |open| !*open).expect("no panic"));
                    talk.say(OK);
                }
            }
        });
        // Where there are fewer connections than loops, some loops have none, and no place in the queue.
        for (loops, cap) in [(1, 8), (2, 8), (3, 8), (3, 2)] {
            *gate.0.lock().expect("no panic") = false;
            let (_loops, client) = client(loops, |builder| {
                let limits =
                    Limits { connections_per_origin: cap, queue_per_origin: 16, ..Limits::default() };
                let long = Duration::from_secs(60);
                builder.limits(limits).acquire_timeout(long).read_timeout(long)
            });
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..1000 {
                calls.spawn_on(client.get(peer.url("/")).via(peer.via()).send(), runtime.handle());
            }
            let refused = 1000 - cap - 16;
            for _ in 0..refused {
                let error = block_on(calls.join_next())
                    .expect("calls are left")
                    .expect("no panic")
                    .expect_err("refused");
                // The limits as the user set them, not the share of one loop.
                let Error::QueueFull { connections, queue, .. } = error else { panic!("{error}") };
                assert_eq!((connections, queue), (cap, 16));
                assert_eq!(error.fault(), Fault::Limit);
                assert!(!error.may_have_been_processed() && !error.is_timeout());
            }
            let counters = client.counters().total();
            assert_eq!((counters.requests, counters.queue_full), (1000, refused as u64));
            *gate.0.lock().expect("no panic") = true;
            gate.1.notify_all();
            while let Some(call) = block_on(calls.join_next()) {
                assert_eq!(call.expect("no panic").expect("an answer").status(), 200);
            }
            let counters = client.counters().total();
            assert_eq!((counters.resent, counters.waiting, counters.active), (0, 0, 0));
            assert!(counters.dialed <= cap as u64, "{counters:?}");
            block_on(client.shutdown(Duration::from_secs(5)));
        }
        assert!(peer.accepted() <= 3 * 8 + 2, "{} connections in four rounds", peer.accepted());
    });
}

/// A gate that scripts wait at.
type Barrier = Arc<(Mutex<bool>, Condvar)>;

fn pass(gate: &Barrier) {
    let (open, opened) = &**gate;
    drop(opened.wait_while(open.lock().expect("no panic"), |open| !*open).expect("no panic"));
}

/// 1000 callers of this URL, at a cap of 8 connections with one call each, and 16 that wait.
fn thousand_at_eight(
    gate: &Barrier,
    peer: &Peer,
    url: &str,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
) {
    let mut limits = Limits { connections_per_origin: 8, queue_per_origin: 16, ..Limits::default() };
    limits.http2.streams = 1;
    let long = Duration::from_secs(60);
    let (_loops, client) =
        client(2, |builder| options(builder.limits(limits).acquire_timeout(long).read_timeout(long)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        calls.spawn_on(client.get(url).send(), runtime.handle());
    }
    for _ in 0..1000 - 8 - 16 {
        let call = block_on(calls.join_next()).expect("calls are left").expect("no panic");
        assert!(matches!(call, Err(Error::QueueFull { connections: 8, queue: 16, .. })), "{call:?}");
    }
    // Else those that are made first may have all calls behind them before the last ones are there.
    crate::support::eventually("all connections are made", || client.counters().total().dialed == 8);
    *gate.0.lock().expect("no panic") = true;
    gate.1.notify_all();
    while let Some(call) = block_on(calls.join_next()) {
        assert_eq!(call.expect("no panic").expect("an answer").status(), 200);
    }
    let counters = client.counters().total();
    assert_eq!((counters.queue_full, counters.waiting, counters.active), (976, 0, 0), "{counters:?}");
    assert_eq!((counters.dialed, peer.accepted(), peer.most_open()), (8, 8, 8));
}

#[test]
fn over_http2_no_call_beyond_cap_and_queue_waits() {
    let mut schemes = vec!["tcp"];
    if cfg!(feature = "tls") {
        schemes.push("tls");
    }
    for scheme in schemes {
        let gate = Barrier::default();
        let passed = Arc::clone(&gate);
        let peer = Peer::of_http2(wire(scheme), move |mut frames, _| {
            while let Some(stream) = frames.request() {
                pass(&passed);
                frames.answer(stream);
            }
        });
        // Over TLS the handshake agrees on it.
        let url = peer.url("/").replace("127.0.0.1", "localhost");
        thousand_at_eight(&gate, &peer, &url, |builder| match scheme {
            "tcp" => builder.http2_prior_knowledge(),
            _ => builder,
        });
    }
}

/// As many calls as connections take at a time are under way together.
#[test]
fn over_http2_a_thousand_share_the_connections_that_there_may_be() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    let limits = Limits { connections_per_origin: 8, ..Limits::default() };
    let (_loops, client) = client(2, |builder| builder.http2_prior_knowledge().limits(limits));
    for response in all((0..1000).map(|_| client.get(peer.url("/")).send())) {
        assert_eq!(response.expect("an answer").status(), 200);
    }
    let counters = client.counters().total();
    assert_eq!((counters.requests, counters.queue_full), (1000, 0));
    assert!(counters.dialed <= 8 && peer.most_open() <= 8, "{counters:?}");
}

#[test]
fn through_a_proxy_no_call_beyond_cap_and_queue_waits() {
    let gate = Barrier::default();
    let passed = Arc::clone(&gate);
    let proxy = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            assert_eq!(request.head.target(), "http://origin.example/");
            pass(&passed);
            talk.say(OK);
        }
    });
    let at = format!("http://{}", proxy.via().location());
    thousand_at_eight(&gate, &proxy, "http://origin.example/", |builder| builder.proxy(at));
}

#[cfg(feature = "tls")]
#[test]
fn through_tunnels_no_call_beyond_cap_and_queue_waits() {
    let gate = Barrier::default();
    let passed = Arc::clone(&gate);
    let proxy = Peer::start(wire("tcp"), move |mut talk| {
        assert_eq!(talk.request_head().target(), "peer.example:443");
        talk.say("HTTP/1.1 200 Here\r\n\r\n");
        talk.secure().expect("a client that trusts");
        while talk.request().is_some() {
            pass(&passed);
            talk.say(OK);
        }
    });
    let at = format!("http://{}", proxy.via().location());
    thousand_at_eight(&gate, &proxy, "https://peer.example/", |builder| builder.proxy(at));
}

/// Until a handshake has said which version an origin speaks, its calls gather on one loop. The others have room for what is too much
/// for its share of the queue.
#[cfg(feature = "tls")]
#[test]
fn before_the_version_is_known_no_call_is_refused_while_a_loop_has_room() {
    for loops in [1, 2, 3] {
        let own = anywire_loops::Loops::start(1).expect("loops start");
        let peer = Peer::start_with(&own, wire("tls"), &["http/1.1"], |mut talk| {
            while talk.request().is_some() {
                talk.say(OK);
            }
        });
        let book = crate::support::names::Book::new();
        let port = peer.via().port().expect("TCP has ports");
        book.set("one.example", &[([127, 0, 0, 1], port).into()]);
        book.open(false);
        let (_loops, client) = client(loops, |builder| {
            let limits = Limits { connections_per_origin: 8, queue_per_origin: 16, ..Limits::default() };
            let long = Duration::from_secs(60);
            builder.limits(limits).resolver(book.clone()).resolve_timeout(long).acquire_timeout(long)
        });
        let call = || client.get("https://one.example/").send();
        let mut calls: Vec<_> = (0..8 + 16).map(|_| call()).collect();
        for call in &mut calls {
            assert!(crate::support::poll_once(call).is_pending());
        }
        crate::support::eventually("all of them wait", || client.counters().total().waiting == 8 + 16);
        let error = block_on(call()).expect_err("each loop has its share");
        assert!(matches!(error, Error::QueueFull { connections: 8, queue: 16, .. }), "{error:?}");
        book.open(true);
        for response in all(calls) {
            assert_eq!(response.expect("an answer").status(), 200);
        }
        let counters = client.counters().total();
        assert_eq!((counters.queue_full, counters.waiting, counters.requests), (1, 0, 8 + 16 + 1));
        assert!(peer.most_open() <= 8, "{} connections", peer.most_open());
    }
}

#[test]
fn with_fewer_connections_than_loops_the_owners_serve_all() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (loops, client) = client(3, |builder| {
            builder.limits(Limits { connections_per_origin: 1, queue_per_origin: 256, ..Limits::default() })
        });
        let tasks: Vec<_> = loops
            .iter()
            .map(|one| {
                let (client, url, via) = (client.clone(), peer.url("/"), peer.via().clone());
                one.spawn(move || async move {
                    for _ in 0..20 {
                        client.get(&url).via(&via).send().await.expect("an answer");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.wait().expect("the task ends");
        }
        assert_eq!(peer.accepted(), 1);
        let requests: Vec<_> = client.counters().per_loop.iter().map(|one| one.requests).collect();
        assert_eq!(requests, [60, 0, 0]);
    });
}

#[test]
fn a_call_that_waits_too_long_leaves_the_queue() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request();
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| {
            let limits = Limits { connections_per_origin: 1, queue_per_origin: 1, ..Limits::default() };
            builder.limits(limits).acquire_timeout(Duration::from_millis(100))
        });
        let mut first = client.get(peer.url("/")).via(peer.via()).send();
        assert!(crate::support::poll_once(&mut first).is_pending());
        crate::support::eventually("the first call has the connection", || {
            client.counters().total().active == 1
        });
        let error =
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("the connection is busy");
        assert!(error.is_timeout() && !error.may_have_been_processed(), "{error}");
        assert_eq!(error.phase(), Some(anywire_client::Phase::Acquire));
        assert_eq!(client.counters().total().waiting, 0);
    });
}

#[test]
fn no_origin_beyond_the_limit_has_a_pool_while_all_are_in_use() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while let Some(request) = talk.request() {
                if request.head.path() == "/never" {
                    return talk.wait_for_end();
                }
                talk.say(OK);
            }
        });
        let (_loops, client) =
            client(1, |builder| builder.limits(Limits { origins: 1, ..Limits::default() }));
        let mut busy = client.get("http://one.example/never").via(peer.via()).send();
        assert!(crate::support::poll_once(&mut busy).is_pending());
        crate::support::eventually("the first origin is in use", || client.counters().total().active == 1);
        let call = client.get("http://two.example/").via(peer.via());
        let error = block_on(call.send()).expect_err("one origin is the limit");
        assert!(matches!(error, Error::TooManyOrigins { origins: 1, .. }), "{error:?}");
        assert_eq!(error.fault(), Fault::Limit);
        assert_eq!(client.counters().total().too_many_origins, 1);
        drop(busy);
        crate::support::eventually("the first origin is unused", || client.counters().total().active == 0);
        block_on(client.get("http://two.example/").via(peer.via()).send()).expect("its place is free");
    });
}

#[test]
fn the_origin_used_longest_ago_makes_room() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (loops, client) = client(1, |builder| builder.limits(Limits { origins: 2, ..Limits::default() }));
        let dialed_after = |origin: &str| {
            block_on(client.get(format!("http://{origin}/")).via(peer.via()).send()).expect("an answer");
            // Until the loop's coarse clock has moved.
            let moved = loops.get(0).spawn(async || {
                let now = anywire_loops::clock::now();
                while anywire_loops::clock::now() == now {
                    tokio::task::yield_now().await;
                }
            });
            moved.wait().expect("no panic");
            client.counters().total().dialed
        };
        let calls = ["one.example", "two.example", "one.example", "three.example", "one.example"];
        assert_eq!(calls.map(dialed_after), [1, 2, 2, 3, 3]);
        assert_eq!(dialed_after("two.example"), 4);
    });
}
