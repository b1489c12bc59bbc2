//! Random segments with numbers near the ones of an open connection, and random calls of its user between them. The check
//! of every TCB in debug builds finds any damage.

use std::num::NonZeroU32;

use anywire_tcp::{ConnId, ConnectOptions, Ecn, Events};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::{Random, for_each_seed};
use crate::common::wire::{ACK, Bits, RST, SYN, Segment};

const STEPS: usize = 40;

#[test]
fn any_segments_and_calls_leave_every_tcb_whole() {
    for_each_seed(1000, |seed| {
        let mut random = Random::new(seed);
        let mut host = host(&mut random);
        let mut peer = peer(&mut random);
        let Some(id) = open(&mut host, &mut peer) else { return };
        let mut is_held = true;
        for _ in 0..STEPS {
            host.give(&[segment(&mut random, &peer)]);
            if is_held {
                is_held = call(&mut random, &mut host, id);
            }
            for sent in host.sent() {
                if random.chance(0.7) {
                    peer.heard(&sent);
                }
            }
            if random.chance(0.25) {
                let millis = random.below(3000);
                host.wait_millis(millis);
                peer.later(millis as u32);
            }
            host.news();
        }
    });
}

/// An engine with little or much of everything.
fn host(random: &mut Random) -> Host {
    let (mut settings, mut limits) = (settings(), small_limits());
    settings.receive_window = random.pick(&[1, 100, 3000, 65_535, 1 << 20]);
    settings.ecn = random.pick(&[Ecn::Off, Ecn::Accept, Ecn::Ask]);
    limits.extensions = random.pick(&[0, 1, 256]);
    limits.segment_bytes = random.pick(&[0, 4096, 64 << 10, 1 << 20]);
    limits.send_segments = random.pick(&[1, 16, 1024]);
    Host::with(settings, limits)
}

fn peer(random: &mut Random) -> Peer {
    let mut peer = if random.chance(0.5) { Peer::new() } else { Peer::plain() };
    peer.window = random.pick(&[0, 1, 63, 1000, 65_535]);
    peer.mss = random.pick(&[None, Some(0), Some(1), Some(536), Some(65_535)]);
    peer
}

/// The connection, if there is memory for it.
fn open(host: &mut Host, peer: &mut Peer) -> Option<ConnId> {
    host.engine.listen(peer.there, ConnectOptions::default()).unwrap();
    host.give(&[peer.syn()]);
    let answer = host.sent().pop()?;
    peer.heard(&answer);
    peer.seq = peer.seq.wrapping_add(1);
    host.give(&[peer.segment(ACK)]);
    host.news().iter().find(|(_, events)| events.has(Events::INCOMING)).map(|(id, _)| *id)
}

/// A segment with random bits, most often valid ones, and with a number, an ACK and blocks that may be right.
fn segment(random: &mut Random, peer: &Peer) -> Segment {
    let mut segment = peer.segment(Bits(random.next() as u8));
    if random.chance(0.75) {
        segment.bits = Bits(segment.bits.0 & !(SYN | RST).0 | ACK.0);
    }
    segment.seq = near(random, peer.seq);
    segment.ack = near(random, peer.ack);
    segment.window = random.pick(&[0, 1, 40, 2000, 65_535]);
    segment.payload = vec![1; random.pick(&[0, 0, 1, 100, 1448, 1900])];
    segment.traffic_class = random.below(4) as u8;
    if random.chance(0.3) {
        let blocks = random.between(1, 3);
        segment.sack = (0..blocks).map(|_| (near(random, peer.ack), near(random, peer.ack))).collect();
    }
    if let Some((value, echo)) = &mut segment.timestamps {
        *value = if random.chance(0.25) { near(random, *value) } else { *value };
        *echo = if random.chance(0.3) { near(random, *echo) } else { *echo };
    }
    segment
}

fn near(random: &mut Random, number: u32) -> u32 {
    let by = random.below(3000) as u32;
    let far = random.next() as u32;
    number.wrapping_add(random.pick(&[
        0,
        1,
        1_u32.wrapping_neg(),
        by,
        by.wrapping_neg(),
        1 << 31,
        far,
        65_535,
    ]))
}

/// What a user may do. False once the id is closed.
fn call(random: &mut Random, host: &mut Host, id: ConnId) -> bool {
    match random.below(12) {
        0..3 => _ = host.engine.send(id, &[3; 3000][..random.below(3000) as usize]),
        3 | 4 => _ = host.read_some(id, random.below(2000) as usize),
        5 => host.engine.shutdown(id),
        6 => _ = host.engine.splice(id, host.engine.readable(id)),
        7 => _ = host.engine.send_with(id, random.between(1, 1500) as usize, |bytes| bytes.fill(1)),
        8 => _ = host.engine.set_rate(id, NonZeroU32::new(random.below(100_000) as u32)),
        9 if random.chance(0.1) => {
            host.engine.close(id);
            return false;
        }
        10 if random.chance(0.02) => {
            let (local, _) = host.engine.addresses(id);
            host.engine.remove_address(local.ip());
            let _ = host.engine.add_address(local.ip());
        }
        _ => {}
    }
    true
}
