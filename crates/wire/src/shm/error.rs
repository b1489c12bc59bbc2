//! Why a connection over shared memory failed by the fault of its peer.

use std::io;

use anywire_advice::{Advice, Message};
use anywire_sys::shm::{Broken, OpenError};

/// Why a connection over shared memory failed. It is inside the [`io::Error`] that a handshake, a read or a write gives.
///
/// ```
/// use anywire_wire::shm::ShmError;
///
/// let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// assert!(ShmError::of(&error).is_none());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// The peer's first message is not one of this wire. It is another program, or broken.
    #[error("the peer does not speak this wire's set-up")]
    NotShm,
    /// The peer speaks another version of the set-up. The older end has to be renewed.
    #[error("the peer speaks version {theirs} of the set-up, and this end version {ours}")]
    Version {
        /// Its version.
        theirs: u32,
        /// That of this end.
        ours: u32,
    },
    /// The rings that the dialling end asks for are larger than the listening end accepts, smaller than a page, or no power of
    /// two. Change the option `ring` of either address.
    #[error("rings of {asked} bytes are asked for, and only powers of two from 4096 to {max} are accepted")]
    RingSize {
        /// The size in the dialling end's hello.
        asked: u64,
        /// The largest that is accepted.
        max: u64,
    },
    /// The listening end has not passed exactly one descriptor. Or this process could not take it, because it has as many
    /// open as it may.
    #[error(
        "{found} descriptors came with the set-up in place of one{help}",
        help = Advice("is this process out of descriptors?")
    )]
    Descriptors {
        /// How many came.
        found: usize,
    },
    /// The memory that the listening end has passed cannot be used.
    #[error(transparent)]
    Memory(#[from] OpenError),
    /// The listening end has refused the set-up. It logs the whole reason, at debug level.
    #[error("the peer refused the set-up: {}", refusal(*code))]
    Refused {
        /// The reason: 1 malformed, 2 another version, 3 rings of this size, 4 no memory or descriptor left.
        code: u32,
    },
    /// The peer closed the socket during the set-up. A listening end does so with users that it does not allow.
    #[error(
        "the peer closed the connection during the set-up{help}",
        help = Advice("is this user allowed there?")
    )]
    Left,
    /// A position that the peer wrote into a ring is impossible. It is broken or hostile.
    #[error(transparent)]
    Position(#[from] Broken),
}

impl ShmError {
    /// The reason inside an error of a connection, if it is one of these.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

fn refusal(code: u32) -> Message {
    let (found, help) = match code {
        1 => ("it takes this end for another program", "see that both ends use this wire"),
        2 => ("it speaks another version of it", "renew the older end"),
        3 => (
            "it does not accept rings of this size",
            "ask for smaller ones by the option `ring`, or let it accept larger ones",
        ),
        4 => ("its system gives it no memory or no descriptor", "raise its limits"),
        _ => ("for a reason that this version does not know", "its log says which"),
    };
    Message::new(found).with_help(help)
}

impl From<ShmError> for io::Error {
    fn from(error: ShmError) -> Self {
        let kind = match error {
            ShmError::Left => io::ErrorKind::UnexpectedEof,
            ShmError::Refused { .. } => io::ErrorKind::ConnectionRefused,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
