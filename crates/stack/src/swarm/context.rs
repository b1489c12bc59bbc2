//! The state that the tasks of a swarm share while they run: the engine, the tasks that wait to send, and the owners of
//! connections.
//!
//! The engine is not in the task: it is lent to the thread's context while the tasks of its swarm run. So a connection
//! is a few bytes, and reaching its engine is a load.
//!
//! Other code of the thread, or a task of another swarm, may drop a connection. Its own swarm does not run then, so the
//! connection goes into a list of the thread, and its swarm closes it in the next round.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::DerefMut;

use anywire_sys::lent::Lent;
use anywire_tcp::{ConnId, Engine};

use super::current::{CURRENT, NOBODY};
use super::drain::Drain;
use super::leaf::current;
use super::senders::Senders;

/// The state that the tasks of a swarm share, lent to the thread's context while they run.
pub(super) struct SwarmState {
    pub(super) engine: Engine,
    /// Tells the connections of this swarm from those of others of the thread.
    pub(super) number: u32,
    pub(super) senders: Senders,
    /// Messages that the tasks which run now may still send. Unless they were woken to send, only while no other task waits.
    pub(super) room: usize,
    /// The task that has sent last. It may not do so twice in a row, because other tasks wait, or may be about to ask.
    pub(super) last: u32,
    /// Connections have opened in this round.
    pub(super) has_opened: bool,
    /// The tasks that run now were woken to send.
    pub(super) granting: bool,
    pub(super) owners: Owners,
    /// How many unread bytes the last [`read`](super::Conn::read) of a connection has shown, if it took none of them.
    pub(super) shown: Few,
    /// Connections past their idle deadlines.
    pub(super) idle: Few,
    /// Tasks are being told to end.
    pub(super) drain: Option<Drain>,
    /// The swarm is being dropped, and all of its connections with it.
    pub(super) is_going: bool,
    /// How much of the thread's list of connections that were dropped elsewhere this swarm has looked through.
    pub(super) seen_elsewhere: u64,
}

impl SwarmState {
    pub(super) fn new(engine: Engine) -> Self {
        let number = CURRENT.with(|cells| {
            cells.swarms.update(|swarms| swarms + 1);
            cells.swarms_ever.update(|swarms| swarms.wrapping_add(1));
            cells.swarms_ever.get()
        });
        Self {
            engine,
            number,
            senders: Senders::default(),
            room: 0,
            last: NOBODY,
            has_opened: false,
            granting: false,
            owners: Owners::default(),
            shown: Few::default(),
            idle: Few::default(),
            drain: None,
            is_going: false,
            seen_elsewhere: 0,
        }
    }

    /// Lends this to all code of the thread for the time of `during`.
    #[inline]
    pub(super) fn lend<R>(&mut self, during: impl FnOnce() -> R) -> R {
        CURRENT.with(|cells| {
            let _runs = Runs { place: &cells.swarm, before: cells.swarm.replace(self.number) };
            cells.state.lend(self, during)
        })
    }

    /// Whether the running task may send on this connection now, one message. If not, it joins the senders, once.
    #[inline(always)]
    pub(super) fn may_send(&mut self, place: u32) -> bool {
        let index = current();
        let may_begin = self.granting || self.senders.is_empty();
        if may_begin && self.room > 0 && self.last != index {
            self.room -= 1;
            self.last = index;
            return true;
        }
        // The last ACK of the handshake leaves in any case, and takes the request along.
        if self.has_opened && self.engine.sends_pure_ack(ConnId::claimed(place)) {
            return true;
        }
        self.senders.push(index);
        false
    }

    /// The running task waits for events of this connection.
    #[inline(always)]
    pub(super) fn wait_for(&mut self, place: u32) {
        let task = current();
        if self.owners.of(place) != task {
            self.owners.set(place, task);
        }
    }

    /// Whether all has been read, and a reader waits for no more: the peer has ended its direction, the connection has failed, or
    /// it is past its idle deadline.
    #[inline(always)]
    pub(super) fn is_read(&self, id: ConnId) -> bool {
        self.engine.is_finished(id) || self.is_idle(id.index()) && self.engine.readable(id) == 0
    }

    /// Whether a connection is past its idle deadline.
    #[inline(always)]
    pub(super) fn is_idle(&self, place: u32) -> bool {
        self.idle.get(place).is_some()
    }

    /// Lets go of a connection.
    pub(super) fn end(&mut self, place: u32, how: Ending) {
        if self.is_going {
            return;
        }
        self.owners.clear(place);
        self.shown.clear(place);
        self.idle.clear(place);
        let Some(id) = self.engine.at(place) else { return };
        self.engine.release(id);
        match how {
            Ending::Close => self.engine.close(id),
            Ending::Abort => self.engine.abort(id),
        }
    }

