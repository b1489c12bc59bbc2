//! Frames: their heads, and payloads of a fixed form (RFC 9113 sections 4 and 6).

use super::Code;

/// The nine bytes before each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

pub(super) const HEAD_BYTES: usize = 9;

pub(super) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    /// RFC 9218 section 7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

pub(super) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// What a client sends first (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl FrameHead {
    /// The head at the start of `data`, if all of it is there.
    #[inline]
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let &[l2, l1, l0, kind, flags, s3, s2, s1, s0] = data.first_chunk::<HEAD_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, l2, l1, l0]) as usize,
            kind,
            flags,
            // The first bit has no meaning (RFC 9113 section 4.1).
            stream: u32::from_be_bytes([s3, s2, s1, s0]) & STREAM_ID_MAX,
        })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame. Its length is below 2^24.
#[inline]
pub(super) fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, l2, l1, l0] = (length as u32).to_be_bytes();
    let [s3, s2, s1, s0] = stream.to_be_bytes();
    out.extend_from_slice(&[l2, l1, l0, kind, flags, s3, s2, s1, s0]);
}

/// Sets the length in a head that was written at `at`, before its payload was known.
#[inline]
pub(super) fn patch_length(out: &mut [u8], at: usize) {
    let length = (out.len() - at - HEAD_BYTES) as u32;
    out[at..at + 3].copy_from_slice(&length.to_be_bytes()[1..]);
}

pub(super) fn rst_stream(out: &mut Vec<u8>, stream: u32, code: Code) {
    head(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    head(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(super) fn ping(out: &mut Vec<u8>, flags: u8, opaque: [u8; 8]) {
    head(out, 8, kind::PING, flags, 0);
    out.extend_from_slice(&opaque);
}

pub(super) fn go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    head(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, kind::SETTINGS, flag::ACK, 0);
}

/// The first four bytes of a payload as a number.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Stream numbers and windows have 31 bits.
pub(super) const STREAM_ID_MAX: u32 = 0x7fff_ffff;

pub(super) const WINDOW_MAX: u32 = 0x7fff_ffff;
