//! `diff`: results that were stored are compared by their rounds, and what cannot be compared is said.

use anywire_load::contrast::Noise;
use anywire_load::diff::{DiffError, DiffOutcome, diff};
use anywire_load::rounds::{Figures, Round};
use anywire_load::statistics::Verdict;
use anywire_load::{Outcome, Stored, StoredError, report};

use crate::support::sample;

/// Rounds with this rate and p99, a little apart from each other.
fn rounds(count: usize, rate: f64, p99_us: f64) -> Vec<Round> {
    let round = |round: usize| {
        let jitter = 1.0 + 0.002 * (round * 7 % 5) as f64;
        let figures = Figures {
            requests_per_second: Some(rate * jitter),
            p99_us: Some(p99_us * jitter),
            ..Figures::default()
        };
        Round { round, figures, answered: 100, ..Round::default() }
    };
    (1..=count).map(round).collect()
}

fn load(rounds: Vec<Round>) -> Outcome {
    Outcome { rounds, ..sample::outcome() }
}

fn stored(outcome: &Outcome) -> Stored {
    Stored::from_json(&outcome.to_json()).expect("it was just written")
}

fn compared(old: &Outcome, new: &Outcome) -> Result<DiffOutcome, DiffError> {
    diff(&stored(old), &stored(new), &Noise::default(), 3, false)
}

#[test]
fn rounds_of_two_loads_are_judged() {
    let (old, new) = (load(rounds(6, 1000.0, 50.0)), load(rounds(8, 900.0, 50.1)));
    let found = compared(&old, &new).unwrap();
    let [pair] = &found.pairs[..] else { panic!("one server") };
    assert_eq!((pair.old.len(), pair.new.len(), pair.contrast.verdict), (6, 8, Some(Verdict::Slower)));
    let worse: Vec<&str> = found.regressions(0.05).iter().map(|(_, metric)| metric.name.as_str()).collect();
    assert_eq!(worse, ["requests_per_second"]);
    assert!(found.regressions(0.2).is_empty());
    let table = found.to_string();
    assert!(table.starts_with("new is slower than old: requests/s -10"), "{table}");
    assert!(table.contains("6 + 8 rounds"), "{table}");
    let page = report::diff(&found);
    assert!(page.contains("new is slower than old") && page.contains("requests/s in each round"), "{page}");
    let again: DiffOutcome = serde_json::from_str(&found.to_json()).unwrap();
    assert_eq!(again.schema, "anywire.diff/1");
    // The other way round it is faster.
    assert_eq!(compared(&new, &old).unwrap().pairs[0].contrast.verdict, Some(Verdict::Faster));
}

#[test]
fn a_server_that_fails_quickly_is_not_called_faster() {
    let good = load(rounds(8, 1000.0, 50.0));
    let mut failing = load(rounds(8, 2000.0, 10.0));
    failing.rounds.iter_mut().for_each(|round| round.errors = 2);
    let found = compared(&good, &failing).unwrap();
    let why = "2.00 % of the requests to the new server were errors";
    assert_eq!(found.pairs[0].why_no_verdict().as_deref(), Some(why));
    assert_eq!(
        (found.pairs[0].contrast.verdict, found.pairs[0].contrast.why_not.as_deref()),
        (None, Some(why))
    );
    // One in a hundred is still a server that works.
    failing.rounds.iter_mut().for_each(|round| round.errors = 1);
    let found = compared(&good, &failing).unwrap();
    assert_eq!(found.pairs[0].contrast.verdict, Some(Verdict::Faster));
}

#[test]
fn single_runs_are_compared_without_a_verdict() {
    let (old, mut new) = (sample::outcome(), sample::outcome());
    new.rate.achieved = new.rate.achieved.map(|rate| rate / 2.0);
    let found = compared(&old, &new).unwrap();
    let contrast = &found.pairs[0].contrast;
    assert!(contrast.metrics.iter().all(|one| one.judgement.verdict.is_none()) && contrast.verdict.is_none());
    let rate = contrast.metrics[0].judgement.ratio.expect("both have a rate");
    assert!((rate.ratio - 0.5).abs() < 1e-9, "{rate:?}");
    assert!(found.to_string().contains("load --rounds 10"), "{found}");
    assert!(found.regressions(0.0).is_empty(), "what is not shown is no regression");
}

