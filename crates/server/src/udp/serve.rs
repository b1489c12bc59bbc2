//! One socket on its loop: from datagrams to replies, until the end.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anywire_loops::{self as loops, Label, Work};
use anywire_wire::udp::{Outgoing, Received, Udp};
use tokio::sync::watch;

use super::counters::Counts;
use super::handler::DatagramHandler;
use super::rate::Accounts;
use super::replies::{PendingReplies, Replies, ReplySender};
use super::server::UdpLimits;
use crate::contained::{dispose, drop_each};

/// When a server is to end; `None` until it is told.
pub(super) type Deadline = watch::Receiver<Option<Instant>>;

/// A socket with its handler.
pub(super) struct Service<H> {
    handler: H,
    sender: ReplySender,
    accounts: Option<Accounts>,
    received: Received,
    outgoing: Outgoing,
    /// Where the loop is told that it runs the handler of this name, in case that blocks it.
    work: (Work, Label),
}

impl<H: DatagramHandler> Service<H> {
    pub(super) fn new(socket: Udp, handler: H, limits: &UdpLimits, counts: Arc<Counts>) -> Self {
        let (received, outgoing) = (Received::new(&socket), Outgoing::new(&socket));
        let accounts = limits.peer_rate.map(|rate| Accounts::new(rate, Instant::now()));
        let work = (Work::here(), Label::new(&socket.local().to_string()));
        let (socket, under_way) = (Rc::new(socket), Rc::new(PendingReplies::default()));
        let sender = ReplySender { socket, counts, later_max: limits.later_max, under_way };
        Self { handler, sender, accounts, received, outgoing, work }
    }

    /// Serves until the end, and then answers what has arrived.
    pub(super) async fn run(mut self, mut end: Deadline) {
        let deadline = self.serve(&mut end).await;
        let left = deadline.saturating_duration_since(Instant::now());
        // What is not done by then is cut.
        let _ = tokio::time::timeout(left, self.wind_up()).await;
        drop_each([self.handler]);
    }

    /// Returns the deadline of the end.
    async fn serve(&mut self, end: &mut Deadline) -> Instant {
        let mut deadline_of_end = pin!(async {
            tokio::select! {
                // A handle that was dropped stops its server at once.
                end = end.wait_for(Option::is_some) => end.ok().and_then(|deadline| *deadline).unwrap_or_else(Instant::now),
                // Whoever stops the loops waits for their tasks, so this one hurries.
                () = loops::stopping() => Instant::now() + HURRY,
            }
        });
        let mut batches = 0;
        loop {
            let arrived = tokio::select! {
                biased;
                arrived = self.sender.socket.receive(&mut self.received) => arrived,
                deadline = &mut deadline_of_end => return deadline,
            };
            if let Err(error) = arrived {
                self.pause_after(&error).await;
                continue;
            }
            self.batch();
            if !self.outgoing.is_empty() {
                tokio::select! {
                    biased;
                    () = self.send_replies() => {}
                    // A network that takes little must not hold up the end.
                    deadline = &mut deadline_of_end => return deadline,
                }
            }
            batches += 1;
            if batches >= BATCHES_AT_ONCE {
                batches = 0;
                tokio::task::yield_now().await;
                // The select above looks at the end only when nothing has arrived.
                if let Poll::Ready(deadline) =
                    poll_fn(|cx| Poll::Ready(deadline_of_end.as_mut().poll(cx))).await
                {
                    return deadline;
                }
            }
        }
    }

    /// Answers what has arrived, and waits for the replies that are to come later.
    async fn wind_up(&mut self) {
        if let Err(error) = self.sender.socket.refuse_from_now_on() {
            tracing::debug!(%error, "what arrives from now on is not refused");
        }
        loop {
            self.send_replies().await;
            match self.sender.socket.try_receive(&mut self.received) {
                Ok(true) => self.batch(),
                // Of the one peer of a connected socket; it may have sent before it left.
                Err(gone) if gone.kind() == io::ErrorKind::ConnectionRefused => continue,
                _ => break,
            }
            tokio::task::yield_now().await;
        }
        self.sender.under_way.none().await;
    }

    /// Sends all replies. Cancel safe: what has left is counted, and the rest stays in the queue.
    async fn send_replies(&mut self) {
        while !self.sender.send_what_can_be_sent(&mut self.outgoing) {
            // Fails only if the loop is ending, which the caller hears of.
            if self.sender.socket.room().await.is_err() {
                return;
            }
        }
    }

    /// Gives a batch to the handler. A panic costs the rest of the batch.
    fn batch(&mut self) {
        let Self { handler, sender, accounts, received, outgoing, work: (work, label) } = self;
        let counts = &sender.counts;
        counts.receive_calls.increment();
        if received.forged() > 0 {
            counts.forged.add(received.forged() as u64);
        }
        if received.is_empty() {
            return;
        }
        let now = accounts.is_some().then(Instant::now);
        let mut replies = Replies { sender, outgoing };
        let mut cuts = Vec::new();
        work.begins(*label);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut datagrams = received.iter().filter(|datagram| {
                if let (Some(accounts), Some(now)) = (accounts.as_mut(), now)
                    && !accounts.permit(&datagram.peer, now)
                {
                    counts.over_rate.increment();
                    return false;
                }
                match datagram.whole() {
                    Ok(data) => {
                        counts.datagrams.increment();
                        counts.bytes.add(data.len() as u64);
                        true
                    }
                    Err(cut) => {
                        counts.cut.increment();
                        cuts.push(cut);
                        false
                    }
                }
            });
            handler.batch(&mut datagrams, &mut replies);
            // A handler may leave some.
            datagrams.for_each(drop);
            cuts.into_iter().for_each(|cut| handler.cut(cut));
        }));
        work.ends();
        if let Err(panic) = ran {
            dispose(panic);
            counts.panics.increment();
            tracing::error!(socket = %sender.socket.local(), "the handler of datagrams panicked; a batch was lost");
        }
    }

    /// An error of the socket concerns no one datagram; the next call may do.
    async fn pause_after(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            // The one peer of a connected socket is not there yet.
            return tokio::task::yield_now().await;
        }
        tracing::warn!(%error, socket = %self.sender.socket.local(), "receiving failed, and is tried again");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Batches until other tasks of the loop have their turn: about a millisecond.
const BATCHES_AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(100);
/// How long the end may take if the loops are stopped, and not the server.
const HURRY: Duration = Duration::from_millis(500);
