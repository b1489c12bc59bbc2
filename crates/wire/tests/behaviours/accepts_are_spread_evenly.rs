//! Connections are spread over the loops: exactly evenly where one socket accepts them all, and by the system where
//! each loop has a socket of its own.

use std::collections::HashMap;
use std::sync::mpsc;

use anywire_loops::LoopId;
use anywire_wire::Address;

const LOOPS: usize = 3;
const CONNECTIONS: usize = 300;

/// How many of the connections each loop got.
fn shares(address: &Address) -> HashMap<LoopId, usize> {
    let loops = crate::support::loops(LOOPS);
    let (served, serving) = mpsc::channel();
    let listening =
        crate::support::bind(&loops, address, &crate::support::listening()).serve(move |connection| {
            let present = anywire_loops::current().expect("connections are served on a loop");
            served.send(present.id()).expect("the test waits");
            drop(anywire_loops::spawn(crate::support::echo(connection)));
        });
    let address = listening.local().clone();
    crate::support::on_a_loop(move || async move {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(crate::support::dial(&address).await);
        }
        for connection in &mut connections {
            crate::support::ask_echo(connection).await;
        }
    });
    listening.stop();
    let mut shares = HashMap::new();
    for id in serving.iter().take(CONNECTIONS) {
        *shares.entry(id).or_default() += 1;
    }
    shares
}

#[test]
fn accepts_are_spread_evenly() {
    for wire in crate::support::wires() {
        let address = wire.scratch().expect("every wire so far can make an address up");
        let probe = wire.bind(&address, &crate::support::listening(), LOOPS).expect("nobody listens there");
        let sockets = probe.acceptors.len();
        drop(probe);
        let shares = shares(&address);
        println!("{}: {shares:?}", wire.scheme());
        assert_eq!(shares.values().sum::<usize>(), CONNECTIONS);
        assert_eq!(shares.len(), LOOPS, "each loop has some");
        if sockets == 1 {
            assert!(shares.values().all(|&share| share == CONNECTIONS / LOOPS), "{shares:?}");
        } else {
            assert_eq!(sockets, LOOPS);
        }
    }
}

#[test]
fn abstract_names_are_spread_as_paths_are() {
    let name = format!("unix:@accepts-are-spread-evenly-{}", std::process::id());
    let shares = shares(&name.parse().expect("an address"));
    assert!(
        shares.len() == LOOPS && shares.values().all(|&share| share == CONNECTIONS / LOOPS),
        "{shares:?}"
    );
}
