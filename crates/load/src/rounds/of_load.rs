//! The same load several times: one result with the rounds in it.

use crate::outcome::Outcome;
use crate::stored::one_run;

impl Outcome {
    /// The result of the same load that was run several times: that of the round in the middle by its rate, with all rounds in
    /// it, so that [`diff`](crate::diff::diff) can judge it. `None` without a run.
    ///
    /// A run that fell short of its plan stands for the whole instead, so that it is not overlooked. One that was ended early is
    /// no round, unless there is no other.
    pub fn of_rounds(mut outcomes: Vec<Self>) -> Option<Self> {
        if outcomes.len() > 1 {
            let whole = |outcome: &Self| !outcome.rate.interrupted;
            match outcomes.iter().any(whole) {
                true => outcomes.retain(whole),
                false => outcomes.truncate(1),
            }
        }
        let rounds = outcomes
            .iter()
            .enumerate()
            .map(|(index, outcome)| crate::rounds::Round { round: index + 1, ..one_run(outcome) })
            .collect();
        let failing =
            outcomes.iter().position(|one| one.no_good_answer().is_some() || one.shortfall().is_some());
        let mut by_rate: Vec<usize> = (0..outcomes.len()).collect();
        let rate = |index: &usize| outcomes[*index].rate.achieved.unwrap_or_default();
        by_rate.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
        let chosen = failing.or_else(|| by_rate.get(by_rate.len().saturating_sub(1) / 2).copied())?;
        Some(Self { rounds, ..outcomes.swap_remove(chosen) })
    }
}
