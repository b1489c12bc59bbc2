//! Dials: how many a pool makes, for its waiting calls or before there are any, and what becomes of them.

use std::rc::Rc;

use anywire_loops::TaskError;
use anywire_loops::clock::precise;
use anywire_wire::{Connection, DialLog};

use super::Pool;
use super::drive::Drive;
use super::sharing_the_cap::share_out;
use crate::Error;
use crate::connection::Conn;
use crate::connector::ConnectError;
use crate::observe::DialOf;
use crate::pool::learnt::Learnt;
use crate::pool::queue::Offer;
use crate::pool::quota::Permit;

impl Pool {
    /// Waiting calls that have a connection once `dials` have succeeded.
    pub(super) fn served_by(&self, dials: usize) -> usize {
        match self.calls_per_connection.get() {
            Some(calls) => dials.saturating_mul(calls),
            None if dials == 0 => 0,
            None => usize::MAX,
        }
    }

    /// Starts dials until there are enough for all waiters, or a cap is reached.
    pub(super) fn dial_for_waiters(self: &Rc<Self>) {
        loop {
            let dialing = self.dialing.get();
            if self.served_by(dialing) >= self.waiting_weight() {
                return self.want_no_more();
            }
            if dialing >= self.context.dials {
                return;
            }
            let Some(permit) = self.permit() else { return };
            if anywire_loops::spawn(self.dial(permit).run()).is_finished() {
                // A loop that ends drops its new tasks, so no dial will ever end.
                self.waiting.fail(|sent| Error::Loop { source: TaskError::Stopped, sent });
                return;
            }
        }
    }

    /// Dials until there are so many connections, or as many as there may be: how many there are then. Dials under way
    /// count, and calls that come meanwhile take them.
    pub(crate) async fn connect_ahead(self: &Rc<Self>, wanted: usize) -> usize {
        let mut dials = Vec::new();
        while self.connections.borrow().all.len() + self.dialing.get() < wanted
            && self.dialing.get() < self.context.dials
        {
            let Some(permit) = self.permit() else { break };
            dials.push(anywire_loops::spawn(self.dial(permit).run()));
        }
        self.want_no_more();
        for dial in dials {
            // A dial that fails is counted, and leaves fewer connections.
            let _ = dial.await;
        }
        self.connections.borrow().all.len()
    }

    pub(super) fn dial(self: &Rc<Self>, permit: Permit) -> Dial {
        self.dialing.update(|dialing| dialing + 1);
        Dial { pool: Rc::clone(self), permit: Some(permit) }
    }

    fn dialed(
        self: &Rc<Self>,
        dialed: Result<Connection, ConnectError>,
        log: &DialLog,
        permit: Option<Permit>,
    ) {
        let cells = &self.context.cells;
        self.context.phases().inspect(|phases| phases.record_dial(log));
        match dialed {
            Ok(connection) => {
                cells.dialed.add(1);
                if connection.negotiated().is_some_and(|agreed| agreed.is_unverified) {
                    cells.unverified.add(1);
                }
                self.adopt(connection, log, permit);
            }
            Err(source) => {
                drop(permit);
                let observers = &self.context.config().observers;
                if !observers.is_empty() {
                    observers.dialed(self.dial_of(log), Err(&source));
                }
                cells.dial_failures.add(1);
                if source.is_handshake() {
                    cells.handshake_failures.add(1);
                }
                if source.is_resolve() {
                    cells.resolve_failures.add(1);
                }
                if let ConnectError::Proxy(_) = source {
                    cells.proxy_failures.add(1);
                }
                if self.teaches {
                    self.context.inner().learnt().forget(&self.origin);
                }
                let member = self.member.get().filter(|_| source.is_of_address());
                let is_out = member.is_some_and(|member| self.count_failure(member));
                let job =
                    self.waiting.pop(Offer::Fresh).and_then(|job| self.move_on(job.dialed(log), is_out));
                if let Some(job) = job {
                    if let Some(phase) = source.overdue() {
                        cells.count_timeout(phase);
                    }
                    let sent = job.sent;
                    job.fail(source.into_error(self.origin.to_string(), sent));
                }
                // One of the calls that would have shared the connection gets the error. Each other call has a dial of its own.
                self.calls_per_connection.set(Some(1));
            }
        }
        // A connection may have been asked for while there was the dial alone.
        share_out(&mut self.pools_under_the_cap());
        if self.retired.get() {
            self.context.kick();
        }
    }

    /// The dial that is over now, for observers.
    fn dial_of<'a>(&'a self, log: &'a DialLog) -> DialOf<'a> {
        let (origin, address) = (&*self.origin, self.address());
        DialOf { origin, address, log, now: precise(), cells: &self.context.cells }
    }

    fn adopt(self: &Rc<Self>, connection: Connection, log: &DialLog, permit: Option<Permit>) {
        if self.teaches {
            let is_http2 = self.context.config().speaks_http2(&connection);
            let learnt = if is_http2 { Learnt::Http2 } else { Learnt::Http1 };
            let config = self.context.config();
            self.context.inner().learnt().learn(&self.origin, learnt, config.limits.origins);
        }
        let conn = {
            let mut connections = self.connections.borrow_mut();
            let entry = connections.all.vacant_entry();
            let conn = Rc::new(Conn::new(entry.key(), connection, permit, self.pipelining, &self.context));
            entry.insert(Rc::clone(&conn));
            conn
        };
        let observers = &self.context.config().observers;
        if !observers.is_empty() {
            conn.is_connected(|connected| observers.dialed(self.dial_of(log), Ok(connected)));
        }
        // No more than earlier connections turned out to take: the peer has yet to say its limit on this one.
        let room = conn.slots().min(self.calls_per_connection.get().unwrap_or(usize::MAX));
        let of_next = self.pipelining.filter(|_| conn.shares()).map_or(room, |pipelining| pipelining.depth);
        self.calls_per_connection.set(Some(of_next));
        while conn.calls() < room
            && let Some(job) = self.next_for(&conn, Offer::Fresh)
        {
            conn.start(job.dialed(log), &self.host);
        }
        // The calls that it was dialled for have gone elsewhere.
        if self.ends_if_idle(&conn).is_break() {
            self.close(&conn);
            return;
        }
        self.push_free(&conn);
        drop(anywire_loops::spawn(Drive { pool: Rc::clone(self), conn }));
    }
}

/// A dial under way. Its drop gives the place back, however it ends.
pub(super) struct Dial {
    pool: Rc<Pool>,
    permit: Option<Permit>,
}

impl Dial {
    pub(super) async fn run(mut self) {
        let (dialed, log) = DialLog::of(self.pool.route.connect(self.pool.context.config())).await;
        let (pool, permit) = (Rc::clone(&self.pool), self.permit.take());
        drop(self);
        pool.dialed(dialed, &log, permit);
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.pool.dialing.update(|dialing| dialing - 1);
    }
}
