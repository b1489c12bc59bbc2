//! A limit of `usize::MAX` is no limit, and breaks no sum.

use std::time::Duration;

use crate::support::{OK, Peer, block_on, client, on_each_wire};
use anywire_client::{Limits, Timeouts};
use anywire_http::{HeadLimits, h2};

#[test]
fn calls_are_answered_whichever_limit_is_the_largest() {
    const MAX: usize = usize::MAX;
    let limits = [
        Limits { connections_per_origin: MAX, ..Limits::default() },
        Limits { queue_per_origin: MAX, ..Limits::default() },
        Limits { dials_per_origin: MAX, ..Limits::default() },
        Limits { origins: MAX, ..Limits::default() },
        Limits { interim_responses: MAX, ..Limits::default() },
        Limits { body_bytes: MAX, ..Limits::default() },
        Limits { body_ahead_bytes: MAX, ..Limits::default() },
        Limits { head: unlimited(), ..Limits::default() },
        Limits {
            connections_per_origin: MAX,
            queue_per_origin: MAX,
            dials_per_origin: MAX,
            origins: MAX,
            interim_responses: MAX,
            body_bytes: MAX,
            body_ahead_bytes: MAX,
            head: unlimited(),
            http2: endless_http2(),
        },
        Limits { http2: endless_http2(), ..Limits::default() },
    ];
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        for limits in &limits {
            let (loops, client) = client(2, |builder| builder.limits(limits.clone()).timeouts(endless()));
            for _ in 0..4 {
                let call = client.get(peer.url("/")).via(peer.via());
                let text = block_on(async { call.send().await?.text().await }).expect("an answer");
                assert_eq!(text, "ok", "{limits:?}");
            }
            let panics: u64 = loops.counters().iter().map(|one| one.panics).sum();
            assert_eq!(panics, 0, "{limits:?}");
        }
    });
}

fn unlimited() -> HeadLimits {
    HeadLimits {
        bytes: usize::MAX,
        target_bytes: usize::MAX,
        fields: usize::MAX,
        trailer_bytes: usize::MAX,
        trailer_fields: usize::MAX,
    }
}

fn endless_http2() -> h2::Limits {
    let rate = h2::Rate { burst: u32::MAX, per_second: u32::MAX };
    h2::Limits {
        head: unlimited(),
        streams: usize::MAX,
        stream_window_bytes: u32::MAX,
        connection_window_bytes: u32::MAX,
        continuations: usize::MAX,
        resets: rate,
        idle_frames: rate,
        settings_deadline: Duration::MAX,
        ping_interval: Some(Duration::MAX),
        ping_deadline: Duration::MAX,
        extended_connect: true,
    }
}

fn endless() -> Timeouts {
    let max = Duration::MAX;
    Timeouts {
        acquire: max,
        connect: max,
        handshake: max,
        write: max,
        read: max,
        total: max,
        idle: max,
        lifetime: max,
        pool_unused: max,
    }
}
