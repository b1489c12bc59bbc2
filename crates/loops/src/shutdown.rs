//! How a shutdown went.

use anywire_advice::Advice;

/// Tasks and loops that a shutdown did not end in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Tasks that had not ended by the deadline, or when their loop died, and were dropped where they waited.
    /// Hand-overs that had not begun count as well.
    pub tasks_cut: u64,
    /// Loops that could not be stopped, because a task blocked their thread beyond the deadline. The thread is left
    /// behind, and ends when that task lets it.
    pub loops_stuck: usize,
    /// Loops that had ended by themselves, because their runtime panicked:
    /// [`LoopState::Died`](crate::LoopState::Died).
    pub loops_died: usize,
}

impl Shutdown {
    /// Whether every task and no loop ended by itself.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a shutdown was refused. The caller's mistake; nothing has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The caller runs on a loop, which would wait for itself.
    #[error(
        "cannot shut down the loops from a loop: it would wait for its own end{help}",
        help = Advice("call shutdown from the thread that started them, or drop the last Loops")
    )]
    OnLoop,
}
