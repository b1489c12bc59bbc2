//! Idle connections are used last in, first out, so that a small load keeps few of them warm.

use std::sync::{Mutex, mpsc};

use crate::support::{Peer, block_on, client, eventually, on_each_wire, poll_once};

#[test]
fn of_two_idle_connections_the_one_used_last_is_next() {
    on_each_wire(|wire| {
        let ((one, first), (other, second)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        let (first, second) = (Mutex::new(first), Mutex::new(second));
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                match request.head.path() {
                    "/first" => first.lock().expect("no panic").recv().expect("the test goes on"),
                    "/second" => second.lock().expect("no panic").recv().expect("the test goes on"),
                    _ => {}
                }
                talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}", talk.number));
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        let send = |path| client.get(peer.url(path)).via(peer.via()).send();
        let (mut first, mut second) = (send("/first"), send("/second"));
        assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
        eventually("both are on their way", || client.counters().total().active == 2);
        one.send(()).expect("the peer waits");
        block_on(first).expect("an answer");
        other.send(()).expect("the peer waits");
        let last = block_on(async { second.await?.text().await }).expect("an answer");
        for _ in 0..3 {
            let next = block_on(async { send("/").await?.text().await }).expect("an answer");
            assert_eq!(next, last);
        }
        assert_eq!(client.counters().total().dialed, 2);
    });
}
