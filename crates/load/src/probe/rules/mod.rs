//! The rules: each looks at the figures of an outcome, and says what it finds, why that costs, and what to change.
//!
//! Rules are functions of figures alone, so a test gives them figures. Their thresholds are counts and shares of many requests, and
//! times only where the kernel's own timers (40 ms, 1 s) are far above what a busy machine adds.

mod connection;
mod machine;
mod requests;
mod trust;
mod writes;

use super::outcome::Outcome;
use super::verdict::{Class, Severity, Verdict};

/// What a rule has found. The rest of its verdict never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    severity: Severity,
    evidence: String,
}

impl Found {
    fn note(evidence: String) -> Self {
        Self { severity: Severity::Note, evidence }
    }

    fn warning(evidence: String) -> Self {
        Self { severity: Severity::Warning, evidence }
    }

    fn problem(evidence: String) -> Self {
        Self { severity: Severity::Problem, evidence }
    }
}

/// A rule.
struct Rule {
    class: Class,
    judge: fn(&Outcome) -> Option<Found>,
    /// Why what it finds costs.
    why: &'static str,
    /// What to change.
    change: &'static str,
}

/// All verdicts on these figures, the worst first. None if no rule has anything to say.
pub(super) fn judge(outcome: &Outcome) -> Vec<Verdict> {
    let rules = [writes::RULES, connection::RULES, requests::RULES, machine::RULES, trust::RULES];
    let mut verdicts: Vec<Verdict> = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| {
            let Found { severity, evidence } = (rule.judge)(outcome)?;
            let (why, change) = (rule.why.to_owned(), rule.change.to_owned());
            Some(Verdict { class: rule.class, severity, evidence, why, change })
        })
        .collect();
    verdicts.sort_by_key(|verdict| (std::cmp::Reverse(verdict.severity), verdict.class));
    verdicts
}

/// The verdict that there is nothing to say.
pub(super) fn clean(outcome: &Outcome) -> Verdict {
    let answers = outcome.latency.map_or(0, |latency| latency.spread.count);
    Verdict {
        class: Class::Clean,
        severity: Severity::None,
        evidence: match (outcome.segments, answers) {
            (Some(segments), _) => format!(
                "an answer takes {:.2} data segments where {:.2} would do, on {answers} answers",
                segments.per_response, segments.expected
            ),
            (None, 0) => "nothing that was measured shows a fault".to_owned(),
            (None, _) => format!("nothing that was measured on {answers} answers shows a fault"),
        },
        why: "nothing costs more than it must, as far as this probe can see".to_owned(),
        change: "nothing".to_owned(),
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
