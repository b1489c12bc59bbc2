//! One of several addresses of an origin: its pool, its health, and where its calls go if it cannot be reached.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use anywire_http::StatusCode;
use anywire_wire::Address;

use super::addresses::Balancer;
use super::balance::Balance;
use super::choice::Choosable;
use super::health::Health;
use crate::call::job::Job;
use crate::pool::Pool;

/// One address.
pub(crate) struct Backend {
    pub(super) address: Address,
    /// The priority by which the user has named it.
    pub(super) named: Option<usize>,
    /// Whether the name of the origin has it, which is of the first priority then.
    pub(super) is_found: Cell<bool>,
    pool: RefCell<Weak<Pool>>,
    pub(super) member: Rc<Member>,
}

/// What the pool of an address knows of its balancer.
pub(crate) struct Member {
    pub(super) health: Health,
    balancer: Weak<Balancer>,
    pub(super) calls: Cell<u64>,
    pub(super) failures: Cell<u64>,
    pub(super) ejected: Cell<u64>,
}

impl Backend {
    pub(super) fn new(
        address: Address,
        named: Option<usize>,
        balance: &Balance,
        balancer: &Weak<Balancer>,
    ) -> Rc<Self> {
        let member = Member {
            health: Health::new(balance.health),
            balancer: Weak::clone(balancer),
            calls: Cell::new(0),
            failures: Cell::new(0),
            ejected: Cell::new(0),
        };
        let is_found = Cell::new(named.is_none());
        Rc::new(Self { address, named, is_found, pool: RefCell::default(), member: Rc::new(member) })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Its pool, if it has one that takes calls.
    pub(crate) fn pool(&self) -> Option<Rc<Pool>> {
        self.pool.borrow().upgrade().filter(|pool| !pool.is_retired())
    }

    pub(crate) fn set_pool(&self, pool: &Rc<Pool>) {
        self.pool.replace(Rc::downgrade(pool));
    }
}

impl Choosable for Rc<Backend> {
    fn priority(&self) -> usize {
        self.named.filter(|_| !self.is_found.get()).unwrap_or(0)
    }

    fn health(&self) -> &Health {
        &self.member.health
    }

    fn load(&self) -> usize {
        self.pool().map_or(0, |pool| pool.load())
    }
}

impl Member {
    /// A call was answered.
    pub(crate) fn succeeded(&self) {
        self.health.succeeded();
    }

    /// A call goes there.
    pub(crate) fn count_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// Whether a response with this status is as bad as none.
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        self.health.is_failure(status)
    }

    /// A dial or a call has failed. Whether the address is out from now on.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        self.failures.set(self.failures.get() + 1);
        let is_out = self.health.failed(now);
        self.ejected.set(self.ejected.get() + u64::from(is_out));
        is_out
    }

    /// Puts a call of which nothing was sent into the pool of another address. Gives it back if there is none that may do, or if the call
    /// itself has named the address.
    pub(crate) fn move_on(&self, mut job: Job, from: &Pool, now: Instant) -> Option<Job> {
        if job.request.options.via.is_some() {
            return Some(job);
        }
        let Some((balancer, local)) = self.balancer.upgrade().and_then(|balancer| {
            let local = balancer.local.upgrade()?;
            Some((balancer, local))
        }) else {
            return Some(job);
        };
        // Each address once, more or less.
        if usize::from(job.refusals) >= balancer.backends.borrow().len().min(MOVES_MAX) {
            return Some(job);
        }
        let backend = {
            let backends = balancer.backends.borrow();
            let others: Vec<_> =
                backends.iter().filter(|backend| backend.address != *from.address()).cloned().collect();
            balancer.chooser.choose(&others, now).cloned()
        };
        let Some((backend, pool)) = backend.and_then(|backend| {
            let pool = local.pool_of(&backend, &job.request.url).ok()?;
            Some((backend, pool))
        }) else {
            return Some(job);
        };
        backend.member.count_call();
        job.refusals += 1;
        pool.submit_moved(job);
        None
    }
}

/// Addresses that one call is moved through at most.
const MOVES_MAX: usize = 8;
