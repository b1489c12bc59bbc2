//! When `stop` returns, the address is free and accepting has ended. Open connections go on.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use anywire_wire::Address;

#[test]
fn the_next_listener_can_have_the_address_at_once() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let mut address = address;
        for _ in 0..20 {
            let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
            address = listening.local().clone();
            // With connections of its own, which would hold the port of a careless listener.
            crate::support::play_on(&listening, async |mut connection| {
                crate::support::ask_echo(&mut connection).await
            });
            listening.stop();
            let refused = crate::support::try_dial(&address).expect_err("nobody listens");
            assert!(refused.to_string().contains(&address.to_string()), "{refused}");
        }
    }
}

#[test]
fn open_connections_go_on() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        let address = listening.local().clone();
        let (asked, wait) = mpsc::channel();
        let (go_on, mut told) = tokio::sync::mpsc::unbounded_channel::<()>();
        let peers = crate::support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let mut connection = crate::support::dial(&address).await;
            crate::support::ask_echo(&mut connection).await;
            asked.send(()).expect("the test waits");
            let _ = told.recv().await;
            crate::support::ask_echo(&mut connection).await;
        });
        wait.recv_timeout(crate::support::HANG).expect("it is served");
        // Dropped, which is the same as stopped.
        drop(listening);
        drop(go_on);
        peer.wait().expect("it is served still");
    }
}

#[test]
fn neither_open_connections_nor_those_just_closed_hold_the_address() {
    for address in crate::support::addresses() {
        // One, so that each connection comes from the socket that was the first of its server.
        let loops = crate::support::loops(1);
        let first = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        let address = first.local().clone();
        let peers = crate::support::loops(1);
        let (asked, wait) = mpsc::channel();
        let (go_on, told) = tokio::sync::watch::channel(());
        let dial = || {
            let (address, asked, mut told) = (address.clone(), asked.clone(), told.clone());
            peers.get(0).spawn(move || async move {
                let mut connection = crate::support::dial(&address).await;
                crate::support::ask_echo(&mut connection).await;
                asked.send(()).expect("the test waits");
                let _ = told.changed().await;
            })
        };
        let mut open = vec![dial()];
        wait.recv_timeout(crate::support::HANG).expect("it is served");
        drop(first);
        let second = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        open.push(dial());
        wait.recv_timeout(crate::support::HANG).expect("it is served by the second one");
        drop(second);
        // Closed by the server first, whose system remembers them for a while.
        assert!(!loops.shutdown(Duration::ZERO).expect("this is no loop").is_clean());
        drop(crate::support::bind(&crate::support::loops(2), &address, &crate::support::listening()));
        drop(go_on);
        open.into_iter().for_each(|peer| peer.wait().expect("no panic"));
    }
}

#[test]
fn those_who_wait_are_turned_away() {
    for address in crate::support::addresses_without_handshake() {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        let (dialled, wait) = mpsc::channel();
        let peers = crate::support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let mut connection = crate::support::dial(&address).await;
            dialled.send(()).expect("the test waits");
            // An end or a reset, as the wire has it; but not for ever nothing.
            let _ = crate::support::read_to_end(&mut connection).await;
        });
        wait.recv_timeout(crate::support::HANG).expect("the backlog takes it");
        drop(listener);
        peer.wait().expect("it is told");
    }
}

#[test]
fn those_who_shake_hands_with_nobody_are_turned_away() {
    let handshake = |address: &Address| crate::support::has_tls(address) || address.scheme() == "shm";
    for address in crate::support::addresses().filter(handshake) {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        let (begun, wait) = mpsc::channel();
        let peers = crate::support::loops(1);
        let peer = peers.get(0).spawn(move || async move {
            let dialer = crate::support::dialer();
            let mut dialling = pin!(dialer.dial(&address));
            let is_pending = poll_fn(|cx| Poll::Ready(dialling.as_mut().poll(cx).is_pending())).await;
            begun.send(is_pending).expect("the test waits");
            dialling.await.expect_err("nobody accepts")
        });
        assert!(
            wait.recv_timeout(crate::support::HANG).expect("no panic"),
            "there is nobody to shake hands with"
        );
        drop(listener);
        assert!(!peer.wait().expect("no panic").is_timeout());
    }
}

#[test]
fn those_who_have_connected_are_served() {
    // The loop itself connects the peers of a stack.
    for address in crate::support::addresses_without_handshake().filter(|address| address.scheme() != "stack")
    {
        let loops = crate::support::loops(1);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        let address = listening.local().clone();
        let peers = crate::support::loops(1);
        let (dialled, wait) = mpsc::channel();
        let (begun, asked) = mpsc::channel();
        let asking = move || async move {
            let mut connections = Vec::new();
            for _ in 0..3 {
                connections.push(crate::support::dial(&address).await);
            }
            dialled.send(()).expect("the listener's loop waits");
            for connection in &mut connections {
                crate::support::ask_echo(connection).await;
            }
        };
        // The loop of the listener stands still meanwhile, so that they wait to be accepted.
        let peer = peers.get(0);
        let stopping = loops.get(0).spawn(move || async move {
            begun.send(peer.spawn(asking)).expect("the test waits");
            wait.recv_timeout(crate::support::HANG).expect("the backlog takes them");
            listening.stop();
        });
        let asking = asked.recv().expect("it has begun");
        stopping.wait().expect("no panic");
        asking.wait().expect("all are served");
    }
}

#[test]
fn on_a_loop_stopping_does_not_wait() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        let address = listening.local().clone();
        let on = loops.get(0);
        on.spawn(move || async move { listening.stop() }).wait().expect("no panic");
        crate::support::eventually("the address is free", || {
            anywire_wire::Listener::bind(&address, &crate::support::listening(), &loops).is_ok()
        });
    }
}
