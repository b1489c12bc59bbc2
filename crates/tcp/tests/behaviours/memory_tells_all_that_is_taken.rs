//! What an engine has taken is what `memory()` tells: also when strangers with many addresses have called, and for what few
//! connections have. (RFC 4987 3.1: what a flood of SYNs costs must be known.)

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anywire_tcp::{ConnectOptions, Frames, Memory, SharedPayload};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, icmp_error};

const COUNT: u32 = 3000;

/// What each of many things is known to take at least, and what the engine says that they took.
fn check(what: &str, least_bytes: usize, host: &mut Host, mut one: impl FnMut(&mut Host, u32)) -> Memory {
    // Once, so that all that there is of it anyhow is there.
    one(host, 0);
    let before = host.engine.memory().total();
    for number in 1..=COUNT {
        one(host, number);
    }
    let after = host.engine.memory();
    let told = after.total() - before;
    // Arenas grow by steps of 64 KiB, so some of it may have been there.
    let least = COUNT as usize * least_bytes;
    assert!(told + (1 << 16) >= least, "{what}: {told} bytes are told, and {least} are needed");
    assert!(told < 3 * least + (2 << 20), "{what}: {told} bytes are told, for {least}");
    after
}

fn peer(number: u32) -> Peer {
    Peer { here: SocketAddr::new(IpAddr::from((0x0a01_0000 + number).to_be_bytes()), 5000), ..Peer::new() }
}

fn host() -> Host {
    let mut limits = small_limits();
    (limits.connections, limits.half_open) = (2 * COUNT as usize, 2 * COUNT as usize);
    (limits.listeners, limits.path_mtus) = (2 * COUNT as usize, 2 * COUNT as usize);
    let mut host = Host::with(settings(), limits);
    for there in [Peer::new().there, Peer::v6().there] {
        host.engine.listen(there, ConnectOptions::default()).expect("a free port");
    }
    host
}

#[test]
fn addresses_of_ipv6_peers() {
    let mut host = host();
    let mut out = Frames::new();
    check("SYNs", 48 + 20 + 20, &mut host, |host, number| {
        let address = Ipv6Addr::from_bits((0xfd00 << 112 | 1 << 64) + u128::from(number));
        host.give(&[Peer { here: SocketAddr::new(address.into(), 5000), ..Peer::v6() }.syn()]);
        host.engine.transmit(host.now, &mut out);
        out.clear();
    });
}

#[test]
fn replies_that_wait() {
    check("replies", 64, &mut host(), |host, number| host.give(&[peer(number).segment(ACK)]));
}

#[test]
fn listeners_and_own_addresses() {
    check("listeners", 12, &mut host(), |host, number| {
        let there = SocketAddr::new(Peer::new().there.ip(), 1000 + number as u16);
        host.engine.listen(there, ConnectOptions::default()).expect("a free port");
    });
    check("addresses", 17 + 4 + 6, &mut host(), |host, number| {
        host.engine.add_address(peer(number).here.ip()).expect("room");
    });
}

#[test]
fn narrow_paths_and_timeouts_of_few() {
    check("narrow paths", 17 + 10 + 17 + 8, &mut host(), |host, number| {
        let (id, _) = host.accept(peer(number));
        host.engine.send(id, &[1; 1448]);
        let sent = host.sent_one();
        host.give_frame(&icmp_error("192.0.2.1".parse().expect("an address"), &sent, 3, 4, 1000));
        host.engine.abort(id);
        host.sent();
    });
    check("user timeouts", 128 + 8, &mut host(), |host, number| {
        let (id, _) = host.accept(peer(number));
        host.engine.set_user_timeout(id, Duration::from_secs(5));
    });
}

#[test]
fn shared_payloads_and_fins() {
    let all = check("payloads", 128 + 64 + 500, &mut host(), |host, number| {
        let (id, _) = host.accept(peer(number));
        assert_eq!(host.engine.send_shared(id, &SharedPayload::from(vec![number as u8; 500])), 500);
        host.sent();
    });
    assert!(all.segments_in_use <= all.segments, "{all:?}");
    check("FINs", 128 + 64, &mut host(), |host, number| {
        let (id, _) = host.accept(peer(number));
        host.engine.close(id);
        host.sent();
    });
}

#[test]
fn the_last_batch() {
    let mut host = host();
    let before = host.engine.memory().total();
    let (_, mut peer) = host.accept(Peer::new());
    let batch: Vec<_> = (0..60).map(|_| peer.data(&[1; 1000])).collect();
    host.give(&batch);
    assert!(host.engine.memory().total() > before + Frames::BATCH * Frames::FRAME_BYTES);
}
