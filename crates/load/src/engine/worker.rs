//! The life of one connection: dial, wait for the start, exchange, and dial again while that makes sense.

use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use anywire_loops::clock::precise;
use anywire_wire::{DialError, DialLog, Dialer};

use crate::engine::h1::{self, Ending};
use crate::engine::h2;
use crate::engine::paced::Slot;
use crate::engine::tally::Tally;
use crate::errors::{dial_kind, dial_message};
use crate::protocol::Protocol;
use crate::request::Request;

/// Runs one connection of the plan until the requests are spent or the connection is given up; the end of the run
/// drops it.
pub(crate) async fn work(tally: Rc<Tally>, dialer: Rc<Dialer>) {
    let mut life = Life { tally: Rc::clone(&tally), attempted: false, opened: false };
    let limits = &tally.plan.limits;
    let mut failures = 0;
    loop {
        // A connection that is not open when all requests have been sent has nothing to do: the end need not wait for it.
        let Some(dialled) = unless_spent(&tally, dial(&tally, &dialer)).await else { return };
        match dialled {
            Ok(opened) => {
                life.opened = true;
                life.attempt_ended();
                wait_for_start(&tally).await;
                let (ending, answers) = opened.run(&tally).await;
                if matches!(ending, Ending::Spent) {
                    tally.counts().connections.finished += 1;
                    return;
                }
                if matches!(ending, Ending::Renewed) {
                    tally.counts().connections.renewed += 1;
                    failures = 0;
                    continue;
                }
                tally.counts().connections.lost += 1;
                if answers > 0 {
                    failures = 0;
                }
                // A peer that answered and then closed is dialled again at once: that is its way, not a failure.
                if matches!(ending, Ending::Closed) && answers > 0 {
                    continue;
                }
            }
            Err(error) => {
                // Counted with the measured part, whenever it was: nothing else shows why a connection is missing.
                let message = || dial_message(&tally.prepared.address, &error);
                tally.error(true, dial_kind(&error), message);
            }
        }
        life.attempt_ended();
        if tally.is_spent() {
            return;
        }
        failures += 1;
        if failures >= limits.failures_in_a_row {
            tally.counts().connections.given_up += 1;
            let after = if life.opened { "after it had been open" } else { "without ever being open" };
            tracing::debug!(address = %tally.prepared.address, failures, "connection given up {after}");
            return;
        }
        let doubled = limits.backoff.saturating_mul(1 << (failures - 1).min(20));
        let pause = tokio::time::sleep(doubled.min(limits.backoff_max));
        if unless_spent(&tally, pause).await.is_none() {
            return;
        }
    }
}

/// What `work` gives, unless all requests of the measured part were sent before.
async fn unless_spent<T>(tally: &Tally, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = tally.spent() => None,
        done = work => Some(done),
    }
}

async fn dial(tally: &Rc<Tally>, dialer: &Dialer) -> Result<Opened, DialError> {
    // The semaphore is never closed; without a permit the dial goes ahead, which is the lesser harm.
    let _permit = tally.dials.acquire().await;
    let address = &tally.prepared.address;
    let (connection, log) = DialLog::of(dialer.dial(address)).await;
    tally.dialled(&log);
    let connection = connection?;
    let agreed = connection.negotiated().and_then(|agreed| agreed.protocol.as_deref());
    if address.has_tls() && tally.plan.protocol == Protocol::Http2 && agreed != Some("h2") {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "it does not agree to HTTP/2 (ALPN)");
        return Err(DialError::Handshake { address: address.clone(), cause });
    }
    let peer = connection.peer();
    let mut counts = tally.counts();
    counts.connections.opened += 1;
    if peer.ip().is_some() {
        *counts.addresses.entry(peer.location().to_owned()).or_default() += 1;
    }
    drop(counts);
    tally.open.set(tally.open.get() + 1);
    let shared = Rc::clone(tally);
    Ok(match &tally.prepared.request {
        Request::Http1(window) => Opened::Http1(h1::Session::new(shared, connection, window.clone()).into()),
        Request::Http2(request) => {
            Opened::Http2(h2::Session::new(shared, connection, request.clone()).into())
        }
    })
}

/// An open connection, by its protocol.
enum Opened {
    Http1(Box<h1::Session>),
    Http2(Box<h2::Session>),
}

impl Opened {
    /// Exchanges until the connection ends. Gives why, and the responses until then.
    async fn run(self, tally: &Tally) -> (Ending, u64) {
        match self {
            Self::Http1(mut session) => {
                let slot = session.slot();
                let ending =
                    poll_fn(|context| in_turn(tally, slot.as_ref(), context, |cx| session.poll(cx))).await;
                (ending, session.answers())
            }
            Self::Http2(mut session) => {
                let slot = session.slot();
                let ending =
                    poll_fn(|context| in_turn(tally, slot.as_ref(), context, |cx| session.poll(cx))).await;
                (ending, session.answers())
            }
        }
    }
}

/// Polls a connection when it is its turn. Requests that are due leave before the next response is read: a turn of the loop may
/// have many of these, and each would delay what is sent behind it.
fn in_turn(
    tally: &Tally,
    slot: Option<&Rc<Slot>>,
    context: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<Ending>,
) -> Poll<Ending> {
    let Some((paced, slot)) = tally.paced.as_ref().zip(slot) else { return poll(context) };
    if paced.gives_way(slot, context, precise()) {
        return Poll::Pending;
    }
    let polled = poll(context);
    paced.turn_ended();
    polled
}

async fn wait_for_start(tally: &Tally) {
    let go = tally.go.notified();
    if !tally.started.get() {
        go.await;
    }
}

/// What the run has to know of a worker: that its first attempt has its result, and at its end whether it was open. Dropping it
/// tells both, since the run waits for each worker, even for one that panicked.
struct Life {
    tally: Rc<Tally>,
    attempted: bool,
    /// Whether it has been open.
    opened: bool,
}

impl Life {
    /// An attempt has its result.
    fn attempt_ended(&mut self) {
        if !self.attempted {
            self.attempted = true;
            self.tally.unattempted.set(self.tally.unattempted.get() - 1);
            self.tally.changed.notify_one();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.attempt_ended();
        self.tally.counts().connections.never_open += u64::from(!self.opened);
        self.tally.working.set(self.tally.working.get() - 1);
        self.tally.changed.notify_one();
    }
}
