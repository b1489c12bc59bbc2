//! Pinned places for very many values that need dropping, such as futures: reserved once, and no value ever moves.
//!
//! An executor of millions of tasks wants task *i* at a place that can be computed, with no allocation and no pointer
//! for each. [`Slots`] is that place: a range of addresses in huge pages, where memory comes with the first value that
//! is put near it. Beside each value lies one byte: whether the place is taken, and a mark of 7 bits that is the
//! caller's own. It is beside the value and not in a bitmap, because the value is read next: both come with one
//! cache line.
//!
//! Limits: a place takes the bytes of the value and the byte, rounded up to the alignment of the value (at most 4096).
//! Memory is given back only when all is dropped.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop};
use std::pin::Pin;
use std::ptr::NonNull;

use anywire_advice::Message;

use crate::arena::Mapping;
use crate::prefetch::{LINE_BYTES, prefetch_at};

/// Places for values of one type that are pinned from the moment they are put in until they are dropped.
///
/// ```
/// use anywire_sys::slots::Slots;
///
/// let mut names = Slots::reserve(100_000_000)?; // addresses, and no memory yet
/// names.insert(7, "seven".to_owned()).expect("nothing is there yet");
/// assert_eq!(names.pin(7).expect("it was put there").as_str(), "seven");
/// assert!(names.insert(7, "another".to_owned()).is_err());
/// assert!(names.remove(7) && !names.contains(7));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Slots<T> {
    first: NonNull<Slot<T>>,
    capacity: usize,
    taken: usize,
    /// No value was ever put at this place or above it.
    reach: usize,
    _mapping: Mapping,
    owned: PhantomData<T>,
}

/// A place. All zeroes is an empty one, which is how memory comes from the system.
struct Slot<T> {
    value: MaybeUninit<T>,
    /// [`TAKEN`], and the mark in the other bits.
    state: u8,
}

impl<T> Slots<T> {
    /// Bytes of one place: the size of a `T` plus one, rounded up to its alignment.
    pub const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// Reserves addresses for `capacity` values, and no memory.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `capacity` is 0, if the alignment of `T` is above 4096, or if the size exceeds the address space.
    /// Otherwise the error of `mmap(2)`: `OutOfMemory` if the process may not have so many addresses.
    pub fn reserve(capacity: usize) -> io::Result<Self> {
        let refused = |why: &str, help: &str| {
            let found = format!(
                "cannot reserve {capacity} places of {} bytes (alignment {}): {why}",
                Self::SLOT_BYTES,
                align_of::<T>()
            );
            io::Error::new(io::ErrorKind::InvalidInput, Message::new(found).with_help(help))
        };
        if capacity == 0 {
            return Err(refused("there is nothing to hold", "ask for one place at least"));
        }
        if align_of::<T>() > PAGE_BYTES {
            return Err(refused("memory comes in pages aligned to 4096", "align its type to less"));
        }
        let bytes = capacity
            .checked_mul(Self::SLOT_BYTES)
            .filter(|&bytes| bytes <= isize::MAX as usize / 2)
            .ok_or_else(|| refused("that is more than all addresses", "ask for fewer places"))?;
        let mapping = Mapping::of(bytes)?;
        Ok(Self {
            first: mapping.start.cast(),
            capacity,
            taken: 0,
            reach: 0,
            _mapping: mapping,
            owned: PhantomData,
        })
    }

    /// Places in all, taken or not.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Places taken.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether no place is taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Bytes up to the highest place that was ever taken: the memory this takes, if it was filled from the start.
    pub fn bytes(&self) -> usize {
        self.reach * Self::SLOT_BYTES
    }

