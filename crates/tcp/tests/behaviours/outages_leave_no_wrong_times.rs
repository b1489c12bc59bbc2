//! A connection lives through an outage of minutes, or through weeks in which its peer answers and takes nothing: what the engine
//! noted before does not count for today (RFC 8985 6.2, RFC 3522, RFC 9293 3.8.4).

use std::collections::VecDeque;

use anywire_tcp::{KeepAlive, Status};

use super::however_long_nothing_happens::{DAY, HOUR, SECOND, end_of, open, open_with, round_trip, times};
use crate::common::host::{Peer, settings};
use crate::common::wire::Segment;

/// The times of segments are microseconds of 32 bits, of which half are 36 minutes.
#[test]
fn after_any_outage_each_segment_goes_once() {
    for minutes in [1, 30, 36, 40, 60, 71, 72, 80, 110, 14_400] {
        let mut settings = settings();
        settings.user_timeout = 13 * DAY;
        let (mut host, id, mut peer) = open_with(settings, Peer::new());
        round_trip(&mut host, id, &mut peer, 8);
        host.engine.send(id, &[7; 8 * 1448]);
        let sent = host.sent();
        host.wait_millis(20);
        peer.later(20);
        // The third has arrived, and then nothing gets through.
        let sack = vec![(sent[2].seq, sent[2].end())];
        host.give(&[Segment { sack, ..peer.acks() }]);
        let outage = host.wait(minutes * 60 * SECOND);
        peer.later(minutes * 60_000);
        peer.timestamps = peer.timestamps.map(|(value, _)| {
            (value, outage.last().and_then(|(_, one)| one.timestamps).map_or(0, |(value, _)| value))
        });
        peer.ack = sent[0].end();
        let mut again = [0; 8];
        let mut coming = VecDeque::from(host.answers(&peer.acks()));
        while let Some(one) = coming.pop_front() {
            again[(one.seq.wrapping_sub(sent[0].seq) / 1448) as usize] += 1;
            coming.extend(host.wait_millis(20).into_iter().map(|(_, segment)| segment));
            peer.later(20);
            peer.heard(&one);
            coming.extend(host.answers(&peer.acks()));
        }
        assert_eq!(again, [0, 1, 1, 1, 1, 1, 1, 1], "after {minutes} minutes");
    }
}

/// A peer that takes back its window, and answers as long as it likes, is no sign that a timeout was mistaken.
#[test]
fn a_timeout_of_long_ago_was_none_of_today() {
    for length in [10 * SECOND, DAY, 25 * DAY, 30 * DAY, 50 * DAY, 75 * DAY, 365 * DAY] {
        let mut settings = settings();
        settings.rto_max = DAY;
        settings.user_timeout = 12 * DAY;
        let (mut host, id, mut peer) = open_with(settings, Peer { scale: Some(8), ..Peer::new() });
        for segments in [10, 20, 40] {
            round_trip(&mut host, id, &mut peer, segments);
        }
        host.engine.send(id, &[7; 40 * 1448]);
        let flight = host.sent();
        assert!(flight.len() > 20, "{}", flight.len());
        let (end, window) = (host.now + length, peer.window);
        peer.window = 0;
        while host.now < end {
            // What arrives is answered, and not taken.
            for (_, one) in host.wait(length / 100) {
                peer.timestamps =
                    peer.timestamps.zip(one.timestamps).map(|((value, _), (echo, _))| (value, echo));
                host.give(&[peer.acks()]);
            }
            peer.later((length / 100).as_millis() as u32);
        }
        assert_eq!(host.engine.status(id), Status::Open, "after {length:?}");
        let timeouts = host.engine.counters().timeouts;
        assert!(timeouts > 0);
        peer.window = window;
        let first = host.answers(&peer.acks());
        assert_eq!(first.len(), 1, "after {length:?}");
        host.wait_millis(20);
        peer.later(20);
        peer.heard_all(&first);
        let next = host.answers(&peer.acks()).len();
        assert!((1..=3).contains(&next), "{next} segments at once, after {length:?}");
    }
}

/// A peer is asked once, and answers; then it is heard of each hour, and then never again.
#[test]
fn probes_of_long_ago_do_not_count() {
    for days in [0, 1, 13, 25, 30, 50, 75, 365] {
        let (mut host, id, mut peer) = open(Peer::new());
        let idle = 2 * HOUR;
        host.engine.set_keep_alive(id, Some(KeepAlive { idle, interval: 10 * SECOND, probes: 3 }));
        assert_eq!(host.wait(idle + SECOND).len(), 1);
        for _ in 0..=24 * days {
            peer.later(3_600_000);
            host.give(&[peer.acks()]);
            assert_eq!(host.wait(HOUR), []);
        }
        host.wait(HOUR - SECOND);
        let left = format!("{} {}", times(&mut host, 25 * SECOND), end_of(&mut host, id));
        assert_eq!(left, "[1000, 11000, 21000] 6", "after {days} days");
    }
}
