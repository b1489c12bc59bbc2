//! A value that its owner lends to all code on its thread for a time, so that tasks share it without a pointer in each.
//!
//! A future is polled without arguments of its own. The tasks of an executor share values, such as the engine of their
//! connections, through a fixed place of the thread. The owner puts the value there with [`Lent::lend`], and tasks reach it
//! with [`Lent::with`]. Both cost a load and two stores, and the value does not move. A `RefCell` of an `Option` of a `Box`
//! needs three reads of memory, and a destructor of the thread.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;

/// A place at which one value is lent at a time: in a `static` of `thread_local!`, alone or as a field.
///
/// ```
/// use anywire_sys::lent::Lent;
///
/// thread_local!(static COUNT: Lent<u32> = const { Lent::new() });
///
/// let mut count = 1;
/// COUNT.with(|place| place.lend(&mut count, || COUNT.with(|place| place.with(|count| *count += 1))));
/// assert_eq!(count, 2);
/// assert_eq!(COUNT.with(|place| place.with(|count| *count)), None);
/// ```
pub struct Lent<T> {
    /// None while nothing is lent, and while it is in use.
    value: Cell<Option<NonNull<T>>>,
}

impl<T> Lent<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self { value: Cell::new(None) }
    }

    /// Lends a value for the time of `during`. Afterwards the value that was lent before is lent again.
    pub fn lend<R>(&self, value: &mut T, during: impl FnOnce() -> R) -> R {
        let _before = Back { place: self, value: self.value.replace(Some(NonNull::from(value))) };
        during()
    }

    /// Calls `what` with the lent value. None if no value is lent, or if `what` itself calls this.
    #[inline(always)]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = self.value.take()?;
        let _value = Back { place: self, value: Some(value) };
        // SAFETY: `lend` was given this value for its own use alone, and is still running: it takes its pointer away from
        // here before it returns, or unwinds. The pointer is unique meanwhile: it was taken from its place, which
        // belongs to this thread, and comes back when `what` has ended.
        Some(what(unsafe { value.as_mut() }))
    }
}

impl<T> Default for Lent<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts a pointer back to its place, even if something panics.
struct Back<'p, T> {
    place: &'p Lent<T>,
    value: Option<NonNull<T>>,
}

impl<T> Drop for Back<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.value.set(self.value);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_value_is_there_while_it_is_lent() {
        let (place, mut lent) = (Lent::new(), 1);
        assert!(value(&place).is_none());
        place.lend(&mut lent, || place.with(|value| *value += 1));
        assert!(value(&place).is_none());
        assert_eq!(lent, 2);
    }

    #[test]
    fn a_value_in_use_is_not_given_twice() {
        let (place, mut lent) = (Lent::new(), 1);
        place.lend(&mut lent, || {
            place.with(|outer| {
                assert!(value(&place).is_none());
                *outer = 2;
            });
            assert_eq!(value(&place), Some(2));
        });
    }

    #[test]
    fn another_may_be_lent_meanwhile() {
        let (place, mut outer, mut inner) = (Lent::new(), 1, 2);
        place.lend(&mut outer, || {
            place.with(|outer| {
                place.lend(&mut inner, || assert_eq!(value(&place), Some(2)));
                assert!(value(&place).is_none());
                *outer = 3;
            });
            place.lend(&mut inner, || assert_eq!(value(&place), Some(2)));
            assert_eq!(value(&place), Some(3));
        });
    }

    #[test]
    fn a_panic_leaves_it_as_it_was() {
        let (place, mut lent) = (Lent::new(), 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            place.lend(&mut lent, || {
                let panicked = catch_unwind(AssertUnwindSafe(|| place.with(|_| panic!("in use"))));
                assert!(panicked.is_err() && value(&place) == Some(1));
                panic!("lent");
            });
        }));
        assert!(panicked.is_err() && value(&place).is_none());
    }

    fn value(place: &Lent<u32>) -> Option<u32> {
        place.with(|value| *value)
    }
}
