//! The harness: every candidate once a round, figures and ratios a round, a row for one that does not start.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::server::{Manner, TestServer};
use anywire_load::compare::{
    Candidate, CandidateError, CompareError, Options, RunningServer, Settings, Step, compare,
};
use anywire_load::rounds::ServerThreads;
use anywire_load::{ErrorKind, Protocol, report};
use anywire_sys::cpu;

static STARTED: AtomicU64 = AtomicU64::new(0);

fn memory(name: &str, is_limit: bool) -> Candidate {
    candidate(name, is_limit, |_| {
        // Tests of this file run at the same time, and one name is served once.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Ok(served(TestServer::start(&format!("memory:compare-{number}"), Manner::Answer)))
    })
}

/// Starts, and answers with what is not HTTP.
fn garbled() -> Candidate {
    candidate("garbled", false, |_| {
        let manner = Manner::Bytes("this is not HTTP\r\n\r\n");
        Ok(served(TestServer::start("memory:compare-garbled", manner)))
    })
}

/// Does not start.
fn broken(name: &str) -> Candidate {
    candidate(name, false, |_| Err("there is nothing to start".into()))
}

fn candidate(
    name: &str,
    is_limit: bool,
    start: fn(&Settings) -> Result<RunningServer, CandidateError>,
) -> Candidate {
    let (name, wire, note) = (name.to_owned(), "memory".to_owned(), "in this process".to_owned());
    let protocol = Protocol::Http1;
    Candidate { name, wire, protocol, note, is_limit, runs_by_itself: false, start: Box::new(start) }
}

fn served(server: TestServer) -> RunningServer {
    RunningServer {
        url: "http://test/".to_owned(),
        via: Some(server.address.clone()),
        #[cfg(feature = "tls")]
        tls: None,
        threads: ServerThreads::Here(Box::new(move || {
            // The closure takes all of the server along, not its loops alone.
            let server = &server;
            vec![server.loops.get(0).thread_id()]
        })),
        remark: Box::new(|| Some("it was loaded".to_owned())),
    }
}

fn options() -> Options {
    Options {
        connections: 4,
        depth: 2,
        rounds: 3,
        duration: Duration::from_millis(100),
        warm_up: Duration::from_millis(5),
        syscall_duration: Duration::from_millis(10),
        ..Options::default()
    }
}

fn candidates() -> Vec<Candidate> {
    vec![memory("limit", true), memory("other", false), broken("broken")]
}

#[test]
fn every_candidate_has_its_row() {
    let steps = RefCell::new(Vec::new());
    let comparison = compare(&candidates(), &options(), |step: &Step<'_>| {
        steps.borrow_mut().push(format!("{} {}", step.round, step.candidate));
    })
    .unwrap();
    let steps = steps.into_inner();
    for (round, of_round) in steps.chunks(3).enumerate() {
        let mut sorted = of_round.to_vec();
        sorted.sort();
        let expected = ["broken", "limit", "other"].map(|name| format!("{} {name}", round + 1));
        assert_eq!(sorted, expected, "{steps:?}");
    }
    assert_eq!(steps.len(), 9);

    let [limit, other, broken] = &comparison.candidates[..] else { panic!("three rows") };
    for row in [limit, other] {
        assert_eq!((row.rounds.len(), row.errors.total()), (3, 0), "{:?}", row.error_messages);
        assert!(row.medians.requests_per_second.unwrap() > 0.0);
        assert!(row.medians.server_cpu_us_per_request.unwrap() > 0.0);
        assert!(row.medians.client_cpu_us_per_request.unwrap() > 0.0);
        assert!(
            row.medians.p50_us.unwrap() <= row.medians.p99_us.unwrap()
                && row.medians.p99_us.unwrap() <= row.medians.max_us.unwrap()
        );
        assert_eq!(row.notes[0], "in this process");
        assert!(row.notes.contains(&"it was loaded".to_owned()), "{:?}", row.notes);
        assert_eq!(row.medians.threads, Some(1.0));
        assert!(row.medians.voluntary_switches_per_request.is_some());
        assert_eq!(row.medians.user_bytes_per_connection, None, "it was not asked for");
        // Either the figure is there, or the reason why it is not.
        let unknown = row.notes.iter().any(|note| note.starts_with("syscalls_per_request is unknown"));
        assert_eq!(row.medians.syscalls_per_request.is_none(), unknown);
        assert_eq!(row.syscalls_by_name.is_none(), unknown);
    }
    assert_eq!(limit.medians.ratio_to_limit, Some(1.0));
    for (own, of_limit) in other.rounds.iter().zip(&limit.rounds) {
        let ratio = own.figures.server_cpu_us_per_request.unwrap()
            / of_limit.figures.server_cpu_us_per_request.unwrap();
        assert_eq!(own.figures.ratio_to_limit, Some(ratio));
    }
    assert_eq!((broken.rounds.len(), broken.medians.requests_per_second), (0, None));
    assert!(broken.error_messages[0].found.contains("there is nothing to start"));
    assert!(comparison.to_string().contains("other"));
}

