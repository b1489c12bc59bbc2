//! With pipelining, requests of HTTP/1 follow each other on a connection without waiting for responses, and each call gets its own
//! response, or an error that says whether its request was sent.

use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use crate::support::{
    HANG, OK, Peer, Talk, all, block_on, client, eventually, on_each_wire, poll_once, until_no_call, wire,
};
use anywire_client::{Call, Client, ClientBuilder, Error, Limits, Phase, Pipelining};
use anywire_http::Method;

/// A client whose calls share one connection.
pub(crate) fn sharing(builder: ClientBuilder) -> ClientBuilder {
    of_connections(builder, 1)
}

fn of_connections(builder: ClientBuilder, connections_per_origin: usize) -> ClientBuilder {
    builder.pipelining(32).limits(Limits { connections_per_origin, ..Limits::default() })
}

pub(crate) fn get(client: &Client, peer: &Peer, path: &str) -> Call {
    client.get(peer.url(path)).via(peer.via())
}

/// After it, the connection is shared.
pub(crate) fn first_call(client: &Client, peer: &Peer) {
    block_on(get(client, peer, "/first").send()).expect("the first answer");
}

/// The response of a server that names the target of the request.
pub(crate) fn answer_of(target: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len())
}

pub(crate) fn target(talk: &mut Talk) -> Option<String> {
    talk.request().map(|request| request.head.path_and_query().to_owned())
}

/// Answers one request.
pub(crate) fn answer_one(talk: &mut Talk) -> bool {
    target(talk).is_some_and(|target| talk.try_say(answer_of(&target)))
}

/// Takes so many requests, none of which has an answer yet.
pub(crate) fn targets(talk: &mut Talk, count: usize) -> Vec<String> {
    (0..count).map_while(|_| target(talk)).collect()
}

/// Calls side by side: the bodies that they get.
pub(crate) fn bodies(calls: impl IntoIterator<Item = Call>) -> Vec<Result<String, Error>> {
    let text = |call: Call| async { call.send().await?.text().await };
    all(calls.into_iter().map(text))
}

/// Calls for these paths, each of which gets the response that names it.
#[track_caller]
pub(crate) fn assert_own_answers(client: &Client, peer: &Peer, count: usize) {
    let paths: Vec<_> = (0..count).map(|number| format!("/{number}")).collect();
    let bodies = bodies(paths.iter().map(|path| get(client, peer, path)));
    let bodies: Result<Vec<_>, _> = bodies.into_iter().collect();
    assert_eq!(bodies.expect("each has its answer"), paths);
}

#[test]
fn requests_do_not_wait_for_responses_and_each_call_gets_its_own() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            answer_one(&mut talk);
            // All of them are there before any has an answer.
            let answers: String = targets(&mut talk, 20).iter().map(|target| answer_of(target)).collect();
            talk.say(answers);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, sharing);
        first_call(&client, &peer);
        assert_own_answers(&client, &peer, 20);
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.reused, counters.pipelined), (1, 20, 19));
        until_no_call(&client);
    });
}

#[test]
fn without_the_option_requests_wait() {
    let peer = Peer::start(wire("tcp"), |mut talk| while answer_one(&mut talk) {});
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits));
    first_call(&client, &peer);
    assert_own_answers(&client, &peer, 20);
    assert_eq!(client.counters().total().pipelined, 0);
}

#[test]
fn a_connection_is_shared_after_its_first_response() {
    let (report, first) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        let target = target(&mut talk).expect("the first request");
        let _ = report.send(talk.number);
        talk.say(answer_of(&target));
        let answers: String = targets(&mut talk, 9).iter().map(|target| answer_of(target)).collect();
        talk.say(answers);
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, sharing);
    assert_own_answers(&client, &peer, 10);
    assert_eq!(first.try_iter().count(), 1);
    let counters = client.counters().total();
    assert_eq!((counters.dialed, counters.pipelined), (1, 8));
}

#[test]
fn no_more_are_on_their_way_than_the_depth() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        let first = targets(&mut talk, 4);
        wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
        first.iter().for_each(|target| talk.say(answer_of(target)));
        while answer_one(&mut talk) {}
    });
    let (_loops, client) = client(1, |builder| sharing(builder).pipelining(4));
    first_call(&client, &peer);
    let watched = client.clone();
    let watch = std::thread::spawn(move || {
        eventually("six calls wait for a place", || watched.counters().total().waiting == 6);
        go.send(()).expect("the peer waits");
    });
    assert_own_answers(&client, &peer, 10);
    watch.join().expect("no panic");
}

