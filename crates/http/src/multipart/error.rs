//! What is wrong with a multipart body.

use anywire_advice::Advice;

use crate::Fault;

/// A body that is no `multipart/form-data`, or more of it than its [`Limits`](super::Limits) allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The content type names no boundary, or one that is no text of 1 to 70 bytes (RFC 2046 section 5.1.1). Fault of the peer.
    #[error(
        "the content type has no boundary{help}",
        help = Advice("name one of 1 to 70 characters, such as multipart/form-data; boundary=x")
    )]
    Boundary,
    /// The body ends before its last delimiter. Fault of the peer.
    #[error("the form ends before its last delimiter")]
    Incomplete,
    /// A delimiter is not a line of its own. Fault of the peer.
    #[error("bytes stand behind a delimiter of the form")]
    Delimiter,
    /// The head of a part is malformed. Fault of the peer.
    #[error("the head of part {part} is malformed")]
    Head {
        /// The number of the part, from 1 on.
        part: usize,
    },
    /// A part does not say which field it is. Fault of the peer.
    #[error(
        "part {part} has no name{help}",
        help = Advice("send a field content-disposition: form-data; name=\"..\" in UTF-8")
    )]
    Name {
        /// The number of the part, from 1 on.
        part: usize,
    },
    /// There are more parts than [`Limits::parts`](super::Limits::parts). Fault: limit.
    #[error("the form has more than {limit} parts{help}", help = Advice("send fewer"))]
    TooManyParts {
        /// The limit that was reached.
        limit: usize,
    },
    /// The head of a part is larger than [`Limits::head_bytes`](super::Limits::head_bytes). Fault: limit.
    #[error("the head of a part is larger than {limit_bytes} bytes{help}", help = Advice("send shorter names"))]
    HeadTooLarge {
        /// The limit that was reached.
        limit_bytes: usize,
    },
    /// A part is larger than [`Limits::part_bytes`](super::Limits::part_bytes), or than its reader allows. Fault: limit.
    #[error("a part of the form is larger than {limit_bytes} bytes{help}", help = Advice("send less"))]
    PartTooLarge {
        /// The limit that was reached.
        limit_bytes: u64,
    },
    /// The body is larger than [`Limits::total_bytes`](super::Limits::total_bytes). Fault: limit.
    #[error("the form is larger than {limit_bytes} bytes{help}", help = Advice("send less"))]
    TooLarge {
        /// The limit that was reached.
        limit_bytes: u64,
    },
}

impl Error {
    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Boundary | Self::Incomplete | Self::Delimiter | Self::Head { .. } | Self::Name { .. } => {
                Fault::Peer
            }
            Self::TooManyParts { .. }
            | Self::HeadTooLarge { .. }
            | Self::PartTooLarge { .. }
            | Self::TooLarge { .. } => Fault::Limit,
        }
    }
}