#[test]
fn the_json_has_the_promised_fields() {
    let comparison = compare(&candidates()[..1], &Options { rounds: 1, ..options() }, |_| {}).unwrap();
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(json["schema"], "anywire.compare/1");
    let row = json["candidates"][0].as_object().unwrap();
    for field in [
        "name",
        "wire",
        "requests_per_second",
        "server_cpu_us_per_request",
        "client_cpu_us_per_request",
        "syscalls_per_request",
        "p50_us",
        "p99_us",
        "max_us",
        "ratio_to_limit",
        "rounds",
        "spread",
        "notes",
        "errors",
    ] {
        assert!(row.contains_key(field), "{field}");
    }
    for field in ["cpu", "cores", "kernel", "governor", "loops", "pinning"] {
        assert!(json["host"].as_object().unwrap().contains_key(field), "{field}");
    }
}

/// Many requests are on their way when the measured part begins. Their answers belong to it, as does the CPU time that they take.
#[test]
fn the_cpu_time_of_a_request_is_that_of_the_answers_that_stand_beside_it() {
    let options = Options {
        connections: 1,
        depth: 64,
        rounds: 1,
        body_bytes: 0,
        duration: Duration::from_millis(400),
        warm_up: Duration::from_millis(100),
        syscall_duration: Duration::ZERO,
        ..Options::default()
    };
    let comparison = compare(&[candidate("busy", false, busy)], &options, |_| ()).unwrap();
    let figures = comparison.candidates[0].medians;
    // With the answers to requests that were sent in the time alone it would be a fifth more at least.
    let ratio = figures.server_cpu_us_per_request.unwrap() / BUSY.as_micros() as f64;
    assert!((0.85..1.15).contains(&ratio), "{ratio}: {figures:?}");
}

/// A thread that uses `BUSY` of its core for each request, one after the other.
fn busy(_: &Settings) -> Result<RunningServer, CandidateError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", listener.local_addr()?);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        tell.send(cpu::thread_id()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let used = || cpu::thread_run_time(cpu::thread_id()).unwrap();
        let (mut buffer, mut until) = (vec![0; 1 << 16], used());
        // Heads leave whole, since the window of requests is shorter than the buffer.
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            for _ in buffer[..read].windows(4).filter(|end| end == b"\r\n\r\n") {
                until = used().max(until + BUSY);
                while used() < until {}
                if peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                    return;
                }
            }
        }
    });
    let thread = told.recv()?;
    Ok(RunningServer {
        url,
        via: None,
        #[cfg(feature = "tls")]
        tls: None,
        threads: ServerThreads::Here(Box::new(move || vec![thread])),
        remark: Box::new(|| None),
    })
}

const BUSY: Duration = Duration::from_millis(1);

