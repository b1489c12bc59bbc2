//! What is seen of one call: where its time goes, its interim responses, its spans.
//!
//! A [`Trace`] goes with a call, notes what happens to it on its loop, and tells at any time what has happened so far: the
//! [`Timeline`]. A call without one looks for it, finds none, and reads no clock.

mod context;
mod interim;
mod record;
mod show;
mod spans;
mod timeline;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anywire_http::{ResponseHead, StatusCode};
use anywire_loops::clock::precise;
use anywire_wire::{Connection, DialLog};

pub use context::{InvalidTraceContext, TraceContext};
pub(crate) use interim::InterimHook;
use record::Record;
pub use timeline::{PhaseSpan, Timeline, TracedAttempt, TracedConnection, TracedDial};

use crate::Error;
use crate::call::request::CallRequest;

/// Sees one call: where its time went, over which connections, in how many attempts. It is given to the call, and asked while
/// the call goes on or once it is over, whatever came of it.
///
/// A clone sees the same call. If it is given to a second one, it forgets the first.
///
/// ```no_run
/// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
/// use anywire_client::Trace;
///
/// let trace = Trace::new();
/// let outcome = async { client.get("https://shop.example/orders").trace(&trace).send().await?.bytes().await }.await;
/// println!("{}", trace.timeline());
/// # outcome.map(drop) }
/// ```
/// prints for example:
/// ```text
/// GET https://shop.example/orders: 200 after 48.2 ms
///   waiting for a connection      0.1 ms
///   resolving the name            5.2 ms
///   connecting                   11.0 ms
///   the TLS handshake            12.6 ms
///   sending the request           0.1 ms
///   waiting for the response     18.1 ms
///   reading the body              1.1 ms
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trace {
    shared: Arc<Mutex<Record>>,
}

impl Trace {
    /// A trace that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it has seen so far.
    pub fn timeline(&self) -> Timeline {
        self.record().timeline(precise())
    }

    /// A call begins.
    pub(crate) fn begin(&self) {
        *self.record() = Record::new(precise());
    }

    /// A redirect leads to another URL.
    pub(crate) fn follow(&self) {
        self.record().hop += 1;
    }

    /// A request is given to a loop, or once more to a pool.
    pub(crate) fn attempt(&self, request: &CallRequest, now: Instant) {
        self.record().attempt(request, now);
    }

    /// A dial is over which it has waited for.
    pub(crate) fn dialed(&self, log: &DialLog) {
        self.record().change(|attempt| attempt.dial = Some(log.clone()));
    }

    /// It has a connection.
    pub(crate) fn acquired(&self, id: u64, connection: &Connection, is_http2: bool) {
        let (local, peer) = (connection.local(), connection.peer());
        self.record().change(|attempt| {
            attempt.acquired = Some(precise());
            attempt.connection = Some((id, local, peer, is_http2));
        });
    }

    /// The wire has taken the whole request.
    pub(crate) fn written(&self) {
        self.record().change(|attempt| _ = attempt.written.get_or_insert_with(precise));
    }

    /// The first byte of a response has come.
    pub(crate) fn first_byte(&self) {
        self.record().change(|attempt| _ = attempt.first_byte.get_or_insert_with(precise));
    }

    /// An interim response has come.
    pub(crate) fn interim(&self, status: StatusCode) {
        self.record().change(|attempt| attempt.interim.push((status, precise())));
    }

    /// The head of the response has come.
    pub(crate) fn head(&self, head: &ResponseHead) {
        self.record().change(|attempt| attempt.head = Some((head.status(), precise())));
    }

    /// The response is whole.
    pub(crate) fn ended(&self) {
        self.record().change(|attempt| attempt.ended = Some(precise()));
    }

    /// There is no response, or not all of it.
    #[cold]
    pub(crate) fn failed(&self, error: &Error) {
        self.record().fail(error, precise());
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // Nothing panics while the lock is held.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
