//! A connection that breaks while something is read or written ends, is counted, and disturbs no other.

use anywire_server::Router;
use bytes::Bytes;

/// Larger than what the buffers of the system hold, by Linux's defaults.
static LARGE: [u8; 24 * 1024 * 1024] = [b'x'; 24 * 1024 * 1024];

#[test]
fn a_reset_under_way_is_counted() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new()
            .get("/large", async || Bytes::from_static(&LARGE))
            .post("/", async |body: Bytes| body.len().to_string());
        let served = scene.serve(router);
        // Written.
        let mut peer = served.connect();
        peer.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        peer.head();
        peer.reset();
        served.await_count("wire_errors", |counters| counters.wire_errors, 1);
        // Read. A Unix socket knows no reset, unless something was not read: there it is an end.
        if !scene.is("unix") {
            let mut peer = served.connect();
            peer.send("POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n");
            assert_eq!(peer.answer(false).status, 100);
            peer.reset();
            served.await_count("wire_errors", |counters| counters.wire_errors, 2);
        }
        served.assert_alive();
    });
}
