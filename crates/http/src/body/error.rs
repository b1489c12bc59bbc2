//! Why a body broke off.

use anywire_advice::{Advice, OrRaise};

use crate::Fault;
use crate::h1::DecodeError;

/// A body that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Its sender went away without finishing it. Fault of the wire.
    #[error(
        "reading a body: its sender went away before the end{help}",
        help = Advice("the connection closed, or a task was cancelled")
    )]
    Incomplete,
    /// It is larger than its reader allows. Fault: limit.
    #[error(
        "reading a body: it is larger than {limit_bytes} bytes{help}",
        help = Advice(format_args!("send less{}", OrRaise("the limit")))
    )]
    TooLarge {
        /// The limit that was reached.
        limit_bytes: usize,
    },
    /// The peer sent a malformed body. Fault of the peer.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It was to be read as text, and is not UTF-8. Fault of the peer.
    #[error("the body is not UTF-8")]
    Text(#[source] std::str::Utf8Error),
    /// The connection broke. Fault of the wire.
    #[error(
        "reading a body: the connection broke{help}",
        help = Advice("try again if the request may be repeated")
    )]
    Wire(#[source] std::io::Error),
    /// The peer sent nothing for longer than the deadline. Fault of the peer.
    #[error(
        "reading a body: the peer sent nothing until the deadline{help}",
        help = Advice(format_args!("send faster{}", OrRaise("the deadline")))
    )]
    Timeout,
    /// The code or the file that it comes from failed. Fault of the caller.
    #[error("reading a body: its source failed")]
    Failed(#[source] BoxError),
}

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A source of a body that fails with an I/O error, such as a file. An error of the connection is [`BodyError::Wire`].
impl From<std::io::Error> for BodyError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

impl BodyError {
    /// Wraps the reason why the source of a body failed. A reason that is a `BodyError` is returned unchanged, with its
    /// fault.
    pub fn failed(reason: impl Into<BoxError>) -> Self {
        match reason.into().downcast::<Self>() {
            Ok(error) => *error,
            Err(reason) => Self::Failed(reason),
        }
    }

    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Incomplete | Self::Wire(_) => Fault::Wire,
            Self::TooLarge { .. } => Fault::Limit,
            Self::Malformed(error) => error.fault(),
            Self::Text(_) | Self::Timeout => Fault::Peer,
            Self::Failed(_) => Fault::Caller,
        }
    }

    /// Whether a limit on the size was reached (a server answers 413).
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    /// Whether a deadline passed (a server answers 408).
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }
}
