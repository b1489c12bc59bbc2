//! Errors of a load run: why it could not start, and the kinds of failures that are counted while it runs.

use std::collections::BTreeMap;
use std::error::Error;
use std::{fmt, io};

use anywire_advice::{Advice, Message};
use anywire_http::h1::encode::EncodeError;
use anywire_http::url::UrlError;
use anywire_loops::TaskError;
use anywire_wire::{Address, AddressError, DialError};
use serde::{Deserialize, Serialize};

use crate::schedule::{RATE_MAX, RATE_MIN};
use crate::script::ScriptError;

/// Why a run could not start, or gave no result.
///
/// Faults between the generator and its peer are not in here. They are counted by kind in
/// [`Totals::errors`](crate::Totals), and the run goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The URL is not one that can be loaded (the caller's fault).
    #[error("cannot load {url:?}")]
    Url {
        /// The text that was given, without a password.
        url: String,
        /// What is wrong with it.
        #[source]
        source: UrlError,
    },
    /// The URL's host and port make no address (the caller's fault).
    #[error("the URL {url:?} names no address that can be dialled")]
    Address {
        /// The text that was given.
        url: String,
        /// Why it is no address.
        #[source]
        source: AddressError,
    },
    /// The URL's scheme is `https`, and this build has no TLS around the wire of the address (the caller's fault).
    #[error(
        "the URL's scheme is https, and this build speaks no TLS over {address}{help}",
        help = Advice(if cfg!(feature = "tls") { "name another wire" } else { "build it with the feature `tls`" })
    )]
    NoTls {
        /// The address.
        address: Address,
    },
    /// The plan asks for more than [`Limits`](crate::Limits) allows, or for nothing (the caller's fault).
    #[error(
        "the plan asks for {asked} {what}, allowed is {least} to {most}{help}",
        help = Advice("change the plan or its limits")
    )]
    Limit {
        /// The quantity, in words.
        what: &'static str,
        /// How much of it.
        asked: u64,
        /// The least that makes sense.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// The plan asks for a rate that no schedule has (the caller's fault).
    #[error(
        "the plan asks for {rate} requests a second, possible is {RATE_MIN} to {RATE_MAX}{help}",
        help = Advice("name a rate such as 1000")
    )]
    Rate {
        /// The rate, which may be no number (NaN).
        rate: f64,
    },
    /// The plan has a deadline and no schedule (the caller's fault): in the closed mode no request is late.
    #[error("the plan has a deadline and no rate, so that no request is ever late{help}", help = Advice("name a rate"))]
    NeedsRate,
    /// The first rate of a search is not between the lowest and the highest (the caller's fault).
    #[error(
        "the search begins at {first} requests a second, which is not between {lowest} and {highest}{help}",
        help = Advice("name rates that rise")
    )]
    SearchRange {
        /// The rate to try first.
        first: f64,
        /// The lowest rate to try.
        lowest: f64,
        /// The highest rate to try.
        highest: f64,
    },
    /// A search is to be as precise as none is, or not at all (the caller's fault).
    #[error(
        "the search asks for a precision of {asked}, possible is 0.001 to 1{help}",
        help = Advice("name a share such as 0.05")
    )]
    Precision {
        /// The share, which may be no number (NaN).
        asked: f64,
    },
    /// The plan's rate changes with time, and its end is a number of requests (the caller's fault).
    #[error(
        "the plan's rate changes with time, and its requests are counted{help}",
        help = Advice("say how long to measure instead")
    )]
    NeedsDuration,
    /// The plan's rate changes with time, and servers are compared at one rate (the caller's fault).
    #[error(
        "the plan's rate changes with time, and servers are compared at one rate{help}",
        help = Advice("name one rate")
    )]
    NeedsOneRate,
    /// The plan's host or target cannot be sent in a request (the caller's fault).
    #[error("the plan's request cannot be written")]
    Request {
        /// What is wrong with it.
        #[source]
        source: EncodeError,
    },
    /// The plan's script cannot be sent (the caller's fault).
    #[error("the plan's requests cannot be sent")]
    Script {
        /// What is wrong with it.
        #[source]
        source: Box<ScriptError>,
    },
    /// The method makes something else than requests and answers of the connection (the caller's fault).
    #[error(
        "loading with the method {method} is not possible: its answer ends HTTP on the connection{help}",
        help = Advice("use GET")
    )]
    Method {
        /// The method.
        method: String,
    },
    /// A loop ended while the run was on it (the caller shut the loops down, or a task panicked).
    #[error(
        "the run was lost with its loop ({source}){help}",
        help = Advice("keep the loops until the run has its outcome")
    )]
    LoopLost {
        /// What became of the task.
        #[source]
        source: TaskError,
    },
    /// A blocking call was made on an event loop (the caller's fault): it would wait for itself.
    #[error(
        "waiting for a load run on an event loop would block it for ever{help}",
        help = Advice("await `Run::outcome` instead")
    )]
    OnLoop,
}

