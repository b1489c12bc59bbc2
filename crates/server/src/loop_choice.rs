//! Which loops a service runs on: its own or given ones.

use anywire_loops::{Loops, StartError};

/// As the caller chose; [`PerCore`](Self::PerCore) unless it did.
pub(crate) enum LoopChoice {
    PerCore,
    Count(usize),
    Given(Loops),
}

impl LoopChoice {
    /// The loops, started unless they were given, and whether they are the service's own, to be stopped with it.
    pub(crate) fn start(self) -> Result<(Loops, bool), StartError> {
        Ok(match self {
            Self::PerCore => (Loops::start(anywire_sys::cpu::available_cores().len())?, true),
            Self::Count(count) => (Loops::start(count)?, true),
            Self::Given(loops) => (loops, false),
        })
    }
}
