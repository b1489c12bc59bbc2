//! A caller reads a little of a body of 10 GiB: the peer stops sending, memory stays flat, and dropping the response
//! closes the connection. A process of its own, whose memory is measured.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::sync::mpsc;
use std::time::Duration;

use crate::support::{HANG, Peer, block_on, client, eventually, on_each_wire, wire};
use anywire_sys::memory::resident_bytes;

#[test]
fn nothing_is_read_that_nobody_asked_for() {
    on_each_wire(|wire| {
        let (report, stopped) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            talk.request();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n");
            // No room for this long is what stopping means.
            let mut written = 0;
            while let Some(count) = talk.say_within(&[b'x'; 64 << 10], Duration::from_millis(300)) {
                written += count;
            }
            let _ = report.send(written);
            talk.wait_for_end();
            let _ = report.send(0);
        });
        let before = resident_bytes().expect("proc is mounted");
        let (_loops, client) = client(1, |builder| builder.read_timeout(Duration::from_millis(200)));
        let mut answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let mut read = 0;
        for _ in 0..2 {
            read += block_on(answer.chunk()).expect("a good body").expect("more to come").len();
        }
        let written: usize = stopped.recv().expect("the peer stops");
        assert!(written < 32 << 20, "{written} bytes left the peer, {read} were read");
        let after = resident_bytes().expect("proc is mounted");
        assert!(after.saturating_sub(before) < 32 << 20, "from {before} to {after} bytes");
        // A slow caller is no silent peer: the bytes that were sent are still there after the read timeout.
        for _ in 0..2 {
            block_on(answer.chunk()).expect("a good body").expect("more to come");
        }
        assert_eq!(client.counters().total().active, 1);
        drop(answer);
        stopped.recv().expect("the client closes");
        eventually("the connection is gone", || client.counters().total().active == 0);
    });
}

#[test]
fn chunks_of_single_bytes_wait_in_pieces() {
    // What the wire in memory has taken the client has read, but for 64 KiB.
    let (has_written, written) = mpsc::channel();
    let peer = Peer::start(wire("memory"), move |mut talk| {
        talk.request();
        talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n");
        talk.say("1\r\nx\r\n".repeat(59_999));
        let _ = has_written.send(());
        talk.say("0\r\n\r\n");
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, |builder| builder);
    let mut answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
    // With this the rest is asked for, too.
    let mut bytes = block_on(answer.chunk()).expect("a good body").expect("more to come").len();
    written.recv_timeout(HANG).expect("the client reads ahead");
    let mut chunks = 1;
    while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
        bytes += chunk.len();
        chunks += 1;
    }
    assert_eq!(bytes, 60_000);
    // What the wire and the client's own buffer still held comes as it is decoded, at most 64 KiB in each.
    assert!(chunks < 2 * 64 * 1024 / 6 + 200, "{chunks} chunks");
}
