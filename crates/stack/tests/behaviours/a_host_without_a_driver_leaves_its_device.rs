//! A host whose driver has panicked or was dropped leaves its queue, its part of the services and its addresses to other loops of the
//! device, although its user keeps it.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use anywire_packet::Flags;
use anywire_stack::shards::JoinError;
use anywire_stack::stream::ListenOptions;

use crate::hosts::run;
use crate::queues::{Loops, Queue, a_while, syn};

const OURS: [u8; 4] = [10, 0, 0, 2];

/// SYNs that this queue brings for the service, which are answered by whichever queue.
async fn answers(loops: &Loops, queue: &Queue, ports: std::ops::Range<u16>) -> usize {
    ports.for_each(|port| queue.brings(syn(port, OURS, 80)));
    a_while().await;
    let sent = loops.queues.iter().flat_map(Queue::sent);
    sent.filter(|frame| frame[12..14] == [8, 0] && Flags(frame[47]).has(Flags::SYN | Flags::ACK)).count()
}

#[test]
fn whether_it_has_panicked_or_was_dropped() {
    for has_panicked in [false, true] {
        run(async || {
            let loops = Loops::new(2);
            let _service = loops.shards.reserve((OURS, 80).into(), 2).expect("nobody listens there");
            loops.join(OURS, &[0, 1]).await;
            let listen = |host: &anywire_stack::shards::SharedHost| {
                host.listen((OURS, 80).into(), ListenOptions::default()).expect("nobody listens there")
            };
            let _listeners: Vec<_> = loops.hosts.iter().map(listen).collect();
            loops.queues.iter().for_each(|queue| queue.asks(OURS));
            loops.settle().await;
            assert_eq!(answers(&loops, &loops.queues[0], 1000..1032).await, 32);

            if has_panicked {
                loops.queues[0].fails.store(true, Ordering::Relaxed);
                loops.queues[0].asks(OURS);
            } else {
                loops.drivers[0].abort();
            }
            loops.settle().await;
            assert!(loops.drivers[0].is_finished() && loops.hosts[0].interface().has_stopped());
            assert_eq!(loops.shards.loops(), 1);
            // Its user is told, and takes nothing from the others.
            let later = loops.shards.reserve((OURS, 81).into(), 1).expect("nobody listens there");
            let refused = loops.hosts[0].listen(later.address(), ListenOptions::default());
            assert_eq!(refused.expect_err("nobody drives it").kind(), ErrorKind::NotConnected);
            let refused = loops.hosts[0].connect(([10, 0, 0, 1], 80).into()).await;
            assert_eq!(refused.expect_err("nobody drives it").kind(), ErrorKind::ConnectionAborted);
            let own = "10.0.0.2/24".parse().expect("a network");
            let refused = loops.hosts[0].join(own, None).await.expect_err("nobody drives it");
            assert!(matches!(refused, JoinError::Stopped), "{refused}");
            loops.hosts[1].listen(later.address(), ListenOptions::default()).expect("it has its place");
            for (queue, first) in loops.queues.iter().zip([2000, 3000]) {
                assert_eq!(answers(&loops, queue, first..first + 32).await, 32, "panicked: {has_panicked}");
                queue.asks(OURS);
                a_while().await;
                let answered: Vec<_> = loops.queues.iter().flat_map(Queue::answered).collect();
                assert_eq!(answered, [OURS], "panicked: {has_panicked}");
            }
        });
    }
}
