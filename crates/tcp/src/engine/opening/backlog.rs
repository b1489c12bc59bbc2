//! How many connections wait to be accepted, as with a socket of Linux (listen(2)).
//!
//! While more wait than the backlog says, SYNs are dropped, and so are the ACKs that would end a handshake: the peer sends them again, or
//! we send the SYN-ACK again, and there may be room by then. The peer is never reset: it would take that for a refusal.

use crate::engine::{ConnId, Engine, ListenerId};

impl Engine {
    /// Limits the connections that wait for [`accept`](Self::accept). As with Linux, one more than `backlog` waits, so that there is
    /// always room for one. Before the first call there is no limit, and nobody has to accept.
    ///
    /// What finds the queue full is dropped and counted: [`Counters::listen_overflows`](crate::Counters::listen_overflows).
    pub fn set_backlog(&mut self, listener: ListenerId, backlog: usize) {
        if let Some(listener) = self.local.listener_mut(listener) {
            listener.backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        }
    }

    /// A connection that came as [`INCOMING`](crate::engine::Events::INCOMING) is its user's from now on: another one may wait in its place. To
    /// be called once for each connection of a listener with a [backlog](Self::set_backlog), before the connection is let go.
    pub fn accept(&mut self, id: ConnId) {
        let Some(found) = self.listener_of(id) else { return };
        let Some(listener) = self.local.listener_mut(found) else { return };
        if listener.waiting > 0 {
            listener.waiting -= 1;
            return;
        }
        // It came before there was a listener for its address alone.
        let port = listener.port;
        if let Some(listener) = self.local.listener_at_any(port) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Whether as many wait to be accepted as may; then what would bring another one is to be dropped.
    #[inline]
    pub(crate) fn is_accept_queue_full(&self, listener: ListenerId) -> bool {
        self.local.listener(listener).is_some_and(|listener| listener.waiting > listener.backlog)
    }

    /// The same for a segment that is dropped then, which is counted.
    #[inline]
    pub(crate) fn overflows_accept_queue(&mut self, listener: ListenerId) -> bool {
        let is_full = self.is_accept_queue_full(listener);
        self.counters.listen_overflows += u64::from(is_full);
        is_full
    }

    /// Another one waits to be accepted.
    #[inline]
    pub(crate) fn note_waiting(&mut self, listener: ListenerId) {
        if let Some(listener) = self.local.listener_mut(listener) {
            listener.waiting = listener.waiting.saturating_add(1);
        }
    }
}
