//! Heads of the plain form, which nearly all clients and servers send, taken apart eight bytes at a time.
//!
//! It knows few forms, which saves 90 to 220 instructions of 1,880 that a small request takes: a target that begins with
//! `/`, a status with a reason, HTTP/1.1, names of letters and dashes, values of visible ASCII and single spaces between them and their colon. Whatever
//! is otherwise, or not complete, is `None`, and the general parser decides. So nothing is refused here, and each head that is
//! taken is one that the other parser takes, with the same parts.

use super::encode::OK_LINE;
use super::head::Scanned;
use crate::HeadLimits;
use crate::headers::{Field, Kind, Kinds};

/// A head of the plain form.
pub(super) struct Plain<'b, L> {
    /// What the start line says.
    pub(super) line: L,
    /// Bytes of the start line, with its end.
    pub(super) line_bytes: usize,
    /// The lines of the fields, without the empty line behind them.
    pub(super) lines: &'b [u8],
    pub(super) fields: usize,
    pub(super) scanned: Scanned<'b>,
}

/// What the start line of a request says beside its version.
pub(super) struct RequestLine<'b> {
    pub(super) method: &'b [u8],
    pub(super) target: &'b [u8],
}

/// What the start line of a response says beside its version.
pub(super) struct StatusLine<'b> {
    pub(super) status: u16,
    pub(super) reason: &'b [u8],
}

impl<L> Plain<'_, L> {
    /// Bytes of the head, with the empty line at its end.
    pub(super) fn bytes(&self) -> usize {
        self.line_bytes + self.lines.len() + 2
    }

    /// Whether no limit is exceeded. One that is, is for the general parser to tell.
    #[inline]
    pub(super) fn is_within(&self, limits: &HeadLimits) -> bool {
        self.fields <= limits.fields
            && self.line_bytes - 2 <= limits.target_bytes
            && self.bytes() <= limits.bytes
    }
}

/// Takes apart the request head that `data` begins with, and records its fields.
#[inline]
pub(super) fn parse<'b>(
    data: &'b [u8],
    fields: &mut [Field; FIELDS_MAX],
) -> Option<Plain<'b, RequestLine<'b>>> {
    let method_end = match data {
        [b'G', b'E', b'T', b' ', ..] => 3,
        _ => data.iter().take(METHOD_BYTES_MAX + 1).position(|byte| !byte.is_ascii_uppercase())?,
    };
    let target_at = method_end + 1;
    let target_end = text_end(data, target_at, b' ' + 1)?;
    let line_bytes = target_end + VERSION.len();
    let is_plain = method_end > 0
        && data[method_end] == b' '
        && data[target_at..].starts_with(b"/")
        && data.get(target_end..line_bytes)? == VERSION;
    if !is_plain {
        return None;
    }
    let lines = lines(data, line_bytes, fields)?;
    Some(Plain {
        line: RequestLine { method: &data[..method_end], target: &data[target_at..target_end] },
        line_bytes,
        lines: &data[line_bytes..lines.end],
        fields: lines.count,
        scanned: lines.scanned,
    })
}

/// Takes apart the response head that `data` begins with, and records its fields. Of status lines it knows those of HTTP/1.1 with a
/// reason of visible ASCII and spaces between.
#[inline]
pub(super) fn parse_response<'b>(
    data: &'b [u8],
    fields: &mut [Field; FIELDS_MAX],
) -> Option<Plain<'b, StatusLine<'b>>> {
    let (status, reason_end) = match data.first_chunk() {
        Some(OK_LINE) => (200, OK_LINE.len() - 2),
        _ => {
            let &[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' '] =
                data.strip_prefix(b"HTTP/1.1 ")?.first_chunk()?
            else {
                return None;
            };
            let digit = |digit: u8| u16::from(digit - b'0');
            (digit(a) * 100 + digit(b) * 10 + digit(c), text_end(data, REASON_AT, b' ')?)
        }
    };
    let reason = data.get(REASON_AT..reason_end)?;
    let line_bytes = reason_end + 2;
    if matches!(reason, [] | [b' ', ..] | [.., b' ']) || data.get(reason_end..line_bytes)? != b"\r\n" {
        return None;
    }
    let lines = lines(data, line_bytes, fields)?;
    Some(Plain {
        line: StatusLine { status, reason },
        line_bytes,
        lines: &data[line_bytes..lines.end],
        fields: lines.count,
        scanned: lines.scanned,
    })
}

