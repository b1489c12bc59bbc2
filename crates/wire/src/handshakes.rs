//! The handshakes of a listener: how many may be under way on each loop, and how they ended.
//!
//! A handshake costs its peer a byte and this end some memory and ten seconds of patience. So at the limit the **oldest**
//! one is ended. A handshake that goes on is done long before so many newer ones have come. So peers that are silent, or
//! send a byte now and then, cannot lock others out.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::connection::Connection;
use crate::listener::{ListenerCounters, Throttle};

/// What the loops of one listener share.
pub(crate) struct Handshakes {
    /// Tells listeners on the same loops apart.
    listener: u64,
    timeout: Duration,
    /// On each loop.
    max: usize,
    under_way: AtomicU64,
    done: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    clear_text: AtomicU64,
    timed_out: AtomicU64,
    ended: AtomicU64,
}

impl Handshakes {
    pub(crate) fn new(timeout: Duration, max: usize) -> Self {
        Self {
            listener: NEXT_LISTENER.fetch_add(1, Ordering::Relaxed),
            timeout,
            max: max.max(1),
            under_way: AtomicU64::new(0),
            done: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            clear_text: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Makes the handshake of a connection whose peer has not sent all of it yet.
    ///
    /// # Errors
    /// It failed, took too long, or was the oldest at the limit. It is counted, and the connection to be dropped.
    pub(crate) async fn make(&self, connection: &mut Connection) -> io::Result<()> {
        let permit = Permit::take(self);
        tokio::select! {
            biased;
            made = connection.handshake(self.timeout) => made.inspect_err(|error| self.count_failure(error)),
            () = permit.lost.notified() => {
                self.ended.fetch_add(1, Ordering::Relaxed);
                Err(io::Error::other("more handshakes were under way than the limit allows, and this was the oldest"))
            }
        }
    }

    /// Counts a handshake that was made, unless the wire has none.
    pub(crate) fn count_success(&self, connection: &Connection) {
        let Some(negotiated) = connection.negotiated() else { return };
        self.done.fetch_add(1, Ordering::Relaxed);
        if negotiated.is_resumed {
            self.resumed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_failure(&self, error: &io::Error) {
        if is_clear_text(error) {
            self.clear_text.fetch_add(1, Ordering::Relaxed);
        }
        match error.kind() {
            io::ErrorKind::TimedOut => &self.timed_out,
            _ => &self.failed,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    /// Fills in the counts of handshakes.
    pub(crate) fn add_to(&self, counters: &mut ListenerCounters) {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        counters.handshakes_under_way = value(&self.under_way);
        counters.handshakes = value(&self.done);
        counters.resumed_handshakes = value(&self.resumed);
        counters.failed_handshakes = value(&self.failed);
        counters.clear_text_peers = value(&self.clear_text);
        counters.handshake_timeouts = value(&self.timed_out);
        counters.ended_handshakes = value(&self.ended);
    }
}

#[cfg(feature = "tls")]
fn is_clear_text(error: &io::Error) -> bool {
    crate::tls::HandshakeError::of(error).is_some_and(crate::tls::HandshakeError::is_clear_text)
}

#[cfg(not(feature = "tls"))]
fn is_clear_text(_: &io::Error) -> bool {
    false
}

/// The permit of a handshake, one of so many on this loop. Dropping it makes room.
struct Permit<'h> {
    handshakes: &'h Handshakes,
    of_loop: Rc<OfLoop>,
    number: u64,
    /// Another handshake has the permit now.
    lost: Rc<Notify>,
}

/// All handshakes of this loop.
#[derive(Default)]
struct OfLoop {
    /// By listener, the oldest first.
    under_way: RefCell<HashMap<u64, BTreeMap<u64, Rc<Notify>>>>,
    warnings: RefCell<Throttle>,
}

impl<'h> Permit<'h> {
    fn take(handshakes: &'h Handshakes) -> Self {
        let of_loop: Rc<OfLoop> = anywire_loops::local(OfLoop::default);
        let lost = Rc::new(Notify::new());
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        {
            let mut all = of_loop.under_way.borrow_mut();
            let under_way = all.entry(handshakes.listener).or_default();
            if under_way.len() >= handshakes.max
                && let Some((_, oldest)) = under_way.pop_first()
            {
                oldest.notify_one();
                if of_loop.warnings.borrow_mut().is_due(WARN_EVERY) {
                    let limit = handshakes.max;
                    tracing::warn!(
                        limit,
                        "as many handshakes are under way as the limit allows; the oldest are ended"
                    );
                }
            }
            under_way.insert(number, Rc::clone(&lost));
        }
        handshakes.under_way.fetch_add(1, Ordering::Relaxed);
        Self { handshakes, of_loop, number, lost }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.handshakes.under_way.fetch_sub(1, Ordering::Relaxed);
        let mut all = self.of_loop.under_way.borrow_mut();
        if let Some(under_way) = all.get_mut(&self.handshakes.listener) {
            under_way.remove(&self.number);
            if under_way.is_empty() {
                all.remove(&self.handshakes.listener);
            }
        }
    }
}

static NEXT_LISTENER: AtomicU64 = AtomicU64::new(0);
/// Grows with each handshake, so that the least is the oldest.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
const WARN_EVERY: Duration = Duration::from_secs(60);
