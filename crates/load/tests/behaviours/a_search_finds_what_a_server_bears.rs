//! A search finds the highest rate at which a server keeps to what is required, on models of servers whose latencies follow from the rate.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use anywire_load::search::{Attempt, End, Rates, Search, SearchFigures, Stage, Trial, search, search_by};
use anywire_load::{Handles, Latency, LoadError, Outcome, Plan, Rate, Requirement, Schedule, Stop, Verdict};
use anywire_loops::Loops;

use crate::support::sample;
use crate::support::server::{Manner, TestServer};

/// What a server that answers so many a second would have shown at this rate: a queue with one server, or one that grows without end.
fn queue(capacity: f64, attempt: &Attempt) -> Outcome {
    let mut latency = Latency::new();
    for index in 0..1000 {
        let share = (f64::from(index) + 0.5) / 1000.0;
        let seconds = match capacity - attempt.rate {
            room if room > 0.0 => -(1.0 - share).ln() / room,
            _ => 1.0 + share * 10.0 * (1.0 - capacity / attempt.rate),
        };
        latency.record(Duration::from_secs_f64(seconds));
    }
    static USUAL: LazyLock<Outcome> = LazyLock::new(sample::outcome);
    let usual = USUAL.clone();
    let ratio = (capacity / attempt.rate).min(1.0);
    let rate = Rate {
        target: Some(attempt.rate),
        rate_ratio: Some(ratio),
        achieved: Some(attempt.rate * ratio),
        ..usual.rate
    };
    let latency = anywire_load::Latencies { intended: latency.summary(), ..usual.latency };
    Outcome { rate, latency, intervals: Vec::new(), ..usual }
}

fn requirements(all: &[&str]) -> Vec<Requirement> {
    all.iter().map(|one| one.parse().expect("it is a threshold")).collect()
}

/// The search and its figures, if this is what each run shows.
fn found(wanted: &Search, mut runs: impl FnMut(&Attempt) -> Outcome) -> (Outcome, SearchFigures) {
    let run = |attempt: &Attempt| Ok::<_, LoadError>(runs(attempt));
    let outcome = search_by(wanted, &Stop::new(), run, |_| {}).expect("it is possible");
    let figures = outcome.search.clone().expect("it is there");
    (outcome, figures)
}

#[test]
fn within_the_precision_and_confirmed() {
    for (capacity, precision) in [(3000.0, 0.05), (123_456.0, 0.01), (1100.0, 0.2)] {
        let wanted = Search { rates: Rates { precision, ..Rates::default() }, ..Search::default() };
        let (outcome, figures) = found(&wanted, |attempt| queue(capacity, attempt));
        // In such a queue, 99 % are answered in ln(100) / (capacity - rate). A histogram knows it to three digits.
        let bears = capacity - 100_f64.ln() / 0.005;
        let rate = figures.highest_rate.expect("it bears some");
        let tolerance = bears * precision + capacity * 0.01;
        assert!((rate - bears).abs() <= tolerance && rate <= bears + capacity * 0.01, "{rate} of {bears}");
        assert!(figures.confirmed && figures.end == End::Found, "{figures:?}");
        // The whole is that of the confirming run.
        assert_eq!(outcome.rate.target, Some(rate));
        assert!(outcome.thresholds.iter().all(|one| one.verdict == Verdict::Held));
        assert_eq!(figures.required, ["p99<5ms", "errors<0.1%"]);
        let [.., last] = &figures.trials[..] else { panic!("there are runs") };
        assert_eq!((last.stage, last.verdict, last.target), (Stage::Confirm, Verdict::Held, rate));
        let text = outcome.to_string();
        assert!(text.contains("highest rate that keeps to p99<5ms errors<0.1%: "), "{text}");
        assert!(text.contains("it does not hold: p99<5ms: broken, asked < 5.00 ms, found "), "{text}");
        let page = anywire_load::report::outcome(&outcome);
        assert!(page.contains("Runs of the search") && page.contains("Latency by requests per second"));
    }
}

