//! Keep-alive (RFC 9293 3.8.4) and the user timeout (3.8.3, RFC 5482).

use std::time::Duration;

use anywire_tcp::{ConnectOptions, End, Events, Instant, KeepAlive, Settings, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, SYN, Segment};

const KEEP: ConnectOptions = ConnectOptions { no_nagle: false, keep_alive: true, class: 0, dscp: 0 };

fn patient() -> Settings {
    let mut settings = settings();
    settings.keep_alive_idle = Duration::from_secs(100);
    settings.keep_alive_interval = Duration::from_secs(10);
    settings.keep_alive_probes = 3;
    settings
}

#[test]
fn it_is_off_unless_asked_for_and_waits_two_hours() {
    let mut host = Host::new();
    let (_, _) = host.accept(Peer::new());
    assert_eq!(host.wait(Duration::from_secs(100_000)), []);
    let mut host = Host::new();
    host.accept_with(Peer::new(), KEEP);
    let sent = host.wait(Duration::from_secs(7300));
    assert!(sent[0].0 >= 7_200_000, "RFC 9293 MUST-28: two hours");
}

#[test]
fn a_silent_peer_is_given_up_after_its_probes() {
    for called in [false, true] {
        let mut host = Host::with(patient(), small_limits());
        let (id, peer) =
            if called { host.call_with(Peer::new(), KEEP) } else { host.accept_with(Peer::new(), KEEP) };
        let sent = host.wait(Duration::from_secs(200));
        let times: Vec<_> = sent.iter().map(|(at, _)| at / 1000).collect();
        assert_eq!(times, [100, 110, 120], "one silence proves nothing (MUST-29)");
        assert!(sent.iter().all(|(_, probe)| (probe.bits, probe.seq) == (ACK, peer.ack.wrapping_sub(1))));
        assert!(sent.iter().all(|(_, probe)| probe.payload.is_empty()));
        assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    }
}

#[test]
fn probes_leave_room_for_answers() {
    let mut limits = small_limits();
    limits.replies = 8;
    let mut host = Host::with(patient(), limits);
    for port in 5000..5020 {
        host.accept_with(Peer::new().port(port), KEEP);
    }
    // All probes are due, and nothing can leave yet.
    host.now = host.now + Duration::from_secs(101);
    host.engine.advance(host.now);
    let newcomer = Peer::new().port(6000);
    host.give(&[newcomer.syn()]);
    let answers =
        |sent: &[Segment]| sent.iter().filter(|one| one.is(SYN | ACK) && one.to == newcomer.here).count();
    let sent = host.sent();
    assert_eq!((answers(&sent), sent.len()), (1, 5), "half of the places are for answers");
    // The others follow.
    let later = host.wait_millis(50);
    assert_eq!(later.len(), 16, "{later:?}");
    assert_eq!(host.engine.counters().replies_dropped, 0);
}

#[test]
fn an_answer_or_any_segment_starts_it_anew() {
    let mut host = Host::with(patient(), small_limits());
    let (id, mut peer) = host.accept_with(Peer::new(), KEEP);
    let probes = host.wait(Duration::from_secs(105));
    assert_eq!(probes.len(), 1);
    host.give(&[peer.acks()]);
    let probes = host.wait(Duration::from_secs(99));
    assert_eq!(probes, [], "a hundred seconds from the answer on");
    host.give(&[peer.data(b"alive")]);
    host.read(id);
    let sent = host.wait(Duration::from_secs(99));
    assert_eq!(sent.len(), 1, "the delayed ACK");
    assert_eq!(host.wait(Duration::from_secs(2)).len(), 1, "then a probe");
    assert_eq!(host.engine.status(id), Status::Open);
}

#[test]
fn after_an_answer_the_next_probe_is_due_by_the_idle_time_though_the_interval_is_longer() {
    let mut settings = patient();
    settings.keep_alive_idle = Duration::from_secs(10);
    settings.keep_alive_interval = Duration::from_secs(75);
    let mut host = Host::with(settings, small_limits());
    let (id, peer) = host.accept_with(Peer::new(), KEEP);
    for _ in 0..3 {
        assert_eq!(host.wait(Duration::from_secs(10)).len(), 1);
        host.give(&[peer.acks()]);
    }
    let sent = host.wait(Duration::from_secs(300));
    let start = host.millis() / 1000 - 300;
    let times: Vec<_> = sent.iter().map(|(at, _)| at / 1000 - start).collect();
    assert_eq!(times, [10, 85, 160]);
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
}

