//! A descriptor beyond the sets of `select` is refused with the reason, and those within are served on.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::io::Read;

use anywire_ladder::{Options, Rung};
use anywire_sys::descriptors;
use support::{connect, expect_served};

#[test]
fn a_connection_beyond_the_sets_is_refused_with_the_reason() {
    let limit = descriptors::raise_limit().expect("it may be raised");
    assert!(limit.soft > 1200, "this test needs more than 1200 descriptors, and may have {}", limit.soft);
    let rung = Rung::named("select").expect("it is a rung");
    assert!(rung.connections_max.is_some_and(|most| most < 1024), "it says so beforehand");
    let server = rung.start(Options::default()).expect("the first descriptors are low ones");
    let mut connections = Vec::new();
    while server.refused().connections == 0 {
        connections.push(connect(&server).expect("the listener accepts"));
        assert!(connections.len() < 1100, "all were taken");
        let last = connections.last_mut().expect("just pushed");
        // Refused ones are closed without a byte.
        if expect_served(last, &server).is_err() {
            assert!(!matches!(last.read(&mut [0]), Ok(1..)));
            break;
        }
    }
    support::eventually("the refusal is counted", || server.refused().connections > 0);
    let reason = server.refused().reason.expect("a reason");
    assert!(reason.contains("FD_SETSIZE") && reason.contains("epoll"), "{reason}");
    assert!(connections.len() > 300, "only {} fitted", connections.len());
    expect_served(&mut connections[0], &server).expect("it is served on");
    let fitting = connections.len() - 2;
    expect_served(&mut connections[fitting], &server).expect("it is served on");
    // Room that comes back is used again.
    connections.truncate(100);
    support::eventually("a new connection fits", || {
        connect(&server).and_then(|mut connection| expect_served(&mut connection, &server)).is_ok()
    });
}
