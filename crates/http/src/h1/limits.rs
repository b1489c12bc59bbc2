//! How much of a message the decoders accept before they refuse it.

/// Limits of a decoder. Reaching one is a [`super::DecodeError`] whose [`super::DecodeError::fault`] is
/// `Limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, start line and empty line included. Default 16 KiB: twice what browsers send with
    /// large cookies, and what one [`crate::Buffer`] holds without growing.
    pub head_bytes: usize,
    /// Bytes of the start line. Default 8 KiB: RFC 9112 section 3 asks for at least 8,000.
    pub start_line_bytes: usize,
    /// Field lines of a head. Default 100, as most servers have it; above 100 a parse needs an allocation,
    /// and more than 10,000 count as 10,000.
    pub headers: usize,
    /// Bytes of the extensions of one chunk. Default 256: nobody sends them but to waste work.
    pub chunk_extension_bytes: usize,
    /// Bytes of all chunk extensions of a message. Default 16 KiB.
    pub chunk_extensions_bytes: usize,
    /// Bytes of the trailer section. Default 8 KiB.
    pub trailer_bytes: usize,
    /// Field lines of the trailer section. Default 32.
    pub trailers: usize,
}

impl Limits {
    /// More fields than this are never made room for, whatever a configuration says: 320 KB a parse.
    pub(super) const FIELDS_MAX: usize = 10_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 16 * 1024,
            start_line_bytes: 8 * 1024,
            headers: 100,
            chunk_extension_bytes: 256,
            chunk_extensions_bytes: 16 * 1024,
            trailer_bytes: 8 * 1024,
            trailers: 32,
        }
    }
}
