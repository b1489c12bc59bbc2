//! Far more than a client may hold goes down and up over HTTP/2, byte for byte, in memory that does not grow with it. A process of its own, whose memory is measured.

#[path = "behaviours/support/mod.rs"]
mod support;

use crate::support::{block_on, client_of_http2, real_servers};
use anywire_client::Client;
use anywire_http::Body;
use bytes::Bytes;

/// What the memory may grow by.
const HELD_MAX: usize = 24 << 20;
const TOTAL: usize = 2 * HELD_MAX;

/// What is sent again and again; its length divides no buffer.
fn block() -> Bytes {
    (0..65_537usize).map(|at| (at * 31 % 251) as u8).collect()
}

/// Compares what comes with the block again and again.
struct Check {
    block: Bytes,
    read: usize,
}

impl Check {
    fn more(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = self.read % self.block.len();
            let count = bytes.len().min(self.block.len() - at);
            assert!(bytes[..count] == self.block[at..at + count], "at {}", self.read);
            bytes = &bytes[count..];
            self.read += count;
        }
    }
}

async fn read_all(client: &Client, call: anywire_client::Sending) -> usize {
    let mut check = Check { block: block(), read: 0 };
    let mut answer = call.await.expect("an answer");
    while let Some(chunk) = answer.chunk().await.expect("a good body") {
        check.more(&chunk);
    }
    assert_eq!(client.counters().total().dialed, 1);
    check.read
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn twice_what_may_be_held_both_ways() {
    let times = TOTAL.div_ceil(block().len());
    let file = |folder: &std::path::Path| {
        use std::io::Write;
        let mut file = std::fs::File::create(folder.join("large")).expect("a file");
        (0..times).for_each(|_| file.write_all(&block()).expect("room"));
    };
    for server in real_servers(file) {
        let (_loops, client) = client_of_http2(|builder| builder);
        let before = resident();
        let read = block_on(read_all(&client, client.get(server.url("/large")).send()));
        assert_eq!(read, times * block().len(), "{}", server.name);
        if server.echoes {
            let (mut sender, body) = Body::channel(100_000);
            let call = client.post(server.url("/echo")).body(body).send();
            let feeding = std::thread::spawn(move || {
                let block = block();
                for _ in 0..times {
                    block_on(sender.send(block.clone())).expect("a reader");
                }
                sender.finish();
            });
            assert_eq!(block_on(read_all(&client, call)), times * block().len(), "{}", server.name);
            feeding.join().expect("no panic");
        }
        // Memory of the caller before it may have been given back meanwhile.
        let more = resident().saturating_sub(before);
        assert!(more < HELD_MAX, "{}: {more} bytes more", server.name);
    }
}
