//! At the limit of connections accepting pauses; a connection that waits is served once another one closes.

use anywire_server::{Limits, Router};

#[test]
fn connections_are_limited() {
    crate::support::on_each_wire(two_at_once);
}

fn two_at_once(scene: &crate::support::Scene) {
    if scene.has_handshake() {
        // Dialling the third would not end: its handshake waits for the server.
        return;
    }
    let limits = Limits { connections: Some(2), ..Limits::default() };
    let served = scene.serve_with(Router::new().get("/", async || "ok"), limits);
    let mut first = served.connect();
    let mut second = served.connect();
    for peer in [&mut first, &mut second] {
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
    }
    // The system's backlog takes the connection, the server does not yet.
    let mut third = served.connect();
    third.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    served.await_count("accept pauses", |counters| counters.accept_pauses, 1);
    first.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(first.answer(false).text(), "ok");
    assert_eq!(served.running.counters().connections, 2, "the third is not taken while two are open");
    drop(first);
    assert_eq!(third.answer(false).text(), "ok");
    let counters = served.running.counters();
    assert!(counters.connections_open <= 2, "{counters:?}");
}
