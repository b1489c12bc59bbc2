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
    /// Nothing.
    Done,
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

/// What a stream has to send when it is its turn.
pub(super) enum Piece {
    Data {
        bytes: Bytes,
        end: bool,
    },
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
            None if framing.is_empty() => Self::Done,
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
        matches!(self, Self::Done)
    }

    /// Whether the caller has yet to give a part of it.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self, Self::Body { .. })
    }

    /// Takes at most `room` bytes.
    pub(super) fn next(&mut self, room: usize, cx: &mut Context<'_>) -> Piece {
        match self {
            Self::Done => Piece::Later,
            Self::Whole(bytes) => {
                let piece = bytes.split_to(room.min(bytes.len()));
                let end = bytes.is_empty();
                if end {
                    *self = Self::Done;
                }
                Piece::Data { bytes: piece, end }
            }
            Self::Body { body, piece, left, is_begun } => {
                if piece.is_empty() {
                    match body.poll_chunk(cx) {
                        Poll::Pending => return Piece::Later,
                        Poll::Ready(Ok(Some(chunk))) => *piece = chunk,
                        Poll::Ready(Ok(None)) if left.is_some_and(|left| left > 0) => {
                            return Piece::Broken(wrong_length("shorter"));
                        }
                        Poll::Ready(Ok(None)) => {
                            let trailers = body.get().trailers().cloned();
                            *self = Self::Done;
                            return Piece::End(trailers);
                        }
                        Poll::Ready(Err(error)) => return Piece::Broken(error),
                    }
                    *is_begun = true;
                    if let Some(left) = left {
                        let Some(rest) = left.checked_sub(piece.len() as u64) else {
                            return Piece::Broken(wrong_length("longer"));
                        };
                        *left = rest;
                    }
                }
                Piece::Data { bytes: piece.split_to(room.min(piece.len())), end: false }
            }
        }
    }
}
