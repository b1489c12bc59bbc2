//! A fault of one stream of HTTP/2 ends that stream alone: a panic, a reader that stands still, an unread body. And a
//! stream that is woken is the only one that is polled.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::support::h2::{Came, DATA, H2, RST_STREAM, frame};
use anywire_http::h2::{Code, Limits};
use anywire_http::{Body, BodyError};
use anywire_server::{Router, State};
use bytes::Bytes;
use futures_core::Stream;

#[test]
fn a_panic_ends_its_stream_alone() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new()
            .get("/", async || "ok")
            .post("/echo", async |body: Body| body)
            .get("/at-once", async || -> &'static str { panic!("on purpose") })
            .get("/later", async || -> &'static str {
                tokio::task::yield_now().await;
                panic!("on purpose")
            })
            .get("/in-the-body", async || Body::stream(Bomb { is_polled: false }))
            .get("/later-in-the-body", async || {
                Body::stream(Bomb { is_polled: false }).preceded_by("a".into())
            })
            .get("/when-dropped", async || Body::stream(Bomb { is_polled: true }));
        let served = scene.serve(router);
        let mut peer = H2::connect(&served);
        let lasts = peer.open("POST", "/echo", &[], None, false);
        for path in ["/at-once", "/later", "/in-the-body"] {
            assert_eq!(peer.ask(path).status(), 500);
        }
        let id = peer.get("/later-in-the-body");
        assert_eq!(peer.answer(id).reset, Some(Code::INTERNAL_ERROR));
        let id = peer.get("/when-dropped");
        peer.answer(id);
        assert_eq!(peer.ask("/").text(), "ok");
        peer.body(lasts, b"abc", true);
        assert_eq!(peer.answer(lasts).text(), "abc");
        served.await_count("panics", |counters| counters.panics, 5);
    });
}

/// Panics when it is polled, or gives nothing and panics when it is dropped.
struct Bomb {
    is_polled: bool,
}

impl Stream for Bomb {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        assert!(self.is_polled, "on purpose");
        Poll::Ready(None)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.is_polled, "on purpose");
    }
}

/// More than all windows hold.
const LARGE: usize = 3_000_000;

#[test]
fn a_stream_that_nobody_reads_lets_others_pass() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().get("/", async || "ok").get("/large", async || vec![b'x'; LARGE]);
        let served = scene.serve(router);
        let mut peer = H2::connect(&served);
        peer.reads = false;
        let large = peer.get("/large");
        let mut came = 0;
        while came < 65_535 {
            if let Came::Data(_, data, _) = peer.next() {
                came += data.len();
            }
        }
        for _ in 0..10 {
            // The connection's window has room.
            assert_eq!(peer.ask("/").text(), "ok");
        }
        peer.consumed(large, 40_000);
        let Came::Data(id, _, false) = peer.next() else { panic!("the window is open") };
        assert_eq!(id, large);
        peer.raw(&frame(RST_STREAM, 0, large.get(), &[0, 0, 0, 8]));
        served.await_count("abandoned", |counters| counters.abandoned, 1);
        assert_eq!(peer.ask("/").text(), "ok");
    });
}

#[test]
fn tiny_windows_are_heeded_to_the_byte() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().get("/", async || vec![b'x'; 1000]);
        let served = scene.serve(router);
        let limits = Limits { stream_window_bytes: 7, ..Limits::default() };
        let mut peer = H2::connect_with(&served, limits);
        let ids = [peer.get("/"), peer.get("/"), peer.get("/")];
        for id in ids {
            assert_eq!(peer.answer(id).body.len(), 1000);
        }
    });
}

#[test]
fn bodies_that_nobody_reads_do_not_hold_the_connections_window() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().post("/collects", async |body: Bytes| body.len().to_string()).post(
            "/ignores",
            async |body: Body| {
                drop(body);
                // It answers, and does not end.
                let (mut sender, answer) = Body::channel(1024);
                sender.try_send("x").expect("there is room");
                drop(anywire_loops::spawn(async move {
                    while sender.ready().await.is_ok() {
                        std::future::pending::<()>().await;
                    }
                }));
                answer
            },
        );
        // Less than all of them are.
        let http2 = Limits { connection_window_bytes: 1 << 20, ..Limits::default() };
        let served =
            scene.serve_with(router, anywire_server::Limits { http2, ..anywire_server::Limits::default() });
        let mut peer = H2::connect(&served);
        for _ in 0..40 {
            let id = peer.open("POST", "/ignores", &[], None, false);
            peer.body(id, &[0; 65_535], false);
            assert!(matches!(peer.next(), Came::Head(of, ..) if of == id));
            assert!(matches!(peer.next(), Came::Data(of, ..) if of == id));
        }
        let id = peer.open("POST", "/collects", &[], None, false);
        peer.body(id, &[0; 1_500_000], true);
        assert_eq!(peer.answer(id).text(), "1500000");
    });
}

/// Counts polls, and can be woken.
#[derive(Default)]
struct Watched {
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

#[test]
fn a_wake_polls_one_stream() {
    crate::support::on_each_wire(|scene| {
        let watched: Arc<[Watched; 50]> = Arc::new(std::array::from_fn(|_| Watched::default()));
        let router = Router::new().state(Arc::clone(&watched)).get(
            "/{at}",
            async |at: anywire_server::Path<usize>, all: State<Arc<[Watched; 50]>>| {
                let one = &all.0[at.0];
                std::future::poll_fn(|cx| {
                    *one.waker.lock().expect("nobody panics") = Some(cx.waker().clone());
                    let polls = one.polls.fetch_add(1, Ordering::SeqCst) + 1;
                    if polls == 3 { Poll::Ready("thrice") } else { Poll::Pending }
                })
                .await
            },
        );
        let served = scene.serve(router);
        let mut peer = H2::connect(&served);
        let ids: Vec<_> = (0..50).map(|at| peer.get(&format!("/{at}"))).collect();
        served.await_count("requests", |counters| counters.requests, 50);
        let polls = || watched.iter().map(|one| one.polls.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let hang = std::time::Instant::now() + crate::support::HANG;
        while polls().iter().sum::<usize>() < 50 {
            assert!(std::time::Instant::now() < hang, "{:?}", polls());
        }
        for (at, id) in ids.into_iter().enumerate() {
            for times in 2..=3 {
                watched[at].waker.lock().expect("nobody panics").clone().expect("it waits").wake();
                while watched[at].polls.load(Ordering::SeqCst) < times {
                    assert!(std::time::Instant::now() < hang, "{:?}", polls());
                }
            }
            assert_eq!(peer.answer(id).text(), "thrice");
        }
        assert_eq!(polls(), [3; 50]);
    });
}

/// A body in the smallest of pieces does not poll its handler once for each of them.
#[test]
fn pieces_that_come_together_poll_their_stream_once() {
    crate::support::on_each_wire(|scene| {
        let watched: Arc<Watched> = Arc::default();
        let wait = async |watched: State<Arc<Watched>>, _unread: Body| {
            std::future::poll_fn(|_| {
                watched.polls.fetch_add(1, Ordering::SeqCst);
                Poll::<&'static str>::Pending
            })
            .await
        };
        let router = Router::new().state(Arc::clone(&watched)).get("/", async || "ok").post("/waits", wait);
        let served = scene.serve(router);
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/waits", &[], None, false);
        peer.raw(&frame(DATA, 0, id.get(), b"x").repeat(1000));
        assert_eq!(peer.ask("/").text(), "ok");
        // A wire may bring them in a few parts.
        let polls = watched.polls.load(Ordering::SeqCst);
        assert!((1..100).contains(&polls), "{polls} polls");
    });
}
