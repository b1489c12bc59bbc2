//! Which version of HTTP each origin speaks, as handshakes have said: what the loops of a client tell each other.
//!
//! Before the first handshake of an origin is done, nobody knows how many connections its calls need. If HTTP/2 wins, one is
//! enough. So the first calls gather on one loop, which dials, and the other loops begin when it is known.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use anywire_loops::clock::precise;
use anywire_wire::Address;

use crate::call::request::CallRequest;
use crate::client::config::{Config, Versions};
use crate::client::inner::Inner;
use crate::client::loops::ClientLoops;
use crate::pool::loop_pools::LoopPools;

/// What the handshakes of an origin agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learnt {
    Http1,
    Http2,
}

/// The origins of a client whose version is known, or is being asked for.
#[derive(Debug, Default)]
pub(crate) struct LearntOrigins(RwLock<HashMap<Box<str>, State>>);

#[derive(Debug)]
enum State {
    Known(Learnt),
    Asked(Asked),
}

/// A loop dials, and the others wait for what it learns.
#[derive(Debug)]
struct Asked {
    by: usize,
    since: Instant,
    /// Calls that were sent there.
    gathered: AtomicUsize,
}

impl LearntOrigins {
    pub(crate) fn version_of(&self, origin: &str) -> Option<Learnt> {
        match self.read().get(origin) {
            Some(State::Known(learnt)) => Some(*learnt),
            _ => None,
        }
    }

    /// A handshake has said it. So many origins are known at most.
    pub(crate) fn learn(&self, origin: &str, learnt: Learnt, origins_max: usize) {
        if self.version_of(origin) != Some(learnt) {
            insert(&mut self.write(), origin, State::Known(learnt), origins_max);
        }
    }

    /// A dial has failed: other loops may try on their own.
    pub(crate) fn forget(&self, origin: &str) {
        self.write().remove(origin);
    }