#[test]
fn the_order_of_each_round_is_drawn_by_a_seed_that_the_result_names() {
    let candidates = [broken("a"), broken("b"), broken("c"), broken("d")];
    let orders = |seed| {
        let mut steps = Vec::new();
        let options = Options { seed, rounds: 12, ..options() };
        let comparison =
            compare(&candidates, &options, |step: &Step<'_>| steps.push(step.candidate.to_owned()));
        (steps.chunks(4).map(<[String]>::to_vec).collect::<Vec<_>>(), comparison.unwrap())
    };
    let (rounds, comparison) = orders(Some(3));
    // A circle would let each follow the same one in all rounds.
    let follows_b = |round: &Vec<String>| round.iter().skip_while(|name| *name != "b").nth(1).cloned();
    let followers: HashSet<_> = rounds.iter().filter_map(follows_b).collect();
    assert!(followers.len() > 1, "{rounds:?}");
    assert_ne!(orders(Some(4)).0, rounds, "another seed gives another order");
    assert_eq!((comparison.plan.seed, orders(Some(3)).0), (3, rounds));
    assert!(comparison.to_string().contains("by seed 3 "), "{comparison}");
    assert!(report::comparison(&comparison).contains("by seed 3 "));
    // Without one it is drawn, and the result still names it: that seed gives these rounds.
    let (rounds, comparison) = orders(None);
    assert_eq!(orders(Some(comparison.plan.seed)).0, rounds);
}

#[test]
fn what_goes_wrong_in_the_warm_up_stands_in_the_row() {
    let options = Options { rounds: 1, warm_up: Duration::from_secs(3600), ..options() };
    let comparison = compare(&[garbled()], &options, |_| {}).unwrap();
    let row = &comparison.candidates[0];
    assert!(row.errors.of(ErrorKind::Parse) > 0, "{:?}", row.errors);
    assert_eq!(row.rounds.iter().map(|round| round.errors).sum::<u64>(), row.errors.total(), "{row:?}");
    let messages = row.error_messages.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(messages.contains("ended before anything was measured"), "{messages}");
}

#[test]
fn idle_connections_are_open_and_not_loaded() {
    let options = Options { connections: 6, active: Some(2), memory_connections: 10, rounds: 1, ..options() };
    let candidates = [memory("limit", true)];
    let comparison = compare(&candidates, &options, |_| {}).unwrap();
    assert_eq!((comparison.plan.connections, comparison.plan.active), (6, 2));
    let row = &comparison.candidates[0];
    assert_eq!(row.rounds[0].connections_open, 2, "{:?}", row.error_messages);
    assert!(row.medians.requests_per_second.unwrap() > 0.0);
    // Both ends of this wire are in this process.
    assert_eq!(row.medians.user_bytes_per_connection, None);
    assert!(row.notes.iter().any(|note| note.starts_with("user_bytes_per_connection is unknown")));
}

/// Its answers are as long as it likes, its threads are those of a process, and nobody starts it anew.
#[test]
fn a_server_that_runs_by_itself_stands_beside_ours() {
    let server = TestServer::start(
        "memory:compare-by-itself",
        Manner::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
    );
    let address = server.address.clone();
    let start = move |_: &Settings| {
        Ok(RunningServer {
            url: "http://test/".to_owned(),
            via: Some(address.clone()),
            #[cfg(feature = "tls")]
            tls: None,
            threads: ServerThreads::Of(std::process::id() as i32),
            remark: Box::new(|| None),
        })
    };
    let by_itself = Candidate { runs_by_itself: true, start: Box::new(start), ..broken("theirs") };
    let comparison = compare(&[memory("ours", false), by_itself], &options(), |_| {}).unwrap();
    let [ours, theirs] = &comparison.candidates[..] else { panic!("two rows") };
    assert_eq!((ours.errors.total(), theirs.errors.total()), (0, 0), "{comparison}");
    assert!(theirs.medians.server_cpu_us_per_request.is_some_and(|cpu| cpu > 0.0), "{theirs:?}");
    assert_eq!((ours.rounds.len(), theirs.rounds.len()), (3, 3));
    let notes = comparison.notes.join("\n");
    assert!(notes.contains("theirs: runs by itself") && !notes.contains("ours: runs"), "{notes}");
    assert!(server.seen.connections() >= 3 * 4, "one server for all rounds");
}

/// Nothing is known of its threads, and that is no error.
#[test]
fn a_server_whose_process_is_unknown_has_no_cpu_time() {
    let server = TestServer::start("memory:compare-unknown", Manner::Answer);
    let address = server.address.clone();
    let start = move |_: &Settings| {
        Ok(RunningServer {
            url: "http://test/".to_owned(),
            via: Some(address.clone()),
            #[cfg(feature = "tls")]
            tls: None,
            threads: ServerThreads::Unknown,
            remark: Box::new(|| None),
        })
    };
    let candidate = Candidate { runs_by_itself: true, start: Box::new(start), ..broken("theirs") };
    let comparison = compare(&[candidate], &Options { rounds: 1, ..options() }, |_| {}).unwrap();
    let row = &comparison.candidates[0];
    assert!(row.medians.requests_per_second.is_some() && row.medians.client_cpu_us_per_request.is_some());
    assert_eq!((row.medians.server_cpu_us_per_request, row.medians.syscalls_per_request), (None, None));
    assert_eq!(comparison.placement.server_core, None);
    assert!(server.seen.connections() >= 4, "the server of the test was loaded");
}

#[test]
fn a_stop_gives_the_whole_rounds_until_then() {
    let options = options();
    let comparison = compare(&candidates()[..2], &options, |step| {
        if step.round == 2 {
            options.stop.stop();
        }
    })
    .unwrap();
    assert!(comparison.interrupted);
    assert!(comparison.candidates.iter().all(|row| row.rounds.len() == 1));
    let says = format!("interrupted: 1 whole round of {}", options.rounds);
    let table = comparison.to_string();
    assert!(table.contains(&says), "{says:?} was expected in: {table}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refused =
        |candidates: &[Candidate], options: &Options| compare(candidates, options, |_| {}).unwrap_err();
    assert!(matches!(refused(&[], &options()), CompareError::NoCandidate));
    assert!(matches!(refused(&candidates(), &Options { rounds: 0, ..options() }), CompareError::NoRound));
    let twice: Vec<Candidate> = vec![broken("broken"), broken("broken")];
    assert!(matches!(refused(&twice, &options()), CompareError::Twice(name) if name == "broken"));
    let deep = Options { depth: 0, ..options() };
    assert!(matches!(refused(&candidates(), &deep), CompareError::Load(_)));
}
