//! The search for the highest rate with a loss that is still taken (in the manner of RFC 2544, section 26.1). Which rate comes next is
//! decided by [`RateSearch`], as for requests.

use anywire_loops::Loops;
use serde::{Deserialize, Serialize};

use super::outcome::UdpOutcome;
use super::plan::{UdpLoadError, UdpPlan, within};
use super::run::run;
use crate::handles::Handles;
use crate::schedule::{Schedule, Shape};
use crate::search::{ATTEMPTS_MAX, Attempt, RateSearch, Rates, Shown, Stage};

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The share of datagrams that may be lost (0): 0 to 1.
    pub loss_max: f64,
    /// How near the result has to be, as a share of it (0.05): 0.001 to 1.
    pub precision: f64,
    /// Runs at a rate, all of which must hold (1): 1 to [`Search::REPEATS_MAX`].
    pub repeats: usize,
    /// How many times as long as another run the last one is, in which the rate that was found must hold once more (3): up to
    /// [`Search::CONFIRM_MAX`]; 0 for none.
    pub confirm: u32,
}

impl Search {
    /// The most runs at a rate: as many as a search has in all.
    pub const REPEATS_MAX: usize = ATTEMPTS_MAX as usize;
    /// The longest last run, in times of another.
    pub const CONFIRM_MAX: u32 = 1000;

    fn check(&self) -> Result<(), UdpLoadError> {
        within("as the share that may be lost", self.loss_max, 0.0, 1.0)?;
        within("as the precision of the search", self.precision, 0.001, 1.0)?;
        within("runs at each rate", self.repeats as f64, 1.0, Self::REPEATS_MAX as f64)?;
        within("times as long for the last run", self.confirm.into(), 0.0, Self::CONFIRM_MAX.into())
    }

    /// Where to look: at a rate at which the plan has no datagram, or too many, is no result that could be had.
    fn rates(&self, plan: &UdpPlan) -> Rates {
        let first = plan.schedule.shape.first();
        let (least, most) = plan.rates_possible();
        Rates {
            first,
            lowest: least.max(RATE_MIN).min(first),
            highest: most.min(RATE_MAX).max(first),
            precision: self.precision,
            repeats: self.repeats as u32,
            confirms: self.confirm > 0,
        }
    }

    fn plan(&self, plan: &UdpPlan, attempt: &Attempt) -> UdpPlan {
        let times = if attempt.stage == Stage::Confirm { self.confirm } else { 1 };
        let shape = Shape::Constant { per_second: attempt.rate };
        let plan = UdpPlan { schedule: Schedule { shape, ..plan.schedule }, ..plan.clone() };
        UdpPlan { duration: plan.longer(times), ..plan }
    }
}

impl Default for Search {
    fn default() -> Self {
        Self { loss_max: 0.0, precision: 0.05, repeats: 1, confirm: 3 }
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// The share of datagrams that may be lost.
    pub loss_max: f64,
    /// The highest rate at which no more was lost, in datagrams a second; `null` if none held.
    pub highest_rate: Option<f64>,
    /// Whether it held in the longer run at the end, too.
    #[serde(default)]
    pub confirmed: bool,
    /// Whether the search ended because this end could send no faster, so that the service may stand more.
    pub limited_by_sender: bool,
    /// All runs, in their order.
    pub trials: Vec<Trial>,
    /// Whether it was ended early: higher rates may hold that were not tried.
    #[serde(default)]
    pub interrupted: bool,
    /// The whole account of the best run, or of the last one if none held.
    pub outcome: UdpOutcome,
}

/// One run of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it was for.
    #[serde(default = "searching")]
    pub stage: Stage,
    /// Datagrams a second that were asked for.
    pub datagrams_per_second: f64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that were lost.
    pub lost: u64,
    /// Whether it lost no more than may be; `null` if it was ended early, which shows nothing of its rate.
    pub held: Option<bool>,
    /// Whether this end kept its rate; `null` as above.
    pub kept: Option<bool>,
}

/// What runs were for before there were longer ones.
fn searching() -> Stage {
    Stage::Search
}

