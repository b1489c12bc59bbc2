//! Lines into header blocks.

use http::StatusCode;

use super::huffman;
use super::table::{Entry, Table, static_index, static_pair};
use crate::headers::Kind;

/// The encoder of one direction of a connection.
///
/// Fields that most messages of a connection repeat go into the dynamic table, and are one byte from then on. All others
/// are literals, which cost no more than a copy.
#[derive(Debug)]
pub(in crate::h2) struct Encoder {
    table: Table,
    /// The sizes to announce at the start of the next block: the smallest since the last one, and the present one.
    resized: Option<(usize, usize)>,
}

/// What the encoder does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    /// Into the dynamic table: it comes again.
    Repeated,
    /// A literal: it differs from message to message.
    Once,
    /// A literal that no proxy may put into a table: a secret (RFC 7541 section 7.1.3).
    Never,
}

impl Encoder {
    /// An encoder whose table has the size that both ends start with (RFC 9113 section 6.5.2).
    pub(in crate::h2) fn new() -> Self {
        Self { table: Table::new(DEFAULT_TABLE_BYTES), resized: None }
    }

    /// The peer allows a table of this size. Ours is at most the default one.
    pub(in crate::h2) fn set_limit(&mut self, limit: usize) {
        let limit = limit.min(DEFAULT_TABLE_BYTES);
        if limit != self.table.limit() {
            let smallest = self.resized.map_or(limit, |(smallest, _)| smallest.min(limit));
            self.resized = Some((smallest, limit));
            self.table.set_limit(limit);
        }
    }

    /// To be called before the first field of each block.
    #[inline]
    pub(in crate::h2) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, now)) = self.resized.take() {
            if smallest < now {
                integer(out, 0b0010_0000, 5, smallest);
            }
            integer(out, 0b0010_0000, 5, now);
        }
    }

    /// Appends a field, whose name may be in any case.
    #[inline]
    pub(in crate::h2) fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        if !name.iter().any(u8::is_ascii_uppercase) {
            self.lower_field(out, name, value);
        } else if name.len() <= LOWER_BYTES_MAX {
            let mut lower = [0; LOWER_BYTES_MAX];
            let lower = &mut lower[..name.len()];
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            self.lower_field(out, lower, value);
        } else {
            self.lower_field(out, &name.to_ascii_lowercase(), value);
        }
    }

    /// Appends a field whose value is a secret, whatever its name is.
    #[cold]
    pub(in crate::h2) fn sensitive(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let name = name.to_ascii_lowercase();
        literal(out, NEVER_INDEXED, static_index(&name), &name, value);
    }

    /// Appends a pseudo-header field.
    #[inline]
    pub(in crate::h2) fn pseudo(&mut self, out: &mut Vec<u8>, name: &'static [u8], value: &[u8]) {
        // What nearly all requests have. The search took 120 instructions each.
        let usual = match (name, value) {
            (b":method", b"GET") => Some(2),
            (b":method", b"POST") => Some(3),
            (b":path", b"/") => Some(4),
            (b":scheme", b"http") => Some(6),
            (b":scheme", b"https") => Some(7),
            (b":path" | b":authority", _) => None,
            _ => static_pair(name, value),
        };
        match usual {
            Some(index) => integer(out, 0b1000_0000, 7, index),
            None => self.lower_field(out, name, value),
        }
    }

    /// Appends the status of a response.
    #[inline]
    pub(in crate::h2) fn status(&mut self, out: &mut Vec<u8>, status: StatusCode) {
        if status == StatusCode::OK {
            out.push(STATUS_200);
        } else {
            self.pseudo(out, b":status", status.as_str().as_bytes());
        }
    }

    #[inline]
    fn lower_field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let index = static_index(name);
        match Indexing::of(index) {
            Indexing::Repeated => self.repeated(out, index, name, value),
            Indexing::Once => literal(out, 0, index, name, value),
            Indexing::Never => literal(out, NEVER_INDEXED, index, name, value),
        }
    }

    fn repeated(&mut self, out: &mut Vec<u8>, index: usize, name: &[u8], value: &[u8]) {
        if let Some(index) = self.table.find(name, value) {
            return integer(out, 0b1000_0000, 7, index);
        }
        // It must not push out everything else.
        if name.len() + value.len() > self.table.limit() / 4 {
            return literal(out, 0, index, name, value);
        }
        integer_name(out, 0b0100_0000, 6, index, name);
        // Sent once, so that its coding is worth the work.
        let length = huffman::encoded_len(value);
        if length < value.len() {
            integer(out, 0b1000_0000, 7, length);
            huffman::encode(value, out);
        } else {
            string(out, value);
        }
        self.table.insert(Entry { name, value, kind: Kind::of(name), is_valid: true });
    }
}

