//! Why a probe gives no outcome at all. What fails later, a pattern alone, is in the outcome.

use std::io;

use anywire_advice::{Advice, Message};
use anywire_loops::TaskError;
use anywire_wire::DialError;

use crate::errors::LoadError;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The plan is wrong (the caller's fault); nothing was sent.
    #[error("the probe cannot begin")]
    Plan(
        /// What is wrong with it.
        #[source]
        LoadError,
    ),
    /// The path of a slow request cannot stand in a request (the caller's fault).
    #[error("the slow path {path:?} is no path{help}", help = Advice("begin it with /, and write %20 for a space"))]
    SlowPath {
        /// The text that was given.
        path: String,
    },
    /// The header fields say `Connection: close` (the caller's fault): a probe is about connections that are kept open.
    #[error(
        "the requests say `Connection: close`, and a probe measures what a connection costs that is kept open{help}",
        help = Advice("leave that field out; 'anywire load' sends one request a connection with it")
    )]
    Closes,
    /// The process cannot be watched: it is not there, or this user may not look (the caller's fault, or the system's).
    #[error("process {pid} cannot be watched")]
    Process {
        /// The number that was given.
        pid: i32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No connection could be made (the peer's fault, or the wire's).
    #[error(transparent)]
    Dial(DialError),
    /// The first request had no good answer, twice (the peer's fault).
    #[error("the first request had no answer that could be measured: {}{help}", .0.found, help = Advice(.0.help.as_deref().unwrap_or("'anywire get -v URL' shows what comes, and the server's log may say why")))]
    NoAnswer(
        /// What came instead.
        Message,
    ),
    /// The loop ended while the probe was on it.
    #[error("the probe was lost with its loop ({0}){help}", help = Advice("keep the loops until the probe has its outcome"))]
    LoopLost(
        /// What became of the task.
        #[source]
        TaskError,
    ),
    /// A blocking call was made on an event loop (the caller's fault): it would wait for itself.
    #[error("waiting for a probe on an event loop would block it for ever{help}", help = Advice("call it from a thread of its own"))]
    OnLoop,
}
