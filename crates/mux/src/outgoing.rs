//! A body on its way out: cut into what the windows allow, and its end behind the last piece.

use std::borrow::Borrow;
use std::task::Poll;

use anywire_http::{Body, BodyError, Headers};
use bytes::Bytes;

use crate::Streams;

/// The part of a body that is still to be given to the engine. `B` gives its pieces.
#[derive(Debug)]
pub struct Outgoing<B> {
    piece: Bytes,
    source: Option<B>,
}

/// What follows of a body. Only data needs a window (RFC 9113 section 6.9.1).
#[derive(Debug)]
pub enum Next<E = BodyError> {
    /// Data, of which there is some.
    Data,
    /// The end, perhaps with trailers.
    End(Option<Headers>),
    /// Nothing now. The source wakes the stream.
    Later,
    /// The source has failed.
    Broken(E),
}

/// What has come of a [`send`].
#[derive(Debug)]
pub enum Sent<E = BodyError> {
    /// The body goes on.
    Open,
    /// All of it was given to the engine.
    Ended,
    /// It has failed, or the peer does not take its trailers.
    Broken(E),
}

impl<B: Borrow<Body>> Outgoing<B> {
    /// A body that is whole.
    pub fn whole(piece: Bytes) -> Self {
        Self { piece, source: None }
    }

    /// A body that comes in pieces.
    pub fn streamed(source: B) -> Self {
        Self { piece: Bytes::new(), source: Some(source) }
    }

    /// Whether it comes in pieces.
    pub fn is_streamed(&self) -> bool {
        self.source.is_some()
    }

    /// What gives the pieces.
    pub fn into_source(self) -> Option<B> {
        self.source
    }

    /// Takes at most `room` bytes.
    #[inline]
    pub fn take(&mut self, room: usize) -> Bytes {
        self.piece.split_to(room.min(self.piece.len()))
    }

    /// Looks what follows. If there is none of the last piece, `poll` asks the source for another one.
    #[inline]
    pub fn next<E>(&mut self, poll: impl FnOnce(&mut B) -> Poll<Result<Option<Bytes>, E>>) -> Next<E> {
        if !self.piece.is_empty() {
            return Next::Data;
        }
        let Some(source) = &mut self.source else { return Next::End(None) };
        match poll(source) {
            Poll::Pending => Next::Later,
            Poll::Ready(Ok(Some(piece))) => {
                self.piece = piece;
                Next::Data
            }
            Poll::Ready(Ok(None)) => Next::End((*source).borrow().trailers().cloned()),
            Poll::Ready(Err(error)) => Next::Broken(error),
        }
    }
}

/// Gives the engine a piece of a stream whose turn it is, or none, and what [follows](Outgoing::next) unless that is data.
#[inline]
pub fn send<S: Streams, E: From<BodyError>>(
    streams: &mut S,
    id: S::Id,
    piece: Bytes,
    next: Next<E>,
) -> Sent<E> {
    let end = matches!(next, Next::End(None));
    if matches!(next, Next::Later | Next::End(Some(_))) {
        streams.wants_to_send(id, false);
    }
    if end || !piece.is_empty() {
        streams.data(id, piece, end);
    }
    match next {
        Next::Data => {
            streams.wants_to_send(id, true);
            Sent::Open
        }
        Next::Later => Sent::Open,
        Next::End(None) => Sent::Ended,
        Next::End(Some(trailers)) => match streams.trailers(id, &trailers) {
            Ok(()) => Sent::Ended,
            Err(error) => Sent::Broken(BodyError::failed(error).into()),
        },
        Next::Broken(error) => Sent::Broken(error),
    }
}
