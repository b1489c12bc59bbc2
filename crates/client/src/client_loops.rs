//! The loops of a client: its own choice, or the loops that all clients of the process share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anywire_loops::{LoopHandle, LoopState, Loops, WeakLoops};

use crate::Error;
use crate::counters::Cells;

/// The loops of a client.
#[derive(Debug)]
pub(crate) struct ClientLoops {
    pub(crate) list: Vec<ClientLoop>,
    /// Keeps the loops of clients that were given none. Loops that were given belong to the giver, who may end them.
    #[expect(dead_code, reason = "it is there to be dropped")]
    own: Option<Loops>,
}

impl ClientLoops {
    /// The loops that the client was given.
    pub(crate) fn of(loops: &Loops) -> Self {
        let one = |handle| ClientLoop { handle, cells: Arc::default(), used: AtomicBool::new(false) };
        Self { list: loops.iter().map(one).collect(), own: None }
    }

    /// The loops that all clients of the process share, for a client that was given none.
    pub(crate) fn shared() -> Result<Self, Error> {
        let loops = shared_loops()?;
        Ok(Self { own: Some(loops.clone()), ..Self::of(&loops) })
    }

    /// The loop that serves the calls of loop `index`, if so many have connections.
    #[inline]
    pub(crate) fn owner(&self, index: usize, owners: usize) -> usize {
        if index < owners { index } else { index % owners }
    }
}

/// One loop of a client.
#[derive(Debug)]
pub(crate) struct ClientLoop {
    pub(crate) handle: LoopHandle,
    pub(crate) cells: Arc<Cells>,
    /// Whether a call was ever placed there, so that only those loops are visited at the end.
    pub(crate) used: AtomicBool,
}

/// The loops of all clients of this process that were given none: one per core, for as long as one of them is there. A process that
/// was forked has none of its parent's threads.
fn shared_loops() -> Result<Loops, Error> {
    static SHARED: Mutex<Option<(u32, WeakLoops)>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let known = shared.as_ref().filter(|(of, _)| *of == process).and_then(|(_, loops)| loops.upgrade());
    let run = |loops: &Loops| loops.iter().all(|one| one.state() == LoopState::Running);
    if let Some(loops) = known.filter(run) {
        return Ok(loops);
    }
    let loops = Loops::builder().name("anywire-client").start()?;
    *shared = Some((process, loops.downgrade()));
    Ok(loops)
}
