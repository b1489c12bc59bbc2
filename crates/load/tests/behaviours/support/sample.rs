//! Results made by hand, so that a page can be tested without a measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use anywire_load::compare::{ComparePlan, Comparison, Placement, Row, SCHEMA as COMPARE_SCHEMA};
use anywire_load::rounds::{Figures, Round, Spread};
use anywire_load::search::{End, SearchFigures, Stage, Trial, TrialLatency};
use anywire_load::{
    Connections, ErrorCounts, ErrorKind, ErrorSample, Gaps, Generator, Host, IntervalFigures,
    IntervalLatency, Latencies, Latency, LoopShare, Outcome, PlanFacts, Rate, Requests, SCHEMA, TargetFacts,
    Tool, Totals, Verdict, WireFigures,
};

/// A comparison of six candidates over five rounds, with a note, an error, and names that try to be markup.
pub(crate) fn comparison() -> Comparison {
    let mut rows = vec![
        row("limit", "tcp", 5.42, 1.0, 181_000.0),
        row("tcp", "tcp", 5.81, 1.07, 172_000.0),
        row("unix", "unix", 3.12, 0.58, 251_000.0),
        row("memory", "memory", 1.02, 0.19, 612_000.0),
        row("a candidate whose name is rather long, and says <b>so</b>", "tcp", 9.9, 1.83, 88_123.0),
        row("broken", "tcp", 0.0, 0.0, 0.0),
    ];
    let broken = &mut rows[5];
    broken.medians = Figures::default();
    broken.spread = Figures::default();
    broken.rounds.clear();
    broken.errors = BTreeMap::from([(ErrorKind::Connect, 64)]).into();
    broken.error_messages = vec!["starting failed: </script><script>alert(1)</script>".into()];
    for row in &mut rows {
        row.notes.push("syscalls_per_request is unknown: not allowed here".to_owned());
    }
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        tool: Tool::this(),
        host: host(),
        placement: Placement { server_core: Some(1), client_core: Some(0) },
        plan: ComparePlan {
            mode: "closed".to_owned(),
            rate: None,
            gaps: Gaps::Even,
            connections: 64,
            active: 64,
            depth: 1,
            body_bytes: 13,
            rounds: 5,
            duration_seconds: 3.0,
            warm_up_seconds: 0.5,
            seed: 20_251_122,
        },
        candidates: rows,
        notes: vec!["closed: stalls hide requests".to_owned()],
        interrupted: false,
    }
}

/// An outcome whose latencies spread over four decades.
pub(crate) fn outcome() -> Outcome {
    let mut latency = Latency::new();
    for index in 1..=200_000_u64 {
        let tail = if index.is_multiple_of(1000) { index * 37 } else { index % 97 };
        latency.record(Duration::from_nanos(180_000 + tail * 1_000));
    }
    Outcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: host(),
        target: TargetFacts {
            url: "http://localhost:8080/a?b=</script><script>alert(1)</script>".to_owned(),
            wire: "unix".to_owned(),
            address: "unix:/run/app.sock".to_owned(),
            protocol: "http/1.1".to_owned(),
        },
        plan: PlanFacts {
            mode: "closed".to_owned(),
            schedule: None,
            deadline_seconds: None,
            reuse: None,
            requests_per_connection: None,
            method: "GET".to_owned(),
            request_bytes: 45,
            connections: 64,
            depth: 4,
            duration_seconds: Some(10.0),
            requests: None,
            warm_up_seconds: 1.0,
            timeout_seconds: 10.0,
        },
        totals: Totals {
            measured: Requests {
                sent: 200_010,
                answered: 200_000,
                unanswered_at_close: 10,
                errors: BTreeMap::from([(ErrorKind::Close, 3)]).into(),
                error_samples: vec![ErrorSample {
                    kind: ErrorKind::Close,
                    message: "the peer closed with 4 requests unanswered".to_owned(),
                    help: Some("see its log".to_owned()),
                }],
                ..Requests::default()
            },
            bytes_out: 9_000_000,
            bytes_in: 30_000_000,
            body_bytes_in: 2_600_000,
            connections: Connections {
                opened: 67,
                lost: 3,
                open_at_start: 64,
                open_at_end: 64,
                ..Connections::default()
            },
            addresses: [("127.0.0.1:8080".to_owned(), 67)].into(),
            statuses: [(200, 199_990), (404, 10)].into(),
            ..Totals::default()
        },
        rate: Rate {
            target: None,
            intended: None,
            rate_ratio: None,
            achieved: Some(20_000.0),
            schedule_seconds: None,
            seconds: 10.0,
            interrupted: false,
            given_up: false,
        },
        latency: Latencies {
            send: latency.summary(),
            by_status: latency.summary().map(|summary| ("2xx".to_owned(), summary)).into_iter().collect(),
            ..Latencies::default()
        },
        generator: Generator {
            cpu_user_us: Some(2e5),
            cpu_sys_us: Some(9e5),
            cpu_us_per_request: Some(5.5),
            voluntary_switches: Some(12_345),
            involuntary_switches: Some(678),
            syscalls_per_request: Some(2.5),
            syscalls_by_name: Some([("read".to_owned(), 1.0), ("write".to_owned(), 1.5)].into()),
            limited_by: Some("generator".to_owned()),
            ..Generator::default()
        },
        wire: WireFigures {
            segments_per_response: Some(1.5),
            expected_segments_per_response: Some(1.0),
            retransmits: Some(2),
            round_trip_us: Some(38.5),
        },
        loops: vec![
            LoopShare { id: 0, core: Some(0), requests: 101_000, connections: 32, busy: Some(0.97) },
            LoopShare { id: 1, core: Some(1), requests: 99_000, connections: 32, busy: Some(0.93) },
        ],
        requests: Vec::new(),
        events: None,
        cookies: None,
        steps: vec![],
        balance: Some(1.01),
        agents: vec![],
        thresholds: vec![],
        search: None,
        rounds: Vec::new(),
        command: Some(
            "anywire load 'http://localhost:8080/a?b=</script>' -H 'Authorization: REDACTED'".to_owned(),
        ),
        intervals: intervals(),
    }
}

