//! A candidate: it starts a server, which names its address and its threads.

use std::error::Error;

use anywire_wire::Address;
#[cfg(feature = "tls")]
use anywire_wire::tls::ClientTls;

use crate::handles::Handles;
use crate::protocol::Protocol;
use crate::rounds::ServerThreads;
use crate::stop::Stop;

/// A server that can be measured.
pub struct Candidate {
    /// What its rows are called; unique in a comparison.
    pub name: String,
    /// The wire that it is reached over: the scheme of its address.
    pub wire: String,
    /// The version of HTTP that it is loaded by.
    pub protocol: Protocol,
    /// A remark for readers of its figures; empty if there is none.
    pub note: String,
    /// Whether it is the limit that `ratio_to_limit` of all is taken to; at most one is.
    pub is_limit: bool,
    /// Whether it runs by itself: `start` only names it, so that nothing starts it anew, pins it to a core or knows how long its
    /// answers are.
    pub runs_by_itself: bool,
    /// Starts it, anew for each round. If it does not start, its row shows the error, and the other candidates go on.
    pub start: Start,
}

/// How a candidate is started.
pub type Start = Box<dyn Fn(&Settings) -> Result<RunningServer, CandidateError>>;

/// Why a candidate did not start, in words for the reader of the row.
pub type CandidateError = Box<dyn Error + Send + Sync>;

/// A candidate's server under way. Dropping this value must stop the server, so its fields own it: `threads` does, in the
/// usual case.
pub struct RunningServer {
    /// The URL to load.
    pub url: String,
    /// The address to dial instead of the URL's host and port.
    pub via: Option<Address>,
    /// Whom to trust on a wire with TLS (`None`: whom the platform trusts).
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
    /// The threads that serve.
    pub threads: ServerThreads,
    /// What a reader of its row must know, after it was loaded: for example, that it refused connections.
    pub remark: Box<dyn Fn() -> Option<String>>,
}

impl RunningServer {
    /// What a load of it needs beside its plan; `stop` ends it early.
    pub(crate) fn handles(&self, stop: &Stop) -> Handles {
        Handles {
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
            stop: stop.clone(),
            ..Handles::default()
        }
    }
}

/// What a candidate needs to know to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The core that the serving thread must be pinned to (`None`: it is not pinned, for want of cores).
    pub core: Option<usize>,
    /// How many connections will be open at a time. A server that cannot hold so many should say so in place of starting.
    pub connections: usize,
    /// The length of the body that each `GET` of the URL is answered with, in bytes.
    pub body_bytes: usize,
}
