//! A client measures the phases of its calls if it is told to, counts their bytes, and tells Prometheus all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anywire_client::{Client, Phase};

use crate::support::{OK, Peer, block_on, client, client_of_http2, eventually, on_each_wire, wire};

fn counts(client: &Client, origin: &str) -> Vec<(Phase, u64)> {
    let mut all = client.latencies();
    let phases = all.remove(origin).unwrap_or_else(|| panic!("{origin} is none of {all:?}"));
    phases
        .into_iter()
        .map(|(phase, durations)| (phase, durations.count()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn each_phase_of_each_attempt_is_recorded() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(2, |builder| builder.latencies());
        let mut handshakes = 0;
        for _ in 0..3 {
            let response = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            handshakes = u64::from(response.tls().is_some()) * client.counters().total().dialed;
            block_on(response.text()).expect("a body");
        }
        let origin = peer.url("").trim_end_matches('/').to_owned();
        let found = counts(&client, &origin);
        let dialed = client.counters().total().dialed;
        for phase in [Phase::Acquire, Phase::Write, Phase::Read, Phase::Body, Phase::Total] {
            assert!(found.contains(&(phase, 3)), "{phase:?}: {found:?}");
        }
        assert!(found.contains(&(Phase::Connect, dialed)), "{found:?}");
        let of_tls: u64 =
            found.iter().filter(|(phase, _)| *phase == Phase::Handshake).map(|(_, count)| count).sum();
        assert_eq!(of_tls, handshakes, "{found:?}");
        let total = &client.latencies()[&origin][&Phase::Total];
        assert!(total.quantile(1.0) >= total.quantile(0.5) && !total.sum().is_zero());
    });
}

#[test]
fn over_http2_as_well() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder.latencies());
    block_on(async { client.get(peer.url("/")).send().await?.text().await }).expect("an answer");
    let found = counts(&client, &peer.url(""));
    for phase in [Phase::Acquire, Phase::Connect, Phase::Write, Phase::Read, Phase::Body, Phase::Total] {
        assert!(found.contains(&(phase, 1)), "{phase:?}: {found:?}");
    }
}

#[test]
fn a_client_that_was_not_told_to_measures_nothing() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| builder);
    block_on(client.get(peer.url("/")).send()).expect("an answer");
    assert!(client.latencies().is_empty());
}

#[test]
fn an_attempt_that_fails_has_the_phases_that_it_was_in() {
    let peer = Peer::start(wire("tcp"), |mut talk| drop(talk.request()));
    let (_loops, client) = client(1, |builder| builder.latencies());
    block_on(client.get(peer.url("/")).send()).expect_err("no answer");
    let phases: Vec<_> = counts(&client, &peer.url("")).into_iter().map(|(phase, _)| phase).collect();
    assert_eq!(phases, [Phase::Acquire, Phase::Connect, Phase::Write]);
}

#[test]
fn bytes_are_counted_both_ways() {
    let got = Arc::<AtomicU64>::default();
    let count = Arc::clone(&got);
    let peer = Peer::start(wire("tcp"), move |talk| {
        while let Some(bytes) = talk.read(4096) {
            count.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            if bytes.ends_with(b"the end") {
                talk.say(OK);
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    for _ in 0..2 {
        let call = client.post(peer.url("/")).body(["x".repeat(100_000), "the end".to_owned()].concat());
        block_on(async { call.send().await?.text().await }).expect("an answer");
    }
    let (total, origins) = (client.counters().total(), block_on(client.origins()));
    let (received, sent) = (2 * OK.len() as u64, got.load(Ordering::SeqCst));
    assert!(sent > 200_000);
    assert_eq!((total.received_bytes, total.sent_bytes), (received, sent));
    let origin = &origins[&peer.url("")];
    assert_eq!((origin.received_bytes, origin.sent_bytes), (received, sent));
}

#[test]
fn bytes_of_http2_are_counted_with_their_frames() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        while let Some(stream) = frames.request() {
            frames.answer(stream);
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    block_on(async { client.get(peer.url("/")).send().await?.text().await }).expect("an answer");
    let total = client.counters().total();
    // Preface, settings and a head; settings, a head of a byte, two bytes of a body.
    assert!(total.sent_bytes > 24 + 9 + 9, "{total:?}");
    assert!(total.received_bytes >= 9 + 9 + 1 + 9 + 2, "{total:?}");
}

/// The value of a sample, without its prefix.
fn value(text: &str, sample: &str) -> Option<f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("anywire_client_")?.split_once(sample));
    let mut values =
        lines.filter_map(|(before, value)| value.trim().parse().ok().filter(|_| before.is_empty()));
    values.next()
}

#[test]
fn prometheus_is_told_all_of_it() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            match request.head.path() {
                "/close" => return,
                _ => talk.say(OK),
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder.latencies());
    for _ in 0..2 {
        block_on(async { client.get(peer.url("/")).send().await?.text().await }).expect("an answer");
    }
    block_on(client.post(peer.url("/close")).send()).expect_err("no answer");
    let origin = peer.url("");
    let kind = block_on(client.origins())[&origin].errors.keys().next().copied().expect("an error");
    let samples = [
        ("requests_total{loop=\"0\"}".to_owned(), 3.0),
        ("reused_total{loop=\"0\"}".to_owned(), 2.0),
        ("active{loop=\"0\"}".to_owned(), 0.0),
        ("loop_balance_ratio".to_owned(), 1.0),
        (format!("origin_attempts_total{{origin=\"{origin}\"}}"), 3.0),
        (format!("origin_received_bytes_total{{origin=\"{origin}\"}}"), 2.0 * OK.len() as f64),
        (format!("origin_connections{{origin=\"{origin}\",state=\"busy\"}}"), 0.0),
        (format!("origin_errors_total{{origin=\"{origin}\",kind=\"{kind}\"}}"), 1.0),
        (format!("phase_duration_seconds_count{{origin=\"{origin}\",phase=\"total\"}}"), 2.0),
        (format!("phase_duration_seconds_bucket{{origin=\"{origin}\",phase=\"total\",le=\"+Inf\"}}"), 2.0),
    ];
    eventually("the connection is gone", || client.counters().total().active == 0);
    let text = block_on(client.prometheus());
    for (sample, expected) in samples {
        assert_eq!(value(&text, &sample), Some(expected), "{sample} in:\n{text}");
    }
    // What the format asks for: each family once, with what it is, before its samples.
    let families: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut unique = families.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), families.len());
    assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("anywire_client_")), "{text}");
}
