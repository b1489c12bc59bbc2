//! A peer sees sequence numbers, timestamps, cookies and ports that are made with secrets. They tell it nothing about those of
//! other peers (RFC 6528 3, RFC 7323 7.1, RFC 4987 3.6, RFC 6056 3.3.3), and none tells another.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anywire_tcp::{ConnectOptions, Instant, Settings};

use crate::common::host::{Host, Peer, small_limits};
use crate::common::wire::{ACK, SYN, Segment, icmp_error};

const SECRET: [u64; 4] =
    [0x13d5_9c40_77aa_0e21, 0x8c7f_2b19_d3e4_5566, 0x9e1b_6a74_c05f_d238, 0x4b8d_17e6_3fa9_02c5];

/// What leaves, without what everybody knows of it: the clock.
struct Leaving {
    name: &'static str,
    /// How many values there are.
    count: u64,
    of: fn(&mut Host, SocketAddr) -> u32,
}

const LEAVING: [Leaving; 7] = [
    Leaving {
        name: "number of a SYN-ACK",
        count: 1 << 32,
        of: |host, peer| number(host.now, &syn_ack(host, peer)),
    },
    Leaving {
        name: "clock of a SYN-ACK",
        count: 1 << 32,
        of: |host, peer| clock(host.now, &syn_ack(host, peer)),
    },
    Leaving { name: "number of a SYN", count: 1 << 32, of: |host, peer| number(host.now, &syn(host, peer)) },
    Leaving { name: "clock of a SYN", count: 1 << 32, of: |host, peer| clock(host.now, &syn(host, peer)) },
    Leaving { name: "cookie", count: 1 << 24, of: |host, peer| cookie(host, peer) & 0x00ff_ffff },
    Leaving { name: "port", count: PORTS, of: port },
    Leaving { name: "identification", count: 1 << 16, of: identification },
];

impl Leaving {
    /// Packets of IPv6 have no identification.
    fn families(&self) -> &[bool] {
        if self.name == "identification" { &[false] } else { &[false, true] }
    }

    /// The bits that count: all connections of a pair of addresses share the identifications.
    fn bits(&self) -> Vec<u32> {
        let first = if self.name == "identification" { 16 } else { 0 };
        BITS.into_iter().filter(|bit| *bit >= first).collect()
    }
}

/// Ports that are given out, as far as anybody counts on it here: about so many.
const PORTS: u64 = 49_151;

fn syn_ack(host: &mut Host, peer: SocketAddr) -> Segment {
    let there = Peer { there: at_port_80(peer), here: peer, ..Peer::new() };
    host.engine.listen(there.there, ConnectOptions::default()).expect("a free port");
    let answer = host.answers(&there.syn()).remove(0);
    assert!(answer.is(SYN | ACK), "{answer:?}");
    answer
}

/// From a port that is known, so that a name has all its parts.
fn syn(host: &mut Host, peer: SocketAddr) -> Segment {
    host.engine.connect_from(at_port_80(peer), peer, ConnectOptions::default()).expect("a connection");
    host.sent_one()
}

fn port(host: &mut Host, peer: SocketAddr) -> u32 {
    host.engine.connect(peer, ConnectOptions::default()).expect("a connection");
    host.sent_one().from.port().into()
}

fn cookie(host: &mut Host, peer: SocketAddr) -> u32 {
    let answer = syn_ack(host, peer);
    assert_eq!(host.engine.counters().cookies_sent, 1);
    answer.seq
}

/// Of a packet that may be fragmented.
fn identification(host: &mut Host, peer: SocketAddr) -> u32 {
    let (id, _) = host.accept(Peer { there: at_port_80(peer), here: peer, ..Peer::new() });
    host.engine.send(id, &[7; 1000]);
    let sent = host.sent_one();
    host.give_frame(&icmp_error("192.0.2.1".parse().expect("an address"), &sent, 3, 4, 300));
    let frame = host.frames().remove(0);
    assert_eq!(frame[20] & 0x40, 0, "it may be fragmented");
    u32::from(u16::from_be_bytes([frame[18], frame[19]]))
}

