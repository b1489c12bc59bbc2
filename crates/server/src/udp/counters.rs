//! What a service of datagrams counts.

use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anywire_loops::Counter;
use anywire_wire::udp::DropCounter;

/// Counters of a service of datagrams: a copy of this moment, of one loop or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpCounters {
    /// Datagrams that were given to the handler.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls that received something.
    pub receive_calls: u64,
    /// Replies that the system took, those of [`Later`](super::Later) included.
    pub replies: u64,
    /// System calls that sent replies.
    pub send_calls: u64,
    /// Replies that found no room, because the network took less than was answered.
    pub replies_dropped: u64,
    /// Replies that the system refused: too large for the way, or no way.
    pub replies_failed: u64,
    /// Datagrams that were longer than the limit.
    pub cut: u64,
    /// Datagrams that were not handled, because their peer had sent more than its rate.
    pub over_rate: u64,
    /// Datagrams that were dropped because their source is forged: nothing comes from 0.0.0.0, `::`, port 0, a group of machines, or
    /// the service itself. A reply would go to a host that sent nothing.
    pub forged: u64,
    /// Replies that were asked for at a later time and refused, because too many were under way.
    pub later_refused: u64,
    /// Datagrams that the system dropped, mostly because the receive buffer was full.
    pub dropped_by_system: u64,
    /// Panics of the handler; each cost one batch.
    pub panics: u64,
}

impl AddAssign for UdpCounters {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.receive_calls += other.receive_calls;
        self.replies += other.replies;
        self.send_calls += other.send_calls;
        self.replies_dropped += other.replies_dropped;
        self.replies_failed += other.replies_failed;
        self.cut += other.cut;
        self.over_rate += other.over_rate;
        self.forged += other.forged;
        self.later_refused += other.later_refused;
        self.dropped_by_system += other.dropped_by_system;
        self.panics += other.panics;
    }
}

/// The counters of one socket, written by its loop.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) datagrams: Counter,
    pub(super) bytes: Counter,
    pub(super) receive_calls: Counter,
    pub(super) replies: Counter,
    pub(super) send_calls: Counter,
    pub(super) replies_dropped: Counter,
    pub(super) replies_failed: Counter,
    pub(super) cut: Counter,
    pub(super) over_rate: Counter,
    pub(super) forged: Counter,
    pub(super) later_refused: Counter,
    pub(super) panics: Counter,
    dropped_by_system: Mutex<Dropped>,
}

/// What the system has dropped at a socket.
#[derive(Debug)]
enum Dropped {
    /// So far. The counter keeps the socket open. Datagrams that were dropped earlier belong to another loop.
    Open { counter: DropCounter, earlier: u32 },
    /// Until the socket was closed.
    InAll(u32),
}

impl Default for Dropped {
    fn default() -> Self {
        Self::InAll(0)
    }
}

impl Dropped {
    fn count(&self) -> u32 {
        match self {
            Self::Open { counter, earlier } => counter.drops().unwrap_or(*earlier).wrapping_sub(*earlier),
            Self::InAll(count) => *count,
        }
    }
}

/// Belongs to the task of a socket. Dropped with it, it closes the socket for those who count, too: else it would stay among the
/// sockets of its port, and get datagrams that nobody receives.
pub(super) struct OpenSocket(Arc<Counts>);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let mut dropped = self.0.dropped();
        *dropped = Dropped::InAll(dropped.count());
    }
}

impl Counts {
    /// The counters of a socket that has dropped so many datagrams on another loop, and what has to go with its task.
    pub(super) fn of(counter: DropCounter, earlier: u32) -> (Arc<Self>, OpenSocket) {
        let dropped_by_system = Mutex::new(Dropped::Open { counter, earlier });
        let counts = Arc::new(Self { dropped_by_system, ..Self::default() });
        (Arc::clone(&counts), OpenSocket(counts))
    }

    fn dropped(&self) -> MutexGuard<'_, Dropped> {
        self.dropped_by_system.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copy(&self) -> UdpCounters {
        UdpCounters {
            datagrams: self.datagrams.value(),
            bytes: self.bytes.value(),
            receive_calls: self.receive_calls.value(),
            replies: self.replies.value(),
            send_calls: self.send_calls.value(),
            replies_dropped: self.replies_dropped.value(),
            replies_failed: self.replies_failed.value(),
            cut: self.cut.value(),
            over_rate: self.over_rate.value(),
            forged: self.forged.value(),
            later_refused: self.later_refused.value(),
            dropped_by_system: self.dropped().count().into(),
            panics: self.panics.value(),
        }
    }
}
