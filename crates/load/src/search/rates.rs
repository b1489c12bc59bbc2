//! Which rate a search tries next: verdicts in, rates out. It knows no clock and no server.

use serde::{Deserialize, Serialize};

use crate::errors::LoadError;
use crate::schedule::{RATE_MAX, RATE_MIN};

/// Where a search looks, and how closely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The rate to try first (1000/s): from `lowest` to `highest`.
    pub first: f64,
    /// The lowest rate to try (1/s): [`RATE_MIN`] or more.
    pub lowest: f64,
    /// The highest rate to try ([`RATE_MAX`]).
    pub highest: f64,
    /// How near the result has to be to a rate that does not hold, as a share of that (0.05): 0.001 to 1.
    pub precision: f64,
    /// Runs at a rate, all of which have to hold (1): 1 to [`ATTEMPTS_MAX`].
    pub repeats: u32,
    /// Whether the result has to hold once more at the end, in a longer run (yes).
    pub confirms: bool,
}

impl Default for Rates {
    fn default() -> Self {
        Self { first: 1000.0, lowest: 1.0, highest: RATE_MAX, precision: 0.05, repeats: 1, confirms: true }
    }
}

impl Rates {
    /// Whether such a search is possible.
    ///
    /// # Errors
    ///
    /// A rate is none, or `first` is not between the others; `precision` or `repeats` is out of its bounds.
    pub fn check(&self) -> Result<(), LoadError> {
        for rate in [self.lowest, self.highest] {
            // NaN is in no range.
            if !(RATE_MIN..=RATE_MAX).contains(&rate) {
                return Err(LoadError::Rate { rate });
            }
        }
        if !(self.lowest..=self.highest).contains(&self.first) {
            let Self { first, lowest, highest, .. } = *self;
            return Err(LoadError::SearchRange { first, lowest, highest });
        }
        if !(PRECISION_MIN..=1.0).contains(&self.precision) {
            return Err(LoadError::Precision { asked: self.precision });
        }
        if !(1..=ATTEMPTS_MAX).contains(&self.repeats) {
            let (what, asked, most) = ("runs at each rate", self.repeats.into(), ATTEMPTS_MAX.into());
            return Err(LoadError::Limit { what, asked, least: 1, most });
        }
        Ok(())
    }
}

/// A search under way. Ask it for the [next attempt](Self::next_attempt), and tell it what that has [`shown`](Self::take), until there is none.
///
/// ```
/// use anywire_load::search::{RateSearch, Rates, Shown};
///
/// // A service that bears 12,345 requests a second.
/// let mut search = RateSearch::new(Rates::default());
/// while let Some(attempt) = search.next_attempt() {
///     search.take(if attempt.rate <= 12_345.0 { Shown::Held } else { Shown::Broken });
/// }
/// let found = search.highest().unwrap();
/// assert!(search.is_confirmed() && (0.95 * 12_345.0..=12_345.0).contains(&found));
/// ```
#[derive(Debug, Clone)]
pub struct RateSearch {
    rates: Rates,
    next: Option<Attempt>,
    /// Runs at the rate of `next` that have to hold, with that one.
    left: u32,
    attempts: u32,
    /// The highest rate that held.
    held: Option<f64>,
    /// The lowest that did not, above it, and whether it was this end that failed there.
    failed: Option<(f64, bool)>,
    is_confirmed: bool,
    /// By which share the next rate to confirm is lower, if this one does not hold.
    step_down: f64,
}

/// A rate to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Requests a second.
    pub rate: f64,
    /// What it is for.
    pub stage: Stage,
}

/// What an attempt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// To find a rate.
    Search,
    /// To see, in a longer run, whether the rate that was found holds.
    Confirm,
}

/// What an attempt has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The service bears this rate.
    Held,
    /// It does not.
    Broken,
    /// This end did not reach the rate: that says nothing of the service.
    NotReached,
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The highest rate that holds was found: the next one above it that was tried does not.
    Found,
    /// No rate held, down to the lowest.
    NothingHeld,
    /// This end was the limit at the next rate above: the service may bear more.
    Generator,
    /// All rates held, up to the highest.
    Highest,
    /// There were as many attempts as there may be.
    Attempts,
    /// It was ended early: higher rates may hold that were not tried.
    Interrupted,
    /// The service did not answer any more.
    NoAnswer,
}

