//! The loops of a client: its own choice, or the loops that all clients of the process share.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anywire_loops::{LoopHandle, LoopState, Loops, WeakLoops};

use crate::Error;
use crate::metrics::counters::Cells;

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
        let one = |handle| ClientLoop { handle, cells: Arc::default(), state: AtomicU8::new(NEW) };
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
    /// [`NEW`], [`USED`] or [`SHUT_DOWN`].
    state: AtomicU8,
}

/// No call was ever placed there: the end of the client does not visit it.
const NEW: u8 = 0;
const USED: u8 = 1;
/// The shutdown has passed it, and does not come back to cut a call.
const SHUT_DOWN: u8 = 2;

impl ClientLoop {
    /// Calls are to be placed there. `false` if they may not.
    pub(crate) fn take_calls(&self) -> bool {
        // Most calls find it used, and write to no memory that loops share.
        let state = match self.state.load(Ordering::Acquire) {
            NEW => self.state.compare_exchange(NEW, USED, Ordering::AcqRel, Ordering::Acquire),
            state => Err(state),
        };
        state != Err(SHUT_DOWN)
    }

    /// Takes no more calls if none was ever placed there. Otherwise `false`, and it is to be visited.
    pub(crate) fn shut_down_if_new(&self) -> bool {
        self.state.compare_exchange(NEW, SHUT_DOWN, Ordering::AcqRel, Ordering::Acquire) != Err(USED)
    }

    /// Takes no more calls. Said on the loop itself: those that have come are on it.
    pub(crate) fn shut_down(&self) {
        self.state.store(SHUT_DOWN, Ordering::Release);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.state.load(Ordering::Acquire) != NEW
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.state.load(Ordering::Acquire) == SHUT_DOWN
    }
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