fn number(now: Instant, segment: &Segment) -> u32 {
    segment.seq.wrapping_sub((now.as_micros() / 4) as u32)
}

fn clock(now: Instant, segment: &Segment) -> u32 {
    segment.timestamps.expect("timestamps").0.wrapping_sub((now.as_micros() / 1000) as u32)
}

fn at_port_80(peer: SocketAddr) -> SocketAddr {
    if peer.is_ipv4() { Peer::new().there } else { Peer::v6().there }
}

/// What a new engine with this secret shows to a peer.
fn shown(leaving: &Leaving, secret: [u64; 4], peer: SocketAddr) -> u32 {
    let mut limits = small_limits();
    if leaving.name == "cookie" {
        limits.half_open = 0;
    }
    (leaving.of)(&mut Host::with(Settings::new(secret), limits), peer)
}

/// An attacker's address with some bits turned: of the port below, of the address above.
fn turned(v6: bool, bits: u128) -> SocketAddr {
    let port = 5000 ^ bits as u16;
    let ip = if v6 {
        IpAddr::V6(Ipv6Addr::from_bits(0xfd00_0000_0000_0000_0000_0000_0000_0002 ^ bits >> 16))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0002 ^ (bits >> 16) as u32))
    };
    SocketAddr::new(ip, port)
}

/// Bits that an attacker turns: of its port, of both ends of its address.
const BITS: [u32; 12] = [0, 1, 5, 10, 16 + 2, 16 + 3, 16 + 8, 16 + 15, 16 + 17, 16 + 19, 16 + 20, 16 + 22];

#[test]
fn own_values_do_not_extrapolate_to_others() {
    for leaving in &LEAVING {
        for v6 in leaving.families().iter().copied() {
            let of = |bits| u64::from(shown(leaving, SECRET, turned(v6, bits)));
            let first = of(0);
            let bits = leaving.bits();
            let alone: Vec<_> = bits.iter().map(|bit| of(1 << bit)).collect();
            let mut guessed = 0;
            for (i, bit) in bits.iter().enumerate() {
                for (j, other) in bits.iter().enumerate().skip(i + 1) {
                    let victim = of(1 << bit | 1 << other);
                    let sum = (alone[i] + alone[j] + leaving.count - first) % leaving.count;
                    let is_near = |guess: u64| {
                        let apart = (victim + leaving.count - guess) % leaving.count;
                        apart.min(leaving.count - apart) <= 1
                    };
                    guessed += u32::from(is_near(sum) || is_near(alone[i] ^ alone[j] ^ first));
                }
            }
            assert_eq!(guessed, 0, "{} (IPv6: {v6}): of others, guessed from own ones", leaving.name);
        }
    }
}

#[test]
fn no_value_tells_another() {
    // Those of IPv4 first, because not all have the others.
    let of = |leaving: &Leaving| -> Vec<u64> {
        let peers =
            |v6: &bool| (8..32).map(move |number| turned(*v6, number * 0x0001_0123)).collect::<Vec<_>>();
        leaving.families().iter().flat_map(peers).map(|peer| shown(leaving, SECRET, peer).into()).collect()
    };
    let all = LEAVING.each_ref().map(of);
    for (known, values) in LEAVING.iter().zip(&all) {
        for (wanted, others) in LEAVING.iter().zip(&all) {
            // The connection of a name starts alike from both ends.
            let what = |leaving: &Leaving| leaving.name.split(' ').next().map(str::to_owned);
            if what(known) == what(wanted) {
                continue;
            }
            for shift in [0, 8, 16] {
                let apart = values.iter().zip(others).map(|(known, other)| {
                    (other + wanted.count - (known >> shift) % wanted.count) % wanted.count
                });
                let count = apart.clone().collect::<HashSet<_>>().len();
                let all = apart.count();
                assert!(
                    all >= 24 && count + 2 >= all,
                    "{} tells {} ({shift}): {count}",
                    known.name,
                    wanted.name
                );
            }
        }
    }
}

