//! The memory of dropped heads and headers, kept by the thread for the next ones.
//!
//! A head is a box of a few vectors. Allocating them costs more than parsing a small request, so they are
//! kept; and handing a box over is one word, where moving the vectors themselves was measured to stall on the
//! copies.

use std::cell::RefCell;
use std::thread::LocalKey;

/// The spare boxes of one type, of one thread. Boxed, as what is handed over is the box.
pub(crate) type Spares<T> = RefCell<Vec<Box<T>>>;

/// What is kept for reuse.
pub(crate) trait Spare: Sized + 'static {
    /// How many are kept by a thread.
    const KEPT_MAX: usize;

    /// Where they are kept.
    fn kept() -> &'static LocalKey<Spares<Self>>;

    /// A new one, with room for the usual message.
    fn allocate() -> Box<Self>;

    /// Empties it; says whether its memory is small enough to be kept.
    fn reset(&mut self) -> bool;
}

/// An empty one, with room.
#[inline]
pub(crate) fn draw<T: Spare>() -> Box<T> {
    match T::kept().try_with(|kept| kept.borrow_mut().pop()) {
        Ok(Some(spare)) => spare,
        _ => T::allocate(),
    }
}

/// Keeps it for the next [`draw`], unless it is unusually large or there are enough.
#[inline]
pub(crate) fn give_back<T: Spare>(mut spare: Box<T>) {
    if !spare.reset() {
        return;
    }
    // Fails only while the thread ends; the memory is then simply freed.
    let _ = T::kept().try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < T::KEPT_MAX {
            kept.push(spare);
        }
    });
}

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
            Ok(Some(RequestEvent::Head(head))) => head.headers().wire_bytes().as_ptr(),
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
        let count = || RequestParts::kept().with(|kept| kept.borrow().len());
        assert_eq!(count(), 1);
        place_of_a_head(&format!("X: {}\r\n", "y".repeat(10_000)));
        assert_eq!(count(), 0);
    }
}
