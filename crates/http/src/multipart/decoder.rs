//! Pieces of a body in, parts out.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr_iter, memmem};

use super::error::Error;
use super::head::PartHead;
use super::limits::Limits;

/// Finds the parts of one body, in whatever pieces it comes.
pub struct Decoder {
    limits: Limits,
    /// CR LF, two dashes and the boundary.
    delimiter: memmem::Finder<'static>,
    input: BytesMut,
    /// How much of the head that is not complete has been searched for its end.
    searched: usize,
    stage: Stage,
    /// How many parts have begun.
    parts: usize,
    /// Bytes of the content of the present one.
    part_bytes: u64,
    total_bytes: u64,
}

/// What a [`Decoder`] has found.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A part begins.
    Part(PartHead),
    /// The next bytes of its content, never empty.
    Data(Bytes),
    /// The part is complete.
    PartEnd,
    /// So is the form. What may follow is ignored (RFC 2046 section 5.1.1).
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the first delimiter, where text for people may stand.
    Preamble,
    /// Behind a delimiter, on its line.
    Line,
    Head,
    /// Behind a head. The line break at its end may be that of the next delimiter.
    Start,
    Content,
    End,
}

impl Decoder {
    /// For a body with this boundary, which is a parameter of its content type.
    ///
    /// # Errors
    /// [`Error::Boundary`].
    pub fn new(boundary: &str, limits: Limits) -> Result<Self, Error> {
        if !(1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
            || boundary.bytes().any(|byte| byte.is_ascii_control())
        {
            return Err(Error::Boundary);
        }
        let delimiter = memmem::Finder::new(&format!("\r\n--{boundary}")).into_owned();
        // The first delimiter may be the first line of all.
        let input = BytesMut::from(&b"\r\n"[..]);
        let stage = Stage::Preamble;
        Ok(Self { limits, delimiter, input, searched: 0, stage, parts: 0, part_bytes: 0, total_bytes: 0 })
    }

    /// The same with other limits for what is still to come.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Takes the next piece of the body. Not copied if all before it has been taken.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn push(&mut self, piece: Bytes) -> Result<(), Error> {
        self.total_bytes = self.total_bytes.saturating_add(piece.len() as u64);
        let limit_bytes = self.limits.total_bytes;
        if self.total_bytes > limit_bytes {
            return Err(Error::TooLarge { limit_bytes });
        }
        match self.input.is_empty() {
            true => self.input = piece.into(),
            false => self.input.extend_from_slice(&piece),
        }
        Ok(())
    }

    /// The next event. `None` if there is none before the next piece.
    ///
    /// # Errors
    /// [`Error`]. Nothing behind it can be understood.
    pub fn decode(&mut self) -> Result<Option<Event>, Error> {
        loop {
            match self.step()? {
                Step::Event(event) => return Ok(Some(event)),
                Step::Next => {}
                Step::NeedsMore => return Ok(None),
            }
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the form has not.
    pub fn end(&self) -> Result<(), Error> {
        if self.stage == Stage::End { Ok(()) } else { Err(Error::Incomplete) }
    }

    fn step(&mut self) -> Result<Step, Error> {
        match self.stage {
            Stage::Preamble => Ok(self.preamble()),
            Stage::Line => self.line(),
            Stage::Head => self.head(),
            Stage::Start => Ok(self.start()),
            Stage::Content => self.content(),
            Stage::End => {
                self.input.clear();
                Ok(Step::NeedsMore)
            }
        }
    }

    fn preamble(&mut self) -> Step {
        if let Some(at) = self.delimiter.find(&self.input) {
            self.pass_delimiter(at);
            return Step::Next;
        }
        self.input.advance(self.input.len() - self.partial_delimiter());
        Step::NeedsMore
    }

    /// Behind a delimiter: two dashes, or white space and a line break (RFC 2046 section 5.1.1).
    fn line(&mut self) -> Result<Step, Error> {
        let padding = self.input.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if padding > PADDING_MAX {
            return Err(Error::Delimiter);
        }
        match &self.input[padding..] {
            [b'-', b'-', ..] if padding == 0 => {
                self.stage = Stage::End;
                return Ok(Step::Event(Event::End));
            }
            [b'\r', b'\n', ..] => self.input.advance(padding + 2),
            [] | [b'\r'] => return Ok(Step::NeedsMore),
            [b'-'] if padding == 0 => return Ok(Step::NeedsMore),
            _ => return Err(Error::Delimiter),
        }
        let limit = self.limits.parts;
        if self.parts == limit {
            return Err(Error::TooManyParts { limit });
        }
        self.parts += 1;
        (self.stage, self.searched, self.part_bytes) = (Stage::Head, 0, 0);
        Ok(Step::Next)
    }

    fn head(&mut self) -> Result<Step, Error> {
        // A head without fields is the empty line alone.
        let end = match self.input.starts_with(b"\r\n") {
            true => Some(2),
            false => memmem::find(&self.input[self.searched..], b"\r\n\r\n").map(|at| self.searched + at + 4),
        };
        let limit_bytes = self.limits.head_bytes;
        if end.unwrap_or(self.input.len()) > limit_bytes {
            return Err(Error::HeadTooLarge { limit_bytes });
        }
        let Some(end) = end else {
            self.searched = self.input.len().saturating_sub(3);
            return Ok(Step::NeedsMore);
        };
        let head = PartHead::parse(&self.input[..end], self.parts)?;
        self.input.advance(end);
        self.stage = Stage::Start;
        Ok(Step::Event(Event::Part(head)))
    }

    fn start(&mut self) -> Step {
        let line = &self.delimiter.needle()[2..];
        if self.input.starts_with(line) {
            self.input.advance(line.len());
            self.stage = Stage::Line;
            return Step::Event(Event::PartEnd);
        }
        if line.starts_with(&self.input) {
            return Step::NeedsMore;
        }
        self.stage = Stage::Content;
        Step::Next
    }

    fn content(&mut self) -> Result<Step, Error> {
        let end = match self.delimiter.find(&self.input) {
            Some(0) => {
                self.pass_delimiter(0);
                return Ok(Step::Event(Event::PartEnd));
            }
            Some(at) => at,
            None => self.input.len() - self.partial_delimiter(),
        };
        if end == 0 {
            return Ok(Step::NeedsMore);
        }
        let data = self.input.split_to(end).freeze();
        self.part_bytes += data.len() as u64;
        let limit_bytes = self.limits.part_bytes;
        if self.part_bytes > limit_bytes {
            return Err(Error::PartTooLarge { limit_bytes });
        }
        Ok(Step::Event(Event::Data(data)))
    }

    fn pass_delimiter(&mut self, at: usize) {
        self.input.advance(at + self.delimiter.needle().len());
        self.stage = Stage::Line;
    }

    /// How many bytes at the end of the input may be the beginning of a delimiter.
    fn partial_delimiter(&self) -> usize {
        let delimiter = self.delimiter.needle();
        let tail = &self.input[self.input.len().saturating_sub(delimiter.len() - 1)..];
        let begins = memchr_iter(b'\r', tail).find(|at| delimiter.starts_with(&tail[*at..]));
        begins.map_or(0, |at| tail.len() - at)
    }
}

/// What a stage has come to.
enum Step {
    Event(Event),
    /// Another stage goes on.
    Next,
    NeedsMore,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("stage", &self.stage)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

/// RFC 2046 section 5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;
/// White space behind a delimiter. Mail gateways added some once; no client of HTTP sends any.
const PADDING_MAX: usize = 64;
