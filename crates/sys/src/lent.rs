//! A value that its owner lends to all code on its thread for a time, so that tasks share it without a pointer in each.
//!
//! A future is polled without arguments of its own. The tasks of an executor share values, such as the engine of their
//! connections, through a fixed place of the thread. The owner puts the value there with [`Lent::lend`], and tasks reach it
//! with [`Lent::borrow`]. Both cost a load and two stores, and the value does not move. A `RefCell` of an `Option` of a `Box`
//! needs three reads of memory, and a destructor of the thread.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::thread::LocalKey;

/// A place at which one value is lent at a time: a field of a `static` of `thread_local!`.
///
/// ```
/// use anywire_sys::lent::Lent;
///
/// struct Context {
///     count: Lent<u32>,
/// }
///
/// thread_local!(static CONTEXT: Context = const { Context { count: Lent::new() } });
///
/// let mut count = 1;
/// let borrow = || Lent::borrow(&CONTEXT, |context| &context.count);
/// CONTEXT.with(|context| context.count.lend(&mut count, || *borrow().expect("it is lent") += 1));
/// assert_eq!(count, 2);
/// assert!(borrow().is_none());
/// ```
pub struct Lent<T> {
    /// None while nothing is lent, and while it is borrowed.
    value: Cell<Option<NonNull<T>>>,
}

impl<T> Lent<T> {
    /// An empty place.
    pub const fn new() -> Self {
        Self { value: Cell::new(None) }
    }

    /// Lends a value for the time of `during`. Afterwards the value that was lent before is lent again.
    ///
    /// If `during` has left the value [`Borrowed`], for example because that was forgotten, the process is aborted.
    pub fn lend<R>(&self, value: &mut T, during: impl FnOnce() -> R) -> R {
        let value = NonNull::from(value);
        let _end = EndOfLoan { place: self, value, before: self.value.replace(Some(value)) };
        during()
    }

    /// Borrows the value that is lent to `place` of the thread's `context`. None if no value is lent, or if it is borrowed.
    #[inline(always)]
    pub fn borrow<C, P>(context: &'static LocalKey<C>, place: P) -> Option<Borrowed<C, T, P>>
    where
        P: Fn(&C) -> &Self,
    {
        // Nothing else happens inside of `with`: the compiler does not inline it around much code.
        let value = context.with(|context| place(context).value.take())?;
        Some(Borrowed { context, place, value })
    }
}

/// A lent value in use. It goes back to its place when this is dropped.
pub struct Borrowed<C: 'static, T, P: Fn(&C) -> &Lent<T>> {
    context: &'static LocalKey<C>,
    place: P,
    value: NonNull<T>,
}

impl<C, T, P: Fn(&C) -> &Lent<T>> Deref for Borrowed<C, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: as in `deref_mut`.
        unsafe { self.value.as_ref() }
    }
}

impl<C, T, P: Fn(&C) -> &Lent<T>> DerefMut for Borrowed<C, T, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `lend` was given this value for its own use alone, and is still running: it does not return or unwind before
        // the pointer is back at its place, which belongs to this thread. The pointer is unique meanwhile, because it was
        // taken from there.
        unsafe { self.value.as_mut() }
    }
}

impl<C, T, P: Fn(&C) -> &Lent<T>> Drop for Borrowed<C, T, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.context.with(|context| (self.place)(context).value.set(Some(self.value)));
    }
}

/// Ends a loan, even if something panics.
struct EndOfLoan<'p, T> {
    place: &'p Lent<T>,
    value: NonNull<T>,
    before: Option<NonNull<T>>,
}

impl<T> Drop for EndOfLoan<'_, T> {
    fn drop(&mut self) {
        if self.place.value.replace(self.before) != Some(self.value) {
            // Whoever has borrowed it could use it after its end. A panic could be caught.
            eprintln!("a value that was lent for a time is still borrowed at the end of it");
            std::process::abort();
        }
    }
}

impl<T> Default for Lent<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::os::unix::process::ExitStatusExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Command;

    use super::*;

    thread_local!(static PLACE: Lent<u32> = const { Lent::new() });

    fn lend<R>(value: &mut u32, during: impl FnOnce() -> R) -> R {
        PLACE.with(|place| place.lend(value, during))
    }

    fn with<R>(what: impl FnOnce(&mut u32) -> R) -> Option<R> {
        Lent::borrow(&PLACE, |place| place).map(|mut value| what(&mut value))
    }

    fn value() -> Option<u32> {
        with(|value| *value)
    }

    #[test]
    fn a_value_is_there_while_it_is_lent() {
        let mut lent = 1;
        assert!(value().is_none());
        lend(&mut lent, || with(|value| *value += 1));
        assert!(value().is_none());
        assert_eq!(lent, 2);
    }

    #[test]
    fn a_value_in_use_is_not_given_twice() {
        let mut lent = 1;
        lend(&mut lent, || {
            with(|outer| {
                assert!(value().is_none());
                *outer = 2;
            });
            assert_eq!(value(), Some(2));
        });
    }

    #[test]
    fn another_may_be_lent_meanwhile() {
        let (mut outer, mut inner) = (1, 2);
        lend(&mut outer, || {
            with(|outer| {
                lend(&mut inner, || assert_eq!(value(), Some(2)));
                assert!(value().is_none());
                *outer = 3;
            });
            lend(&mut inner, || assert_eq!(value(), Some(2)));
            assert_eq!(value(), Some(3));
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    fn a_value_still_borrowed_at_the_end_aborts_the_process() {
        const FORGETS: &str = "FORGETS_A_BORROWED_VALUE";
        if std::env::var_os(FORGETS).is_some() {
            return lend(&mut 1, || {
                let _forgotten = ManuallyDrop::new(Lent::borrow(&PLACE, |place| place));
            });
        }
        let this_test = "lent::tests::a_value_still_borrowed_at_the_end_aborts_the_process";
        let program = std::env::current_exe().expect("this test has a program");
        let child = Command::new(program).args([this_test, "--exact"]).env(FORGETS, "1").output();
        assert_eq!(child.expect("it starts").status.signal(), Some(libc::SIGABRT));
    }

    #[test]
    fn a_panic_leaves_it_as_it_was() {
        let mut lent = 1;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            lend(&mut lent, || {
                let panicked = catch_unwind(AssertUnwindSafe(|| with(|_| panic!("in use"))));
                assert!(panicked.is_err() && value() == Some(1));
                panic!("lent");
            });
        }));
        assert!(panicked.is_err() && value().is_none());
    }
}
