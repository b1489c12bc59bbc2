//! HPACK: header fields as HTTP/2 sends them (RFC 7541).
//!
//! The decoder appends each field to a block of lines `name: value\r\n`, as [`Headers`](crate::Headers) keep them, so that
//! a field is copied once. The encoder reads such lines.

#[cfg(fuzzing)]
mod alone;
mod decode;
mod encode;
mod huffman;
mod table;

#[cfg(fuzzing)]
pub use self::alone::{Hpack, Pair};
pub(super) use self::decode::{Block, Decoder, Line};
pub(super) use self::encode::{DEFAULT_TABLE_BYTES, Encoder};
pub(super) use self::table::{ENTRY_OVERHEAD_BYTES, Entry};

/// Why a header block was refused. The connection has to end with `COMPRESSION_ERROR`, because the tables of both ends no
/// longer agree (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HpackError {
    /// The block ends within a field.
    #[error("it ends within a field")]
    CutShort,
    /// An integer is larger than any that makes sense.
    #[error("an integer is too large")]
    Integer,
    /// No table has an entry of this index.
    #[error("no entry has the index {0}")]
    Index(usize),
    /// A string is no Huffman code.
    #[error("a string is not encoded as the Huffman code says")]
    Huffman,
    /// A change of the table's size stands behind a field, or is larger than what was allowed.
    #[error("a change of the table's size is larger than allowed, or not at the start")]
    TableSize,
}
