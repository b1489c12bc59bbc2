//! The harness: every candidate once a round, figures and ratios a round, a row for one that does not start.

mod support;

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anywire_load::compare::{
    Candidate, CandidateError, CompareError, Options, Running, Settings, Stage, Step, compare,
};
use anywire_sys::cpu::{self, CpuTime};
use anywire_wire::Address;
use support::server::{Manner, TestServer};

static STARTED: AtomicU64 = AtomicU64::new(0);

struct Memory {
    name: &'static str,
    limit: bool,
}

impl Candidate for Memory {
    fn name(&self) -> &str {
        self.name
    }

    fn wire(&self) -> &str {
        "memory"
    }

    fn note(&self) -> String {
        "in this process".to_owned()
    }

    fn is_limit(&self) -> bool {
        self.limit
    }

    fn start(&self, _: &Settings) -> Result<Box<dyn Running>, CandidateError> {
        // Tests of this file run at the same time, and one name is served once.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Served(TestServer::start(&format!("memory:compare-{number}"), Manner::Answer))))
    }
}

struct Served(TestServer);

impl Running for Served {
    fn url(&self) -> String {
        "http://test/".to_owned()
    }

    fn via(&self) -> Option<Address> {
        Some(self.0.address.clone())
    }

    fn server_thread(&self) -> i32 {
        self.0.loops.get(0).thread_id()
    }

    fn server_cpu(&self) -> io::Result<CpuTime> {
        self.0.loops.get(0).spawn(|| async { cpu::current_thread_cpu() }).wait().map_err(io::Error::other)?
    }
}

struct Broken;

impl Candidate for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn wire(&self) -> &str {
        "none"
    }

    fn start(&self, _: &Settings) -> Result<Box<dyn Running>, CandidateError> {
        Err("there is nothing to start".into())
    }
}

fn options() -> Options {
    Options {
        connections: 4,
        depth: 2,
        rounds: 3,
        duration: Duration::from_millis(30),
        warm_up: Duration::from_millis(5),
        syscall_duration: Duration::from_millis(10),
        ..Options::default()
    }
}

fn candidates() -> Vec<Box<dyn Candidate>> {
    vec![
        Box::new(Memory { name: "limit", limit: true }),
        Box::new(Memory { name: "other", limit: false }),
        Box::new(Broken),
    ]
}

#[test]
fn every_candidate_has_its_row() {
    let steps = RefCell::new(Vec::new());
    let comparison = compare(&candidates(), &options(), |step: &Step<'_>| {
        if step.stage == Stage::Starting {
            steps.borrow_mut().push(format!("{} {}", step.round, step.candidate));
        }
    })
    .unwrap();
    assert_eq!(
        steps.into_inner(),
        [
            "1 limit", "1 other", "1 broken", "2 other", "2 broken", "2 limit", "3 broken", "3 limit",
            "3 other"
        ]
    );

    let [limit, other, broken] = &comparison.candidates[..] else { panic!("three rows") };
    for row in [limit, other] {
        assert_eq!((row.rounds.len(), row.errors.total()), (3, 0), "{:?}", row.error_messages);
        assert!(row.requests_per_second.unwrap() > 0.0);
        assert!(row.server_cpu_us_per_request.unwrap() > 0.0);
        assert!(row.client_cpu_us_per_request.unwrap() > 0.0);
        assert!(row.p50_us.unwrap() <= row.p99_us.unwrap() && row.p99_us.unwrap() <= row.max_us.unwrap());
        assert_eq!(row.notes[0], "in this process");
        // Either the figure is there, or the reason why it is not.
        let unknown = row.notes.iter().any(|note| note.starts_with("syscalls_per_request is unknown"));
        assert_eq!(row.syscalls_per_request.is_none(), unknown);
    }
    assert_eq!(limit.ratio_to_limit, Some(1.0));
    for (own, of_limit) in other.rounds.iter().zip(&limit.rounds) {
        let ratio = own.server_cpu_us_per_request.unwrap() / of_limit.server_cpu_us_per_request.unwrap();
        assert_eq!(own.ratio_to_limit, Some(ratio));
    }
    assert_eq!((broken.rounds.len(), broken.requests_per_second), (0, None));
    assert!(broken.error_messages[0].contains("there is nothing to start"));
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

#[test]
fn a_stop_gives_the_whole_rounds_until_then() {
    let options = options();
    let comparison = compare(&candidates()[..2], &options, |step| {
        if step.round == 2 && step.stage == Stage::Load {
            options.stop.stop();
        }
    })
    .unwrap();
    assert!(comparison.interrupted);
    assert!(comparison.candidates.iter().all(|row| row.rounds.len() == 1));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refused = |candidates: &[Box<dyn Candidate>], options: &Options| {
        compare(candidates, options, |_| {}).unwrap_err()
    };
    assert!(matches!(refused(&[], &options()), CompareError::NoCandidate));
    assert!(matches!(refused(&candidates(), &Options { rounds: 0, ..options() }), CompareError::NoRound));
    let twice: Vec<Box<dyn Candidate>> = vec![Box::new(Broken), Box::new(Broken)];
    assert!(matches!(refused(&twice, &options()), CompareError::Twice(name) if name == "broken"));
    let deep = Options { depth: 0, ..options() };
    assert!(matches!(refused(&candidates(), &deep), CompareError::Load(_)));
}
