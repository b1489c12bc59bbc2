//! What differs between two results beside their figures: the machine, the plan, the target, the tool.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stored::Stored;

/// What differs beside the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// Of the machine that measured.
    pub host: Vec<Difference>,
    /// Of how it measured.
    pub plan: Vec<Difference>,
    /// Of what it measured.
    pub target: Vec<Difference>,
    /// Of the tool.
    pub tool: Vec<Difference>,
}

impl Differences {
    /// Compares all facts of both results.
    pub fn between(old: &Stored, new: &Stored) -> Self {
        let (old, new) = (facts(old), facts(new));
        let of = |part: &str| {
            let mut found = Vec::new();
            collect("", old.get(part), new.get(part), &mut found);
            found
        };
        Self { host: of("host"), plan: of("plan"), target: of("target"), tool: of("tool") }
    }

    /// Whether the load was another one. Seeds and numbers of rounds make no other load, nor does the length of a request, in
    /// which the name of the server stands.
    pub fn is_other_plan(&self) -> bool {
        self.plan.iter().any(Difference::is_of_load)
    }

    /// All of them, one line each.
    pub fn lines(&self) -> Vec<String> {
        let parts =
            [("host", &self.host), ("plan", &self.plan), ("target", &self.target), ("tool", &self.tool)];
        parts.iter().flat_map(|(part, found)| found.iter().map(move |one| format!("{part}: {one}"))).collect()
    }
}

/// One fact that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Its name, with dots between those of what holds it.
    pub what: String,
    /// In the old result; `null` if it is not there.
    pub old: Value,
    /// In the new one; `null` if it is not there.
    pub new: Value,
}

impl Difference {
    /// Whether another load was made, if it is of the plan.
    pub(super) fn is_of_load(&self) -> bool {
        let name = self.what.rsplit('.').next().unwrap_or_default();
        !NOT_OF_LOAD.contains(&name)
    }
}

/// `connections 64 -> 128`
impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Value| match value {
            Value::Null => "unknown".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        write!(formatter, "{} {} -> {}", self.what, text(&self.old), text(&self.new))
    }
}

fn facts(stored: &Stored) -> Value {
    let json = match stored {
        Stored::Load(outcome) => serde_json::to_value(outcome),
        Stored::Ab(outcome) => serde_json::to_value(outcome),
        Stored::Compare(comparison) => serde_json::to_value(comparison),
    };
    json.expect("results hold only strings, numbers and lists")
}

/// Goes into objects; lists are compared as a whole.
fn collect(name: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        let added = new.keys().filter(|key| !old.contains_key(*key));
        for key in old.keys().chain(added) {
            let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            collect(&inner, old.get(key), new.get(key), found);
        }
    } else if old != new {
        found.push(Difference { what: name.to_owned(), old: old.clone(), new: new.clone() });
    }
}

/// What of a plan makes no other load.
const NOT_OF_LOAD: [&str; 3] = ["seed", "rounds", "request_bytes"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_are_found_at_any_depth_and_on_either_side() {
        let (old, new) = (
            json!({"a": {"b": 1, "c": 2}, "d": [1], "f": "x"}),
            json!({"a": {"b": 1, "c": 3}, "d": [2], "e": 5}),
        );
        let mut found = Vec::new();
        collect("", Some(&old), Some(&new), &mut found);
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["a.c 2 -> 3", "d [1] -> [2]", "f x -> unknown", "e unknown -> 5"]);
    }

    #[test]
    fn seeds_and_rounds_make_no_other_load() {
        let of = |what: &str| Difference { what: what.to_owned(), old: json!(1), new: json!(2) };
        let plan = |what: &[&str]| Differences {
            plan: what.iter().map(|what| of(what)).collect(),
            ..Differences::default()
        };
        assert!(!plan(&["seed", "rounds", "load.request_bytes"]).is_other_plan());
        assert!(plan(&["seed", "load.connections"]).is_other_plan());
    }
}
