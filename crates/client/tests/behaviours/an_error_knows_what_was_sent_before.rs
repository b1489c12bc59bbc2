//! An error says whether the server may have processed the call, and counts earlier attempts and hops of redirects.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use anywire_advice::Chain;
use anywire_client::{CallRequest, ClientBuilder, Error, Limits, Next, Response, Retries};
use anywire_http::Url;

use crate::support::bytes_of_http2::{END_HEADERS, END_STREAM, HEADERS, literals};
use crate::support::{HANG, OK, Peer, block_on, builder, eventually, poll_once, wire};

/// Nobody listens there.
const CLOSED: &str = "http://127.0.0.1:1/orders/7";

/// A peer that has done what a POST asks for, and says where its result is.
fn done(location: String, is_http2: bool) -> Peer {
    done_when(|| (), location, is_http2)
}

/// The same, once this returns.
fn done_when(may_say: impl Fn() + Send + Sync + 'static, location: String, is_http2: bool) -> Peer {
    if is_http2 {
        return Peer::of_http2(wire("tcp"), move |mut frames, _| {
            while let Some(stream) = frames.request() {
                may_say();
                let head = literals(&[(":status", "303"), ("location", &location)]);
                frames.say(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            }
        });
    }
    Peer::start(wire("tcp"), move |mut talk| {
        while talk.request().is_some() {
            may_say();
            talk.say(format!("HTTP/1.1 303 See Other\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"));
        }
    })
}

fn version(builder: ClientBuilder, is_http2: bool) -> ClientBuilder {
    if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
}

fn says_so(error: &Error) {
    assert!(error.may_have_been_processed(), "{error:?}");
    let text = Chain(error).to_string();
    assert!(!text.contains("nothing was sent"), "{text}");
}

#[test]
fn a_hop_that_was_answered_was_sent() {
    for is_http2 in [false, true] {
        let peer = done(CLOSED.to_owned(), is_http2);
        let client = version(builder(), is_http2).build();
        let error =
            block_on(client.post(peer.url("/orders")).body("tea").send()).expect_err("nobody is there");
        assert!(matches!(error.last(), Error::Connect { .. }), "{error:?}");
        says_so(&error);
    }
}

#[test]
fn an_error_that_says_nothing_of_it_is_told_behind_its_hops() {
    let silent = Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.wait_for_end();
    });
    let peer = done(silent.url("/orders/7"), false);
    let limits = Limits { connections_per_origin: 1, queue_per_origin: 0, ..Limits::default() };
    let client = builder().http1_only().limits(limits).build();
    let mut before = client.get(silent.url("/")).send();
    assert!(poll_once(&mut before).is_pending());
    eventually("it has the connection", || client.counters().total().active == 1);
    let error = block_on(client.post(peer.url("/orders")).body("tea").send()).expect_err("no room");
    assert!(matches!(error, Error::Redirected { hops: 1, .. }), "{error:?}");
    assert!(matches!(error.last(), Error::QueueFull { .. }), "{error:?}");
    assert_eq!((error.kind(), error.attempts()), ("limit", 1));
    assert_eq!(error.fault(), error.last().fault());
    says_so(&error);
    // The same of a call that went there at once: nothing was sent.
    let error = block_on(client.post(silent.url("/orders/7")).send()).expect_err("no room");
    assert!(matches!(error, Error::QueueFull { .. }) && !error.may_have_been_processed(), "{error:?}");
}

#[test]
fn an_attempt_that_was_sent_is_known_to_the_last_one() {
    for (is_http2, is_answered) in [(false, false), (true, false), (false, true)] {
        let peer = match is_http2 {
            true => Peer::of_http2(wire("tcp"), |mut frames, _| {
                frames.request();
            }),
            false => Peer::start(wire("tcp"), move |mut talk| {
                if talk.request().is_some() && is_answered {
                    talk.say(OK.replace("200 OK", "503 Busy\r\nconnection: close"));
                }
            }),
        };
        let url = peer.url("/");
        let peer = Mutex::new(Some(peer));
        // The peer has gone when the next attempt comes.
        let leaves = move |_: &anywire_client::Failure<'_>| {
            peer.lock().expect("no panic").take();
            true
        };
        let retries = Retries {
            max: 1,
            first_pause: Duration::ZERO,
            when: Some(Arc::new(leaves)),
            ..Retries::default()
        };
        let client = version(builder(), is_http2).retries(retries).build();
        let error = block_on(client.put(url).body("tea").send()).expect_err("no answer");
        assert_eq!(error.attempts(), 2, "{error:?}");
        assert!(error.is_connect(), "{error:?}");
        says_so(&error);
    }
}

/// Has the requests of a client sent by way of a function, around each call or each attempt.
fn around<F, C>(builder: ClientBuilder, calls: bool, function: F) -> ClientBuilder
where
    F: Fn(CallRequest, Next) -> C + Send + Sync + 'static,
    C: Future<Output = Result<Response, Error>> + Send + 'static,
{
    if calls { builder.intercept(function) } else { builder.intercept_attempts(function) }
}

