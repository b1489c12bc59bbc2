//! Each rule by figures: what fires it, and what does not.

use super::*;
use crate::probe::loops::LoopFacts;
use crate::probe::measures::*;
use crate::probe::plan::Plan;
use crate::probe::server::*;
use crate::probe::spread::Spread;
use crate::probe::target::Target;

/// A service without a fault, as a probe sees it.
fn sound() -> Outcome {
    let target = Target::new(Plan::new("http://127.0.0.1:1/")).expect("a good plan");
    let spread = |p50| Spread { count: 200, min: p50, p50, p90: p50, p99: p50, max: p50 };
    Outcome {
        connection: Some(ConnectionFacts {
            connect: 100.0,
            tls: None,
            alpn: None,
            keep_alive: true,
            requests_until_close: None,
            closings: Closings::default(),
            unasked: Some(false),
        }),
        segments: Some(Segments {
            data_in: 200,
            per_response: 1.0,
            p50: 1.0,
            expected: 1.0,
            expected_p50: 1.0,
            mss: 1448,
            short_answers: 200,
            above_expected: Some(0.0),
            excess_p50: Some(0.0),
        }),
        reads: Some(Reads { per_response: 1.0, short_p50: Some(1.0), head_alone: Some(0.0), partial: 0.0 }),
        gap: Some(Gap {
            head_to_body: None,
            between_reads: None,
            over_30ms: Some(0.0),
            over_30ms_acknowledged_at_once: None,
            p50_acknowledged_at_once: None,
        }),
        latency: Some(LatencyFacts { spread: spread(50.0), cluster_40ms: 0.0, cluster_200ms: 0.0 }),
        tcp: Some(TcpFacts {
            retransmits: 0,
            out_of_order_in: Some(0),
            data_segments: 400,
            rtt: 30.0,
            rttvar: 5.0,
            cwnd: 10,
            delivery_rate: None,
            busy: None,
            rwnd_limited: None,
            sndbuf_limited: None,
            peer_window_bytes: Some(65_536),
        }),
        clock: Some(Clock { skew_seconds: -0.7 }),
        server_timing: Some(ServerTiming {
            answers: 200,
            said_p50: 20.0,
            seen_p50: 60.0,
            unexplained_p50: 10.0,
        }),
        pipelining: Some(Pipelining {
            requests: 16,
            answered: 16,
            supported: true,
            in_order: Some(true),
            closed: None,
            segments: Some(16),
            segments_expected: Some(1),
            reads: 3,
            time: 200.0,
        }),
        many: Some(Many {
            connections: 32,
            opened: 32,
            slow_connects: 0,
            connect: Some(spread(100.0)),
            answered: 3200,
            failed: 0,
            first_failure: None,
            latency: Some(spread(500.0)),
            time: 60_000.0,
        }),
        head: Some(Head { status: 200, same_length: Some(true), has_body: false }),
        expect: Some(Expectation {
            continue_after: Some(80.0),
            status: Some(200),
            answered_without_body: false,
            ignored: false,
        }),
        slow_reader: Some(SlowReader {
            pause: 500_000.0,
            complete: true,
            failure: None,
            cut: false,
            others: Some(spread(60.0)),
        }),
        slow_path: Some(SlowPath {
            path: "/slow".to_owned(),
            slow: 300_000.0,
            connections: 16,
            alone: Some(spread(60.0)),
            beside: Some(spread(80.0)),
            held_up: 0,
        }),
        tls: Some(TlsFacts {
            version: None,
            cipher_suite: None,
            alpn: None,
            subject: None,
            issuer: None,
            days_left: Some(60.0),
            days_in_all: Some(90.0),
            versions: None,
            offered: 3,
            resumed: 3,
            handshake: Some(900.0),
            handshake_resumed: Some(300.0),
        }),
        server: Some(Server {
            requests: 3200,
            syscalls_per_request: Some(
                [("epoll_wait", 1.0), ("recvfrom", 1.0), ("sendto", 1.0)]
                    .map(|(name, count)| (name.to_owned(), count))
                    .into(),
            ),
            balance: Some(Balance {
                threads_named: "worker".to_owned(),
                threads: 4,
                max_over_mean: 1.2,
                max_share: 0.3,
                cpu: 60_000.0,
            }),
            softirq: Some(Softirq {
                softirq: 200_000.0,
                of_server: 200_000.0,
                process: 600_000.0,
                share: Some(0.25),
                is_local: false,
                others: 0.0,
                cores: Vec::new(),
            }),
            ..Server::default()
        }),
        listen_drops: Some(0),
        ..Outcome::of(&target)
    }
}

