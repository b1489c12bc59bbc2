//! The one description of an outcome's figures: the name, unit, meaning and place of each. Thresholds, the documented schema,
//! CSV and Prometheus text are made of it, so that a figure has one name and one unit everywhere.
//!
//! A figure's path is its place in the JSON. Latencies are a product of [`COLUMNS`] (from which moment) and [`STATISTICS`]; all
//! other figures are in [`FIGURES`]. A [`Quantity`] is any of them, found by its name.

use crate::errors::ErrorKind;
use crate::histogram::LatencySummary;
use crate::outcome::Outcome;

mod point;
mod scalars;

pub use point::Point;
pub use scalars::FIGURES;

/// A figure that is one number of an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its place in the JSON, with dots: `rate.achieved`.
    pub path: &'static str,
    /// Its name in a threshold: `rate`. The path is another.
    pub name: &'static str,
    /// Its heading in a table.
    pub heading: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// Why it may be unknown: what stands behind "because".
    pub unknown: &'static str,
    /// The whole that a share in percent is of; `None` if it has none.
    pub whole: Option<Whole>,
    /// Its value; `None` if it is unknown.
    pub value: fn(&Outcome) -> Option<f64>,
}

impl Figure {
    /// Whether it is for each request or response, so that runs of any length compare.
    pub fn is_per_response(&self) -> bool {
        self.unit == Unit::PerRequest || self.name.ends_with("/request") || self.name.ends_with("/response")
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A time in microseconds.
    Us,
    /// A time in seconds.
    Seconds,
    /// A number of things.
    Count,
    /// A number of bytes.
    Bytes,
    /// Things a second.
    PerSecond,
    /// Things for each request or response.
    PerRequest,
    /// A part of a whole, or one number over another.
    Ratio,
}

impl Unit {
    /// Its name in JSON and in the documented schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Us => "us",
            Self::Seconds => "s",
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::PerSecond => "1/s",
            Self::PerRequest => "per request",
            Self::Ratio => "ratio",
        }
    }

    /// The unit of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Us,
            Self::Seconds,
            Self::Count,
            Self::Bytes,
            Self::PerSecond,
            Self::PerRequest,
            Self::Ratio,
        ];
        all.into_iter().find(|unit| unit.name() == name)
    }

    /// A value of this unit, for a person.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Us => crate::text::time(value),
            Self::Seconds => crate::text::time(value * 1e6),
            Self::Count | Self::Bytes => crate::text::whole(value),
            Self::PerSecond => format!("{}/s", crate::text::whole(value)),
            Self::PerRequest | Self::Ratio => crate::text::digits(value),
        }
    }
}

/// The whole of which a count may be a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// The requests that were sent in the measured part.
    Sent,
    /// The responses among them.
    Answered,
}

impl Whole {
    /// How many there are.
    pub fn of(self, outcome: &Outcome) -> u64 {
        match self {
            Self::Sent => outcome.totals.measured.sent,
            Self::Answered => outcome.totals.measured.answered,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Sent => "requests sent",
            Self::Answered => "responses",
        }
    }
}

/// A set of latencies, by the moment from which they count.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name in a threshold, as in `send.p99`.
    pub name: &'static str,
    /// Its place in the JSON: `latency.send`.
    pub path: &'static str,
    /// Its heading in a table.
    pub heading: &'static str,
    /// What it measures, in a sentence.
    pub meaning: &'static str,
    /// Why it may be unknown: what stands behind "because".
    pub unknown: &'static str,
    /// Its summary; `None` if nothing was recorded.
    pub value: fn(&Outcome) -> Option<&LatencySummary>,
}

/// One number of a set of latencies.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// Its name in thresholds and headings: `p99.9`.
    pub name: &'static str,
    /// Its name in the JSON: `p99_9`.
    pub field: &'static str,
    /// Its value, in microseconds.
    pub value: fn(&LatencySummary) -> f64,
}

