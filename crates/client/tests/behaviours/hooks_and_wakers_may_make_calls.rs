//! What a caller hands over runs where it likes, and may itself make calls, drop calls, or look at a trace: nothing of the client
//! is held while it runs.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use anywire_client::{Client, ClientBuilder, Limits, Sending, Trace};

use crate::support::{
    OK, Peer, all, block_on, client, client_of_http2, eventually, on_token, poll_once, until_no_call, wire,
};

/// Begins a call whenever it is woken.
struct Calls {
    client: Client,
    url: String,
    begun: Mutex<Vec<Sending>>,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let mut call = self.client.get(&self.url).send();
        let _ = poll_once(&mut call);
        self.begun.lock().expect("no panic").push(call);
    }
}

/// Sets how calls share connections.
type Sharing = (&'static str, fn(ClientBuilder) -> ClientBuilder);

fn clients() -> Vec<Sharing> {
    vec![
        ("alone", |builder| builder.http1_only()),
        ("pipelined", |builder| builder.http1_only().pipelining(8)),
        ("one connection", |builder| {
            builder.pipelining(8).limits(Limits { connections_per_origin: 1, ..Limits::default() })
        }),
    ]
}

#[test]
fn a_waker_may_make_a_call() {
    for (name, options) in clients() {
        println!("{name}");
        let peer = Peer::answering(wire("tcp"), OK);
        let (loops, client) = client(1, options);
        block_on(client.get(peer.url("/")).send()).expect("the first answer");
        let url = peer.url("/");
        let calls = Arc::new(Calls { client: client.clone(), url: url.clone(), begun: Mutex::default() });
        let (waker, on_loop) = (Waker::from(Arc::clone(&calls)), client.clone());
        let begun = loops.get(0).spawn(move || async move {
            let mut calls: Vec<_> = (0..4).map(|_| on_loop.get(&url).send()).collect();
            for call in &mut calls {
                assert!(Pin::new(call).poll(&mut Context::from_waker(&waker)).is_pending());
            }
            calls
        });
        let begun = begun.wait().expect("no panic");
        eventually("each call has made another", || calls.begun.lock().expect("no panic").len() == 4);
        let more = std::mem::take(&mut *calls.begun.lock().expect("no panic"));
        for answer in all(begun.into_iter().chain(more)) {
            assert_eq!(answer.expect("an answer").status(), 200);
        }
    }
}

#[test]
fn one_who_is_told_of_an_interim_response_may_look_at_the_trace_and_make_a_call() {
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n";
    for (name, options) in clients() {
        println!("{name}");
        let peer = Peer::start(wire("tcp"), move |mut talk| {
            while let Some(request) = talk.request() {
                if request.head.path() == "/hints" {
                    talk.say(hints);
                }
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, options);
        block_on(client.get(peer.url("/")).send()).expect("the first answer");
        let (give, calls) = mpsc::channel();
        let (inner, url, trace) = (client.clone(), peer.url("/"), Trace::new());
        let seen = trace.clone();
        let call = client.get(peer.url("/hints")).trace(&trace).on_interim(move |_| {
            assert_eq!(seen.timeline().attempts.len(), 1);
            let mut call = inner.get(&url).send();
            let _ = poll_once(&mut call);
            let _ = give.send(call);
        });
        block_on(call.send()).expect("an answer");
        block_on(calls.recv().expect("it was told")).expect("an answer to its call");
        until_no_call(&client);
    }
}

#[test]
fn a_call_of_a_hook_survives_the_end_of_the_connection() {
    // The second connection answers. The first one ends right behind the interim response.
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            if request.head.path() == "/hints" {
                return talk.say("HTTP/1.1 103 Early Hints\r\n\r\nno HTTP at all\r\n\r\n");
            }
            talk.say(OK);
        }
    });
    for (name, options) in clients() {
        println!("{name}");
        let (_loops, client) = client(1, options);
        block_on(client.get(peer.url("/")).send()).expect("the first answer");
        let (give, calls) = mpsc::channel();
        let (inner, url) = (client.clone(), peer.url("/"));
        let call = client.get(peer.url("/hints")).on_interim(move |_| {
            let mut call = inner.get(&url).send();
            let _ = poll_once(&mut call);
            let _ = give.send(call);
        });
        block_on(call.send()).expect_err("no response");
        let answer = block_on(calls.recv().expect("it was told"));
        assert_eq!(answer.expect("an answer to its call").status(), 200);
    }
}

#[test]
fn a_body_that_is_dropped_may_make_a_call() {
    /// A body that is never there, and makes a call when it goes.
    struct Last(Arc<Calls>);
    impl futures_core::Stream for Last {
        type Item = Result<bytes::Bytes, anywire_http::BodyError>;
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Pending
        }
    }
    impl Drop for Last {
        fn drop(&mut self) {
            Arc::clone(&self.0).wake();
        }
    }
    for is_http2 in [false, true] {
        let (peer, tokens) = on_token(wire("tcp"), is_http2);
        let (_loops, client) = if is_http2 { client_of_http2(|b| b) } else { client(1, |builder| builder) };
        let begun = Mutex::default();
        let calls = Arc::new(Calls { client: client.clone(), url: peer.url("/"), begun });
        let last = Last(Arc::clone(&calls));
        let body = anywire_http::Body::stream(last);
        let mut call = client.post(peer.url("/up")).body(body).send();
        assert!(poll_once(&mut call).is_pending());
        eventually("it is under way", || client.counters().total().active == 1);
        drop(call);
        (0..2).for_each(|_| tokens.send(()).expect("the peer is there"));
        eventually("its body was dropped", || calls.begun.lock().expect("no panic").len() == 1);
        let made = calls.begun.lock().expect("no panic").pop().expect("a call");
        assert_eq!(block_on(made).expect("an answer").status(), 200);
    }
}