    /// Whether connections were dropped outside of this swarm since it looked last.
    pub(super) fn has_dropped_elsewhere(&self) -> bool {
        CURRENT.with(|cells| cells.dropped_elsewhere.get()) != self.seen_elsewhere
    }

    /// Ends the connections of this swarm among them.
    pub(super) fn end_dropped_elsewhere(&mut self) {
        if !self.has_dropped_elsewhere() {
            return;
        }
        self.seen_elsewhere = CURRENT.with(|cells| cells.dropped_elsewhere.get());
        let mut all = ELSEWHERE.take();
        let number = self.number;
        for (place, _, how) in all.extract_if(.., |(_, swarm, _)| *swarm == number) {
            self.end(place, how);
        }
        ELSEWHERE.with_borrow_mut(|list| list.append(&mut all));
    }
}

impl Drop for SwarmState {
    fn drop(&mut self) {
        CURRENT.with(|cells| {
            cells.swarms.update(|swarms| swarms - 1);
            if cells.swarms.get() == 0 {
                let _ = ELSEWHERE.try_with(RefCell::take);
            }
        });
    }
}

/// A swarm runs until this is dropped.
struct Runs<'t> {
    place: &'t Cell<u32>,
    before: u32,
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.place.set(self.before);
    }
}

/// The number of the swarm that runs on this thread; 0 for none.
#[inline(always)]
pub(super) fn running() -> u32 {
    CURRENT.with(|cells| cells.swarm.get())
}

/// How a connection is let go of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// By a FIN after the data.
    Close,
    /// By a reset.
    Abort,
}

/// The tasks that wait for events of connections, if task and connection have different numbers. A task may have opened the
/// connection, or the slot of this number was taken when the connection came in.
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

/// Facts about the few connections to which they apply at a time, by place. Mostly there are none.
#[derive(Debug, Default)]
pub(super) struct Few {
    facts: HashMap<u32, u32>,
}

impl Few {
    #[inline(always)]
    pub(super) fn get(&self, place: u32) -> Option<u32> {
        if self.facts.is_empty() { None } else { self.facts.get(&place).copied() }
    }

    #[cold]
    pub(super) fn set(&mut self, place: u32, fact: u32) {
        self.facts.insert(place, fact);
    }

    #[inline(always)]
    pub(super) fn clear(&mut self, place: u32) {
        if !self.facts.is_empty() {
            self.facts.remove(&place);
        }
    }

    /// At least, as the map does not tell its own.
    pub(super) fn bytes(&self) -> usize {
        self.facts.capacity() * size_of::<(u32, u32)>()
    }
}

/// The state of the swarm whose task runs.
///
/// A borrowed value, and no closure over it: the compiler does not inline closures that several tasks use, and 256 connections
/// made 4 % fewer echoes a second.
///
/// # Panics
///
/// If no swarm runs on this thread, or its state is borrowed.
#[inline(always)]
pub(super) fn swarm_state() -> impl DerefMut<Target = SwarmState> {
    match try_swarm_state() {
        Some(state) => state,
        None => outside(),
    }
}

#[inline(always)]
fn try_swarm_state() -> Option<impl DerefMut<Target = SwarmState>> {
    Lent::borrow(&CURRENT, |cells| &cells.state)
}

/// Lets go of a connection, wherever that is.
#[inline]
pub(super) fn let_go(place: u32, swarm: u32, how: Ending) {
    match try_swarm_state() {
        Some(mut state) if state.number == swarm => state.end(place, how),
        _ => leave_to_its_swarm(place, swarm, how),
    }
}

#[cold]
fn leave_to_its_swarm(place: u32, swarm: u32, how: Ending) {
    CURRENT.with(|cells| {
        // Without any swarm this one has ended before.
        if cells.swarms.get() == 0 {
            return;
        }
        // A thread that ends drops its list before other values.
        let _ = ELSEWHERE.try_with(|list| list.borrow_mut().push((place, swarm, how)));
        cells.dropped_elsewhere.update(|count| count + 1);
    });
}

#[cold]
fn outside() -> ! {
    panic!(
        "a connection of a swarm was used outside of a task that runs in it, or while another is read or written: see \
         swarm::Swarm"
    )
}

thread_local! {
    /// Connections that were dropped where their swarm does not run: place, number of the swarm, and how. Apart from the context,
    /// because it has a destructor.
    static ELSEWHERE: RefCell<Vec<(u32, u32, Ending)>> = const { RefCell::new(Vec::new()) };
}
