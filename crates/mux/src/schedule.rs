//! Which streams of a connection have something to do: those that were woken, those whose deadline is set anew, those whose
//! deadline passes.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::woken::{StreamWaker, Woken};

/// Which streams of a connection are to be polled, and when, by the keys that their driver has for them.
#[derive(Debug)]
pub struct Schedule<K> {
    woken: Arc<Woken<K>>,
    ready: Vec<K>,
    dirty: Vec<K>,
    /// When the first deadline of a stream passes, or one has that does not count any more.
    deadline: Option<Instant>,
    /// The connection's window was closed when the deadlines were set.
    keeps_peer_waiting: bool,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        let (ready, dirty) = Default::default();
        Self { woken: Arc::default(), ready, dirty, deadline: None, keeps_peer_waiting: false }
    }
}

impl<K: Copy + PartialEq> Schedule<K> {
    /// Sets the connection's task, which is woken with each of its streams.
    pub fn set_task(&self, task: &Waker) {
        self.woken.set_task(task);
    }

    /// A waker of this stream, in the memory of `unused` if no other one shares that.
    pub fn waker(&self, stream: K, unused: Option<Arc<StreamWaker<K>>>) -> Arc<StreamWaker<K>> {
        StreamWaker::of(stream, unused, &self.woken)
    }

    /// Has a stream polled in this turn: once, if several frames of it come together.
    #[inline]
    pub fn poll_soon(&mut self, stream: K) {
        if self.ready.last() != Some(&stream) {
            self.ready.push(stream);
        }
    }

    /// Has all streams polled in this turn that were woken.
    pub fn take_woken(&mut self) {
        self.woken.take(&mut self.ready);
    }

    /// The next stream to be polled.
    pub fn next_ready(&mut self) -> Option<K> {
        self.ready.pop()
    }

    /// A stream may wait for something else than before: its deadline is to be set anew.
    #[inline]
    pub fn mark_dirty(&mut self, stream: K) {
        self.dirty.push(stream);
    }

    /// The next stream whose deadline is to be [set](Self::set_deadline).
    pub fn next_dirty(&mut self) -> Option<K> {
        self.dirty.pop()
    }

    /// Whether the deadline of any stream is to be set.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Notes whether [bodies that nobody reads](crate::Streams::keeps_peer_waiting) leave no window for the others. If that
    /// has changed, each stream waits for something else, and this is true.
    pub fn set_keeps_peer_waiting(&mut self, keeps: bool) -> bool {
        std::mem::replace(&mut self.keeps_peer_waiting, keeps) != keeps
    }

    /// What was noted last.
    pub fn keeps_peer_waiting(&self) -> bool {
        self.keeps_peer_waiting
    }

    /// A stream has this deadline from now on.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    /// Streams have these deadlines, and no others.
    pub fn reset_deadlines(&mut self, deadlines: impl Iterator<Item = Instant>) {
        self.deadline = deadlines.min();
    }

    /// When to look for streams that are late.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether a stream may be late.
    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// No stream is left: frees what only busy connections need.
    pub fn clear(&mut self) {
        (self.ready, self.dirty, self.deadline) = Default::default();
    }
}
