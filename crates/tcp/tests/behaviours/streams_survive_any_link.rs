//! Two engines over a link that loses, doubles, overtakes, damages and cuts frames: every byte arrives once and in
//! order, every connection ends, and nothing is left behind. With header prediction and without it every frame is the same.
//!
//! `ANYWIRE_SEEDS` says how many runs, `ANYWIRE_FIRST_SEED` where they begin; with `ANYWIRE_TRACE` every segment is printed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use anywire_tcp::{
    Algorithm, ConnId, ConnectOptions, Ecn, End, Engine, Events, Instant, Limits, Settings, SharedPayload,
    Status,
};

use crate::common::host::{engine, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::{Random, for_each_seed_both_ways};

/// What one end of a connection does.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Names the bytes that it sends.
    stream: u64,
    length: usize,
    /// How it ends the connection after sending all of them.
    ending: Ending,
    /// Reads at most so many bytes at a time; zero: all there is.
    reads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// Ends its direction, reads to the end, and closes.
    HalfClose,
    /// Reads to the end before it ends its direction.
    WaitForPeer,
    /// Closes at once: what the peer still sends is refused.
    Close,
    /// Aborts after so many bytes.
    Abort(usize),
}

impl Ending {
    fn is_clean(self) -> bool {
        matches!(self, Self::HalfClose | Self::WaitForPeer)
    }
}

/// One end of a connection as its user knows it.
struct User {
    plan: Plan,
    peer: Plan,
    /// What it sends, and what it is to hear.
    bytes: Rc<[u8]>,
    peers_bytes: Rc<[u8]>,
    sent: usize,
    heard: usize,
    shut: bool,
    opened_at: Instant,
    /// Of the reader's own pace.
    reads_again: bool,
}

/// The byte of a stream at a place.
fn byte(stream: u64, place: usize) -> u8 {
    (stream.wrapping_mul(0x9e37_79b9).wrapping_add(place as u64).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 40)
        as u8
}

struct World {
    users: [HashMap<ConnId, User>; 2],
    /// By the port of the client: what the server is to do.
    plans: HashMap<u16, (Plan, Plan)>,
    to_open: Vec<(Instant, Plan, Plan)>,
    /// By their names, made once for both ends.
    streams: HashMap<u64, Rc<[u8]>>,
    finished: [usize; 2],
    complete: usize,
    failed_openings: usize,
    may_time_out: bool,
    random: Random,
}

impl World {
    fn turn(&mut self, engine: &mut Engine, end: usize, now: Instant) {
        if end == 0 {
            while self.to_open.last().is_some_and(|(at, ..)| *at <= now) {
                let (_, mine, theirs) = self.to_open.pop().expect("it is there");
                let options =
                    ConnectOptions { no_nagle: self.random.chance(0.5), ..ConnectOptions::default() };
                let id = engine
                    .connect("10.0.0.2:80".parse().expect("an address"), options)
                    .expect("a connection");
                self.plans.insert(engine.addresses(id).0.port(), (theirs, mine));
                self.add(end, id, mine, theirs, now);
            }
        }
        while let Some(news) = engine.next_ready() {
            if news.events.has(Events::INCOMING) {
                let port = engine.addresses(news.id).1.port();
                let (mine, theirs) = self.plans[&port];
                self.add(end, news.id, mine, theirs, now);
            }
            self.act(engine, end, news.id, now);
        }
        // Slow readers, writers who have not begun, and those whose peer is gone without a word.
        let mut again: Vec<_> = self.users[end]
            .iter()
            .filter(|(_, user)| user.reads_again || user.sent == 0)
            .map(|(id, _)| *id)
            .collect();
        again.sort_unstable();
        for id in again {
            if self.users[end].contains_key(&id) {
                self.act(engine, end, id, now);
            }
        }
    }

    fn add(&mut self, end: usize, id: ConnId, plan: Plan, peer: Plan, now: Instant) {
        let [bytes, peers_bytes] = [plan, peer].map(|Plan { stream, length, .. }| {
            let made = || (0..length).map(|place| byte(stream, place)).collect();
            Rc::clone(self.streams.entry(stream).or_insert_with(made))
        });
        let user = User {
            plan,
            peer,
            bytes,
            peers_bytes,
            sent: 0,
            heard: 0,
            shut: false,
            opened_at: now,
            reads_again: false,
        };
        let before = self.users[end].insert(id, user);
        assert!(before.is_none(), "the id {id:?} is in use");
    }

