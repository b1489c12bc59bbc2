//! Reaches every limit of `Limits`, and checks the victim, the counter, and that no connection hangs. (The limits of
//! TIME-WAITs, half-open connections, replies and challenges are tested with their subjects.)

use std::time::Duration;

use anywire_tcp::{ConnectError, ConnectOptions, Events, Limits, ListenError, Status};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::Random;
use crate::common::wire::{ACK, SYN};

fn host(change: impl FnOnce(&mut Limits)) -> Host {
    let mut limits = small_limits();
    change(&mut limits);
    Host::with(settings(), limits)
}

#[test]
fn connections() {
    let mut host = host(|limits| limits.connections = 2);
    let peer = Peer::new();
    let (first, _) = host.accept(peer.clone());
    let (_, _) = host.call(Peer::new().port(6000));
    assert_eq!(host.engine.connect(peer.here, ConnectOptions::default()), Err(ConnectError::TooMany));
    // An accepted one finds no place; its peer asks again, and gets in as soon as there is one.
    let mut third = Peer::new().port(5001);
    let answer = host.answers(&third.syn()).remove(0);
    third.heard(&answer);
    third.seq += 1;
    assert_eq!(host.answers(&third.acks()), []);
    assert_eq!(host.engine.counters().refused_by_limit, 1);
    host.engine.abort(first);
    host.sent();
    host.give(&[third.data(b"at last")]);
    let news = host.news();
    assert!(news.iter().any(|(_, events)| events.has(Events::INCOMING)), "{news:?}");
    assert_eq!(host.engine.connections(), 2);
}

#[test]
fn listeners() {
    let mut host = host(|limits| limits.listeners = 2);
    let listen = |host: &mut Host, address: &str| {
        host.engine.listen(address.parse().unwrap(), ConnectOptions::default())
    };
    let first = listen(&mut host, "0.0.0.0:80").unwrap();
    assert_eq!(listen(&mut host, "0.0.0.0:80"), Err(ListenError::InUse));
    listen(&mut host, "10.0.0.1:80").unwrap();
    assert_eq!(listen(&mut host, "0.0.0.0:81"), Err(ListenError::TooMany));
    assert_eq!(listen(&mut host, "10.0.0.9:81"), Err(ListenError::NoAddress));
    host.engine.stop_listening(first);
    listen(&mut host, "0.0.0.0:81").unwrap();
}

#[test]
fn bytes_and_segments_to_send() {
    let mut host = host(|limits| (limits.send_bytes, limits.send_segments) = (5000, 3));
    let (id, mut peer) = host.accept(Peer::new());
    assert_eq!(host.engine.send(id, &[1; 10_000]), 3 * 1448, "three segments");
    assert_eq!((host.engine.send(id, b"more"), host.engine.send_room(id)), (0, 0));
    let sent = host.sent();
    assert!(!host.engine.send_with(id, 4, |_| panic!("there is no room")));
    peer.heard_all(&sent);
    host.news();
    host.give(&[peer.acks()]);
    assert!(host.news().iter().any(|(_, events)| events.has(Events::WRITABLE)));
    assert_eq!(host.engine.send_room(id), 5000);

    let mut host = self::host(|limits| limits.send_bytes = 2000);
    let (id, _) = host.accept(Peer::new());
    assert_eq!(host.engine.send(id, &[1; 10_000]), 2000);
}