    /// Puts a value into a place; its mark stays as it is (0 at first).
    ///
    /// # Errors
    ///
    /// The value itself, if the place is taken or does not exist.
    #[inline]
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), T> {
        match self.slot(index) {
            Some(slot) if slot.state & TAKEN == 0 => {
                slot.value.write(value);
                slot.state |= TAKEN;
                self.taken += 1;
                self.reach = self.reach.max(index + 1);
                Ok(())
            }
            _ => Err(value),
        }
    }

    /// The value of a place; `None` if there is none.
    #[inline(always)]
    pub fn pin(&mut self, index: usize) -> Option<Pin<&mut T>> {
        let slot = self.slot(index)?;
        if slot.state & TAKEN == 0 {
            return None;
        }
        // SAFETY: the place is taken, so `insert` has written its value and `remove` has not dropped it. The value is
        // never moved and its memory never reused before it was dropped in place: by `remove`, or with all others.
        Some(unsafe { Pin::new_unchecked(slot.value.assume_init_mut()) })
    }

    /// The value of a place, and its mark to be set; `None` if there is no value.
    #[inline(always)]
    pub fn pin_marked(&mut self, index: usize) -> Option<(Pin<&mut T>, Mark<'_>)> {
        let slot = self.slot(index)?;
        if slot.state & TAKEN == 0 {
            return None;
        }
        // SAFETY: as in `pin`.
        let value = unsafe { Pin::new_unchecked(slot.value.assume_init_mut()) };
        Some((value, Mark { state: &mut slot.state }))
    }

    /// Whether a place is taken.
    #[inline(always)]
    pub fn contains(&self, index: usize) -> bool {
        self.state(index) & TAKEN != 0
    }

    /// Drops the value of a place where it lies; `false` if there is none. Its mark stays as it is.
    #[inline]
    pub fn remove(&mut self, index: usize) -> bool {
        let Some(slot) = self.slot(index) else { return false };
        if slot.state & TAKEN == 0 {
            return false;
        }
        // First, so that a value whose drop panics is not dropped again.
        slot.state &= !TAKEN;
        let value = slot.value.as_mut_ptr();
        self.taken -= 1;
        // SAFETY: the place was taken, so its value is there; it was marked as empty before, so this is the only drop.
        unsafe { value.drop_in_place() };
        true
    }

    /// Drops all values where they lie. If the drop of one panics, so does this, after it has dropped the others.
    pub fn clear(&mut self) {
        self.remove_from(0);
    }

    /// The caller's mark of a place, taken or not; 0 at first, and of a place that does not exist.
    #[inline(always)]
    pub fn mark(&self, index: usize) -> u8 {
        self.state(index) & !TAKEN
    }

    /// Sets the mark of a place, taken or not: 7 bits, the highest is cut off. Nothing if the place does not exist.
    #[inline(always)]
    pub fn set_mark(&mut self, index: usize, mark: u8) {
        if let Some(slot) = self.slot(index) {
            slot.state = (slot.state & TAKEN) | (mark & !TAKEN);
        }
    }

    /// Sets the mark of a taken place from `old` to `new`, and tells whether it was taken and its mark was `old`.
    #[inline(always)]
    pub fn exchange_mark(&mut self, index: usize, old: u8, new: u8) -> bool {
        match self.slot(index) {
            Some(slot) if slot.state == TAKEN | old => {
                slot.state = TAKEN | (new & !TAKEN);
                true
            }
            _ => false,
        }
    }

    /// Asks for the cache lines of a place, the first four at most. Never a fault, even if it does not exist.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        // No look at the capacity: any address will do.
        let slot = self.first.as_ptr().wrapping_add(index);
        // Places that divide a line lie in one line each, because the first one starts at a page.
        if LINE_BYTES.is_multiple_of(Self::SLOT_BYTES) {
            prefetch_at(slot.cast::<u8>());
        } else {
            prefetch_at(slot);
        }
    }

    #[inline(always)]
    fn state(&self, index: usize) -> u8 {
        if index >= self.capacity {
            return 0;
        }
        // SAFETY: `index` is below `capacity`, so the place lies in the mapping, which is readable, aligned and
        // initialised by the system; `&self` keeps everybody from writing.
        unsafe { (*self.first.add(index).as_ptr()).state }
    }

    #[inline(always)]
    fn slot(&mut self, index: usize) -> Option<&mut Slot<T>> {
        if index >= self.capacity {
            return None;
        }
        // SAFETY: as in `state`; the mapping is writable and ours alone, and `&mut self` makes the access exclusive.
        // `value` may hold anything, and `state` is a plain byte, zero at first.
        Some(unsafe { self.first.add(index).as_mut() })
    }

    /// Drops the values of all places from `index` up, even those behind one whose drop panics: memory that held a
    /// pinned value must not go before the value was dropped.
    fn remove_from(&mut self, index: usize) {
        struct Rest<'s, T> {
            slots: &'s mut Slots<T>,
            next: usize,
        }
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                if self.next < self.slots.reach && self.slots.taken > 0 {
                    self.slots.remove_from(self.next);
                }
            }
        }
        let mut rest = Rest { slots: self, next: index };
        while rest.next < rest.slots.reach && rest.slots.taken > 0 {
            rest.next += 1;
            rest.slots.remove(rest.next - 1);
        }
    }
}

/// The mark of a place that is taken.
pub struct Mark<'s> {
    state: &'s mut u8,
}

impl Mark<'_> {
    /// Sets it: 7 bits, the highest is cut off.
    #[inline(always)]
    pub fn set(self, mark: u8) {
        *self.state = TAKEN | (mark & !TAKEN);
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            self.remove_from(0);
        }
    }
}