#[test]
fn no_probe_leaves_while_data_is_under_way() {
    let mut settings = patient();
    settings.keep_alive_idle = Duration::from_secs(5);
    let mut host = Host::with(settings, small_limits());
    let (id, _) = host.accept_with(Peer::new(), KEEP);
    host.engine.send(id, b"unanswered");
    let sent = host.wait(Duration::from_secs(150));
    assert!(sent.iter().all(|(_, segment)| segment.payload == b"unanswered"), "RFC 9293 MUST-26");
    assert_eq!(host.engine.counters().keep_alives, 0);
}

#[test]
fn we_answer_probes_with_or_without_a_byte() {
    let mut host = Host::new();
    let (_, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"x")]);
    host.sent();
    for payload in [&b""[..], b"x"] {
        let answers = host.answers(&peer.data_at(-1, payload));
        assert!(
            matches!(&answers[..], [one] if one.ack == peer.seq && one.payload.is_empty()),
            "{answers:?}"
        );
    }
}

/// Some systems leave timestamps out of a probe, and reset a connection that does not answer it.
#[test]
fn a_probe_without_timestamps_is_answered_and_nothing_of_it_is_taken() {
    for predicts in [true, false] {
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        host.give(&[peer.data(b"x")]);
        host.wait_millis(1000);
        for payload in [&b""[..], b"y"] {
            let probe = Segment { timestamps: None, window: 1, ..peer.data_at(-1, payload) };
            let answers = host.answers(&probe);
            assert!(
                matches!(&answers[..], [one] if one.ack == peer.seq && one.payload.is_empty() && one.timestamps.is_some()),
                "{answers:?}"
            );
            assert_eq!(host.answers(&probe), [], "one in half a second");
            host.wait_millis(600);
        }
        // Whatever else lacks them is dropped (RFC 7323 3.2).
        for other in [
            Segment { timestamps: None, ..peer.data_at(-1, b"yz") },
            Segment { timestamps: None, ..peer.data_at(-2, b"") },
            Segment { timestamps: None, bits: SYN, ..peer.data_at(-1, b"") },
            Segment { timestamps: None, bits: ACK | FIN, ..peer.data_at(-1, b"") },
            Segment { timestamps: None, ..peer.data_at(0, b"y") },
        ] {
            assert_eq!(host.answers(&other), [], "{other:?}");
        }
        assert_eq!(host.read(id), b"x");
        host.engine.send(id, &[1; 3000]);
        let sent: usize = host.sent().iter().map(|segment| segment.payload.len()).sum();
        assert!(sent >= 2 * 1448, "{sent}: its window did not count");
    }
}

#[test]
fn the_user_timeout_ends_what_is_not_acknowledged() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.set_user_timeout(id, Duration::from_secs(7));
    host.engine.send(id, b"data");
    let sent = host.wait(Duration::from_secs(6));
    assert!(sent.len() > 3);
    assert_eq!(host.engine.status(id), Status::Open);
    host.wait(Duration::from_secs(2));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    assert_eq!(host.engine.counters().timed_out, 1);
    // Later segments of the peer belong to no connection.
    assert!(host.answers(&peer.data(b"late"))[0].is(crate::common::wire::RST));
    // The next connection in this place has the usual timeout again.
    host.engine.close(id);
    let (again, _) = host.accept(Peer::new().port(5001));
    assert_eq!(again.index(), id.index());
    host.engine.send(again, b"data");
    host.wait(Duration::from_secs(100));
    assert_eq!(host.engine.status(again), Status::Open);
}

/// RFC 9293 MUST-21, RFC 5482 3: it holds from now on, and not from the next retransmission, which may be a minute ahead.
#[test]
fn a_user_timeout_that_becomes_shorter_in_a_stall_ends_it() {
    for window in [65_535, 0] {
        let mut host = Host::new();
        let (id, _) = host.accept(Peer { window, ..Peer::new() });
        host.engine.send(id, b"data");
        host.wait(Duration::from_secs(100));
        host.engine.set_user_timeout(id, Duration::from_secs(110));
        host.wait(Duration::from_secs(8));
        assert_eq!(host.engine.status(id), Status::Open, "{window}");
        host.engine.set_user_timeout(id, Duration::from_secs(5));
        host.wait_millis(1);
        assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut), "{window}");
    }
}

