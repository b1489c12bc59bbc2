//! Figures of one request of a script, as thresholds name them: `p99{GET /cart}<5ms`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::figures::{Point, Quantity, Unit};
use crate::histogram::Latency;
use crate::outcome::Outcome;
use crate::requests::RequestFigures;

/// A figure of one request.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestQuantity {
    /// A number of its latencies, which count from the send.
    Latency(Point),
    /// Its answers.
    Answered,
    /// Those that were not as expected.
    Bad,
    /// Its answers with a status.
    Status(u16),
    /// Its answers with a status of a class: 5 of 5xx.
    StatusClass(u16),
}

impl RequestQuantity {
    /// The figure of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "answered" => Self::Answered,
            "bad" => Self::Bad,
            _ => match Quantity::named(name)? {
                Quantity::Latency(column, point) if column.is_none_or(|column| column.name == "send") => {
                    Self::Latency(point)
                }
                Quantity::Status(status) => Self::Status(status),
                Quantity::StatusClass(class) => Self::StatusClass(class),
                _ => return None,
            },
        })
    }

    pub(super) fn unit(self) -> Unit {
        if matches!(self, Self::Latency(_)) { Unit::Us } else { Unit::Count }
    }

    /// Whether a limit may be a share, of its answers.
    pub(super) fn may_be_share(self) -> bool {
        matches!(self, Self::Bad | Self::Status(_) | Self::StatusClass(_))
    }

    /// Its value, or why it is unknown.
    pub(super) fn value(self, name: &str, outcome: &Outcome, is_share: bool) -> Result<f64, String> {
        let figures = of_name(name, outcome)?;
        let value = match self {
            Self::Latency(point) => {
                let summary = figures
                    .latency
                    .as_ref()
                    .ok_or("it was not answered, or the script has too many requests")?;
                point.value(summary).ok_or("the result has no histogram of it")?
            }
            Self::Answered => figures.answered as f64,
            Self::Bad => figures.bad as f64,
            Self::Status(status) => figures.statuses.get(&status).copied().unwrap_or_default() as f64,
            Self::StatusClass(class) => {
                figures.statuses.range(class * 100..(class + 1) * 100).map(|(_, count)| count).sum::<u64>()
                    as f64
            }
        };
        match (is_share, figures.answered) {
            (false, _) => Ok(value),
            (true, 0) => Err("it was not answered".to_owned()),
            (true, answered) => Ok(value / answered as f64),
        }
    }

    /// Its place in the JSON, if one request has the name.
    pub(super) fn path(self, name: &str, outcome: &Outcome) -> String {
        let mut named = (0..).zip(&outcome.requests).filter(|(_, request)| request.name == name);
        let (Some((number, _)), None) = (named.next(), named.next()) else { return "requests".to_owned() };
        let field = match self {
            Self::Latency(point) => format!("latency.{}", point.field()),
            Self::Answered => "answered".to_owned(),
            Self::Bad => "bad".to_owned(),
            Self::Status(status) => format!("statuses.{status}"),
            Self::StatusClass(class) => format!("statuses.{class}xx"),
        };
        format!("requests.{number}.{field}")
    }
}

/// The figures of the requests of this name, which may be several.
fn of_name<'o>(name: &str, outcome: &'o Outcome) -> Result<Cow<'o, RequestFigures>, String> {
    let mut named = outcome.requests.iter().filter(|request| request.name == name);
    let Some(first) = named.next() else {
        return Err(match outcome.requests.is_empty() {
            true => "the run had one request alone".to_owned(),
            false => format!("no request of the run is named {name:?}"),
        });
    };
    Ok(named.fold(Cow::Borrowed(first), |all, other| Cow::Owned(merged(&all, other))))
}

/// Both as if they were one.
fn merged(one: &RequestFigures, other: &RequestFigures) -> RequestFigures {
    let mut statuses: BTreeMap<u16, u64> = one.statuses.clone();
    for (status, count) in &other.statuses {
        let all = statuses.entry(*status).or_default();
        *all = all.saturating_add(*count);
    }
    let mut latency = Latency::new();
    let known = [one, other].into_iter().filter_map(|of| of.latency.as_ref());
    let is_whole = known
        .map(|summary| Latency::from_summary(summary).map(|of| latency.merge(&of)))
        .all(|merged| merged.is_ok());
    RequestFigures {
        name: one.name.clone(),
        answered: one.answered.saturating_add(other.answered),
        bad: one.bad.saturating_add(other.bad),
        statuses,
        latency: latency.summary().filter(|_| is_whole),
    }
}