    /// The user of a connection reads, writes and closes.
    fn act(&mut self, engine: &mut Engine, end: usize, id: ConnId, _now: Instant) {
        let Some(user) = self.users[end].get_mut(&id) else { return };
        let limit = if user.plan.reads == 0 { usize::MAX } else { user.plan.reads };
        let mut heard = user.heard;
        loop {
            let taken = engine.recv(id, |bytes| {
                let taken = bytes.len().min(limit);
                let sent = user.peers_bytes.get(heard..heard + taken).expect("no more than was sent");
                assert!(bytes[..taken] == *sent, "{taken} bytes from {heard} on of {id:?} at {end}");
                taken
            });
            heard += taken;
            if taken == 0 || limit != usize::MAX {
                break;
            }
        }
        user.heard = heard;
        assert!(heard <= user.peer.length, "more than was sent");
        user.reads_again = engine.readable(id) > 0;

        let status = engine.status(id);
        if let Status::Ended(end_of_it) = status {
            if engine.readable(id) > 0 {
                return;
            }
            let both_clean = user.plan.ending.is_clean() && user.peer.ending.is_clean();
            match end_of_it {
                End::Closed => {}
                // If the peer has gone through TIME-WAIT, its last ACK may have been lost, and we cannot know.
                End::Reset | End::Refused if !both_clean || user.shut && user.heard == user.peer.length => {}
                End::TimedOut if self.may_time_out || !both_clean => {}
                End::Reset if self.may_time_out => {}
                other => panic!("{id:?} at {end} ended by {other:?}: {:?}, peer {:?}", user.plan, user.peer),
            }
            self.failed_openings += usize::from(user.heard == 0 && user.sent == 0);
            engine.close(id);
            return self.finish(end, id);
        }
        if status == Status::Opening && user.sent > 0 {
            return;
        }
        // Aborts, wherever it stands.
        if let Ending::Abort(after) = user.plan.ending
            && user.sent >= after.min(user.plan.length)
        {
            engine.abort(id);
            return self.finish(end, id);
        }
        let is_over = engine.is_finished(id);
        let stops_at = match user.plan.ending {
            Ending::Abort(after) => after.min(user.plan.length),
            _ => user.plan.length,
        };
        if !user.shut {
            while user.sent < stops_at {
                // Every other stream comes in payloads that could be for many.
                let is_shared = user.plan.stream % 2 == 1;
                let piece = (stops_at - user.sent).min(if is_shared { 700 } else { 5000 });
                let bytes = &user.bytes[user.sent..user.sent + piece];
                let taken = if is_shared {
                    engine.send_shared(id, &SharedPayload::from(bytes.to_vec()))
                } else {
                    engine.send(id, bytes)
                };
                user.sent += taken;
                if taken < piece {
                    break;
                }
            }
        }
        let has_sent = user.sent == user.plan.length;
        if let Ending::Abort(_) = user.plan.ending {
            if user.sent >= stops_at {
                engine.abort(id);
                self.finish(end, id);
            }
            return;
        }
        if has_sent && user.plan.ending == Ending::Close {
            engine.close(id);
            return self.finish(end, id);
        }
        if has_sent && !user.shut && (user.plan.ending == Ending::HalfClose || is_over) {
            engine.shutdown(id);
            user.shut = true;
        }
        if is_over && user.shut {
            if user.peer.ending.is_clean() || user.peer.ending == Ending::Close {
                assert_eq!(user.heard, user.peer.length, "everything of {:?} at {end}", user.peer);
                self.complete += 1;
            }
            engine.close(id);
            self.finish(end, id);
        }
    }

    fn finish(&mut self, end: usize, id: ConnId) {
        self.users[end].remove(&id);
        self.finished[end] += 1;
    }

    /// Users give up whose peer has aborted and whose RST was lost: nothing else would tell them.
    fn give_up(&mut self, engines: &mut [Engine; 2], now: Instant) {
        for (end, engine) in engines.iter_mut().enumerate() {
            let mut late: Vec<_> = self.users[end]
                .iter()
                .filter(|(_, user)| now.since(user.opened_at) > PATIENCE)
                .map(|(id, _)| *id)
                .collect();
            late.sort_unstable();
            for id in late {
                let user = &self.users[end][&id];
                let peer_may_be_gone = !user.peer.ending.is_clean() || self.may_time_out;
                assert!(peer_may_be_gone, "{id:?} at {end} hangs: {:?}, {:?}", user.plan, engine.status(id));
                engine.abort(id);
                self.finish(end, id);
            }
        }
    }
}

