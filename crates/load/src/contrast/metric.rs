//! The metrics by which two sides are compared.

use crate::contrast::MetricContrast;
use crate::rounds::{Figures, Round, Spread};
use crate::statistics::Better;
use crate::text::{digits, time, whole};

/// A metric of a round.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it is called in tables.
    pub title: &'static str,
    /// Which values are good ones.
    pub better: Better,
    /// Whether it says something about the server, and not only about the client.
    pub is_of_server: bool,
    /// How a value is written.
    pub write: fn(f64) -> String,
    value: fn(&Figures<f64>) -> Option<f64>,
}

impl Metric {
    /// Its value in a round.
    pub fn of(&self, round: &Round) -> Option<f64> {
        (self.value)(&round.figures)
    }

    /// The least and the most of these rounds; `None` if none of them has a value.
    pub fn spread(&self, rounds: &[Round]) -> Option<Spread> {
        Spread::of(&rounds.iter().filter_map(|round| self.of(round)).collect::<Vec<_>>())
    }
}

/// The metric of this name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

impl MetricContrast {
    /// What it is called in tables.
    pub fn title(&self) -> &str {
        metric(&self.name).map_or(&self.name, |metric| metric.title)
    }

    pub(crate) fn write(&self, value: f64) -> String {
        metric(&self.name).map_or_else(|| digits(value), |metric| (metric.write)(value))
    }
}

const fn latency(name: &'static str, title: &'static str, value: fn(&Figures<f64>) -> Option<f64>) -> Metric {
    Metric { name, title, better: Better::Less, is_of_server: true, write: time, value }
}

/// All of them, in the order of the tables.
pub static METRICS: [Metric; 6] = [
    Metric {
        name: "requests_per_second",
        title: "requests/s",
        better: Better::More,
        is_of_server: true,
        write: whole,
        value: |all| all.requests_per_second,
    },
    latency("p50_us", "p50", |all| all.p50_us),
    latency("p99_us", "p99", |all| all.p99_us),
    latency("p99_9_us", "p99.9", |all| all.p99_9_us),
    latency("server_cpu_us_per_request", "server CPU/request", |all| all.server_cpu_us_per_request),
    Metric {
        is_of_server: false,
        ..latency("client_cpu_us_per_request", "client CPU/request", |all| all.client_cpu_us_per_request)
    },
];
