//! Who is at fault for an error.

use std::fmt;

/// Who is at fault for an error, so that a program can decide whom to tell and whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The other end sent what the RFCs do not allow.
    Peer,
    /// Our own program asked for what cannot be done.
    Caller,
    /// A limit was reached that a configuration may raise.
    Limit,
    /// The connection broke.
    Wire,
}

/// For people: `the peer`, `the caller`, `a limit`, `the wire`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Peer => "the peer",
            Self::Caller => "the caller",
            Self::Limit => "a limit",
            Self::Wire => "the wire",
        })
    }
}