/// A search that doubled once, and found a rate that holds for long.
pub(crate) fn search() -> SearchFigures {
    let trial = |stage, target: f64, p99: f64| Trial {
        stage,
        target,
        achieved: Some(target),
        seconds: 10.0,
        latency: Some(TrialLatency { p50: 180.0, p90: 300.0, p99, p99_9: p99 * 2.0, max: p99 * 3.0 }),
        sent: target as u64 * 10,
        errors: 0,
        verdict: if p99 < 5000.0 { Verdict::Held } else { Verdict::Broken },
        reason: (p99 >= 5000.0).then(|| "p99<5ms: broken, asked < 5.00 ms, found more".to_owned()),
    };
    SearchFigures {
        required: vec!["p99<5ms".to_owned(), "errors<0.1%".to_owned()],
        precision: 0.05,
        highest_rate: Some(20_000.0),
        confirmed: true,
        lowest_failed: Some(21_000.0),
        end: End::Found,
        trials: vec![
            trial(Stage::Search, 20_000.0, 900.0),
            trial(Stage::Search, 21_000.0, 9000.0),
            trial(Stage::Confirm, 20_000.0, 950.0),
        ],
    }
}

/// Ten seconds, of which one has errors and another a long tail.
fn intervals() -> Vec<IntervalFigures> {
    let second = |second: u32| {
        let mut latency = Latency::new();
        for index in 0..2_000_u64 {
            let tail = if second == 6 && index % 20 == 0 { 40_000_000 } else { index * index / 8 };
            latency.record(Duration::from_nanos(180_000 + tail));
        }
        let summary = latency.summary().expect("it has samples");
        IntervalFigures {
            t: f64::from(second) + 1.0,
            seconds: 1.0,
            target: Some(20_000.0),
            achieved: Some(if second == 6 { 12_345.0 } else { 20_000.0 }),
            sent: 20_000,
            answered: 20_000,
            errors: if second == 3 { 3 } else { 0 },
            bytes_out: 900_000,
            bytes_in: 3_000_000,
            connections_open: 64,
            latency: Some(IntervalLatency {
                mean: summary.mean,
                p50: summary.p50,
                p90: summary.p90,
                p99: summary.p99,
                p99_9: summary.p99_9,
                max: summary.max,
                count: summary.count,
                bands: latency.bands(),
                hdr: None,
            }),
        }
    };
    (0..10).map(second).collect()
}

