//! A child pool: the connections of one loop to one origin, and the calls that wait for one.
//!
//! Idle connections are used last in, first out, so that a small load keeps few of them warm. Waiting calls are
//! served first in, first out. The first of them, as many as there are dials under way, have been allowed to dial and
//! are held by the connect deadline; those behind them by the acquire deadline. A connection that comes free or is
//! newly dialled goes to the oldest call, whichever dial was started for it.

#[cfg(test)]
mod busy_wires;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use anywire_http::Url;
use anywire_loops::{TaskError, clock};
use anywire_wire::{Address, Connection, DialError};
use slab::Slab;

use crate::connection::Conn;
use crate::job::{Job, Pending};
use crate::local::{Shared, address_of};
use crate::{Error, Phase};

/// The connections of one loop to one origin by one wire address.
pub(crate) struct Pool {
    origin: Box<str>,
    /// The value of the `host` field of every request (RFC 9112 section 3.2).
    host: Box<str>,
    via: Option<Address>,
    address: Address,
    shared: Rc<Shared>,
    state: RefCell<State>,
    retired: Cell<bool>,
    last_used: Cell<Instant>,
}

#[derive(Default)]
struct State {
    connections: Slab<Rc<Conn>>,
    idle: Vec<Rc<Conn>>,
    waiters: VecDeque<Pending>,
    dialing: usize,
    /// The client's count of abandoned calls when the waiters were last looked through.
    abandoned_seen: u64,
}

impl Pool {
    pub(crate) fn new(origin: &str, via: Option<Address>, shared: &Rc<Shared>) -> Result<Self, Error> {
        let url = Url::parse(origin).map_err(|source| Error::of_url(origin, source))?;
        let address = match &via {
            Some(address) => address.clone(),
            None => address_of(origin, url.host(), url.port())?,
        };
        Ok(Self {
            origin: origin.into(),
            host: url.authority().into(),
            via,
            address,
            shared: Rc::clone(shared),
            state: RefCell::default(),
            retired: Cell::new(false),
            last_used: Cell::new(clock::now()),
        })
    }

    pub(crate) fn serves(&self, job: &Job) -> bool {
        *self.origin == *job.target.origin() && self.via == job.via
    }

