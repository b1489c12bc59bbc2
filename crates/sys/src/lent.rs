//! A value that its owner lends to whatever runs on its thread meanwhile: what tasks share, without a pointer in each.
//!
//! A future is polled without arguments of its own. What the tasks of an executor have in common, such as the engine of
//! their connections, lies at a fixed place of the thread while they run: the owner puts it there with [`Lent::lend`],
//! and they reach it with [`Lent::with`]. Both cost a load and two stores, and the value does not move; a `RefCell` of an
//! `Option` of a `Box` does the same with three looks at memory and a destructor that the thread has to know.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;

/// A place at which one value is lent at a time; made for a `static` of `thread_local!`.
///
/// ```
/// use anywire_sys::lent::Lent;
///
/// thread_local!(static COUNT: Lent<u32> = const { Lent::new() });
///
/// let mut count = 1;
/// COUNT.with(|lent| lent.lend(&mut count, || COUNT.with(|lent| lent.with(|count| *count += 1))));
/// assert_eq!(count, 2);
/// assert_eq!(COUNT.with(|lent| lent.with(|count| *count)), None);
/// ```
pub struct Lent<T> {
    /// None while nothing is lent, and while it is in use.
    value: Cell<Option<NonNull<T>>>,
    is_lent: Cell<bool>,
}

impl<T> Lent<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self { value: Cell::new(None), is_lent: Cell::new(false) }
    }

    /// Lends a value for the time of `during`; what was lent before is lent again afterwards.
    pub fn lend<R>(&self, value: &mut T, during: impl FnOnce() -> R) -> R {
        let _lent = Reset { place: &self.is_lent, before: self.is_lent.replace(true) };
        let _value = Reset { place: &self.value, before: self.value.replace(Some(NonNull::from(value))) };
        during()
    }

    /// Does something with the value that is lent; none if none is, or if this is called from inside of `what`.
    #[inline(always)]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = self.value.take()?;
        let _value = Reset { place: &self.value, before: Some(value) };
        // SAFETY: `lend` was given this value for its own use alone, and is still running: it takes its pointer away from
        // here before it returns, or unwinds. Meanwhile nobody else has it: it was taken from its place, which is not
        // shared between threads, and comes back when `what` has ended.
        Some(what(unsafe { value.as_mut() }))
    }

    /// Whether a value is lent, in use or not.
    pub fn is_lent(&self) -> bool {
        self.is_lent.get()
    }
}

impl<T> Default for Lent<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts back what was there before, even if something panics.
struct Reset<'l, V: Copy> {
    place: &'l Cell<V>,
    before: V,
}

impl<V: Copy> Drop for Reset<'_, V> {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_value_is_there_while_it_is_lent() {
        let (place, mut value) = (Lent::new(), 1);
        assert!(!place.is_lent() && place.with(|_| ()).is_none());
        place.lend(&mut value, || {
            place.with(|value| *value += 1);
            assert!(place.is_lent());
        });
        assert!(!place.is_lent() && place.with(|_| ()).is_none());
        assert_eq!(value, 2);
    }

    #[test]
    fn nobody_gets_it_twice() {
        let (place, mut value) = (Lent::new(), 1);
        place.lend(&mut value, || {
            place.with(|value| {
                assert!(place.is_lent() && place.with(|_| ()).is_none());
                *value = 2;
            });
            assert_eq!(place.with(|value| *value), Some(2));
        });
    }

    #[test]
    fn another_may_be_lent_meanwhile() {
        let (place, mut outer, mut inner) = (Lent::new(), 1, 2);
        place.lend(&mut outer, || {
            place.with(|outer| {
                place.lend(&mut inner, || assert_eq!(place.with(|inner| *inner), Some(2)));
                *outer = 3;
            });
            place.lend(&mut inner, || assert_eq!(place.with(|inner| *inner), Some(2)));
            assert_eq!(place.with(|outer| *outer), Some(3));
        });
    }

    #[test]
    fn a_panic_leaves_it_as_it_was() {
        let (place, mut value) = (Lent::new(), 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            place.lend(&mut value, || {
                let panicked = catch_unwind(AssertUnwindSafe(|| place.with(|_| panic!("in use"))));
                assert!(panicked.is_err() && place.with(|value| *value) == Some(1));
                panic!("lent");
            });
        }));
        assert!(panicked.is_err() && !place.is_lent() && place.with(|_| ()).is_none());
    }
}
