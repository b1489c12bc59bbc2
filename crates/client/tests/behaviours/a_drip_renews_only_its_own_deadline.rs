//! One byte at a time, as slowly as a deadline allows, against each deadline of a call with all others at their defaults, on simulated
//! time: what moves renews its own, and the next one up ends the call on the second.

mod cases;

use std::time::Duration;

use anywire_client::proxy::Proxy;
use anywire_client::{Call, Client, ClientBuilder, Error, Limits, Phase};
use anywire_http::{Method, Request};
use tokio::time::{Instant, sleep};

use self::cases::{Case, HTTP1, HTTP2, answer, seconds};
use crate::support::OK;
use crate::support::bytes_of_http2::*;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

#[test]
fn over_http1() {
    HTTP1.iter().for_each(|case| case.play(|builder| builder.http1_only(), |call| call));
}

#[test]
fn over_http2() {
    HTTP2.iter().for_each(|case| case.play(|builder| builder.http2_prior_knowledge(), |call| call));
}

/// A POST has the connection to itself, unless it is marked and its body is there whole.
#[test]
fn over_http1_that_calls_share() {
    for mark in [|call| call, Call::idempotent] {
        HTTP1.iter().for_each(|case| case.play(|builder| builder.http1_only().pipelining(8), mark));
    }
}

impl Case {
    fn play(&self, version: fn(ClientBuilder) -> ClientBuilder, mark: fn(Call) -> Call) {
        let Self { name, call, phase, seconds, .. } = *self;
        println!("{name}");
        let scene = Simulated::new();
        let peer = scene.peer(self.peer);
        // Responses that say nothing are many.
        let limits = Limits { interim_responses: 1000, ..Limits::default() };
        let client = scene.client(|builder| version(builder).limits(limits));
        scene.run(async move || {
            let begin = Instant::now();
            let call = call(client.post("http://peer.example/").via(peer.via()));
            let error = collect(mark(call)).await.expect_err(name);
            assert!(error.is_timeout() && error.may_have_been_processed(), "{name}: {error:?}");
            assert_eq!(error.phase(), Some(phase), "{name}: {error:?}");
            in_time(name, begin, seconds);
            assert_free(name, &client);
        });
    }
}

async fn collect(call: Call) -> Result<Vec<u8>, Error> {
    Ok(call.send().await?.bytes().await?.to_vec())
}

/// Never early, and late by 1 ms and 1 % at most.
#[track_caller]
fn in_time(name: &str, begin: Instant, seconds: u64) {
    let (took, limit) = (begin.elapsed(), Duration::from_secs(seconds));
    assert!(took >= limit && took <= limit + limit / 100 + Duration::from_millis(3), "{name}: {took:?}");
}

#[track_caller]
fn assert_free(name: &str, client: &Client) {
    let counters = client.counters().total();
    assert_eq!((counters.active, counters.waiting), (0, 0), "{name}: {counters:?}");
}

/// The same with each version.
fn in_each_version(play: fn(bool, fn(ClientBuilder) -> ClientBuilder)) {
    play(false, |builder| builder.http1_only());
    play(true, |builder| builder.http2_prior_knowledge());
}

/// Says the head of a response with this type to the next request, and gives the stream of HTTP/2.
async fn begin_response(line: &mut Line, is_http2: bool, content_type: &str) -> u32 {
    if !is_http2 {
        let fields = format!("content-type: {content_type}\r\ntransfer-encoding: chunked");
        answer(line, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).await;
        return 0;
    }
    line.greet(&[]).await;
    let stream = line.request().await.expect("a request");
    let fields = [b"\x88", &literals(&[("content-type", content_type)])[..]].concat();
    line.frame(HEADERS, END_HEADERS, stream, &fields).await;
    stream
}

async fn say_piece(line: &mut Line, stream: u32) -> bool {
    match stream {
        0 => line.say("1\r\nx\r\n").await,
        stream => line.frame(DATA, 0, stream, b"x").await,
    }
}

/// A peer that begins a response, and gives a byte of it each `pace`.
fn dripping(scene: &Simulated, is_http2: bool, content_type: &'static str, pace: Duration) -> SimulatedPeer {
    scene.peer(move |mut line| async move {
        let stream = begin_response(&mut line, is_http2, content_type).await;
        while say_piece(&mut line, stream).await {
            sleep(pace).await;
        }
    })
}

