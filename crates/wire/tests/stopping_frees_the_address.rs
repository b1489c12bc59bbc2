//! When `stop` returns, the address is free and accepting has ended. Open connections go on.

mod support;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use anywire_wire::Address;

#[test]
fn the_next_listener_can_have_the_address_at_once() {
    for address in support::addresses() {
        let loops = support::loops(2);
        let mut address = address;
        for _ in 0..20 {
            let listening = support::serve_echo(&loops, &address, &support::listening());
            address = listening.local().clone();
            // With connections of its own, which would hold the port of a careless listener.
            support::play_on(&listening, async |mut connection| support::ask_echo(&mut connection).await);
            listening.stop();
            let refused = support::try_dial(&address).expect_err("nobody listens");
            assert!(refused.to_string().contains(&address.to_string()), "{refused}");
        }
    }
}

#[test]
fn open_connections_go_on() {
    for address in support::addresses() {
        let loops = support::loops(2);
        let listening = support::serve_echo(&loops, &address, &support::listening());
        let address = listening.local().clone();
        let (asked, wait) = mpsc::channel();
        let (go_on, mut told) = tokio::sync::mpsc::unbounded_channel::<()>();
        let peers = support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let mut connection = support::dial(&address).await;
            support::ask_echo(&mut connection).await;
            asked.send(()).expect("the test waits");
            let _ = told.recv().await;
            support::ask_echo(&mut connection).await;
        });
        wait.recv_timeout(support::HANG).expect("it is served");
        // Dropped, which is the same as stopped.
        drop(listening);
        drop(go_on);
        peer.wait().expect("it is served still");
    }
}

#[test]
fn neither_open_connections_nor_those_just_closed_hold_the_address() {
    for address in support::addresses() {
        // One, so that each connection comes from the socket that was the first of its server.
        let loops = support::loops(1);
        let first = support::serve_echo(&loops, &address, &support::listening());
        let address = first.local().clone();
        let peers = support::loops(1);
        let (asked, wait) = mpsc::channel();
        let (go_on, told) = tokio::sync::watch::channel(());
        let dial = || {
            let (address, asked, mut told) = (address.clone(), asked.clone(), told.clone());
            peers.get(0).spawn(move || async move {
                let mut connection = support::dial(&address).await;
                support::ask_echo(&mut connection).await;
                asked.send(()).expect("the test waits");
                let _ = told.changed().await;
            })
        };
        let mut open = vec![dial()];
        wait.recv_timeout(support::HANG).expect("it is served");
        drop(first);
        let second = support::serve_echo(&loops, &address, &support::listening());
        open.push(dial());
        wait.recv_timeout(support::HANG).expect("it is served by the second one");
        drop(second);
        // Closed by the server first, whose system remembers them for a while.
        assert!(!loops.shutdown(Duration::ZERO).expect("this is no loop").is_clean());
        drop(support::bind(&support::loops(2), &address, &support::listening()));
        drop(go_on);
        open.into_iter().for_each(|peer| peer.wait().expect("no panic"));
    }
}

#[test]
fn those_who_wait_are_turned_away() {
    for address in support::addresses_without_handshake() {
        let loops = support::loops(1);
        let listener = support::bind(&loops, &address, &support::listening());
        let address = listener.local().clone();
        let (dialled, wait) = mpsc::channel();
        let peers = support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let mut connection = support::dial(&address).await;
            dialled.send(()).expect("the test waits");
            // An end or a reset, as the wire has it; but not for ever nothing.
            let _ = support::read_to_end(&mut connection).await;
        });
        wait.recv_timeout(support::HANG).expect("the backlog takes it");
        drop(listener);
        peer.wait().expect("it is told");
    }
}

#[test]
fn those_who_shake_hands_with_nobody_are_turned_away() {
    let handshake = |address: &Address| support::has_tls(address) || address.scheme() == "shm";
    for address in support::addresses().filter(handshake) {
        let loops = support::loops(1);
        let listener = support::bind(&loops, &address, &support::listening());
        let address = listener.local().clone();
        let (begun, wait) = mpsc::channel();
        let peers = support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let dialer = support::dialer();
            let mut dialling = pin!(dialer.dial(&address));
            let is_pending = poll_fn(|cx| Poll::Ready(dialling.as_mut().poll(cx).is_pending())).await;
            begun.send(is_pending).expect("the test waits");
            dialling.await.expect_err("nobody accepts")
        });
        assert!(wait.recv_timeout(support::HANG).expect("no panic"), "there is nobody to shake hands with");
        drop(listener);
        assert!(!peer.wait().expect("no panic").is_timeout());
    }
}

#[test]
fn those_who_have_connected_are_served() {
    // The loop itself connects the peers of a stack.
    for address in support::addresses_without_handshake().filter(|address| address.scheme() != "stack") {
        let loops = support::loops(1);
        let listening = support::serve_echo(&loops, &address, &support::listening());
        let address = listening.local().clone();
        let peers = support::loops(1);
        let (dialled, wait) = mpsc::channel();
        let (begun, asked) = mpsc::channel();
        let asking = move || async move {
            let mut connections = Vec::new();
            for _ in 0..3 {
                connections.push(support::dial(&address).await);
            }
            dialled.send(()).expect("the listener's loop waits");
            for connection in &mut connections {
                support::ask_echo(connection).await;
            }
        };
        // The loop of the listener stands still meanwhile, so that they wait to be accepted.
        let peer = peers.get(0);
        let stopping = loops.get(0).spawn(move || async move {
            begun.send(peer.spawn(asking)).expect("the test waits");
            wait.recv_timeout(support::HANG).expect("the backlog takes them");
            listening.stop();
        });
        let asking = asked.recv().expect("it has begun");
        stopping.wait().expect("no panic");
        asking.wait().expect("all are served");
    }
}

#[test]
fn on_a_loop_stopping_does_not_wait() {
    for address in support::addresses() {
        let loops = support::loops(2);
        let listening = support::serve_echo(&loops, &address, &support::listening());
        let address = listening.local().clone();
        let on = loops.get(0);
        on.spawn(move || async move { listening.stop() }).wait().expect("no panic");
        support::eventually("the address is free", || {
            anywire_wire::Listener::bind(&address, &support::listening(), &loops).is_ok()
        });
    }
}
