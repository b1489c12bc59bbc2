//! What a search found and tried, as lines, as rows of the table and of the page, and as what must be known first.

use std::fmt;

use super::figures::{SearchFigures, Trial};
use super::rates::{End, Stage};
use crate::require::Verdict;
use crate::text::{Columns, digits, grouped, known, time, whole};

impl SearchFigures {
    /// What was found, in a sentence.
    pub fn found(&self) -> String {
        let required = self.required.join(" ");
        let Some(rate) = self.highest_rate else {
            let lowest = self.trials.iter().map(|trial| trial.target).fold(f64::INFINITY, f64::min);
            return match self.end {
                End::Interrupted => "no rate was found that holds: the search was ended before".to_owned(),
                End::NoAnswer => "no rate was found that holds: the server did not answer".to_owned(),
                End::Generator => {
                    format!(
                        "no rate was found that holds: the load generator was the limit at {}",
                        rate_of(lowest)
                    )
                }
                _ => format!("no rate keeps to {required}: not even {}", rate_of(lowest)),
            };
        };
        let confirmed = self.trials.last().filter(|_| self.confirmed);
        let confirmed = confirmed.map_or_else(
            || ", not confirmed by a longer run".to_owned(),
            |last| format!(", confirmed for {} s", digits(last.seconds)),
        );
        format!("highest rate that keeps to {required}: {}{confirmed}", rate_of(rate))
    }

    /// Why that is not the limit of the service, or how near it is; `None` if there is nothing to say.
    pub fn why(&self) -> Option<String> {
        Some(match self.end {
            End::Found | End::NothingHeld => {
                let failed =
                    |trial: &&Trial| Some(trial.target) == self.lowest_failed && trial.reason.is_some();
                let reason = self.trials.iter().rev().find(failed)?.reason.clone()?;
                format!("at {} it does not hold: {reason}", known(self.lowest_failed, rate_of))
            }
            End::Generator => {
                let failed = known(self.lowest_failed, rate_of);
                format!("the load generator was the limit at {failed}: the server may bear more")
            }
            End::Highest => "all rates held, up to the highest that was to be tried".to_owned(),
            End::Attempts => format!("the search ended after {} runs, before it was done", self.trials.len()),
            End::Interrupted => "the search was ended early: higher rates may hold".to_owned(),
            End::NoAnswer => "the server did not answer any more, which ended the search".to_owned(),
        })
    }

    /// All runs, for a terminal.
    pub(crate) fn table(&self) -> String {
        let mut columns = Columns::new(1, &TRIAL_HEADINGS);
        self.trials.iter().for_each(|trial| columns.row(trial.cells()));
        columns.render()
    }
}

impl Trial {
    /// Its row in the table and on the page.
    pub(crate) fn cells(&self) -> Vec<String> {
        let latency = |of: fn(&super::TrialLatency) -> f64| known(self.latency.as_ref().map(of), time);
        vec![
            stage(self.stage).to_owned(),
            rate_number(self.target),
            known(self.achieved, rate_number),
            digits(self.seconds),
            latency(|all| all.p50),
            latency(|all| all.p99),
            latency(|all| all.max),
            grouped(self.errors),
            self.verdict.words().to_owned(),
        ]
    }
}

/// A run in a line: `4,000/s: held, 4,000/s sent, p99 1.20 ms`.
impl fmt::Display for Trial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", rate_of(self.target), self.verdict.words())?;
        if self.stage == Stage::Confirm && self.verdict == Verdict::Held {
            write!(formatter, " for {} s", digits(self.seconds))?;
        }
        write!(formatter, ", {} sent", known(self.achieved, rate_of))?;
        if let Some(latency) = &self.latency {
            write!(formatter, ", p99 {}", time(latency.p99))?;
        }
        match &self.reason {
            Some(reason) => write!(formatter, "; {reason}"),
            None => Ok(()),
        }
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Search => "search",
        Stage::Confirm => "confirm",
    }
}

fn rate_of(per_second: f64) -> String {
    format!("{}/s", rate_number(per_second))
}

/// Rates of a search are halves of halves: below 100 their decimals count.
fn rate_number(per_second: f64) -> String {
    if per_second < 100.0 { digits(per_second) } else { whole(per_second) }
}

/// Above the cells of a run.
pub(crate) const TRIAL_HEADINGS: [&str; 9] =
    ["run", "requests/s", "sent/s", "s", "p50", "p99", "max", "errors", "verdict"];
