//! Congestion control: how much may be in flight (RFC 5681), behind an identifier and not a generic.
//!
//! [`Window`] is the state of one connection, 24 bytes for either algorithm, and says what happens on an
//! acknowledgement, a loss, a timeout, a congestion mark and after a pause. What differs between the
//! algorithms is in [`new_reno`] and [`cubic`]; [`hystart`] ends the first slow start of both; [`Prr`] spreads the reduction over the acknowledgements of
//! one recovery. Everything is in bytes and in integers; windows end at [`WINDOW_BYTES_MAX`](window::WINDOW_BYTES_MAX).

mod cubic;
mod hystart;
mod new_reno;
mod prr;
mod window;

pub(crate) use prr::{Progress, Prr};
pub(crate) use window::{Acked, Prior, Window};

pub use window::Algorithm;
