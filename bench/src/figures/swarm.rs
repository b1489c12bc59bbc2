//! Echoes over millions of connections, beside the limit of the machine's memory.

use serde_json::Value;

use super::markdown::{figure, percent, table};
use super::{Results, items};

/// The runs, and how a column names each.
const RUNS: [(&str, &str); 3] =
    [("swarm", "EPYC"), ("swarm-earlier", "EPYC, earlier state"), ("swarm-xeon", "Xeon, earlier state")];

/// Each figure of each case; with what part of the model it is, where it stands beside it.
pub(super) fn cases(results: &Results) -> String {
    let rows_of = |run: &str| &results.of(run)["cases"]["rows"];
    let headings: Vec<_> = ["case", "figure"].into_iter().chain(RUNS.map(|(_, text)| text)).collect();
    let figures = items(rows_of("swarm")).filter(|row| row["unit"] != "corrupt payloads");
    let rows = figures.map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let same = |other: &&Value| other["case"] == row["case"] && other["unit"] == row["unit"];
        let cells = RUNS.map(|(run, _)| items(rows_of(run)).find(same).map_or_else(|| figure(None), cell));
        [text("what"), text("unit")].into_iter().chain(cells).collect()
    });
    table(&headings, rows) + &corrupt(rows_of("swarm"))
}

fn cell(row: &Value) -> String {
    let unit = row["unit"].as_str().unwrap_or_default();
    let value = row["value"].as_f64();
    match row["ratio_to_model"].as_f64() {
        // Hundredths hide what distinguishes a fair run from a perfect one.
        _ if unit == "Jain" => value.map_or_else(|| figure(None), |value| format!("{value:.4}")),
        Some(part) => format!("{}, {} of the model", figure(value), percent(Some(part))),
        None => figure(value),
    }
}

fn corrupt(rows: &Value) -> String {
    let corrupt =
        items(rows).filter(|row| row["unit"] == "corrupt payloads").map(|row| row["value"].as_f64());
    match corrupt.sum::<Option<f64>>() {
        Some(count) => format!("\nPayloads that were wrong, in all cases of the first column: {count}.\n"),
        None => "\nPayloads were not checked in all cases of the first column.\n".to_owned(),
    }
}