/// The sets of latencies, the one to trust first.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "intended",
        path: "latency.intended",
        heading: "from the intended time",
        meaning: "From when a request should have left to the read of its whole response.",
        unknown: NO_RATE,
        value: |outcome| outcome.latency.intended.as_ref(),
    },
    Column {
        name: "send",
        path: "latency.send",
        heading: "from the send",
        meaning: "From the write of a request to the read of its whole response.",
        unknown: NO_ANSWER,
        value: |outcome| outcome.latency.send.as_ref(),
    },
    Column {
        name: "lag",
        path: "latency.lag",
        heading: "lag",
        meaning: "From when a request should have left to its write.",
        unknown: NO_RATE,
        value: |outcome| outcome.latency.lag.as_ref(),
    },
    Column {
        name: "first_byte",
        path: "latency.first_byte",
        heading: "first byte",
        meaning: "From the write of a request to the read of the first byte of its response.",
        unknown: NO_ANSWER,
        value: |outcome| outcome.latency.first_byte.as_ref(),
    },
    Column {
        name: "connect",
        path: "latency.connect",
        heading: "connect",
        meaning: "From the dial of a connection to its being there, without TLS; of the whole run.",
        unknown: "no connection was made",
        value: |outcome| outcome.latency.connect.as_ref(),
    },
    Column {
        name: "tls",
        path: "latency.tls",
        heading: "TLS",
        meaning: "The handshake of TLS on a new connection; of the whole run.",
        unknown: "no handshake of TLS was made",
        value: |outcome| outcome.latency.tls.as_ref(),
    },
    Column {
        name: "server",
        path: "latency.server",
        heading: "the server's own time",
        meaning: "What the server says that it took, in Server-Timing or the field that was named.",
        unknown: "no response tells the server's time",
        value: |outcome| outcome.latency.server.as_ref(),
    },
    of_class("2xx", "latency.by_status.2xx", "from the send, 2xx", |outcome| {
        outcome.latency.by_status.get("2xx")
    }),
    of_class("3xx", "latency.by_status.3xx", "from the send, 3xx", |outcome| {
        outcome.latency.by_status.get("3xx")
    }),
    of_class("4xx", "latency.by_status.4xx", "from the send, 4xx", |outcome| {
        outcome.latency.by_status.get("4xx")
    }),
    of_class("5xx", "latency.by_status.5xx", "from the send, 5xx", |outcome| {
        outcome.latency.by_status.get("5xx")
    }),
];

/// Latencies of responses whose statuses are of one class.
const fn of_class(
    name: &'static str,
    path: &'static str,
    heading: &'static str,
    value: fn(&Outcome) -> Option<&LatencySummary>,
) -> Column {
    let meaning = "From the write of a request to the read of its whole response, of this class of statuses.";
    Column { name, path, heading, meaning, unknown: "no response had such a status", value }
}

/// The numbers of a set of latencies, in rising order but for the mean.
pub const STATISTICS: &[Statistic] = &[
    Statistic { name: "min", field: "min", value: |all| all.min },
    Statistic { name: "mean", field: "mean", value: |all| all.mean },
    Statistic { name: "p50", field: "p50", value: |all| all.p50 },
    Statistic { name: "p75", field: "p75", value: |all| all.p75 },
    Statistic { name: "p90", field: "p90", value: |all| all.p90 },
    Statistic { name: "p99", field: "p99", value: |all| all.p99 },
    Statistic { name: "p99.9", field: "p99_9", value: |all| all.p99_9 },
    Statistic { name: "p99.99", field: "p99_99", value: |all| all.p99_99 },
    Statistic { name: "max", field: "max", value: |all| all.max },
];

/// Any number of an outcome that has a name.
#[derive(Debug, Clone, Copy)]
pub enum Quantity {
    /// One of [`FIGURES`].
    Figure(&'static Figure),
    /// A number of a set of latencies; without a column, of the one to trust ([`Quantity::column`]).
    Latency(Option<&'static Column>, Point),
    /// The errors of a kind.
    Errors(ErrorKind),
    /// The responses with a status.
    Status(u16),
    /// The responses with a status of a class: 5 of 5xx.
    StatusClass(u16),
}

impl Quantity {
    /// The quantity of this name or path, such as `p99`, `send.p99.9`, `errors.timeout`, `status.5xx` or `rate.achieved`.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(figure) = FIGURES.iter().find(|figure| [figure.name, figure.path].contains(&name)) {
            return Some(Self::Figure(figure));
        }
        if let Some(point) = Point::named(name) {
            return Some(Self::Latency(None, point));
        }
        let name = name.strip_prefix("totals.").unwrap_or(name);
        if let Some(kind) = name.strip_prefix("errors.") {
            return ErrorKind::ALL.into_iter().find(|one| one.to_string() == kind).map(Self::Errors);
        }
        if let Some(status) = name.strip_prefix("status.").or_else(|| name.strip_prefix("statuses.")) {
            return self::status(status);
        }
        let name = name.strip_prefix("latency.").unwrap_or(name);
        COLUMNS.iter().find_map(|column| {
            let own = [column.name, column.path.trim_start_matches("latency.")];
            let rest = own.into_iter().find_map(|own| name.strip_prefix(own))?.strip_prefix('.')?;
            Some(Self::Latency(Some(column), Point::named(rest)?))
        })
    }

