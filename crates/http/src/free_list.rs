//! Free lists of a thread: dropped heads and headers leave their memory to the next ones.
//!
//! A head is a box of a few vectors. Allocating them costs more than parsing a small request, so they are reused. A box
//! moves as one word; moving the vectors themselves was measured to stall on the copies.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// The free list of one type on one thread: the first `count` slots hold boxes.
///
/// An array of cells, because a `RefCell<Vec>` would read its flag, capacity and pointer on each use.
pub(crate) struct FreeList<T> {
    slots: [Cell<Option<Box<T>>>; KEPT_MAX],
    count: Cell<usize>,
}

impl<T> FreeList<T> {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self { slots: [const { Cell::new(None) }; KEPT_MAX], count: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<Box<T>> {
        let last = self.count.get().checked_sub(1)?;
        self.count.set(last);
        self.slots.get(last)?.take()
    }

    /// Takes `value` unless the list is full.
    #[inline]
    fn push(&self, value: &mut Option<Box<T>>) {
        let count = self.count.get();
        if let Some(slot) = self.slots.get(count) {
            *value = slot.replace(value.take());
            self.count.set(count + 1);
        }
    }
}

/// A type whose boxes are reused.
pub(crate) trait Reused: Sized + 'static {
    /// The free list.
    fn kept() -> &'static LocalKey<FreeList<Self>>;

    /// A new box, with room for a usual message.
    fn allocate() -> Box<Self>;

    /// Whether its memory is small enough for the free list.
    fn is_small(&self) -> bool;

    /// Drops content that must not outlive the message.
    fn release(&mut self) {}

    /// Empties it for its next use.
    fn clear(&mut self);
}

/// A box from the free list that returns there when it is dropped. One pointer, so it is cheap to move.
#[derive(Clone)]
pub(crate) struct ReusedBox<T: Placeholder> {
    /// `None` until it is changed, and while it is dropped.
    value: Option<Box<T>>,
}

/// A [`Reused`] in a [`ReusedBox`].
pub(crate) trait Placeholder: Reused {
    /// A value to show while the box is gone.
    fn gone() -> &'static Self;
}

impl<T: Placeholder> From<Box<T>> for ReusedBox<T> {
    #[inline]
    fn from(value: Box<T>) -> Self {
        Self { value: Some(value) }
    }
}

/// No box, so that nothing is allocated.
impl<T: Placeholder> Default for ReusedBox<T> {
    #[inline]
    fn default() -> Self {
        Self { value: None }
    }
}

impl<T: Placeholder> Deref for ReusedBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_deref().unwrap_or_else(|| T::gone())
    }
}

impl<T: Placeholder> DerefMut for ReusedBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.get_or_insert_with(take)
    }
}

impl<T: Placeholder> Drop for ReusedBox<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            give_back(value);
        }
    }
}

/// An empty box, with room.
#[inline]
pub(crate) fn take<T: Reused>() -> Box<T> {
    let mut value = take_unclean::<T>();
    value.clear();
    value
}

/// A box with room that still holds its last content. The caller must set all of it.
#[inline]
pub(crate) fn take_unclean<T: Reused>() -> Box<T> {
    match T::kept().try_with(FreeList::pop) {
        Ok(Some(value)) => value,
        _ => T::allocate(),
    }
}

/// Puts it into the free list for the next [`take`], unless it is unusually large or the list is full.
#[inline]
pub(crate) fn give_back<T: Reused>(mut value: Box<T>) {
    value.release();
    let is_small = value.is_small();
    let mut value = Some(value);
    if is_small {
        // Fails only while the thread ends; the memory is then simply freed.
        let _ = T::kept().try_with(|kept| kept.push(&mut value));
    }
    if value.is_some() {
        free(value);
    }
}

// Out of line: its registers would be saved for each box that is kept.
#[cold]
#[inline(never)]
fn free<T>(value: Option<Box<T>>) {
    drop(value);
}

/// Boxes of one type in a thread's free list.
pub(crate) const KEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use crate::h1::{Limits, RequestDecoder, RequestEvent};
    use crate::message::RequestHeadInner;

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
        let count = || RequestHeadInner::kept().with(|kept| kept.count.get());
        assert_eq!(count(), 1);
        place_of_a_head(&format!("X: {}\r\n", "y".repeat(10_000)));
        assert_eq!(count(), 0);
    }
}
