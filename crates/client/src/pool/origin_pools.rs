//! The pools of one origin on a loop, one for each route, and the balancer of its addresses.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::balancer::Balancer;
use crate::chain::Budget;
use crate::pool::{Pool, share_out};

/// The pools of one origin on one loop.
#[derive(Default)]
pub(crate) struct OriginPools {
    pools: RefCell<Vec<Rc<Pool>>>,
    /// Of all its pools, whichever route and address each has.
    budget: Rc<Budget>,
    /// If it has several addresses.
    balancer: RefCell<Option<Rc<Balancer>>>,
}

impl OriginPools {
    pub(crate) fn pools(&self) -> Vec<Rc<Pool>> {
        self.pools.borrow().clone()
    }

    pub(crate) fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    pub(crate) fn is_one(&self) -> bool {
        self.pools.borrow().len() < 2
    }

    pub(crate) fn find(&self, is_it: impl Fn(&Pool) -> bool) -> Option<Rc<Pool>> {
        self.pools.borrow().iter().find(|pool| is_it(pool)).cloned()
    }

    pub(crate) fn add(&self, pool: &Rc<Pool>) {
        self.pools.borrow_mut().push(Rc::clone(pool));
    }

    /// Takes a pool out. Whether nothing is left.
    pub(crate) fn remove(&self, pool: &Rc<Pool>) -> bool {
        let mut pools = self.pools.borrow_mut();
        pools.retain(|other| !Rc::ptr_eq(other, pool));
        pools.is_empty() && self.balancer.borrow().is_none()
    }

    pub(crate) fn balancer(&self) -> Option<Rc<Balancer>> {
        self.balancer.borrow().clone()
    }

    pub(crate) fn set_balancer(&self, balancer: &Rc<Balancer>) {
        self.balancer.replace(Some(Rc::clone(balancer)));
    }

    /// Ends overdue waits, and shares connections out. Says when to look at each pool again, or nothing if that is over.
    pub(crate) fn sweep(&self, now: Instant) -> Vec<(Rc<Pool>, Option<Instant>)> {
        let mut pools = self.pools();
        let waits: Vec<_> = pools.iter().map(|pool| (Rc::clone(pool), pool.end_waits(now))).collect();
        // The addresses of a balancer have connections of their own each.
        pools.sort_by_key(|pool| pool.quota_id());
        for together in pools.chunk_by_mut(|one, other| one.quota_id() == other.quota_id()) {
            share_out(together);
        }
        waits.into_iter().map(|(pool, next)| (Rc::clone(&pool), pool.look_again(now, next))).collect()
    }
}