/// A request for an address where nobody is.
fn elsewhere(request: &CallRequest) -> CallRequest {
    let mut copy = request.try_clone().expect("a body that is there");
    copy.set_url(CLOSED.parse().expect("a URL"));
    copy
}

/// Sends the request, and then a clone of it, as with another token; or drops the first one once the peer has it.
#[test]
fn what_an_interceptor_has_sent_is_known_to_the_error() {
    for (is_http2, drops, calls) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, false, true),
        (false, true, true),
    ] {
        let (got, has_got) = std::sync::mpsc::channel();
        let got = Mutex::new(got);
        let peer = match is_http2 {
            true => Peer::of_http2(wire("tcp"), |mut frames, _| {
                while let Some(stream) = frames.request() {
                    frames.say(HEADERS, END_HEADERS | END_STREAM, stream, &literals(&[(":status", "401")]));
                }
            }),
            false => Peer::start(wire("tcp"), move |mut talk| {
                while talk.request().is_some() {
                    let _ = got.lock().expect("no panic").send(());
                    match drops {
                        true => talk.wait_for_end(),
                        false => talk.say(OK.replace("200 OK", "401 Unauthorized")),
                    }
                }
            }),
        };
        let has_got = Arc::new(Mutex::new(has_got));
        let twice = move |request: CallRequest, next: Next| {
            let has_got = Arc::clone(&has_got);
            async move {
                let second = elsewhere(&request);
                let mut first = Box::pin(next.clone().call(request));
                match drops {
                    true => {
                        let waits = std::future::poll_fn(|cx| {
                            let _ = first.as_mut().poll(cx);
                            let has_it = has_got.lock().expect("no panic").try_recv().is_ok();
                            if has_it {
                                Poll::Ready(())
                            } else {
                                cx.waker().wake_by_ref();
                                Poll::Pending
                            }
                        });
                        waits.await;
                        drop(first);
                    }
                    false => drop(first.await?),
                }
                next.call(second).await
            }
        };
        let client = around(version(builder(), is_http2), calls, twice).build();
        let error =
            block_on(client.post(peer.url("/orders")).body("tea").send()).expect_err("nobody is there");
        assert!(matches!(error.last(), Error::Connect { .. }), "{error:?}");
        says_so(&error);
    }
}

/// The inner one sends twice; then there is no room for a third request, which says nothing of what was sent. The outer one decides
/// whether to send again.
#[test]
fn an_outer_interceptor_is_told_what_an_inner_one_has_sent() {
    for (is_http2, calls) in [(false, false), (false, true), (true, false), (true, true)] {
        let peer = done(CLOSED.to_owned(), is_http2);
        let outer = |request: CallRequest, next: Next| async move {
            let outcome = next.call(request).await;
            says_so(outcome.as_ref().expect_err("the inner one has failed"));
            outcome
        };
        let inner = |request: CallRequest, next: Next| async move {
            drop(next.clone().call(request).await?);
            Err("no url".parse::<Url>().map_or_else(
                |source| Error::Url { url: "no url".to_owned(), source },
                |_| unreachable!("it has a space"),
            ))
        };
        let client = version(builder().redirects(0), is_http2);
        let client = around(around(client, calls, outer), calls, inner).build();
        let error = block_on(client.post(peer.url("/orders")).body("tea").send()).expect_err("no URL");
        assert!(matches!(error.last(), Error::Url { .. }), "{error:?}");
        says_so(&error);
    }
}

/// The interceptor gives up while a request that it has made goes on elsewhere.
#[test]
fn a_request_may_outlive_its_interceptor() {
    for (is_http2, calls) in [(false, false), (false, true), (true, false), (true, true)] {
        let gate = Arc::new(Mutex::new(()));
        let is_shut = gate.lock().expect("no panic");
        let opens = Arc::clone(&gate);
        let peer = done_when(move || drop(opens.lock()), CLOSED.to_owned(), is_http2);
        let (gives, gets) = std::sync::mpsc::channel();
        let gives_up = move |request: CallRequest, next: Next| {
            let gives = gives.clone();
            async move {
                let mut hedge = next.call(request);
                assert!(poll_once(&mut hedge).is_pending());
                gives.send(hedge).expect("the test waits for it");
                Err::<Response, _>(Error::OnLoop)
            }
        };
        let client = around(version(builder().redirects(0), is_http2), calls, gives_up).build();
        let error = block_on(client.post(peer.url("/orders")).body("tea").send()).expect_err("it gave up");
        assert!(matches!(error.last(), Error::OnLoop), "{error:?}");
        says_so(&error);
        drop(is_shut);
        let response = block_on(gets.recv_timeout(HANG).expect("one request")).expect("an answer");
        assert_eq!(response.status(), 303);
    }
}
