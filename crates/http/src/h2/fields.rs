//! The fields of a message on their way out: which of them leave, and how large they are.

use super::hpack::{ENTRY_OVERHEAD_BYTES, Encoder};
use crate::Headers;
use crate::headers::{Field, Kind};

/// The fields of a head or of trailers, as a caller has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'h> {
    pub(super) headers: &'h Headers,
    /// `Host` leaves, too. In a request `:authority` takes its place.
    pub(super) has_host: bool,
    /// What `Content-Length` says, whatever the caller's says.
    pub(super) length: Option<u64>,
}

impl Fields<'_> {
    /// Appends the caller's fields, except those that the engine writes and those that concern one connection.
    #[inline]
    pub(super) fn encode(self, encoder: &mut Encoder, out: &mut Vec<u8>) {
        for (name, value, field) in self.headers.lines().iter() {
            if !self.leaves(value, field) {
                continue;
            }
            match field.is_sensitive {
                false => encoder.field(out, name, value),
                true => Encoder::sensitive(out, name, value),
            }
        }
        if let Some(length) = self.length {
            encoder.field(out, CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
        }
    }

    /// The size of these fields, with others that count so many bytes, if it is above the limit (RFC 9113 section 6.5.2).
    #[inline]
    pub(super) fn above(self, limit: usize, own_bytes: usize) -> Option<usize> {
        let lines = self.headers.lines();
        // At most, so that few messages are counted field by field.
        let bytes = lines.bytes.len() + lines.len() * (ENTRY_OVERHEAD_BYTES - LINE_OVERHEAD_BYTES);
        if bytes + own_bytes + LENGTH_BYTES_MAX <= limit {
            return None;
        }
        Some(self.bytes() + own_bytes).filter(|bytes| *bytes > limit)
    }

    #[cold]
    fn bytes(self) -> usize {
        let counts = |name: &[u8], value_len: usize| name.len() + value_len + ENTRY_OVERHEAD_BYTES;
        let lines = self.headers.lines();
        let leaving = lines.iter().filter(|(_, value, field)| self.leaves(value, field));
        let length =
            self.length.map_or(0, |length| counts(CONTENT_LENGTH, itoa::Buffer::new().format(length).len()));
        leaving.map(|(name, value, _)| counts(name, value.len())).sum::<usize>() + length
    }

    #[inline]
    fn leaves(self, value: &[u8], field: &Field) -> bool {
        match field.kind {
            Kind::Connection
            | Kind::KeepAlive
            | Kind::ProxyConnection
            | Kind::TransferEncoding
            | Kind::Upgrade
            | Kind::ContentLength => false,
            Kind::Host => self.has_host,
            Kind::Te => value.eq_ignore_ascii_case(b"trailers"),
            _ => true,
        }
    }
}

const CONTENT_LENGTH: &[u8] = b"content-length";

/// A length has at most twenty digits.
const LENGTH_BYTES_MAX: usize = CONTENT_LENGTH.len() + 20 + ENTRY_OVERHEAD_BYTES;

/// What a line has beside its name and its value.
const LINE_OVERHEAD_BYTES: usize = b": \r\n".len();
