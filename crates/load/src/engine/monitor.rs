//! Where a run is, seen from any thread: the loops publish their counts every 0.1 s, which costs the load nothing.

use std::sync::Arc;

use tokio::sync::watch;

use crate::engine::generator::RunPhase;
use crate::engine::tally::Live;

/// Looks at a run from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    live: Arc<[Arc<Live>]>,
    phases: watch::Receiver<RunPhase>,
}

impl Monitor {
    pub(crate) fn new(live: Vec<Arc<Live>>, phases: watch::Receiver<RunPhase>) -> Self {
        Self { live: live.into(), phases }
    }

    /// Where the run is; at most about 0.1 s old.
    pub fn progress(&self) -> Progress {
        let sum = |field: fn(&Live) -> u64| self.live.iter().map(|live| field(live)).sum();
        Progress {
            phase: *self.phases.borrow(),
            answered: sum(|live| live.answered.value()),
            answered_in_warm_up: sum(|live| live.answered_in_warm_up.value()),
            errors: sum(|live| live.errors.value()),
            connections_open: sum(|live| live.open.value()),
        }
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its phase.
    pub phase: RunPhase,
    /// Answers of the measured part so far.
    pub answered: u64,
    /// Answers of the warm-up so far.
    pub answered_in_warm_up: u64,
    /// Errors so far.
    pub errors: u64,
    /// Connections open now.
    pub connections_open: u64,
}
