//! `ab`: turns in the order ABBA or BAAB, rounds of both sides, a verdict, and what becomes of it when a side fails.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::support::server::{Manner, TestServer};
use anywire_advice::Message;
use anywire_load::ab::{AbOutcome, Options, Side, Step, ab};
use anywire_load::contrast::{Contrast, Noise};
use anywire_load::{Limits, Plan, report};
use anywire_loops::Loops;

/// So short that nothing is to be read from the figures.
fn options() -> Options {
    Options {
        plan: Plan { connections: 2, warm_up: Duration::ZERO, ..Plan::new("http://test/") },
        rounds: 5,
        duration: Duration::from_millis(20),
        turn: Some(Duration::from_millis(5)),
        seed: Some(9),
        ..Options::default()
    }
}

fn side(name: &str, server: &TestServer) -> Side {
    Side { via: Some(server.address.clone()), ..Side::new(name, "http://test/") }
}

fn server(name: &str, manner: Manner) -> TestServer {
    TestServer::start(&format!("memory:ab-{name}"), manner)
}

fn run(sides: &[Side; 2], options: &Options) -> AbOutcome {
    ab(&Loops::start(1).unwrap(), sides, options, |_| ()).unwrap()
}

#[test]
fn turns_are_mirrored_and_every_round_has_both_sides() {
    let (a, b) = (server("mirrored-a", Manner::Answer), server("mirrored-b", Manner::Answer));
    let sides = [side("one", &a), side("other", &b)];
    let steps = RefCell::new(Vec::new());
    let loops = Loops::start(1).unwrap();
    let outcome = ab(&loops, &sides, &options(), |step: &Step<'_>| {
        steps.borrow_mut().push((step.round, step.side.to_owned()));
    })
    .unwrap();
    let steps = steps.into_inner();
    assert_eq!((steps.len(), outcome.plan.turns), (5 * 2 * 4, 4));
    for block in steps.chunks(4) {
        let names: Vec<&str> = block.iter().map(|(_, side)| side.as_str()).collect();
        assert!(
            names == ["one", "other", "other", "one"] || names == ["other", "one", "one", "other"],
            "{names:?}"
        );
        assert!(block.iter().all(|(round, _)| *round == block[0].0), "a round has whole blocks: {steps:?}");
    }
    for (side, server) in outcome.sides.iter().zip([&a, &b]) {
        let numbers: Vec<usize> = side.rounds.iter().map(|round| round.round).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert_eq!(side.rounds.iter().map(|round| round.answered).sum::<u64>(), side.answered);
        assert!(side.answered <= server.seen.requests());
        // Connections are opened anew for each turn.
        assert_eq!(server.seen.connections(), 2 * 5 * 4);
        assert!(side.rounds.iter().all(|round| round.connections_open == 2), "{side:?}");
    }
    let names: Vec<&str> = outcome.contrast.metrics.iter().map(|one| one.name.as_str()).collect();
    let known = ["requests_per_second", "p50_us", "p99_us", "p99_9_us", "client_cpu_us_per_request"];
    assert_eq!(names, known, "the server's CPU time is unknown");
    assert!(!outcome.is_trial && !outcome.interrupted && outcome.failed.is_none());
    // The same seed gives the same order.
    assert!(outcome.to_string().contains("by seed 9"), "{outcome}");
    let again: AbOutcome = serde_json::from_str(&outcome.to_json()).unwrap();
    assert_eq!((again.schema.as_str(), again.sides[1].rounds.len()), ("anywire.ab/1", 5));
    assert_eq!(again.contrast.metrics.len(), outcome.contrast.metrics.len());
}

/// The figures of the verdict itself are made by hand where it is tested; here they are measured, and add up.
#[test]
fn the_verdict_is_on_the_rounds_that_were_measured() {
    let own = || Ok(std::process::id() as i32);
    let (a, b) = (server("verdict-a", Manner::Answer), server("verdict-b", Manner::Answer));
    let sides = [side("one", &a), side("other", &b)];
    let sides = sides.map(|side| Side { process: Some(Box::new(own)), ..side });
    let outcome = run(&sides, &options());
    let [a, b] = outcome.sides.each_ref().map(|side| &side.rounds[..]);
    assert!(a.iter().chain(b).all(|round| round.figures.server_cpu_us_per_request.is_some()), "{outcome}");
    assert_eq!(outcome.contrast, Contrast::of(a, b, true, &Noise::default(), 9), "by the seed of the result");
    let sentence = outcome.contrast.sentence("one", "other");
    assert!(outcome.to_string().starts_with(&format!("{sentence}\n")), "{outcome}");
    assert!(report::ab(&outcome).contains(&sentence));
}

