//! A handler that panics, at once or later, answers 500; its connection, its loop and all others go on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::{Body, BodyError};
use anywire_server::{FromRequestParts, Limits, Parts, Router};
use bytes::Bytes;
use futures_core::Stream;

#[test]
fn a_panic_is_500_and_the_connection_stays() {
    crate::support::on_each_wire(panics);
}

fn panics(scene: &crate::support::Scene) {
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

impl FromRequestParts for Unlucky {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts) -> Result<Self, Infallible> {
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
    let served = crate::support::serve(router);
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

/// A body of this chunk, which is waited for, and of a panic behind it.
struct Unlasting(Option<&'static str>, bool);

impl Stream for Unlasting {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(chunk) = self.0.take() {
            return Poll::Ready(Some(Ok(chunk.into())));
        }
        if std::mem::replace(&mut self.1, true) {
            panic!("on purpose");
        }
        // What there is leaves first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn a_body_that_panics_looks_broken_off() {
    let router = Router::new()
        .get("/at-once", async || Body::stream(Unlasting(None, true)))
        .get("/later", async || Body::stream(Unlasting(Some("some"), false)));
    let served = crate::support::serve(router);
    let mut peer = served.connect();
    peer.send("GET /at-once HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 500);
    // No byte of that answer had left, so the connection goes on.
    peer.send("GET /later HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.head().status, 200);
    assert_eq!(peer.rest(), b"4\r\nsome\r\n");
    // Without chunks, an orderly end would make the part look whole.
    let mut peer = served.connect();
    peer.send("GET /later HTTP/1.0\r\n\r\n");
    assert!(!peer.rest_and_end().1);
    served.await_count("panics", |counters| counters.panics, 3);
}

/// Panics when it is dropped.
struct Unwilling;

impl Drop for Unwilling {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn a_handler_that_panics_when_it_is_given_up_is_answered_for() {
    let router = Router::new().get("/", async || {
        let _unwilling = Unwilling;
        std::future::pending::<()>().await;
    });
    let limits = Limits { handler_timeout: Duration::from_millis(100), ..Limits::default() };
    let served = crate::support::Scene::tcp().serve_with(router, limits);
    assert_eq!(served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").status, 503);
    assert_eq!(served.running.counters().panics, 1);
}

/// A body that panics after so many chunks.
struct Fragile(usize);

impl Stream for Fragile {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0 = self.0.checked_sub(1).expect("a panic on purpose");
        Poll::Ready(Some(Ok(Bytes::from_static(&[b'x'; 16 * 1024]))))
    }
}

#[test]
fn a_body_that_panics_breaks_off_its_own_answer_alone() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(
            Router::new()
                .get("/", async || "ok")
                .get("/at-once", async || Body::stream(Fragile(0)))
                .get("/soon", async || Body::stream(Fragile(1)))
                .get("/late", async || Body::stream(Fragile(10))),
        );
        let mut peer = served.connect();
        for path in ["/at-once", "/soon"] {
            // None of the answer has left, so there is still room for a better one.
            peer.send(format!("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
            assert_eq!(peer.answer(false).text(), "ok");
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.closes()), (500, false), "{path}");
        }
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /late HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
        assert_eq!(peer.head().status, 200);
        let rest = peer.rest();
        assert!(rest.len() > 64 * 1024 && !rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
        assert_eq!(served.running.counters().panics, 3);
    });
}