/// Of two runs at a rate, the first one holds and the second one does not: neither is the outcome of the search.
#[test]
fn the_outcome_is_of_a_rate_that_held_in_all_its_runs() {
    for confirms in [true, false] {
        let rates = Rates { repeats: 2, confirms, precision: 0.5, ..Rates::default() };
        let mut runs = 0;
        let stop = Stop::new();
        let run = |attempt: &Attempt| {
            runs += 1;
            if attempt.stage == Stage::Confirm {
                // Nothing behind it is carried out.
                stop.stop();
            }
            // The third and the fourth are at the second rate.
            let mut outcome = queue(if runs == 4 { attempt.rate / 2.0 } else { 1e6 }, attempt);
            outcome.rate.interrupted = attempt.stage == Stage::Confirm;
            Ok::<_, LoadError>(outcome)
        };
        let outcome =
            search_by(&Search { rates, ..Search::default() }, &stop, run, |_| {}).expect("it is possible");
        let figures = outcome.search.clone().expect("it is there");
        assert_eq!(
            (figures.highest_rate, figures.lowest_failed),
            (Some(1000.0), Some(2000.0)),
            "{figures:?}"
        );
        assert_eq!(outcome.rate.target, figures.highest_rate);
        assert!(
            outcome.thresholds.iter().all(|one| one.verdict == Verdict::Held),
            "{:?}",
            outcome.thresholds
        );
    }
}

#[test]
fn a_noisy_server_gives_way_in_the_longer_run() {
    let bears = |attempt: &Attempt| match attempt.stage {
        Stage::Search => queue(20_000.0, attempt),
        Stage::Confirm => queue(15_000.0, attempt),
    };
    let (_, figures) = found(&Search::default(), bears);
    let confirming: Vec<_> = figures.trials.iter().filter(|one| one.stage == Stage::Confirm).collect();
    let (held, broken) = confirming.split_last().expect("one was confirmed");
    assert!(broken.len() >= 2 && broken.iter().all(|one| one.verdict == Verdict::Broken), "{confirming:?}");
    assert_eq!((held.verdict, Some(held.target)), (Verdict::Held, figures.highest_rate));
    assert!(held.target <= 15_000.0 && figures.confirmed && figures.end == End::Found, "{figures:?}");
}

#[test]
fn a_rate_that_was_not_there_does_not_hold() {
    // Nothing is said of the latency, and the server is asked for more than it takes.
    let wanted = Search { required: requirements(&["errors<1%"]), ..Search::default() };
    let (_, figures) = found(&wanted, |attempt| queue(7000.0, attempt));
    assert!(figures.highest_rate.is_some_and(|rate| (6600.0..=7072.0).contains(&rate)), "{figures:?}");
    let reason = figures.trials.iter().find_map(|trial| trial.reason.clone()).expect("one broke");
    assert!(reason.contains("only 87.5 % of the requests left in time"), "{reason}");
}

#[test]
fn what_breaks_at_the_lowest_rate_is_told() {
    let rates = Rates { lowest: 500.0, ..Rates::default() };
    let wanted = Search { rates, required: requirements(&["p99<1ns"]), ..Search::default() };
    let (outcome, figures) = found(&wanted, |attempt| queue(1e6, attempt));
    assert_eq!((figures.highest_rate, figures.end), (None, End::NothingHeld));
    let targets: Vec<f64> = figures.trials.iter().map(|trial| trial.target).collect();
    assert_eq!(targets, [1000.0, 500.0]);
    assert_eq!(outcome.rate.target, Some(500.0));
    let text = outcome.to_string();
    assert!(text.contains("no rate keeps to p99<1ns: not even 500/s"), "{text}");
}

#[test]
fn a_generator_that_was_the_limit_gives_no_verdict() {
    let saturated = |limit: f64, capacity: f64| {
        move |attempt: &Attempt| {
            let mut outcome = queue(capacity, attempt);
            outcome.generator.saturated = Some(attempt.rate > limit);
            if attempt.rate > limit {
                outcome.generator.reasons = vec!["a loop had work for 99 % of the time".to_owned()];
            }
            outcome
        }
    };
    let (outcome, figures) = found(&Search::default(), saturated(9000.0, 1e6));
    assert_eq!(figures.end, End::Generator);
    let rate = figures.highest_rate.expect("some held");
    assert!((8550.0..=9000.0).contains(&rate) && figures.confirmed, "{figures:?}");
    let unjudged: Vec<_> = figures.trials.iter().filter(|one| one.target > 9000.0).collect();
    assert!(!unjudged.is_empty() && unjudged.iter().all(|one| one.verdict == Verdict::NotJudged));
    let text = outcome.to_string();
    assert!(text.contains("the load generator was the limit at "), "{text}");
    // Below that the server itself gives way: that is the limit then.
    assert_eq!(found(&Search::default(), saturated(9000.0, 6000.0)).1.end, End::Found);
    let (_, figures) = found(&Search::default(), saturated(0.0, 1e6));
    assert_eq!((figures.end, figures.highest_rate), (End::Generator, None));
}

