//! An origin may have options of its own, and others while the client runs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::simulated::Simulated;
use crate::support::{
    AnyWire, HANG, OK, Peer, Talk, all, block_on, client, eventually, on_each_wire, on_four_wires_at_a_time,
    on_token, wire,
};
use anywire_client::{Call, Client, ClientBuilder, Error, Limits, OriginOptions, Phase, Retries, Timeouts};
use anywire_http::{StatusCode, Version};
use anywire_wire::{SocketHook, SocketOptions};

/// So many connections, with one call each over HTTP/2 too.
fn limits(connections: usize) -> Limits {
    let mut limits = Limits { connections_per_origin: connections, ..Limits::default() };
    limits.http2.streams = 1;
    limits
}

fn with_cap(connections: usize) -> OriginOptions {
    OriginOptions::default().limits(limits(connections))
}

fn of_version(builder: ClientBuilder, is_http2: bool) -> ClientBuilder {
    if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
}

/// An origin, with TLS where the wire has it.
fn origin_of(wire: AnyWire, host: &str) -> String {
    format!("{}://{host}.example", if wire.scheme() == "tls" { "https" } else { "http" })
}

fn call(client: &Client, peer: &Peer) -> Call {
    client.get(peer.url("/")).via(peer.via())
}

#[test]
fn a_larger_cap_serves_those_who_wait() {
    for (is_http2, loops) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        on_each_wire(|wire| {
            let (peer, tokens) = on_token(wire, is_http2);
            let (_loops, client) = client(loops, |builder| of_version(builder, is_http2).limits(limits(1)));
            let calls: Vec<_> = (0..4).map(|_| call(&client, &peer).send()).collect();
            let calls = std::thread::spawn(move || all(calls));
            eventually("one is under way", || {
                let counters = client.counters().total();
                (counters.active, counters.waiting) == (1, 3)
            });
            client.set_origin_options(peer.url("/"), &with_cap(4)).expect("an origin");
            eventually("all are under way", || client.counters().total().active == 4);
            assert_eq!((client.counters().total().waiting, client.counters().total().dialed), (0, 4));
            (0..4).for_each(|_| tokens.send(()).expect("the peer is there"));
            for answer in calls.join().expect("no panic") {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
        });
    }
}

#[test]
fn options_are_taken_back() {
    let (peer, tokens) = on_token(wire("tcp"), false);
    let (_loops, client) =
        client(2, |builder| builder.limits(limits(4)).origin_options(peer.url("/"), with_cap(1)));
    let calls: Vec<_> = (0..4).map(|_| call(&client, &peer).send()).collect();
    let calls = std::thread::spawn(move || all(calls));
    eventually("one is under way", || {
        let counters = client.counters().total();
        (counters.active, counters.waiting) == (1, 3)
    });
    assert!(matches!(client.clear_origin_options("no origin"), Err(Error::Url { .. })));
    client.clear_origin_options(peer.url("/")).expect("an origin");
    eventually("all are under way", || client.counters().total().active == 4);
    (0..4).for_each(|_| tokens.send(()).expect("the peer is there"));
    for answer in calls.join().expect("no panic") {
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    client.clear_origin_options("http://other.example").expect("one without options");
}

#[test]
fn an_origin_has_its_own_retries_and_redirects() {
    let peer = || {
        Peer::start(wire("tcp"), |mut talk| {
            while let Some(request) = talk.request() {
                talk.say(match request.head.path() {
                    "/moved" => "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
                    "/busy" => "HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n",
                    _ => OK,
                });
            }
        })
    };
    let (own, other) = (peer(), peer());
    let retries = Retries {
        max: 2,
        first_pause: Duration::ZERO,
        statuses: vec![StatusCode::SERVICE_UNAVAILABLE],
        ..Retries::default()
    };
    let options = OriginOptions::default().retries(retries).redirects(0);
    let (_loops, client) = client(1, |builder| builder.origin_options(own.url("/"), options));
    let status =
        |peer: &Peer, path| block_on(client.get(peer.url(path)).send()).expect("an answer").status().as_u16();
    assert_eq!((status(&other, "/busy"), client.counters().total().retried), (503, 0));
    assert_eq!((status(&own, "/busy"), client.counters().total().retried), (503, 2));
    assert_eq!((status(&other, "/moved"), status(&own, "/moved")), (200, 302));
}

#[test]
fn an_origin_has_its_own_proxy() {
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            assert_eq!(request.head.target(), "http://behind.example/");
            talk.say(OK);
        }
    });
    let origin = Peer::answering(wire("tcp"), OK);
    let at = format!("http://{}", proxy.via().location());
    let (_loops, client) = client(1, |builder| {
        builder.no_proxy().origin_options("http://behind.example", OriginOptions::default().proxy(at))
    });
    for url in ["http://behind.example/", &origin.url("/")] {
        assert_eq!(block_on(client.get(url).send()).expect("an answer").status(), 200);
    }
    assert_eq!((proxy.accepted(), origin.accepted()), (1, 1));
    let wrong = OriginOptions::default().proxy("ftp://proxy");
    client.set_origin_options(origin.url("/"), &wrong).expect("an origin");
    let error = block_on(client.get(origin.url("/")).send()).expect_err("no proxy");
    assert!(matches!(error, Error::ProxyUrl { .. }), "{error:?}");
    client
        .set_origin_options("http://behind.example", &OriginOptions::default().no_proxy())
        .expect("an origin");
    assert!(block_on(client.get("http://behind.example/").send()).is_err(), "no such name");
}