#[test]
fn other_plans_are_refused_unless_it_is_forced() {
    let (old, mut new) = (load(rounds(6, 1000.0, 50.0)), load(rounds(6, 1000.0, 50.0)));
    new.plan.connections += 1;
    new.plan.depth += 1;
    let refused = compared(&old, &new).unwrap_err();
    let DiffError::OtherPlan { found } = &refused else { panic!("{refused}") };
    assert!(found.contains("connections ") && found.contains("depth ") && found.contains(" -> "), "{found}");
    let forced = diff(&stored(&old), &stored(&new), &Noise::default(), 3, true).unwrap();
    assert!(forced.forced && forced.to_string().contains("were compared all the same"), "{forced}");
    // Where it is measured, and what, is another thing: it is listed.
    let mut elsewhere = load(rounds(6, 1000.0, 50.0));
    elsewhere.host.kernel = Some("9.9".to_owned());
    elsewhere.target.url = "http://other/".to_owned();
    let found = compared(&old, &elsewhere).unwrap();
    let lines = found.differences.lines();
    assert!(
        lines.iter().any(|line| line.starts_with("host: kernel ") && line.ends_with(" -> 9.9")),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.starts_with("target: url ")), "{lines:?}");
    assert!(!found.forced);
}

#[test]
fn candidates_of_compare_are_found_by_their_names() {
    let (mut old, mut new) = (sample::comparison(), sample::comparison());
    for row in &mut old.candidates {
        row.rounds = rounds(6, 1000.0, 50.0);
    }
    for (index, row) in new.candidates.iter_mut().enumerate() {
        row.rounds = rounds(6, if index == 1 { 700.0 } else { 1000.0 }, 50.0);
    }
    old.candidates.remove(0);
    new.candidates.remove(5);
    let [old, new] = [old, new].map(|one| Stored::from_json(&one.to_json()).unwrap());
    let found = diff(&old, &new, &Noise::default(), 3, false).unwrap();
    let verdicts: Vec<(&str, _)> =
        found.pairs.iter().map(|pair| (pair.name.as_str(), pair.contrast.verdict)).collect();
    let alike = Some(Verdict::NoDifferenceShown);
    assert_eq!(verdicts[..2], [("tcp", Some(Verdict::Slower)), ("unix", alike)]);
    assert_eq!(
        (verdicts.len(), &found.only_in_old[0], &found.only_in_new[0]),
        (4, &"broken".into(), &"limit".into())
    );
    assert!(found.to_string().contains("tcp (new) is slower than tcp (old)"), "{found}");
}

#[test]
fn results_of_different_commands_are_not_compared() {
    let compare = Stored::from_json(&sample::comparison().to_json()).unwrap();
    let refused = diff(&stored(&sample::outcome()), &compare, &Noise::default(), 3, true).unwrap_err();
    assert!(matches!(refused, DiffError::OtherKind { .. }), "{refused}");
}

#[test]
fn what_is_cut_off_at_any_byte_is_said_to_be() {
    let json = load(rounds(2, 1000.0, 50.0)).to_json();
    for end in (1..json.len() - 1).step_by(97).filter(|end| json.is_char_boundary(*end)) {
        assert_eq!(Stored::from_json(&json[..end]), Err(StoredError::CutOff), "at {end}");
    }
    assert!(Stored::from_json(&json).is_ok());
}

#[test]
fn more_rounds_than_anybody_measures_are_refused() {
    let of = |count| Stored::from_json(&load(rounds(count, 1000.0, 50.0)).to_json());
    assert!(of(10_000).is_ok());
    assert_eq!(of(10_001), Err(StoredError::TooManyRounds { rounds: 10_001, most: 10_000 }));
}

#[test]
fn the_page_is_of_both_results_and_loads_nothing() {
    let mut worse = load(rounds(6, 900.0, 90.0));
    worse.target.url = "http://<script>/".to_owned();
    let page = report::diff(&compared(&load(rounds(6, 1000.0, 50.0)), &worse).unwrap());
    assert!(!page.contains("http://<script>") && !page.contains("src="), "{page}");
    assert!(page.contains("Medians and verdicts") && page.contains("id=\"result\""));
}
