//! Where a panic of a user's destructor ends: dropping a handler, a state, a body or an error runs the code of others.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Drops a value of a user. Returns what a panic of its destructor carries.
#[cold]
pub(crate) fn drop_caught<T>(value: T) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(|| drop(value))).err()
}

/// Drops values of a user that end with their server, one by one: if two destructors panicked in one go, the process would
/// abort.
pub(crate) fn drop_each<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        if let Some(panic) = drop_caught(value) {
            tracing::error!(panic = text(&*panic), "a destructor panicked at the end of a server");
            dispose(panic);
        }
    }
}

/// Drops what a panic carries. Its destructor may panic as well, and then that payload is leaked.
pub(crate) fn dispose(panic: Payload) {
    if let Some(another) = drop_caught(panic) {
        let _ = ManuallyDrop::new(another);
    }
}

/// The words of a panic, where it has any.
pub(crate) fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