#[test]
fn a_call_that_is_not_idempotent_has_the_connection_to_itself() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (report, seen) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        let first = target(&mut talk).expect("a request");
        wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
        talk.say(answer_of(&first));
        while let Some(target) = target(&mut talk) {
            let _ = report.send(target.clone());
            talk.say(answer_of(&target));
        }
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let watched = client.clone();
    let watch = std::thread::spawn(move || {
        // The one behind it may not overtake it, or it would wait for ever.
        eventually("two calls wait", || watched.counters().total().waiting == 2);
        go.send(()).expect("the peer waits");
    });
    let post = client.post(peer.url("/post")).via(peer.via()).body("order");
    let bodies = bodies([get(&client, &peer, "/before"), post, get(&client, &peer, "/behind")]);
    watch.join().expect("no panic");
    assert!(bodies.iter().all(Result::is_ok), "{bodies:?}");
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["/post", "/behind"]);
    assert_eq!(client.counters().total().pipelined, 0);
}

#[test]
fn a_call_to_itself_takes_another_connection_if_there_may_be_one() {
    type Change = fn(Call) -> Call;
    let alone: [Change; 2] = [|call| call.without_pipelining(), |call| call.header("connection", "close")];
    for (number, change) in alone.into_iter().enumerate() {
        let peer = Peer::start(wire("tcp"), |mut talk| {
            if talk.number == 0 {
                answer_one(&mut talk);
                // Never answered.
                targets(&mut talk, 1);
                return talk.wait_for_end();
            }
            while answer_one(&mut talk) {}
        });
        let (_loops, client) = client(1, |builder| of_connections(builder, 2));
        first_call(&client, &peer);
        let mut held = get(&client, &peer, "/held").send();
        assert!(poll_once(&mut held).is_pending());
        let answer = block_on(change(get(&client, &peer, "/alone")).send()).expect("an answer");
        assert_eq!(answer.status(), 200, "{number}");
        assert_eq!(peer.accepted(), 2, "{number}");
    }
}

#[test]
fn calls_to_themselves_do_not_wait_for_each_other() {
    let (report, seen) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        let target = target(&mut talk).expect("a request");
        let _ = report.send(());
        let _ = wait.lock().expect("no panic").recv_timeout(HANG);
        talk.say(answer_of(&target));
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, |builder| of_connections(builder, 8));
    let release = std::thread::spawn(move || {
        (0..5).for_each(|_| seen.recv_timeout(HANG).expect("each has a connection"));
        (0..5).for_each(|_| go.send(()).expect("the peer waits"));
    });
    let posts = (0..5).map(|_| client.post(peer.url("/")).via(peer.via()).body("order"));
    assert!(bodies(posts).iter().all(Result::is_ok));
    release.join().expect("no panic");
}

#[test]
fn a_burst_fills_a_connection_before_it_dials() {
    let peer = Peer::start(wire("tcp"), |mut talk| while answer_one(&mut talk) {});
    let (_loops, client) = client(1, |builder| of_connections(builder, 100).pipelining(50));
    first_call(&client, &peer);
    assert_own_answers(&client, &peer, 50);
    assert_eq!(peer.accepted(), 1);
}

#[test]
fn a_request_of_which_nothing_has_left_is_not_sent_for_nobody() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        // Reads nothing, until the test has dropped a call.
        wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
        while answer_one(&mut talk) {}
    });
    let (_loops, client) = client(1, |builder| sharing(builder).pipelining(3));
    first_call(&client, &peer);
    // More than the buffers of both ends hold.
    let mut long =
        client.request(Method::PUT, peer.url("/long")).via(peer.via()).body(vec![b'x'; 64 << 20]).send();
    assert!(poll_once(&mut long).is_pending());
    let mut calls: Vec<_> = ["/a", "/dropped"].map(|path| get(&client, &peer, path).send()).into();
    assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()));
    eventually("both are behind it", || client.counters().total().pipelined == 2);
    drop(calls.pop());
    // It takes the place that is free.
    let mut next = get(&client, &peer, "/next").send();
    assert!(poll_once(&mut next).is_pending());
    eventually("the next one is behind them", || client.counters().total().pipelined == 3);
    go.send(()).expect("the peer waits");
    for (path, call) in [("/long", long), ("/a", calls.remove(0)), ("/next", next)] {
        assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), path);
    }
    assert_eq!(peer.accepted(), 1);
}

