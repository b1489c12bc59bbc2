//! The clock of an engine that runs on tokio.

use std::time::Duration;

use anywire_tcp::Instant;
use tokio::time;

/// Counts from its start, on tokio's clock: in tests that one stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: time::Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: time::Instant::now() }
    }

    pub(crate) fn now(self) -> Instant {
        Instant::from_micros(START_MICROS + self.started.elapsed().as_micros() as u64)
    }

    /// The same moment on tokio's clock.
    pub(crate) fn at(self, moment: Instant) -> time::Instant {
        self.started + Duration::from_micros(moment.as_micros().saturating_sub(START_MICROS))
    }
}

/// The engine's clock starts here, so that nothing of it lies before the start.
const START_MICROS: u64 = 1_000_000;
