//! How often rules were for a request.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of the requests that a rule was for, since it is in force.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RuleCounters {
    /// [`Rule::name`](super::Rule::name).
    pub name: String,
    /// Hops of calls that went to each destination, in their order.
    pub to: Vec<u64>,
}

/// A count that all loops add to.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
