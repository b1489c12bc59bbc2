//! The limits of a swarm, its counters, and the errors of spawning.

use anywire_advice::Advice;
use thiserror::Error;

/// The limits of one executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Ready tasks that are polled in the order of their wakes. If more are ready, they are polled by their index, in rounds.
    /// Default 65,536: the ring takes 256 KiB and stays in the second-level cache. Rounded up to a power of two from 1024.
    pub ring_entries: usize,
    /// Sleepers that one [`Tasks::advance`](super::Tasks::advance) wakes (default 8192), so that a great many that are due at once do not keep
    /// the driver from its other work.
    pub wakes_an_advance: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { ring_entries: 1 << 16, wakes_an_advance: 1 << 13 }
    }
}

/// What an executor has done since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Polls of tasks.
    pub polls: u64,
    /// Tasks that ended by themselves.
    pub finished: u64,
    /// Tasks that panicked, and were dropped.
    pub panicked: u64,
}

/// What a swarm has done since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwarmCounters {
    /// Of its tasks: polls, ends and panics.
    pub tasks: Counters,
    /// Connections that [`Swarm::open`](super::Swarm::open) had asked for and that failed to open: no task was started.
    pub unopened: u64,
    /// Tasks that were started elsewhere than in the slot of their connection, because a task without a connection was there.
    pub displaced: u64,
    /// Connections that were reset because there was no slot for their task: beyond the limit of connections, or because too many
    /// tasks go on without a connection. And those that came in after [`Swarm::drain`](super::Swarm::drain) was called.
    pub refused: u64,
    /// Tasks that were dropped from the deadline of [`Swarm::drain`](super::Swarm::drain) on.
    pub cut: u64,
    /// Connections whose other end is known to have gone for good: an endpoint of a [mesh](crate::mesh) that was dropped.
    pub departed: u64,
    /// Times that the link of the device has gone down. Connections go on once it is up again.
    pub link_downs: u64,
}

/// Why a task could not be spawned. The future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is a task of this index. Remove it first, or choose another.
    #[error(
        "cannot spawn task {index}: its slot is taken{help}",
        help = Advice("choose another, or remove the task that is there")
    )]
    Taken {
        /// The index that was asked for.
        index: u32,
    },
    /// There is no such slot. Make the swarm with more capacity.
    #[error(
        "cannot spawn task {index}: there are {capacity} slots{help}",
        help = Advice("make the swarm with more capacity")
    )]
    Full {
        /// The index that was asked for, or would have been next.
        index: u64,
        /// The slots of this swarm.
        capacity: usize,
    },
}
