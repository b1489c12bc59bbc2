//! What a loop refuses to go beyond.

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
}

impl Default for Limits {
    fn default() -> Self {
        Self { hand_overs_waiting: 1 << 18 }
    }
}
