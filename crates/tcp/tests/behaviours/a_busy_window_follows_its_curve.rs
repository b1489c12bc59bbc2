//! A sender who always has more to send is held back by nothing but its congestion window, however many segments its peer
//! acknowledges at a time: CUBIC's clock runs (RFC 9438 4.2).

use std::collections::VecDeque;

use anywire_tcp::ConnId;

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::Segment;

const ROUND_TRIP_MILLIS: u64 = 200;

/// A user who always has more, on a path that loses only what it is told to.
struct Bulk {
    host: Host,
    id: ConnId,
    peer: Peer,
    /// With the milliseconds at which it is acknowledged.
    under_way: VecDeque<(u64, Segment)>,
    segments_for_each_ack: usize,
}

impl Bulk {
    fn new(predicts: bool) -> Self {
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        host.round_trip = ROUND_TRIP_MILLIS;
        let (id, peer) = host.accept(Peer { scale: Some(8), ..Peer::new() });
        Self { host, id, peer, under_way: VecDeque::new(), segments_for_each_ack: 1 }
    }

    fn cwnd(&self) -> u32 {
        self.host.engine.info(self.id).map_or(0, |info| info.cwnd)
    }

    fn run(&mut self, millis: u64) {
        self.run_while(millis, |bulk| _ = bulk.host.engine.send(bulk.id, &[1; 500_000]));
    }

    /// Has more to send than the window has room for, by a few segments, and sends no more until that is acknowledged and for 50 ms
    /// more.
    fn burst(&mut self) {
        let more = (self.cwnd() as usize + 3) * 1448;
        assert_eq!(self.host.engine.send(self.id, &vec![1; more]), more);
        self.run_while(10, |_| ());
        while !self.under_way.is_empty() {
            self.run_while(10, |_| ());
        }
        self.run_while(50, |_| ());
    }

    fn run_while(&mut self, millis: u64, fill: impl Fn(&mut Self)) {
        let end = self.host.millis() + millis;
        while self.host.millis() < end {
            fill(self);
            let sent = self.host.wait_millis(10);
            self.peer.later(10);
            self.under_way.extend(sent.into_iter().map(|(at, segment)| (at + ROUND_TRIP_MILLIS, segment)));
            let now = self.host.millis();
            let due = self.under_way.partition_point(|(at, _)| *at <= now);
            let heard: Vec<_> = self.under_way.drain(..due).map(|(_, segment)| segment).collect();
            for segments in heard.chunks(self.segments_for_each_ack) {
                self.peer.heard_all(segments);
                let sent = self.host.answers(&self.peer.acks());
                self.under_way.extend(sent.into_iter().map(|segment| (now + ROUND_TRIP_MILLIS, segment)));
            }
        }
    }

    /// The first segment in flight is lost, and repaired.
    fn lose_one(&mut self) {
        let sent: Vec<_> = self.under_way.drain(..).map(|(_, segment)| segment).collect();
        self.host.pass(ROUND_TRIP_MILLIS, &mut self.peer);
        let end = sent[sent.len() - 1].end();
        let again = self.host.answers(&Segment { sack: vec![(sent[0].end(), end)], ..self.peer.acks() });
        assert_eq!(again.first().map(|one| one.seq), Some(sent[0].seq));
        self.host.pass(ROUND_TRIP_MILLIS, &mut self.peer);
        self.peer.heard(&again[0]);
        self.peer.ack = end;
        self.peer.heard_all(&again[1..]);
        self.host.give(&[self.peer.acks()]);
    }
}

#[test]
fn the_window_is_back_at_its_maximum_after_k_however_many_segments_an_ack_covers() {
    for predicts in [true, false] {
        // Each, as from a peer without delayed ACKs; eight, as from one with GRO; and all in flight.
        for segments_for_each_ack in [1, 8, usize::MAX] {
            let mut bulk = Bulk::new(predicts);
            while bulk.cwnd() < 80 {
                bulk.run(ROUND_TRIP_MILLIS);
            }
            let w_max = f64::from(bulk.cwnd());
            bulk.lose_one();
            let left = f64::from(bulk.cwnd());
            assert!((left - 0.7 * w_max).abs() <= 1.0, "{left} of {w_max}");
            bulk.segments_for_each_ack = segments_for_each_ack;
            // The epoch begins with the first ACK in avoidance.
            let k_millis = (w_max * 0.3 / 0.4).cbrt() * 1000.0;
            bulk.run(ROUND_TRIP_MILLIS + k_millis as u64);
            let cwnd = f64::from(bulk.cwnd());
            assert!(
                (cwnd - w_max).abs() <= 2.0,
                "{cwnd} of {w_max} segments, {segments_for_each_ack} for each ACK, predicts: {predicts}"
            );
        }
    }
}

/// A service whose answers take more than a window each: its window is needed for a round trip of each, and not in between.
#[test]
fn time_counts_while_answers_need_the_window() {
    for predicts in [true, false] {
        let mut bulk = Bulk::new(predicts);
        while bulk.cwnd() < 80 {
            bulk.run(ROUND_TRIP_MILLIS);
        }
        let w_max = f64::from(bulk.cwnd());
        bulk.lose_one();
        // The last of what was to be sent goes, and the epoch begins.
        while !bulk.under_way.is_empty() {
            bulk.run_while(10, |_| ());
        }
        let k_millis = (w_max * 0.3 / 0.4).cbrt() * 1000.0;
        let answers = k_millis as u64 / ROUND_TRIP_MILLIS;
        for _ in 0..=answers {
            bulk.burst();
        }
        let cwnd = f64::from(bulk.cwnd());
        assert!((cwnd - w_max).abs() <= 3.0, "{cwnd} of {w_max} segments, predicts: {predicts}");
    }
}