#[test]
fn bytes_of_segments() {
    let mut host = host(|limits| limits.segment_bytes = 16 * 2048);
    let (one, mut peer) = host.accept(Peer::new());
    let others = [5002, 5003].map(|port| host.accept(Peer::new().port(port)).0);
    assert_eq!(
        host.engine.send(one, &[1; 100_000]),
        14 * 1448,
        "an eighth is for those who have nothing queued"
    );
    for id in others {
        assert_eq!(host.engine.send(id, &[1; 1448]), 1448);
    }
    let mut sent = host.sent();
    sent.retain(|segment| segment.to == peer.here);
    let (two, mut other) = host.accept(Peer::new().port(5001));
    assert_eq!(host.engine.send(two, b"nothing is left"), 0);
    assert_eq!(host.engine.send(two, b"nothing is left"), 0);
    // Data out of order is dropped, and data in order may use a quarter more.
    let before = host.engine.counters().dropped_for_memory;
    host.give(&[other.data_at(1000, &[1; 1000])]);
    assert_eq!(host.engine.counters().dropped_for_memory, before + 1);
    let mut taken = 0;
    for _ in 0..10 {
        let at = other.clone();
        host.give(&[other.data(&[1; 1448])]);
        if host.engine.readable(two) == taken {
            other = at;
            break;
        }
        taken = host.engine.readable(two);
        host.sent();
    }
    // Four cells, and the payload still in its frame.
    assert!((1448..=5 * 1448).contains(&taken), "{taken}");
    assert!(host.engine.counters().dropped_for_memory > before + 1);
    assert_eq!(host.read(two).len(), taken);
    // A connection that found no memory is told when there is some, without any other event.
    host.news();
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    host.sent();
    let news = host.news();
    assert!(news.iter().any(|(id, events)| *id == two && events.has(Events::WRITABLE)), "{news:?}");
    assert_eq!(host.engine.send(two, b"now"), 3);
    let _ = other;
}

#[test]
fn segments_cut_in_two_leave_room_for_what_is_read_at_once() {
    let mut host = host(|limits| limits.segment_bytes = 10 * 2048);
    let small = |port| Peer { window: 1000, scale: None, ..Peer::new().port(port) };
    let ids = [5001, 5002, 5003, 5004].map(|port| host.accept(small(port)).0);
    let (reader, mut peer) = host.accept(Peer::new());
    for id in ids {
        host.engine.send(id, &[1; 3 * 1448]);
    }
    // Each cuts one of its segments for the window, beyond the limit and the quarter on top of it.
    assert_eq!(host.sent().len(), 4);
    assert!(host.engine.memory().segments_in_use >= 13 * 2048);
    for _ in 0..5 {
        host.give(&[peer.data(&[2; 1448])]);
        assert_eq!(host.read(reader), [2; 1448]);
        host.sent();
    }
    // Who does not read gets no more than one.
    for _ in 0..5 {
        host.give(&[peer.data(&[3; 1448])]);
        host.sent();
    }
    assert_eq!(host.read(reader).len(), 1448);
}

#[test]
fn memory_that_a_reader_gives_back_is_told_as_well() {
    let mut host = host(|limits| limits.segment_bytes = 4 * 2048);
    let (reader, mut peer) = host.accept(Peer::new());
    for _ in 0..5 {
        host.give(&[peer.data(&[1; 1448])]);
        host.sent();
    }
    let (writer, _) = host.accept(Peer::new().port(5001));
    assert_eq!(host.engine.send(writer, &[1; 1000]), 0);
    host.news();
    host.read(reader);
    let deadline = host.engine.next_deadline().expect("somebody waits");
    host.now = host.now.max(deadline);
    host.sent();
    assert!(host.news().iter().any(|(id, events)| *id == writer && events.has(Events::WRITABLE)));
}

#[test]
fn segments_out_of_order() {
    let mut host = host(|limits| limits.out_of_order_segments = 3);
    let (_, peer) = host.accept(Peer::new());
    for number in 1..=5 {
        host.give(&[peer.data_at(number * 200, &[1; 100])]);
    }
    assert_eq!((host.engine.counters().out_of_order, host.engine.counters().dropped_for_memory), (3, 2));
}