#[test]
fn an_early_end_keeps_what_was_tried() {
    // Between two runs, and within the third one.
    for within in [false, true] {
        let (stop, runs) = (Stop::new(), Cell::new(0));
        let run = |attempt: &Attempt| {
            runs.set(runs.get() + 1);
            let mut outcome = queue(1e6, attempt);
            outcome.rate.interrupted = within && runs.get() == 3;
            Ok::<_, LoadError>(outcome)
        };
        let told = |_: &Trial| {
            if runs.get() == 2 && !within {
                stop.stop();
            }
        };
        let outcome = search_by(&Search::default(), &stop, run, told).expect("it is possible");
        let figures = outcome.search.as_ref().expect("it is there");
        assert_eq!(figures.end, End::Interrupted);
        assert_eq!((figures.highest_rate, figures.confirmed), (Some(2000.0), false));
        let verdicts: Vec<_> = figures.trials.iter().map(|trial| trial.verdict).collect();
        let (held, cut) = (vec![Verdict::Held; 2], [Verdict::NotJudged]);
        assert_eq!(verdicts, if within { [&held[..], &cut].concat() } else { held });
        assert!(!outcome.rate.interrupted, "the best run was whole");
        let text = outcome.to_string();
        assert!(text.contains("2,000/s, not confirmed by a longer run"), "{text}");
        assert!(text.contains("the search was ended early: higher rates may hold"), "{text}");
    }
}

#[test]
fn a_server_that_has_gone_is_not_asked_at_all_rates() {
    let gone_above = |limit: f64| {
        move |attempt: &Attempt| {
            let mut outcome = queue(1e6, attempt);
            if attempt.rate > limit {
                outcome.totals.measured.answered = 0;
            }
            outcome
        }
    };
    let (_, figures) = found(&Search::default(), gone_above(0.0));
    assert_eq!((figures.end, figures.trials.len(), figures.highest_rate), (End::NoAnswer, 1, None));
    // It died at the third rate: one more shows that.
    let dead = Cell::new(false);
    let (_, figures) = found(&Search::default(), |attempt| {
        dead.set(dead.get() || attempt.rate > 2000.0);
        gone_above(if dead.get() { 0.0 } else { f64::INFINITY })(attempt)
    });
    assert_eq!((figures.end, figures.trials.len(), figures.highest_rate), (End::NoAnswer, 4, Some(2000.0)));
}

#[test]
fn the_runs_of_a_search_are_runs_of_the_plan() {
    let server = TestServer::start("memory:searched", Manner::Answer);
    let plan = Plan { connections: 2, schedule: Some(Schedule::constant(5.0)), ..server.plan(1) };
    let wanted = Search {
        rates: Rates { first: 500.0, highest: 1000.0, lowest: 500.0, ..Rates::default() },
        required: requirements(&["errors=0"]),
        time: Duration::from_millis(50),
        confirm_time: Duration::from_millis(100),
    };
    let mut told = Vec::new();
    let loops = Loops::start(1).expect("a thread");
    let outcome = search(&loops, &plan, &Handles::default(), &wanted, |trial| told.push(trial.clone()));
    let outcome = outcome.expect("it is possible");
    let figures = outcome.search.as_ref().expect("it is there");
    assert_eq!(figures.trials, told);
    // Which verdict a busy machine gives is not known here, but each run had its rate and its requests.
    assert_eq!(told[0].target, 500.0);
    assert!(told.iter().all(|trial| (500.0..=1000.0).contains(&trial.target)), "{told:?}");
    let sent: u64 = told.iter().map(|trial| trial.sent).sum();
    assert!((1..=sent).contains(&server.seen.requests()), "{told:?}");
    assert!(told.iter().any(|trial| Some(trial.target) == outcome.rate.target), "{outcome}");
    let json = serde_json::to_value(&outcome).expect("it is JSON");
    assert_eq!(json["search"]["trials"].as_array().map(Vec::len), Some(told.len()));
}
