//! The pools of a loop that share the cap of one origin: calls reach it by a proxy and without one, by one wire and another, and with
//! options that have changed since.
//!
//! Calls that wait in one of these pools get the idle connections of all. A pool without a connection gets a busy one of another pool,
//! after its calls. So a small cap shuts off no route.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

use anywire_loops::Counter;

use super::Pool;
use crate::connection::Conn;
use crate::pool::quota::Quota;

impl Pool {
    /// Tells apart pools whose connections do not count together.
    pub(crate) fn quota_id(&self) -> *const Quota {
        Arc::as_ptr(&self.quota)
    }

    /// The pools of this loop whose connections count together with those of this pool, which is among them.
    pub(super) fn pools_under_the_cap(&self) -> Vec<Rc<Self>> {
        let pools = self.origin_pools.upgrade().map(|all| all.pools()).unwrap_or_default();
        pools.into_iter().filter(|pool| pool.quota_id() == self.quota_id()).collect()
    }

    /// Waiting calls, and dials under way, of all pools that share the cap.
    pub(super) fn waiting_and_dialing(&self) -> (usize, usize) {
        let of = |pool: &Self| (pool.waiting.len(), pool.dialing.get());
        match self.is_only_pool() {
            true => of(self),
            false => {
                let pools = self.pools_under_the_cap();
                pools.iter().map(|pool| of(pool)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
            }
        }
    }

    /// Whether the origin has one pool on this loop, as most have.
    fn is_only_pool(&self) -> bool {
        self.origin_pools.upgrade().is_none_or(|all| all.is_one())
    }

    /// Dials for the pool's waiting calls, unless another pool under the cap has asked before: then the next sweep shares out.
    pub(super) fn dial_in_turn(self: &Rc<Self>) {
        if self.is_only_pool() {
            return self.dial_for_waiters();
        }
        let wanted = self.wants.get();
        let has_asked_before = |pool: &Rc<Self>| !Rc::ptr_eq(pool, self) && pool.wants.get();
        if self.waiting.len() > 0 && self.pools_under_the_cap().iter().any(has_asked_before) {
            self.wants.set(true);
        } else {
            self.dial_for_waiters();
        }
        if self.wants.get() && !wanted {
            self.context.kick();
        }
    }

    /// Whether the pool has no connection, and dials none.
    fn has_none(&self) -> bool {
        self.connections.borrow().all.is_empty() && self.dialing.get() == 0
    }

    /// Whether calls wait, and the quota has no connection for them.
    fn is_short(&self) -> bool {
        self.wants.get() && self.waiting.len() > 0
    }

    /// The idle connection that was used longest ago.
    fn oldest_idle(&self) -> Option<Rc<Conn>> {
        self.connections.borrow().free.iter().find(|conn| conn.is_idle()).cloned()
    }

    /// Ends a connection: now if it is idle, else after its calls.
    fn part_with(&self, conn: &Conn, counter: &Counter) {
        counter.add(1);
        conn.leave();
        if self.ends_if_idle(conn).is_break() {
            self.close(conn);
        }
    }
}

/// Gives back connections that other loops are short of, and shares the rest among the pools under the cap. Each pool dials for its
/// waiting calls. An idle connection of one pool is closed if another pool may dial no more.
pub(crate) fn share_out(pools: &mut [Rc<Pool>]) {
    let Some(first) = pools.first() else { return };
    let context = Rc::clone(&first.context);
    let owed = first.quota.owed_by(context.index);
    give(pools, owed, &context.cells.given_back);
    pools.iter().for_each(|pool| pool.is_asked.set(false));
    loop {
        // Pools without a connection come first, then the pools whose calls wait longest.
        pools.sort_by_key(|pool| (!pool.has_none(), pool.waiting.since()));
        pools.iter().for_each(Pool::dial_for_waiters);
        if !pools.iter().any(|pool| pool.is_short()) {
            return;
        }
        let idle = pools.iter().filter_map(|pool| Some((pool, pool.oldest_idle()?)));
        let Some((pool, conn)) = idle.min_by_key(|(pool, _)| pool.last_used.get()) else { break };
        pool.part_with(&conn, &context.cells.passed_on);
    }
    let starved = pools.iter().filter(|pool| pool.is_short() && pool.has_none()).count();
    give(pools, owed + starved, &context.cells.passed_on);
    pools.iter().for_each(|pool| pool.is_asked.set(true));
}

/// Ends `count` connections, less the ones that are ending already: idle ones first, then busy ones of the pool that has most.
fn give(pools: &[Rc<Pool>], count: usize, counter: &Counter) {
    if count == 0 {
        return;
    }
    let (mut leaving, mut stay) = (0, Vec::new());
    for pool in pools {
        let connections = pool.connections.borrow();
        let all = connections.all.len();
        for (_, conn) in &connections.all {
            match conn.is_leaving() || pool.is_retired() {
                true => leaving += 1,
                false => stay.push((conn.calls() > 0, Reverse(all), conn.calls(), pool, Rc::clone(conn))),
            }
        }
    }
    stay.sort_by_key(|&(is_busy, all, calls, ..)| (is_busy, all, calls));
    for (.., pool, conn) in stay.into_iter().take(count.saturating_sub(leaving)) {
        pool.part_with(&conn, counter);
    }
}
