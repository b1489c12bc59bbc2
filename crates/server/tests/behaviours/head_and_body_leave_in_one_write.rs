//! A response is one write: the kernel's own count of data segments equals the count of responses.

use std::net::TcpStream;

use anywire_server::{Path, Router};
use anywire_sys::tcp_info::TcpInfo;

fn segments_in(peer: &crate::support::Peer<TcpStream>) -> u64 {
    TcpInfo::of(&peer.link).expect("a TCP socket on Linux 4.6 or newer").data_segments_in.into()
}

#[test]
fn head_and_body_leave_in_one_write() {
    let router = Router::new().get("/bytes/{n}", async |Path(n): Path<usize>| vec![b'x'; n]);
    let served = crate::support::serve(router);
    let mut peer = served.connect_tcp();
    for size in [0, 1, 13, 1_000, 4_095, 4_096, 4_097, 8_192, 16_000, 16 * 1024] {
        for _ in 0..3 {
            let before = segments_in(&peer);
            peer.send(format!("GET /bytes/{size} HTTP/1.1\r\nhost: x\r\n\r\n"));
            assert_eq!(peer.answer(false).body.len(), size);
            assert_eq!(
                segments_in(&peer) - before,
                1,
                "a body of {size} bytes came in more than one segment"
            );
        }
    }
}

#[test]
fn pipelined_answers_leave_together() {
    let served = crate::support::serve(Router::new().get("/", async || "Hello, World!"));
    let mut peer = served.connect_tcp();
    let before = segments_in(&peer);
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(16));
    for _ in 0..16 {
        assert_eq!(peer.answer(false).text(), "Hello, World!");
    }
    assert_eq!(segments_in(&peer) - before, 1, "sixteen answers to one write are one write");
}
