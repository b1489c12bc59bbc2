//! The runs of a search, one after the other, and the outcome of the one that bore most.

use std::time::Duration;

use anywire_loops::Loops;

use super::figures::{SearchFigures, Trial};
use super::rates::{Attempt, End, RateSearch, Rates, Stage};
use crate::engine::run;
use crate::errors::LoadError;
use crate::handles::Handles;
use crate::outcome::Outcome;
use crate::plan::{Amount, Plan};
use crate::require::{Requirement, judge};
use crate::schedule::{Schedule, Shape};
use crate::stop::Stop;

/// What to search for.
///
/// ```
/// use anywire_load::search::{Rates, Search};
///
/// let search = Search {
///     rates: Rates { lowest: 100.0, highest: 50_000.0, ..Rates::default() },
///     required: vec!["p99.9<20ms".parse()?],
///     ..Search::default()
/// };
/// assert!(search.check().is_ok());
/// # Ok::<(), anywire_load::RequireError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Where to look, and how closely.
    pub rates: Rates,
    /// What a rate has to keep to (`p99<5ms` and `errors<0.1%`). It has to be reached, too: at least 99 % of the requests leave in time.
    pub required: Vec<Requirement>,
    /// How long each rate is measured (10 s).
    pub time: Duration,
    /// How long the rate that was found is measured once more (30 s).
    pub confirm_time: Duration,
}

impl Default for Search {
    fn default() -> Self {
        let usual = |text: &str| text.parse().expect("it is written as thresholds are");
        Self {
            rates: Rates::default(),
            required: USUAL_REQUIRED.map(usual).to_vec(),
            time: Duration::from_secs(10),
            confirm_time: Duration::from_secs(30),
        }
    }
}

impl Search {
    /// Whether such a search is possible.
    ///
    /// # Errors
    ///
    /// As [`Rates::check`].
    pub fn check(&self) -> Result<(), LoadError> {
        self.rates.check()
    }

    /// The plan of an attempt: at its rate, with the gaps and the seed of the plan's schedule if it has one, else in even gaps.
    pub fn plan(&self, plan: &Plan, attempt: &Attempt) -> Plan {
        let shape = Shape::Constant { per_second: attempt.rate };
        let schedule = plan.schedule.map_or_else(|| Schedule::of(shape), |all| Schedule { shape, ..all });
        let time = match attempt.stage {
            Stage::Search => self.time,
            Stage::Confirm => self.confirm_time,
        };
        Plan { schedule: Some(schedule), amount: Amount::Duration(time), ..plan.clone() }
    }
}

/// Searches for the highest rate at which the plan keeps to what is required; its own rate and amount do not count. `told` hears of
/// each run. Blocks until the end.
///
/// The outcome is that of the run that bore most, or of the last one if no rate held, with what was tried in
/// [`Outcome::search`]. A stop keeps what was found until then.
///
/// ```no_run
/// use anywire_load::search::{Search, search};
/// use anywire_load::{Handles, Plan};
/// use anywire_loops::Loops;
///
/// let plan = Plan::new("http://127.0.0.1:8080/");
/// let outcome = search(&Loops::start(2)?, &plan, &Handles::default(), &Search::default(), |trial| println!("{trial}"))?;
/// if let Some(rate) = outcome.search.and_then(|found| found.highest_rate) {
///     println!("it bears {rate} requests a second");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`run`]; and if the search is none ([`Search::check`]).
pub fn search(
    loops: &Loops,
    plan: &Plan,
    handles: &Handles,
    search: &Search,
    told: impl FnMut(&Trial),
) -> Result<Outcome, LoadError> {
    search_by(search, &handles.stop, |attempt| run(loops, search.plan(plan, attempt), handles.clone()), told)
}

/// The same search, whose runs are carried out by `run`: on several machines, or watched by a screen. Between two of them it looks at
/// `stop`.
///
/// # Errors
///
/// Those of `run`; and if the search is none ([`Search::check`]).
pub fn search_by<E: From<LoadError>>(
    search: &Search,
    stop: &Stop,
    mut run: impl FnMut(&Attempt) -> Result<Outcome, E>,
    mut told: impl FnMut(&Trial),
) -> Result<Outcome, E> {
    search.check()?;
    let mut rates = RateSearch::new(search.rates);
    let (mut best, mut trials, mut was_silent) = (None, Vec::new(), false);
    let end = loop {
        let Some(attempt) = rates.next_attempt() else { break rates.end() };
        if stop.is_stopped() && best.is_some() {
            break End::Interrupted;
        }
        let mut outcome = run(&attempt)?;
        outcome.thresholds = judge(&search.required, &outcome);
        let (trial, shown) = Trial::of(&attempt, &outcome);
        told(&trial);
        trials.push(trial);
        let is_silent = outcome.no_good_answer().is_some();
        let Some(shown) = shown else {
            best.get_or_insert(outcome);
            break End::Interrupted;
        };
        rates.take(shown);
        if rates.is_result(&attempt) {
            best = Some(outcome);
        }
        // One rate may be so high that nothing is answered in time. A server that is not there answers at no rate.
        if is_silent && (was_silent || rates.highest().is_none()) {
            break End::NoAnswer;
        }
        was_silent = is_silent;
    };
    let outcome: Outcome = best.expect("there is an attempt, and its outcome is kept");
    let figures = SearchFigures {
        required: search.required.iter().map(ToString::to_string).collect(),
        precision: search.rates.precision,
        highest_rate: rates.highest(),
        confirmed: rates.is_confirmed(),
        lowest_failed: rates.lowest_failed(),
        end,
        trials,
    };
    Ok(Outcome { search: Some(figures), ..outcome })
}

/// What a rate has to keep to if nothing else is said.
const USUAL_REQUIRED: [&str; 2] = ["p99<5ms", "errors<0.1%"];
