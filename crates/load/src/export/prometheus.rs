//! The text format of Prometheus (0.0.4), for its node exporter's folder of text files or a push gateway.
//!
//! Names follow the rules of Prometheus: base units (seconds, bytes), `_total` behind what is counted. Latencies are a summary with
//! the quantiles of the histogram. A figure that is unknown is left out.

use std::fmt::Write as _;

use crate::errors::ErrorKind;
use crate::figures::{COLUMNS, FIGURES, Figure, Unit};
use crate::histogram::LatencySummary;
use crate::outcome::Outcome;
use crate::require::Verdict;

/// An outcome as metrics, all with the labels `url` and `protocol`.
pub fn prometheus(outcome: &Outcome) -> String {
    let mut text = Text {
        written: String::new(),
        run: vec![("url", outcome.target.url.clone()), ("protocol", outcome.target.protocol.clone())],
    };
    let (tool, plan) = (&outcome.tool, &outcome.plan);
    let about = vec![
        ("version", tool.version.clone()),
        ("address", outcome.target.address.clone()),
        ("mode", plan.mode.clone()),
        ("connections", plan.connections.to_string()),
        ("depth", plan.depth.to_string()),
        ("interrupted", outcome.rate.interrupted.to_string()),
    ];
    text.family("run_info", "gauge", "How the load was run, in labels; the value is 1.", vec![(about, 1.0)]);
    // Errors stand by kind, below.
    for figure in FIGURES.iter().filter(|figure| figure.path != "totals.errors") {
        let Some(value) = (figure.value)(outcome) else { continue };
        let is_total = matches!(figure.unit, Unit::Count | Unit::Bytes);
        let value = if figure.unit == Unit::Us { value / 1e6 } else { value };
        let kind = if is_total { "counter" } else { "gauge" };
        text.family(&name(figure), kind, figure.meaning, vec![(vec![], value)]);
    }
    let errors = ErrorKind::ALL
        .into_iter()
        .map(|kind| (vec![("kind", kind.to_string())], outcome.totals.measured.errors.of(kind) as f64));
    text.family("errors_total", "counter", "Errors by kind.", errors.collect());
    let statuses = outcome.totals.statuses.iter();
    let statuses = statuses.map(|(status, count)| (vec![("status", status.to_string())], *count as f64));
    text.family("responses_total", "counter", "Responses by status.", statuses.collect());
    text.latencies(outcome);
    let judged = outcome.thresholds.iter().filter(|threshold| threshold.verdict != Verdict::NotJudged);
    let held = judged.map(|threshold| {
        let held = f64::from(u8::from(threshold.verdict == Verdict::Held));
        (vec![("threshold", threshold.asked.clone())], held)
    });
    text.family("threshold_held", "gauge", "Whether a threshold held (1) or broke (0).", held.collect());
    text.written
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

type Labels = Vec<(&'static str, String)>;

struct Text {
    written: String,
    /// Labels of all metrics.
    run: Labels,
}

impl Text {
    /// A metric with its samples; nothing without one.
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: Vec<(Labels, f64)>) {
        if samples.is_empty() {
            return;
        }
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, labels, value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = writeln!(self.written, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels, value: f64) {
        let labels = self.run.iter().cloned().chain(labels);
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(&value))).collect();
        let _ = writeln!(self.written, "{PREFIX}{name}{{{}}} {value}", labels.join(","));
    }

    fn latencies(&mut self, outcome: &Outcome) {
        let known: Vec<_> =
            COLUMNS.iter().filter_map(|column| Some((column, (column.value)(outcome)?))).collect();
        if known.is_empty() {
            return;
        }
        let name = "latency_seconds";
        self.head(name, "summary", "Latencies of responses, by the moment from which they count.");
        for (column, summary) in known {
            let from = ("from", column.name.to_owned());
            for (quantile, value) in QUANTILES {
                let labels = vec![from.clone(), ("quantile", (*quantile).to_owned())];
                self.sample(name, labels, value(summary) / 1e6);
            }
            let sum = summary.mean * summary.count as f64 / 1e6;
            self.sample(&format!("{name}_sum"), vec![from.clone()], sum);
            self.sample(&format!("{name}_count"), vec![from], summary.count as f64);
        }
    }
}

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

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Before the name of each metric.
const PREFIX: &str = "anywire_load_";
