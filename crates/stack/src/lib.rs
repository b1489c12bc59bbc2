//! User-space TCP on a device: the switch, the driver, streams, and a swarm of tasks.

pub mod capture;
pub mod device;
pub mod impair;
pub mod mesh;
pub mod stream;
pub mod swarm;
pub mod switch;

/// What threads share by. The model tests of `mesh` and `swarm` replace it by loom's.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU16, Ordering, fence};
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

    pub(crate) use anywire_sys::ring;
}