#[test]
fn a_post_that_is_marked_shares() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        let answers: String = targets(&mut talk, 5).iter().map(|target| answer_of(target)).collect();
        talk.say(answers);
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let post = || client.request(Method::POST, peer.url("/")).via(peer.via()).body("again").idempotent();
    let bodies = bodies((0..5).map(|_| post()));
    assert!(bodies.iter().all(Result::is_ok), "{bodies:?}");
}

#[test]
fn responses_of_every_framing_are_told_from_one_another() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        targets(&mut talk, 6);
        talk.say(concat!(
            "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nb\r\n2\r\ncd\r\n0\r\nx-sum: 7\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        ));
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let head = client.head(peer.url("/head")).via(peer.via());
    let others = (0..5).map(|_| get(&client, &peer, "/"));
    let bodies = bodies([head].into_iter().chain(others));
    let bodies: Result<Vec<_>, _> = bodies.into_iter().collect();
    assert_eq!(bodies.expect("each has its answer"), ["", "", "a", "bcd", "", "until the end"]);
}

#[test]
fn servers_that_close_or_are_old_are_asked_one_by_one() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n",
    ] {
        let peer = Peer::answering(wire("tcp"), answer);
        let (_loops, client) = client(1, |builder| of_connections(builder, 4));
        let bodies = bodies((0..12).map(|_| get(&client, &peer, "/")));
        assert!(bodies.iter().all(Result::is_ok), "{bodies:?}");
        assert_eq!(client.counters().total().pipelined, 0, "{answer:?}");
    }
}

#[test]
fn a_dropped_call_costs_no_other() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (report, read) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        let all = targets(&mut talk, 3);
        let _ = report.send(());
        wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
        all.iter().for_each(|target| talk.say(answer_of(target)));
        while answer_one(&mut talk) {}
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let text = |path: &str| {
        let call = get(&client, &peer, path);
        Box::pin(async { call.send().await?.text().await })
    };
    let (mut first, mut dropped, mut last) = (text("/first"), text("/dropped"), text("/last"));
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut dropped).is_pending());
    assert!(poll_once(&mut last).is_pending());
    read.recv_timeout(HANG).expect("the peer has read all of them");
    drop(dropped);
    go.send(()).expect("the peer waits");
    assert_eq!(block_on(first).expect("an answer"), "/first");
    assert_eq!(block_on(last).expect("an answer"), "/last");
    // Its response was read, and the connection goes on.
    first_call(&client, &peer);
    assert_eq!(peer.accepted(), 1);
}

#[test]
fn a_long_response_to_a_dropped_call_ends_the_connection() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (report, read) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        if talk.number == 0 {
            targets(&mut talk, 3);
            let _ = report.send(());
            wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
            talk.say(answer_of("/first"));
            talk.say(answer_of(&"x".repeat(100)));
            talk.wait_for_end();
        }
        while answer_one(&mut talk) {}
    });
    let pipelining = Pipelining { drain_bytes: 99, ..Pipelining::default() };
    let (_loops, client) = client(1, |builder| sharing(builder).pipelining(pipelining));
    first_call(&client, &peer);
    let text = |path: &str| {
        let call = get(&client, &peer, path);
        Box::pin(async { call.send().await?.text().await })
    };
    let (mut first, mut dropped, mut last) = (text("/first"), text("/dropped"), text("/last"));
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut dropped).is_pending());
    assert!(poll_once(&mut last).is_pending());
    read.recv_timeout(HANG).expect("the peer has read all of them");
    drop(dropped);
    go.send(()).expect("the peer waits");
    assert_eq!(block_on(first).expect("an answer"), "/first");
    assert_eq!(block_on(last).expect("an answer on another connection"), "/last");
    let counters = client.counters().total();
    assert_eq!((counters.undrained, counters.displaced, counters.dialed), (1, 1, 2));
}

#[test]
fn a_dropped_call_behind_all_others_ends_the_connection_after_them() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (report, told) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        answer_one(&mut talk);
        let all = targets(&mut talk, 2);
        let _ = report.send(());
        wait.lock().expect("no panic").recv_timeout(HANG).expect("the test goes on");
        talk.say(answer_of(&all[0]));
        talk.wait_for_end();
        let _ = report.send(());
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let (mut first, mut dropped) =
        (get(&client, &peer, "/first").send(), get(&client, &peer, "/dropped").send());
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut dropped).is_pending());
    told.recv_timeout(HANG).expect("the peer has read both");
    drop(dropped);
    go.send(()).expect("the peer waits");
    assert_eq!(block_on(first).expect("an answer").status(), 200);
    told.recv_timeout(HANG).expect("the connection is closed");
    until_no_call(&client);
}

