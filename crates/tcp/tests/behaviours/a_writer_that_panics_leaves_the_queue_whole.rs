//! A message that is written in place is queued once it is written. If its writer panics, and that is caught, as swarms do, nothing of
//! it is in the queue, no memory is lost, and the connection goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anywire_tcp::{ConnId, ConnectOptions};

use crate::common::host::{Host, Peer};

const NO_NAGLE: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

fn panic_while_writing(host: &mut Host, id: ConnId, length: usize) {
    let before = host.engine.memory().segments_in_use;
    let written = catch_unwind(AssertUnwindSafe(|| {
        host.engine.send_with(id, length, |room| {
            room.fill(b'x');
            panic!("the writer's own");
        })
    }));
    assert!(written.is_err(), "the panic is the caller's");
    assert_eq!(host.engine.memory().segments_in_use, before);
}

#[test]
fn nothing_of_its_message_is_sent_and_the_rest_arrives() {
    for options in [ConnectOptions::default(), NO_NAGLE] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept_with(Peer::new(), options);
        let mut heard = Vec::new();
        for (text, length) in [("nothing waits", 10), ("one is under way", 10), ("and a long one", 1000)] {
            // Into an empty queue or one with something under way, and behind what has not left.
            panic_while_writing(&mut host, id, length);
            assert_eq!(host.engine.send(id, text.as_bytes()), text.len());
            panic_while_writing(&mut host, id, length);
            let sent = host.sent();
            peer.heard_all(&sent);
            heard.extend(sent.into_iter().flat_map(|segment| segment.payload));
        }
        for _ in 0..3 {
            let sent = host.answers(&peer.acks());
            peer.heard_all(&sent);
            heard.extend(sent.into_iter().flat_map(|segment| segment.payload));
        }
        assert_eq!(String::from_utf8_lossy(&heard), "nothing waitsone is under wayand a long one");
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}
