//! A handler whose peer has gone is dropped, and so is a streaming answer that is silent; nothing waits for nobody.

mod support;

use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::{Body, BodyError};
use anywire_server::{Limits, Router, State};
use bytes::Bytes;
use futures_core::Stream;

/// Tells when the handler that holds it ends.
struct Ends(Sender<&'static str>);

impl Drop for Ends {
    fn drop(&mut self) {
        // The test may be over.
        let _ = self.0.send("ended");
    }
}

/// A body that never says anything.
struct Silent(#[expect(dead_code, reason = "it is there to be dropped")] Ends);

impl Stream for Silent {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

#[test]
fn a_peer_that_leaves_ends_its_handler() {
    let (told, ends) = channel();
    let router = Router::new()
        .state(told)
        .get("/never", async |told: State<Sender<&'static str>>| {
            let _ends = Ends((*told).clone());
            (*told).send("started").expect("the test listens");
            std::future::pending::<()>().await;
        })
        .get("/silent", async |told: State<Sender<&'static str>>| {
            (*told).send("started").expect("the test listens");
            Body::stream(Silent(Ends((*told).clone())))
        });
    let served = support::serve(router);
    let mut peer = served.connect();
    peer.send("GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(ends.recv(), Ok("started"));
    drop(peer);
    assert_eq!(ends.recv(), Ok("ended"));
    let mut peer = served.connect();
    peer.send("GET /silent HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(ends.recv(), Ok("started"));
    drop(peer);
    assert_eq!(ends.recv(), Ok("ended"));
    served.assert_alive();
    assert_eq!(served.running.counters().abandoned, 2);
}

#[test]
fn a_handler_that_takes_too_long_is_503() {
    let limits = Limits { handler_deadline: Duration::from_millis(200), ..Limits::default() };
    let router = Router::new().get("/", async || std::future::pending::<()>().await);
    let served = support::serve_with(router, limits);
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 503);
    peer.assert_closed();
    assert_eq!(served.running.counters().handler_timeouts, 1);
}