/// A deadline is told of once, at its time, and the connection goes on.
#[test]
fn a_deadline_is_told_of_in_time_moved_and_taken_away() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let after = |host: &Host, millis| Some(host.now + Duration::from_millis(millis));
    let at = after(&host, 500);
    host.engine.set_idle_deadline(id, at);
    host.wait_millis(499);
    assert_eq!(host.news(), []);
    host.wait_millis(1);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    assert_eq!(host.wait_millis(100_000), [], "once");
    assert_eq!((host.news(), host.engine.status(id)), (vec![], Status::Open));
    // Moved by each message, it does not come.
    for _ in 0..100 {
        let at = after(&host, 500);
        host.engine.set_idle_deadline(id, at);
        host.wait_millis(400);
        host.give(&[peer.data(b"alive")]);
        assert_eq!(host.read(id), b"alive");
        assert!(host.news().iter().all(|(_, events)| !events.has(Events::DEADLINE)));
    }
    // Moved to an earlier moment.
    for millis in [100_000, 300, 200] {
        let at = after(&host, millis);
        host.engine.set_idle_deadline(id, at);
    }
    host.wait_millis(200);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    // Removed before its time, or after its time but before the event was taken.
    for wait in [10, 300] {
        let at = after(&host, 200);
        host.engine.set_idle_deadline(id, at);
        host.wait_millis(wait);
        host.engine.set_idle_deadline(id, None);
        host.wait_millis(1000);
        assert_eq!(host.news(), [], "after {wait} ms");
    }
    // Moved after its time, but before the event was taken.
    let at = after(&host, 200);
    host.engine.set_idle_deadline(id, at);
    host.wait_millis(300);
    let at = after(&host, 200);
    host.engine.set_idle_deadline(id, at);
    assert_eq!(host.news(), []);
    host.wait_millis(200);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    // Not early by a part of a millisecond.
    host.engine.set_idle_deadline(id, Some(host.now + Duration::from_micros(500_500)));
    host.wait_millis(500);
    assert_eq!(host.news(), []);
    host.wait_millis(1);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    // One that has passed already, and one of a connection that is closed before.
    host.engine.set_idle_deadline(id, Some(Instant::from_micros(1)));
    host.wait_millis(1);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    let at = after(&host, 200);
    host.engine.set_idle_deadline(id, at);
    host.engine.close(id);
    host.sent();
    let (next, _) = host.accept(Peer::new().port(5001));
    host.wait_millis(300);
    assert_eq!(host.news(), [], "nor for {next:?}, which may have its place");
}

/// What was just sent is looked at a moment later, but keep-alive has its place in the wheel by then, and is not looked at.
#[test]
fn a_deadline_before_the_next_probe_is_told_of_also_while_something_was_just_sent() {
    let mut host = Host::with(patient(), small_limits());
    let (id, mut peer) = host.accept_with(Peer::new(), KEEP);
    host.wait_millis(1000);
    for seconds in [50, 20, 5] {
        host.engine.send(id, b"request");
        peer.heard(&host.sent_one());
        host.give(&[peer.acks()]);
        host.engine.set_idle_deadline(id, Some(host.now + Duration::from_secs(seconds)));
    }
    let due = host.now + Duration::from_secs(5);
    host.wait_millis(4999);
    assert_eq!(host.news(), []);
    host.wait_millis(1);
    assert_eq!((host.news(), host.now), (vec![(id, Events::DEADLINE)], due));
}

#[test]
fn a_connection_that_opens_has_a_deadline_too() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:9000".parse().unwrap(), ConnectOptions::default()).unwrap();
    host.engine.set_idle_deadline(id, Some(host.now + Duration::from_secs(5)));
    host.wait(Duration::from_secs(5));
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    host.engine.abort(id);
}