// SAFETY: the slots own their mapping as a `Vec` owns its buffer, and give out values only by their own borrows.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> fmt::Debug for Slots<T> {
    /// Not the values: there are millions.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Slots")
            .field("len", &self.taken)
            .field("capacity", &self.capacity)
            .field("slot_bytes", &Self::SLOT_BYTES)
            .finish_non_exhaustive()
    }
}

/// The bit of a place's byte that says that a value is there.
const TAKEN: u8 = 0x80;
/// The smallest page of any system this runs on, and the largest alignment of a value.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::marker::PhantomPinned;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    /// Counts its drops, and panics in the drop of a negative number.
    struct Counted(i32, Rc<Cell<usize>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            assert!(self.0 >= 0, "this one panics when it is dropped");
        }
    }

    #[test]
    fn values_stay_where_they_are_until_they_are_dropped() {
        let mut slots = Slots::reserve(1000).expect("addresses are free");
        assert!(slots.insert(3, (33, PhantomPinned)).is_ok());
        let address = &raw const *slots.pin(3).expect("it was put there");
        for index in (0..1000).filter(|&index| index != 3) {
            assert!(slots.insert(index, (index, PhantomPinned)).is_ok());
        }
        let pinned = slots.pin(3).expect("it is there still");
        assert_eq!((&raw const *pinned, pinned.0), (address, 33));
        assert_eq!((slots.len(), slots.bytes()), (1000, 1000 * Slots::<(usize, PhantomPinned)>::SLOT_BYTES));
    }

    #[test]
    fn a_place_holds_one_value() {
        let mut slots = Slots::reserve(10).expect("addresses are free");
        assert!(slots.is_empty() && !slots.contains(2) && slots.pin(2).is_none() && !slots.remove(2));
        assert_eq!(slots.insert(2, "two"), Ok(()));
        assert_eq!(slots.insert(2, "again"), Err("again"));
        assert!(slots.remove(2) && !slots.remove(2) && slots.is_empty());
        assert_eq!(slots.insert(2, "again"), Ok(()));
    }

    #[test]
    fn beyond_the_last_place_there_is_nothing() {
        let mut slots = Slots::reserve(10).expect("addresses are free");
        for index in [10, 11, usize::MAX] {
            assert_eq!(slots.insert(index, 1_u64), Err(1));
            assert!(slots.pin(index).is_none() && !slots.contains(index) && !slots.remove(index));
            slots.set_mark(index, 1);
            slots.prefetch(index);
            assert!(slots.mark(index) == 0 && !slots.exchange_mark(index, 0, 1));
        }
    }

    #[test]
    fn marks_outlive_values() {
        let mut slots = Slots::reserve(10).expect("addresses are free");
        assert!(!slots.exchange_mark(1, 0, 5));
        assert_eq!(slots.insert(1, 1_u8), Ok(()));
        assert!(slots.exchange_mark(1, 0, 5) && !slots.exchange_mark(1, 0, 6));
        assert!(slots.remove(1) && slots.mark(1) == 5 && !slots.contains(1));
        slots.set_mark(1, 0xff);
        assert!(slots.mark(1) == 0x7f && !slots.contains(1) && slots.pin_marked(1).is_none());
        assert_eq!(slots.insert(1, 7), Ok(()));
        let (value, mark) = slots.pin_marked(1).expect("it was put there");
        assert_eq!(*value, 7);
        mark.set(0x83);
        assert!(slots.mark(1) == 3 && slots.contains(1));
    }

    #[test]
    fn every_value_is_dropped_once_even_if_some_panic() {
        let drops = Rc::new(Cell::new(0));
        let mut slots = Slots::reserve(100).expect("addresses are free");
        for index in (0..100).step_by(3) {
            let sign = if index == 30 { -1 } else { 1 };
            assert!(slots.insert(index, Counted(sign, Rc::clone(&drops))).is_ok());
        }
        assert!(slots.remove(33));
        assert_eq!(drops.get(), 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| drop(slots)));
        assert!(panicked.is_err());
        assert_eq!(drops.get(), 34);
    }

    #[test]
    fn a_place_takes_one_byte_more_than_its_value() {
        assert_eq!(Slots::<[u32; 3]>::SLOT_BYTES, 16);
        assert_eq!(Slots::<u8>::SLOT_BYTES, 2);
        assert_eq!(Slots::<()>::SLOT_BYTES, 1);
    }

    #[test]
    fn the_impossible_is_refused() {
        #[repr(align(8192))]
        struct Wide;
        assert!(Slots::<u8>::reserve(0).is_err());
        assert!(Slots::<u64>::reserve(usize::MAX).is_err());
        let error = Slots::<Wide>::reserve(1).expect_err("no page is so aligned");
        assert!(error.to_string().contains("alignment"), "{error}");
    }
}
