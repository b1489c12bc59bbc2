//! The search for the highest rate with a loss that is still taken (in the manner of RFC 2544, section 26.1).

use anywire_loops::Loops;
use serde::{Deserialize, Serialize};

use super::outcome::UdpOutcome;
use super::plan::{UdpLoadError, UdpPlan, within};
use super::run::run;

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The share of datagrams that may be lost (0): 0 to 1.
    pub loss_max: f64,
    /// How near the result has to be, as a share of it (0.05): 0.001 to 1.
    pub precision: f64,
    /// Runs at a rate, all of which must hold (1): 1 to [`Search::REPEATS_MAX`].
    pub repeats: usize,
}

impl Search {
    /// The most runs at a rate: as many as a search has in all.
    pub const REPEATS_MAX: usize = TRIALS_MAX;

    fn check(&self) -> Result<(), UdpLoadError> {
        within("as the share that may be lost", self.loss_max, 0.0, 1.0)?;
        within("as the precision of the search", self.precision, 0.001, 1.0)?;
        within("runs at each rate", self.repeats as f64, 1.0, Self::REPEATS_MAX as f64)
    }
}

impl Default for Search {
    fn default() -> Self {
        Self { loss_max: 0.0, precision: 0.05, repeats: 1 }
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// The share of datagrams that may be lost.
    pub loss_max: f64,
    /// The highest rate at which no more was lost, in datagrams a second; `null` if none held.
    pub highest_rate: Option<f64>,
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

/// Doubles the plan's rate until too much is lost or this end cannot send so fast, and then halves the distance until it is
/// near enough. `told` hears of each run. Blocks until the end; not to be called on a loop.
///
/// # Errors
/// As [`run`], and [`UdpLoadError::Limit`] if a field of `search` is out of its bounds.
pub fn search(
    loops: &Loops,
    plan: &UdpPlan,
    search: &Search,
    mut told: impl FnMut(&Trial),
) -> Result<SearchOutcome, UdpLoadError> {
    search.check()?;
    let mut bounds = Bounds::default();
    let (mut best, mut trials) = (None, Vec::new());
    let at = |rate| UdpPlan { datagrams_per_second: rate, ..plan.clone() };
    let mut rate = plan.datagrams_per_second;
    let interrupted = loop {
        let mut verdict = Verdict::Held;
        let (mut last, mut is_shown) = (None, true);
        let had_held = bounds.held_at.is_some();
        for left in (0..search.repeats).rev() {
            let outcome = run(loops, at(rate))?;
            let kept = outcome.kept_its_rate();
            let held = outcome.loss.is_none_or(|loss| loss <= search.loss_max);
            let (sent, lost) = (outcome.sent, outcome.lost);
            let interrupted = outcome.rate.interrupted;
            let shown = |is_so: bool| (!interrupted).then_some(is_so);
            let (datagrams_per_second, is_held, is_kept) = (rate, shown(held), shown(kept));
            let trial = Trial { datagrams_per_second, sent, lost, held: is_held, kept: is_kept };
            told(&trial);
            trials.push(trial);
            verdict = Verdict::of(held, kept);
            last = Some(outcome);
            // A run that was ended early has shown nothing. Nor has a rate that was not repeated as often as it was to be.
            is_shown = !interrupted && (verdict != Verdict::Held || left == 0 || !plan.stop.is_stopped());
            if verdict != Verdict::Held || !is_shown {
                break;
            }
        }
        if is_shown {
            bounds.take(rate, verdict);
        }
        if !had_held || (is_shown && verdict == Verdict::Held) {
            best = last;
        }
        // Without a receiver no rate holds.
        let is_nobody_there = best.as_ref().is_some_and(|best| best.received == 0 && best.unreachable > 0);
        // A rate at which the plan has no datagram, or too many, is no result that could be had.
        let next = bounds.next_rate(search.precision).filter(|rate| at(*rate).check().is_ok());
        match next.filter(|_| trials.len() < TRIALS_MAX && !is_nobody_there) {
            Some(_) if plan.stop.is_stopped() => break true,
            Some(next) => rate = next,
            None => break !is_shown,
        }
    };
    let outcome = best.expect("each rate has at least one run, and the first one is kept");
    let Bounds { held_at: highest_rate, limited_by_sender, .. } = bounds;
    let loss_max = search.loss_max;
    Ok(SearchOutcome { loss_max, highest_rate, limited_by_sender, trials, interrupted, outcome })
}

/// What the runs at a rate have shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Held,
    LostTooMuch,
    /// A rate that this end does not reach says nothing of the service.
    NotReached,
}

impl Verdict {
    fn of(held: bool, kept: bool) -> Self {
        match (held, kept) {
            (true, true) => Self::Held,
            (true, false) => Self::NotReached,
            (false, _) => Self::LostTooMuch,
        }
    }
}

/// Between which rates the result is.
#[derive(Default)]
struct Bounds {
    held_at: Option<f64>,
    failed_at: Option<f64>,
    /// Whether it was this end that failed there.
    limited_by_sender: bool,
}

impl Bounds {
    fn take(&mut self, rate: f64, verdict: Verdict) {
        if verdict == Verdict::Held {
            self.held_at = Some(rate);
        } else {
            (self.failed_at, self.limited_by_sender) = (Some(rate), verdict == Verdict::NotReached);
        }
    }