impl RateSearch {
    /// A search that has tried nothing yet. Its rates have been [checked](Rates::check).
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            next: Some(Attempt { rate: rates.first, stage: Stage::Search }),
            left: rates.repeats,
            attempts: 0,
            held: None,
            failed: None,
            is_confirmed: false,
            step_down: rates.precision,
        }
    }

    /// What to try next; `None` at the end.
    pub fn next_attempt(&self) -> Option<Attempt> {
        self.next
    }

    /// Takes what the [next attempt](Self::next_attempt) has shown. At the end it changes nothing.
    pub fn take(&mut self, shown: Shown) {
        let Some(Attempt { rate, stage }) = self.next else { return };
        self.attempts += 1;
        self.left = self.left.saturating_sub(1);
        self.next = match (stage, shown) {
            (Stage::Search, Shown::Held) if self.left > 0 => self.next,
            (Stage::Search, _) => {
                self.note(rate, shown);
                self.left = self.rates.repeats;
                self.next_rate().map(|rate| Attempt { rate, stage }).or_else(|| self.to_confirm())
            }
            (Stage::Confirm, Shown::Held) => {
                self.note(rate, shown);
                self.is_confirmed = true;
                None
            }
            (Stage::Confirm, _) => {
                // Shorter runs have held here, which counts for nothing beside a longer one.
                self.held = None;
                self.note(rate, shown);
                self.below(rate).map(|rate| Attempt { rate, stage })
            }
        };
        if self.attempts >= ATTEMPTS_MAX {
            self.next = None;
        }
    }

    /// The highest rate that held; `None` if none did, or if what was found did not hold in a longer run.
    pub fn highest(&self) -> Option<f64> {
        self.held
    }

    /// Whether the outcome of the attempt that was taken last stands for the search: it was at the highest rate, or no rate has held. The
    /// first of several runs at a rate says nothing yet, even if it held.
    pub(crate) fn is_result(&self, attempt: &Attempt) -> bool {
        self.held.is_none_or(|rate| rate == attempt.rate)
    }

    /// The lowest rate above it that did not hold.
    pub fn lowest_failed(&self) -> Option<f64> {
        self.failed.map(|(rate, _)| rate)
    }

    /// Whether the highest rate held in the longer run, too.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Whether this end was the limit at the lowest rate that failed.
    pub fn is_limited_here(&self) -> bool {
        self.failed.is_some_and(|(_, is_here)| is_here)
    }

    /// Why it has ended, if it was not ended by its caller.
    pub fn end(&self) -> End {
        let is_complete = self.held.is_none() || self.is_confirmed || !self.rates.confirms;
        match (self.held, self.failed) {
            _ if self.attempts >= ATTEMPTS_MAX && !is_complete => End::Attempts,
            (_, Some((_, true))) => End::Generator,
            (None, _) => End::NothingHeld,
            (Some(_), None) => End::Highest,
            (Some(_), Some(_)) => End::Found,
        }
    }

    fn note(&mut self, rate: f64, shown: Shown) {
        match shown {
            Shown::Held => self.held = Some(rate),
            Shown::Broken => self.failed = Some((rate, false)),
            Shown::NotReached => self.failed = Some((rate, true)),
        }
    }

    /// The rate to try next; `None` if the result is near enough.
    fn next_rate(&self) -> Option<f64> {
        let Rates { lowest, highest, precision, .. } = self.rates;
        match (self.held, self.failed) {
            (Some(held), None) => (held < highest).then(|| (held * 2.0).min(highest)),
            (None, Some((failed, _))) => (failed > lowest).then(|| (failed / 2.0).max(lowest)),
            (Some(held), Some((failed, _))) => {
                (failed - held > precision * failed).then_some(held + (failed - held) / 2.0)
            }
            (None, None) => None,
        }
    }

    fn to_confirm(&self) -> Option<Attempt> {
        let rate = self.held.filter(|_| self.rates.confirms)?;
        Some(Attempt { rate, stage: Stage::Confirm })
    }

    /// A lower rate to confirm: each step is twice as large as the one before, so that a service that got slower is not run for hours.
    fn below(&mut self, rate: f64) -> Option<f64> {
        if rate <= self.rates.lowest {
            return None;
        }
        let lower = rate * (1.0 - self.step_down).max(0.0);
        self.step_down *= 2.0;
        Some(lower.max(self.rates.lowest))
    }
}

/// The most runs of a search.
pub const ATTEMPTS_MAX: u32 = 100;
/// Finer than this no two runs agree.
const PRECISION_MIN: f64 = 0.001;

#[cfg(test)]
mod tests;
