//! How much of a message the decoders accept before they refuse it.

use crate::HeadLimits;

/// Limits of a decoder. Reaching one is a [`super::DecodeError`] whose [`super::DecodeError::fault`] is
/// [`crate::Fault::Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of heads and trailers, which all versions have.
    pub head: HeadLimits,
    /// Bytes of the extensions of one chunk. Default 256: they have no use but to waste work.
    pub chunk_extension_bytes: usize,
    /// Bytes of all chunk extensions of a message. Default 16 KiB.
    pub chunk_extensions_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        HeadLimits::default().into()
    }
}

/// These limits of heads, and the defaults for the rest.
impl From<HeadLimits> for Limits {
    fn from(head: HeadLimits) -> Self {
        Self { head, chunk_extension_bytes: 256, chunk_extensions_bytes: 16 * 1024 }
    }
}
