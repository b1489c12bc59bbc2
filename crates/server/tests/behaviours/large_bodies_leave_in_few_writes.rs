//! Over HTTP/2 a peer that reads fast gets a large body in few calls of the system. Of streamed bodies no more is held for that.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use anywire_http::h2::Limits as Http2;
use anywire_http::{Body, BodyError};
use anywire_server::{Limits, Router, State};
use bytes::Bytes;
use futures_core::Stream;

use crate::support::Scene;
use crate::support::h2::H2;

const LARGE: usize = 32 << 20;
const CHUNK: usize = 16 << 10;
const CHUNKS: usize = LARGE / CHUNK;

/// No window holds anything back.
fn wide() -> Http2 {
    Http2 { stream_window_bytes: 1 << 30, connection_window_bytes: 1 << 30, ..Http2::default() }
}

#[test]
fn a_large_body_leaves_in_few_writes() {
    let router = Router::new()
        .state(Bytes::from(vec![b'x'; LARGE]))
        .get("/large", async |large: State<Bytes>| Bytes::clone(&large))
        .get("/writes", async || {
            let counts = std::fs::read_to_string("/proc/thread-self/io").expect("Linux counts calls");
            counts
                .lines()
                .find_map(|line| line.strip_prefix("syscw: "))
                .expect("a count of writes")
                .to_owned()
        });
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut peer = H2::connect_with(&served, wide());
    let [before, after] = [(); 2].map(|()| {
        let count = peer.ask("/writes").text().parse::<usize>().expect("a number");
        assert_eq!(peer.ask("/large").body.len(), LARGE);
        count
    });
    let writes = after - before;
    assert!(writes < LARGE / (128 << 10), "{writes} writes of {} bytes", LARGE / writes);
}

/// A chunk that is counted for as long as it is there.
struct Counted(Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &[b'x'; CHUNK]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Counts the chunks that are there at once.
#[derive(Default)]
struct Chunks {
    left: usize,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Stream for Chunks {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        self.most.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        Poll::Ready(Some(Ok(Bytes::from_owner(Counted(Arc::clone(&self.now))))))
    }
}

#[test]
fn few_chunks_of_a_stream_wait() {
    let most = Arc::new(AtomicUsize::new(0));
    let router = Router::new()
        .state(Bytes::from(vec![b'x'; LARGE]))
        .state(Arc::clone(&most))
        .get("/large", async |large: State<Bytes>| Bytes::clone(&large))
        .get("/stream", async |most: State<Arc<AtomicUsize>>| {
            Body::stream(Chunks { left: CHUNKS, most: Arc::clone(&most), ..Chunks::default() })
        });
    let served = Scene::tcp().serve(router);
    let mut peer = H2::connect_with(&served, wide());
    // By the end of the first the connection offers the wire as much as it may.
    let [large, stream] = ["/large", "/stream"].map(|path| peer.get(path));
    assert_eq!(peer.answer(large).body.len(), LARGE);
    assert_eq!(peer.answer(stream).body.len(), LARGE);
    // 64 KiB, the last frame that goes beyond, and what its stream asked for meanwhile.
    let most = most.load(Relaxed);
    assert!(most <= 6, "{most} chunks waited at once");
}
