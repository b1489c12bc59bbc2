//! A body being decoded, whatever its framing.

use super::chunked::{Chunked, Folds};
use super::{DecodeError, Framing, Input, Limits};
use crate::Headers;

/// Where in a body the decoder stands.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// The next part of a body.
pub(super) enum Part<'b> {
    Data(&'b [u8]),
    Trailers(Headers),
    End,
}

impl Body {
    /// The body that `framing` declares, or `None` if there is none.
    #[inline]
    pub(super) fn of(framing: Framing, folds: Folds) -> Option<Self> {
        match framing {
            Framing::None => None,
            Framing::Length(length) => Some(Self::Length(length)),
            Framing::Chunked => Some(Self::Chunked(Chunked::new(folds))),
            Framing::UntilClose => Some(Self::UntilClose),
        }
    }

    /// How many bytes are still to come, if it is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(remaining) => Some(*remaining),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }

    /// Takes the next part out of `input`; `None` means that more bytes are needed.
    #[inline]
    pub(super) fn decode<'b>(
        &mut self,
        input: &'b mut impl Input,
        limits: &Limits,
    ) -> Result<Option<Part<'b>>, DecodeError> {
        match self {
            Self::Length(0) => Ok(Some(Part::End)),
            Self::Length(remaining) => Ok(take(remaining, input).map(Part::Data)),
            Self::Chunked(chunked) => chunked.decode(input, limits),
            Self::UntilClose if input.data().is_empty() => Ok(None),
            Self::UntilClose => Ok(Some(Part::Data(input.take(usize::MAX)))),
        }
    }
}

/// Takes the available part of `remaining` bytes. `None` if there are none.
#[inline]
pub(super) fn take<'b>(remaining: &mut u64, input: &'b mut impl Input) -> Option<&'b [u8]> {
    let count = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.data().len());
    if count == 0 {
        return None;
    }
    *remaining -= count as u64;
    Some(input.take(count))
}
