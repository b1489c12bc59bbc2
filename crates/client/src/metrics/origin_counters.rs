//! What a client counts for each of its origins. What is now is asked of the loops; what was is summed up where it costs a call that
//! succeeds nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pool::loop_pools::LoopPools;
use crate::{Client, Error, Phase};

/// Counts and gauges of one origin, over all loops and addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct OriginCounters {
    /// Connections without a call now.
    pub idle: usize,
    /// Connections with a call on them now.
    pub busy: usize,
    /// Connections that are being made now.
    pub dialing: usize,
    /// Calls that wait for a connection now.
    pub waiting: usize,
    /// Attempts of calls that reached a pool. An attempt that moves on to another address of a [`Balance`](crate::Balance) counts at each; an attempt that
    /// goes out once more at the same address ([`Counters::resent`](crate::Counters::resent)) counts once.
    pub attempts: u64,
    /// Attempts among them that were made by [`Retries`](crate::Retries).
    pub retries: u64,
    /// Bytes that came from its peers, as HTTP sees them: without TLS, and without what an upgraded connection carries.
    pub received_bytes: u64,
    /// Bytes that its peers were sent, as HTTP sees them.
    pub sent_bytes: u64,
    /// Attempts that failed, and bodies that broke off, by [`Error::kind`].
    pub errors: BTreeMap<&'static str, u64>,
    /// Deadlines that passed, which are errors of the kind `timeout`, by phase.
    pub timeouts: BTreeMap<Phase, u64>,
}

impl OriginCounters {
    fn add(&mut self, other: Self) {
        self.idle += other.idle;
        self.busy += other.busy;
        self.dialing += other.dialing;
        self.waiting += other.waiting;
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        other.errors.into_iter().for_each(|(kind, count)| *self.errors.entry(kind).or_default() += count);
        other
            .timeouts
            .into_iter()
            .for_each(|(phase, count)| *self.timeouts.entry(phase).or_default() += count);
    }
}

impl Client {
    /// What the client counts for each origin, such as `https://shop.example`: of those that it keeps pools for, and of the latest
    /// [`Limits::origins`](crate::Limits::origins) that it had pools for, or errors of. All loops are asked.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) {
    /// for (origin, counters) in client.origins().await {
    ///     println!("{origin}: {} busy, {} waiting, {:?}", counters.busy, counters.waiting, counters.errors);
    /// }
    /// # }
    /// ```
    pub async fn origins(&self) -> BTreeMap<String, OriginCounters> {
        let id = self.handle.id();
        let pools = move || async move {
            let pools = LoopPools::find(id).map(|local| local.all_pools()).unwrap_or_default();
            pools.iter().map(|pool| (pool.origin().to_owned(), pool.counters())).collect::<Vec<_>>()
        };
        let tasks: Vec<_> = self.handle.used_loops().map(|one| one.handle.spawn_always(pools)).collect();
        let mut all: BTreeMap<String, OriginCounters> = BTreeMap::new();
        for task in tasks {
            // A loop that has ended has no pools.
            for (origin, counters) in task.await.unwrap_or_default() {
                all.entry(origin).or_default().add(counters);
            }
        }
        for (origin, counters) in self.handle.past().all() {
            all.entry(origin).or_default().add(counters);
        }
        all
    }
}

/// What was: errors, and what pools had counted that are gone.
#[derive(Debug)]
pub(crate) struct Past {
    known: Mutex<Known>,
    origins_max: usize,
}

#[derive(Debug, Default)]
struct Known {
    by_origin: HashMap<Box<str>, Counted>,
    /// Changes so far.
    changes: u64,
}

#[derive(Debug, Default)]
struct Counted {
    counters: OriginCounters,
    /// The number of its last change. An origin that goes on failing is not forgotten for the sake of others.
    changed: u64,
}

impl Past {
    pub(crate) fn new(origins_max: usize) -> Self {
        Self { known: Mutex::default(), origins_max }
    }

    /// An attempt has failed.
    #[cold]
    pub(crate) fn failed(&self, error: &Error) {
        let Some(origin) = error.origin() else { return };
        let phase = error.phase().filter(|_| error.is_timeout());
        self.count(origin, error.kind(), phase);
    }

    /// A body has broken off.
    #[cold]
    pub(crate) fn broke_off(&self, origin: &str, error: &Error) {
        self.count(origin, error.kind(), error.phase().filter(|_| error.is_timeout()));
    }

    /// A pool is gone.
    pub(crate) fn keep(&self, origin: &str, of_pool: &OriginCounters) {
        self.change(origin, |counters| {
            counters.attempts += of_pool.attempts;
            counters.retries += of_pool.retries;
            counters.received_bytes += of_pool.received_bytes;
            counters.sent_bytes += of_pool.sent_bytes;
        });
    }

    fn count(&self, origin: &str, kind: &'static str, timeout: Option<Phase>) {
        self.change(origin, |counters| {
            *counters.errors.entry(kind).or_default() += 1;
            if let Some(phase) = timeout {
                *counters.timeouts.entry(phase).or_default() += 1;
            }
        });
    }

    fn change(&self, origin: &str, change: impl FnOnce(&mut OriginCounters)) {
        let Known { by_origin, changes } = &mut *self.lock();
        *changes += 1;
        if !by_origin.contains_key(origin) {
            if by_origin.len() >= self.origins_max {
                let oldest = by_origin.iter().min_by_key(|(_, counted)| counted.changed);
                if let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) {
                    by_origin.remove(&oldest);
                }
            }
            by_origin.insert(origin.into(), Counted::default());
        }
        if let Some(counted) = by_origin.get_mut(origin) {
            counted.changed = *changes;
            change(&mut counted.counters);
        }
    }

    fn all(&self) -> Vec<(String, OriginCounters)> {
        self.lock()
            .by_origin
            .iter()
            .map(|(origin, counted)| (origin.to_string(), counted.counters.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_that_was_counted_longest_ago_makes_room() {
        let past = Past::new(2);
        for origin in ["http://a", "http://b", "http://a", "http://c"] {
            past.count(origin, "connect", None);
        }
        let mut all = past.all();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let origins: Vec<_> =
            all.iter().map(|(origin, counters)| (&**origin, counters.errors["connect"])).collect();
        assert_eq!(origins, [("http://a", 2), ("http://c", 1)]);
    }
}
