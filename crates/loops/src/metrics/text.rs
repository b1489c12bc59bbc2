//! The text format of Prometheus (0.0.4).
//!
//! Names follow the rules of Prometheus: a prefix for each program's part, base units (seconds, bytes), `_total` behind what is counted.

use std::fmt::Write as _;
use std::time::Duration;

use super::Durations;

/// The type of the content, for whoever serves it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, until the process ends.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Quantiles of what was measured, its sum and how often.
    Summary,
    /// How often what was measured stayed below each of some bounds, its sum and how often.
    Histogram,
}

/// Metrics as the text that Prometheus scrapes. A metric without a sample is left out.
///
/// ```
/// use anywire_loops::metrics::{Kind, Text};
///
/// let mut text = Text::new("shop_");
/// text.family(Kind::Counter, "orders_total", "Orders so far.", [([("kind", "book")], 3.0)]);
/// assert_eq!(
///     text.into_string(),
///     "# HELP shop_orders_total Orders so far.\n# TYPE shop_orders_total counter\nshop_orders_total{kind=\"book\"} 3\n"
/// );
/// ```
#[derive(Debug)]
pub struct Text {
    written: String,
    prefix: &'static str,
    /// Of all samples, as they are written.
    labels: String,
}

impl Text {
    /// Metrics whose names begin with this.
    pub fn new(prefix: &'static str) -> Self {
        Self { written: String::new(), prefix, labels: String::new() }
    }

    /// The same, where all samples have these labels, too.
    #[must_use]
    pub fn with_labels<N: AsRef<str>, V: AsRef<str>>(mut self, labels: &[(N, V)]) -> Self {
        self.labels.clear();
        push_labels(&mut self.labels, labels);
        self
    }

    /// A metric with its samples, each with its labels; nothing without one. One of the kinds [`Kind::Counter`] and [`Kind::Gauge`].
    pub fn family<L, N, V>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) where
        L: AsRef<[(N, V)]>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(kind, name, help);
        for (labels, value) in samples {
            self.sample(name, labels.as_ref(), value);
        }
    }

    /// Durations by their labels, with a bound at each doubling from 16 us to 67 s. Those of which there are none are left out.
    pub fn histogram<L, N, V>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, Durations)>,
    ) where
        L: AsRef<[(N, V)]>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut is_first = true;
        for (labels, durations) in samples {
            let count = durations.count() as f64;
            if count == 0.0 {
                continue;
            }
            if std::mem::take(&mut is_first) {
                self.head(Kind::Histogram, name, help);
            }
            let labels = labels.as_ref();
            let bucket = format!("{name}_bucket");
            let with = |bound: String| -> Vec<(String, String)> {
                let own =
                    labels.iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
                own.chain([("le".to_owned(), bound)]).collect()
            };
            for power in BOUNDS {
                let bound = Duration::from_micros(1 << power);
                self.sample(&bucket, &with(bound.as_secs_f64().to_string()), durations.up_to(bound) as f64);
            }
            self.sample(&bucket, &with("+Inf".to_owned()), count);
            self.sample(&format!("{name}_sum"), labels, durations.sum().as_secs_f64());
            self.sample(&format!("{name}_count"), labels, count);
        }
    }

    /// The two lines before the samples of a metric, for one that [`family`](Self::family) cannot write.
    pub fn head(&mut self, kind: Kind, name: &str, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
            Kind::Histogram => "histogram",
        };
        let (prefix, help) = (self.prefix, help.replace('\\', "\\\\").replace('\n', "\\n"));
        // Writing to a String cannot fail.
        let _ = writeln!(self.written, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    /// One sample, behind the [head](Self::head) of its metric.
    pub fn sample<N: AsRef<str>, V: AsRef<str>>(&mut self, name: &str, labels: &[(N, V)], value: f64) {
        let mut all = self.labels.clone();
        push_labels(&mut all, labels);
        let _ = match &*all {
            "" => writeln!(self.written, "{}{name} {value}", self.prefix),
            all => writeln!(self.written, "{}{name}{{{all}}} {value}", self.prefix),
        };
    }

    /// All that was written.
    pub fn into_string(self) -> String {
        self.written
    }
}

/// Writes labels behind others, with what their values may not hold escaped.
fn push_labels<N: AsRef<str>, V: AsRef<str>>(written: &mut String, labels: &[(N, V)]) {
    for (name, value) in labels {
        let value = value.as_ref().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if written.is_empty() { "" } else { "," };
        let _ = write!(written, "{comma}{}=\"{value}\"", name.as_ref());
    }
}

/// The powers of 2 whose microseconds are bounds of histograms.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=26;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    #[test]
    fn labels_of_all_stand_before_those_of_one_and_are_escaped() {
        let mut text = Text::new("x_").with_labels(&[("url", "a\"b\\c\nd")]);
        text.family(Kind::Gauge, "now", "One\nline.", [([("loop", "0")], 0.5)]);
        text.family::<[(&str, &str); 0], _, _>(Kind::Gauge, "none", "Left out.", []);
        assert_eq!(
            text.into_string(),
            "# HELP x_now One\\nline.\n# TYPE x_now gauge\nx_now{url=\"a\\\"b\\\\c\\nd\",loop=\"0\"} 0.5\n"
        );
    }

    #[test]
    fn a_sample_without_labels_has_no_braces() {
        let mut text = Text::new("x_");
        text.sample::<&str, &str>("up", &[], 1.0);
        assert_eq!(text.into_string(), "x_up 1\n");
    }

    #[test]
    fn buckets_of_histograms_are_sums_up_to_their_bounds() {
        let durations = Histogram::default();
        [16, 17, 70_000_000].iter().for_each(|us| durations.record(Duration::from_micros(*us)));
        let mut text = Text::new("x_");
        text.histogram(
            "d_seconds",
            "Durations.",
            [([("p", "a")], durations.read()), ([("p", "b")], Durations::default())],
        );
        let text = text.into_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE x_d_seconds histogram");
        assert_eq!(lines[2], "x_d_seconds_bucket{p=\"a\",le=\"0.000016\"} 1");
        assert_eq!(lines[3], "x_d_seconds_bucket{p=\"a\",le=\"0.000032\"} 2");
        assert_eq!(lines[24], "x_d_seconds_bucket{p=\"a\",le=\"67.108864\"} 2");
        assert_eq!(lines[25], "x_d_seconds_bucket{p=\"a\",le=\"+Inf\"} 3");
        assert_eq!(lines[26], "x_d_seconds_sum{p=\"a\"} 70.000033");
        assert_eq!(lines[27..], ["x_d_seconds_count{p=\"a\"} 3"]);
    }
}
