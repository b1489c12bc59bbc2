//! A task that has used up its cooperative budget makes calls as well as any other.
//!
//! The runtime has whatever such a task polls say "pending", however ready it is.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Gate, OK, client, eventually};
use tokio::task::coop;

/// Uses up what the present task may do before it yields.
fn spend_budget(cx: &mut Context<'_>) {
    while coop::has_budget_remaining() {
        let Poll::Ready(step) = coop::poll_proceed(cx) else { panic!("there is budget") };
        step.made_progress();
    }
}

#[test]
fn a_connection_that_has_ended_is_seen() {
    let gate = Gate::new();
    let (loops, client) = client(1, |builder| builder);
    let via = gate.via().clone();
    let (ask, asked) = mpsc::channel::<()>();
    let (close, closed) = mpsc::channel::<()>();
    let caller = client.clone();
    let calling = loops.get(0).spawn(move || async move {
        let call = || caller.post("http://peer.example/").via(&via).send();
        call().await.expect("an answer");
        ask.send(()).expect("the test waits");
        // Blocks the loop on purpose.
        closed.recv().expect("the test goes on");
        let mut second = pin!(call());
        let first_poll = poll_fn(|cx| {
            spend_budget(cx);
            Poll::Ready(second.as_mut().poll(cx))
        });
        assert!(first_poll.await.is_pending());
        second.await.expect("an answer").text().await
    });
    let mut talk = gate.accept();
    assert!(talk.request().is_some());
    talk.say(OK);
    asked.recv().expect("the first call is answered");
    talk.half_close();
    close.send(()).expect("the loop waits");
    // Beside the test, which ends at once if the second call goes out on the first connection.
    std::thread::spawn(move || {
        let mut talk = gate.accept();
        assert!(talk.request().is_some());
        talk.say(OK);
        talk.wait_for_end();
    });
    assert_eq!(calling.wait().expect("no panic").expect("a body"), "ok");
    let counters = client.counters().total();
    assert_eq!((counters.evicted, counters.resent, counters.reused), (1, 0, 0));
}

#[test]
fn a_call_that_is_dropped_frees_its_place() {
    let long = Duration::from_secs(3600);
    let gate = Gate::new();
    // No deadline is to wake the connection's task.
    let (loops, client) = client(1, |builder| {
        builder.read_timeout(long).write_timeout(long).idle_timeout(long).total_timeout(long)
    });
    let via = gate.via().clone();
    let caller = client.clone();
    let (ask, asked) = mpsc::channel::<()>();
    let (drop_it, dropping) = tokio::sync::oneshot::channel::<()>();
    let calling = loops.get(0).spawn(move || async move {
        let call = || caller.get("http://peer.example/").via(&via).send();
        call().await.expect("an answer");
        let mut second = Box::pin(call());
        let first_poll = poll_fn(|cx| {
            spend_budget(cx);
            Poll::Ready(second.as_mut().poll(cx))
        });
        assert!(first_poll.await.is_pending());
        ask.send(()).expect("the test waits");
        dropping.await.expect("the test goes on");
        drop(second);
    });
    let mut talk = gate.accept();
    assert!(talk.request().is_some());
    talk.say(OK);
    asked.recv().expect("the second call is under way");
    assert!(talk.request().is_some());
    assert_eq!(client.counters().total().active, 1);
    drop_it.send(()).expect("the loop waits");
    calling.wait().expect("no panic");
    eventually("the connection ends", || client.counters().total().active == 0);
    assert!(talk.request().is_none());
}