/// The kinds of faults of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// This process has no file descriptor left for a connection: a limit of the generator, not of the server.
    Descriptors,
    /// This machine has no local port left for a connection: a limit of the generator, not of the server.
    Ports,
    /// No connection: refused, unreachable, no such name or file, not in time.
    Connect,
    /// The connection stood, the TLS handshake failed.
    Tls,
    /// Sending a request failed.
    Write,
    /// Receiving failed, or ended inside a response.
    Read,
    /// The bytes are no HTTP answer, or one without a request. Over HTTP/2 that may cost the response's stream alone.
    Parse,
    /// No response within the plan's timeout; its age stands in the histogram, so that the tail shows it.
    Timeout,
    /// A response with a status that the plan does not expect (400 and above, unless it names one).
    Status,
    /// A response that is not as the plan expects in another way: a header field, its body, or a value that is carried on.
    Check,
    /// The peer closed between two responses while requests were unanswered.
    Close,
    /// HTTP/2: the peer reset a stream.
    Reset,
    /// HTTP/2: the peer refused a stream before it processed anything of it.
    Refused,
    /// HTTP/2: the peer ended the connection for an error (`GOAWAY`); without an error that is no fault.
    GoAway,
}

impl ErrorKind {
    /// All kinds, in the order of their declaration, in which an exchange can meet them.
    pub const ALL: [Self; 14] = [
        Self::Descriptors,
        Self::Ports,
        Self::Connect,
        Self::Tls,
        Self::Write,
        Self::Read,
        Self::Parse,
        Self::Timeout,
        Self::Status,
        Self::Check,
        Self::Close,
        Self::Reset,
        Self::Refused,
        Self::GoAway,
    ];

    /// Whether it is why a connection did not come about.
    pub(crate) fn is_of_dialling(self) -> bool {
        matches!(self, Self::Descriptors | Self::Ports | Self::Connect | Self::Tls)
    }
}

/// The name in JSON and tables.
impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// How many errors there were of each kind; in JSON a map with all kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ErrorKind, u64>", into = "BTreeMap<ErrorKind, u64>")]
pub struct ErrorCounts([u64; ErrorKind::ALL.len()]);

impl ErrorCounts {
    /// How many of one kind.
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.0[kind as usize]
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |all, count| all.saturating_add(*count))
    }

    /// The kinds that occurred, as `3 connect, 1 close`; `none` if there were none.
    pub fn line(&self) -> String {
        let kinds = ErrorKind::ALL.iter().filter(|&&kind| self.of(kind) > 0);
        let parts: Vec<String> = kinds.map(|&kind| format!("{} {kind}", self.of(kind))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    pub(crate) fn count(&mut self, kind: ErrorKind) {
        self.0[kind as usize] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, others)| *own = own.saturating_add(others));
    }

    /// What was added since an earlier look.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut added = *self;
        added.0.iter_mut().zip(earlier.0).for_each(|(own, before)| *own = own.saturating_sub(before));
        added
    }
}

impl From<BTreeMap<ErrorKind, u64>> for ErrorCounts {
    fn from(counts: BTreeMap<ErrorKind, u64>) -> Self {
        Self(ErrorKind::ALL.map(|kind| counts.get(&kind).copied().unwrap_or_default()))
    }
}

impl From<ErrorCounts> for BTreeMap<ErrorKind, u64> {
    fn from(counts: ErrorCounts) -> Self {
        ErrorKind::ALL.into_iter().zip(counts.0).collect()
    }
}

