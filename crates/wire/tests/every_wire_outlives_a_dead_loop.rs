//! On every wire a loop that has died gets no more connections, and its listener goes on, whichever of its loops it was.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anywire_wire::Dialer;

/// More than there are loops, so that each of them has its turn.
const CONNECTIONS: usize = 6;

#[test]
fn every_connection_is_served_though_a_loop_has_died() {
    for wire in support::wires() {
        for dead in 0..3 {
            let address = wire.scratch().expect("every wire so far can make an address up");
            println!("on {address}, without loop {dead}");
            let loops = support::loops(3);
            let listening = support::serve_echo(&loops, &address, &support::listening());
            let address = listening.local().clone();
            let ask = move |dialer: Dialer| {
                let address = address.clone();
                support::on_a_loop(move || async move {
                    for _ in 0..CONNECTIONS {
                        let mut connection = dialer.dial(&address).await.expect("it is listened on");
                        support::ask_echo(&mut connection).await;
                    }
                });
            };
            ask(support::dialer());
            support::kill(&loops, dead);
            ask(support::dialer());
            // The end of the listener does not wait for the dead loop.
            listening.stop();
            let again = support::serve_echo(&loops, listening.local(), &support::listening());
            ask(support::dialer());
            drop(again);
        }
    }
}

#[test]
fn the_loops_that_live_share_the_connections_of_a_dead_one() {
    for wire in support::wires() {
        let address = wire.scratch().expect("every wire so far can make an address up");
        println!("on {address}");
        let loops = support::loops(3);
        let served: Arc<[AtomicUsize; 3]> = Arc::default();
        let counts = Arc::clone(&served);
        let listening = support::bind(&loops, &address, &support::listening()).serve(move |connection| {
            let here = anywire_loops::current().expect("it is served on a loop").id().index();
            counts[here].fetch_add(1, Ordering::Relaxed);
            drop(anywire_loops::spawn(support::echo(connection)));
        });
        support::kill(&loops, 1);
        let address = listening.local().clone();
        support::on_a_loop(move || async move {
            for _ in 0..64 {
                let mut connection = support::dial(&address).await;
                support::ask_echo(&mut connection).await;
            }
        });
        let served: Vec<_> = served.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!((served[1], served.iter().sum()), (0, 64), "on {}: {served:?}", wire.scheme());
        // The system spreads by chance on a wire that has a socket for each loop.
        let few = if matches!(wire.scheme(), "tcp" | "tls") { 8 } else { 32 };
        assert!(served[0] >= few && served[2] >= few, "on {}: {served:?}", wire.scheme());
    }
}