/// The classes that the rules find after a change to a sound service.
fn found(change: impl FnOnce(&mut Outcome)) -> Vec<Class> {
    let mut outcome = sound();
    change(&mut outcome);
    judge(&outcome).iter().map(|verdict| verdict.class).collect()
}

fn split(outcome: &mut Outcome, excess: f64) {
    let segments = outcome.segments.as_mut().expect("there are some");
    (segments.above_expected, segments.excess_p50) = (Some(1.0), Some(excess));
}

fn late(outcome: &mut Outcome, at_once: f64) {
    split(outcome, 1.0);
    let spread = outcome.latency.expect("there is one").spread;
    outcome.gap = Some(Gap {
        head_to_body: Some(Spread { p50: 43_000.0, ..spread }),
        between_reads: Some(Spread { p50: 43_000.0, ..spread }),
        over_30ms: Some(0.9),
        over_30ms_acknowledged_at_once: Some(at_once),
        p50_acknowledged_at_once: Some(100.0),
    });
}

#[test]
fn a_sound_service_has_no_verdict() {
    assert_eq!(found(|_| {}), []);
    let clean = clean(&sound());
    assert_eq!((clean.class, clean.severity), (Class::Clean, Severity::None));
    assert!(clean.evidence.contains("1.00 data segments where 1.00 would do"), "{}", clean.evidence);
}

#[test]
fn what_is_unknown_is_no_verdict() {
    let target = Target::new(Plan::new("http://127.0.0.1:1/")).expect("a good plan");
    assert_eq!(judge(&Outcome::of(&target)), []);
}

#[test]
fn answers_in_parts() {
    assert_eq!(found(|outcome| split(outcome, 1.0)), [Class::SplitWrite]);
    assert_eq!(found(|outcome| split(outcome, 4.0)), [Class::FlushPerAnswer]);
    assert_eq!(found(|outcome| late(outcome, 0.0)), [Class::DelayedAck]);
    // The head itself comes in two parts, and its second one is late.
    let mut outcome = sound();
    late(&mut outcome, 0.0);
    let gap = outcome.gap.as_mut().expect("there is one");
    gap.head_to_body = None;
    let verdicts = judge(&outcome);
    assert_eq!(verdicts.iter().map(|verdict| verdict.class).collect::<Vec<_>>(), [Class::DelayedAck]);
    assert!(verdicts[0].evidence.contains("pause for 30 ms or more in their middle (p50 43"), "{verdicts:?}");
    // Acknowledging at once does not help: the body itself is late.
    assert_eq!(found(|outcome| late(outcome, 0.9)), [Class::SplitWrite]);
    // No segments are counted: a Unix socket.
    let by_reads = |reads| found(|outcome| (outcome.segments, outcome.reads) = (None, Some(reads)));
    let alone = Reads { per_response: 2.0, short_p50: Some(2.0), head_alone: Some(0.8), partial: 1.0 };
    assert_eq!(by_reads(alone), [Class::SplitWrite]);
    assert_eq!(by_reads(Reads { short_p50: Some(5.0), ..alone }), [Class::FlushPerAnswer]);
    assert_eq!(by_reads(Reads { short_p50: Some(1.0), head_alone: Some(0.3), ..alone }), []);
}

