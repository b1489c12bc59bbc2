//! What the connections of this process over shared memory count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anywire_loops::Counter;

/// What all connections of this process over shared memory have counted since its start, taken at one moment.
///
/// ```
/// let counters = anywire_wire::shm::counters();
/// assert!(counters.wakes <= counters.bytes_written);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmCounters {
    /// Bytes that were copied into rings.
    pub bytes_written: u64,
    /// Bytes that were copied out of rings.
    pub bytes_read: u64,
    /// How often a reader or a writer announced that it sleeps, so that its peer has to wake it.
    pub parks: u64,
    /// How often a spinning loop found bytes or room for an end, which then did not sleep.
    pub spins: u64,
    /// How often a peer was woken: one system call each. None is made while both ends are awake.
    pub wakes: u64,
    /// How often a writer found its ring full.
    pub full: u64,
}

/// The counters of all threads so far.
///
/// A connection counts on its loop, without an atomic read-modify-write, and this adds up.
pub fn counters() -> ShmCounters {
    let all = all();
    all.live.iter().fold(all.ended, |sum, counts| counts.add_to(sum))
}

/// The counters of one thread, which alone writes them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) bytes_written: Counter,
    pub(super) bytes_read: Counter,
    pub(super) parks: Counter,
    pub(super) spins: Counter,
    pub(super) wakes: Counter,
    pub(super) full: Counter,
}

impl Counts {
    /// The counters of the present thread.
    pub(super) fn here() -> Arc<Self> {
        OWN.with(|own| Arc::clone(&own.0))
    }

    fn add_to(&self, sum: ShmCounters) -> ShmCounters {
        ShmCounters {
            bytes_written: sum.bytes_written + self.bytes_written.value(),
            bytes_read: sum.bytes_read + self.bytes_read.value(),
            parks: sum.parks + self.parks.value(),
            spins: sum.spins + self.spins.value(),
            wakes: sum.wakes + self.wakes.value(),
            full: sum.full + self.full.value(),
        }
    }
}

thread_local! {
    static OWN: OfThread = OfThread::new();
}

/// A thread's counters. When the thread ends, they are added to the sum of all ended threads.
struct OfThread(Arc<Counts>);

impl OfThread {
    fn new() -> Self {
        let counts = Arc::<Counts>::default();
        all().live.push(Arc::clone(&counts));
        Self(counts)
    }
}

impl Drop for OfThread {
    fn drop(&mut self) {
        let mut all = all();
        all.live.retain(|counts| !Arc::ptr_eq(counts, &self.0));
        all.ended = self.0.add_to(all.ended);
    }
}

struct All {
    live: Vec<Arc<Counts>>,
    ended: ShmCounters,
}

fn all() -> MutexGuard<'static, All> {
    static ALL: Mutex<All> = Mutex::new(All {
        live: Vec::new(),
        ended: ShmCounters { bytes_written: 0, bytes_read: 0, parks: 0, spins: 0, wakes: 0, full: 0 },
    });
    // Nothing panics under the lock.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}
