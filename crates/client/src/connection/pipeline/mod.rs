//! Several requests of HTTP/1 at a time on a connection (RFC 9112 section 9.3.2): which calls may share one, and with how many others.

mod deadlines;
mod departures;
mod line;
mod lost;
mod receive;
mod session;

#[cfg(test)]
mod tests;

use crate::call::Call;
use crate::call::request::{CallRequest, Last};
use crate::client::by_origin::ByOrigin;
use crate::{ClientBuilder, Error};

pub(crate) use session::Session;

/// How calls share a connection of HTTP/1: [`ClientBuilder::pipelining`].
///
/// ```
/// use anywire_client::{Client, Pipelining};
///
/// let client = Client::builder().pipelining(Pipelining { depth: 8, ..Pipelining::default() }).build();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipelining {
    /// Requests on their way on a connection at a time. Default 32: the requests of a write, and few that a slow response holds up.
    /// With 0 and 1 none shares a connection.
    pub depth: usize,
    /// How many bytes of a response are read whose caller has left, for the sake of those behind it. Default 64 KiB. For a longer one,
    /// one that lasts longer than [`Timeouts::drain`](crate::Timeouts::drain), and a stream without an end the connection is closed, and
    /// those behind it go out again on others.
    pub drain_bytes: usize,
}

impl Default for Pipelining {
    fn default() -> Self {
        Self { depth: 32, drain_bytes: 64 << 10 }
    }
}

/// So many requests at a time.
impl From<usize> for Pipelining {
    fn from(depth: usize) -> Self {
        Self { depth, ..Self::default() }
    }
}

impl ClientBuilder {
    /// Lets calls share a connection of HTTP/1 (RFC 9112 section 9.3.2): requests follow each other without waiting for responses,
    /// which come in the same order. Default: none does, because a slow response holds up those behind it, and few servers are
    /// tried with that. HTTP/2 needs none of it.
    ///
    /// Calls that share are [idempotent](crate::CallRequest::is_idempotent) and have a body that is there whole, or none. All others have a
    /// connection to themselves, and so have upgrades, bodies that [wait](Self::expect_continue), and
    /// [calls that are told to](Call::without_pipelining). A connection is shared after its first response, if that is of HTTP/1.1 and
    /// lets the connection go on. A call takes an idle connection, else one that has fewer than `depth` requests, else a new one.
    ///
    /// If the connection ends, calls without any byte of a response go out again on others. A deadline of the response that is due
    /// ends the connection. The silence of [`Timeouts::read`](crate::Timeouts::read) is that of the connection: no call is
    /// late because the peer answers others before it, as long as [`Timeouts::total`](crate::Timeouts::total) lasts.
    pub fn pipelining(mut self, pipelining: impl Into<Pipelining>) -> Self {
        self.pipelines.of_all = Some(pipelining.into());
        self
    }

    /// [`pipelining`](Self::pipelining) of one origin, such as `http://shop.internal`, whatever holds for the others. A depth of 1 excepts it.
    pub fn pipelining_of(mut self, origin: impl AsRef<str>, pipelining: impl Into<Pipelining>) -> Self {
        self.pipelines.of_some.add(origin.as_ref(), pipelining.into());
        self
    }
}

impl Call {
    /// Has a connection to itself, where calls [share](ClientBuilder::pipelining) one: for a response that takes long, such as that of a long
    /// poll.
    pub fn without_pipelining(self) -> Self {
        self.edit(|request| {
            request.options.needs_own_connection = true;
            Ok(())
        })
    }
}

impl CallRequest {
    /// Whether its connection must have no other call before it or behind it.
    pub(crate) fn needs_own_connection(&self) -> bool {
        // Of others it could not be said whether they were processed, or where their request ends.
        !self.is_idempotent()
            || self.options.needs_own_connection
            || self.body.get().as_full().is_none()
            || self.upgrade
            || self.last != Last::No
            || self.expects_continue()
            || self.headers.contains("expect")
    }
}

/// Which origins of a client have pipelines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pipelines {
    of_all: Option<Pipelining>,
    of_some: ByOrigin<Pipelining>,
}

impl Pipelines {
    /// How calls to an origin share connections, if they do.
    pub(crate) fn of(&self, origin: &str) -> Result<Option<Pipelining>, Error> {
        let own = self.of_some.of(origin)?.copied();
        Ok(own.or(self.of_all).filter(|pipelining| pipelining.depth > 1))
    }
}