#[test]
fn connections_that_end() {
    let closed = |keep_alive, until, closings| {
        found(|outcome| {
            let connection = outcome.connection.as_mut().expect("there is one");
            (connection.keep_alive, connection.requests_until_close, connection.closings) =
                (keep_alive, Some(until), closings);
        })
    };
    let none = Closings::default();
    assert_eq!(closed(false, 1, Closings { announced: 16, ..none }), [Class::NoKeepAlive]);
    assert_eq!(closed(true, 10, Closings { announced: 16, ..none }), [Class::ShortKeepAlive]);
    assert_eq!(closed(true, 1000, Closings { announced: 1, ..none }), []);
    assert_eq!(closed(true, 10, Closings { unannounced: 2, ..none }), [Class::EarlyClose]);
    assert_eq!(closed(true, 10, Closings { cut: 2, ..none }), [Class::EarlyClose]);
    assert_eq!(closed(true, 10, Closings { cut: 1, ..none }), [], "one may be a restart");
}

#[test]
fn pipelines_that_break() {
    let pipelined = |change: fn(&mut Pipelining)| {
        found(|outcome| change(outcome.pipelining.as_mut().expect("there is one")))
    };
    assert_eq!(pipelined(|seen| seen.in_order = Some(false)), [Class::OutOfOrder]);
    assert_eq!(pipelined(|seen| seen.in_order = None), []);
    assert_eq!(
        pipelined(|seen| (seen.answered, seen.supported, seen.closed) = (3, false, Some(false))),
        [Class::EarlyClose]
    );
    assert_eq!(
        pipelined(|seen| (seen.answered, seen.supported, seen.closed) = (1, false, Some(true))),
        [],
        "it was said"
    );
}

#[test]
fn more_than_was_asked_for() {
    let more =
        |unasked| found(|outcome| outcome.connection.as_mut().expect("there is one").unasked = unasked);
    assert_eq!(more(Some(true)), [Class::UnaskedAnswers]);
    assert_eq!(more(None), [], "the connection had ended");
}

#[test]
fn heads_that_are_not_those_of_get() {
    let head = |same_length, has_body| {
        found(|outcome| outcome.head = Some(Head { status: 200, same_length, has_body }))
    };
    assert_eq!(head(Some(true), true), [Class::HeadWithBody]);
    let more_behind_all = found(|outcome| {
        outcome.connection.as_mut().expect("there is one").unasked = Some(true);
        outcome.head.as_mut().expect("there is one").has_body = true;
    });
    assert_eq!(more_behind_all, [Class::UnaskedAnswers]);
    assert_eq!(head(Some(false), false), [Class::HeadDiffers]);
    assert_eq!(head(None, false), [], "one of them states no length, or it changes");
}

#[test]
fn bodies_that_wait_in_vain() {
    let expect = |continue_after, answered_without_body, ignored, p99| {
        found(|outcome| {
            let status = Some(200);
            outcome.expect = Some(Expectation { continue_after, status, answered_without_body, ignored });
            outcome.latency.as_mut().expect("there is one").spread.p99 = p99;
        })
    };
    assert_eq!(expect(None, false, true, 50.0), [Class::IgnoresExpect]);
    assert_eq!(expect(None, false, true, 2e6), [], "it may have been about to answer without the body");
    assert_eq!(expect(None, true, false, 50.0), []);
    assert_eq!(expect(None, false, false, 50.0), [], "100 Continue came late");
}

#[test]
fn readers_that_pause() {
    let cut = |cut| {
        found(|outcome| {
            let seen = outcome.slow_reader.as_mut().expect("there is one");
            (seen.complete, seen.failure, seen.cut) = (false, Some("it was cut".to_owned()), cut);
        })
    };
    assert_eq!(cut(true), [Class::CutsSlowReaders]);
    assert_eq!(cut(false), [], "it did not come in time");
}

#[test]
fn requests_that_nobody_reads() {
    let stalled = |busy, limited, window| {
        found(|outcome| {
            let tcp = outcome.tcp.as_mut().expect("there is one");
            (tcp.busy, tcp.rwnd_limited, tcp.peer_window_bytes) = (Some(busy), Some(limited), Some(window));
        })
    };
    assert_eq!(stalled(400_000.0, 300_000.0, 30_000), [Class::WindowStalls]);
    assert_eq!(stalled(400_000.0, 90_000.0, 30_000), [], "less than a quarter");
    assert_eq!(stalled(20_000.0, 10_000.0, 30_000), [], "too little to tell");
    assert_eq!(stalled(400_000.0, 300_000.0, 2304), [Class::SmallWindow]);
}