    /// The loop on which the calls of an origin gather, for one that would go to loop `index`; none if its version is known. `runs` says
    /// whether a loop does.
    fn loop_for(
        &self,
        origin: &str,
        index: usize,
        now: Instant,
        origins_max: usize,
        runs: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let serves = |asked: &Asked| {
            let is_new = now.saturating_duration_since(asked.since) < ASKED_MAX;
            is_new && runs(asked.by) && asked.gathered.fetch_add(1, Ordering::Relaxed) < GATHERED_MAX
        };
        match self.read().get(origin) {
            Some(State::Known(_)) => return None,
            Some(State::Asked(asked)) if serves(asked) => return Some(asked.by),
            _ => {}
        }
        let mut origins = self.write();
        match origins.get(origin) {
            Some(State::Known(_)) => return None,
            Some(State::Asked(asked)) if serves(asked) => return Some(asked.by),
            _ => {}
        }
        let asked = Asked { by: index, since: now, gathered: AtomicUsize::new(1) };
        insert(&mut origins, origin, State::Asked(asked), origins_max);
        Some(index)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Box<str>, State>> {
        // Nothing panics while the lock is held.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<Box<str>, State>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what is known of an origin.
fn insert(origins: &mut HashMap<Box<str>, State>, origin: &str, state: State, origins_max: usize) {
    if origins.len() >= origins_max && !origins.contains_key(origin) {
        // What is forgotten is learnt anew, at the price of a dial more.
        origins.clear();
    }
    origins.insert(origin.into(), state);
}

/// Whether the handshake says which version an origin speaks, and all calls to it go the same way.
pub(crate) fn learns(url: &anywire_http::Url, via: Option<&Address>, config: &Config) -> bool {
    url.is_https()
        && via.is_none()
        && config.versions == Versions::Negotiated
        && !config.balances.has(url.origin())
}

/// The loop for a call that would go to loop `index`: the one that dials already, if it is not known what that will find.
#[inline]
pub(crate) fn gather(
    inner: &Inner,
    local: Option<&LoopPools>,
    loops: &ClientLoops,
    request: &CallRequest,
    index: usize,
) -> Gathered {
    // Looked at for each call.
    match request.url.is_https() && loops.list.len() > 1 {
        true => gather_by_origin(inner, local, loops, request, index),
        false => Gathered { index, others: 0 },
    }
}

/// Where a call goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gathered {
    pub(crate) index: usize,
    /// How many other loops may have room if that one has none: for now, all calls of the origin go to that one.
    pub(crate) others: usize,
}

fn gather_by_origin(
    inner: &Inner,
    local: Option<&LoopPools>,
    loops: &ClientLoops,
    request: &CallRequest,
    index: usize,
) -> Gathered {
    let config = &*inner.config_of(request.url.origin());
    let stays = Gathered { index, others: 0 };
    if !learns(&request.url, request.options.via.as_ref(), config) {
        return stays;
    }
    // Without a look at what is shared: most calls have their pool on their loop.
    if local.is_some_and(|local| local.index() == index && local.has_pool(request)) {
        return stays;
    }
    let runs = |index: usize| inner.runs(index);
    match inner.learnt().loop_for(request.url.origin(), index, precise(), config.limits.origins, runs) {
        Some(index) => Gathered { index, others: inner.owners(loops, &request.url) - 1 },
        None => stays,
    }
}

/// A dial that lasts longer than this has other deadlines than the default ones, or its loop has not begun it.
const ASKED_MAX: Duration = Duration::from_secs(10);

/// Calls that gather on one loop: what one connection may carry. Beyond that one is not enough.
const GATHERED_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn loop_for(origins: &LearntOrigins, index: usize, now: Instant) -> Option<usize> {
        origins.loop_for("https://a", index, now, 2, |index| index != 9)
    }

    #[test]
    fn calls_gather_until_it_is_known() {
        let (origins, now) = (LearntOrigins::default(), precise());
        assert_eq!([2, 0, 1].map(|index| loop_for(&origins, index, now)), [Some(2); 3]);
        assert_eq!(origins.version_of("https://a"), None);
        origins.learn("https://a", Learnt::Http2, 2);
        assert_eq!(origins.version_of("https://a"), Some(Learnt::Http2));
        assert_eq!([2, 0, 1].map(|index| loop_for(&origins, index, now)), [None; 3]);
    }

    #[test]
    fn nobody_waits_for_a_loop_that_fails() {
        let (origins, now) = (LearntOrigins::default(), precise());
        assert_eq!(loop_for(&origins, 9, now), Some(9));
        assert_eq!(loop_for(&origins, 1, now), Some(1), "loop 9 does not run");
        assert_eq!(loop_for(&origins, 0, now + ASKED_MAX), Some(0), "it takes too long");
        origins.forget("https://a");
        assert_eq!(loop_for(&origins, 2, now), Some(2), "its dial has failed");
    }

    #[test]
    fn more_than_one_connection_carries_do_not_gather() {
        let (origins, now) = (LearntOrigins::default(), precise());
        let gathered = (0..GATHERED_MAX).filter(|_| loop_for(&origins, 0, now) == Some(0)).count();
        assert_eq!(gathered, GATHERED_MAX);
        assert_eq!(loop_for(&origins, 1, now), Some(1));
    }

    #[test]
    fn so_many_origins_are_known_and_no_more() {
        let (origins, now) = (LearntOrigins::default(), precise());
        for name in 0..10 {
            origins.loop_for(&format!("https://{name}"), 0, now, 2, |_| true);
            assert!(origins.read().len() <= 2);
        }
        // On one loop none is asked for before it is known.
        for name in 10..20 {
            let name = format!("https://{name}");
            origins.learn(&name, Learnt::Http1, 2);
            assert_eq!(origins.version_of(&name), Some(Learnt::Http1));
            assert!(origins.read().len() <= 2);
        }
    }
}
