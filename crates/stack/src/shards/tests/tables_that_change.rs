//! A frame is sorted by a table that is no older than the frame.

use anywire_packet::Flags;

use super::{FakeQueue, device, hears, join, segment};

/// Another loop dials while this one waits for frames, and its answer comes here.
#[test]
fn while_frames_are_received() {
    let (shards, queues) = (device(), [(); 2].map(|()| FakeQueue::default()));
    let (mut first, mut second) = (join(&shards, [&queues[0]]), join(&shards, [&queues[1]]));
    let (mut dialling, number) = (Some(std::sync::Arc::clone(&shards)), second.number());
    queues[0].behind().on_receive = Some(Box::new(move |arriving| {
        let Some(dialling) = dialling.take() else { return };
        let port = *dialling.give_blocks(number)[0].ports().start();
        arriving.push_back(segment(port, 80, Flags::SYN | Flags::ACK));
    }));
    assert!(hears(&mut first, 1).is_empty(), "it belongs to the other loop");
    assert_eq!(hears(&mut second, 1).len(), 1);
}
