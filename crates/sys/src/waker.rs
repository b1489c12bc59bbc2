//! A waker for tasks that cannot be woken from outside: it reports a wake during the poll, and panics when cloned.
//!
//! An executor whose own futures know their task by its number needs no waker. A future from elsewhere that keeps one
//! (a timer, a channel, a socket of another runtime) would wait for ever in such a task, and silently. This waker makes
//! that a panic with a reason, where the future is polled. A future that only wakes itself while it is polled keeps
//! nothing, and works.

#![allow(unsafe_code)]

use std::task::{RawWaker, RawWakerVTable, Waker};

/// A waker that calls `woken` when it is woken by reference, and panics when it is cloned.
///
/// ```
/// use std::cell::Cell;
/// use anywire_sys::waker::unkept;
///
/// thread_local!(static WAKES: Cell<u32> = const { Cell::new(0) });
/// let waker = unkept(|| WAKES.set(WAKES.get() + 1));
/// waker.wake_by_ref();
/// assert_eq!(WAKES.get(), 1);
/// assert!(std::panic::catch_unwind(|| waker.clone()).is_err());
/// ```
pub fn unkept(woken: fn()) -> Waker {
    // SAFETY: the functions of `TABLE` keep the contract of `RawWaker`. `clone` never returns, so each call of this makes
    // one waker. `wake` and `wake_by_ref` convert `data` back into the `fn()` that it was made from. The waker owns
    // nothing, and `fn()` may be called from any thread.
    unsafe { Waker::from_raw(RawWaker::new(woken as *const (), &TABLE)) }
}

const TABLE: RawWakerVTable = RawWakerVTable::new(refuse, wake, wake, release);

fn refuse(_data: *const ()) -> RawWaker {
    panic!(
        "a task of a swarm awaits a future that keeps a waker, and nobody would ever wake it: the future belongs to \
         another runtime; await the swarm's own futures in such a task, or run this one elsewhere and wake the task \
         by its number"
    );
}

/// # Safety
///
/// `data` must be a `fn()`.
unsafe fn wake(data: *const ()) {
    // SAFETY: `unkept` makes `data` of a `fn()`, and nothing else calls this; both are pointers of the same size.
    let woken = unsafe { std::mem::transmute::<*const (), fn()>(data) };
    woken();
}

fn release(_data: *const ()) {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static WAKES: Cell<u32> = const { Cell::new(0) });

    #[test]
    fn a_wake_is_told_and_a_clone_refused() {
        let waker = unkept(|| WAKES.set(WAKES.get() + 1));
        waker.wake_by_ref();
        waker.wake();
        assert_eq!(WAKES.get(), 2);
        let waker = unkept(|| ());
        let refused = std::panic::catch_unwind(|| [waker.clone(), waker]);
        let reason = refused.expect_err("a clone panics");
        assert!(reason.downcast_ref::<&str>().is_some_and(|text| text.contains("another runtime")));
    }
}
