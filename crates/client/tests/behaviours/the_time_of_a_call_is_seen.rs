//! A trace sees where the time of a call goes: the steps of its dial, its phases in their order, its attempts, its connections.

use std::net::SocketAddr;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anywire_client::{CallRequest, Error, Next, Phase, Response, Retries, Trace, TracedAttempt};
use anywire_http::StatusCode;
use anywire_wire::DialStep;
use anywire_wire::names::Hosts;

use crate::support::bytes_of_http2::{END_HEADERS, HEADERS};
use crate::support::names::Book;
use crate::support::{OK, Peer, block_on, client, client_of_http2, eventually, on_each_wire, wire};

/// What belongs to a whole attempt, in its order.
fn assert_whole(attempt: &TracedAttempt) {
    let steps = attempt
        .dial
        .iter()
        .flat_map(|dial| [dial.begun].into_iter().chain(dial.steps.iter().map(|(_, at)| *at)));
    let instants = [attempt.acquired, attempt.written, attempt.first_byte, attempt.head, attempt.ended];
    let instants = instants.map(|at| at.expect("it was noted"));
    let all: Vec<_> = [attempt.queued].into_iter().chain(steps).chain(instants).collect();
    assert!(all.is_sorted(), "{attempt:?}");
    assert_eq!((attempt.error.as_deref(), attempt.failed_in), (None, None));
    let spans = attempt.phases();
    assert!(spans.windows(2).all(|two| two[0].until <= two[1].from), "{spans:?}");
    assert_eq!(spans.last().map(|span| span.until), attempt.ended);
}

fn phases(attempt: &TracedAttempt) -> Vec<Phase> {
    attempt.phases().iter().map(|span| span.phase).collect()
}

fn steps(attempt: &TracedAttempt) -> Vec<DialStep> {
    attempt.dial.iter().flat_map(|dial| dial.steps.iter().map(|(step, _)| *step)).collect()
}

#[test]
fn each_phase_is_seen_on_each_wire() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(1, |builder| builder);
        let trace = Trace::new();
        let call = client.post(peer.url("/a")).via(peer.via()).body("what is sent").trace(&trace);
        let response = block_on(call.send()).expect("an answer");
        let has_handshake = response.tls().is_some();
        let timeline = trace.timeline();
        assert!(timeline.is_over);
        let [attempt] = &*timeline.attempts else { panic!("one attempt: {timeline:?}") };
        assert_whole(attempt);
        assert_eq!((attempt.method.as_str(), &*attempt.url), ("POST", &*peer.url("/a")));
        assert_eq!((attempt.status, attempt.hop), (Some(StatusCode::OK), 0));
        assert_eq!(steps(attempt).contains(&DialStep::Secured), has_handshake, "{attempt:?}");
        assert!(steps(attempt).contains(&DialStep::Connected), "{attempt:?}");
        let connection = attempt.connection.as_ref().expect("it has one");
        assert!(!connection.is_reused && !connection.is_http2);
        assert_eq!(connection.peer.scheme(), wire.scheme());
        assert!(phases(attempt).ends_with(&[Phase::Write, Phase::Read, Phase::Body]), "{attempt:?}");
        assert_eq!(phases(attempt).contains(&Phase::Handshake), has_handshake);
        // The same trace sees another call, on the connection that is there.
        block_on(client.get(peer.url("/b")).via(peer.via()).trace(&trace).send()).expect("an answer");
        let timeline = trace.timeline();
        let [attempt] = &*timeline.attempts else { panic!("one attempt: {timeline:?}") };
        assert_whole(attempt);
        assert!(attempt.url.ends_with("/b") && attempt.dial.is_none());
        assert!(attempt.connection.as_ref().expect("it has one").is_reused);
        assert_eq!(phases(attempt), [Phase::Acquire, Phase::Write, Phase::Read, Phase::Body]);
    });
}

