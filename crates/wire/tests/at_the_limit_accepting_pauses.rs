//! As many connections as the limit allows are served; later ones wait, and come in as earlier ones close.

mod support;

use std::sync::mpsc;

use anywire_wire::{ListenOptions, ListenerHandle};

#[test]
fn at_the_limit_accepting_pauses() {
    for (address, loop_count) in support::addresses().flat_map(|address| [(address.clone(), 1), (address, 2)])
    {
        let loops = support::loops(loop_count);
        let (served, serving) = mpsc::channel();
        let options = ListenOptions { max_connections: Some(2), ..ListenOptions::default() };
        let listening = support::bind(&loops, &address, &options).serve(move |connection| {
            served.send(()).expect("the test waits");
            drop(anywire_loops::spawn(support::echo(connection)));
        });
        let address = listening.local().clone();
        let count = 10;
        let peers = support::loops(1);
        let dialling = peers.get(0).spawn(move || async move {
            let mut connections = std::collections::VecDeque::new();
            for _ in 0..count {
                connections.push_back(support::dial(&address).await);
            }
            // Some are served: which ones is the system's choice. Each that closes makes room for another.
            while !connections.is_empty() {
                let served = support::first_answered(connections.make_contiguous()).await;
                drop(connections.remove(served));
            }
        });
        dialling.wait().expect("all are served in the end");
        assert_eq!(serving.iter().take(count).count(), count);
        assert!(listening.counters().pauses > 0, "it paused");
        support::eventually("all seats are free", || open(&listening) == 0);
    }
}

#[test]
fn never_more_than_the_limit_are_served() {
    for address in support::addresses() {
        let loops = support::loops(2);
        let (served, serving) = mpsc::channel();
        let options = ListenOptions { max_connections: Some(2), ..ListenOptions::default() };
        let (close, closing) = tokio::sync::watch::channel(());
        let listening = support::bind(&loops, &address, &options).serve(move |connection| {
            let (served, mut closing) = (served.clone(), closing.clone());
            drop(anywire_loops::spawn(async move {
                served.send(()).expect("the test waits");
                let _ = closing.changed().await;
                drop(connection);
            }));
        });
        let dialled = listening.local().clone();
        let peers = support::loops(1);
        let dialling = peers.get(0).spawn(move || async move {
            let mut connections = Vec::new();
            for _ in 0..8 {
                connections.push(support::dial(&dialled).await);
            }
            for connection in &mut connections {
                let _ = support::read_to_end(connection).await;
            }
        });
        for _ in 0..2 {
            serving.recv_timeout(support::HANG).expect("two are served");
        }
        support::eventually("the others wait", || listening.counters().pauses > 0);
        assert_eq!(open(&listening), 2);
        assert!(serving.try_recv().is_err(), "no third one is served");
        // Now each of them ends as soon as it is served.
        drop(close);
        for _ in 2..8 {
            serving.recv_timeout(support::HANG).expect("the others are served, too");
        }
        dialling.wait().expect("all were closed");
    }
}

fn open(listening: &ListenerHandle) -> u64 {
    listening.counters().open
}
