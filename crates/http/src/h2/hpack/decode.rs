//! Header blocks into lines.

use std::ops::Range;

use super::table::{Entry, Table};
use super::{HpackError, huffman};
use crate::headers::{Kind, is_lower_token, is_value};
use crate::message::is_host;

/// The decoder of one direction of a connection.
#[derive(Debug)]
pub(in crate::h2) struct Decoder {
    table: Table,
    /// The size that the table may have: our `SETTINGS_HEADER_TABLE_SIZE`.
    limit: usize,
}

/// One header block on its way through the decoder.
#[derive(Debug)]
pub(in crate::h2) struct Block<'b> {
    rest: &'b [u8],
    /// No field has come yet: the table's size may still change.
    at_start: bool,
}

impl<'b> Block<'b> {
    pub(in crate::h2) fn new(block: &'b [u8]) -> Self {
        Self { rest: block, at_start: true }
    }
}

/// Where a decoded field lies in the bytes that it was appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::h2) struct Line {
    pub(in crate::h2) name: Range<usize>,
    pub(in crate::h2) value: Range<usize>,
    pub(in crate::h2) kind: Kind,
    /// The name is one in lower case, and the value is one (RFC 9113 section 8.2.1). Checked when it comes as text, and known
    /// of the entries of the table.
    pub(in crate::h2) is_valid: bool,
    /// It is a secret, and must be marked so when it is passed on (RFC 7541 section 6.2.3).
    pub(in crate::h2) is_never_indexed: bool,
}

impl Line {
    /// The field in these bytes, as an entry of the table would hold it.
    #[inline]
    pub(in crate::h2) fn entry<'b>(&self, bytes: &'b [u8]) -> Entry<'b> {
        let (name, value) = (&bytes[self.name.clone()], &bytes[self.value.clone()]);
        Entry { name, value, kind: self.kind, is_valid: self.is_valid }
    }
}

impl Decoder {
    pub(in crate::h2) fn new(limit: usize) -> Self {
        Self { table: Table::new(limit), limit }
    }

    /// The next field of the block, if it is a pseudo-header field that the table holds: nothing is copied then.
    #[inline]
    pub(in crate::h2) fn next_pseudo(&self, block: &mut Block<'_>) -> Result<Option<Entry<'_>>, HpackError> {
        let mut rest = block.rest;
        if rest.first().is_none_or(|first| *first < 0b1000_0000) {
            return Ok(None);
        }
        let index = integer(&mut rest, 7)?;
        let entry = self.table.get(index).ok_or(HpackError::Index(index))?;
        if !entry.is_pseudo() {
            return Ok(None);
        }
        (block.rest, block.at_start) = (rest, false);
        Ok(Some(entry))
    }

    /// Appends the next field of the block to `out` as `name: value\r\n`. `None` at the end of the block.
    ///
    /// The bytes are as the peer sent them: the caller looks whether they [are valid](Line::is_valid).
    #[inline]
    pub(in crate::h2) fn next(
        &mut self,
        block: &mut Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Line>, HpackError> {
        loop {
            let Some(&first) = block.rest.first() else { return Ok(None) };
            if first & 0b1110_0000 == 0b0010_0000 {
                self.resize(block)?;
                continue;
            }
            block.at_start = false;
            return match first {
                0b1000_0000.. => self.indexed(block, out),
                0b0100_0000.. => self.literal(block, out, 6),
                _ => self.literal(block, out, 4),
            }
            .map(Some);
        }
    }

    /// Bytes that the table holds in memory.
    #[cfg(fuzzing)]
    pub(super) fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    /// RFC 7541 section 6.1.
    #[inline]
    fn indexed(&self, block: &mut Block<'_>, out: &mut Vec<u8>) -> Result<Line, HpackError> {
        let index = integer(&mut block.rest, 7)?;
        let Entry { name, value, kind, is_valid } = self.table.get(index).ok_or(HpackError::Index(index))?;
        let start = out.len();
        out.reserve(name.len() + value.len() + 4);
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
        let value_start = start + name.len() + 2;
        let value = value_start..value_start + value.len();
        Ok(Line { name: start..start + name.len(), value, kind, is_valid, is_never_indexed: false })
    }

    /// RFC 7541 section 6.2.
    fn literal(
        &mut self,
        block: &mut Block<'_>,
        out: &mut Vec<u8>,
        prefix_bits: u32,
    ) -> Result<Line, HpackError> {
        let first = block.rest.first().copied().unwrap_or_default();
        let is_indexed = first & 0b0100_0000 != 0;
        let is_never_indexed = !is_indexed && first & 0b0001_0000 != 0;
        let index = integer(&mut block.rest, prefix_bits)?;
        let start = out.len();
        let kind = if index == 0 {
            string(&mut block.rest, out)?;
            Kind::of(&out[start..])
        } else {
            let entry = self.table.get(index).ok_or(HpackError::Index(index))?;
            out.extend_from_slice(entry.name);
            entry.kind
        };
        let name = start..out.len();
        out.extend_from_slice(b": ");
        let value_start = out.len();
        string(&mut block.rest, out)?;
        let value = value_start..out.len();
        out.extend_from_slice(b"\r\n");
        let is_valid = is_valid(&out[name.clone()], &out[value.clone()]);
        if is_indexed {
            self.table.insert(Entry { name: &out[name.clone()], value: &out[value.clone()], kind, is_valid });
        }
        Ok(Line { name, value, kind, is_valid, is_never_indexed })
    }

    /// RFC 7541 section 6.3.
    #[cold]
    fn resize(&mut self, block: &mut Block<'_>) -> Result<(), HpackError> {
        let size = integer(&mut block.rest, 5)?;
        if !block.at_start || size > self.limit {
            return Err(HpackError::TableSize);
        }
        self.table.set_limit(size);
        Ok(())
    }
}

/// Of the pseudo-header fields `:authority` alone is checked here, since it is the same in all requests of a connection. What
/// the others may be depends on each other.
fn is_valid(name: &[u8], value: &[u8]) -> bool {
    match name {
        b":authority" => is_host(value),
        [b':', ..] => true,
        _ => is_lower_token(name) && is_value(value),
    }
}

/// An integer whose first byte has this many bits for it (RFC 7541 section 5.1).
#[inline]
fn integer(rest: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (&first, after) = rest.split_first().ok_or(HpackError::CutShort)?;
    *rest = after;
    let mask = (1 << prefix_bits) - 1;
    let prefix = usize::from(first & mask);
    if prefix < usize::from(mask) { Ok(prefix) } else { long_integer(rest, prefix) }
}

#[inline(never)]
fn long_integer(rest: &mut &[u8], prefix: usize) -> Result<usize, HpackError> {
    let mut value = prefix;
    // 28 bits are more than any length or index needs.
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(HpackError::CutShort)?;
        *rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(HpackError::Integer)
}

/// Appends a string to `out` (RFC 7541 section 5.2).
#[inline]
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(rest, 7)?;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError::CutShort)?;
    *rest = after;
    if is_huffman {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: String = hex.split_whitespace().collect();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
        let (mut block, mut out) = (Block::new(block), Vec::new());
        while decoder.next(&mut block, &mut out)?.is_some() {}
        Ok(String::from_utf8(out).expect("text").replace("\r\n", "\n"))
    }