    /// Names that [`Quantity::named`] knows, for a suggestion.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        let plain = FIGURES.iter().map(|figure| figure.name.to_owned());
        let statistics = STATISTICS.iter().map(|one| one.name.to_owned());
        let latencies = COLUMNS
            .iter()
            .flat_map(|column| STATISTICS.iter().map(move |one| format!("{}.{}", column.name, one.name)));
        let errors = ErrorKind::ALL.into_iter().map(|kind| format!("errors.{kind}"));
        let classes = (1..=5).map(|class| format!("status.{class}xx"));
        plain.chain(statistics).chain(latencies).chain(errors).chain(classes)
    }

    /// The unit of its value.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Figure(figure) => figure.unit,
            Self::Latency(..) => Unit::Us,
            Self::Errors(_) | Self::Status(_) | Self::StatusClass(_) => Unit::Count,
        }
    }

    /// The whole that a share in percent is of.
    pub fn whole(&self) -> Option<Whole> {
        match self {
            Self::Figure(figure) => figure.whole,
            Self::Latency(..) => None,
            Self::Errors(_) => Some(Whole::Sent),
            Self::Status(_) | Self::StatusClass(_) => Some(Whole::Answered),
        }
    }

    /// Its place in the JSON of this outcome.
    pub fn path(&self, outcome: &Outcome) -> String {
        match self {
            Self::Figure(figure) => figure.path.to_owned(),
            Self::Latency(column, point) => {
                let column = column.unwrap_or_else(|| Self::column(outcome));
                format!("{}.{}", column.path, point.field())
            }
            Self::Errors(kind) => format!("totals.errors.{kind}"),
            Self::Status(status) => format!("totals.statuses.{status}"),
            Self::StatusClass(class) => format!("totals.statuses.{class}xx"),
        }
    }

    /// Its value; `None` if it is unknown.
    pub fn value(&self, outcome: &Outcome) -> Option<f64> {
        let totals = &outcome.totals;
        match self {
            Self::Figure(figure) => (figure.value)(outcome),
            Self::Latency(column, point) => {
                let column = column.unwrap_or_else(|| Self::column(outcome));
                (column.value)(outcome).and_then(|summary| point.value(summary))
            }
            Self::Errors(kind) => Some(totals.measured.errors.of(*kind) as f64),
            Self::Status(status) => Some(totals.statuses.get(status).copied().unwrap_or_default() as f64),
            Self::StatusClass(class) => Some(
                totals.statuses.range(class * 100..(class + 1) * 100).map(|(_, count)| count).sum::<u64>()
                    as f64,
            ),
        }
    }

    /// Its share of its whole, 0 .. 1; an error if it has none, or if one of them is unknown, which says why.
    pub(crate) fn share(&self, outcome: &Outcome) -> Result<f64, String> {
        let value = self.value(outcome).ok_or_else(|| self.unknown(outcome).to_owned())?;
        match self.whole() {
            // A ratio is a share as it is.
            None => Ok(value),
            Some(whole) => match whole.of(outcome) {
                0 => Err(format!("there were no {}", whole.words())),
                all => Ok(value / all as f64),
            },
        }
    }

    /// Why it is unknown in an outcome.
    pub fn unknown(&self, outcome: &Outcome) -> &'static str {
        match self {
            Self::Figure(figure) => figure.unknown,
            Self::Latency(column, _) => {
                let column = column.unwrap_or_else(|| Self::column(outcome));
                if (column.value)(outcome).is_some() { NO_HISTOGRAM } else { column.unknown }
            }
            // Counts are always known.
            Self::Errors(_) | Self::Status(_) | Self::StatusClass(_) => NO_ANSWER,
        }
    }

    /// The latencies to trust: from the intended time if the run had one, else from the send.
    pub fn column(outcome: &Outcome) -> &'static Column {
        let recorded = COLUMNS[..SEND].iter().find(|column| (column.value)(outcome).is_some());
        recorded.unwrap_or(&COLUMNS[SEND])
    }
}

/// `404`, or a class such as `5xx`.
fn status(text: &str) -> Option<Quantity> {
    let (class, rest) = text.split_at_checked(1)?;
    let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
    match rest {
        "xx" => Some(Quantity::StatusClass(class)),
        _ if text.len() == 3 => text.parse().ok().map(Quantity::Status),
        _ => None,
    }
}

/// The place of the latencies from the send, which every run has.
const SEND: usize = 1;
/// Why a latency that needs a rate is unknown.
const NO_RATE: &str = "the run had no constant rate";
/// Why a percentile is unknown that is no field of the JSON.
const NO_HISTOGRAM: &str = "the result has no histogram of it";
/// Why a latency is unknown.
const NO_ANSWER: &str = "no request was answered";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_suggested_is_known() {
        for name in Quantity::names() {
            assert!(Quantity::named(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_quantity_is_found_by_its_path_too() {
        for name in ["latency.send.p99_9", "rate.achieved", "totals.errors.close", "totals.statuses.404"] {
            assert!(Quantity::named(name).is_some(), "{name}");
        }
        for name in
            ["", "p", "send", "send.", "status.", "status.50", "status.0xx", "status.5000", "errors.x"]
        {
            assert!(Quantity::named(name).is_none(), "{name}");
        }
    }
}
