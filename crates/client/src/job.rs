//! One call on its way: what the caller asked for, and where the answer goes.

use std::time::{Duration, Instant};

use anywire_http::{Headers, Method, Url};
use anywire_wire::Address;
use tokio::sync::oneshot;

use crate::upload::Contained;
use crate::{Error, Response, Timeouts};

/// What the caller of a call gets in the end.
pub(crate) type Reply = Result<Response, Error>;

/// A call, boxed once when it is made, so that it moves from the caller to a connection as one word.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) method: Method,
    pub(crate) target: Url,
    pub(crate) headers: Headers,
    pub(crate) body: Contained,
    /// The wire to go by, where it is not the one that the URL means.
    pub(crate) via: Option<Address>,
    pub(crate) read_timeout: Duration,
    pub(crate) total_timeout: Duration,
    /// The caller set `connection` and so decides about it: it is not used again.
    pub(crate) last_on_connection: bool,
}

impl Job {
    pub(crate) fn new(method: Method, target: Url, timeouts: &Timeouts) -> Self {
        Self {
            method,
            target,
            headers: Headers::new(),
            body: Contained::default(),
            via: None,
            read_timeout: timeouts.read,
            total_timeout: timeouts.total,
            last_on_connection: false,
        }
    }
}

/// A call in a pool: it has a caller who waits, and deadlines.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) job: Box<Job>,
    pub(crate) reply: oneshot::Sender<Reply>,
    /// When it must be answered.
    pub(crate) total_until: Instant,
    /// When it must have a connection, or be allowed to dial one.
    pub(crate) acquire_until: Instant,
    /// It was on a reused connection that had died, and goes out on a fresh one, once.
    pub(crate) resent: bool,
    /// Whether any byte of it went out on that connection.
    pub(crate) sent: bool,
}

impl Pending {
    /// Whether somebody still waits for the answer.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Ends the call. A caller who is gone does not mind.
    pub(crate) fn fail(self, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}
