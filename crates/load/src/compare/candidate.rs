//! The traits of a candidate: it starts a server, names its address, and gives the CPU time of its thread.

use std::error::Error;
use std::io;

use anywire_sys::cpu::CpuTime;
use anywire_wire::Address;

/// A server that can be measured. A new one is one type that implements this.
pub trait Candidate {
    /// What its rows are called; unique in a comparison.
    fn name(&self) -> &str;

    /// The wire that it is reached over: the scheme of its address.
    fn wire(&self) -> &str;

    /// A remark for readers of its figures; empty if there is none.
    fn note(&self) -> String {
        String::new()
    }

    /// Whether it is the limit that `ratio_to_limit` of all is taken to; at most one is.
    fn is_limit(&self) -> bool {
        false
    }

    /// Starts it; the harness does so anew for each round.
    ///
    /// # Errors
    ///
    /// The server did not start. The error is shown in the row, and the other candidates go on.
    fn start(&self, settings: &Settings) -> Result<Box<dyn RunningServer>, CandidateError>;
}

/// Why a candidate did not start, in words for the reader of the row.
pub type CandidateError = Box<dyn Error + Send + Sync>;

/// A candidate's server under way, with one thread that does all its work. Dropping it stops the server.
pub trait RunningServer {
    /// The URL to load.
    fn url(&self) -> String;

    /// The address to dial instead of the URL's host and port.
    fn via(&self) -> Option<Address>;

    /// The thread that serves (`gettid`), of this process: its system calls are counted.
    fn server_thread(&self) -> i32;

    /// The CPU time that this thread has used so far, sampled by the thread itself (RUSAGE_THREAD).
    ///
    /// # Errors
    ///
    /// The thread is gone or cannot tell; the figure is `null` then.
    fn server_cpu(&self) -> io::Result<CpuTime>;
}

/// What a candidate needs to know to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The core that the serving thread must be pinned to (`None`: it is not pinned, for want of cores).
    pub core: Option<usize>,
    /// The length of the body that each `GET` of the URL is answered with, in bytes.
    pub body_bytes: usize,
    /// Connections that will be opened.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
}