impl Indexing {
    /// By the index of the name in the static table.
    #[inline]
    const fn of(index: usize) -> Self {
        match index {
            // :authority, accept-encoding, accept-language, accept, access-control-allow-origin, cache-control,
            // content-type, server, strict-transport-security, user-agent, vary.
            1 | 16 | 17 | 19 | 20 | 24 | 31 | 54 | 56 | 58 | 59 => Self::Repeated,
            // authorization, cookie, proxy-authorization, set-cookie.
            23 | 32 | 49 | 55 => Self::Never,
            _ => Self::Once,
        }
    }
}

/// Appends a literal that is not put into a table.
#[inline]
fn literal(out: &mut Vec<u8>, pattern: u8, index: usize, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + LITERAL_OVERHEAD_BYTES);
    integer_name(out, pattern, 4, index, name);
    string(out, value);
}

/// Appends a name: its index in the static table, or itself if that is 0.
#[inline]
fn integer_name(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, index: usize, name: &[u8]) {
    integer(out, pattern, prefix_bits, index);
    if index == 0 {
        string(out, name);
    }
}

/// A string without Huffman coding.
#[inline]
fn string(out: &mut Vec<u8>, text: &[u8]) {
    integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// RFC 7541 section 5.1.
#[inline]
fn integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let mask = (1_usize << prefix_bits) - 1;
    if value < mask {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The size of the table before a peer says otherwise (RFC 9113 section 6.5.2).
pub(in crate::h2) const DEFAULT_TABLE_BYTES: usize = 4096;

/// Longer names are rare, and made lower case on the heap.
const LOWER_BYTES_MAX: usize = 64;

/// The first bits of a literal that must not be put into any table (RFC 7541 section 6.2.3).
const NEVER_INDEXED: u8 = 0b0001_0000;

/// `:status 200`, an entry of the static table.
const STATUS_200: u8 = 0b1000_0000 | 8;

/// A first byte and two lengths.
const LITERAL_OVERHEAD_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decode::{Block, Decoder};
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<u8> {
        let (mut block, mut out) = (Block::new(block), Vec::new());
        while decoder.next(&mut block, &mut out).expect("valid").is_some() {}
        out
    }

    #[test]
    fn a_repeated_field_is_one_byte_the_second_time() {
        let (mut encoder, mut out) = (Encoder::new(), Vec::new());
        encoder.field(&mut out, b"User-Agent", b"anywire");
        let first = out.len();
        encoder.field(&mut out, b"user-agent", b"anywire");
        assert_eq!((first > 5, &out[first..]), (true, &[0x80 | 62][..]));
        let mut decoder = Decoder::new(DEFAULT_TABLE_BYTES);
        assert_eq!(decode(&mut decoder, &out), b"user-agent: anywire\r\nuser-agent: anywire\r\n");
    }

    #[test]
    fn a_smaller_table_is_announced_before_the_next_field() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(DEFAULT_TABLE_BYTES));
        let mut out = Vec::new();
        encoder.field(&mut out, b"accept", b"1");
        decode(&mut decoder, &out);
        encoder.set_limit(0);
        encoder.set_limit(100);
        out.clear();
        encoder.begin(&mut out);
        assert_eq!(out, [0x20, 0x3f, 100 - 31]);
        encoder.field(&mut out, b"accept", b"1");
        assert_eq!(decode(&mut decoder, &out), b"accept: 1\r\n");
        out.clear();
        encoder.set_limit(1 << 20);
        encoder.begin(&mut out);
        encoder.field(&mut out, b"accept", b"1");
        assert_eq!(decode(&mut decoder, &out), b"accept: 1\r\n");
    }

    #[test]
    fn secrets_are_marked_as_never_to_be_indexed() {
        let mut out = Vec::new();
        Encoder::new().field(&mut out, b"authorization", b"x");
        assert_eq!(out, [0x1f, 23 - 15, 1, b'x']);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            fields in prop::collection::vec(
                (prop_oneof!["[a-z:-]{1,12}", "accept|user-agent|cookie|vary"], "[ -~]{0,200}|[ab]", 0..300_usize),
                0..60,
            ),
        ) {
            let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(DEFAULT_TABLE_BYTES));
            for (name, value, limit) in fields {
                if limit < 100 {
                    encoder.set_limit(limit * 40);
                }
                let mut block = Vec::new();
                encoder.begin(&mut block);
                encoder.field(&mut block, name.as_bytes(), value.as_bytes());
                let line = format!("{name}: {value}\r\n");
                prop_assert_eq!(decode(&mut decoder, &block), line.as_bytes());
            }
        }
    }
}
