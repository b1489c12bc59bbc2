//! User-space TCP on a device: a swarm of tasks for millions of connections, or streams for tokio.
//!
//! An [`Engine`](anywire_tcp::Engine) is TCP without I/O. This crate connects it to a device, a clock and the code that uses its
//! connections.
//!
//! | module | holds |
//! | --- | --- |
//! | [`swarm`] | a small task for each connection, and messages from other threads to one task, a group or all |
//! | [`stream`] | connections as tokio's `AsyncRead` and `AsyncWrite` |
//! | [`device`] | the trait of network devices, for a device of your own |
//! | [`ip`] | what is below TCP on a real link: neighbours, addresses, ICMP |
//! | [`pair`] | two devices of one thread, joined back to back |
//! | [`mesh`] | an in-process network of all threads, with services and backlogs |
//! | [`shards`] | a device that several loops share: which of them has which connection, and a host for each |
//! | [`tap`] | a network interface of the kernel, by TAP |
//! | [`xdp`] | queues of a real interface, past the kernel's stack, by AF_XDP |
//! | [`impair`], [`capture`] | wrappers of a device: a bad network by a seed; a file for Wireshark |
//!
//! Start with [`Swarm`](swarm::Swarm) or [`Interface`](stream::Interface): their examples run. The guide "A push gateway"
//! (`docs/guide/swarm.md`) is a whole service with an HTTP interface.

pub mod capture;
mod clock;
pub mod device;
pub mod impair;
pub mod ip;
mod link_state;
mod lower_layer;
pub mod mesh;
mod offload;
pub mod pair;
mod ring_link;
pub mod shards;
pub mod stream;
pub mod swarm;
pub mod tap;
mod wait;
pub mod xdp;

/// What threads share by. The model tests of `mesh` and `swarm` replace it by loom's.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU16, Ordering, fence};
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

    pub(crate) use anywire_sys::ring;
}