/// A peer whose certificate nobody knows is trusted for its origin alone.
#[cfg(feature = "tls")]
#[test]
fn an_origin_has_its_own_tls() {
    let peer = Peer::answering(wire("tls"), OK);
    let trusting = OriginOptions::default().tls(crate::support::trial::client());
    let loops = anywire_loops::Loops::start(1).expect("loops start");
    let roots = anywire_wire::tls::Roots::bundled();
    let strict = anywire_wire::tls::ClientTlsOptions { roots, ..Default::default() };
    let client = Client::builder().on(&loops).tls(strict).build();
    let call = || block_on(client.get(peer.url("/")).send());
    assert!(call().is_err(), "it is not trusted");
    client.set_origin_options(peer.url("/"), &trusting).expect("an origin");
    assert_eq!(call().expect("an answer").status(), 200);
    client.clear_origin_options(peer.url("/")).expect("an origin");
    assert!(call().is_err(), "it is not trusted any more");
}

#[test]
fn a_smaller_cap_closes_idle_connections_and_busy_ones_after_their_calls() {
    for (is_http2, loops) in [(true, 1), (false, 1), (false, 2)] {
        on_each_wire(|wire| {
            let (peer, tokens) = on_token(wire, is_http2);
            let (_loops, client) = client(loops, |builder| of_version(builder, is_http2).limits(limits(4)));
            let (answered, late) = (2, 4);
            let calls: Vec<_> = (0..4).map(|_| call(&client, &peer).send()).collect();
            let calls = std::thread::spawn(move || all(calls));
            eventually("all are under way", || client.counters().total().active == 4);
            (0..answered).for_each(|_| tokens.send(()).expect("the peer is there"));
            eventually("two are idle", || client.counters().total().idle == 2);
            client.set_origin_options(peer.url("/"), &with_cap(1)).expect("an origin");
            eventually("idle ones are closed", || client.counters().total().idle == 0);
            assert_eq!(client.counters().total().active, 2);
            // New calls wait until there are fewer connections than the new cap.
            let more: Vec<_> = (0..late).map(|_| call(&client, &peer).send()).collect();
            let more = std::thread::spawn(move || all(more));
            eventually("they wait", || client.counters().total().waiting == late);
            assert_eq!((client.counters().total().active, client.counters().total().dialed), (2, 4));
            (0..2 + late).for_each(|_| tokens.send(()).expect("the peer is there"));
            for answer in calls.join().expect("no panic").into_iter().chain(more.join().expect("no panic")) {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
            assert_eq!(client.counters().total().dialed, 5);
            eventually("one is idle", || client.counters().total().idle == 1);
        });
    }
}

#[test]
fn an_origin_has_its_own_cap_and_queue() {
    on_each_wire(|wire| {
        let (peer, tokens) = on_token(wire, false);
        let own = OriginOptions::default().limits(Limits { queue_per_origin: 2, ..limits(1) });
        let (_loops, client) = client(3, |builder| builder.origin_options(peer.url("/"), own.http1_only()));
        let calls: Vec<_> = (0..8).map(|_| call(&client, &peer).send()).collect();
        let calls = std::thread::spawn(move || all(calls));
        eventually("five are refused", || client.counters().total().queue_full == 5);
        (0..3).for_each(|_| tokens.send(()).expect("the peer is there"));
        let mut answered = 0;
        for reply in calls.join().expect("no panic") {
            match reply {
                Ok(_) => answered += 1,
                Err(Error::QueueFull { connections, queue, .. }) => assert_eq!((connections, queue), (1, 2)),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((answered, client.counters().total().dialed), (3, 1));
    });
}

#[test]
fn an_origin_has_its_own_deadlines() {
    on_four_wires_at_a_time(|wire| {
        let (peer, _tokens) = on_token(wire, false);
        let soon = Duration::from_millis(50);
        let read = Timeouts { read: soon, ..Timeouts::default() };
        let acquire = Timeouts { acquire: soon, read: HANG, ..Timeouts::default() };
        let (_loops, client) = client(1, |builder| {
            let reading = OriginOptions::default().timeouts(read);
            let waiting = OriginOptions::default().limits(limits(1)).timeouts(acquire);
            builder
                .read_timeout(HANG)
                .origin_options(origin_of(wire, "one"), reading)
                .origin_options(origin_of(wire, "two"), waiting)
        });
        let to = |host: &str| client.get(origin_of(wire, host)).via(peer.via()).send();
        let error = block_on(to("one")).expect_err("the peer is silent");
        assert_eq!(error.phase(), Some(Phase::Read), "{error}");
        let mut busy = to("two");
        assert!(crate::support::poll_once(&mut busy).is_pending());
        eventually("it is under way", || client.counters().total().active == 1);
        let error = block_on(to("two")).expect_err("the connection is busy");
        assert_eq!(error.phase(), Some(Phase::Acquire), "{error}");
        assert_eq!(client.counters().total().read_timeouts, 1);
    });
}

#[test]
fn an_origin_has_its_own_version() {
    on_each_wire(|wire| {
        let old = Peer::answering(wire, OK);
        let (new, tokens) = on_token(wire, true);
        let http2 = OriginOptions::default().http2_prior_knowledge();
        let (_loops, client) =
            client(1, |builder| builder.http1_only().origin_options(origin_of(wire, "one"), http2.clone()));
        let version_of = |host: &str, peer: &Peer| {
            let call = client.get(origin_of(wire, host)).via(peer.via());
            block_on(call.send()).expect("an answer").version()
        };
        tokens.send(()).expect("the peer is there");
        assert_eq!(version_of("one", &new), Version::HTTP_2);
        assert_eq!(version_of("three", &old), Version::HTTP_11);
        // While the client runs, too.
        client.set_origin_options(origin_of(wire, "two"), &http2).expect("an origin");
        tokens.send(()).expect("the peer is there");
        assert_eq!(version_of("two", &new), Version::HTTP_2);
    });
}

#[test]
fn what_is_no_origin_is_an_error() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| builder.origin_options("shop", OriginOptions::default()));
    assert!(matches!(block_on(call(&client, &peer).send()), Err(Error::Url { .. })));
    assert!(matches!(client.set_origin_options("shop", &OriginOptions::default()), Err(Error::Url { .. })));
}

/// A peer that sends all calls to another.
fn redirecting(to: &Peer) -> Peer {
    let location = format!("HTTP/1.1 307 Away\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", to.url("/"));
    Peer::start(wire("tcp"), move |mut talk| {
        while talk.request().is_some() {
            talk.say(&location);
        }
    })
}

#[test]
fn a_redirect_comes_under_the_options_of_the_origin_that_it_leads_to() {
    let long = Peer::answering(wire("tcp"), OK);
    let from = redirecting(&long);
    let few = OriginOptions::default().limits(Limits { body_bytes: 1, ..Limits::default() });
    let (_loops, client) = client(1, |builder| builder.origin_options(long.url("/"), few));
    let body = block_on(async { client.get(from.url("/")).send().await?.bytes().await });
    assert!(matches!(body, Err(Error::BodyTooLarge { limit_bytes: 1 })), "{body:?}");
}

#[test]
fn a_redirect_waits_as_long_as_its_call_or_its_origin_says() {
    let (silent, _tokens) = on_token(wire("tcp"), false);
    let from = redirecting(&silent);
    let soon = Duration::from_millis(50);
    let read = |read| OriginOptions::default().timeouts(Timeouts { read, ..Timeouts::default() });
    let phase = |of_origin, of_call: Option<Duration>| {
        let (_loops, client) =
            client(1, |builder| builder.read_timeout(HANG).origin_options(silent.url("/"), read(of_origin)));
        let call = client.get(from.url("/"));
        let call = of_call.into_iter().fold(call, Call::read_timeout);
        block_on(call.send()).expect_err("the peer is silent").phase()
    };
    assert_eq!(phase(soon, None), Some(Phase::Read));
    assert_eq!(phase(HANG, Some(soon)), Some(Phase::Read));
}

#[cfg(feature = "rules")]
#[test]
fn a_rule_leads_to_the_options_of_another_origin() {
    let peer = Peer::answering(wire("tcp"), OK);
    let rules = format!("[[rule]]\n[[rule.to]]\nauthority = '{}'\n", peer.via().location());
    let rules = anywire_client::rules::Rules::from_toml(&rules).expect("good rules");
    let few = OriginOptions::default().limits(Limits { body_bytes: 1, ..Limits::default() });
    let (_loops, client) = client(1, |builder| builder.rules(&rules).origin_options(peer.url("/"), few));
    let body = block_on(async { client.get("http://shop.example/").send().await?.bytes().await });
    assert!(matches!(body, Err(Error::BodyTooLarge { limit_bytes: 1 })), "{body:?}");
}

#[test]
fn sockets_have_options_by_origin() {
    for is_http2 in [false, true] {
        let from = Arc::new(Mutex::new(Vec::new()));
        let start = || {
            let froms = Arc::clone(&from);
            let note = move |talk: &mut Talk| {
                let ip = talk.with(async |connection| connection.peer().ip()).flatten();
                froms.lock().expect("no panic").extend(ip);
            };
            match is_http2 {
                true => Peer::of_http2(wire("tcp"), move |mut frames, _| {
                    while let Some(stream) = frames.request() {
                        note(&mut frames.talk);
                        frames.answer(stream);
                    }
                }),
                false => Peer::start(wire("tcp"), move |mut talk| {
                    while talk.request().is_some() {
                        note(&mut talk);
                        talk.say(OK);
                    }
                }),
            }
        };
        let (own, other) = (start(), start());
        let hooked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hooked);
        let hook = SocketHook::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let socket = SocketOptions { hook: Some(hook), ..SocketOptions::default() };
        let seven = "127.0.0.7".parse().expect("an address");
        let options = OriginOptions::default().socket(socket).local_address(seven);
        let (_loops, client) =
            client(1, |builder| of_version(builder, is_http2).origin_options(own.url("/"), options));
        let call = |url: String| block_on(client.get(url).send()).expect("an answer");
        for peer in [&own, &other] {
            call(peer.url("/"));
        }
        // A proxy on the way is reached by the sockets of the origin.
        if !is_http2 {
            client
                .set_origin_options("http://led.example", &OriginOptions::default().local_address(seven))
                .expect("an origin");
            let proxy = format!("http://{}", other.via().location());
            block_on(client.get("http://led.example/").proxy(proxy).send()).expect("an answer");
        }
        let one: IpAddr = "127.0.0.1".parse().expect("an address");
        let froms = from.lock().expect("no panic").clone();
        assert_eq!(froms[..2], [seven, one]);
        assert!(froms[2..].iter().all(|from| *from == seven), "{froms:?}");
        assert_eq!(hooked.load(Ordering::SeqCst), 1, "of the origin that has it");
        // Taken back, they are those of the client.
        client.clear_origin_options(own.url("/")).expect("an origin");
        call(own.url("/"));
        assert_eq!(from.lock().expect("no panic").last(), Some(&one));
    }
}

