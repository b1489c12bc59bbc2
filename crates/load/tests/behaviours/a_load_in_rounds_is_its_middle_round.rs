//! A load that was run several times has the figures of the round in the middle, and all rounds.

use anywire_load::{ErrorKind, Outcome};

use crate::support::sample;

/// A good run with this rate.
fn run(rate: f64) -> Outcome {
    let mut outcome = sample::outcome();
    outcome.rate.achieved = Some(rate);
    (outcome.rate.interrupted, outcome.rate.given_up) = (false, false);
    let connections = &mut outcome.totals.connections;
    (connections.given_up, connections.never_open) = (0, 0);
    connections.open_at_start = outcome.plan.connections as u64;
    assert!(outcome.shortfall().is_none() && outcome.no_good_answer().is_none());
    outcome
}

fn rates(outcome: &Outcome) -> Vec<f64> {
    outcome.rounds.iter().filter_map(|round| round.figures.requests_per_second).collect()
}

#[test]
fn the_middle_by_rate_stands_for_all() {
    let whole = Outcome::of_rounds([500.0, 100.0, 300.0].map(run).to_vec()).unwrap();
    assert_eq!((whole.rate.achieved, rates(&whole)), (Some(300.0), vec![500.0, 100.0, 300.0]));
    assert_eq!(whole.rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(whole.rounds[0].figures.p99_9_us.is_some() && whole.rounds[0].answered > 0);
    let table = whole.to_string();
    assert!(
        table.contains("3 rounds, 100 to 500 requests/s; the figures are of the one in the middle"),
        "{table}"
    );
    // Of an even number the lower one.
    assert_eq!(Outcome::of_rounds([4.0, 1.0, 3.0, 2.0].map(run).to_vec()).unwrap().rate.achieved, Some(2.0));
    assert!(Outcome::of_rounds(Vec::new()).is_none());
}

#[test]
fn a_run_that_fell_short_is_not_overlooked() {
    let mut short = run(900.0);
    short.totals.connections.given_up = 1;
    assert!(short.shortfall().is_some());
    let whole = Outcome::of_rounds(vec![run(1.0), run(2.0), short]).unwrap();
    assert_eq!((whole.rate.achieved, whole.rounds.len()), (Some(900.0), 3));
    assert!(whole.shortfall().is_some() && whole.totals.measured.errors.of(ErrorKind::Tls) < u64::MAX);
}

#[test]
fn a_round_that_was_ended_early_is_left_out_unless_it_is_the_only_one() {
    let early = || {
        let mut early = run(7.0);
        early.rate.interrupted = true;
        early
    };
    let whole = Outcome::of_rounds(vec![run(1.0), early()]).unwrap();
    assert_eq!((whole.rate.interrupted, rates(&whole)), (false, vec![1.0]));
    let whole = Outcome::of_rounds(vec![early()]).unwrap();
    assert_eq!((whole.rate.interrupted, rates(&whole)), (true, vec![7.0]));
}
