//! The goals of the project, and which of them the results miss.

use serde_json::Value;

use super::markdown::{figure, table};
use super::{Results, items};

/// The runs that set bars. Runs of earlier states set none for this one.
const RUNS: [&str; 18] = [
    "http-server",
    "http-client",
    "http-server-h2",
    "http-client-h2",
    "bursts",
    "pipelined",
    "tls",
    "ipc",
    "udp",
    "instructions",
    "extractors",
    "layers",
    "pools",
    "load",
    "stack-throughput",
    "stack-bulk",
    "stack-http",
    "stack-floods",
];

struct Bar {
    run: &'static str,
    what: String,
    bar: String,
    value: Option<f64>,
    met: bool,
}

/// How many bars are met, and those that are not.
pub(super) fn all(results: &Results) -> String {
    let mut bars: Vec<_> = RUNS
        .iter()
        .flat_map(|run| items(&results.of(run)["bars"]).filter_map(|bar| bar_of(run, bar)))
        .collect();
    bars.extend(items(&results.of("swarm")["cases"]["rows"]).filter_map(bar_of_swarm));
    let count = format!(
        "{} of {} bars are met. These are missed:\n\n",
        bars.iter().filter(|bar| bar.met).count(),
        bars.len()
    );
    // Three digits behind the point: some bars are missed by little.
    let value = |value: Option<f64>| value.map_or_else(|| figure(None), |value| format!("{value:.3}"));
    let missed = bars.into_iter().filter(|bar| !bar.met);
    let rows = missed.map(|bar| vec![format!("`{}`", bar.run), bar.what, bar.bar, value(bar.value)]);
    count + &table(&["run", "figure", "bar", "measured"], rows)
}

fn bar_of(run: &'static str, bar: &Value) -> Option<Bar> {
    let text = |key: &str| bar[key].as_str().map(str::to_owned);
    Some(Bar {
        run,
        what: text("what")?,
        bar: text("bar")?,
        value: bar["value"].as_f64(),
        met: bar["met"].as_bool()?,
    })
}

fn bar_of_swarm(row: &Value) -> Option<Bar> {
    let (name, bar) = row["bar"].as_object()?.iter().next()?;
    let bar = bar.as_f64()?;
    let is_of_model = name == "of_model";
    let bar = match name.as_str() {
        "at_most" => format!("<= {bar}"),
        "at_least" => format!(">= {bar}"),
        _ => format!(">= {bar} of the model"),
    };
    let text = |key: &str| row[key].as_str();
    let value = if is_of_model { &row["ratio_to_model"] } else { &row["value"] };
    Some(Bar {
        run: "swarm",
        what: format!("{}: {}", text("what")?, text("unit")?),
        bar,
        value: value.as_f64(),
        met: row["met"].as_bool()?,
    })
}