#[test]
fn an_unused_pool_ends_when_its_origin_says() {
    let peer = Peer::answering(wire("tcp"), OK);
    let short = Duration::from_millis(1);
    let timeouts = Timeouts { pool_unused: short, idle: short, ..Timeouts::default() };
    let options = OriginOptions::default().timeouts(timeouts);
    let (_loops, client) = client(1, |builder| builder.origin_options(peer.url("/"), options));
    block_on(call(&client, &peer).send()).expect("an answer");
    eventually("the pool is gone", || client.counters().total().pools_unused == 1);
}

#[test]
fn new_options_need_no_room_for_another_origin() {
    let (peer, tokens) = on_token(wire("tcp"), false);
    let (_loops, client) = client(1, |builder| {
        builder.limits(Limits { origins: 1, connections_per_origin: 1, ..Limits::default() })
    });
    let calls: Vec<_> = (0..2).map(|_| call(&client, &peer).send()).collect();
    let calls = std::thread::spawn(move || all(calls));
    eventually("one is under way", || {
        let counters = client.counters().total();
        (counters.active, counters.waiting) == (1, 1)
    });
    client.set_origin_options(peer.url("/"), &with_cap(2)).expect("an origin");
    (0..2).for_each(|_| tokens.send(()).expect("the peer is there"));
    for answer in calls.join().expect("no panic") {
        answer.expect("an answer");
    }
    assert_eq!(client.counters().total().too_many_origins, 0);
}