/// The lines of fields.
struct Lines<'b> {
    count: usize,
    /// Where the empty line behind them begins.
    end: usize,
    scanned: Scanned<'b>,
}

/// Takes apart the lines that begin at `line_bytes`, up to the empty line, and records them.
#[inline(always)]
fn lines<'b>(data: &'b [u8], line_bytes: usize, fields: &mut [Field; FIELDS_MAX]) -> Option<Lines<'b>> {
    let (mut count, mut at) = (0, line_bytes);
    let (mut present, mut host, mut length) = (Kinds::NONE, None, None);
    while data.get(at..at + 2)? != b"\r\n" {
        let name_end = name_end(data, at)?;
        let value_at = name_end + 2;
        let value_end = text_end(data, value_at, b' ')?;
        let (name, value) = (&data[at..name_end], data.get(value_at..value_end)?);
        let is_trimmed = !matches!(value, [] | [b' ', ..] | [.., b' ']);
        let ends_well = data[name_end..].starts_with(b": ") && data.get(value_end..value_end + 2)? == b"\r\n";
        if name.is_empty() || !is_trimmed || !ends_well {
            return None;
        }
        let kind = Kind::of(name);
        match kind {
            Kind::Other | Kind::Date => {}
            Kind::Host if host.is_none() => host = Some(value),
            Kind::ContentLength if length.is_none() => length = Some(value),
            // What HTTP/1.1 does without it.
            Kind::Connection if value.eq_ignore_ascii_case(b"keep-alive") => {}
            _ => return None,
        }
        present.add(kind);
        *fields.get_mut(count)? = Field {
            start: (at - line_bytes) as u32,
            value: (value_at - line_bytes) as u32,
            value_len: value.len() as u32,
            name_len: u16::try_from(name.len()).ok()?,
            kind,
            is_sensitive: false,
        };
        count += 1;
        at = value_end + 2;
    }
    Some(Lines {
        count,
        end: at,
        scanned: Scanned { fields: &[], present, repeated: Kinds::NONE, host, length },
    })
}

/// Where the text ends that begins at `at`: visible ASCII, and what else is not below `first`.
#[inline(always)]
fn text_end(data: &[u8], mut at: usize, first: u8) -> Option<usize> {
    loop {
        let word = load(data, at)?;
        let is_from_first = (word & LOW) + (0x80 - u64::from(first)) * ONES;
        let ends = (!is_from_first | word | zeros(word ^ DELETE)) & HIGH;
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
}

/// Where the letters and dashes end that begin at `at`.
#[inline(always)]
fn name_end(data: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let word = load(data, at)?;
        let lower = (word | CASE) & LOW;
        let is_from_a = lower + (0x80 - u64::from(b'a')) * ONES;
        let is_beyond_z = lower + (0x7f - u64::from(b'z')) * ONES;
        let is_name = (is_from_a & !is_beyond_z & !word) | zeros(word ^ DASHES);
        let ends = !is_name & HIGH;
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
}

/// The eight bytes at `at`, the first one lowest. Those behind the end of the data are zero, and not all of them.
#[inline(always)]
fn load(data: &[u8], at: usize) -> Option<u64> {
    if let Some(word) = data.get(at..).and_then(|rest| rest.first_chunk()) {
        return Some(u64::from_le_bytes(*word));
    }
    let last = data.last_chunk()?;
    let before = at - (data.len() - 8);
    (before < 8).then(|| u64::from_le_bytes(*last) >> (8 * before))
}

/// The high bit of each byte that is zero.
#[inline(always)]
const fn zeros(word: u64) -> u64 {
    !(((word & LOW) + LOW) | word) & HIGH
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;
const LOW: u64 = 0x7f * ONES;
const DELETE: u64 = LOW;
/// In which the two cases of a letter differ.
const CASE: u64 = 0x20 * ONES;
const DASHES: u64 = b'-' as u64 * ONES;

/// Where the reason begins: behind `HTTP/1.1 200 `.
const REASON_AT: usize = 13;

/// What follows a target.
const VERSION: &[u8] = b" HTTP/1.1\r\n";

/// The longest of the usual methods: `PROPPATCH`.
const METHOD_BYTES_MAX: usize = 9;

/// Fields of a plain head. Browsers send about fifteen.
pub(super) const FIELDS_MAX: usize = 24;
