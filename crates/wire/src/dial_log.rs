//! When a dial has done its steps, for who wants to know where its time went.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::time::Instant;

use anywire_loops::clock::precise;

/// A step of a dial, once it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DialStep {
    /// The name has an address. Nothing is resolved for an address that is a number, or on a wire without names.
    Resolved,
    /// The connection is made.
    Connected,
    /// A proxy has made a tunnel on it.
    Tunnelled,
    /// The handshake (TLS) is made.
    Secured,
}

/// The steps of one dial, in the order in which they were done. Through a proxy there are two handshakes, if both are spoken to over
/// TLS.
///
/// ```no_run
/// use anywire_wire::{DialLog, DialStep, Dialer};
///
/// # async fn f() -> Result<(), anywire_wire::DialError> {
/// let dialer = Dialer::default();
/// let (connection, log) = DialLog::of(dialer.dial("tls:example.com:443")).await;
/// for (step, at) in log.steps() {
///     println!("{step:?} after {:?}", *at - log.begun());
/// }
/// # connection.map(drop) }
/// ```
#[derive(Debug, Clone)]
pub struct DialLog {
    begun: Instant,
    steps: Vec<(DialStep, Instant)>,
}

tokio::task_local! {
    /// That of the dial which the present task makes.
    static LOG: RefCell<DialLog>;
}

impl DialLog {
    /// Awaits a dial, or several that follow each other, and keeps what they [note](Self::note) on the way.
    pub async fn of<T>(dial: impl Future<Output = T>) -> (T, Self) {
        let log = Self { begun: precise(), steps: Vec::with_capacity(STEPS) };
        let begun = log.begun;
        let mut logged = pin!(LOG.scope(RefCell::new(log), dial));
        let made = logged.as_mut().await;
        let log = logged.take_value().map(RefCell::into_inner);
        (made, log.unwrap_or(Self { begun, steps: Vec::new() }))
    }

    /// The present dial has done a step. [`Dialer`](crate::Dialer) and the wires of this crate do so by themselves; what makes
    /// tunnels, or is a wire of its own, may.
    pub fn note(step: DialStep) {
        // Nobody asks as a rule of dials outside of clients.
        let _ = LOG.try_with(|log| log.borrow_mut().steps.push((step, precise())));
    }

    /// When it began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// What it has done, and when.
    pub fn steps(&self) -> &[(DialStep, Instant)] {
        &self.steps
    }
}

/// As many as a direct dial has.
const STEPS: usize = 3;
