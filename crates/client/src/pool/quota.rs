//! The connections of all loops of a client under one cap: no more than that in sum, whichever loops have them.
//!
//! Each loop has a share of the cap. What the others do not use is lent to it, until one of them is short of its share.
//! Looked at for dials and for connections that end, and for no call.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Limits;
use crate::connector::CapKey;
use crate::pool::context::LoopContext;

/// The connections under one cap.
#[derive(Debug)]
pub(crate) struct Quota {
    state: Mutex<State>,
    /// How many more there may be: a copy for looks without the lock.
    free: AtomicUsize,
    /// Some loop may have to give one back: the same.
    is_pressed: AtomicBool,
}

#[derive(Debug)]
struct State {
    cap: usize,
    loops: Vec<Part>,
}

/// What one loop has.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Connections and dials.
    held: usize,
    /// Calls wait there for one more.
    wants: bool,
}

/// What comes of asking for a connection.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    OfShare,
    /// Beyond the share.
    Lent,
    /// There is none. These loops have more than their share, and are to give one back.
    Refused(Vec<usize>),
}

impl State {
    fn share(&self, index: usize) -> usize {
        Limits::share(self.cap, index, self.loops.len())
    }

    fn is_below_share(&self, index: usize) -> bool {
        self.loops[index].held < self.share(index)
    }

    fn held(&self) -> usize {
        self.loops.iter().map(|part| part.held).sum()
    }

    fn free(&self) -> usize {
        self.cap.saturating_sub(self.held())
    }

    /// Loops that want one of their share.
    fn short(&self) -> impl Iterator<Item = usize> {
        (0..self.loops.len()).filter(|&index| self.loops[index].wants && self.is_below_share(index))
    }

    /// How many connections some loops have to give back.
    fn owed_in_all(&self) -> usize {
        let beyond_cap = self.held().saturating_sub(self.cap);
        beyond_cap + self.short().count().saturating_sub(self.free())
    }

    fn owed_by(&self, index: usize) -> usize {
        self.loops[index].held.saturating_sub(self.share(index)).min(self.owed_in_all())
    }

    fn take(&mut self, index: usize, may_borrow: bool) -> Taken {
        let is_below_share = self.is_below_share(index);
        // What others are short of is theirs.
        let others = self.short().filter(|&other| other != index).count();
        let needed = if is_below_share { 0 } else { others };
        if self.free() > needed && (is_below_share || may_borrow) {
            let part = &mut self.loops[index];
            part.held += 1;
            part.wants = false;
            return if is_below_share { Taken::OfShare } else { Taken::Lent };
        }
        self.loops[index].wants = true;
        Taken::Refused((0..self.loops.len()).filter(|&other| self.owed_by(other) > 0).collect())
    }
}

