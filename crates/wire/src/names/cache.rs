//! The cache of answers: which of them hold, which are being asked for, and which has to go.
//!
//! It knows no clock and no resolver. Each name and kind of records is an entry with an answer, a query under way, or both. Whoever is
//! told to ask gives the answer back, or says that there will be none.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anywire_loops::clock;
use tokio::sync::watch;

use super::limits::Limits;
use super::names::NameCounters;
use super::resolver::{Answer, Records, ResolveError};

/// What is known of a name.
pub(super) type Found = Result<Arc<[SocketAddr]>, ResolveError>;

/// What is asked for.
pub(super) type Key = (Box<str>, Records);

/// Answers, and queries under way.
#[derive(Debug)]
pub(super) struct Cache {
    limits: Limits,
    entries: HashMap<Key, Entry>,
    pub(super) counters: NameCounters,
}

#[derive(Debug)]
struct Entry {
    held: Option<Held>,
    /// Tells the callers who wait for the query under way.
    query: Option<watch::Receiver<Option<Found>>>,
    used: Instant,
}

#[derive(Debug)]
struct Held {
    found: Found,
    since: Instant,
    fresh_until: Instant,
    stale_until: Instant,
}

/// What a caller is told.
#[derive(Debug)]
pub(super) enum Told {
    /// The answer. With a sender: ask anew, because it is stale.
    Known(Found, Option<watch::Sender<Option<Found>>>),
    /// It comes. With a sender: ask for it.
    Comes(watch::Receiver<Option<Found>>, Option<watch::Sender<Option<Found>>>),
}

impl Cache {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, entries: HashMap::new(), counters: NameCounters::default() }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is known of `key`. Whoever gets a sender has to ask, and calls [`answered`](Self::answered) or
    /// [`unanswered`](Self::unanswered).
    pub(super) fn look_up(&mut self, key: &Key, now: Instant) -> Told {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.used = now;
            if let Some(held) = entry.held.as_ref().filter(|held| now < held.stale_until) {
                let found = held.found.clone();
                if now < held.fresh_until {
                    self.counters.hits += 1;
                    return Told::Known(found, None);
                }
                self.counters.stale_hits += 1;
                let ask = entry.query.is_none().then(|| {
                    self.counters.queries += 1;
                    entry.ask()
                });
                return Told::Known(found, ask);
            }
            if let Some(query) = &entry.query {
                self.counters.joined += 1;
                return Told::Comes(query.clone(), None);
            }
        } else if !self.make_room(now) {
            self.counters.refused += 1;
            return Told::Known(Err(ResolveError::Full), None);
        }
        self.counters.queries += 1;
        let entry = self.entries.entry(key.clone()).or_insert(Entry { held: None, query: None, used: now });
        let sender = entry.ask();
        Told::Comes(sender.subscribe(), Some(sender))
    }

    /// The query has ended. What the callers are to be told.
    pub(super) fn answered(
        &mut self,
        key: &Key,
        answer: Result<Answer, ResolveError>,
        now: Instant,
    ) -> Found {
        let limits = &self.limits;
        let (found, ttl) = match answer {
            Ok(answer) if answer.addresses.is_empty() => (Err(ResolveError::NotFound), limits.negative_ttl),
            Ok(Answer { mut addresses, ttl }) => {
                addresses.truncate(limits.addresses);
                // As with `clamp`, which panics if the shortest is longer than the longest.
                let ttl = ttl.unwrap_or(limits.unknown_ttl).max(limits.shortest_ttl).min(limits.longest_ttl);
                (Ok(addresses.into()), ttl)
            }
            Err(ResolveError::NotFound) => (Err(ResolveError::NotFound), limits.negative_ttl),
            Err(failed) => {
                self.counters.failures += 1;
                self.unanswered(key);
                return Err(failed);
            }
        };
        if found.is_err() {
            self.counters.not_found += 1;
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.query = None;
            let fresh_until = clock::after(now, ttl);
            // A name that has come into being is to be seen when the time is over.
            let stale_until =
                if found.is_ok() { clock::after(fresh_until, limits.stale) } else { fresh_until };
            entry.held = Some(Held { found: found.clone(), since: now, fresh_until, stale_until });
        }
        found
    }

    /// The query has failed, or was dropped. An older answer serves on.
    pub(super) fn unanswered(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.query = None;
        if entry.held.is_none() {
            self.entries.remove(key);
        }
    }

    /// None of its addresses can be reached: they may have changed, whatever the TTL says. Whoever comes next asks anew, but not sooner than
    /// the shortest TTL allows.
    pub(super) fn doubt(&mut self, key: &Key, now: Instant) {
        let Some(held) = self.entries.get_mut(key).and_then(|entry| entry.held.as_mut()) else { return };
        if held.found.is_ok() && clock::after(held.since, self.limits.shortest_ttl) <= now {
            (held.fresh_until, held.stale_until) = (now, now);
        }
    }

    /// Whether there is room for one more entry, once the one that is unused for longest has gone.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.entries.len() < self.limits.names {
            return true;
        }
        let is_over = |entry: &Entry| {
            entry.query.is_none() && entry.held.as_ref().is_none_or(|held| held.stale_until <= now)
        };
        self.entries.retain(|_, entry| !is_over(entry));
        if self.entries.len() >= self.limits.names {
            let known = self.entries.iter().filter(|(_, entry)| entry.query.is_none());
            let Some(key) = known.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone()) else {
                return false;
            };
            self.entries.remove(&key);
            self.counters.evicted += 1;
        }
        self.entries.len() < self.limits.names
    }
}

