//! `ab` and `compare` at a fixed rate: both sides get what is due, latencies count from then, a side that is too slow is told, and
//! a generator that is the limit gives no verdict.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use anywire_load::ab::{AbOutcome, Options, Side, ab};
use anywire_load::compare::{self, Candidate, Comparison, RunningServer, compare};
use anywire_load::rounds::{FixedRate, ServerThreads};
use anywire_load::{
    Gaps, Generator, LoadError, Outcome, PacingFacts, Plan, Protocol, Rate, Schedule, Shape, report,
};
use anywire_loops::Loops;

use crate::support::sample;
use crate::support::server::{Manner, TestServer};

fn options(rate: f64) -> Options {
    Options {
        plan: Plan {
            connections: 2,
            warm_up: Duration::ZERO,
            schedule: Some(Schedule::constant(rate)),
            ..Plan::new("http://test/")
        },
        rounds: 5,
        duration: Duration::from_millis(40),
        turn: Some(Duration::from_millis(20)),
        seed: Some(9),
        ..Options::default()
    }
}

fn run(sides: &[Side; 2], options: &Options) -> Result<AbOutcome, LoadError> {
    ab(&Loops::start(1).unwrap(), sides, options, |_| ())
}

#[test]
fn each_side_gets_what_is_due_in_its_turns() {
    let servers = ["a", "b"].map(|name| TestServer::start(&format!("memory:rate-{name}"), Manner::Answer));
    let sides = servers
        .each_ref()
        .map(|server| Side { via: Some(server.address.clone()), ..Side::new("side", "http://test/") });
    let outcome = run(&sides, &options(2000.0)).unwrap();
    let load = outcome.plan.load.as_ref().unwrap();
    assert_eq!((load.mode.as_str(), load.schedule), ("open", Some(Schedule::constant(2000.0))));
    for (side, server) in outcome.sides.iter().zip(&servers) {
        let rate = side.rate.as_ref().unwrap();
        // 40 in each turn of 20 ms, two turns in each of five rounds.
        assert_eq!((rate.target, rate.intended), (2000.0, 400));
        assert_eq!((side.answered, server.seen.requests()), (400, 400), "{outcome}");
        assert!(side.rounds.iter().all(|round| round.answered == 80), "{:?}", side.rounds);
        assert!(rate.rate_ratio.unwrap() <= 1.0 && rate.own_lag_max_us >= rate.own_lag_p99_us);
        assert!(rate.saturated.is_some());
    }
    let table = outcome.to_string();
    assert!(
        table.contains("open: 2,000 requests/s in even gaps, latencies from the intended time, 2 connect"),
        "{table}"
    );
    assert!(table.contains("% of 2,000 requests/s in even gaps left in time, own lag p99 "), "{table}");
    // How far the rounds lie apart, behind the medians.
    let (_, spreads) = table.split_once("the least and the most of the rounds\n").expect("there are rounds");
    assert!(spreads.contains("requests/s") && spreads.contains(" .. "), "{table}");
    let page = report::ab(&outcome);
    assert!(page.contains("At the fixed rate") && page.contains("Open: 2,000 requests/s"), "{page}");
    let again: AbOutcome = serde_json::from_str(&outcome.to_json()).unwrap();
    assert_eq!(again.sides[1].rate, outcome.sides[1].rate);
}

/// Each turn draws other gaps, and both sides have the same.
#[test]
fn random_gaps_are_the_same_for_both_sides() {
    let servers = ["c", "d"].map(|name| TestServer::start(&format!("memory:rate-{name}"), Manner::Answer));
    let sides = servers
        .each_ref()
        .map(|server| Side { via: Some(server.address.clone()), ..Side::new("side", "http://test/") });
    let mut options = options(2000.0);
    let schedule = Schedule { gaps: Gaps::Poisson, ..Schedule::constant(2000.0) };
    options.plan.schedule = Some(schedule);
    let outcome = run(&sides, &options).unwrap();
    let [a, b] = outcome.sides.each_ref().map(|side| side.rate.as_ref().unwrap());
    assert_eq!((a.gaps, b.gaps, a.intended), (Gaps::Poisson, Gaps::Poisson, b.intended));
    let answered = |side: usize| outcome.sides[side].rounds.iter().map(|round| round.answered);
    assert!(answered(0).eq(answered(1)), "{outcome}");
    assert!(answered(0).any(|count| Some(count) != answered(0).next()), "the rounds differ: {outcome}");
    let table = outcome.to_string();
    assert!(table.contains("open: 2,000 requests/s by Poisson, latencies"), "{table}");
    assert_eq!(outcome.plan.load.as_ref().unwrap().schedule, Some(schedule));
}

