//! How much a multipart body may be.

/// Limits of one body of the type `multipart/form-data`. Reaching one is an [`Error`](super::Error) whose fault is a limit.
///
/// ```
/// use anywire_http::multipart::Limits;
///
/// let limits = Limits { part_bytes: 1 << 20, ..Limits::default() };
/// assert_eq!(limits.parts, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Parts (1,000), as many as a form of another type has fields.
    pub parts: usize,
    /// Bytes of the head of a part, its empty line included (8 KiB). So much is held until the head is complete.
    pub head_bytes: usize,
    /// Bytes of the content of one part (64 MiB). None of it is held.
    pub part_bytes: u64,
    /// Bytes of the whole body, with heads and delimiters (256 MiB).
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { parts: 1000, head_bytes: 8 * 1024, part_bytes: 64 << 20, total_bytes: 256 << 20 }
    }
}