    /// The rate to try next; `None` if it is near enough.
    fn next_rate(&self, precision: f64) -> Option<f64> {
        match (self.held_at, self.failed_at) {
            (Some(held), None) => Some(held * 2.0).filter(|rate| *rate <= RATE_MAX),
            (None, Some(failed)) => Some(failed / 2.0).filter(|rate| *rate >= RATE_MIN),
            (Some(held), Some(failed)) => {
                (failed - held > precision * failed).then_some((held + failed) / 2.0)
            }
            (None, None) => None,
        }
    }
}

const TRIALS_MAX: usize = 100;
const RATE_MAX: f64 = 5e7;
const RATE_MIN: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The search from `begin` on, if this is what runs at a rate show: what it finds, and with how many runs.
    fn found(shows: impl Fn(f64) -> Verdict, begin: f64) -> (Bounds, usize) {
        let (mut bounds, mut rate, mut tried) = (Bounds::default(), begin, 0);
        loop {
            tried += 1;
            bounds.take(rate, shows(rate));
            match bounds.next_rate(0.05) {
                Some(next) => rate = next,
                None => return (bounds, tried),
            }
        }
    }

    fn stands(most: f64) -> impl Fn(f64) -> Verdict {
        move |rate| Verdict::of(rate <= most, true)
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for begin in [100.0, 1_000_000.0] {
            let (bounds, tried) = found(stands(123_456.0), begin);
            let rate = bounds.held_at.expect("it stands some rate");
            assert!((0.95..=1.0).contains(&(rate / 123_456.0)), "{rate} from {begin}");
            assert!(tried < 20, "{tried} runs from {begin}");
            assert!(!bounds.limited_by_sender);
        }
    }

    #[test]
    fn a_limit_of_the_sender_is_said_however_the_last_run_ends() {
        // These limits end the search with a run that holds, and with one that does not.
        for reached in [99_000.0, 101_000.0, 123_456.0, 150_000.0] {
            let (bounds, _) = found(|rate| Verdict::of(true, rate <= reached), 1000.0);
            assert!(bounds.limited_by_sender, "{reached}");
            // If the service loses first, that is the limit.
            let loses = |rate| Verdict::of(rate <= reached / 2.0, rate <= reached);
            assert!(!found(loses, 1000.0).0.limited_by_sender, "{reached}");
        }
    }

    #[test]
    fn a_search_that_is_none_is_refused() {
        for (wrong, what) in [
            (Search { repeats: 0, ..Search::default() }, "0 runs at each rate"),
            (Search { repeats: Search::REPEATS_MAX + 1, ..Search::default() }, "101 runs at each rate"),
            (Search { loss_max: f64::NAN, ..Search::default() }, "share that may be lost"),
            (Search { precision: 0.0, ..Search::default() }, "precision"),
        ] {
            // Refused before anything is sent: no server runs at this address.
            let loops = Loops::start(1).expect("a thread");
            let plan = UdpPlan::new("udp:127.0.0.1:1").expect("an address");
            let said = search(&loops, &plan, &wrong, |trial| panic!("{trial:?}")).expect_err("it is none");
            assert!(matches!(said, UdpLoadError::Limit { .. }), "{said:?}");
            assert!(said.to_string().contains(what), "{said}");
        }
    }

    #[test]
    fn a_service_that_stands_nothing_ends_the_search() {
        assert_eq!(found(stands(0.0), 1000.0).0.held_at, None);
        assert!(found(stands(f64::INFINITY), 1000.0).0.held_at.is_some());
    }
}
