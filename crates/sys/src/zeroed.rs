//! Memory of zeroes that several own, taken from the allocator as such.
//!
//! `Rc::from(vec![0; count])` takes memory twice and copies it, so it touches every page of both. The allocator gives large memory from
//! pages that the kernel zeroes when they are first touched, so that what is never used costs nothing.

use std::rc::Rc;

/// So many bytes of zero.
///
/// ```
/// let bytes = anywire_sys::zeroed::shared_bytes(3);
/// assert_eq!(*bytes, [0; 3]);
/// ```
#[allow(unsafe_code)]
pub fn shared_bytes(count: usize) -> Rc<[u8]> {
    let bytes = Rc::<[u8]>::new_zeroed_slice(count);
    // SAFETY: all of them are zero, and a `u8` may be that.
    unsafe { bytes.assume_init() }
}