    pub(crate) fn origin(&self) -> String {
        self.origin.to_string()
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    pub(crate) fn last_used(&self) -> Instant {
        self.last_used.get()
    }

    /// Whether no call is in it.
    pub(crate) fn is_unused(&self) -> bool {
        let state = self.state.borrow();
        state.waiters.is_empty() && state.dialing == 0 && state.connections.len() == state.idle.len()
    }

    /// Takes a call: onto an idle connection, else into the queue.
    pub(crate) fn submit(self: &Rc<Self>, pending: Pending) {
        while let Some(conn) = self.pop_idle() {
            if conn.is_alive() {
                self.shared.cells.active.add(1);
                conn.start(pending);
                return;
            }
            conn.evict();
        }
        if self.is_full() {
            self.purge();
        }
        if self.is_full() {
            self.shared.cells.queue_full.add(1);
            let (connections, queue) = (self.shared.connections, self.shared.queue);
            pending.fail(Error::QueueFull { origin: self.origin(), connections, queue });
            return;
        }
        self.wait(pending, false);
    }

    /// Takes a call whose reused connection turned out dead. It goes first, and out on a fresh connection only.
    pub(crate) fn resubmit(self: &Rc<Self>, mut pending: Pending) {
        // It had its connection in time. From here it asks for another one.
        pending.acquire_until = Instant::now() + self.shared.config().timeouts.acquire;
        self.shared.cells.resent.add(1);
        self.wait(pending, true);
    }

    fn wait(self: &Rc<Self>, pending: Pending, first: bool) {
        let overdue = pending.acquire_until.min(pending.total_until);
        {
            let mut state = self.state.borrow_mut();
            match first {
                true => state.waiters.push_front(pending),
                false => state.waiters.push_back(pending),
            }
        }
        self.shared.cells.waiting.add(1);
        self.shared.sweep_by(overdue);
        self.dial_for_waiters();
    }

    fn pop_idle(&self) -> Option<Rc<Conn>> {
        let conn = self.state.borrow_mut().idle.pop()?;
        self.shared.cells.idle.subtract(1);
        Some(conn)
    }

    /// Every free place below the cap is one waiter's; the queue holds those beyond.
    fn is_full(&self) -> bool {
        let state = self.state.borrow();
        let free = self.shared.connections.saturating_sub(state.connections.len());
        state.waiters.len() >= free.saturating_add(self.shared.queue)
    }

    /// Drops waiters whose callers are gone, if any caller is gone since the last time.
    fn purge(&self) {
        let abandoned = self.shared.inner().abandoned();
        let waiters = {
            let mut state = self.state.borrow_mut();
            if state.abandoned_seen == abandoned {
                return;
            }
            state.abandoned_seen = abandoned;
            std::mem::take(&mut state.waiters)
        };
        // Outside the borrow: what is dropped may hold a caller's body.
        let before = waiters.len();
        let mut wanted: VecDeque<_> = waiters.into_iter().filter(Pending::is_wanted).collect();
        self.shared.cells.waiting.subtract((before - wanted.len()) as u64);
        let mut state = self.state.borrow_mut();
        // A destructor may have made a call meanwhile.
        wanted.append(&mut state.waiters);
        state.waiters = wanted;
    }

    /// The oldest call that is still wanted and may go out on this kind of connection.
    fn next_waiter(&self, fresh: bool) -> Option<Pending> {
        loop {
            let waiter = {
                let waiters = &mut self.state.borrow_mut().waiters;
                let at = waiters.iter().position(|waiter| fresh || !waiter.resent)?;
                waiters.remove(at)?
            };
            self.shared.cells.waiting.subtract(1);
            if waiter.is_wanted() {
                return Some(waiter);
            }
        }
    }

    /// Starts dials until there is one for each waiter, or a cap is reached.
    fn dial_for_waiters(self: &Rc<Self>) {
        loop {
            {
                let mut state = self.state.borrow_mut();
                let room = state.connections.len() + state.dialing < self.shared.connections;
                if !room || state.dialing >= self.shared.dials || state.dialing >= state.waiters.len() {
                    return;
                }
                state.dialing += 1;
            }
            let dial = Dial { pool: Rc::clone(self) };
            if anywire_loops::spawn(dial.run()).is_finished() {
                // A loop that ends drops what it is given, so that no dial will ever end.
                self.fail_waiters(|sent| Error::Loop { source: TaskError::Stopped, sent });
                return;
            }
        }
    }

    /// Ends every wait: how many there were. `why` is told whether any byte of the request was sent.
    fn fail_waiters(&self, why: impl Fn(bool) -> Error) -> usize {
        let waiters = std::mem::take(&mut self.state.borrow_mut().waiters);
        let count = waiters.len();
        self.shared.cells.waiting.subtract(count as u64);
        for waiter in waiters {
            let error = why(waiter.sent);
            waiter.fail(error);
        }
        count
    }

    fn dialed(self: &Rc<Self>, dialed: Result<Connection, DialError>) {
        match dialed {
            Ok(connection) => {
                self.shared.cells.dialed.add(1);
                self.adopt(connection);
            }
            Err(source) => {
                self.shared.cells.dial_failures.add(1);
                if let Some(waiter) = self.next_waiter(true) {
                    if matches!(source, DialError::Timeout { .. }) {
                        self.shared.cells.count_timeout(Phase::Connect);
                    }
                    let sent = waiter.sent;
                    waiter.fail(Error::Connect { origin: self.origin(), source, sent });
                }
            }
        }
        self.dial_for_waiters();
        if self.is_retired() {
            self.shared.kick();
        }
    }

    fn adopt(self: &Rc<Self>, connection: Connection) {
        let waiter = self.next_waiter(true);
        if waiter.is_none() && self.is_retired() {
            return;
        }
        let conn = {
            let mut state = self.state.borrow_mut();
            let entry = state.connections.vacant_entry();
            let conn = Rc::new(Conn::new(entry.key(), connection, self));
            entry.insert(Rc::clone(&conn));
            conn
        };
        match waiter {
            Some(waiter) => {
                self.shared.cells.active.add(1);
                conn.start(waiter);
            }
            None => self.put_idle(&conn),
        }
        drop(anywire_loops::spawn(Conn::drive(conn)));
    }

    /// Whether a call waits for a connection.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.state.borrow().waiters.is_empty()
    }

