//! Which endpoints run on which pool.

use anywire_loops::Pool;

use super::RouteError;
use super::endpoints::{EndpointId, Served, Serves};
use super::table::Table;
use crate::pooled::QueueDeadline;

impl Table {
    /// Refuses a handler on a pool that is not among these.
    pub(crate) fn check_pools(&self, names: &[&str]) -> Result<(), RouteError> {
        for served in self.all_served() {
            if let (Some(pool), Some(place)) = (&served.pool, served.place)
                && !names.contains(&&**pool)
            {
                let known = names.iter().map(|name| (*name).to_owned()).collect();
                let (route, pool) = (served.name.to_string(), pool.to_string());
                return Err(RouteError::Pool { route, place, pool, known });
            }
        }
        Ok(())
    }

    /// From now on handlers run on these.
    pub(crate) fn set_pools(&mut self, pools: &[Pool]) {
        let find = |served: &Served| {
            let name = &**served.pool.as_ref()?;
            pools.iter().find(|pool| pool.name() == name).cloned()
        };
        self.pools = self.all_served().iter().map(find).collect();
    }

    /// The pool of this endpoint, if its handler runs on one, and how long its requests may wait there.
    pub(crate) fn pool(&self, id: EndpointId) -> Option<(&Pool, Option<QueueDeadline>)> {
        let pool = self.pools.get(id.index())?.as_ref()?;
        Some((pool, self.served(id).limits.queue_deadline))
    }

    /// Whether the time is noted at which requests come to it.
    pub(crate) fn is_stamped(&self, served: &Served) -> bool {
        match served.serves {
            Serves::Handler(_) => counts_from_arrival(served),
            // Any handler may be behind it.
            Serves::Routes | Serves::Choice(_) => self.is_stamped,
        }
    }
}

/// Whether the handler has to know when its requests came.
pub(super) fn counts_from_arrival(served: &Served) -> bool {
    served.pool.is_some() && served.limits.queue_deadline.is_some_and(QueueDeadline::counts_from_arrival)
}
