//! `Duration::MAX` means never: each duration of a server, in each version of HTTP, and at its end.

use std::sync::Arc;
use std::time::Duration;

use crate::support::h2::H2;
use crate::support::{Scene, Served, Told, channel};
use anywire_http::Body;
use anywire_http::h2::Limits as Http2;
use anywire_server::{Limits, Router};
use tokio::sync::Notify;

const MAX: Duration = Duration::MAX;

fn cases() -> Vec<(&'static str, Limits)> {
    let usual = Limits::default;
    let http2 = Http2::default();
    let asks_at_once = Some(Duration::from_millis(1));
    vec![
        ("head_timeout", Limits { head_timeout: MAX, ..usual() }),
        ("idle_timeout", Limits { idle_timeout: MAX, ..usual() }),
        ("body_timeout", Limits { body_timeout: MAX, ..usual() }),
        ("handler_timeout", Limits { handler_timeout: MAX, ..usual() }),
        ("write_timeout", Limits { write_timeout: MAX, ..usual() }),
        ("min_rate_grace", Limits { min_rate_grace: MAX, ..usual() }),
        ("half_close_timeout", Limits { half_close_timeout: MAX, ..usual() }),
        ("linger_timeout", Limits { linger_timeout: MAX, ..usual() }),
        ("http2_shutdown_grace", Limits { http2_shutdown_grace: MAX, ..usual() }),
        ("settings_deadline", Limits { http2: Http2 { settings_deadline: MAX, ..http2 }, ..usual() }),
        ("ping_interval", Limits { http2: Http2 { ping_interval: Some(MAX), ..http2 }, ..usual() }),
        (
            "ping_deadline",
            Limits { http2: Http2 { ping_interval: asks_at_once, ping_deadline: MAX, ..http2 }, ..usual() },
        ),
    ]
}

/// A server, and what its handlers say.
struct Stage {
    served: Served,
    told: Told<&'static str>,
    go_on: Arc<Notify>,
}

impl Stage {
    fn new(limits: Limits) -> Self {
        let (tell, told) = channel();
        let go_on = Arc::<Notify>::default();
        let (waits, begun) = (go_on.clone(), tell.clone());
        let router = Router::new()
            .get("/", async || "ok")
            .get("/waits", move || {
                let (waits, begun) = (waits.clone(), begun.clone());
                async move {
                    let _ = begun.send("the handler waits");
                    waits.notified().await;
                    "waited"
                }
            })
            .post("/reads", move |mut body: Body| {
                let tell = tell.clone();
                async move {
                    let mut bytes = 0;
                    while let Ok(Some(chunk)) = body.chunk().await {
                        bytes += chunk.len();
                        let _ = tell.send("a part of the body was read");
                    }
                    bytes.to_string()
                }
            })
            .get("/large", async || bytes::Bytes::from(vec![b'x'; 1_000_000]));
        Self { served: Scene::tcp().serve_on(1, router, limits), told, go_on }
    }
}

#[test]
fn over_http2() {
    for (name, limits) in cases() {
        println!("{name}");
        let stage = Stage::new(limits);
        let mut peer = H2::connect(&stage.served);
        // Its settings have left.
        assert_eq!(peer.ask("/").text(), "ok");
        // Half a frame, while a handler waits.
        let waits = peer.get("/waits");
        stage.told.next();
        peer.raw(&[0, 0, 8, 6]);
        // Nothing comes in between, such as the answer to a ping.
        peer.is_mute = true;
        stage.go_on.notify_one();
        assert_eq!(peer.answer(waits).text(), "waited");
        peer.is_mute = false;
        peer.raw(&[0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let reads = peer.open("POST", "/reads", &[], Some(3), false);
        peer.body(reads, b"a", false);
        stage.told.next();
        peer.body(reads, b"bc", true);
        assert_eq!(peer.answer(reads).text(), "3");
        assert_eq!(peer.ask("/large").body.len(), 1_000_000);
        assert_eq!(peer.ask("/").text(), "ok");
        drop(peer);
        assert_eq!(stage.served.running.shutdown(MAX).wait().connections_cut, 0);
    }
}

#[test]
fn over_http1() {
    for (name, limits) in cases() {
        println!("{name}");
        let stage = Stage::new(limits);
        let mut peer = stage.served.connect();
        peer.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\nPOST /reads HTT");
        stage.told.next();
        stage.go_on.notify_one();
        assert_eq!(peer.answer(false).text(), "waited");
        peer.send("P/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\na");
        stage.told.next();
        peer.send("bc");
        assert_eq!(peer.answer(false).text(), "3");
        peer.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).body.len(), 1_000_000);
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
        peer.half_close();
        peer.assert_closed();
        assert_eq!(stage.served.running.shutdown(MAX).wait().connections_cut, 0);
    }
}
