//! A contrast as text: the sentence that stands first, and the rows of the table.

use crate::contrast::{Contrast, MetricContrast};
use crate::statistics::Verdict;
use crate::text::{digits, known};

impl Contrast {
    /// The whole result in one sentence, with `b` and `a` as the names of the sides: `B is slower than A: p99 +12 %`.
    pub fn sentence(&self, a: &str, b: &str) -> String {
        let shown = |verdict: Verdict| -> String {
            let found = self.metrics.iter().filter(|one| one.is_of_server());
            let found = found.filter(|one| one.judgement.verdict == Some(verdict));
            found.map(|one| format!("{} {}", one.title(), one.change())).collect::<Vec<_>>().join(", ")
        };
        match (self.verdict, &self.why_not) {
            (Some(verdict @ (Verdict::Faster | Verdict::Slower)), _) => {
                format!("{b} is {verdict} than {a}: {}", shown(verdict))
            }
            (Some(Verdict::NoDifferenceShown), _) => format!("no difference shown between {a} and {b}"),
            (None, Some(why)) => format!("no verdict on {b} against {a}: {why}"),
            (None, None) => format!("no verdict on {b} against {a}"),
        }
    }

    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.metrics
            .iter()
            .map(|one| {
                let judged = &one.judgement;
                let interval =
                    judged.ratio.map(|ratio| format!("{} .. {}", percent(ratio.low), percent(ratio.high)));
                vec![
                    one.title().to_owned(),
                    known(one.a, |value| one.write(value)),
                    known(one.b, |value| one.write(value)),
                    one.change(),
                    interval.unwrap_or_else(|| "-".to_owned()),
                    known(judged.p_holm, |p| format!("{p:.3}")),
                    known(Some(judged.noise * 100.0), |noise| format!("{} %", digits(noise))),
                    judged.verdict.map_or_else(|| "no verdict".to_owned(), |verdict| verdict.to_string()),
                ]
            })
            .collect()
    }

    /// How the verdicts came about.
    pub(crate) fn explanation(&self) -> String {
        format!(
            "p: Mann-Whitney, two-sided{}, after Holm's correction; a difference is shown at {} and beyond the noise limit ({})",
            if self.paired { ", on rounds in pairs" } else { "" },
            self.alpha,
            self.noise_from,
        )
    }

    /// The headings of the rows, with the names of the sides.
    pub(crate) fn headings<'n>(a: &'n str, b: &'n str) -> [&'n str; 8] {
        ["metric", a, b, "change", "95 % interval", "p", "noise", "verdict"]
    }
}

impl MetricContrast {
    /// How b differs from a: `-5.1 %`; a dash if it is unknown.
    pub fn change(&self) -> String {
        known(self.judgement.ratio.map(|ratio| ratio.ratio), percent)
    }
}

/// A ratio as a change in percent: `+5.1 %`.
fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    // What rounds to zero has no sign.
    if change.abs() < 0.005 {
        "0.00 %".to_owned()
    } else {
        format!("{}{} %", if change > 0.0 { "+" } else { "" }, digits(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_their_sign() {
        let texts = [1.0512, 0.9, 1.0, 1.000_01, 3.0].map(percent);
        assert_eq!(texts, ["+5.12 %", "-10.0 %", "0.00 %", "0.00 %", "+200 %"]);
    }
}
