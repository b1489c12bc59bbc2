//! What a comparison does: load, rounds, times.

use std::time::Duration;

use crate::schedule::Gaps;
use crate::stop::Stop;

/// The options of a comparison, with defaults for a run of about two minutes with three candidates.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections (64).
    pub connections: usize,
    /// How many of these are loaded; the others stay open and send nothing (`None`: all are loaded).
    pub active: Option<usize>,
    /// Requests in flight on each (1); over HTTP/2 that many streams.
    pub depth: usize,
    /// Requests per second, all connections together (`None`: as many as are answered, the closed mode). At a rate that all
    /// candidates keep, what is to be compared is their CPU time and their latencies, which count from when a request should
    /// have left.
    pub rate: Option<f64>,
    /// With a rate: how the requests are spread within a second (even). Random gaps are drawn anew in each round, and are the same
    /// for all candidates in it.
    pub gaps: Gaps,
    /// The length of the body of each response, in bytes (13: `Hello, World!`).
    pub body_bytes: usize,
    /// Rounds; each measures every candidate once (7: enough that the median ignores three bad ones).
    pub rounds: usize,
    /// The measured part of one round of one candidate (3 s).
    pub duration: Duration,
    /// Load before it (0.5 s).
    pub warm_up: Duration,
    /// The separate part in which system calls are counted, once a round (0.3 s; zero: they are not counted).
    pub syscall_duration: Duration,
    /// How many connections are opened for a moment, at the start of each round, to see how much memory one takes (0: that is
    /// not measured).
    pub memory_connections: usize,
    /// The seed of the order in which the candidates take their turns within a round (`None`: a random one); the result
    /// names it.
    pub seed: Option<u32>,
    /// The handle that ends it early.
    pub stop: Stop,
}

impl Options {
    /// Options for a look at once: three rounds, about a second for each candidate in each.
    pub fn quick() -> Self {
        Self {
            rounds: 3,
            duration: Duration::from_millis(500),
            warm_up: Duration::from_millis(200),
            syscall_duration: Duration::from_millis(150),
            ..Self::default()
        }
    }

    /// How many connections are loaded: at least one, at most all.
    pub(crate) fn loaded(&self) -> usize {
        self.active.unwrap_or(self.connections).max(1).min(self.connections)
    }

    /// About how long it takes with so many candidates.
    pub fn time(&self, candidates: usize) -> Duration {
        let of_one = self.warm_up.saturating_add(self.duration).saturating_add(self.syscall_duration);
        of_one.saturating_mul(u32::try_from(candidates * self.rounds).unwrap_or(u32::MAX))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 64,
            active: None,
            depth: 1,
            rate: None,
            gaps: Gaps::Even,
            body_bytes: 13,
            rounds: 7,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(500),
            syscall_duration: Duration::from_millis(300),
            memory_connections: 0,
            seed: None,
            stop: Stop::new(),
        }
    }
}
