//! Clients that are given no loops share one set of them, a thread for each core, which ends with the last client and begins anew with the
//! next one. A process of its own, whose threads are counted.

#[path = "behaviours/support/mod.rs"]
mod support;

use anywire_client::Client;

use crate::support::{OK, Peer, block_on, eventually, wire};

/// The threads of loops that clients have started.
fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").expect("proc is mounted").filter_map(|task| {
        // A thread may end meanwhile.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    // The kernel keeps 15 bytes of a name.
    names.filter(|name| name.starts_with("anywire-client")).count()
}

#[test]
fn they_end_with_the_last_client() {
    let peer = Peer::answering(wire("tcp"), OK);
    let call = |client: &Client| {
        block_on(client.get(peer.url("/")).send()).expect("an answer");
    };
    for _ in 0..2 {
        let [first, last] = [(); 2].map(|()| Client::builder().no_proxy().build());
        assert_eq!(threads(), 0, "nothing is started before the first call");
        call(&first);
        let loops = first.counters().per_loop.len();
        assert!(loops > 0);
        eventually("there is one each", || threads() == loops);
        call(&last);
        assert_eq!((last.counters().per_loop.len(), threads()), (loops, loops), "they share them");
        drop(first);
        call(&last);
        assert_eq!(threads(), loops, "the other client has them still");
        drop(last);
        eventually("they end with the last one", || threads() == 0);
    }
}
