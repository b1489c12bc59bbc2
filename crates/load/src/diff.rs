//! `diff`: two stored results against each other, with the same tests as `ab`.
//!
//! Results of `load --rounds`, of `ab` and of `compare` hold rounds, and servers of the same name are compared. Without
//! rounds the differences are told, and no verdict is given: the requests of one run depend on each other. What differs in
//! host and plan is listed, and different plans are refused unless that is forced.

mod facts;
mod outcome;
mod table;

use anywire_advice::Advice;

use crate::contrast::{Contrast, Noise, why_errors_forbid};
use crate::host::Tool;
use crate::rounds::Round;
use crate::stored::{Series, Stored};

pub use facts::{Difference, Differences};
pub use outcome::{DiffOutcome, DiffPair, SCHEMA};

/// Compares two results, of which the new one is judged.
///
/// `seed` draws the resamples; `force` compares results of different plans too.
///
/// # Errors
///
/// They are of different kinds or plans, or have no server in common.
pub fn diff(
    old: &Stored,
    new: &Stored,
    noise: &Noise,
    seed: u32,
    force: bool,
) -> Result<DiffOutcome, DiffError> {
    if old.schema() != new.schema() {
        return Err(DiffError::OtherKind { old: old.schema(), new: new.schema() });
    }
    let differences = Differences::between(old, new);
    if !force && differences.is_other_plan() {
        let found = differences.plan.iter().filter(|one| one.is_of_load()).map(ToString::to_string);
        return Err(DiffError::OtherPlan { found: found.collect::<Vec<_>>().join(", ") });
    }
    let (of_old, of_new) = (old.series(), new.series());
    let lacks = |series: &[Series<'_>], name: &str| series.iter().all(|one| one.name != name);
    let only = |these: &[Series<'_>], those: &[Series<'_>]| {
        these.iter().filter(|one| lacks(those, one.name)).map(|one| one.name.to_owned()).collect::<Vec<_>>()
    };
    let pairs: Vec<DiffPair> = of_old
        .iter()
        .filter_map(|one| Some(pair(one, of_new.iter().find(|other| other.name == one.name)?, noise, seed)))
        .collect();
    if pairs.is_empty() {
        let names = |series: &[Series<'_>]| series.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        return Err(DiffError::NothingInCommon { old: names(&of_old), new: names(&of_new) });
    }
    Ok(DiffOutcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        compared: old.schema().to_owned(),
        forced: force && differences.is_other_plan(),
        differences,
        pairs,
        only_in_old: only(&of_old, &of_new),
        only_in_new: only(&of_new, &of_old),
    })
}

fn pair(old: &Series<'_>, new: &Series<'_>, noise: &Noise, seed: u32) -> DiffPair {
    let contrast = Contrast::of(&old.rounds, &new.rounds, false, noise, seed);
    let why_not = match old.is_one_run || new.is_one_run {
        true => Some(ONE_RUN.to_owned()),
        false => errors_forbid(&old.rounds, &new.rounds),
    };
    let contrast = why_not.map(|why| contrast.clone().without_verdict(&why)).unwrap_or(contrast);
    DiffPair { name: old.name.to_owned(), contrast, old: old.rounds.clone(), new: new.rounds.clone() }
}

/// Why requests that failed leave no verdict on these rounds.
pub(crate) fn errors_forbid(old: &[Round], new: &[Round]) -> Option<String> {
    [("the old server", old), ("the new server", new)].into_iter().find_map(|(name, rounds)| {
        let sum = |count: fn(&Round) -> u64| rounds.iter().map(count).fold(0, u64::saturating_add);
        why_errors_forbid(name, sum(|round| round.errors), sum(|round| round.answered))
    })
}

/// Why two results are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// One is of another command than the other.
    #[error(
        "the results are of different kinds, {old} and {new}{help}",
        help = Advice("compare two results of the same command")
    )]
    OtherKind {
        /// The schema of the old one.
        old: &'static str,
        /// The schema of the new one.
        new: &'static str,
    },
    /// They were measured by different plans.
    #[error(
        "the results are of different plans: {found}{help}",
        help = Advice("measure both in the same way; --force compares them all the same")
    )]
    OtherPlan {
        /// What differs.
        found: String,
    },
    /// No server has the same name in both.
    #[error(
        "no name is in both results: one has {old}, the other {new}{help}",
        help = Advice("give the servers the same names in both")
    )]
    NothingInCommon {
        /// The names of the old one.
        old: String,
        /// The names of the new one.
        new: String,
    },
}

/// Why a run is not judged.
const ONE_RUN: &str = "a file without rounds is one run, whose requests depend on each other; 'load --rounds 10' measures rounds";
