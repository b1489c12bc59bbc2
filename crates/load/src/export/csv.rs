//! CSV (RFC 4180): one row of headings and one row a run, so that rows of several runs make one table.

use crate::errors::ErrorKind;
use crate::figures::{COLUMNS, FIGURES, STATISTICS, Unit};
use crate::outcome::Outcome;

/// An outcome as a row below its headings. A figure is in its own unit, which its heading names; an empty cell is unknown.
///
/// The columns are the same for all outcomes. Statuses are counted by class.
pub fn csv(outcome: &Outcome) -> String {
    let (target, plan) = (&outcome.target, &outcome.plan);
    let mut cells: Vec<(String, String)> = [
        ("schema", outcome.schema.clone()),
        ("url", target.url.clone()),
        ("address", target.address.clone()),
        ("protocol", target.protocol.clone()),
        ("mode", plan.mode.clone()),
        ("connections", plan.connections.to_string()),
        ("depth", plan.depth.to_string()),
        ("interrupted", outcome.rate.interrupted.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for figure in FIGURES {
        cells.push((heading(figure.path, figure.unit), known((figure.value)(outcome))));
    }
    for kind in ErrorKind::ALL {
        let count = outcome.totals.measured.errors.of(kind);
        cells.push((format!("totals.errors.{kind}"), count.to_string()));
    }
    for class in 1..=9_u16 {
        let count: u64 =
            outcome.totals.statuses.range(class * 100..(class + 1) * 100).map(|(_, count)| count).sum();
        cells.push((format!("totals.statuses.{class}xx"), count.to_string()));
    }
    for column in COLUMNS {
        let summary = (column.value)(outcome);
        let count = summary.map_or_else(String::new, |summary| summary.count.to_string());
        cells.push((format!("{}.count", column.path), count));
        for statistic in STATISTICS {
            let path = format!("{}.{}", column.path, statistic.field);
            cells.push((heading(&path, Unit::Us), known(summary.map(statistic.value))));
        }
    }
    let line = |cells: Vec<String>| format!("{}\r\n", cells.join(","));
    let (headings, values): (Vec<_>, Vec<_>) =
        cells.iter().map(|(heading, value)| (quoted(heading), quoted(value))).unzip();
    line(headings) + &line(values)
}

/// A path, with its unit where the path does not say it.
fn heading(path: &str, unit: Unit) -> String {
    match unit {
        Unit::Us if !path.contains("_us") => format!("{path}_us"),
        _ => path.to_owned(),
    }
}

/// A cell that may hold any text.
fn quoted(text: &str) -> String {
    if !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_signs_of_the_form_are_quoted() {
        assert_eq!(quoted("plain text"), "plain text");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"a\"\r\n"), "\"say \"\"a\"\"\r\n\"");
    }
}
