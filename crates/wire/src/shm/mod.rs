//! `shm:PATH` and `shm:@NAME`: two processes on one machine talk through memory that they share.
//!
//! The address is that of a Unix socket. Over it the listening end passes a sealed memfd with two byte rings, one for each
//! direction, and the dialling end checks and maps it. From then on bytes are copied into a ring and out of it, and the
//! kernel carries none of them. The socket stays open for two purposes:
//! - One byte on it wakes a peer that sleeps. A peer that is awake is not woken, so two busy ends make no system call.
//! - Its end tells at once that the peer's process has died.
//!
//! # The two ends do not trust each other
//! A peer may be hostile. Each end checks the positions in the rings each time it reads them, and copies bytes out before it
//! looks at them. The memory cannot shrink. So a hostile peer can spoil its own connection and nothing else. The connection
//! then ends with a [`ShmError`].
//!
//! The listening end takes no descriptor from its peers, because closing one can block a loop for as long as a peer likes. From
//! Linux 6.16 on the system refuses them.
//!
//! A wake-up is a byte on the socket and no write to an eventfd. An eventfd is non-blocking by a flag that all processes which
//! hold it share, so that a hostile peer could make a wake-up block the loop. It also saves two descriptors a connection.
//!
//! # Options of an address
//!
//! | option | means |
//! | --- | --- |
//! | `mode=660` | mode of the socket file, as on `unix:` |
//! | `ring=64k` | dialling: size of each ring, a power of two from 4k to 1m (256k); listening: the largest that is accepted (1m) |
//! | `spin=20us` | how long a loop looks at the rings before it sleeps, up to 1ms (0us: not at all) |
//!
//! # Spinning
//! A peer that sleeps costs its waker a system call and itself some microseconds. If both ends are asked to spin, an answer takes
//! well below one. Meanwhile a loop keeps its core busy, for less and less time if it is in vain. It does not spin
//! where the process may use fewer cores than there are loops that spin; if a peer is of another process, that counts as one
//! more.
//!
//! # What it costs
//! A connection holds one descriptor and one mapping in each process. Its memory grows with use, up to a page and two rings. The kernel counts a page for the process that touches it first.

mod counters;
mod error;
mod setup;
mod transport;
mod waiting;
mod wire;

pub use counters::{ShmCounters, counters};
pub use error::ShmError;
pub(crate) use wire::Shm;
