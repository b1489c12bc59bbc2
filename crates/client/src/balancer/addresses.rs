//! The addresses of one origin: named by the user, or found by its name and looked at again from time to time.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use anywire_http::Url;
use anywire_loops::clock;
use anywire_wire::{Address, ToAddress};
use tokio::sync::Notify;

use super::backend::{Backend, Member};
use super::balance::Balance;
use super::choice::Chooser;
use crate::Error;
use crate::connector::RouteKey;
use crate::metrics::address_counters::AddressCounters;
use crate::pool::loop_pools::LoopPools;
use crate::pool::over_tls;

/// Chooses among the pools of one origin, each of which has one address.
pub(crate) struct Balancer {
    balance: Balance,
    url: Url,
    pub(super) local: Weak<LoopPools>,
    pub(super) backends: RefCell<Vec<Rc<Backend>>>,
    pub(super) chooser: Chooser,
    /// When the addresses of the name are to be looked at again.
    refresh_at: Cell<Instant>,
    is_refreshing: Cell<bool>,
    /// Whether the addresses of the name have yet to be looked at for the first time.
    is_new: Cell<bool>,
    /// Notified whenever they were looked at.
    refreshed: Notify,
}

impl Balancer {
    /// For the origin of `url`.
    pub(crate) fn new(
        balance: &Balance,
        url: &Url,
        local: Weak<LoopPools>,
        now: Instant,
    ) -> Result<Rc<Self>, Error> {
        if let Some(source) = &balance.fault {
            return Err(Error::Via { source: source.clone() });
        }
        let mut addresses: Vec<(Address, usize)> = Vec::new();
        for (priority, group) in balance.groups.iter().enumerate() {
            for address in group {
                let address = if url.is_https() { over_tls(address)? } else { address.clone() };
                // An address that is named twice has one pool, which can tell of one health alone.
                if !addresses.iter().any(|(known, _)| *known == address) {
                    addresses.push((address, priority));
                }
            }
        }
        Ok(Rc::new_cyclic(|this| {
            let backend = |(address, priority)| Backend::new(address, Some(priority), balance, this);
            Self {
                balance: balance.clone(),
                url: url.clone(),
                local,
                backends: RefCell::new(addresses.into_iter().map(backend).collect()),
                chooser: Chooser::new(balance.rule),
                refresh_at: Cell::new(now),
                is_refreshing: Cell::new(false),
                is_new: Cell::new(balance.is_by_name),
                refreshed: Notify::new(),
            }
        }))
    }

    /// The address for a call. None is known yet for a name that is being resolved.
    pub(crate) fn choose(self: &Rc<Self>, now: Instant) -> Option<Rc<Backend>> {
        self.begin_refresh(now);
        // Others are for when the addresses of the name have failed, or are none.
        if self.is_new.get() {
            return None;
        }
        self.chooser.choose(&self.backends.borrow(), now).cloned()
    }

    /// Waits until the addresses of the name were looked at, for as long as a name may take to be resolved.
    pub(crate) async fn first_addresses(self: &Rc<Self>, now: Instant) {
        self.begin_refresh(now);
        while self.is_new.get() {
            self.refreshed.notified().await;
        }
    }

    fn begin_refresh(self: &Rc<Self>, now: Instant) {
        if self.balance.is_by_name && self.refresh_at.get() <= now && !self.is_refreshing.replace(true) {
            drop(anywire_loops::spawn(Rc::clone(self).refresh()));
        }
    }

    /// All addresses that a call may get now.
    pub(crate) fn candidates(&self, now: Instant) -> Vec<Rc<Backend>> {
        Chooser::candidates(&self.backends.borrow(), now).cloned().collect()
    }

    /// What was counted of its addresses.
    pub(crate) fn counters(&self, now: Instant) -> Vec<AddressCounters> {
        let one = |backend: &Rc<Backend>| {
            let Member { health, calls, failures, ejected, .. } = &*backend.member;
            AddressCounters {
                origin: self.url.origin().to_owned(),
                address: backend.address.clone(),
                calls: calls.get(),
                failures: failures.get(),
                in_flight: backend.pool().map_or(0, |pool| pool.load() as u64),
                ejected: ejected.get(),
                out: u64::from(health.is_out(now)),
            }
        };
        self.backends.borrow().iter().map(one).collect()
    }

    /// Looks at the addresses of the name, which its cache knows mostly.
    async fn refresh(self: Rc<Self>) {
        if let Some(local) = self.local.upgrade() {
            let config = local.inner().config_of(self.url.origin());
            let (names, timeout) = (config.names.clone(), config.timeouts.resolve);
            drop(local);
            let found = names.addresses(self.url.host(), self.url.port());
            let found = tokio::time::timeout(timeout, found).await;
            // First: calls that waited for these addresses choose among them.
            self.is_new.set(false);
            // If the name does not resolve, those that were known are tried on.
            if let Ok(Ok(found)) = found {
                self.set_addresses(&found);
            }
        }
        self.refresh_at.set(clock::after(clock::precise(), REFRESH));
        self.is_refreshing.set(false);
        self.refreshed.notify_waiters();
    }

    fn set_addresses(self: &Rc<Self>, found: &[std::net::SocketAddr]) {
        let found = found.iter().filter_map(|address| {
            let address = address.to_address().ok()?;
            if self.url.is_https() { over_tls(&address).ok() } else { Some(address) }
        });
        let found: Vec<Address> = found.collect();
        // Addresses that the user has named stay, whatever the resolver finds.
        let stays = |backend: &Rc<Backend>| backend.named.is_some() || found.contains(&backend.address);
        let (kept, gone): (Vec<_>, Vec<_>) = self.backends.take().into_iter().partition(stays);
        for backend in &kept {
            backend.is_found.set(found.contains(&backend.address));
        }
        let mut backends = kept;
        for address in found {
            if !backends.iter().any(|backend| backend.address == address) {
                backends.push(Backend::new(address, None, &self.balance, &Rc::downgrade(self)));
            }
        }
        self.backends.replace(backends);
        // Its idle connections are closed, and the others after their calls.
        if let Some(local) = self.local.upgrade() {
            let of_gone = gone.iter().filter_map(|backend| backend.pool());
            // So is the pool that served before the first addresses were known.
            let before = local.find_pool(RouteKey::to(&self.url, None));
            let replaced: Vec<_> = of_gone.chain(before).collect();
            if !replaced.is_empty() {
                local.replace(&replaced);
            }
        }
    }
}

/// How often a loop that has calls looks at the addresses of a name. The cache of names keeps their TTL.
const REFRESH: Duration = Duration::from_secs(1);
