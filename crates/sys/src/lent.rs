//! A value that its owner lends to all code on its thread for a time, so that tasks share it without a pointer in each.
//!
//! A future is polled without arguments of its own. The tasks of an executor share values, such as the engine of their
//! connections, through a fixed place of the thread. The owner puts the value there with [`Lent::lend`], and tasks reach it
//! with [`Lent::with`]. Both cost a load and two stores, and the value does not move. A `RefCell` of an `Option` of a `Box`
//! needs three reads of memory, and a destructor of the thread.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;
use std::thread::LocalKey;

/// A place at which one value is lent at a time: a `static` of `thread_local!`.
///
/// ```
/// use anywire_sys::lent::Lent;
///
/// thread_local!(static COUNT: Lent<u32> = const { Lent::new() });
///
/// let mut count = 1;
/// Lent::lend(&COUNT, &mut count, || Lent::with(&COUNT, |count| *count += 1));
/// assert_eq!(count, 2);
/// assert_eq!(Lent::with(&COUNT, |count| *count), None);
/// ```
pub struct Lent<T> {
    /// None while nothing is lent, and while it is in use.
    value: Cell<Option<NonNull<T>>>,
    is_lent: Cell<bool>,
}

impl<T: 'static> Lent<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self { value: Cell::new(None), is_lent: Cell::new(false) }
    }

    /// Lends a value for the time of `during`. Afterwards the value that was lent before is lent again.
    pub fn lend<R>(place: &'static LocalKey<Self>, value: &mut T, during: impl FnOnce() -> R) -> R {
        let value = Some(NonNull::from(value));
        let (value, is_lent) = place.with(|place| (place.value.replace(value), place.is_lent.replace(true)));
        let _value = Back { place, value };
        let _mark = Unmark { place, is_lent };
        during()
    }

    /// Calls `what` with the lent value. None if no value is lent, or if `what` itself calls this.
    #[inline(always)]
    pub fn with<R>(place: &'static LocalKey<Self>, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = place.with(|place| place.value.take())?;
        let _value = Back { place, value: Some(value) };
        // SAFETY: `lend` was given this value for its own use alone, and is still running: it takes its pointer away from
        // here before it returns, or unwinds. The pointer is unique meanwhile: it was taken from its place, which
        // belongs to this thread, and comes back when `what` has ended.
        Some(what(unsafe { value.as_mut() }))
    }

    /// Whether a value is lent, in use or not.
    pub fn is_lent(place: &'static LocalKey<Self>) -> bool {
        place.with(|place| place.is_lent.get())
    }
}

impl<T: 'static> Default for Lent<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts a pointer back to its place, even if something panics.
struct Back<T: 'static> {
    place: &'static LocalKey<Lent<T>>,
    value: Option<NonNull<T>>,
}

impl<T> Drop for Back<T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.with(|place| place.value.set(self.value));
    }
}

/// The same for the mark that something is lent.
struct Unmark<T: 'static> {
    place: &'static LocalKey<Lent<T>>,
    is_lent: bool,
}

impl<T> Drop for Unmark<T> {
    fn drop(&mut self) {
        self.place.with(|place| place.is_lent.set(self.is_lent));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    thread_local!(static PLACE: Lent<u32> = const { Lent::new() });

    fn value() -> Option<u32> {
        Lent::with(&PLACE, |value| *value)
    }

    #[test]
    fn a_value_is_there_while_it_is_lent() {
        let mut lent = 1;
        assert!(!Lent::is_lent(&PLACE) && value().is_none());
        Lent::lend(&PLACE, &mut lent, || {
            Lent::with(&PLACE, |value| *value += 1);
            assert!(Lent::is_lent(&PLACE));
        });
        assert!(!Lent::is_lent(&PLACE) && value().is_none());
        assert_eq!(lent, 2);
    }

    #[test]
    fn nobody_gets_it_twice() {
        let mut lent = 1;
        Lent::lend(&PLACE, &mut lent, || {
            Lent::with(&PLACE, |outer| {
                assert!(Lent::is_lent(&PLACE) && value().is_none());
                *outer = 2;
            });
            assert_eq!(value(), Some(2));
        });
    }

    #[test]
    fn another_may_be_lent_meanwhile() {
        let (mut outer, mut inner) = (1, 2);
        Lent::lend(&PLACE, &mut outer, || {
            Lent::with(&PLACE, |outer| {
                Lent::lend(&PLACE, &mut inner, || assert_eq!(value(), Some(2)));
                assert!(value().is_none());
                *outer = 3;
            });
            Lent::lend(&PLACE, &mut inner, || assert_eq!(value(), Some(2)));
            assert_eq!(value(), Some(3));
        });
    }

    #[test]
    fn a_panic_leaves_it_as_it_was() {
        let mut lent = 1;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Lent::lend(&PLACE, &mut lent, || {
                let panicked = catch_unwind(|| Lent::with(&PLACE, |_| panic!("in use")));
                assert!(panicked.is_err() && value() == Some(1));
                panic!("lent");
            });
        }));
        assert!(panicked.is_err() && !Lent::is_lent(&PLACE) && value().is_none());
    }
}
