//! The body of a request, cut into what the windows allow.

use std::mem;
use std::task::{Context, Poll};

use anywire_http::h1::Framing;
use anywire_http::{BodyError, Headers};
use bytes::Bytes;

use crate::job::{Contained, Draft, wrong_length};

/// The part of a request that is still to be given to the engine.
#[derive(Debug)]
pub(super) enum Upload {
    /// Nothing. The caller still has the body, if there is one, to be sent once more.
    Done,
    /// Nothing. The caller's code has given all of it, so that it cannot be sent again.
    Given,
    /// A body that was whole from the start.
    Whole(Bytes),
    /// A body that comes in pieces.
    Body {
        body: Contained,
        piece: Bytes,
        /// What is still to come of a declared length.
        left: Option<u64>,
        /// The caller's code has given something already, so that it cannot be sent again.
        is_begun: bool,
    },
}

/// What follows of a request. Only data needs a window (RFC 9113 section 6.9.1).
pub(super) enum Next {
    /// Data, of which there is some.
    Data,
    /// The end, perhaps with trailers.
    End(Option<Headers>),
    /// Nothing now. The caller's body wakes the stream.
    Later,
    Broken(BodyError),
}

impl Upload {
    /// Takes the body of a request; and the length that its head states.
    pub(super) fn start(draft: &mut Draft) -> (Self, Option<u64>) {
        let body = draft.body.get();
        let framing = Framing::of_request(&draft.method, body);
        let length = framing.length().filter(|_| framing != Framing::None);
        let upload = match body.as_full() {
            Some(bytes) if bytes.is_empty() => Self::Done,
            // A reference: the caller's body stays whole, to be sent once more.
            Some(bytes) => Self::Whole(bytes.clone()),
            // Though it be of no bytes: trailers may follow.
            None => Self::Body {
                body: mem::take(&mut draft.body),
                piece: Bytes::new(),
                left: framing.length(),
                is_begun: false,
            },
        };
        (upload, length)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::Given)
    }

    /// Whether the request can be sent from its start.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Done | Self::Whole(_) => true,
            Self::Body { is_begun, .. } => !is_begun,
            Self::Given => false,
        }
    }

    /// Puts what was [taken](Self::start) back into the request.
    pub(super) fn give_back(self, draft: &mut Draft) {
        if let Self::Body { body, .. } = self {
            draft.body = body;
        }
    }

    /// Whether the caller has yet to give a part of it.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self, Self::Body { .. })
    }

    /// Takes at most `room` bytes.
    pub(super) fn take(&mut self, room: usize) -> Bytes {
        match self {
            Self::Done | Self::Given => Bytes::new(),
            Self::Whole(piece) | Self::Body { piece, .. } => piece.split_to(room.min(piece.len())),
        }
    }

    /// Looks what follows. The end comes once.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Next {
        let (trailers, ended) = match self {
            Self::Done | Self::Given => return Next::Later,
            Self::Whole(piece) | Self::Body { piece, .. } if !piece.is_empty() => return Next::Data,
            Self::Whole(_) => (None, Self::Done),
            Self::Body { body, piece, left, is_begun } => match body.poll_chunk(cx) {
                Poll::Pending => return Next::Later,
                Poll::Ready(Ok(Some(chunk))) => {
                    *is_begun = true;
                    if let Some(left) = left {
                        let len = chunk.len() as u64;
                        let Some(rest) = left.checked_sub(len) else {
                            return Next::Broken(wrong_length("longer", len - *left));
                        };
                        *left = rest;
                    }
                    *piece = chunk;
                    return Next::Data;
                }
                Poll::Ready(Ok(None)) if let Some(left @ 1..) = *left => {
                    return Next::Broken(wrong_length("shorter", left));
                }
                Poll::Ready(Ok(None)) => (body.get().trailers().cloned(), Self::Given),
                Poll::Ready(Err(error)) => return Next::Broken(error),
            },
        };
        *self = ended;
        Next::End(trailers)
    }
}
