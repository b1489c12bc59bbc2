//! A peer that sends requests and takes no answers costs the memory of a few answers, however many requests it sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anywire_server::{Limits, Router, State};
use bytes::Bytes;

const REQUESTS: usize = 120;
/// More than may be made before any is taken, so that the last ones were held back.
const TAKEN: usize = REQUESTS / 3;
/// Large, so that few of them fill the buffers of the system.
static ANSWER: [u8; 1024 * 1024] = [b'x'; 1024 * 1024];

#[test]
fn answers_that_nobody_takes_hold_handlers_back() {
    crate::support::on_each_wire(|scene| {
        let started = Arc::new(AtomicUsize::new(0));
        let router =
            Router::new().state(Arc::clone(&started)).get("/", async |started: State<Arc<AtomicUsize>>| {
                started.fetch_add(1, Ordering::Relaxed);
                Bytes::from_static(&ANSWER)
            });
        // On one loop, another connection is answered only after this one's turn.
        let served = scene.serve_on(1, router, Limits::default());
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(REQUESTS));
        assert_eq!(peer.head().status, 200);
        served.assert_alive();
        // Within the socket buffers (at most 4 MiB + 6 MiB by Linux's defaults) and the high water of the output.
        let held = started.load(Ordering::Relaxed);
        assert!(held < REQUESTS / 4, "{held} of {REQUESTS} answers were made for a peer that takes none");
        for number in 0..TAKEN {
            let body = peer.read_exactly(ANSWER.len());
            assert!(body == ANSWER, "answer {number} differs");
            assert_eq!(peer.head().status, 200);
        }
    });
}