/// Longer than any transfer takes over the worst of the links.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Gives the course of the run and its counters.
fn run(seed: u64, predicts: bool) -> impl PartialEq + std::fmt::Debug {
    let mut random = Random::new(seed);
    let mut impairment = Impairment::any(&mut random);
    if random.chance(0.1) {
        impairment.loss = 0.25;
    }
    let worst = impairment.loss + impairment.corrupt + impairment.truncate;
    let settings = |random: &mut Random| {
        let mut settings = Settings::new([random.next(), random.next(), random.next(), random.next()]);
        settings.predicts = predicts;
        settings.congestion = random.pick(&[Algorithm::Cubic, Algorithm::NewReno]);
        settings.timestamps = random.chance(0.7);
        settings.sack = random.chance(0.7);
        settings.ecn = random.pick(&[Ecn::Off, Ecn::Accept, Ecn::Ask]);
        settings.receive_window = random.pick(&[1000, 4_000, 65_536, 262_144]);
        settings.delayed_ack = Duration::from_millis(random.pick(&[0, 10, 40]));
        settings.time_wait = Duration::from_millis(random.pick(&[0, 500, 5_000]));
        settings.fin_wait_2 = Duration::from_secs(5);
        settings
    };
    let limits = |random: &mut Random| {
        let mut limits: Limits = small_limits();
        limits.connections = 64;
        limits.extensions = random.pick(&[1, 4, 64]);
        limits.half_open = random.pick(&[1, 64, 64, 64, 64]);
        limits.segment_bytes = random.pick(&[16_384, 100_000, 1 << 20]);
        limits.send_bytes = random.pick(&[2_000, 20_000, 100_000]);
        limits.send_segments = random.pick(&[4, 64]);
        limits.out_of_order_segments = random.pick(&[2, 64]);
        limits
    };
    let mtu = random.pick(&[576, 1500, 1500, 2000]);
    let limits = [limits(&mut random), limits(&mut random)];
    // With so few half-open ones there are cookies, and nothing repeats the answer to a SYN that was lost.
    let has_cookies = limits[1].half_open == 1;
    let mut last = 0;
    let mut engines = limits.map(|limits| {
        last += 1;
        engine(settings(&mut random), limits, last, mtu)
    });
    engines[1]
        .listen("0.0.0.0:80".parse().expect("an address"), ConnectOptions::default())
        .expect("a listener");

    let longest = random.pick(&[0, 10, 1_000, 20_000, 100_000]);
    let count = random.between(1, if longest > 20_000 { 3 } else { 12 });
    let mut network = Network::new(engines, impairment, random.clone());
    network.checks_windows = !has_cookies;
    let start = network.now;
    let mut to_open: Vec<_> = (0..count)
        .map(|number| {
            let mut plan = |stream| {
                let length = random.between(0, longest) as usize;
                let ending = match random.below(10) {
                    0 => Ending::Abort(random.between(0, longest) as usize),
                    1 => Ending::Close,
                    2..6 => Ending::WaitForPeer,
                    _ => Ending::HalfClose,
                };
                let reads = random.pick(&[0, 0, 0, 100 + length / 50]);
                Plan { stream, length, ending, reads }
            };
            let (mine, mut theirs) = (plan(2 * number), plan(2 * number + 1));
            // One of them has to begin.
            if mine.ending == Ending::WaitForPeer && theirs.ending == Ending::WaitForPeer {
                theirs.ending = Ending::HalfClose;
            }
            (start + Duration::from_micros(random.below(500_000)), mine, theirs)
        })
        .collect();
    to_open.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));

    let world = RefCell::new(World {
        users: [HashMap::new(), HashMap::new()],
        plans: HashMap::new(),
        streams: HashMap::new(),
        to_open,
        finished: [0; 2],
        complete: 0,
        failed_openings: 0,
        may_time_out: worst > 0.12 || has_cookies,
        random: random.clone(),
    });
    // Connections open at moments of their own, so time moves in small steps until all are.
    loop {
        let next_opening = world.borrow().to_open.last().map(|(at, ..)| *at);
        let idle = world.borrow().users.iter().all(HashMap::is_empty);
        if next_opening.is_none() && idle && network.next().is_none() {
            break;
        }
        network.turn(&mut |engine, end, now| world.borrow_mut().turn(engine, end, now));
        let slow = world.borrow().users.iter().flat_map(HashMap::values).any(|user| user.reads_again);
        let pause = slow.then(|| network.now + Duration::from_millis(1));
        let give_up = (network.next().is_none() && !world.borrow().users.iter().all(HashMap::is_empty))
            .then(|| network.now + PATIENCE);
        let next = [network.next(), next_opening, pause, give_up].into_iter().flatten().min();
        let Some(next) = next else { continue };
        network.now = network.now.max(next);
        if network.now.since(start) > PATIENCE {
            world.borrow_mut().give_up(&mut network.engines, network.now);
        }
        assert!(network.now.since(start) < 3 * PATIENCE, "it does not end");
    }
    let world = world.into_inner();
    for engine in &network.engines {
        assert_eq!(engine.connections(), 0, "connections left");
        assert_eq!(engine.in_time_wait(), 0, "TIME-WAITs left");
        assert_eq!(engine.half_open(), 0, "half-open connections left");
        assert_eq!(engine.memory().segments_in_use, 0, "segments left");
    }
    assert_eq!(world.finished[0] as u64, count, "every connection ended");
    network.outcome()
}

#[test]
fn every_stream_arrives_whole_and_every_connection_ends() {
    for_each_seed_both_ways(300, run);
}