/// A load of datagrams whose sender was behind: from the intended time the round trips are five times as long as from the send.
#[cfg(feature = "udp")]
pub(crate) fn udp() -> anywire_load::udp::UdpOutcome {
    let trips = |factor: u64| {
        let mut latency = Latency::new();
        for index in 1..=10_000_u64 {
            latency.record(Duration::from_micros(factor * (200 + index % 97)));
        }
        latency.summary()
    };
    let outcome = serde_json::json!({
        "schema": "anywire.udp/1", "tool": Tool::this(), "host": host(), "target": "udp:127.0.0.1:9000",
        "plan": {
            "datagrams_per_second": 1e4, "duration_seconds": 1.0, "bytes": 200, "flows": 64, "sockets": 64,
            "wait_seconds": 1.0, "offload": false,
        },
        "intended": 10_000, "sent": 10_000, "refused": 0, "refused_because": null, "received": 9_990, "lost": 10,
        "loss": 0.001,
        "loss_by_layer": {
            "socket": 7, "socket_here": 3, "socket_there": 4, "namespace": 0, "device": 2, "send_queue": null,
            "unexplained": 1, "unread": ["send_queue: it is not there"],
        },
        "late": 0, "duplicated": 0, "reordered": 0, "reorder_extent_max": 0, "corrupt": 0, "foreign": 0,
        "unreachable": 0,
        "rate": {
            "sent": 1e4, "received": 9_990.0, "kept": 0.9, "lag_us_max": 900.0, "seconds": 1.0, "interrupted": false,
        },
        "latency": { "intended": trips(5), "sent": trips(1) },
        "calls": {
            "send": 100, "receive": 100, "datagrams_per_send": 100.0, "datagrams_per_receive": 99.9,
            "datagrams_per_message": 1.0,
        },
        "receive_buffer": { "asked_bytes": 1 << 20, "given_bytes": 1 << 19 },
        "loops": [{ "id": 0, "core": 0, "sent": 10_000, "received": 9_990, "cpu_seconds": 0.1 }],
        "balance": { "received_max_to_mean": 1.0, "cpu_max_to_mean": 1.0 },
    });
    serde_json::from_value(outcome).unwrap()
}

fn host() -> Host {
    Host {
        cpu: Some("A Processor 9000 64-Core".to_owned()),
        cores: 2,
        kernel: Some("6.18.0".to_owned()),
        governor: None,
        loops: 1,
        pinning: vec![Some(0)],
    }
}

fn row(name: &str, wire: &str, cost: f64, ratio: f64, rate: f64) -> Row {
    let factors = [0.97, 1.0, 1.04, 0.99, 1.01];
    let spread = |value: f64| Some(Spread { min: value * 0.97, max: value * 1.04 });
    let rounds = factors
        .iter()
        .enumerate()
        .map(|(index, factor)| Round {
            round: index + 1,
            figures: Figures {
                requests_per_second: Some(rate / factor),
                server_cpu_us_per_request: Some(cost * factor),
                client_cpu_us_per_request: Some(5.0 * factor),
                syscalls_per_request: None,
                p50_us: Some(300.0 * factor),
                p99_us: Some(700.0 * factor),
                max_us: Some(4_000.0 * factor),
                ratio_to_limit: Some(ratio),
                ..Figures::default()
            },
            syscalls_by_name: None,
            answered: 500_000,
            errors: 0,
            connections_open: 64,
        })
        .collect();
    Row {
        name: name.to_owned(),
        wire: wire.to_owned(),
        protocol: "http/1.1".to_owned(),
        medians: Figures {
            requests_per_second: Some(rate),
            server_cpu_us_per_request: Some(cost),
            client_cpu_us_per_request: Some(5.0),
            syscalls_per_request: None,
            p50_us: Some(300.0),
            p99_us: Some(700.0),
            max_us: Some(4_000.0),
            ratio_to_limit: Some(ratio),
            ..Figures::default()
        },
        spread: Figures {
            requests_per_second: spread(rate),
            server_cpu_us_per_request: spread(cost),
            client_cpu_us_per_request: spread(5.0),
            syscalls_per_request: None,
            p50_us: spread(300.0),
            p99_us: spread(700.0),
            max_us: spread(4_000.0),
            ratio_to_limit: spread(ratio),
            ..Figures::default()
        },
        syscalls_by_name: None,
        rate: None,
        rounds,
        never_open: 0,
        errors: ErrorCounts::default(),
        error_messages: vec![],
        notes: vec![],
    }
}