/// A server that answers one request at a time, each after 5 ms.
fn slow() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.unwrap();
            thread::spawn(move || {
                while peer.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    thread::sleep(PAUSE);
                    if peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

const PAUSE: Duration = Duration::from_millis(5);

/// A sleep is never shorter than it was asked for, so the connection has 200 answers a second at most.
#[test]
fn a_side_that_cannot_keep_the_rate_is_told_and_is_not_credited_with_what_it_answered_later() {
    let quick = TestServer::start("memory:rate-quick", Manner::Answer);
    let sides =
        [Side { via: Some(quick.address), ..Side::new("quick", "http://test/") }, Side::new("slow", slow())];
    let options = options(1000.0);
    let options = Options {
        plan: Plan { connections: 1, ..options.plan },
        rounds: 2,
        duration: Duration::from_millis(30),
        turn: None,
        ..options
    };
    let outcome = run(&sides, &options).unwrap();
    let side = &outcome.sides[1];
    let rate = side.rate.as_ref().unwrap();
    assert_eq!((rate.intended, rate.limited_by.as_deref()), (60, Some("connections")), "{outcome}");
    assert!(rate.rate_ratio.unwrap() < 0.5, "{rate:?}");
    let told = "slow: only ";
    let reason = "no connection had room for the others: the server is slower than this rate";
    for text in [outcome.to_string(), report::ab(&outcome)] {
        assert!(text.contains(told) && text.contains(reason), "{text}");
    }
    for round in &side.rounds {
        // All are answered, most of them after the time of the turn.
        assert_eq!(round.answered, 30, "{round:?}");
        assert!(round.figures.requests_per_second.unwrap() < 500.0, "{round:?}");
        // The last was due after 29 ms, and answered after 150 at the soonest.
        assert!(round.figures.max_us.unwrap() >= 120_000.0, "{round:?}");
    }
}

#[test]
fn a_rate_that_changes_is_refused() {
    let server = TestServer::start("memory:rate-ramp", Manner::Answer);
    let side = || Side { via: Some(server.address.clone()), ..Side::new("side", "http://test/") };
    let of = |schedule| {
        let options = options(1.0);
        Options { plan: Plan { schedule: Some(schedule), ..options.plan }, ..options }
    };
    let ramp = of(Schedule::of(Shape::Ramp { from: 1.0, to: 2.0 }));
    let refused = run(&[side(), side()], &ramp).unwrap_err();
    assert!(matches!(refused, LoadError::NeedsOneRate), "{refused}");
    let refused = run(&[side(), side()], &of(Schedule::constant(f64::NAN))).unwrap_err();
    assert!(matches!(refused, LoadError::Rate { .. }), "{refused}");
    assert_eq!(server.seen.connections(), 0);
}

/// A candidate that was started and runs in this process.
fn candidate(name: &'static str) -> Candidate {
    let start = move |_: &compare::Settings| {
        let server = TestServer::start(&format!("memory:rate-compare-{name}"), Manner::Answer);
        Ok(RunningServer {
            url: "http://test/".to_owned(),
            via: Some(server.address.clone()),
            #[cfg(feature = "tls")]
            tls: None,
            threads: ServerThreads::Here(Box::new(move || {
                // The closure takes all of the server along, not its loops alone.
                let server = &server;
                vec![server.loops.get(0).thread_id()]
            })),
            remark: Box::new(|| None),
        })
    };
    Candidate {
        name: name.to_owned(),
        wire: "memory".to_owned(),
        protocol: Protocol::Http1,
        note: String::new(),
        is_limit: false,
        runs_by_itself: false,
        start: Box::new(start),
    }
}

#[test]
fn candidates_are_compared_by_what_the_same_load_costs_them() {
    let options = compare::Options {
        connections: 2,
        rate: Some(1000.0),
        rounds: 2,
        duration: Duration::from_millis(50),
        warm_up: Duration::from_millis(5),
        syscall_duration: Duration::from_millis(10),
        memory_connections: 2,
        ..compare::Options::default()
    };
    // Again on a machine that is too busy for any answer within the time of a round.
    let begun = Instant::now();
    let comparison = loop {
        let comparison = compare(&[candidate("one"), candidate("other")], &options, |_| {}).unwrap();
        let mut rounds = comparison.candidates.iter().flat_map(|row| &row.rounds);
        if rounds.all(|round| round.figures.p50_us.is_some()) || begun.elapsed().as_secs() > 60 {
            break comparison;
        }
    };
    assert_eq!((comparison.plan.mode.as_str(), comparison.plan.rate), ("open", Some(1000.0)));
    for row in &comparison.candidates {
        assert_eq!(row.rate.as_ref().map(|rate| rate.intended), Some(100), "{row:?}");
        for round in &row.rounds {
            assert_eq!(round.answered, 50, "{row:?}");
            let figures = round.figures;
            let [share, rate, cost] =
                [figures.server_utilisation, figures.requests_per_second, figures.server_cpu_us_per_request]
                    .map(Option::unwrap);
            // The same CPU time over time and over requests.
            assert!((share / (rate * cost / 1e6) - 1.0).abs() < 1e-6, "{figures:?}");
        }
    }
    let table = comparison.to_string();
    let plan = "open: 1,000 requests/s in even gaps, latencies from the intended time: 2 connections";
    assert!(table.contains(plan) && table.contains("all candidates have the same rate"), "{table}");
    assert!(!table.contains("stalls hide requests"), "{table}");
    assert!(table.contains("one (memory): ") && table.contains(" left in time, own lag p99 "), "{table}");
    let (_, spreads) =
        table.split_once("the least and the most of the rounds\n").expect("there are two rounds");
    let heading = spreads.lines().next().unwrap_or_default();
    for column in ["requests/s", "server us", "core %", "p50 us", "p99 us"] {
        assert!(heading.contains(column), "{column} in {table}");
    }
    let page = report::comparison(&comparison);
    assert!(page.contains("Server CPU at 1,000 requests/s") && page.contains("At the fixed rate"), "{page}");
    let again: Comparison = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(again.candidates[0].rate, comparison.candidates[0].rate);
    let refused = compare(&[candidate("none")], &compare::Options { rate: Some(0.0), ..options }, |_| {});
    assert!(refused.is_err_and(|error| matches!(error, compare::CompareError::Load(LoadError::Rate { .. }))));
}

/// A run of a second by a schedule of 1000, of which so many left in time with this lag, in us.
fn scheduled(sent: u64, lag_us: u64, limited_by: Option<&str>) -> Outcome {
    let summary = |us: u64| {
        let mut latency = anywire_load::Latency::new();
        latency.record_many(Duration::from_micros(us), 1000);
        latency.summary()
    };
    let base = sample::outcome();
    let mut loops = base.loops.clone();
    loops.truncate(1);
    Outcome {
        rate: Rate {
            target: Some(1000.0),
            intended: Some(1000),
            rate_ratio: Some(sent as f64 / 1000.0),
            seconds: 1.0,
            ..base.rate
        },
        latency: anywire_load::Latencies { intended: summary(10_000), ..base.latency.clone() },
        generator: Generator {
            cpu_user_us: Some(500_000.0),
            cpu_sys_us: Some(480_000.0),
            lag: summary(lag_us),
            pacing: Some(PacingFacts { timer: "timerfd".to_owned(), spin_us: 50.0, spun_us: 700_000.0 }),
            limited_by: limited_by.map(str::to_owned),
            ..Generator::default()
        },
        loops,
        ..base
    }
}

#[test]
fn whether_the_generator_was_the_limit_is_told_of_all_turns_together() {
    let kept = |runs: &[Outcome]| FixedRate::of(runs).expect("they have a schedule");
    let good = || scheduled(1000, 40, None);
    // A loop that spins is not busy: 28 % of its time without that.
    let rate = kept(&[good(), good()]);
    assert_eq!((rate.intended, rate.saturated, rate.remarks().len()), (2000, Some(false), 0), "{rate:?}");
    // One turn in which the machine did something else, of two hundred; and half of them.
    let mut runs = vec![good(); 200];
    runs[7] = scheduled(900, 9000, None);
    assert_eq!(kept(&runs).saturated, Some(false), "{:?}", kept(&runs));
    let rate = kept(&[good(), scheduled(1000, 9000, None)]);
    assert!(rate.saturated == Some(true) && rate.reasons[0].contains("late"), "{rate:?}");
    assert!(rate.remarks()[0].starts_with("saturated: the load generator was the limit: "), "{rate:?}");
    // Fewer left than were due, and not since the server was slow.
    let rate = kept(&[good(), scheduled(900, 40, None)]);
    assert!(rate.saturated == Some(true) && rate.limited_by.is_none(), "{rate:?}");
    let rate = kept(&[good(), scheduled(900, 40, Some("connections"))]);
    assert_eq!((rate.saturated, rate.limited_by.as_deref()), (Some(false), Some("connections")), "{rate:?}");
    assert_eq!(rate.rate_ratio, Some(0.95));
    assert_eq!(FixedRate::of(&[sample::outcome()]), None, "the closed mode has no rate");
}

#[test]
fn a_comparison_whose_generator_was_the_limit_says_so_before_its_figures() {
    let mut comparison = sample::comparison();
    assert_eq!(comparison.saturation(), None);
    comparison.candidates[1].rate = FixedRate::of(&[scheduled(1000, 9000, None)]);
    let said = comparison.saturation().expect("it is one request in a hundred and more").found;
    assert!(
        said.starts_with("the load generator was the limit: tcp: one request in a hundred left 9.00 ms late")
    );
    let table = comparison.to_string();
    let (before, _) = table.split_once("candidate").expect("a table with headings");
    assert!(before.contains(&format!("no verdict: {said}")), "{table}");
    assert!(report::comparison(&comparison).contains("tcp: saturated: the load generator was the limit"));
}
