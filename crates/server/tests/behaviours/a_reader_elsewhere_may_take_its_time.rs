//! A body that is read in a task of its own is late only while that task asks for more of it.

use std::sync::Arc;
use std::time::Duration;

use anywire_http::Body;
use anywire_server::{Limits, Router, State};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::Scene;
use crate::support::h2::H2;

/// Asks for a while, and then not before the gate opens.
async fn reads(gate: State<Arc<Notify>>, mut body: Body) -> String {
    let gate = Arc::clone(&gate);
    let reading = anywire_loops::spawn(async move {
        timeout(Duration::from_millis(20), body.chunk()).await.expect_err("nothing has come");
        gate.notified().await;
        body.text(100).await
    });
    let read = reading.await.expect("no panic");
    read.unwrap_or_else(|error| error.to_string())
}

#[test]
fn it_is_not_late_while_its_reader_does_something_else() {
    let limits = Limits { body_timeout: Duration::from_secs(1), ..Limits::default() };
    let gate = Arc::new(Notify::new());
    let router = Router::new()
        .state(Arc::clone(&gate))
        .post("/reads", reads)
        .post("/collects", async |body: String| body);
    let served = Scene::tcp().serve_on(1, router, limits);
    let late = "content-length: 3\r\n\r\n";
    let (mut peer, mut over_http2) = (served.connect(), H2::connect(&served));
    peer.send(format!("POST /reads HTTP/1.1\r\nhost: x\r\n{late}"));
    let id = over_http2.open("POST", "/reads", &[], Some(3), false);
    served.await_count("requests", |counters| counters.requests, 2);
    // One that begins later, and whose handler waits all the time, is late.
    let mut other = served.connect();
    other.send(format!("POST /collects HTTP/1.1\r\nhost: x\r\n{late}"));
    assert_eq!(other.answer(false).status, 408);
    gate.notify_waiters();
    peer.send("abc");
    assert_eq!(peer.answer(false).text(), "abc");
    over_http2.body(id, b"abc", true);
    assert_eq!(over_http2.answer(id).text(), "abc");
    assert_eq!(served.running.counters().body_timeouts, 1);
}
