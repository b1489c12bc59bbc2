//! Pipelined requests are answered in their order, whatever the handlers do, and none waits for a later one.

use std::sync::Arc;

use crate::support::Scene;
use anywire_server::{Request, Router, State};
use tokio::sync::Notify;

#[test]
fn a_slow_handler_does_not_let_others_pass() {
    crate::support::on_each_wire(slow_among_fast);
}

fn slow_among_fast(scene: &Scene) {
    let gate = Arc::new(Notify::new());
    let router = Router::new()
        .state(Arc::clone(&gate))
        .get("/slow", async |gate: State<Arc<Notify>>| {
            gate.notified().await;
            "slow"
        })
        .get("/fast", async || "fast");
    let served = scene.serve(router);
    let mut peer = served.connect();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.send(request("/fast") + &request("/slow") + &request("/fast"));
    // The first answer does not wait for the handler behind it.
    assert_eq!(peer.answer(false).text(), "fast");
    gate.notify_one();
    assert_eq!(peer.answer(false).text(), "slow");
    assert_eq!(peer.answer(false).text(), "fast");
}

#[test]
fn a_thousand_in_one_write() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(Router::new().fallback(async |request: Request| request.path().to_owned()));
        let mut peer = served.connect();
        let requests: String = (0..1000).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: x\r\n\r\n")).collect();
        peer.send(requests);
        for n in 0..1000 {
            assert_eq!(peer.answer(false).text(), format!("/{n}"));
        }
    });
}