impl Trial {
    /// With what it shows of its rate; nothing, if it was ended early.
    fn of(attempt: &Attempt, outcome: &UdpOutcome, loss_max: f64) -> (Self, Option<Shown>) {
        let kept = outcome.kept_its_rate();
        let held = outcome.loss.is_none_or(|loss| loss <= loss_max);
        let shown = |is_so: bool| (!outcome.rate.interrupted).then_some(is_so);
        let trial = Self {
            stage: attempt.stage,
            datagrams_per_second: attempt.rate,
            sent: outcome.sent,
            lost: outcome.lost,
            held: shown(held),
            kept: shown(kept),
        };
        let verdict = match (held, kept) {
            (true, true) => Shown::Held,
            // A rate that this end does not reach says nothing of the service.
            (true, false) => Shown::NotReached,
            (false, _) => Shown::Broken,
        };
        (trial, (!outcome.rate.interrupted).then_some(verdict))
    }
}

/// Doubles the plan's rate until too much is lost or this end cannot send so fast, and then halves the distance until it is
/// near enough; at the end that rate must hold in a longer run. `told` hears of each run. Blocks until the end; not to be called on a loop.
///
/// # Errors
/// As [`run`], and [`UdpLoadError::Limit`] if a field of `search` is out of its bounds.
pub fn search(
    loops: &Loops,
    plan: &UdpPlan,
    handles: &Handles,
    search: &Search,
    mut told: impl FnMut(&Trial),
) -> Result<SearchOutcome, UdpLoadError> {
    search.check()?;
    plan.check()?;
    let mut rates = RateSearch::new(search.rates(plan));
    let (mut best, mut trials): (Option<UdpOutcome>, _) = (None, Vec::new());
    let interrupted = loop {
        let Some(attempt) = rates.next_attempt() else { break false };
        if best.is_some() && handles.stop.is_stopped() {
            break true;
        }
        let outcome = run(loops, search.plan(plan, &attempt), handles.clone())?;
        let (trial, shown) = Trial::of(&attempt, &outcome, search.loss_max);
        told(&trial);
        trials.push(trial);
        let Some(shown) = shown else {
            best.get_or_insert(outcome);
            break true;
        };
        rates.take(shown);
        // Without a receiver no rate holds.
        let is_nobody_there = outcome.received == 0 && outcome.unreachable > 0;
        if rates.is_result(&attempt) {
            best = Some(outcome);
        }
        if is_nobody_there {
            break false;
        }
    };
    Ok(SearchOutcome {
        loss_max: search.loss_max,
        highest_rate: rates.highest(),
        confirmed: rates.is_confirmed(),
        limited_by_sender: rates.is_limited_here(),
        trials,
        interrupted,
        outcome: best.expect("there is a run, and the first one is kept"),
    })
}

const RATE_MAX: f64 = 5e7;
const RATE_MIN: f64 = 1.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_search_that_is_none_is_refused() {
        for (wrong, what) in [
            (Search { repeats: 0, ..Search::default() }, "0 runs at each rate"),
            (Search { repeats: Search::REPEATS_MAX + 1, ..Search::default() }, "101 runs at each rate"),
            (Search { loss_max: f64::NAN, ..Search::default() }, "share that may be lost"),
            (Search { precision: 0.0, ..Search::default() }, "precision"),
            (Search { confirm: u32::MAX, ..Search::default() }, "times as long"),
        ] {
            // Refused before anything is sent: no server runs at this address.
            let loops = Loops::start(1).expect("a thread");
            let plan = UdpPlan::new("udp:127.0.0.1:1").expect("an address");
            let said = search(&loops, &plan, &Handles::default(), &wrong, |trial| panic!("{trial:?}"))
                .expect_err("it is none");
            assert!(matches!(said, UdpLoadError::Limit { .. }), "{said:?}");
            assert!(said.to_string().contains(what), "{said}");
        }
    }

    #[test]
    fn each_rate_to_try_has_datagrams_and_not_too_many() {
        let usual = UdpPlan::new("udp:127.0.0.1:1").expect("an address");
        for (duration, first) in [(0.1, 50.0), (1e-3, 1e6), (3600.0, 1000.0), (1e8, 0.5), (5.0, 5e7)] {
            let plan = UdpPlan {
                duration: Duration::from_secs_f64(duration),
                schedule: Schedule::constant(first),
                ..usual.clone()
            };
            plan.check().expect("the first one is possible");
            let search = Search::default();
            let rates = search.rates(&plan);
            rates.check().expect("they are rates");
            for rate in [rates.lowest, rates.first, rates.highest] {
                for stage in [Stage::Search, Stage::Confirm] {
                    let tried = search.plan(&plan, &Attempt { rate, stage });
                    assert!(tried.check().is_ok(), "{rate} for {duration} s: {:?}", tried.check());
                }
            }
        }
    }
}