impl Entry {
    fn ask(&mut self) -> watch::Sender<Option<Found>> {
        let (sender, receiver) = watch::channel(None);
        self.query = Some(receiver);
        sender
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> Key {
        (name.into(), Records::Any)
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 0))
    }

    fn answer(last: u8, ttl: u64) -> Result<Answer, ResolveError> {
        Ok(Answer { addresses: vec![address(last)], ttl: Some(Duration::from_secs(ttl)) })
    }

    fn cache(limits: Limits) -> (Cache, Instant) {
        (Cache::new(limits), clock::precise())
    }

    /// The address that is known, and whether to ask for it anew.
    #[track_caller]
    fn known(told: Told) -> (SocketAddr, bool) {
        match told {
            Told::Known(Ok(found), ask) => (found[0], ask.is_some()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_query_serves_all_who_ask() {
        let (mut cache, now) = cache(Limits::default());
        assert!(matches!(cache.look_up(&key("a"), now), Told::Comes(_, Some(_))));
        let Told::Comes(waits, None) = cache.look_up(&key("a"), now) else { panic!("it joins") };
        drop(waits);
        assert!(matches!(cache.look_up(&key("b"), now), Told::Comes(_, Some(_))));
        assert_eq!((cache.counters.queries, cache.counters.joined), (2, 1));
    }

    #[test]
    fn an_answer_holds_for_its_ttl_and_serves_while_it_is_refreshed() {
        let (mut cache, now) = cache(Limits::default());
        let a = key("a");
        cache.look_up(&a, now);
        cache.answered(&a, answer(1, 10), now).expect("an address");
        assert_eq!(known(cache.look_up(&a, now + 9 * SECOND)), (address(1), false));
        let late = now + 11 * SECOND;
        assert_eq!(known(cache.look_up(&a, late)), (address(1), true));
        assert_eq!(known(cache.look_up(&a, late)), (address(1), false), "one refreshes");
        cache.answered(&a, answer(2, 10), late).expect("an address");
        assert_eq!(known(cache.look_up(&a, late)), (address(2), false));
        assert_eq!((cache.counters.hits, cache.counters.stale_hits, cache.counters.queries), (2, 2, 2));
    }

    #[test]
    fn what_is_too_old_does_not_serve() {
        let (mut cache, now) = cache(Limits::default());
        let a = key("a");
        cache.look_up(&a, now);
        cache.answered(&a, answer(1, 10), now).expect("an address");
        assert!(matches!(cache.look_up(&a, now + 71 * SECOND), Told::Comes(_, Some(_))));
    }

    #[test]
    fn a_ttl_is_neither_too_short_nor_too_long() {
        let (mut cache, now) = cache(Limits { stale: Duration::ZERO, ..Limits::default() });
        for (name, ttl, holds) in [("a", 0, SECOND), ("b", 1 << 30, 3600 * SECOND)] {
            cache.look_up(&key(name), now);
            cache.answered(&key(name), answer(1, ttl), now).expect("an address");
            assert!(matches!(cache.look_up(&key(name), now + holds - SECOND / 10), Told::Known(Ok(_), None)));
            assert!(matches!(cache.look_up(&key(name), now + holds), Told::Comes(_, Some(_))));
        }
    }

    #[test]
    fn what_does_not_exist_is_remembered_and_a_failure_is_not() {
        let (mut cache, now) = cache(Limits::default());
        for (name, answer) in [("a", Err(ResolveError::NotFound)), ("b", Ok(Answer::default()))] {
            cache.look_up(&key(name), now);
            assert!(matches!(cache.answered(&key(name), answer, now), Err(ResolveError::NotFound)));
            assert!(matches!(cache.look_up(&key(name), now + 4 * SECOND), Told::Known(Err(_), None)));
            assert!(matches!(cache.look_up(&key(name), now + 5 * SECOND), Told::Comes(_, Some(_))));
        }
        cache.look_up(&key("c"), now);
        assert!(matches!(cache.answered(&key("c"), Err(ResolveError::Full), now), Err(ResolveError::Full)));
        assert!(matches!(cache.look_up(&key("c"), now), Told::Comes(_, Some(_))));
        assert_eq!((cache.counters.not_found, cache.counters.failures), (2, 1));
    }

    #[test]
    fn an_older_answer_outlives_a_failed_refresh() {
        let (mut cache, now) = cache(Limits::default());
        let a = key("a");
        cache.look_up(&a, now);
        cache.answered(&a, answer(1, 10), now).expect("an address");
        let late = now + 11 * SECOND;
        assert_eq!(known(cache.look_up(&a, late)), (address(1), true));
        assert!(cache.answered(&a, Err(ResolveError::Full), late).is_err());
        assert_eq!(known(cache.look_up(&a, late)), (address(1), true));
    }

    #[test]
    fn the_name_that_is_unused_for_longest_makes_room() {
        let (mut cache, now) = cache(Limits { names: 2, ..Limits::default() });
        for (name, at) in [("a", 0), ("b", 1)] {
            let now = now + at * SECOND;
            cache.look_up(&key(name), now);
            cache.answered(&key(name), answer(1, 100), now).expect("an address");
        }
        let now = now + 2 * SECOND;
        assert!(matches!(cache.look_up(&key("a"), now), Told::Known(..)));
        assert!(matches!(cache.look_up(&key("c"), now), Told::Comes(_, Some(_))));
        assert_eq!(cache.counters.evicted, 1);
        assert!(matches!(cache.look_up(&key("a"), now), Told::Known(..)), "it was used after b");
        assert!(matches!(cache.look_up(&key("b"), now), Told::Comes(_, Some(_))));
        // Both places have a query under way now.
        assert!(matches!(cache.look_up(&key("d"), now), Told::Known(Err(ResolveError::Full), None)));
        assert_eq!(cache.counters.refused, 1);
    }

    #[test]
    fn a_flood_of_addresses_is_cut() {
        let (mut cache, now) = cache(Limits { addresses: 3, ..Limits::default() });
        cache.look_up(&key("a"), now);
        let flood: Vec<_> = (0..200).map(address).collect();
        let found = cache.answered(&key("a"), Ok(Answer::from(flood)), now).expect("addresses");
        assert_eq!(&*found, [0, 1, 2].map(address));
    }
}