#[test]
fn a_call_that_finds_new_options_is_one_attempt() {
    let (peer, tokens) = on_token(wire("tcp"), false);
    let (_loops, client) = client(1, |builder| builder.limits(limits(1)));
    let calls: Vec<_> = (0..3).map(|_| call(&client, &peer).send()).collect();
    let calls = std::thread::spawn(move || all(calls));
    eventually("two wait", || client.counters().total().waiting == 2);
    client.set_origin_options(peer.url("/"), &with_cap(2)).expect("an origin");
    (0..3).for_each(|_| tokens.send(()).expect("the peer is there"));
    calls.join().expect("no panic").into_iter().for_each(|answer| drop(answer.expect("an answer")));
    let counters = block_on(client.origins()).remove(&peer.url("")).expect("it was called");
    assert_eq!((counters.attempts, client.counters().total().requests), (3, 3));
}

#[test]
fn a_call_that_waits_comes_under_the_new_deadlines() {
    let scene = Simulated::new();
    let (report, heads) = std::sync::mpsc::channel();
    let peer = scene.peer(move |mut line| {
        let report = report.clone();
        async move {
            let first = line.head().await.is_some();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if first {
                line.say(OK).await;
            }
            // It says nothing to the second one.
            if let Some(head) = line.head().await {
                let _ = report.send(head);
            }
            line.wait_for_end().await;
        }
    });
    let client = scene.client(|builder| builder.http1_only().limits(limits(1)));
    scene.run(async move || {
        let call = || anywire_loops::spawn(client.get("http://peer.example/").via(peer.via()).send());
        let (first, second) = (call(), call());
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(client.counters().total().waiting, 1);
        let timeouts = Timeouts { read: Duration::from_millis(100), ..Timeouts::default() };
        let options = OriginOptions::default().limits(limits(1)).timeouts(timeouts).keep_alive(false);
        client.set_origin_options("http://peer.example/", &options).expect("an origin");
        first.await.expect("no panic").expect("an answer");
        let error = second.await.expect("no panic").expect_err("silence");
        let limit = Duration::from_millis(100);
        assert!(matches!(error, Error::Timeout { limit: new, .. } if new == limit), "{error:?}");
    });
    let _ = heads;
}