#[test]
fn slow_requests_hold_up_their_loop() {
    let looks = |p50, looks, waited, slept, ran| {
        found(|outcome| {
            outcome.latency.as_mut().expect("there is one").spread.p50 = p50;
            let of = |descriptor, waited, slept, ran| LoopFacts {
                pid: 10,
                descriptor,
                tid: 11,
                looks,
                waited,
                slept,
                ran,
            };
            outcome.loops = Some(vec![of(4, waited, slept, ran), of(5, looks, 0, 0)]);
        })
    };
    assert_eq!(looks(20_000.0, 400, 10, 390, 0), [Class::BlocksItsLoop]);
    assert_eq!(looks(20_000.0, 400, 10, 0, 390), [Class::BlocksItsLoop]);
    assert_eq!(looks(20_000.0, 400, 380, 10, 10), [], "it waits while the handler does");
    assert_eq!(looks(200.0, 400, 10, 0, 390), [], "quick requests in a row keep a loop busy");
    assert_eq!(looks(20_000.0, 10, 0, 10, 0), [], "too few looks");
}

#[test]
fn slow_requests_hold_up_others() {
    let beside = |slow, alone, held_up, max| {
        found(|outcome| {
            let seen = outcome.slow_path.as_mut().expect("there is one");
            let spread = |p50, max| Some(Spread { count: 16, min: p50, p50, p90: p50, p99: max, max });
            (seen.slow, seen.held_up) = (slow, held_up);
            (seen.alone, seen.beside) = (spread(alone, alone), spread(alone, max));
        })
    };
    assert_eq!(beside(300_000.0, 60.0, 8, 280_000.0), [Class::BlocksItsLoop]);
    assert_eq!(beside(300_000.0, 60.0, 0, 20_000.0), []);
    assert_eq!(beside(50_000.0, 60.0, 8, 45_000.0), [], "too quick to tell");
    assert_eq!(beside(300_000.0, 250_000.0, 16, 260_000.0), [], "all paths are slow");
}

#[test]
fn figures_of_the_way() {
    let tcp =
        |change: fn(&mut TcpFacts)| found(|outcome| change(outcome.tcp.as_mut().expect("there is one")));
    assert_eq!(tcp(|tcp| tcp.retransmits = 8), [Class::Retransmits]);
    assert_eq!(tcp(|tcp| tcp.out_of_order_in = Some(8)), [Class::Retransmits]);
    assert_eq!(tcp(|tcp| tcp.retransmits = 2), []);
    assert_eq!(tcp(|tcp| tcp.peer_window_bytes = Some(2304)), [Class::SmallWindow]);
    assert_eq!(tcp(|tcp| tcp.peer_window_bytes = None), []);
    let streams = |stream_window_bytes| {
        found(|outcome| {
            outcome.http2 = Some(Http2 {
                settings: 100.0,
                max_streams: Some(100),
                stream_window_bytes,
                connection_window_bytes: 65_535,
                frame_bytes: 16_384,
                head_bytes: None,
                ping: Some(50.0),
                status: 200,
                latency: None,
            });
        })
    };
    assert_eq!(
        (streams(0), streams(8191), streams(65_535)),
        (vec![Class::SmallWindow], vec![Class::SmallWindow], vec![])
    );
    let timing = |said_p50, seen_p50, unexplained_p50| {
        found(|outcome| {
            outcome.server_timing = Some(ServerTiming { answers: 200, said_p50, seen_p50, unexplained_p50 })
        })
    };
    assert_eq!(timing(2_000.0, 42_000.0, 39_970.0), [Class::ServerTimeDiffers]);
    assert_eq!(timing(2_000.0, 42_000.0, 500.0), [], "it is the round trip");
    assert_eq!(timing(400_000.0, 420_000.0, 20_000.0), []);
}

