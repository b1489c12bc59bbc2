//! The text format of Prometheus (0.0.4), for its node exporter's folder of text files or a push gateway.
//!
//! Names follow the rules of Prometheus: base units (seconds, bytes), `_total` behind what is counted. Latencies are a summary with
//! the quantiles of the histogram. A figure that is unknown is left out.

use anywire_loops::metrics::{Kind, Text};

use crate::errors::ErrorKind;
use crate::figures::{COLUMNS, FIGURES, Figure, Unit};
use crate::histogram::LatencySummary;
use crate::outcome::Outcome;
use crate::require::Verdict;

/// An outcome as metrics, all with the labels `url` and `protocol`.
pub fn prometheus(outcome: &Outcome) -> String {
    let run = [("url", &outcome.target.url), ("protocol", &outcome.target.protocol)];
    let mut text = Text::new("anywire_load_").with_labels(&run);
    let (tool, plan) = (&outcome.tool, &outcome.plan);
    let about = [
        ("version", tool.version.clone()),
        ("address", outcome.target.address.clone()),
        ("mode", plan.mode.clone()),
        ("connections", plan.connections.to_string()),
        ("depth", plan.depth.to_string()),
        ("interrupted", outcome.rate.interrupted.to_string()),
    ];
    text.family(Kind::Gauge, "run_info", "How the load was run, in labels; the value is 1.", [(about, 1.0)]);
    // Errors stand by kind, below.
    for figure in FIGURES.iter().filter(|figure| figure.path != "totals.errors") {
        let Some(value) = (figure.value)(outcome) else { continue };
        let is_total = matches!(figure.unit, Unit::Count | Unit::Bytes);
        let value = if figure.unit == Unit::Us { value / 1e6 } else { value };
        let kind = if is_total { Kind::Counter } else { Kind::Gauge };
        text.family(kind, &name(figure), figure.meaning, [(NONE, value)]);
    }
    let errors = ErrorKind::ALL
        .into_iter()
        .map(|kind| ([("kind", kind.to_string())], outcome.totals.measured.errors.of(kind) as f64));
    text.family(Kind::Counter, "errors_total", "Errors by kind.", errors);
    let statuses = outcome.totals.statuses.iter();
    let statuses = statuses.map(|(status, count)| ([("status", status.to_string())], *count as f64));
    text.family(Kind::Counter, "responses_total", "Responses by status.", statuses);
    latencies(&mut text, outcome);
    let judged = outcome.thresholds.iter().filter(|threshold| threshold.verdict != Verdict::NotJudged);
    let held = judged.map(|threshold| {
        let held = f64::from(u8::from(threshold.verdict == Verdict::Held));
        ([("threshold", &threshold.asked)], held)
    });
    text.family(Kind::Gauge, "threshold_held", "Whether a threshold held (1) or broke (0).", held);
    text.into_string()
}

/// The metric's name without the prefix.
fn name(figure: &Figure) -> String {
    let path = figure.path.trim_start_matches("totals.").trim_start_matches("generator.");
    let name = path.replace('.', "_").replace("_us", "_seconds");
    match figure.unit {
        Unit::Count => format!("{name}_total"),
        Unit::Bytes => {
            // The unit stands before `_total`, and "in" or "out" before the unit.
            let (what, way) = name.split_once("bytes_").unwrap_or(("", &name));
            format!("{what}{way}_bytes_total")
        }
        Unit::PerSecond => format!("{name}_per_second"),
        Unit::Seconds if !name.ends_with("_seconds") => format!("{name}_seconds"),
        Unit::Us if !name.contains("_seconds") => format!("{name}_seconds"),
        _ => name,
    }
}

fn latencies(text: &mut Text, outcome: &Outcome) {
    let known: Vec<_> =
        COLUMNS.iter().filter_map(|column| Some((column, (column.value)(outcome)?))).collect();
    if known.is_empty() {
        return;
    }
    let name = "latency_seconds";
    text.head(Kind::Summary, name, "Latencies of responses, by the moment from which they count.");
    for (column, summary) in known {
        let from = ("from", column.name);
        for (quantile, value) in QUANTILES {
            text.sample(name, &[from, ("quantile", quantile)], value(summary) / 1e6);
        }
        text.sample(&format!("{name}_sum"), &[from], summary.mean * summary.count as f64 / 1e6);
        text.sample(&format!("{name}_count"), &[from], summary.count as f64);
    }
}

/// No labels besides those of the run.
const NONE: [(&str, &str); 0] = [];

type Value = fn(&LatencySummary) -> f64;

const QUANTILES: &[(&str, Value)] = &[
    ("0", |all| all.min),
    ("0.5", |all| all.p50),
    ("0.75", |all| all.p75),
    ("0.9", |all| all.p90),
    ("0.99", |all| all.p99),
    ("0.999", |all| all.p99_9),
    ("0.9999", |all| all.p99_99),
    ("1", |all| all.max),
];