/// Re-arming costs no memory: not in the wheel, and not beside the TCBs beyond 16 bytes a connection.
#[test]
fn a_deadline_that_moves_takes_no_more_places() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    host.engine.set_idle_deadline(id, Some(host.now + Duration::from_secs(10)));
    let before = host.engine.memory();
    for _ in 0..1_000_000 {
        host.now = host.now + Duration::from_micros(10);
        host.engine.set_idle_deadline(id, Some(host.now + Duration::from_secs(10)));
    }
    assert_eq!(host.engine.memory(), before);
    host.wait(Duration::from_secs(10));
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
}

#[test]
fn keep_alive_is_set_for_one_connection() {
    let mut host = Host::with(patient(), small_limits());
    let (id, peer) = host.accept(Peer::new());
    let (other, _) = host.accept_with(Peer::new().port(5001), KEEP);
    let seconds = Duration::from_secs;
    host.engine.set_keep_alive(id, Some(KeepAlive { idle: seconds(20), interval: seconds(5), probes: 2 }));
    let sent = host.wait(seconds(22));
    assert_eq!(sent.iter().map(|(at, _)| at / 1000).collect::<Vec<_>>(), [20]);
    host.give(&[peer.acks()]);
    let sent = host.wait(seconds(40));
    let times: Vec<_> = sent.iter().map(|(at, _)| at / 1000).collect();
    assert_eq!(times, [42, 47], "from the answer on, at its own interval");
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    assert_eq!(host.engine.status(other), Status::Open);
    // Taken away, it is asked nothing and stays.
    host.engine.set_keep_alive(other, None);
    assert_eq!(host.wait(seconds(100_000)), []);
    assert_eq!(host.engine.status(other), Status::Open);
}

/// Whether the engine is called whenever it asks for it, once a day, or not before the deadline.
#[test]
fn a_deadline_may_be_as_far_away_as_one_likes() {
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let milli = Duration::from_millis(1);
    for length in [10 * second, 13 * day, 25 * day, 50 * day, 365 * day] {
        for step in [second, day, length] {
            let mut host = Host::new();
            let (id, _) = host.accept(Peer::new());
            // Not at the begin of a millisecond.
            host.now = host.now + Duration::from_micros(300);
            host.frames();
            let due = host.now + length;
            host.engine.set_idle_deadline(id, Some(due));
            while step > second && host.now + step + milli < due {
                host.now = host.now + step;
                host.frames();
                assert_eq!(host.news(), [], "{length:?} by {step:?}");
            }
            let rest = due.since(host.now) - milli;
            if step < length {
                host.wait(rest);
            } else {
                host.now = host.now + rest;
                host.frames();
            }
            assert_eq!(host.news(), [], "{length:?} by {step:?}");
            host.wait(2 * milli);
            assert_eq!(host.news(), [(id, Events::DEADLINE)], "{length:?} by {step:?}");
            assert_eq!(host.wait(100 * day), [], "once");
            assert_eq!((host.news(), host.engine.status(id)), (vec![], Status::Open));
        }
    }
}

/// A far one that moves to a near one comes at the near one, and the other way round.
#[test]
fn a_far_deadline_moves_as_a_near_one_does() {
    let (mut host, day) = (Host::new(), Duration::from_secs(86_400));
    let (id, _) = host.accept(Peer::new());
    host.engine.set_idle_deadline(id, Some(host.now + 60 * day));
    host.wait(30 * day);
    host.engine.set_idle_deadline(id, Some(host.now + day));
    host.wait_millis(1);
    host.engine.set_idle_deadline(id, Some(host.now + 2 * day));
    host.wait(day + day / 2);
    assert_eq!(host.news(), []);
    host.engine.set_idle_deadline(id, Some(host.now + 100 * day));
    host.wait(99 * day);
    assert_eq!(host.news(), []);
    host.wait(day);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
    host.engine.set_idle_deadline(id, Some(Instant::from_micros(u64::MAX)));
    host.wait(1000 * day);
    assert_eq!(host.news(), []);
}

