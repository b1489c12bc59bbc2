//! The chunked transfer coding (RFC 9112 section 7.1), decoded strictly.

use super::body::{Part, take};
use super::{DecodeError, Input, Limits, head, unfold};
use crate::{HeadLimits, Headers};

/// Where in a chunked body the decoder stands.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of extensions so far. Many short ones cost as much as a long one.
    extension_bytes: usize,
    trailers: head::Progress,
    folds: Folds,
}

/// The treatment of folded lines (RFC 9112 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folds {
    /// In requests.
    AreRefused,
    /// In responses.
    AreSpaces,
}

#[derive(Debug)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    End,
}

impl Chunked {
    pub(super) fn new(folds: Folds) -> Self {
        Self { state: State::Size, extension_bytes: 0, trailers: head::Progress::IDLE, folds }
    }

    /// Takes the next part out of `input`; `None` means that more bytes are needed.
    // Out of line, so that the decoding of a body of known length can be inlined.
    #[inline(never)]
    pub(super) fn decode<'b>(
        &mut self,
        input: &'b mut impl Input,
        limits: &Limits,
    ) -> Result<Option<Part<'b>>, DecodeError> {
        loop {
            match &mut self.state {
                State::Size => {
                    let Some(size) = self.take_size(input, limits)? else { return Ok(None) };
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Data(0) => self.state = State::DataEnd,
                State::Data(remaining) => return Ok(take(remaining, input).map(Part::Data)),
                State::DataEnd => match input.data() {
                    [b'\r', b'\n', ..] => {
                        input.consume(2);
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok(None),
                    _ => return Err(DecodeError::ChunkEnd),
                },
                State::Trailers => match input.data() {
                    [b'\r', b'\n', ..] => {
                        input.consume(2);
                        self.state = State::End;
                    }
                    [] | [b'\r'] => return Ok(None),
                    _ => return self.take_trailers(input, limits),
                },
                State::End => return Ok(Some(Part::End)),
            }
        }
    }

    /// Takes a chunk's size line: `chunk-size [ chunk-ext ] CRLF`.
    fn take_size(&mut self, input: &mut impl Input, limits: &Limits) -> Result<Option<u64>, DecodeError> {
        let data = input.data();
        let line_max = SIZE_DIGITS_MAX.saturating_add(limits.chunk_extension_bytes).saturating_add(2);
        let visible = &data[..data.len().min(line_max)];
        let Some(line_feed) = memchr::memchr(b'\n', visible) else {
            // Refuse garbage at once. Otherwise a peer that sends no LF keeps us waiting.
            if !visible.is_empty() {
                size(visible)?;
            }
            if data.len() < line_max {
                return Ok(None);
            }
            return Err(DecodeError::ChunkExtensions { limit: limits.chunk_extension_bytes });
        };
        let [line @ .., b'\r'] = &visible[..line_feed] else { return Err(DecodeError::LineEnding) };
        let (size, extension) = size(line)?;
        self.check_extension(extension, limits)?;
        input.consume(line_feed + 1);
        Ok(Some(size))
    }

    fn check_extension(&mut self, extension: &[u8], limits: &Limits) -> Result<(), DecodeError> {
        if extension.is_empty() {
            return Ok(());
        }
        if extension.len() > limits.chunk_extension_bytes {
            return Err(DecodeError::ChunkExtensions { limit: limits.chunk_extension_bytes });
        }
        self.extension_bytes = self.extension_bytes.saturating_add(extension.len());
        if self.extension_bytes > limits.chunk_extensions_bytes {
            return Err(DecodeError::ChunkExtensions { limit: limits.chunk_extensions_bytes });
        }
        // BWS is allowed before the semicolon and nowhere without one; no control characters at all.
        let begins_well = extension.trim_ascii_start().first() == Some(&b';');
        let is_text = extension.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
        if begins_well && is_text { Ok(()) } else { Err(DecodeError::ChunkSize) }
    }

    fn take_trailers<'b>(
        &mut self,
        input: &'b mut impl Input,
        limits: &Limits,
    ) -> Result<Option<Part<'b>>, DecodeError> {
        let no_room = input.is_full();
        let data = input.data();
        let too_large = DecodeError::TrailersTooLarge { limit: limits.head.trailer_bytes };
        if self.trailers.is_worth_parsing(data) {
            if let Some((end, trailers)) = self.parse_trailers(data, limits)? {
                if end > limits.head.trailer_bytes {
                    return Err(too_large);
                }
                input.consume(end);
                self.state = State::End;
                return Ok(Some(Part::Trailers(trailers)));
            }
            self.trailers.parsed_partial(data);
        }
        if data.len() >= limits.head.trailer_bytes || no_room { Err(too_large) } else { Ok(None) }
    }

    /// The trailer section at the start of `data`, and where it ends; `None` if its end is not there yet.
    fn parse_trailers(&self, data: &[u8], limits: &Limits) -> Result<Option<(usize, Headers)>, DecodeError> {
        let refusal = match parse_section(data, limits) {
            Err(refusal) if self.folds == Folds::AreSpaces => refusal,
            parsed => return parsed,
        };
        let Some(unfolded) = unfold::trailers(data)? else { return Err(refusal) };
        match (parse_section(&unfolded.bytes, limits)?, unfolded.ends_at) {
            (Some((end, trailers)), Some(taken)) if end == unfolded.bytes.len() => {
                Ok(Some((taken, trailers)))
            }
            // A line that ends otherwise than the others made an end where there is none.
            (Some(_), _) => Err(DecodeError::LineEnding),
            (None, _) => Ok(None),
        }
    }
}

fn parse_section(data: &[u8], limits: &Limits) -> Result<Option<(usize, Headers)>, DecodeError> {
    let mut slots = vec![httparse::EMPTY_HEADER; limits.head.trailer_fields.min(HeadLimits::FIELDS_MAX)];
    match httparse::parse_headers(data, &mut slots) {
        Ok(httparse::Status::Complete((end, parsed))) => {
            Ok(Some((end, head::collect_trailers(&data[..end], parsed)?)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            Err(DecodeError::TooManyTrailers { limit: limits.head.trailer_fields })
        }
        Err(error) => Err(head::refusal(error, data, limits)),
    }
}

/// Splits a size line into its size and the rest. A size is 1 to 16 hexadecimal digits, without sign, `0x` or space.
fn size(line: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let mut size = 0u64;
    let mut digits = 0;
    for &byte in line {
        let Some(digit) = char::from(byte).to_digit(16) else { break };
        digits += 1;
        if digits > SIZE_DIGITS_MAX {
            return Err(DecodeError::ChunkSize);
        }
        // 16 hexadecimal digits are 64 bits: nothing can be shifted out.
        size = size << 4 | u64::from(digit);
    }
    match &line[digits..] {
        rest @ ([] | [b';' | b' ' | b'\t' | b'\r', ..]) if digits > 0 => Ok((size, rest)),
        _ => Err(DecodeError::ChunkSize),
    }
}

const SIZE_DIGITS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_plain_hexadecimal_digits() {
        assert_eq!(size(b"0"), Ok((0, &b""[..])));
        assert_eq!(size(b"1aF"), Ok((0x1af, &b""[..])));
        assert_eq!(size(b"ffffffffffffffff;x"), Ok((u64::MAX, &b";x"[..])));
        for wrong in [
            &b""[..],
            b"10000000000000000",
            b"00000000000000001",
            b"+1",
            b"-1",
            b" 1",
            b"0x1",
            b"g",
            b";a",
            b"1_0",
        ] {
            assert_eq!(size(wrong), Err(DecodeError::ChunkSize), "{wrong:?}");
        }
    }
}
