//! A path that takes no long packets and says nothing of it (RFC 2923 2.1): the stream arrives all the same, and segments become as
//! long as the path takes (RFC 4821, RFC 8899).

use std::cell::Cell;
use std::time::Duration;

use anywire_tcp::{ConnId, ConnectOptions, Counters, Engine, Events, Instant, Limits, Settings};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::Random;

/// Bytes that tell their places apart.
fn byte(place: usize) -> u8 {
    (place * 151 + (place >> 8)) as u8
}

/// What came of a stream over a path.
struct Sent {
    time: Duration,
    segment_bytes: usize,
    counters: Counters,
    engine: Engine,
    now: Instant,
}

fn probing() -> Settings {
    let mut settings = settings();
    settings.probes_path_mtu = true;
    settings
}

/// Sends a stream from the first engine to the second. `path` says how long packets may be, in bytes, by the time.
fn send(
    (settings, limits): (&Settings, Limits),
    length: usize,
    to: &str,
    path: impl Fn(Duration) -> usize + 'static,
) -> Option<Sent> {
    let engines = [1, 2].map(|last| engine(settings.clone(), limits.clone(), last, 1500));
    let mut net = Network::new(engines, Impairment::delay(10_000), Random::new(1));
    let to = to.parse().expect("an address");
    net.engines[1].listen(to, ConnectOptions::default()).expect("a free port");
    let id = net.engines[0].connect(to, ConnectOptions::default()).expect("a way");
    let start = net.now;
    net.path = Some(Box::new(move |now| path(now.since(start))));
    let (mut sent, heard, mut other) = (0, Cell::new(0), None::<ConnId>);
    let app = |engine: &mut Engine, end: usize, _: Instant| {
        while let Some(ready) = engine.next_ready() {
            other = other.or(Some(ready.id).filter(|_| ready.events.has(Events::INCOMING)));
        }
        if end == 0 {
            let bytes: Vec<u8> = (sent..length.min(sent + 20_000)).map(byte).collect();
            sent += engine.send(id, &bytes);
            return;
        }
        let read = |bytes: &[u8]| {
            assert!(bytes.iter().enumerate().all(|(at, one)| *one == byte(heard.get() + at)));
            bytes.len()
        };
        while let Some(taken) = other.map(|other| engine.recv(other, read)).filter(|taken| *taken > 0) {
            heard.set(heard.get() + taken);
        }
    };
    if !net.run(LIMIT, app, |_| heard.get() == length) {
        return None;
    }
    let [engine, _] = net.engines;
    let (segment_bytes, counters) = (engine.segment_bytes(id), *engine.counters());
    Some(Sent { time: net.now.since(start), segment_bytes, counters, engine, now: net.now })
}

const LENGTH: usize = 2_000_000;
const V4: &str = "10.0.0.2:80";
const V6: &str = "[fd00::2]:80";
/// Until the user timeout.
const LIMIT: Duration = Duration::from_secs(400);

#[test]
fn segments_become_as_long_as_the_path_takes() {
    for (to, headers, mtus) in
        [(V4, 52, &[1499, 1400, 1300, 1201, 900, 576][..]), (V6, 72, &[1499, 1400, 1280])]
    {
        for mtu in mtus.iter().copied() {
            let sent = send((&probing(), small_limits()), LENGTH, to, move |_| mtu).expect("it arrives");
            let found = sent.segment_bytes + headers;
            assert!(found <= mtu && mtu - found < 16, "{to}: {found} of {mtu}");
            assert!(sent.time < Duration::from_secs(20), "{to}, {mtu}: {:?}", sent.time);
            let Counters { black_holes_suspected, path_probes, path_probes_lost, .. } = sent.counters;
            assert!((1..=2).contains(&black_holes_suspected), "{black_holes_suspected}");
            assert!((1..=12).contains(&path_probes) && path_probes_lost <= path_probes, "{path_probes}");
        }
    }
}

#[test]
fn a_path_that_was_only_down_is_used_as_before() {
    let down = Duration::from_millis(200)..Duration::from_secs(8);
    let path = move |time| if down.contains(&time) { 0 } else { 1500 };
    let sent = send((&probing(), small_limits()), LENGTH, V4, path).expect("it arrives");
    assert_eq!((sent.segment_bytes, sent.counters.path_probes_lost), (1448, 0));
    assert!(sent.counters.black_holes_suspected > 0 && sent.counters.path_probes > 0);
}

#[test]
fn a_lost_probe_is_no_sign_of_congestion() {
    let sent = send((&probing(), small_limits()), LENGTH, V4, |_| 1300).expect("it arrives");
    let Counters { fast_recoveries, timeouts, path_probes_lost, .. } = sent.counters;
    assert!(path_probes_lost >= 2, "{path_probes_lost}");
    assert_eq!((fast_recoveries, timeouts), (0, 3));
}

#[test]
fn later_connections_know_what_was_found() {
    let sent = send((&probing(), small_limits()), LENGTH, V4, |_| 1300).expect("it arrives");
    let mut host = Host::of(sent.engine);
    host.now = sent.now;
    let (id, _) = host.call(Peer::new());
    assert_eq!(host.engine.segment_bytes(id), sent.segment_bytes);
    host.wait(Duration::from_secs(600));
    host.news();
    let (id, _) = host.call(Peer::new().port(5001));
    assert_eq!(host.engine.segment_bytes(id), 1448, "RFC 8201 4: the path may have become wider");
}

#[test]
fn without_room_for_a_search_there_is_none() {
    let mut limits = small_limits();
    limits.extensions = 1;
    assert!(send((&probing(), limits.clone()), LENGTH, V4, |_| 1300).is_none());
    // One of two may be kept.
    limits.extensions = 2;
    assert!(send((&probing(), limits), LENGTH, V4, |_| 1300).is_some());
}

#[test]
fn switched_off_nothing_arrives() {
    assert!(send((&settings(), small_limits()), LENGTH, V4, |_| 1300).is_none());
}

#[test]
fn short_segments_without_an_answer_are_no_black_hole() {
    let mut host = Host::with(probing(), small_limits());
    let (id, _) = host.accept(Peer::new());
    host.engine.send(id, &[1; 400]);
    host.wait(Duration::from_secs(100));
    assert!(host.engine.counters().timeouts > 5);
    assert_eq!((host.engine.segment_bytes(id), host.engine.counters().black_holes_suspected), (1448, 0));
}
