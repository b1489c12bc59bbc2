//! The state that the tasks of a swarm share while they run: the engine, the tasks that wait for room to send, and the owners of
//! connections.
//!
//! The engine is not in the task: it is lent to a fixed place of the thread while the tasks of its swarm run. So a connection
//! is a few bytes, and reaching its engine is a load.
//!
//! A connection that is dropped where its swarm does not run (by other code of the thread, or by a task of another swarm) is
//! left in a list of the thread, and its own swarm closes it in its next round.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use anywire_sys::lent::Lent;
use anywire_tcp::{ConnId, Engine};

use super::current::{NOBODY, is_leaving};
use super::drain::Drain;
use super::leaf::current;

/// The state that the tasks of a swarm share; in its place of the thread while they run.
pub(super) struct Here {
    pub(super) engine: Engine,
    /// Tasks that wait until they may send.
    pub(super) turns: VecDeque<u32>,
    /// Messages that tasks may still send at once while `turns` is empty.
    pub(super) room: usize,
    /// The task that did so last. It may not do so twice in a row: others may be about to ask.
    pub(super) last: u32,
    /// Connections have opened in this round.
    pub(super) has_opened: bool,
    /// The tasks that run now were woken to send.
    pub(super) granting: bool,
    pub(super) owners: Owners,
    /// Tasks are being told to end.
    pub(super) drain: Option<Drain>,
    /// How much of the thread's list of connections that were dropped elsewhere this swarm has looked through.
    pub(super) seen_elsewhere: u64,
}

impl Here {
    pub(super) fn new(engine: Engine) -> Self {
        SWARMS.set(SWARMS.get() + 1);
        Self {
            engine,
            turns: VecDeque::new(),
            room: 0,
            last: NOBODY,
            has_opened: false,
            granting: false,
            owners: Owners::default(),
            drain: None,
            seen_elsewhere: 0,
        }
    }

    /// Whether the running task may send for this connection; if not, it gets into the ring once.
    #[inline(always)]
    pub(super) fn is_turn(&mut self, id: ConnId, waits: &mut bool) -> bool {
        if *waits {
            return self.granting;
        }
        let index = current();
        if self.turns.is_empty() && self.room > 0 && self.last != index {
            self.room -= 1;
            self.last = index;
            return true;
        }
        // The last ACK of the handshake leaves in any case, and takes the request along.
        if self.has_opened && self.engine.sends_bare(id) {
            return true;
        }
        self.turns.push_back(index);
        *waits = true;
        false
    }

    /// The running task waits for events of this connection.
    #[inline(always)]
    pub(super) fn wait_for(&mut self, id: ConnId) {
        let task = current();
        if self.owners.of(id.index()) != task {
            self.owners.set(id.index(), task);
        }
    }

    /// Lets go of a connection.
    pub(super) fn end(&mut self, id: ConnId, how: Ending) {
        self.owners.clear(id.index());
        match how {
            Ending::Close => self.engine.close(id),
            Ending::Abort => self.engine.abort(id),
        }
    }

    /// Whether connections were dropped since it has looked, where it does not run.
    pub(super) fn has_dropped_elsewhere(&self) -> bool {
        DROPPED_ELSEWHERE.get() != self.seen_elsewhere
    }

    /// Ends the connections of this swarm among them.
    pub(super) fn end_dropped_elsewhere(&mut self) {
        if !self.has_dropped_elsewhere() {
            return;
        }
        self.seen_elsewhere = DROPPED_ELSEWHERE.get();
        let mut all = ELSEWHERE.take();
        all.retain(|(id, how)| {
            let is_ours = self.engine.is_held(*id);
            if is_ours {
                self.end(*id, *how);
            }
            !is_ours
        });
        ELSEWHERE.with_borrow_mut(|list| list.append(&mut all));
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        SWARMS.set(SWARMS.get() - 1);
        if SWARMS.get() == 0 {
            ELSEWHERE.take();
        }
    }
}

/// How a connection is let go of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// By a FIN after what was sent.
    Close,
    /// By a reset.
    Abort,
}

/// The tasks that wait for events of connections, where they do not have the same number: a task has opened the connection, or its
/// own slot was taken when it came in.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By the place of the connection; empty as long as there is no such connection.
    tasks: Vec<u32>,
}

impl Owners {
    /// The task to wake for events of the connection in this place.
    #[inline(always)]
    pub(super) fn of(&self, place: u32) -> u32 {
        if self.tasks.is_empty() { place } else { self.noted(place).unwrap_or(place) }
    }

    /// The task that was noted for it.
    #[inline]
    pub(super) fn noted(&self, place: u32) -> Option<u32> {
        self.tasks.get(place as usize).copied().filter(|task| *task != NOBODY)
    }

    #[cold]
    pub(super) fn set(&mut self, place: u32, task: u32) {
        let place = place as usize;
        if self.tasks.len() <= place {
            self.tasks.resize(place + 1, NOBODY);
        }
        self.tasks[place] = task;
    }

    #[inline(always)]
    fn clear(&mut self, place: u32) {
        if let Some(task) = self.tasks.get_mut(place as usize) {
            *task = NOBODY;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.tasks.capacity() * size_of::<u32>()
    }
}

/// Does something with the engine of the swarm whose task runs.
#[inline(always)]
pub(super) fn here<R>(what: impl FnOnce(&mut Here) -> R) -> R {
    match Lent::with(&HERE, what) {
        Some(result) => result,
        None => outside(),
    }
}

/// Lets go of a connection, wherever that is.
#[inline]
pub(super) fn let_go(id: ConnId, how: Ending) {
    let is_done = Lent::with(&HERE, |here| {
        let is_held = here.engine.is_held(id);
        if is_held {
            here.end(id, how);
        }
        is_held
    });
    if is_done != Some(true) {
        leave_to_its_swarm(id, how);
    }
}

#[cold]
fn leave_to_its_swarm(id: ConnId, how: Ending) {
    // With its swarm all of its connections go. Without any swarm it has gone before.
    if is_leaving() || SWARMS.get() == 0 {
        return;
    }
    // A thread that ends drops its list before other values.
    let _ = ELSEWHERE.try_with(|list| list.borrow_mut().push((id, how)));
    DROPPED_ELSEWHERE.set(DROPPED_ELSEWHERE.get() + 1);
}

#[cold]
fn outside() -> ! {
    panic!(
        "a connection of a swarm was used outside of a task that runs in it, or while another is read or written: see \
         swarm::Swarm"
    )
}

thread_local! {
    pub(super) static HERE: Lent<Here> = const { Lent::new() };
    /// Connections that were dropped where their swarm does not run.
    static ELSEWHERE: RefCell<Vec<(ConnId, Ending)>> = const { RefCell::new(Vec::new()) };
    /// How many ever were: a swarm looks at the list when this has changed.
    static DROPPED_ELSEWHERE: Cell<u64> = const { Cell::new(0) };
    /// Swarms of this thread.
    static SWARMS: Cell<usize> = const { Cell::new(0) };
}
