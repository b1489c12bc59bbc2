//! The memory of dropped heads and headers, kept by the thread for the next ones.
//!
//! A head is a box of a few vectors. Allocating them costs more than parsing a small request, so they are
//! kept; and handing a box over is one word, where moving the vectors themselves was measured to stall on the
//! copies.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// The spare boxes of one type, of one thread: the first `count` slots are taken.
///
/// Cells in an array, as a vector in a `RefCell` would cost its flag, its capacity and its pointer at each
/// hand-over.
pub(crate) struct Spares<T> {
    slots: [Cell<Option<Box<T>>>; KEPT_MAX],
    count: Cell<usize>,
}

impl<T> Spares<T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self { slots: [const { Cell::new(None) }; KEPT_MAX], count: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<Box<T>> {
        let last = self.count.get().checked_sub(1)?;
        self.count.set(last);
        self.slots.get(last)?.take()
    }

    /// Drops `spare` if there are enough.
    #[inline]
    fn push(&self, spare: Box<T>) {
        let count = self.count.get();
        if let Some(slot) = self.slots.get(count) {
            slot.set(Some(spare));
            self.count.set(count + 1);
        }
    }
}

/// What is kept for reuse.
pub(crate) trait Spare: Sized + 'static {
    /// Where they are kept.
    fn kept() -> &'static LocalKey<Spares<Self>>;

    /// A new one, with room for the usual message.
    fn allocate() -> Box<Self>;

    /// Whether its memory is small enough to be kept.
    fn is_small(&self) -> bool;

    /// Drops what its user put into it and must not outlive the message.
    fn release(&mut self) {}

    /// Empties it for its next use.
    fn clear(&mut self);
}

/// A box from the thread's spares, which goes back to them when it is dropped. One pointer, so that it is cheap to move.
#[derive(Clone)]
pub(crate) struct Pooled<T: Pool> {
    /// `None` only while it is dropped.
    value: Option<Box<T>>,
}

/// A [`Spare`] that is seen through a [`Pooled`].
pub(crate) trait Pool: Spare {
    /// What a reader sees of a value that is gone.
    fn gone() -> &'static Self;
}

impl<T: Pool> From<Box<T>> for Pooled<T> {
    #[inline]
    fn from(value: Box<T>) -> Self {
        Self { value: Some(value) }
    }
}

impl<T: Pool> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_deref().unwrap_or_else(|| T::gone())
    }
}

impl<T: Pool> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.get_or_insert_with(draw)
    }
}

impl<T: Pool> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            give_back(value);
        }
    }
}

/// An empty one, with room.
#[inline]
pub(crate) fn draw<T: Spare>() -> Box<T> {
    let mut spare = draw_unclean::<T>();
    spare.clear();
    spare
}

/// One with room that still holds what its last user left, for those who set all of it.
#[inline]
pub(crate) fn draw_unclean<T: Spare>() -> Box<T> {
    match T::kept().try_with(Spares::pop) {
        Ok(Some(spare)) => spare,
        _ => T::allocate(),
    }
}

/// Keeps it for the next [`draw`], unless it is unusually large or there are enough.
#[inline]
pub(crate) fn give_back<T: Spare>(mut spare: Box<T>) {
    spare.release();
    if spare.is_small() {
        // Fails only while the thread ends; the memory is then simply freed.
        let _ = T::kept().try_with(|kept| kept.push(spare));
    }
}

/// How many of a type are kept by a thread.
pub(crate) const KEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use crate::h1::{Limits, RequestDecoder, RequestEvent};
    use crate::message::RequestParts;

    /// Decodes a head and tells where its lines lie.
    fn place_of_a_head(fields: &str) -> *const u8 {
        let mut input = Buffer::new();
        input.fill_from(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        match RequestDecoder::new(Limits::default()).decode(&mut input) {
            Ok(Some(RequestEvent::Head(head, _))) => head.headers().wire_bytes().as_ptr(),
            other => panic!("no head: {other:?}"),
        }
    }

    #[test]
    fn the_next_head_uses_the_memory_of_the_last() {
        let first = place_of_a_head("");
        assert_eq!(place_of_a_head("X: y\r\n"), first);
    }

    #[test]
    fn a_large_head_is_not_kept() {
        place_of_a_head("");
        let count = || RequestParts::kept().with(|kept| kept.count.get());
        assert_eq!(count(), 1);
        place_of_a_head(&format!("X: {}\r\n", "y".repeat(10_000)));
        assert_eq!(count(), 0);
    }
}