#[test]
fn a_side_is_started_anew_before_each_round() {
    let (a, b) = (server("restart-a", Manner::Answer), server("restart-b", Manner::Answer));
    let started = Rc::new(Cell::new(0));
    let counting = Rc::clone(&started);
    let restart = move || {
        counting.set(counting.get() + 1);
        Ok(())
    };
    let sides = [side("a", &a), Side { restart: Some(Box::new(restart)), ..side("b", &b) }];
    run(&sides, &options());
    assert_eq!(started.get(), 5);
}

#[test]
fn a_side_that_does_not_come_up_again_ends_it_and_the_rounds_before_stay() {
    let (a, b) = (server("broken-a", Manner::Answer), server("broken-b", Manner::Answer));
    let started = Cell::new(0);
    let restart = move || {
        started.set(started.get() + 1);
        match started.get() {
            3 => Err(Message::new("exited with 1").with_help("see its log").into()),
            _ => Ok(()),
        }
    };
    let sides = [side("a", &a), Side { restart: Some(Box::new(restart)), ..side("b", &b) }];
    let outcome = run(&sides, &options());
    assert_eq!(outcome.failed.as_deref(), Some("round 3: b: exited with 1; see its log"));
    assert_eq!(outcome.sides.each_ref().map(|side| side.rounds.len()), [2, 2]);
    assert_eq!(outcome.contrast.verdict, None, "two rounds show nothing");
    let table = outcome.to_string();
    assert!(table.contains("ended early: 2 whole rounds of 5") && table.contains("exited with 1"), "{table}");
}

#[test]
fn a_side_that_is_not_there_is_said() {
    let a = server("gone-a", Manner::Answer);
    let gone = Side { via: Some("memory:ab-nobody".parse().unwrap()), ..Side::new("b", "http://test/") };
    let limits = Limits { failures_in_a_row: 1, ..Limits::default() };
    let options = Options { plan: Plan { limits, ..options().plan }, ..options() };
    let outcome = run(&[side("a", &a), gone], &options);
    assert!(outcome.failed.as_ref().is_some_and(|why| why.starts_with("round 1: b: ")), "{outcome}");
    assert!(outcome.sides.iter().all(|side| side.rounds.is_empty()));
}

#[test]
fn a_server_that_fails_is_not_called_fast() {
    let a = server("fails-a", Manner::Answer);
    let b = server("fails-b", Manner::Bytes("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"));
    let outcome = run(&[side("a", &a), side("b", &b)], &options());
    assert_eq!(outcome.contrast.verdict, None);
    assert_eq!(outcome.contrast.why_not.as_deref(), Some("100 % of the requests to b were errors"));
    assert!(outcome.contrast.regressions(0.0).is_empty());
}

#[test]
fn a_server_slower_than_its_turn_is_not_called_gone() {
    let a = server("slow-a", Manner::Answer);
    let b = server("slow-b", Manner::Silent);
    let outcome = run(&[side("a", &a), side("b", &b)], &options());
    assert!(
        outcome.failed.is_none() && outcome.to_string().contains("b: in some turns no answer came"),
        "{outcome}"
    );
    assert!(outcome.contrast.metrics.iter().all(|one| one.judgement.verdict.is_none()), "{outcome}");
}

#[test]
fn one_server_against_itself_is_a_trial_of_the_noise() {
    let a = server("trial", Manner::Answer);
    let outcome = run(&[side("a", &a), side("b", &a)], &options());
    assert!(outcome.is_trial && outcome.to_string().contains("what differs is noise"), "{outcome}");
}

#[test]
fn a_stop_gives_the_whole_rounds_until_then() {
    let (a, b) = (server("stop-a", Manner::Answer), server("stop-b", Manner::Answer));
    let options = options();
    let sides = [side("a", &a), side("b", &b)];
    let outcome = ab(&Loops::start(1).unwrap(), &sides, &options, |step| {
        if step.round == 3 {
            options.stop.stop();
        }
    })
    .unwrap();
    assert!(
        outcome.interrupted && outcome.to_string().contains("ended early: 2 whole rounds of 5"),
        "{outcome}"
    );
    assert_eq!(outcome.sides.each_ref().map(|side| side.rounds.len()), [2, 2]);
}

#[test]
fn the_page_has_both_sides_in_each_metric() {
    let (a, b) = (server("page-a", Manner::Answer), server("page-b", Manner::Answer));
    let outcome = run(&[side("first <side>", &a), side("second", &b)], &options());
    let page = report::ab(&outcome);
    assert!(page.contains("first &lt;side&gt;") && !page.contains("first <side>"), "names are escaped");
    for title in ["requests/s in each round", "p99, us in each round", "Medians and verdicts", "Rounds"] {
        assert!(page.contains(title), "{title}");
    }
}
