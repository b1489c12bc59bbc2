//! A number of a set of latencies by its name: one of those that the JSON has, or any other percentile, which its histogram has.

use std::borrow::Cow;

use super::{STATISTICS, Statistic};
use crate::histogram::{Latency, LatencySummary};

/// A number of a set of latencies.
///
/// ```
/// use anywire_load::figures::Point;
///
/// assert!(matches!(Point::named("p99.9"), Some(Point::Statistic(_))));
/// assert!(matches!(Point::named("p95"), Some(Point::Percentile(percent)) if percent == 95.0));
/// assert!(Point::named("p101").is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Point {
    /// One that the JSON has as a field.
    Statistic(&'static Statistic),
    /// The latency at or below which so many percent of all stayed, above 0 and up to 100. It is read out of the histogram.
    Percentile(f64),
}

impl Point {
    /// The number of this name, or of this name of a field: `p50`, `max`, `p95`, `p99.95`, `p99_95`.
    pub fn named(name: &str) -> Option<Self> {
        let statistic = STATISTICS.iter().find(|statistic| [statistic.name, statistic.field].contains(&name));
        statistic.map(Self::Statistic).or_else(|| percent(name).map(Self::Percentile))
    }

    /// Its name in a path: that of its field in the JSON, if there is one.
    pub fn field(self) -> Cow<'static, str> {
        match self {
            Self::Statistic(statistic) => statistic.field.into(),
            Self::Percentile(percent) => format!("p{percent}").replace('.', "_").into(),
        }
    }

    /// Its value in microseconds; `None` if it takes a histogram, and the summary has none.
    pub fn value(self, summary: &LatencySummary) -> Option<f64> {
        match self {
            Self::Statistic(statistic) => Some((statistic.value)(summary)),
            Self::Percentile(percent) => {
                let latency = Latency::from_summary(summary).ok()?;
                latency.quantile(percent / 100.0).map(|time| time.as_nanos() as f64 / 1000.0)
            }
        }
    }
}

/// The percents of `p95`, `p99.95` or `p99_95`.
fn percent(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?.replace('_', ".");
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit()) && digits.len() <= DIGITS_MAX;
    let percent: f64 = digits
        .parse()
        .ok()
        .filter(|_| is_plain && digits.bytes().all(|byte| byte != b'e' && byte != b'E'))?;
    (percent > 0.0 && percent <= 100.0).then_some(percent)
}

/// Beyond them no histogram tells two percentiles apart.
const DIGITS_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn any_percentile_is_that_of_all_latencies() {
        let mut latency = Latency::new();
        for number in 1..=1000 {
            latency.record(Duration::from_micros(number));
        }
        let mut summary = latency.summary().unwrap();
        let at = |name: &str, summary: &LatencySummary| Point::named(name).unwrap().value(summary);
        for (name, us) in [("p95", 950.0), ("p1", 10.0), ("p99.5", 995.0), ("p100", 1000.0), ("p12_5", 125.0)]
        {
            let found = at(name, &summary).unwrap();
            assert!((found - us).abs() <= us * 0.001, "{name}: {found}");
        }
        assert_eq!(at("p90", &summary), Some(summary.p90));
        summary.hdr = None;
        assert_eq!((at("p95", &summary), at("p90", &summary)), (None, Some(summary.p90)));
    }

    #[test]
    fn a_field_is_a_name_too() {
        for name in ["p95", "p99.95", "p0.1", "p50.0"] {
            let point = Point::named(name).unwrap();
            assert!(Point::named(&point.field()).is_some(), "{name}");
        }
        for none in [
            "",
            "p",
            "p0",
            "p101",
            "p-5",
            "p+5",
            "pinf",
            "pNaN",
            "p1e1",
            "p9.9.9",
            "q50",
            "p.5",
            "p1234567890123",
        ] {
            assert!(Point::named(none).is_none(), "{none}");
        }
    }
}