#[test]
fn queues_that_are_full() {
    let opened = |opened, slow, drops| {
        found(|outcome| {
            let many = outcome.many.as_mut().expect("there are many");
            (many.opened, many.slow_connects, outcome.listen_drops) = (opened, slow, drops);
        })
    };
    assert_eq!(opened(32, 5, Some(9)), [Class::ListenOverflow]);
    assert_eq!(opened(25, 0, None), [Class::ListenOverflow]);
    assert_eq!(opened(32, 5, Some(0)), [], "the system knows of no overflow");
    assert_eq!(opened(32, 1, None), []);
    let on_a_lossy_way = |drops| {
        found(|outcome| {
            outcome.tcp.as_mut().expect("there is one").retransmits = 20;
            outcome.many.as_mut().expect("there are many").slow_connects = 5;
            outcome.listen_drops = drops;
        })
    };
    assert_eq!(on_a_lossy_way(None), [Class::Retransmits]);
    assert_eq!(on_a_lossy_way(Some(3)), [Class::ListenOverflow, Class::Retransmits]);
}

#[test]
fn figures_of_the_machine() {
    let server =
        |change: fn(&mut Server)| found(|outcome| change(outcome.server.as_mut().expect("there is one")));
    let balance = |threads, max_over_mean, cpu| {
        found(|outcome| {
            let max_share = max_over_mean / threads as f64;
            let balance = Balance { threads_named: String::new(), threads, max_over_mean, max_share, cpu };
            outcome.server.as_mut().expect("there is one").balance = Some(balance);
        })
    };
    assert_eq!(balance(4, 3.9, 60_000.0), [Class::UnbalancedThreads]);
    assert_eq!(balance(2, 1.95, 60_000.0), [Class::UnbalancedThreads]);
    assert_eq!(balance(2, 1.6, 60_000.0), []);
    assert_eq!(balance(4, 3.9, 500.0), [], "too little to tell");
    assert_eq!(balance(16, 16.0, 60_000.0), [], "fewer connections than show it");
    assert_eq!(
        server(|server| server.syscalls_per_request = Some([("read".to_owned(), 60.0)].into())),
        [Class::ManySyscalls]
    );
    assert_eq!(server(|server| server.syscalls_per_request = None), []);
    let softirq_beside = |others: f64, of_server: f64, process: f64, is_local| {
        found(|outcome| {
            let softirq = Softirq {
                softirq: if is_local { 2.0 * of_server } else { of_server },
                of_server,
                process,
                share: Some(of_server / (of_server + process)),
                is_local,
                others,
                cores: vec![CoreShare { core: 1, busy: 1.0, softirq: 1.0 }],
            };
            outcome.server.as_mut().expect("there is one").softirq = Some(softirq);
        })
    };
    let softirq = |of_server, process, is_local| softirq_beside(0.0, of_server, process, is_local);
    assert_eq!(softirq(400_000.0, 600_000.0, false), [Class::Softirq]);
    assert_eq!(softirq(330_000.0, 670_000.0, false), []);
    assert_eq!(softirq(300_000.0, 600_000.0, false), [], "a third, and no more");
    assert_eq!(softirq(301_000.0, 600_000.0, false), [Class::Softirq]);
    assert_eq!(softirq(90_000.0, 10_000.0, false), [], "too little to tell");
    // On one host only the server's half of it counts.
    assert_eq!(softirq(400_000.0, 600_000.0, true), [Class::Softirq]);
    assert_eq!(softirq(250_000.0, 600_000.0, true), []);
    // The packets may be those of the processes beside.
    assert_eq!(softirq_beside(200_000.0, 400_000.0, 600_000.0, false), [Class::Softirq]);
    assert_eq!(softirq_beside(201_000.0, 400_000.0, 600_000.0, false), []);
    assert_eq!(softirq_beside(400_000.0, 400_000.0, 600_000.0, true), [Class::Softirq]);
    assert_eq!(softirq_beside(401_000.0, 400_000.0, 600_000.0, true), []);
}

