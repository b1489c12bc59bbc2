//! Before it is known which version an origin speaks, its first calls gather on one loop, which dials once.
#![cfg(feature = "tls")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::task::Poll;

use crate::support::names::Book;
use crate::support::{HANG, OK, Peer, all, block_on, builder, client, eventually, poll_once, wire};
use anywire_client::{Client, Error, Limits, Sending};
use anywire_loops::Loops;

/// A client on four loops whose dials wait until the book is open.
fn waiting_client(peer: &Peer) -> (Book, Loops, Client) {
    let port = peer.via().port().expect("TCP has ports");
    let book = Book::new();
    book.set("one.example", &[SocketAddr::from(([127, 0, 0, 1], port))]);
    book.open(false);
    let (loops, client) = client(4, |builder| builder.resolver(book.clone()));
    (book, loops, client)
}

/// Twenty calls from outside that wait for a connection.
fn twenty_first(client: &Client) -> Vec<Sending> {
    let mut calls: Vec<_> = (0..20).map(|_| client.get("https://one.example/").send()).collect();
    for call in &mut calls {
        assert!(poll_once(call).is_pending());
    }
    eventually("all of them wait", || client.counters().total().waiting == 20);
    calls
}

#[test]
fn twenty_first_calls_dial_once() {
    let peer = Peer::of_http2(wire("tls"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    let (book, _loops, client) = waiting_client(&peer);
    let calls = twenty_first(&client);
    book.open(true);
    for answer in all(calls) {
        answer.expect("an answer");
    }
    assert_eq!((client.counters().total().dialed, peer.accepted()), (1, 1));
    // Later calls are shared evenly, and each loop dials once.
    for _ in 0..40 {
        block_on(client.get("https://one.example/").send()).expect("an answer");
    }
    assert_eq!(client.counters().total().dialed, 4);
    assert!(client.counters().per_loop.iter().all(|part| part.requests >= 10));
}

#[test]
fn if_http1_wins_the_calls_have_connections_of_their_own() {
    let peer =
        Peer::start_with(&Loops::start(1).expect("loops start"), wire("tls"), &["http/1.1"], |mut talk| {
            while talk.request().is_some() {
                talk.say(OK);
            }
        });
    let (book, _loops, client) = waiting_client(&peer);
    let calls = twenty_first(&client);
    book.open(true);
    for answer in all(calls) {
        answer.expect("an answer");
    }
    let first = client.counters();
    assert_eq!(first.per_loop.iter().filter(|part| part.requests > 0).count(), 1);
    for _ in 0..4 {
        block_on(client.get("https://one.example/").send()).expect("an answer");
    }
    assert!(client.counters().per_loop.iter().all(|part| part.requests > 0), "all loops go on");
}

#[test]
fn a_dial_that_fails_holds_nobody_up() {
    let book = Book::new();
    let (_loops, client) = client(4, |builder| builder.resolver(book).retries(0));
    for _ in 0..8 {
        let error = block_on(client.get("https://one.example/").send()).expect_err("no such name");
        assert!(error.is_connect(), "{error:?}");
    }
    assert!(client.counters().per_loop.iter().all(|part| part.requests == 2), "in turn");
}

/// Calls that have no room on the loop where they gather would go to another one, whose inbox is full: they fail, and do
/// not wait there.
#[test]
fn a_full_inbox_takes_no_calls_of_another_loop() {
    let book = Book::new();
    book.open(false);
    let of_loops = anywire_loops::Limits { hand_overs_waiting: 4, ..anywire_loops::Limits::default() };
    let loops = Loops::builder().count(2).limits(of_loops).start().expect("loops start");
    let limits = Limits { connections_per_origin: 2, queue_per_origin: 2, ..Limits::default() };
    // The name is never found: none of them ends by a deadline.
    let builder = builder().resolve_timeout(HANG).connect_timeout(HANG).acquire_timeout(HANG);
    let client = builder.on(&loops).limits(limits).resolver(book).build();

    let (blocked, is_blocked) = mpsc::channel();
    let (unblock, unblocked) = mpsc::channel::<()>();
    let blocks = loops.get(1).spawn(move || async move {
        let _ = blocked.send(());
        let _ = unblocked.recv();
    });
    is_blocked.recv().expect("it is blocked");
    while loops.get(1).post(|| ()).is_ok() {}

    let waiting = RefCell::new(Vec::new());
    // Those that have an outcome are refused, at once or soon.
    let refused = Cell::new(0);
    let look = || {
        waiting.borrow_mut().retain_mut(|call| match poll_once(call) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                assert!(matches!(outcome, Err(Error::QueueFull { .. })), "{outcome:?}");
                refused.set(refused.get() + 1);
                false
            }
        });
    };
    for calls in 1..=20 {
        waiting.borrow_mut().push(client.get("https://one.example/").send());
        look();
        // One by one: the inbox of the loop where they gather has little room, too.
        eventually("it has come", || client.counters().total().requests == calls);
    }
    eventually("all but a few are refused", || {
        look();
        // A loop counts one just before it says so.
        refused.get() >= 16 && client.counters().total().queue_full == refused.get()
    });
    drop(unblock);
    blocks.wait().expect("no panic");
}