#[test]
fn a_body_that_is_handed_out_may_take_hours() {
    in_each_version(|is_http2, version| {
        for (content_type, pace) in
            [("text/plain", 29), ("text/event-stream", 1800), ("application/grpc+proto", 3600)]
        {
            let scene = Simulated::new();
            let peer = dripping(&scene, is_http2, content_type, seconds(pace));
            let client = scene.client(version);
            scene.run(async move || {
                let call = client.get("http://peer.example/").via(peer.via()).send();
                let mut response = call.await.expect("a head");
                for _ in 0..5 {
                    assert_eq!(response.chunk().await.expect("a body").as_deref(), Some(&b"x"[..]));
                }
                drop(response);
                sleep(seconds(1)).await;
                assert_free(content_type, &client);
            });
        }
    });
}

#[test]
fn a_forwarded_body_of_unknown_length_may_be_silent_for_five_minutes() {
    in_each_version(|is_http2, version| {
        for (pace, ends) in [(299, false), (301, true)] {
            let scene = Simulated::new();
            let peer = dripping(&scene, is_http2, "text/plain", seconds(pace));
            let client = scene.client(version);
            scene.run(async move || {
                let request = Request::new(Method::GET, "/");
                let call = client.forward(request, "http://peer.example").via(peer.via()).send();
                let mut response = call.await.expect("a head");
                response.chunk().await.expect("the first byte");
                let begin = Instant::now();
                let next = response.chunk().await;
                if ends {
                    let error = next.expect_err("silence");
                    assert!(error.is_timeout() && error.phase() == Some(Phase::Body), "{error:?}");
                    in_time("forwarded", begin, 300);
                } else {
                    assert_eq!(next.expect("a body").as_deref(), Some(&b"x"[..]));
                }
            });
        }
    });
}

/// A forwarded call has no deadline in all, because a body may be as long as it likes. What is no body has one.
#[test]
fn what_frames_a_forwarded_response_may_not_drip() {
    // With a depth, a GET may share its connection, and a POST may not.
    for (depth, method) in [(1, Method::GET), (8, Method::GET), (8, Method::POST)] {
        forward_to_drips(depth, &method);
    }
}

fn forward_to_drips(depth: usize, method: &Method) {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (begun, phase, limit) in [
        ("HTTP/1.1 200 OK\r\nx: ".to_owned(), Phase::Read, 30),
        (format!("{chunked}5;x="), Phase::Body, 300),
        (format!("{chunked}0\r\nx: "), Phase::Body, 300),
    ] {
        let name = format!("{method} at a depth of {depth}: {begun:?}");
        println!("{name}");
        let scene = Simulated::new();
        let peer = scene.peer(move |mut line| {
            let said = begun.clone();
            async move {
                answer(&mut line, OK).await;
                answer(&mut line, &said).await;
                line.trickle("x", seconds(29)).await;
            }
        });
        let client = scene.client(|builder| builder.http1_only().pipelining(depth));
        let method = method.clone();
        scene.run(async move || {
            let forward = |method| {
                let request = Request::new(method, "/");
                collect(client.forward(request, "http://peer.example").via(peer.via()))
            };
            forward(Method::GET).await.expect("an answer");
            let begin = Instant::now();
            let error = forward(method).await.expect_err("no end comes");
            assert!(error.is_timeout() && error.phase() == Some(phase), "{error:?}");
            in_time(&name, begin, limit);
            assert_free(&name, &client);
            assert_eq!(peer.accepted(), 1);
        });
    }
}

/// A peer that writes and does not read before all of that is taken, as an echo does, waits for the reader.
#[test]
fn a_reader_that_rests_makes_no_peer_late() {
    let large = 1 << 20;
    for depth in [1, 8] {
        let scene = Simulated::new();
        let peer = scene.peer(move |mut line| async move {
            line.head().await;
            line.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {large}\r\n\r\n")).await;
            line.say(vec![b'x'; large]).await;
            line.wait_for_end().await;
        });
        let client = scene.client(|builder| builder.http1_only().pipelining(depth));
        scene.run(async move || {
            let call = client.post("http://peer.example/").via(peer.via()).body(vec![b'x'; large]);
            let mut response = call.send().await.expect("a head");
            sleep(seconds(3600)).await;
            let mut read = 0;
            while let Some(chunk) = response.chunk().await.expect("the rest") {
                read += chunk.len();
            }
            assert_eq!((read, client.counters().total().write_timeouts), (large, 0));
        });
    }
}

#[test]
fn a_call_that_waits_behind_a_drip_ends_by_the_acquire_deadline() {
    let scene = Simulated::new();
    let peer = dripping(&scene, false, "text/plain", seconds(1));
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let client = scene.client(|builder| builder.limits(limits));
    scene.run(async move || {
        let first = client.get("http://peer.example/").via(peer.via()).send().await.expect("a head");
        let begin = Instant::now();
        let second = client.get("http://peer.example/").via(peer.via());
        let error = collect(second).await.expect_err("no place");
        assert!(error.is_timeout() && error.phase() == Some(Phase::Acquire), "{error:?}");
        assert!(!error.may_have_been_processed());
        in_time("acquire", begin, 5);
        drop(first);
    });
}

