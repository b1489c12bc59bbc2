//! Two engines over a link that loses, doubles, delays and damages frames as the input says. Each side receives exactly
//! the bytes that the other sent, and when the link works again, all connections end.

#![no_main]

use std::collections::VecDeque;
use std::time::Duration;

use anywire_tcp::{
    Cidr, ConnId, ConnectOptions, Engine, Events, Frames, Instant, Limits, Mac, Route, Settings, Status, Via,
};
use libfuzzer_sys::fuzz_target;

/// The byte at a place of the stream that an end sends.
fn byte(end: usize, place: usize) -> u8 {
    (place * 31 + place / 251 + end * 101) as u8
}

fn engine(last: u8, options: u8) -> Engine {
    let mut settings = Settings::new([u64::from(last), 2, 3, 4]);
    settings.timestamps = options & 1 == 0;
    settings.sack = options & 2 == 0;
    settings.receive_window = if options & 4 == 0 { 60_000 } else { 2000 };
    settings.time_wait = Duration::from_millis(100);
    let mut limits = Limits::default();
    (limits.connections, limits.half_open, limits.time_wait, limits.extensions) =
        (4, 4, 4, 1 + usize::from(options >> 3 & 1));
    (limits.segment_bytes, limits.send_bytes) = (1 << 16, 20_000);
    let mut engine = Engine::new(settings, limits).expect("address space");
    let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
    engine.add_address([10, 0, 0, last].into()).expect("room");
    engine.set_mac(mac(last));
    let route = Route { network: Cidr::ALL_V4, via: Via::OnLink, mtu: 1500, source: None };
    engine.add_route(route).expect("a route");
    engine.add_neighbour([10, 0, 0, 3 - last].into(), mac(3 - last)).expect("room");
    engine
}

fuzz_target!(|input: &[u8]| {
    let [options, other_options, lengths, lengths_low, fates @ ..] = input else { return };
    let mut engines = [engine(1, *options), engine(2, *other_options)];
    let listen = "10.0.0.2:80".parse().expect("an address");
    engines[1].listen(listen, ConnectOptions::default()).expect("a listener");
    let lengths = [usize::from(*lengths) * 97, usize::from(*lengths_low) * 53];
    let mut ids: [Option<ConnId>; 2] = [engines[0].connect(listen, ConnectOptions::default()).ok(), None];
    let (mut said, mut heard, mut closed) = ([0; 2], [0; 2], [false; 2]);
    let mut under_way: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
    let mut fates = fates.iter();
    let mut now = Instant::from_micros(1_000_000);
    // If the link loses most frames, each segment waits for a minute.
    let end_at = now + Duration::from_secs(36_000);
    while engines.iter().any(|engine| engine.connections() + engine.in_time_wait() + engine.half_open() > 0) {
        for end in 0..2 {
            let engine = &mut engines[end];
            let mut batch = Frames::new();
            while under_way[end].front().is_some_and(|(at, _)| *at <= now) && batch.room() > 0 {
                let (_, frame) = under_way[end].pop_front().expect("it is there");
                let _ = batch.push(&frame);
            }
            engine.receive(now, &mut batch);
            while let Some(news) = engine.next_ready() {
                if news.events.has(Events::INCOMING) {
                    ids[end] = Some(news.id);
                }
            }
            if let Some(id) = ids[end].filter(|_| !closed[end]) {
                while engine.recv(id, |bytes| {
                    for there in bytes {
                        assert_eq!(*there, byte(1 - end, heard[end]), "byte {} at {end}", heard[end]);
                        heard[end] += 1;
                    }
                    bytes.len()
                }) > 0
                {}
                let rest: Vec<_> =
                    (said[end]..lengths[end]).take(4000).map(|place| byte(end, place)).collect();
                said[end] += engine.send(id, &rest);
                if said[end] == lengths[end] {
                    engine.shutdown(id);
                }
                let is_over = matches!(engine.status(id), Status::Ended(_));
                if engine.is_finished(id) && said[end] == lengths[end] || is_over {
                    closed[end] = true;
                    engine.close(id);
                }
            }
            engine.advance(now);
            let mut frames = Frames::new();
            engine.transmit(now, &mut frames);
            for frame in frames.iter() {
                // Behind the input the link is whole.
                let fate = fates.next().copied().unwrap_or(128);
                let mut frame = frame.to_vec();
                let delay = Duration::from_micros(1000 + u64::from(fate & 15) * 700);
                match fate >> 4 {
                    0 => continue,
                    1 => {
                        let place = usize::from(fate & 15) * 5 % frame.len();
                        frame[place] ^= 1 << (fate & 7);
                    }
                    2 => under_way[1 - end].push_back((now + delay, frame.clone())),
                    3 => frame.truncate(frame.len() - frame.len().min(usize::from(fate & 15) + 1)),
                    _ => {}
                }
                let at = now + delay;
                let place = under_way[1 - end].partition_point(|(other, _)| *other <= at);
                under_way[1 - end].insert(place, (at, frame));
            }
        }
        let arrivals = under_way.iter().filter_map(|queue| queue.front().map(|(at, _)| *at));
        let deadlines = engines.iter().filter_map(Engine::next_deadline);
        let Some(next) = arrivals.chain(deadlines).min() else { break };
        now = now.max(next);
        assert!(now < end_at, "it hangs");
    }
    // An end may have given up if the input lost whatever it sent, and the other may wait for it for ever.
    let lost_too_much = engines.iter().any(|engine| engine.counters().timed_out > 0);
    if lost_too_much {
        return;
    }
    assert_eq!(heard, [lengths[1], lengths[0]], "everything arrives");
    assert!(engines.iter().all(|engine| engine.memory().segments_in_use == 0 && engine.connections() == 0));
});