/// The first error of a kind in words: counts alone do not say what to repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSample {
    /// Its kind.
    pub kind: ErrorKind,
    /// The operation, and how it failed.
    pub message: String,
    /// What would help, if the error says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl ErrorSample {
    pub(crate) fn new(kind: ErrorKind, message: Message) -> Self {
        Self { kind, message: message.found, help: message.help }
    }

    /// Without its kind.
    pub(crate) fn message(&self) -> Message {
        Message { found: self.message.clone(), help: self.help.clone() }
    }
}

/// `KIND: MESSAGE; HELP`
impl fmt::Display for ErrorSample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind, self.message())
    }
}

/// Whether a connection was not made for want of a descriptor or a port, or for something on the way to the server.
pub(crate) fn dial_kind(error: &DialError) -> ErrorKind {
    // The resolver needs descriptors too, and its error passes on what the system said.
    let code = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    match error {
        DialError::Descriptors { .. } => ErrorKind::Descriptors,
        DialError::NoLocalPort { .. } => ErrorKind::Ports,
        _ if matches!(code, Some(EMFILE | ENFILE)) => ErrorKind::Descriptors,
        DialError::Handshake { .. } => ErrorKind::Tls,
        _ => ErrorKind::Connect,
    }
}

/// An answer is larger than a limit allows. The error's own advice names what a programmer may raise.
pub(crate) fn over_limit(error: &dyn Error) -> Message {
    Message::new(format!("an answer is over a limit of this run: {}", Message::read(error).found))
        .with_help("raise the limit, or let the server send less")
}

/// Why there is no connection, in words that name the address.
pub(crate) fn dial_message(address: &Address, error: &DialError) -> Message {
    if dial_kind(error) == ErrorKind::Descriptors {
        return Message::new(format!("cannot reach {address}: this process is out of file descriptors"))
            .with_help(MORE_DESCRIPTORS);
    }
    // Most dial errors name the address themselves.
    let message = Message::read(error);
    if message.found.contains(address.location()) {
        return message;
    }
    Message { found: format!("{address}: {}", message.found), ..message }
}

/// What helps against a lack of descriptors.
pub(crate) const MORE_DESCRIPTORS: &str =
    "raise its limit ('ulimit -n' shows it), or ask for fewer connections";

/// What Linux says when the process, or the system, has no descriptor left.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_descriptors_is_known_wherever_it_happens() {
        let address: Address = "tcp:example.test:80".parse().unwrap();
        let resolve = |cause| DialError::Resolve { address: address.clone(), cause };
        let refused = DialError::Refused { address: address.clone() };
        for (error, kind) in [
            (DialError::Descriptors { address: address.clone() }, ErrorKind::Descriptors),
            (resolve(io::Error::from_raw_os_error(EMFILE)), ErrorKind::Descriptors),
            (resolve(io::Error::from_raw_os_error(ENFILE)), ErrorKind::Descriptors),
            (resolve(io::Error::other("no such name")), ErrorKind::Connect),
            (refused, ErrorKind::Connect),
            (DialError::NoLocalPort { address: address.clone() }, ErrorKind::Ports),
            (
                DialError::Handshake { address: address.clone(), cause: io::ErrorKind::TimedOut.into() },
                ErrorKind::Tls,
            ),
        ] {
            let message = dial_message(&address, &error);
            assert_eq!(dial_kind(&error), kind, "{message}");
            assert_eq!(
                message.found.contains("out of file descriptors"),
                kind == ErrorKind::Descriptors,
                "{message}"
            );
            assert!(message.found.contains("example.test:80"), "{message}");
        }
    }

    #[test]
    fn each_kind_has_its_own_count() {
        let mut counts = ErrorCounts::default();
        for (times, kind) in ErrorKind::ALL.into_iter().enumerate() {
            for _ in 0..=times {
                counts.count(kind);
            }
        }
        for (times, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(counts.of(kind), times as u64 + 1, "{kind}");
        }
        assert_eq!(counts.total(), 105);
        let mut twice = counts;
        twice.merge(&counts);
        assert_eq!(twice.total(), 210);
    }

    #[test]
    fn the_line_names_only_what_occurred() {
        let mut counts = ErrorCounts::default();
        assert_eq!(counts.line(), "none");
        counts.count(ErrorKind::Close);
        counts.count(ErrorKind::Connect);
        assert_eq!(counts.line(), "1 connect, 1 close");
    }

    #[test]
    fn json_names_are_the_display_names() {
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }
}