    /// What a connection does next whose call is over: the oldest waiting call, else nothing.
    pub(crate) fn next_call(&self, conn: &Rc<Conn>) -> Option<Pending> {
        self.last_used.set(clock::now());
        let waiter = self.next_waiter(false);
        match &waiter {
            Some(_) => self.shared.cells.reused.add(1),
            None => {
                self.shared.cells.active.subtract(1);
                self.put_idle(conn);
            }
        }
        waiter
    }

    fn put_idle(&self, conn: &Rc<Conn>) {
        self.state.borrow_mut().idle.push(Rc::clone(conn));
        self.shared.cells.idle.add(1);
    }

    /// A connection is gone. Its place is free for a dial.
    pub(crate) fn forget(self: &Rc<Self>, conn: &Conn, was_busy: bool) {
        let removed = {
            let mut state = self.state.borrow_mut();
            if let Some(at) = state.idle.iter().position(|other| std::ptr::eq(&**other, conn)) {
                state.idle.remove(at);
                self.shared.cells.idle.subtract(1);
            }
            state.connections.try_remove(conn.key())
        };
        if was_busy {
            self.shared.cells.active.subtract(1);
            self.last_used.set(clock::now());
        }
        // Outside the borrow: this may be the last reference, and what it drops may hold a caller's body.
        drop(removed);
        // Not dialled right here: a connection also goes when its loop stops, where nothing can be started.
        let state = self.state.borrow();
        if self.is_retired() || state.dialing < state.waiters.len() {
            self.shared.kick();
        }
    }

    /// Closes what is idle, and whatever comes free from now on.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        while let Some(conn) = self.pop_idle() {
            drop(conn.end());
        }
    }

    /// Ends every call in the pool: how many there were.
    pub(crate) fn cut(&self) -> usize {
        self.retire();
        let busy: Vec<_> = self.state.borrow().connections.iter().map(|(_, conn)| Rc::clone(conn)).collect();
        let calls = busy.len() + self.fail_waiters(|sent| Error::Closed { sent });
        for conn in busy {
            conn.cut();
        }
        calls
    }

    /// Ends overdue waits and starts the dials that are due. Says when to look again, or nothing if the pool is over.
    pub(crate) fn sweep(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        let (overdue, mut next) = self.take_overdue(now);
        for (waiter, error) in overdue {
            waiter.fail(error);
        }
        self.dial_for_waiters();
        if self.is_unused() {
            let unused_until = self.last_used.get() + self.shared.config().timeouts.pool_unused;
            if self.is_retired() {
                return None;
            }
            if unused_until <= now {
                self.shared.cells.pools_unused.add(1);
                return None;
            }
            next = Some(unused_until);
        }
        // A pool in use is looked at again when its calls may be over.
        Some(next.unwrap_or(now + self.shared.config().timeouts.pool_unused))
    }

    fn take_overdue(&self, now: Instant) -> (Vec<(Pending, Error)>, Option<Instant>) {
        let timeouts = &self.shared.config().timeouts;
        let mut state = self.state.borrow_mut();
        let (mut overdue, mut next) = (Vec::new(), None);
        let mut at = 0;
        while let Some(waiter) = state.waiters.get(at) {
            // The first ones have a dial under way, whose own deadline holds them for as long as it lasts.
            let acquire_until = match at < state.dialing {
                true => waiter.acquire_until.max(now + timeouts.connect),
                false => waiter.acquire_until,
            };
            let until = acquire_until.min(waiter.total_until);
            if until > now {
                next = Some(next.map_or(until, |next: Instant| next.min(until)));
                at += 1;
                continue;
            }
            let (phase, limit) = match waiter.total_until <= now {
                true => (Phase::Total, waiter.job.total_timeout),
                false => (Phase::Acquire, timeouts.acquire),
            };
            self.shared.cells.count_timeout(phase);
            let error = Error::Timeout { origin: self.origin(), phase, limit, sent: waiter.sent };
            overdue.extend(state.waiters.remove(at).map(|waiter| (waiter, error)));
            self.shared.cells.waiting.subtract(1);
        }
        (overdue, next)
    }
}

/// A dial under way. Its drop gives the place back, however it ends.
struct Dial {
    pool: Rc<Pool>,
}

impl Dial {
    async fn run(self) {
        let dialed = self.pool.shared.dialer.dial(&self.pool.address).await;
        let pool = Rc::clone(&self.pool);
        drop(self);
        pool.dialed(dialed);
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.pool.state.borrow_mut().dialing -= 1;
    }
}
