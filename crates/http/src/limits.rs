//! How much of a head a decoder accepts.

use serde::{Deserialize, Serialize};

/// Limits of a head and of the trailers behind its body, in any version of HTTP.
///
/// Reaching one is an error whose fault is [`crate::Fault::Limit`]. A server answers 414 or 431.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadLimits {
    /// Bytes of a head, start line and empty line included; in HTTP/2 of names and values, and 32 more for each field (RFC
    /// 9113 section 6.5.2). Default 16 KiB: twice what browsers send with large cookies, and what one [`crate::Buffer`]
    /// holds without growing.
    pub bytes: usize,
    /// Bytes of the request target; in HTTP/1 of the whole start line, in HTTP/2 of `:path` and of `:authority` each. Default
    /// 8 KiB: RFC 9112 section 3 asks for at least 8,000.
    pub target_bytes: usize,
    /// Fields of a head, and in HTTP/2 the pieces of a cookie are one. Default 100, as in most servers. Above 100 each parse
    /// of HTTP/1 allocates, and more than 10,000 count as 10,000.
    pub fields: usize,
    /// Bytes of the trailer section, counted as those of a head. Default 8 KiB.
    pub trailer_bytes: usize,
    /// Fields of the trailer section. Default 32.
    pub trailer_fields: usize,
}

impl HeadLimits {
    /// More fields than this are never made room for, whatever a configuration says: 320 KB a parse of HTTP/1.
    pub(crate) const FIELDS_MAX: usize = 10_000;
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024,
            target_bytes: 8 * 1024,
            fields: 100,
            trailer_bytes: 8 * 1024,
            trailer_fields: 32,
        }
    }
}
