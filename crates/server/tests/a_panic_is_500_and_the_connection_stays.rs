//! A handler that panics, at once or later, answers 500; its connection, its loop and all others go on.

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anywire_server::{FromRequest, Request, Router};

#[test]
fn a_panic_is_500_and_the_connection_stays() {
    support::on_each_wire(panics);
}

fn panics(scene: &support::Scene) {
    let router = Router::new()
        .get("/at-once", async || -> &'static str { panic!("on purpose") })
        .get("/later", async || -> &'static str {
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
        .get("/", async || "ok");
    let served = scene.serve(router);
    let mut peer = served.connect();
    for path in ["/at-once", "/later"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.answer(false).status, 500);
    }
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(served.running.counters().panics, 2);
}

/// Panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}

/// An argument that panics.
struct Unlucky;

impl FromRequest for Unlucky {
    type Rejection = Infallible;

    async fn from_request(_: &mut Request) -> Result<Self, Infallible> {
        panic!("on purpose")
    }
}

/// Panics when it is cloned for a run of its handler.
struct Uncloneable(Arc<AtomicUsize>);

impl Clone for Uncloneable {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose")
    }
}

#[test]
fn whatever_panics_with_whatever_payload() {
    let clones = Arc::new(AtomicUsize::new(0));
    let uncloneable = Uncloneable(Arc::clone(&clones));
    let router = Router::new()
        .get("/bomb", async || -> &'static str { std::panic::panic_any(Bomb) })
        .get("/argument", async |_: Unlucky| "not reached")
        .get("/uncloneable", move || {
            let _captured = &uncloneable;
            async { "not reached" }
        })
        .get("/", async || "ok");
    let served = support::serve(router);
    let mut peer = served.connect();
    for path in ["/bomb", "/argument", "/uncloneable"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.answer(false).status, 500, "{path}");
    }
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(served.running.counters().panics, 3);
    assert_eq!(clones.load(Ordering::Relaxed), 1);
}