impl Quota {
    fn new(cap: usize, loops: usize) -> Self {
        let state = State { cap, loops: vec![Part::default(); loops] };
        Self { state: Mutex::new(state), free: AtomicUsize::new(cap), is_pressed: AtomicBool::new(false) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        self.free.store(state.free(), Ordering::Relaxed);
        self.is_pressed.store(state.owed_in_all() > 0, Ordering::Relaxed);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there may be no more.
    pub(crate) fn is_spent(&self) -> bool {
        self.free.load(Ordering::Relaxed) == 0
    }

    /// Connections that a loop may still have of its share.
    pub(crate) fn left_of_share(&self, index: usize) -> usize {
        let state = self.lock();
        state.share(index).saturating_sub(state.loops[index].held).min(state.free())
    }

    /// Connections that a loop has to give back, because another one is short of its share, or there are more than there may be.
    pub(crate) fn owed_by(&self, index: usize) -> usize {
        if self.is_pressed.load(Ordering::Relaxed) { self.lock().owed_by(index) } else { 0 }
    }

    fn set_cap(&self, cap: usize) {
        self.change(|state| state.cap = cap);
    }

    /// No call of one pool waits for a connection any more. Other loops may have the connection that was kept for it.
    pub(crate) fn is_satisfied(&self, context: &LoopContext) {
        self.change_for_others(context, |part| part.wants = false);
        // Another pool of the loop may want one still: with a proxy, upgrades have a pool of their own.
        context.kick();
    }

    /// Changes what a loop has or wants, which may leave a connection for others that want one.
    fn change_for_others(&self, context: &LoopContext, change: impl FnOnce(&mut Part)) {
        let index = context.index;
        let waiting: Vec<_> = self.change(|state| {
            change(&mut state.loops[index]);
            (0..state.loops.len()).filter(|&one| state.loops[one].wants).collect()
        });
        for one in waiting {
            if one == index { context.kick() } else { context.inner().look_at_pools(one) }
        }
    }
}

/// The right to one connection. Its drop gives it back.
pub(crate) struct Permit {
    quota: Arc<Quota>,
    context: Rc<LoopContext>,
}

impl Permit {
    /// The right to one more connection for a loop: of its share, or beyond it if the loop may borrow. If there is none, the loop is woken
    /// once there may be.
    pub(crate) fn take(quota: &Arc<Quota>, context: &Rc<LoopContext>, may_borrow: bool) -> Option<Self> {
        match quota.change(|state| state.take(context.index, may_borrow)) {
            Taken::OfShare => {}
            Taken::Lent => context.cells.lent.add(1),
            Taken::Refused(lenders) => {
                lenders.into_iter().for_each(|index| context.inner().look_at_pools(index));
                return None;
            }
        }
        Some(Self { quota: Arc::clone(quota), context: Rc::clone(context) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.quota.change_for_others(&self.context, |part| part.held -= 1);
    }
}

/// The quotas of a client.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<HashMap<CapKey, Weak<Quota>>>);

impl Quotas {
    /// The quota of a key, which all its pools share. The `cap` is asked for under the lock: a pool that is made with options which
    /// another thread has replaced meanwhile does not bring their cap back.
    pub(crate) fn of(&self, key: CapKey, loops: usize, cap: impl FnOnce(&str) -> usize) -> Arc<Quota> {
        let mut quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = quotas.get(&key).and_then(Weak::upgrade) {
            return quota;
        }
        quotas.retain(|_, quota| quota.strong_count() > 0);
        let quota = Arc::new(Quota::new(cap(&key.origin), loops));
        quotas.insert(key, Arc::downgrade(&quota));
        quota
    }

    /// Changes the cap of an origin, and of each of its addresses. The `cap` is asked for under the lock, as above.
    pub(crate) fn set_cap(&self, origin: &str, cap: impl FnOnce() -> usize) {
        let quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cap = cap();
        for (_, quota) in quotas.iter().filter(|(key, _)| *key.origin == *origin) {
            quota.upgrade().into_iter().for_each(|quota| quota.set_cap(cap));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(cap: usize, held: &[usize]) -> State {
        State { cap, loops: held.iter().map(|&held| Part { held, wants: false }).collect() }
    }

    #[test]
    fn one_loop_may_have_all() {
        let mut state = state(5, &[0, 0]);
        let taken: Vec<_> = (0..6).map(|_| state.take(1, true)).collect();
        assert_eq!(taken[..2], [Taken::OfShare, Taken::OfShare]);
        assert_eq!(taken[2..5], [Taken::Lent, Taken::Lent, Taken::Lent]);
        assert_eq!(
            taken[5],
            Taken::Refused(Vec::new()),
            "nobody has more than its share but the loop itself"
        );
        assert_eq!(state.owed_in_all(), 0);
        state.loops[1].held = 2;
        assert_eq!(state.take(1, false), Taken::Refused(Vec::new()), "it has its share");
    }

    #[test]
    fn what_is_lent_comes_back_to_one_that_is_short() {
        let mut state = state(4, &[4, 0]);
        assert_eq!(state.take(1, true), Taken::Refused(vec![0]));
        assert_eq!((state.owed_by(0), state.owed_by(1)), (1, 0));
        state.loops[0].held -= 1;
        assert_eq!(state.owed_by(0), 0, "the free one is for the other");
        assert!(matches!(state.take(0, true), Taken::Refused(_)));
        assert_eq!(state.take(1, true), Taken::OfShare);
        // A loop that has its share asks for no more than what is free.
        state.loops = [2, 2].map(|held| Part { held, wants: false }).to_vec();
        assert_eq!(state.take(1, true), Taken::Refused(Vec::new()));
    }

    /// The options of the pool were read before another thread has replaced them.
    #[test]
    fn a_pool_that_is_made_late_brings_no_old_cap_back() {
        let (quotas, key) = (Quotas::default(), || CapKey { origin: "http://a".into(), address: None });
        let first = quotas.of(key(), 1, |_| 64);
        quotas.set_cap("http://a", || 4);
        let second = quotas.of(key(), 1, |_| 64);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(second.lock().cap, 4);
    }

    #[test]
    fn a_smaller_cap_is_owed_by_those_who_have_more_than_their_share() {
        let state = state(4, &[5, 1, 4]);
        assert_eq!([0, 1, 2].map(|index| state.owed_by(index)), [3, 0, 3]);
    }
}