#[test]
fn extensions() {
    // One for two connections that both lose something: the other one is repaired by the timer.
    let mut limits = small_limits();
    limits.extensions = 1;
    let mut engines = [1, 2].map(|last| engine(settings(), limits.clone(), last, 1500));
    engines[1].listen("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
    let ids = [0, 1]
        .map(|_| engines[0].connect("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap());
    for id in ids {
        assert_eq!(engines[0].send(id, &[7; 50_000]), 50_000);
    }
    let impairment = Impairment { loss: 0.05, reorder: 0.05, ..Impairment::delay(5000) };
    let mut network = Network::new(engines, impairment, Random::new(1));
    let heard = std::cell::Cell::new(0);
    network.run(
        Duration::from_secs(300),
        |engine, end, _| {
            if end == 1 {
                while let Some(news) = engine.next_ready() {
                    while engine.recv(news.id, |bytes| bytes.len()) > 0 {}
                }
                heard.set(engine.counters().frames_received);
            }
        },
        |network| network.engines[0].memory().segments_in_use == 0,
    );
    assert!(network.engines[1].counters().dropped_for_memory > 0, "out of order, and no place for it");
    assert!(network.engines.iter().all(|engine| engine.connections() == 2));
}

#[test]
fn a_table_that_is_full_refuses_and_leaks_nothing() {
    let mut limits = small_limits();
    (limits.connections, limits.half_open, limits.time_wait) = (4, 2, 1);
    let mut host = Host::with(settings(), limits);
    for round in 0..50 {
        let mut peers = Vec::new();
        for number in 0..6 {
            let peer = Peer::new().port(1000 + round * 10 + number);
            let _ = host.engine.listen(peer.there, ConnectOptions::default());
            if let Some(answer) =
                host.answers(&peer.syn()).into_iter().find(|answer| answer.bits == SYN | ACK)
            {
                let mut peer = peer;
                peer.heard(&answer);
                peer.seq += 1;
                host.give(&[peer.acks()]);
                peers.push(peer);
            }
        }
        for (id, _) in host.news() {
            assert_eq!(host.engine.status(id), Status::Open);
            host.engine.abort(id);
        }
        host.wait(Duration::from_secs(100));
        assert_eq!((host.engine.connections(), host.engine.half_open()), (0, 0), "round {round}");
    }
}

#[test]
fn a_wheel_full_of_timers_that_are_out_of_date_keeps_nobody_from_going_on() {
    let mut limits = small_limits();
    (limits.connections, limits.half_open, limits.time_wait) = (2000, 1, 1);
    let mut host = Host::with(settings(), limits);
    // More at once than may wait to be looked at, and each round leaves the timers of its SYNs in the wheel for a second.
    for _ in 0..5 {
        let ids: Vec<_> = (0..2000)
            .map(|_| host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap())
            .collect();
        assert_eq!(host.sent().len(), 2000);
        host.wait_millis(3);
        for id in ids {
            host.engine.abort(id);
        }
    }
    // Connections without a place in the wheel still have their timers.
    for _ in 0..2000 {
        host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    }
    let at = host.millis();
    let sent = host.wait(Duration::from_secs(2));
    assert_eq!(sent.iter().filter(|(sent_at, _)| *sent_at == at).count(), 2000);
    let again: Vec<_> = sent.iter().map(|(sent_at, _)| sent_at - at).filter(|after| *after > 0).collect();
    assert_eq!(again.len(), 2000);
    assert!(again.iter().all(|after| (1000..=1002).contains(after)), "{again:?}");
}

#[test]
fn timers_run_while_the_wheel_is_full_of_others_that_are_far_away() {
    let mut limits = small_limits();
    (limits.connections, limits.half_open, limits.time_wait) = (4, 2, 1);
    let mut host = Host::with(settings(), limits);
    // Each leaves the moment of its first probe in the wheel, two hours ahead.
    let keep = ConnectOptions { keep_alive: true, ..ConnectOptions::default() };
    host.engine.listen(Peer::new().there, keep).unwrap();
    for number in 0..1100 {
        let (id, _) = host.accept(Peer::new().port(2000 + number));
        host.engine.abort(id);
        host.sent();
    }
    let (id, _) = host.accept(Peer::new().port(1000));
    let at = host.millis();
    host.engine.send(id, b"is not heard");
    let sent = host.wait(Duration::from_secs(5));
    let times: Vec<_> = sent.iter().map(|(sent_at, _)| sent_at - at).collect();
    assert!(times.len() > 2, "it is sent again: {times:?}");
    // A handshake may take its time, and a SYN-ACK that is lost is sent again.
    let mut slow = Peer::new().port(1001);
    let at = host.millis();
    let answer = host.answers(&slow.syn()).remove(0);
    let again: Vec<_> =
        host.wait(Duration::from_secs(8)).into_iter().filter(|(_, segment)| segment.is(SYN)).collect();
    let after: Vec<_> = again.iter().map(|(sent_at, _)| (sent_at - at) / 100).collect();
    assert_eq!(after, [10, 30, 70], "in tenths of a second");
    slow.heard(&answer);
    slow.seq += 1;
    host.give(&[slow.acks()]);
    assert!(host.news().iter().any(|(_, events)| events.has(Events::INCOMING)));
    assert_eq!(host.engine.counters().refused_by_limit, 0);
}