/// A look at what was just sent is left to the wheel, where keep-alive has a later place.
#[test]
fn keep_alive_that_becomes_shorter_counts_also_while_something_was_just_sent() {
    let mut host = Host::with(patient(), small_limits());
    let (id, mut peer) = host.accept_with(Peer::new(), KEEP);
    host.wait_millis(1000);
    host.engine.send(id, b"request");
    peer.heard(&host.sent_one());
    host.give(&[peer.acks()]);
    let seconds = Duration::from_secs;
    host.engine.set_keep_alive(id, Some(KeepAlive { idle: seconds(5), interval: seconds(5), probes: 2 }));
    let start = host.millis();
    let sent = host.wait(seconds(7));
    assert_eq!(sent.iter().map(|(at, _)| at - start).collect::<Vec<_>>(), [5000]);
}

#[test]
fn what_one_connection_was_asked_is_not_asked_of_the_next_in_its_place() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    let second = Duration::from_secs(1);
    let keep_alive = KeepAlive { idle: 100 * second, interval: 10 * second, probes: 3 };
    host.engine.set_keep_alive(id, Some(keep_alive));
    host.engine.abort(id);
    host.sent();
    let (next, _) = host.accept(Peer::new().port(5001));
    assert_eq!(next.index(), id.index());
    host.engine.set_idle_deadline(next, Some(host.now + 200 * second));
    assert_eq!(host.wait(1000 * second), []);
    assert_eq!((host.news(), host.engine.status(next)), (vec![(next, Events::DEADLINE)], Status::Open));
}

/// Each move to an earlier moment takes a place in the wheel, until it is full.
#[test]
fn a_deadline_is_told_of_in_time_also_if_the_wheel_is_full() {
    let mut limits = small_limits();
    (limits.connections, limits.half_open, limits.time_wait) = (8, 8, 8);
    let mut host = Host::with(settings(), limits);
    let (id, mut peer) = host.accept(Peer::new());
    for seconds in (100..3000).rev() {
        host.engine.set_idle_deadline(id, Some(host.now + Duration::from_secs(seconds)));
    }
    host.wait(Duration::from_secs(1));
    // Also while it is among those that were just sent something.
    host.engine.send(id, b"request");
    peer.heard(&host.sent_one());
    host.give(&[peer.acks()]);
    for millis in (5000..5050).rev() {
        host.engine.set_idle_deadline(id, Some(host.now + Duration::from_millis(millis)));
    }
    host.wait_millis(4999);
    assert_eq!(host.news(), []);
    host.wait_millis(1);
    assert_eq!(host.news(), [(id, Events::DEADLINE)]);
}

/// The same field of the TCB tells when the peer was heard of and since when it makes no progress.
#[test]
fn after_a_stall_the_idle_time_begins_anew() {
    for closes_window in [false, true] {
        let mut host = Host::with(patient(), small_limits());
        let (id, mut peer) = host.accept_with(Peer::new(), KEEP);
        if closes_window {
            peer.window = 0;
            host.give(&[peer.acks()]);
        }
        host.engine.send(id, b"waits");
        host.wait(Duration::from_secs(150));
        assert_eq!((host.engine.counters().keep_alives, host.engine.status(id)), (0, Status::Open));
        peer.window = 1000;
        if closes_window {
            host.give(&[peer.acks()]);
            peer.heard_all(&host.sent());
        } else {
            peer.ack = peer.ack.wrapping_add(5);
        }
        host.give(&[peer.acks()]);
        let sent = host.wait(Duration::from_secs(115));
        let start = host.millis() / 1000 - 115;
        let times: Vec<_> = sent.iter().map(|(at, _)| at / 1000 - start).collect();
        assert_eq!(times, [100, 110], "a closed window: {closes_window}");
        assert_eq!(host.engine.counters().keep_alives, 2);
    }
}

/// An interval is 18 hours at most, and all probes together may take half a year.
#[test]
fn the_longest_intervals_are_kept() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    let keep = KeepAlive { idle: Duration::from_secs(3600), interval: Duration::MAX, probes: 40 };
    host.engine.set_keep_alive(id, Some(keep));
    let start = host.millis();
    let sent = host.wait(Duration::from_secs(39 * 65_535 + 4000));
    let times: Vec<_> = sent.iter().map(|(at, _)| (at - start) / 1000).collect();
    assert_eq!(times, (0..40).map(|probe| 3600 + probe * 65_535).collect::<Vec<_>>());
    assert_eq!(host.engine.status(id), Status::Open);
    host.wait(Duration::from_secs(65_535));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
}
