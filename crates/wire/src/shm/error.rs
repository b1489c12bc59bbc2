//! Why a connection over shared memory failed by the fault of its peer.

use std::io;

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
        /// What was asked for.
        asked: u64,
        /// The largest that is accepted.
        max: u64,
    },
    /// The listening end has not passed exactly one descriptor. Or this process could not take it, because it has as many
    /// open as it may.
    #[error("{found} descriptors came with the set-up in place of one; is this process out of descriptors?")]
    Descriptors {
        /// How many came.
        found: usize,
    },
    /// The memory that the listening end has passed cannot be used.
    #[error(transparent)]
    Memory(#[from] OpenError),
    /// The listening end has refused the set-up, for a reason of its own. Its log says which.
    #[error("the peer refused the set-up (code {code}); its log says why")]
    Refused {
        /// What it gave as the reason.
        code: u32,
    },
    /// The peer closed the socket during the set-up. A listening end does so with users that it does not allow.
    #[error("the peer closed the connection during the set-up; is this user allowed there?")]
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
