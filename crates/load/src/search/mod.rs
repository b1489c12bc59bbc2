//! The highest rate that a service bears: rates double until one does not hold, the distance is halved until it is small enough,
//! and what was found has to hold once more, for longer.
//!
//! Which rate comes next is decided without a clock and without a server ([`RateSearch`]); loads of requests and loads of datagrams
//! share it. [`search`] runs a plan at each of these rates and judges it by thresholds. Its result is the [`Outcome`](crate::Outcome) of
//! the run that bore most, with all that was tried in [`Outcome::search`](crate::Outcome::search).
//!
//! A rate at which this end was too slow says nothing of the service. Lower rates are tried then, and the result says that this end was
//! the limit, unless the service gives way below.

mod figures;
mod rates;
mod run;
mod text;

pub use figures::{SearchFigures, Trial, TrialLatency};
pub use rates::{ATTEMPTS_MAX, Attempt, End, RateSearch, Rates, Shown, Stage};
pub use run::{Search, search, search_by};
pub(crate) use text::TRIAL_HEADINGS;