#[test]
fn behind_a_slow_reader_deadlines_hold() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        targets(&mut talk, 3);
        let long = "x".repeat(8 << 20);
        talk.say(answer_of(&long) + &answer_of("/late") + &answer_of("/last"));
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let mut long = get(&client, &peer, "/long").send();
    assert!(poll_once(&mut long).is_pending());
    let late = get(&client, &peer, "/late").total_timeout(Duration::from_millis(50));
    let mut last = get(&client, &peer, "/last").send();
    let mut late = late.send();
    assert!(poll_once(&mut late).is_pending());
    assert!(poll_once(&mut last).is_pending());
    let long = block_on(long).expect("the head");
    let error = block_on(late).expect_err("its response is behind a body that nobody reads");
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: true, .. }), "{error:?}");
    assert_eq!(block_on(long.bytes()).expect("the body").len(), 8 << 20);
    assert_eq!(block_on(async { last.await?.text().await }).expect("an answer"), "/last");
    assert_eq!(peer.accepted(), 1);
}

#[test]
fn a_silent_peer_is_noticed() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        if talk.number == 0 {
            talk.wait_for_end();
        }
        while answer_one(&mut talk) {}
    });
    let (_loops, client) = client(1, |builder| sharing(builder).read_timeout(Duration::from_millis(50)));
    first_call(&client, &peer);
    let mut answers = bodies((0..5).map(|_| get(&client, &peer, "/"))).into_iter();
    let due = answers.next();
    assert!(matches!(due, Some(Err(Error::Timeout { phase: Phase::Read, sent: true, .. }))), "{due:?}");
    // Those behind are late as well, or go out again.
    for answer in answers {
        assert!(matches!(answer, Ok(_) | Err(Error::Timeout { phase: Phase::Read, .. })), "{answer:?}");
    }
    until_no_call(&client);
}

#[test]
fn a_shutdown_ends_all_of_them() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let mut calls: Vec<_> = (0..5).map(|_| get(&client, &peer, "/").send()).collect();
    assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()));
    assert_eq!(block_on(client.shutdown(Duration::ZERO)).calls_cut, 5);
    for error in all(calls).into_iter().map(Result::err) {
        assert!(matches!(error, Some(Error::Shutdown { .. })), "{error:?}");
    }
}

#[test]
fn an_origin_may_have_its_own() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        let answers: String = targets(&mut talk, 3).iter().map(|target| answer_of(target)).collect();
        talk.say(answers);
        talk.wait_for_end();
    });
    let other = Peer::answering(wire("tcp"), OK);
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits).pipelining_of(peer.url("/"), 8));
    first_call(&client, &peer);
    assert_own_answers(&client, &peer, 3);
    first_call(&client, &other);
    assert!(bodies((0..3).map(|_| get(&client, &other, "/"))).iter().all(Result::is_ok));
    assert_eq!(client.counters().total().pipelined, 2);
    let client = Client::builder().pipelining_of("no origin", 8).build();
    assert!(matches!(block_on(client.get(other.url("/")).send()), Err(Error::Url { .. })));
}

#[test]
fn callers_who_leave_at_any_time_cost_no_other() {
    let peer = Peer::start(wire("tcp"), |mut talk| while answer_one(&mut talk) {});
    let (_loops, client) = client(2, |builder| of_connections(builder, 3).pipelining(8));
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for round in 0..40 {
        let paths: Vec<_> = (0..25).map(|number| format!("/{round}/{number}")).collect();
        let mut calls: Vec<_> = paths
            .iter()
            .map(|path| {
                let call = get(&client, &peer, path);
                Some(Box::pin(async move { call.send().await?.text().await }))
            })
            .collect();
        for (path, call) in paths.iter().zip(&mut calls) {
            let begins = next() % 3 > 0;
            match call.as_mut().filter(|_| begins).map(poll_once) {
                Some(Poll::Ready(answer)) => {
                    assert_eq!(answer.expect("an answer"), *path);
                    *call = None;
                }
                Some(Poll::Pending) if next() % 3 == 0 => *call = None,
                _ => {}
            }
        }
        for (path, call) in paths.iter().zip(calls) {
            if let Some(call) = call {
                assert_eq!(block_on(call).expect("an answer"), *path);
            }
        }
    }
    until_no_call(&client);
}
