//! What a loop refuses to go beyond.

use std::time::Duration;

/// Limits of each loop.
///
/// ```
/// use anywire_loops::{Limits, Loops};
///
/// let limits = Limits { hand_overs_waiting: 1000, ..Limits::default() };
/// let loops = Loops::builder().count(1).limits(limits).start()?;
/// # Ok::<(), anywire_loops::StartError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Hand-overs that may wait for one loop to take them. Default: 262,144.
    ///
    /// A loop takes about as many hand-overs as it polls tasks. The limit is reached if one task has blocked the loop
    /// for long, or if callers hand over faster than the loop can work and do not wait for answers. Each hand-over holds
    /// some 100 bytes beside the captured values, so the default bounds the queue to about 25 MiB. A hand-over beyond
    /// it ends with [`TaskError::Full`] and is counted in [`LoopCounters::refused`].
    ///
    /// [`TaskError::Full`]: crate::TaskError::Full
    /// [`LoopCounters::refused`]: crate::LoopCounters::refused
    pub hand_overs_waiting: usize,
    /// From when on a turn of the loop is a stall: a task computes for so long, or blocks, and everything else on the loop
    /// waits. Default: 100 ms, which a user notices and no well-behaved task needs. `Duration::MAX`: none is.
    ///
    /// A stall is counted in [`LoopCounters::stalls`], and logged as a warning while it lasts, once a minute, with the route of
    /// the handler that the loop works on. One thread of the process looks at all loops each 25 ms, so a shorter stall may go
    /// unseen. It rests while all loops sleep, and there is none if no loop has this limit.
    ///
    /// [`LoopCounters::stalls`]: crate::LoopCounters::stalls
    pub stall_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { hand_overs_waiting: 1 << 18, stall_after: Duration::from_millis(100) }
    }
}