#[test]
fn over_http2_as_well() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.say(HEADERS, END_HEADERS, stream, b"\x08\x03103");
            frames.answer(stream);
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    for is_reused in [false, true] {
        let trace = Trace::new();
        let call = client.post(peer.url("/")).body("what is sent").trace(&trace);
        let text = block_on(async { call.send().await?.text().await }).expect("an answer");
        assert_eq!(text, "ok");
        eventually("the end is noted", || trace.timeline().is_over);
        let timeline = trace.timeline();
        assert_whole(&timeline.attempts[0]);
        let connection = timeline.attempts[0].connection.as_ref().expect("it has one");
        assert_eq!((connection.is_http2, connection.is_reused), (true, is_reused));
        let [(StatusCode::EARLY_HINTS, at)] = *timeline.attempts[0].interim else { panic!("{timeline:?}") };
        assert!(Some(at) <= timeline.attempts[0].head);
    }
}

#[test]
fn a_call_under_way_says_what_it_waits_for() {
    let (answer, to_answer) = mpsc::channel();
    let to_answer = Mutex::new(to_answer);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        let wait = || _ = to_answer.lock().expect("no panic").recv();
        if talk.request().is_some() {
            wait();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab");
            wait();
            talk.say("cd");
            talk.wait_for_end();
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let trace = Trace::new();
    let call = client.get(peer.url("/")).trace(&trace);
    let called = std::thread::spawn(move || block_on(async { call.send().await?.text().await }));
    let last = || trace.timeline().attempts.first().and_then(|attempt| phases(attempt).last().copied());
    eventually("it waits for the response", || last() == Some(Phase::Read));
    assert!(!trace.timeline().is_over);
    answer.send(()).expect("the peer waits");
    eventually("it reads the body", || last() == Some(Phase::Body));
    assert!(!trace.timeline().is_over);
    answer.send(()).expect("the peer waits");
    assert_eq!(called.join().expect("no panic").expect("an answer"), "abcd");
    assert!(trace.timeline().is_over);
    assert_whole(&trace.timeline().attempts[0]);
}

#[test]
fn redirects_and_retries_are_attempts() {
    // The first connection is closed without an answer, then one is redirected.
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            match (talk.number, request.head.path()) {
                (0, _) => return,
                (_, "/") => talk.say("HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n"),
                _ => talk.say(OK),
            }
        }
    });
    let retries = Retries { first_pause: Duration::ZERO, ..Retries::default() };
    let (_loops, client) = client(1, |builder| builder.retries(retries));
    let trace = Trace::new();
    block_on(client.get(peer.url("/")).trace(&trace).send()).expect("an answer");
    let timeline = trace.timeline();
    assert_eq!((timeline.retries(), timeline.redirects(), timeline.is_over), (1, 1, true));
    let told: Vec<_> =
        timeline.attempts.iter().map(|it| (it.hop, it.status.map(|status| status.as_u16()))).collect();
    assert_eq!(told, [(0, None), (0, Some(302)), (1, Some(200))]);
    let [lost, found, next] = &*timeline.attempts else { panic!("{timeline:?}") };
    assert_eq!(lost.failed_in, Some(Phase::Read));
    assert!(lost.error.as_deref().is_some_and(|error| error.contains("closed the connection")), "{lost:?}");
    assert_whole(found);
    assert_whole(next);
    assert!(next.connection.as_ref().is_some_and(|connection| connection.is_reused));
    let shown = timeline.to_string();
    assert!(shown.contains(&format!("GET {}: 302 after ", peer.url("/"))), "{shown}");
    assert!(shown.lines().last().is_some_and(|line| line.starts_with("in all after ")), "{shown}");
    assert_eq!(shown.matches("\n  waiting for the response  ").count(), 3, "{shown}");
}

#[test]
fn a_connection_that_died_is_an_attempt() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        // The second request of a connection is read, and not answered.
        if talk.request().is_some() {
            talk.say(OK);
            drop(talk.request());
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    block_on(client.get(peer.url("/")).send()).expect("an answer");
    let trace = Trace::new();
    block_on(client.get(peer.url("/")).trace(&trace).send()).expect("an answer");
    let timeline = trace.timeline();
    let [died, sent_again] = &*timeline.attempts else { panic!("{timeline:?}") };
    assert!(died.status.is_none() && died.ended == Some(sent_again.queued));
    assert_whole(sent_again);
    assert_eq!(client.counters().total().resent, 1);
}