    /// RFC 7541 appendix C.1 and C.2: integers, and each form of a field alone.
    #[test]
    fn the_integers_and_forms_of_the_rfc() {
        for (coded, prefix_bits, value) in [("0a", 5, 10), ("1f9a0a", 5, 1337)] {
            assert_eq!(integer(&mut &bytes(coded)[..], prefix_bits), Ok(value), "{coded}");
        }
        for (block, line, is_kept) in [
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                "custom-key: custom-header\n",
                true,
            ),
            ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", false),
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", false),
            ("82", ":method: GET\n", false),
        ] {
            let mut decoder = Decoder::new(4096);
            assert_eq!(decode(&mut decoder, &bytes(block)), Ok(line.to_owned()));
            let again = if is_kept { Ok(line.to_owned()) } else { Err(HpackError::Index(62)) };
            assert_eq!(decode(&mut decoder, &bytes("be")), again, "{line}");
        }
    }

    /// RFC 7541 appendix C.3 and C.4: the same requests, without and with Huffman coding.
    #[test]
    fn the_requests_of_the_rfc() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::new(4096);
            let decoded = blocks.map(|block| decode(&mut decoder, &bytes(block)).expect("valid"));
            assert_eq!(decoded[0], ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n");
            assert_eq!(decoded[1], [&decoded[0], "cache-control: no-cache\n"].concat());
            assert_eq!(
                decoded[2],
                ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n"
            );
        }
    }

    /// RFC 7541 appendix C.5 and C.6: responses with a table of 256 bytes, so that entries are evicted.
    #[test]
    fn the_responses_of_the_rfc() {
        let plain = [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
             6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
             2076 6572 7369 6f6e 3d31",
        ];
        let coded = [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
             8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::new(256);
            let decoded = blocks.map(|block| decode(&mut decoder, &bytes(block)).expect("valid"));
            let rest = "cache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n";
            assert_eq!(decoded[0], format!(":status: 302\n{rest}"));
            assert_eq!(decoded[1], format!(":status: 307\n{rest}"));
            let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n";
            let rest = rest.replace("21 GMT", "22 GMT");
            assert_eq!(decoded[2], format!(":status: 200\n{rest}content-encoding: gzip\n{cookie}"));
        }
    }

    #[test]
    fn a_bad_block_is_refused() {
        for (block, error) in [
            ("80", HpackError::Index(0)),
            ("be", HpackError::Index(62)),
            ("ff ff ff ff ff 0f", HpackError::Integer),
            ("ff", HpackError::CutShort),
            ("40 05 61", HpackError::CutShort),
            ("40 01 61", HpackError::CutShort),
            ("7e 00", HpackError::Index(62)),
            ("3f e2 1f", HpackError::TableSize),
            ("82 20", HpackError::TableSize),
            ("41 81 00", HpackError::Huffman),
        ] {
            assert_eq!(decode(&mut Decoder::new(4096), &bytes(block)), Err(error), "{block}");
        }
        // Smaller and larger again, at the start of a block.
        assert_eq!(
            decode(&mut Decoder::new(4096), &bytes("20 3f e1 1f 82")),
            Ok(String::from(":method: GET\n"))
        );
    }
}
