//! A caller reads a little of a body of 10 GiB: the peer stops sending, memory stays flat, and dropping the response
//! closes the connection.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Peer, block_on, client, eventually, on_each_wire};
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
