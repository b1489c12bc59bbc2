//! Pipelined connections (HTTP/1): which of them a call joins, and which call has a connection to itself.

use std::rc::Rc;

use super::{Listed, Pool};
use crate::call::job::Job;
use crate::connection::Conn;
use crate::pool::queue::Offer;

impl Pool {
    /// A connection for a call: an idle one, or one that it shares with others.
    #[inline]
    pub(super) fn pop_for(&self, job: &Job) -> Option<Rc<Conn>> {
        self.pop_free().or_else(|| if self.pipelining.is_some() { self.pop_pipelined(job) } else { None })
    }

    #[inline(never)]
    fn pop_pipelined(&self, job: &Job) -> Option<Rc<Conn>> {
        // A call that needs an idle connection, and has no dial under way, holds up the calls behind it: it would wait for ever otherwise.
        if job.needs_own_connection || self.waiting.len() > 0 && self.dialing.get() == 0 {
            return None;
        }
        self.connections.borrow_mut().pop(Listed::Pipelined)
    }

    /// The oldest waiting call that a connection can take now.
    #[inline]
    pub(super) fn next_for(&self, conn: &Conn, offer: Offer) -> Option<Job> {
        match conn.shares() && !conn.is_idle() {
            true => self.waiting.pop_sharing(offer, self.dialing.get() > 0),
            false => self.waiting.pop(offer),
        }
    }

    /// How many calls the next connection is likely to take, after what this one has turned out to.
    pub(super) fn learn_capacity(&self, conn: &Conn) {
        match conn.capacity() {
            0 => {}
            // It has yet to say, or has a call to itself.
            1 if conn.shares() => {}
            capacity => self.calls_per_connection.set(Some(capacity)),
        }
    }

    /// A connection has ended. If no calls have shared it, the server may not support pipelining.
    pub(super) fn learn_end(&self, conn: &Conn) {
        if conn.shares() && !conn.is_proven() {
            self.calls_per_connection.set(Some(1));
        }
    }

    /// Waiting calls. A call that needs a connection to itself counts as many as another connection takes.
    pub(super) fn waiting_weight(&self) -> usize {
        let own = self.waiting.needing_own_connection();
        let more = self.calls_per_connection.get().map_or(0, |calls| calls - 1);
        self.waiting.len().saturating_add(own.saturating_mul(more))
    }
}
