//! The counters of a pool.

use super::Pool;
use crate::OriginCounters;

impl Pool {
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The present state of the pool, and its counters.
    pub(crate) fn counters(&self) -> OriginCounters {
        let connections = self.connections.borrow();
        let idle = connections.all.iter().filter(|(_, conn)| conn.is_idle()).count();
        let (received_bytes, sent_bytes) = self.context.traffic();
        OriginCounters {
            idle,
            busy: connections.all.len() - idle,
            dialing: self.dialing.get(),
            waiting: self.waiting.len(),
            attempts: self.attempts.get(),
            retries: self.retries.get(),
            received_bytes,
            sent_bytes,
            ..OriginCounters::default()
        }
    }
}
