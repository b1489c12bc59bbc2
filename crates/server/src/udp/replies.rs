//! Replies: sent in batches, bounded, at once or later.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use anywire_wire::udp::{Datagram, Full, Outgoing, Peer, Sent, Udp};
use tokio::sync::Notify;

use super::counters::Counts;

/// Takes the replies to a batch. They leave when the handler has returned, in as few system calls as can be.
pub struct Replies<'r> {
    pub(super) sender: &'r ReplySender,
    pub(super) outgoing: &'r mut Outgoing,
}

impl Replies<'_> {
    /// Answers a datagram: to its sender, from the address that it was sent to.
    ///
    /// # Errors
    /// [`Full`] if the network takes less than is answered, and 1 MiB of replies wait: the reply is counted
    /// ([`UdpCounters::replies_dropped`](super::UdpCounters::replies_dropped)) and dropped, as a network would.
    pub fn send(&mut self, to: &Datagram<'_>, data: &[u8]) -> Result<(), Full> {
        self.push(&to.peer, to.local_ip, data)
    }

    /// Sends a datagram to any peer, which need not have sent one.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_to(&mut self, peer: &Peer, data: &[u8]) -> Result<(), Full> {
        self.push(peer, None, data)
    }

    /// The right to answer a datagram later, from a task of this loop.
    ///
    /// ```
    /// use anywire_server::udp::{Datagram, Replies};
    ///
    /// let handler = |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
    ///     let Ok(later) = replies.later(datagram) else { return };
    ///     drop(anywire_loops::spawn(async move {
    ///         tokio::task::yield_now().await; // a database, another service
    ///         let _ = later.send(b"done").await;
    ///     }));
    /// };
    /// # let _ = anywire_server::udp::UdpServer::new(move || handler);
    /// ```
    ///
    /// # Errors
    /// [`Full`] if [`UdpLimits::later_max`](super::UdpLimits::later_max) are under way on this loop.
    pub fn later(&mut self, to: &Datagram<'_>) -> Result<Later, Full> {
        let waiting = self.sender.under_way.count.get();
        if waiting >= self.sender.later_max {
            self.sender.counts.later_refused.increment();
            return Err(Full { waiting });
        }
        self.sender.under_way.count.set(waiting + 1);
        let sender = self.sender;
        Ok(Later {
            socket: Rc::downgrade(&sender.socket),
            counts: Arc::clone(&sender.counts),
            peer: to.peer.clone(),
            from: to.local_ip,
            _permit: PendingReply(Rc::clone(&sender.under_way)),
        })
    }

    fn push(&mut self, peer: &Peer, from: Option<IpAddr>, data: &[u8]) -> Result<(), Full> {
        if self.outgoing.push(peer, from, data).is_ok() {
            return Ok(());
        }
        self.sender.send_what_can_be_sent(self.outgoing);
        self.outgoing.push(peer, from, data).inspect_err(|_| self.sender.counts.replies_dropped.increment())
    }
}

/// What the replies of one socket share.
pub(super) struct ReplySender {
    pub(super) socket: Rc<Udp>,
    pub(super) counts: Arc<Counts>,
    pub(super) later_max: usize,
    pub(super) under_way: Rc<PendingReplies>,
}

impl ReplySender {
    /// Whether all of it left.
    pub(super) fn send_what_can_be_sent(&self, outgoing: &mut Outgoing) -> bool {
        let mut sent = Sent::default();
        let all_left = self.socket.try_flush(outgoing, &mut sent);
        self.counts.replies.add(sent.datagrams);
        self.counts.send_calls.add(sent.calls);
        if let Some(error) = &sent.error {
            self.counts.replies_failed.add(sent.failed);
            tracing::debug!(%error, failed = sent.failed, "replies were refused by the system");
        }
        all_left
    }
}

/// Answers one datagram at a later time. Dropped, it answers nothing. An end in order waits for it, up to its deadline.
pub struct Later {
    /// A reply that never comes must not keep the address in use behind the service's end.
    socket: Weak<Udp>,
    counts: Arc<Counts>,
    peer: Peer,
    from: Option<IpAddr>,
    _permit: PendingReply,
}

impl Later {
    /// Who is answered.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// What the system said: it is too large for the way, or there is no way; `NotConnected` if the service has ended. It is
    /// counted, too.
    pub async fn send(self, data: &[u8]) -> io::Result<()> {
        let done = match self.socket.upgrade() {
            Some(socket) => {
                self.counts.send_calls.increment();
                socket.send_to(&self.peer, self.from, data).await
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        match &done {
            Ok(()) => self.counts.replies.increment(),
            Err(_) => self.counts.replies_failed.increment(),
        }
        done
    }
}

/// How many later replies are under way on a socket.
#[derive(Default)]
pub(super) struct PendingReplies {
    count: Cell<usize>,
    ended: Notify,
}

impl PendingReplies {
    /// Waits until none is.
    pub(super) async fn none(&self) {
        while self.count.get() > 0 {
            self.ended.notified().await;
        }
    }
}

struct PendingReply(Rc<PendingReplies>);

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        // All is on one loop: who waits looks at the count before it waits again.
        self.0.ended.notify_one();
    }
}
