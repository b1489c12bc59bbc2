//! Searches on models of a server: what it shows follows from the rate, and from chance if it is a noisy one.

use proptest::prelude::*;

use super::*;

/// The search to its end, and all attempts, if this is what each shows.
fn searched(rates: Rates, mut shows: impl FnMut(Attempt) -> Shown) -> (RateSearch, Vec<Attempt>) {
    let (mut search, mut attempts) = (RateSearch::new(rates), Vec::new());
    while let Some(attempt) = search.next_attempt() {
        attempts.push(attempt);
        assert!(attempts.len() <= ATTEMPTS_MAX as usize, "it does not end: {search:?}");
        search.take(shows(attempt));
    }
    (search, attempts)
}

/// A server that bears so much.
fn bears(capacity: f64) -> impl Fn(Attempt) -> Shown {
    move |attempt| if attempt.rate <= capacity { Shown::Held } else { Shown::Broken }
}

fn rates() -> impl Strategy<Value = Rates> {
    let range = (0.01_f64..1e4, 1.0_f64..1e4, 0.0_f64..=1.0);
    (range, 0.005_f64..0.5, 1_u32..4).prop_map(|((lowest, span, at), precision, repeats)| {
        let highest = lowest * span;
        let first = (lowest + (highest - lowest) * at).clamp(lowest, highest);
        Rates { first, lowest, highest, precision, repeats, confirms: true }
    })
}

proptest! {
    /// Whatever the server bears, the result is that to within the precision, and the last run confirmed it.
    #[test]
    fn what_a_server_bears_is_found_to_the_precision(rates in rates(), at in -0.2_f64..1.2) {
        let capacity = (rates.lowest + (rates.highest - rates.lowest) * at).max(1e-6);
        let (search, attempts) = searched(rates, bears(capacity));
        if capacity < rates.lowest {
            prop_assert_eq!((search.highest(), search.end()), (None, End::NothingHeld));
            prop_assert_eq!(attempts.last().map(|last| last.rate), Some(rates.lowest));
            return Ok(());
        }
        let found = search.highest().unwrap();
        prop_assert!(found <= capacity && search.is_confirmed(), "{found} of {capacity}");
        prop_assert_eq!(attempts.last(), Some(&Attempt { rate: found, stage: Stage::Confirm }));
        if capacity >= rates.highest {
            prop_assert_eq!((found, search.end()), (rates.highest, End::Highest));
        } else {
            prop_assert!(found >= capacity * (1.0 - rates.precision) * (1.0 - 1e-9), "{found} of {capacity}");
            prop_assert_eq!(search.end(), End::Found);
            prop_assert!(search.lowest_failed().unwrap() > capacity);
        }
    }

    /// Whatever runs show, the search ends, stays within its rates, and calls a rate confirmed only if it held in the last run.
    #[test]
    fn any_verdicts_end_a_search(rates in rates(), seen in prop::collection::vec(0_u8..3, ATTEMPTS_MAX as usize)) {
        let mut shown = seen.into_iter().map(|one| [Shown::Held, Shown::Broken, Shown::NotReached][usize::from(one)]);
        let mut last = None;
        let (search, attempts) = searched(rates, |_| {
            let one = shown.next().unwrap();
            last = Some(one);
            one
        });
        for attempt in &attempts {
            prop_assert!((rates.lowest..=rates.highest).contains(&attempt.rate), "{attempt:?}");
        }
        let confirming = attempts.last().filter(|last| last.stage == Stage::Confirm);
        let confirmed = confirming.filter(|_| last == Some(Shown::Held)).map(|last| last.rate);
        prop_assert_eq!(search.is_confirmed(), confirmed.is_some());
        if search.is_confirmed() {
            prop_assert_eq!(search.highest(), confirmed);
        }
        prop_assert!(search.end() != End::Found || search.is_confirmed());
    }

    /// A server that bears more for a short time than for a long one: the result is what it bears for long.
    #[test]
    fn what_holds_only_for_a_short_time_is_stepped_down(rates in rates(), at in 0.0_f64..1.0, extra in 1.0_f64..3.0) {
        let capacity = rates.lowest + (rates.highest - rates.lowest) * at;
        let (search, attempts) = searched(rates, |attempt| {
            let borne = if attempt.stage == Stage::Search { capacity * extra } else { capacity };
            bears(borne)(attempt)
        });
        let found = search.highest().unwrap();
        prop_assert!(found <= capacity && search.is_confirmed(), "{found} of {capacity}");
        let confirming: Vec<f64> =
            attempts.iter().filter(|one| one.stage == Stage::Confirm).map(|one| one.rate).collect();
        prop_assert!(confirming.is_sorted_by(|one, next| one > next), "{confirming:?}");
    }
}