#[test]
fn a_proxy_that_drips_ends_by_the_connect_deadline() {
    for (scheme, said) in [
        ("http", "HTTP/1.1 200 OK\r\nx: "),
        ("http", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("socks5h", "\x05\0\x05\0\0\x03\u{7f}"),
    ] {
        let scene = Simulated::new();
        let peer = scene.peer(move |mut line| async move {
            for byte in said.bytes().chain(std::iter::repeat(b'\0')) {
                sleep(Duration::from_millis(900)).await;
                if !line.say([byte]).await {
                    return;
                }
            }
        });
        let proxy: Proxy = format!("{scheme}://proxy.example:3128").parse().expect("a proxy");
        let proxy = proxy.via(peer.via()).expect("an address");
        let client = scene.client(|builder| builder.proxy(proxy));
        scene.run(async move || {
            let begin = Instant::now();
            // An upgrade takes a tunnel.
            let call = client.get("http://origin.example/").upgrade("other");
            let error = call.send().await.expect_err("no tunnel");
            assert!(error.is_timeout() && error.phase() == Some(Phase::Connect), "{error:?}");
            in_time(scheme, begin, 3);
            let _peer = peer;
        });
    }
}

#[cfg(feature = "tls")]
#[test]
fn a_handshake_that_drips_ends_by_its_own_deadline() {
    let scene = Simulated::new();
    // A record of TLS that never ends.
    let peer = scene.peer(async |mut line| {
        line.say(b"\x16\x03\x03\x3f\x00\x02\x00\x3e\xfc\x03\x03").await;
        line.trickle(b"x", Duration::from_millis(900)).await;
    });
    let client = scene.client(|builder| builder);
    scene.run(async move || {
        let begin = Instant::now();
        let error = collect(client.get("https://peer.example/").via(peer.via())).await.expect_err("no TLS");
        assert!(error.is_timeout() && error.phase() == Some(Phase::Handshake), "{error:?}");
        in_time("handshake", begin, 5);
    });
}

/// Interim responses come all the while.
#[test]
fn a_body_that_waits_to_be_asked_for_goes_out_after_a_second_of_drips() {
    in_each_version(|is_http2, version| {
        let scene = Simulated::new();
        let peer = scene.peer(move |mut line| async move {
            let interim = if is_http2 {
                line.greet(&[]).await;
                let stream = line.request().await.expect("a request");
                frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", "103")]))
            } else {
                line.head().await;
                b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()
            };
            let begin = Instant::now();
            loop {
                line.say(&interim).await;
                let next = async {
                    match is_http2 {
                        true => while line.next().await.is_some_and(|frame| frame.kind != DATA) {},
                        false => drop(line.byte().await),
                    }
                };
                if tokio::time::timeout(Duration::from_millis(100), next).await.is_ok() {
                    break;
                }
            }
            in_time("expect", begin, 1);
            match is_http2 {
                true => line.answer(1).await,
                false => drop(line.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await),
            }
        });
        let limits = Limits { interim_responses: 1000, ..Limits::default() };
        let client = scene.client(|builder| version(builder).expect_continue(1).limits(limits));
        scene.run(async move || {
            let call = client.post("http://peer.example/").via(peer.via()).body("tea");
            assert_eq!(collect(call).await.expect("an answer"), b"ok");
            assert_free("expect", &client);
        });
    });
}

#[test]
fn pings_keep_no_idle_connection_open() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.greet(&[]).await;
        let Some(stream) = line.request().await else { return };
        line.answer(stream).await;
        let begin = Instant::now();
        line.trickle(frame(PING, 0, 0, &[0; 8]), Duration::from_millis(500)).await;
        in_time("idle", begin, 50);
    });
    let client = scene.client(|builder| builder.http2_prior_knowledge());
    scene.run(async move || {
        collect(client.get("http://peer.example/").via(peer.via())).await.expect("an answer");
        sleep(seconds(60)).await;
        assert_eq!(client.counters().total().idle_timeouts, 1);
    });
}

#[test]
fn pings_acknowledge_no_settings() {
    let scene = Simulated::new();
    let peer = scene.peer(async |mut line| {
        line.frame(SETTINGS, 0, 0, &[]).await;
        line.trickle(frame(PING, 0, 0, &[0; 8]), Duration::from_millis(100)).await;
    });
    let client = scene.client(|builder| builder.http2_prior_knowledge());
    scene.run(async move || {
        let begin = Instant::now();
        let error = collect(client.get("http://peer.example/").via(peer.via())).await.expect_err("silence");
        assert!(matches!(error, Error::Http2 { .. }), "{error:?}");
        in_time("settings", begin, 10);
    });
}
