//! How the connections of a pool end, and the pool itself.

use std::rc::Rc;
use std::time::Instant;

use anywire_loops::clock::{self, precise};

use super::Pool;
use crate::Error;
use crate::connection::Conn;

impl Pool {
    /// Closes a connection that the peer closed, or broke.
    pub(super) fn evict(&self, conn: &Conn) {
        self.close(conn);
        // Counted last: when the count is visible, the connection is gone.
        self.context.cells.evicted.add(1);
    }

    /// Closes a connection. Its place is free for a dial.
    pub(super) fn close(&self, conn: &Conn) {
        if !conn.is_idle() {
            self.last_used.set(precise());
        }
        // First: another loop may dial as soon as the permit is back, and must not be counted beside this one.
        conn.count_idle(false);
        if !conn.close(&self.origin) {
            return;
        }
        {
            let mut connections = self.connections.borrow_mut();
            connections.unlist(conn);
            connections.all.try_remove(conn.key());
        }
        // Not dialled right here: a connection also goes when its loop stops, where nothing can be started.
        if self.retired.get() || self.dialing.get() < self.waiting.len() {
            self.context.kick();
        }
    }

    /// Closes idle connections now, and the others after their calls.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        while let Some(conn) = self.pop_free() {
            if conn.is_idle() {
                conn.go_away();
                self.close(&conn);
            }
        }
    }

    /// Ends every call in the pool: how many there were.
    pub(crate) fn cut(&self) -> usize {
        self.retire();
        let busy: Vec<_> = self.connections.borrow().all.iter().map(|(_, conn)| Rc::clone(conn)).collect();
        let calls = busy.iter().map(|conn| conn.calls()).sum::<usize>();
        let calls = calls + self.waiting.fail(|sent| Error::Shutdown { sent });
        for conn in busy {
            conn.cut();
        }
        calls
    }

    /// Ends overdue waits. Says when the next one may be overdue.
    pub(crate) fn end_waits(&self, now: Instant) -> Option<Instant> {
        self.waiting.sweep(now, self.served_by(self.dialing.get()))
    }

    /// When to look at it again, or nothing if the pool is over. Its `next` wait may be overdue then.
    pub(crate) fn look_again(&self, now: Instant, next: Option<Instant>) -> Option<Instant> {
        if !self.is_unused() {
            // A pool in use is looked at again when its calls may be over.
            let unused = self.context.config().timeouts.pool_unused;
            return Some(next.unwrap_or_else(|| clock::after(now, unused)));
        }
        if self.retired.get() {
            return None;
        }
        let unused_until = self.unused_until();
        if unused_until <= now {
            self.context.cells.pools_unused.add(1);
            return None;
        }
        Some(unused_until)
    }
}