#[test]
fn each_word_of_the_secret_counts_in_each_value() {
    for leaving in &LEAVING {
        for v6 in leaving.families().iter().copied() {
            let peer = turned(v6, 0);
            let before = shown(leaving, SECRET, peer);
            for word in 0..4 {
                for bit in [0, 31, 63] {
                    let mut other = SECRET;
                    other[word] ^= 1 << bit;
                    assert_ne!(shown(leaving, other, peer), before, "{}: bit {bit} of {word}", leaving.name);
                }
            }
        }
    }
}

/// An attacker chooses the lower half of its IPv6 address, and may choose it after that of somebody else.
#[test]
fn no_address_of_ipv6_stands_for_another() {
    let victim = 0x2001_0db8_0000_0001_1234_5678_9abc_def0_u128;
    let own_network = 0x2001_0db8_0000_0666_u128;
    let (high, low) = (victim >> 64, victim & u128::from(u64::MAX));
    let others = [low, high ^ low ^ own_network, high.wrapping_add(low).wrapping_sub(own_network), !low];
    for leaving in LEAVING.iter().filter(|leaving| leaving.families().contains(&true)) {
        let of = |bits| {
            let peer = SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), 5000);
            shown(leaving, SECRET, peer)
        };
        for other in others {
            let other = own_network << 64 | other & u128::from(u64::MAX);
            assert_ne!(of(other), of(victim), "{}: {}", leaving.name, Ipv6Addr::from_bits(other));
        }
    }
}

/// What succeeds where timestamps are made by one multiplication with the key of sequence numbers: the differences between the
/// clocks of neighbours give the key, and then a search over the time that the server is up gives the rest.
mod by_one_multiplication {
    use super::*;

    /// The attacker's first address; the others differ from it in one bit.
    const OWN: u32 = 0x0a00_0002;

    fn high(value: u64) -> u32 {
        (value >> 32) as u32
    }

    /// A factor whose products differ as the clocks do, if there is one.
    fn factor(clocks: &[u32]) -> Option<(u64, u32)> {
        let moves: Vec<u32> = (0..32).map(|bit| clocks[bit + 1].wrapping_sub(clocks[0])).collect();
        let guesses = |step: u32| {
            [step, step.wrapping_sub(1), step.wrapping_neg(), step.wrapping_neg().wrapping_sub(1)]
        };
        for upper in guesses(moves[0]) {
            for middle in guesses(moves[31]) {
                let factor = u64::from(upper) << 32 | u64::from(middle << 1) | 1;
                // The direction of each move is a bit of the other half of the key.
                let mut low = 0_u32;
                let fits = upper & 1 == middle >> 31
                    && (0..32).all(|bit| {
                        let step = high(factor << bit);
                        let up = moves[bit].wrapping_sub(step) <= 1;
                        low |= u32::from(!up) << bit;
                        up || moves[bit].wrapping_add(step).wrapping_neg() <= 1
                    });
                let product = u64::from(low).wrapping_mul(factor);
                let is_exact = |bit: usize| {
                    let turned = u64::from(low ^ 1 << bit).wrapping_mul(factor);
                    high(turned).wrapping_sub(high(product)) == moves[bit]
                };
                if fits && (0..32).all(is_exact) {
                    return Some((factor, low));
                }
            }
        }
        None
    }

    #[test]
    fn no_factor_is_found() {
        let addresses = std::iter::once(OWN).chain((0..32).map(|bit| OWN ^ 1 << bit));
        let clocks: Vec<u32> = addresses
            .map(|address| {
                shown(&LEAVING[1], SECRET, SocketAddr::new(Ipv4Addr::from_bits(address).into(), 5000))
            })
            .collect();
        assert_eq!(factor(&clocks), None, "the key of the clocks");
    }

    #[test]
    fn it_would_be_found() {
        let [a, b] = [SECRET[2], SECRET[3]];
        let clock = |address: u32| high((u64::from(address) ^ a).wrapping_mul(b | 1)).wrapping_add(12_345);
        let clocks: Vec<u32> =
            std::iter::once(OWN).chain((0..32).map(|bit| OWN ^ 1 << bit)).map(clock).collect();
        assert!(factor(&clocks).is_some());
    }
}