#[test]
fn a_verdict_on_softirqs_names_the_core() {
    let mut outcome = sound();
    let core = |core, softirq| CoreShare { core, busy: 500_000.0, softirq };
    outcome.server.as_mut().expect("there is one").softirq = Some(Softirq {
        softirq: 500_000.0,
        of_server: 500_000.0,
        process: 500_000.0,
        share: Some(0.5),
        is_local: false,
        others: 0.0,
        cores: vec![core(0, 20_000.0), core(3, 480_000.0)],
    });
    let verdicts = judge(&outcome);
    let evidence = &verdicts[0].evidence;
    assert!(evidence.contains("500 ms") && evidence.contains("50 % of both"), "{evidence}");
    assert!(evidence.ends_with("most of it on core 3 (480 ms)"), "{evidence}");
}

#[test]
fn a_verdict_on_losses_counts_both_directions() {
    let lossy = |retransmits, out_of_order_in, data_segments| {
        let mut outcome = sound();
        let tcp = outcome.tcp.as_mut().expect("there is one");
        (tcp.retransmits, tcp.out_of_order_in, tcp.data_segments) =
            (retransmits, out_of_order_in, data_segments);
        judge(&outcome).into_iter().map(|verdict| (verdict.class, verdict.evidence)).next()
    };
    let (class, evidence) = lossy(5, Some(7), 400).expect("three in a hundred");
    assert_eq!(class, Class::Retransmits);
    let said = "5 segments were sent again and 7 came out of order, of 400 data segments (3 %)";
    assert_eq!(evidence, said);
    // One in a hundred is the least, and three segments are.
    assert!(lossy(2, Some(2), 400).is_some() && lossy(2, Some(1), 400).is_none());
    assert!(lossy(2, Some(0), 8).is_none() && lossy(3, None, 8).is_some());
    let (_, unknown) = lossy(4, None, 400).expect("one in a hundred");
    assert!(unknown.contains("an unknown number came out of order"), "{unknown}");
}

#[test]
fn clocks_and_certificates() {
    let skew = |seconds| found(|outcome| outcome.clock = Some(Clock { skew_seconds: seconds }));
    assert_eq!((skew(3600.0), skew(-6.0), skew(2.0)), (vec![Class::Clock], vec![Class::Clock], vec![]));
    let tls = |left, all, resumed| {
        found(|outcome| {
            let tls = outcome.tls.as_mut().expect("there is one");
            (tls.days_left, tls.days_in_all, tls.resumed) = (Some(left), Some(all), resumed);
        })
    };
    assert_eq!(tls(-1.0, 90.0, 3), [Class::CertificateEnds]);
    assert_eq!(tls(13.0, 90.0, 3), [Class::CertificateEnds]);
    assert_eq!(tls(5.0, 6.0, 3), [], "one of six days");
    assert_eq!(tls(60.0, 90.0, 0), [Class::NoResumption]);
    assert_eq!(tls(60.0, 90.0, 1), []);
    let versions = |spoken: &[&str]| {
        found(|outcome| {
            let tls = outcome.tls.as_mut().expect("there is one");
            tls.versions = Some(spoken.iter().map(|version| (*version).to_owned()).collect());
        })
    };
    assert_eq!(versions(&["TLSv1.1", "TLSv1.2"]), [Class::OldTls]);
    assert_eq!(versions(&["TLSv1.2", "TLSv1.3"]), []);
}

#[test]
fn the_worst_comes_first_and_says_all_three_things() {
    let mut outcome = sound();
    outcome.clock = Some(Clock { skew_seconds: 60.0 });
    late(&mut outcome, 0.0);
    let verdicts = judge(&outcome);
    assert_eq!(
        verdicts.iter().map(|verdict| verdict.class).collect::<Vec<_>>(),
        [Class::DelayedAck, Class::Clock]
    );
    for verdict in verdicts {
        assert!(
            !verdict.evidence.is_empty() && !verdict.why.is_empty() && !verdict.change.is_empty(),
            "{verdict:?}"
        );
    }
}
