//! The result of `diff` as a typed value, which is also its JSON (`anywire.diff/1`); unknown is `null`.

use serde::{Deserialize, Serialize};

use crate::contrast::{Contrast, MetricContrast};
use crate::diff::errors_forbid;
use crate::diff::facts::Differences;
use crate::host::Tool;
use crate::rounds::Round;

/// All that two results show against each other. `Display` prints it as tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiffOutcome {
    /// The form of this object: `anywire.diff/1`.
    pub schema: String,
    /// What compared.
    pub tool: Tool,
    /// The form of both results.
    pub compared: String,
    /// Whether they are of different plans, and were compared all the same.
    pub forced: bool,
    /// What differs beside the figures.
    pub differences: Differences,
    /// The servers that are in both.
    pub pairs: Vec<DiffPair>,
    /// The names of those that are only in the old one.
    pub only_in_old: Vec<String>,
    /// The names of those that are only in the new one.
    pub only_in_new: Vec<String>,
}

/// A server that is in both results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiffPair {
    /// Its name.
    pub name: String,
    /// What its rounds show; a is the old result.
    pub contrast: Contrast,
    /// Its rounds in the old result.
    pub old: Vec<Round>,
    /// Its rounds in the new one.
    pub new: Vec<Round>,
}

impl DiffPair {
    /// Why there is no verdict: too many requests to one of them failed.
    pub fn why_no_verdict(&self) -> Option<String> {
        errors_forbid(&self.old, &self.new)
    }
}

impl DiffOutcome {
    /// The JSON of this outcome, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome holds only strings, numbers and lists")
    }

    /// The servers and metrics that are shown to be worse by more than `limit`: 0.05 is 5 %.
    pub fn regressions(&self, limit: f64) -> Vec<(&DiffPair, &MetricContrast)> {
        self.pairs
            .iter()
            .flat_map(|pair| pair.contrast.regressions(limit).into_iter().map(move |one| (pair, one)))
            .collect()
    }

    /// What each pair is called on either side.
    pub(crate) fn names(&self, pair: &DiffPair) -> [String; 2] {
        match self.pairs.len() {
            1 => ["old".to_owned(), "new".to_owned()],
            _ => [format!("{} (old)", pair.name), format!("{} (new)", pair.name)],
        }
    }

    /// All that is to be said beside the figures, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.differences.lines();
        if self.forced {
            remarks
                .insert(0, "the results are of different plans, and were compared all the same".to_owned());
        }
        let only = |names: &[String], which| {
            (!names.is_empty()).then(|| format!("only in the {which} result: {}", names.join(", ")))
        };
        remarks.extend(only(&self.only_in_old, "old"));
        remarks.extend(only(&self.only_in_new, "new"));
        remarks.push(
            "the results are of different times, and what the machine did counts as a difference; 'anywire ab' lets both servers take turns"
                .to_owned(),
        );
        remarks
    }
}

/// The form of a [`DiffOutcome`].
pub const SCHEMA: &str = "anywire.diff/1";
