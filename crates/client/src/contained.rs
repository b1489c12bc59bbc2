//! Panics of the caller's code, which end where that code was called.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic of the caller's code has said.
#[cold]
pub(crate) fn text_of_panic(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text =
        text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(without text)").to_owned();
    drop_caught(payload);
    text
}

/// Drops a value of the caller's. A panic of its destructor ends here.
#[cold]
pub(crate) fn drop_caught<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The destructor of a payload may panic as well.
        let _ = ManuallyDrop::new(payload);
    }
}
