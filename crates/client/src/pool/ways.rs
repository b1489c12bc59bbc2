//! The pools of a loop whose connections count together, because all lead to one origin: by a proxy and without one, by one wire
//! and another, with options that have changed since.
//!
//! Calls that wait in one of them get the idle connections of all. A pool without any gets a busy one of another, after its calls.
//! So a small cap shuts no way out.

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

    /// The pools whose connections count with those of this one, which is among them.
    pub(super) fn ways(&self) -> Vec<Rc<Self>> {
        let pools = self.origin_pools.upgrade().map(|all| all.pools()).unwrap_or_default();
        pools.into_iter().filter(|pool| pool.quota_id() == self.quota_id()).collect()
    }

    /// Calls that wait, and dials under way, of all ways.
    pub(super) fn waiting_by_all_ways(&self) -> (usize, usize) {
        let of = |pool: &Self| (pool.waiting.len(), pool.dialing.get());
        match self.is_only_way() {
            true => of(self),
            false => self.ways().iter().map(|pool| of(pool)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d)),
        }
    }

    /// Whether the origin has one pool on this loop, as most have.
    fn is_only_way(&self) -> bool {
        self.origin_pools.upgrade().is_none_or(|all| all.is_one())
    }

    /// Dials for its waiting calls, unless those of another way have asked before: then the next sweep shares out.
    pub(super) fn dial_in_turn(self: &Rc<Self>) {
        if self.is_only_way() {
            return self.dial_for_waiters();
        }
        let wanted = self.wants.get();
        if self.waiting.len() > 0
            && self.ways().iter().any(|pool| !Rc::ptr_eq(pool, self) && pool.wants.get())
        {
            self.wants.set(true);
        } else {
            self.dial_for_waiters();
        }
        if self.wants.get() && !wanted {
            self.context.kick();
        }
    }

    fn has_none(&self) -> bool {
        self.connections.borrow().all.is_empty() && self.dialing.get() == 0
    }

    /// Whether calls wait, and the quota has no connection for them.
    fn is_short(&self) -> bool {
        self.wants.get() && self.waiting.len() > 0
    }

    /// A connection without calls, the one that was used longest ago.
    fn an_idle_one(&self) -> Option<Rc<Conn>> {
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

/// Gives connections back that other loops are short of, and shares the rest among the ways: each dials for its waiting calls, and an
/// idle connection of one way is closed if another way has none left to dial.
pub(crate) fn share_out(ways: &mut [Rc<Pool>]) {
    let Some(first) = ways.first() else { return };
    let context = Rc::clone(&first.context);
    let owed = first.quota.owed_by(context.index);
    give(ways, owed, &context.cells.given_back);
    ways.iter().for_each(|pool| pool.is_asked.set(false));
    loop {
        // Those without a connection come first, then those whose calls wait longest.
        ways.sort_by_key(|pool| (!pool.has_none(), pool.waiting.since()));
        ways.iter().for_each(Pool::dial_for_waiters);
        if !ways.iter().any(|pool| pool.is_short()) {
            return;
        }
        let idle = ways.iter().filter_map(|pool| Some((pool, pool.an_idle_one()?)));
        let Some((pool, conn)) = idle.min_by_key(|(pool, _)| pool.last_used.get()) else { break };
        pool.part_with(&conn, &context.cells.passed_on);
    }
    let starved = ways.iter().filter(|pool| pool.is_short() && pool.has_none()).count();
    give(ways, owed + starved, &context.cells.passed_on);
    ways.iter().for_each(|pool| pool.is_asked.set(true));
}

/// Ends `count` connections, less the ones that are ending already: idle ones first, then busy ones of the way that has most.
fn give(ways: &[Rc<Pool>], count: usize, counter: &Counter) {
    if count == 0 {
        return;
    }
    let (mut leaving, mut stay) = (0, Vec::new());
    for pool in ways {
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
