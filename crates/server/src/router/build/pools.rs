//! Which endpoints run on which pool.

use anywire_loops::Pool;

use crate::pool::QueueDeadline;
use crate::router::RouteError;
use crate::router::build::endpoints::{EndpointId, EndpointKind, EndpointRecord};
use crate::router::table::Table;

impl Table {
    /// Refuses a handler on a pool that is not among these.
    pub(crate) fn check_pools(&self, names: &[&str]) -> Result<(), RouteError> {
        for record in self.records() {
            if let (Some(pool), Some(place)) = (&record.pool, record.place)
                && !names.contains(&&**pool)
            {
                let known = names.iter().map(|name| (*name).to_owned()).collect();
                let (route, pool) = (record.name.to_string(), pool.to_string());
                return Err(RouteError::Pool { route, place, pool, known });
            }
        }
        Ok(())
    }

    /// From now on handlers run on these.
    pub(crate) fn set_pools(&mut self, pools: &[Pool]) {
        let find = |record: &EndpointRecord| {
            let name = &**record.pool.as_ref()?;
            pools.iter().find(|pool| pool.name() == name).cloned()
        };
        self.pools = self.records().iter().map(find).collect();
    }

    /// The pool of this endpoint, if its handler runs on one, and how long its requests may wait there.
    pub(crate) fn pool(&self, id: EndpointId) -> Option<(&Pool, Option<QueueDeadline>)> {
        let pool = self.pools.get(id.index())?.as_ref()?;
        Some((pool, self.record(id).limits.queue_deadline))
    }

    /// Whether the time is noted at which requests come to it.
    pub(crate) fn is_stamped(&self, record: &EndpointRecord) -> bool {
        match record.kind {
            EndpointKind::Handler(_) => counts_from_arrival(record),
            // Any handler may be behind it.
            EndpointKind::Routes | EndpointKind::Choice(_) => self.is_stamped,
        }
    }
}

/// Whether the handler has to know when its requests came.
pub(in crate::router) fn counts_from_arrival(record: &EndpointRecord) -> bool {
    record.pool.is_some() && record.limits.queue_deadline.is_some_and(QueueDeadline::counts_from_arrival)
}