#[test]
fn a_failed_dial_says_in_which_phase() {
    let refusing = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("it is bound").port()
    };
    let hosts = Hosts::default().add("dead.example", [SocketAddr::from(([127, 0, 0, 1], refusing))]);
    let (_loops, client) = client(1, |builder| builder.resolver(Book::new()).hosts(hosts));
    for (url, phase, expected, why) in [
        ("http://no.example/", Phase::Resolve, vec![], "no such name"),
        ("http://dead.example/", Phase::Connect, vec![DialStep::Resolved], "nobody listens there"),
    ] {
        let trace = Trace::new();
        block_on(client.get(url).retries(0).trace(&trace).send()).expect_err("nobody is there");
        let timeline = trace.timeline();
        let [attempt] = &*timeline.attempts else { panic!("{timeline:?}") };
        assert_eq!((attempt.failed_in, steps(attempt)), (Some(phase), expected), "{url}");
        assert_eq!(phases(attempt).last(), Some(&phase));
        assert!(timeline.is_over && attempt.connection.is_none());
        // With its causes, and without what would help.
        let (error, shown) = (attempt.error.as_deref().expect("it failed"), timeline.to_string());
        assert!(error.contains(why) && !error.contains(';'), "{error}");
        assert!(shown.starts_with(&format!("GET {url}: failed after ")), "{shown}");
        assert!(shown.lines().next().is_some_and(|line| line.ends_with(error)), "{shown}");
    }
}

#[test]
fn a_body_that_breaks_off_is_seen() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        if talk.request().is_some() {
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab");
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let trace = Trace::new();
    let call = client.get(peer.url("/")).trace(&trace);
    block_on(async { call.send().await?.text().await }).expect_err("it is cut short");
    eventually("the end is noted", || trace.timeline().is_over);
    let attempt = &trace.timeline().attempts[0];
    assert_eq!((attempt.status, attempt.failed_in), (Some(StatusCode::OK), Some(Phase::Body)));
}

#[test]
fn a_tunnel_through_a_proxy_is_a_step() {
    let origin = Peer::answering(wire("tcp"), OK);
    let proxy = Peer::start(wire("tcp"), |mut talk| {
        talk.request_head();
        talk.say("HTTP/1.1 200 Here\r\n\r\n");
        while talk.request().is_some() {
            talk.say(OK);
        }
    });
    let (_loops, client) = client_of_http1_by(&proxy);
    let trace = Trace::new();
    // What leaves HTTP is tunnelled, and so is TLS.
    let call = client.get(origin.url("/")).upgrade("other").trace(&trace);
    block_on(call.send()).expect("an answer");
    let timeline = trace.timeline();
    let attempt = &timeline.attempts[0];
    assert_eq!(steps(attempt), [DialStep::Connected, DialStep::Tunnelled]);
    assert_whole(attempt);
    assert_eq!(attempt.connection.as_ref().map(|it| &it.peer), Some(proxy.via()));
}

fn client_of_http1_by(proxy: &Peer) -> (anywire_loops::Loops, anywire_client::Client) {
    client(1, |builder| builder.proxy(format!("http://{}", proxy.via().location())))
}

#[test]
fn an_interceptor_may_give_a_call_a_trace() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn note(mut request: CallRequest, next: Next) -> Result<Response, Error> {
        let trace = request.trace().clone();
        let response = next.call(request).await;
        SEEN.lock().expect("no panic").push(trace.timeline().to_string());
        response
    }
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| builder.intercept(note));
    block_on(client.get(peer.url("/")).send()).expect("an answer");
    let given = Trace::new();
    block_on(client.get(peer.url("/")).trace(&given).send()).expect("an answer");
    let seen = SEEN.lock().expect("no panic");
    assert_eq!(seen.len(), 2);
    assert!(seen[0].starts_with(&format!("GET {}: 200 after ", peer.url("/"))), "{seen:?}");
    // The caller's is the one that the interceptor finds.
    assert_eq!(seen[1], given.timeline().to_string());
}