#[test]
fn the_highest_rate_is_found_from_below_and_from_above() {
    for first in [100.0, 1_000_000.0] {
        let (search, attempts) = searched(Rates { first, ..Rates::default() }, bears(123_456.0));
        let rate = search.highest().expect("it bears some rate");
        assert!((0.95..=1.0).contains(&(rate / 123_456.0)), "{rate} from {first}");
        assert!(attempts.len() < 20, "{} runs from {first}", attempts.len());
        assert!(!search.is_limited_here());
    }
}

#[test]
fn a_rate_that_is_not_confirmed_gives_way_to_lower_ones() {
    let shows = |attempt: Attempt| match attempt.stage {
        Stage::Search => bears(16_000.0)(attempt),
        Stage::Confirm => bears(14_000.0)(attempt),
    };
    let (search, attempts) = searched(Rates::default(), shows);
    let confirming: Vec<f64> =
        attempts.iter().filter(|one| one.stage == Stage::Confirm).map(|one| one.rate.round()).collect();
    // By 5 % of it, and by 10 % of that.
    assert_eq!(confirming, [16_000.0, 15_200.0, 13_680.0]);
    assert_eq!((search.highest().map(f64::round), search.end()), (Some(13_680.0), End::Found));
    // One that never holds for long.
    let (search, attempts) = searched(Rates::default(), |attempt| match attempt.stage {
        Stage::Search => bears(16_000.0)(attempt),
        Stage::Confirm => Shown::Broken,
    });
    assert_eq!((search.highest(), search.end()), (None, End::NothingHeld));
    assert_eq!(attempts.last().map(|last| last.rate), Some(1.0));
}

#[test]
fn the_limit_of_this_end_is_told_unless_the_server_gives_way_below() {
    // These limits end the search with a run that holds, and with one that does not.
    for reached in [99_000.0, 101_000.0, 123_456.0, 150_000.0] {
        let reaches = |rate: f64| if rate <= reached { Shown::Held } else { Shown::NotReached };
        let (search, _) = searched(Rates::default(), |attempt| reaches(attempt.rate));
        assert!(search.is_limited_here() && search.is_confirmed(), "{reached}");
        assert_eq!(search.end(), End::Generator);
        let (search, _) = searched(Rates::default(), |attempt| match reaches(attempt.rate) {
            Shown::Held => bears(reached / 2.0)(attempt),
            other => other,
        });
        assert_eq!((search.is_limited_here(), search.end()), (false, End::Found), "{reached}");
    }
    let (search, _) = searched(Rates::default(), |_| Shown::NotReached);
    assert_eq!((search.highest(), search.end()), (None, End::Generator));
}

#[test]
fn each_rate_has_to_hold_as_often_as_asked() {
    let rates = Rates { repeats: 3, highest: 4000.0, ..Rates::default() };
    let (_, attempts) = searched(rates, |_| Shown::Held);
    let searching: Vec<f64> =
        attempts.iter().filter(|one| one.stage == Stage::Search).map(|one| one.rate).collect();
    assert_eq!(searching, [1000.0, 1000.0, 1000.0, 2000.0, 2000.0, 2000.0, 4000.0, 4000.0, 4000.0]);
    // The longer run is one.
    assert_eq!(attempts.len(), 10);
    // The second time it breaks: that is enough.
    let mut times = 0;
    let (search, attempts) = searched(Rates { lowest: 1000.0, ..rates }, |_| {
        times += 1;
        if times == 2 { Shown::Broken } else { Shown::Held }
    });
    assert_eq!((attempts.len(), search.end()), (2, End::NothingHeld));
}

#[test]
fn a_search_of_many_runs_ends_and_says_that_it_was_cut() {
    let rates = Rates { repeats: ATTEMPTS_MAX, ..Rates::default() };
    let (search, attempts) = searched(rates, |_| Shown::Held);
    assert_eq!((attempts.len(), search.highest()), (ATTEMPTS_MAX as usize, Some(1000.0)));
    assert_eq!((search.end(), search.is_confirmed()), (End::Attempts, false));
}

#[test]
fn a_search_that_is_none_is_refused() {
    let usual = Rates::default();
    for (wrong, said) in [
        (Rates { first: f64::NAN, ..usual }, "between"),
        (Rates { first: 0.5, ..usual }, "between"),
        (Rates { lowest: 0.0, ..usual }, "requests a second"),
        (Rates { lowest: f64::NAN, ..usual }, "requests a second"),
        (Rates { highest: f64::INFINITY, ..usual }, "requests a second"),
        (Rates { lowest: 5000.0, highest: 2000.0, first: 3000.0, ..usual }, "between"),
        (Rates { precision: 0.0, ..usual }, "precision"),
        (Rates { precision: f64::NAN, ..usual }, "precision"),
        (Rates { repeats: 0, ..usual }, "0 runs at each rate"),
        (Rates { repeats: ATTEMPTS_MAX + 1, ..usual }, "101 runs at each rate"),
    ] {
        let refused = wrong.check().unwrap_err().to_string();
        assert!(refused.contains(said), "{wrong:?}: {refused}");
    }
    assert!(usual.check().is_ok());
}
