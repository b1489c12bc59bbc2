//! A body on its way in: what has come waits until its reader asks for it.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use anywire_http::Headers;
use anywire_http::body::Sender;
use bytes::Bytes;

/// The part of a body that has come, and its reader has not asked for. The stream's window bounds it.
///
/// Small pieces are joined. If each piece stayed by itself, a peer that sends single bytes would make its reader hold 64
/// times the window.
#[derive(Debug, Default)]
pub struct Incoming {
    pieces: VecDeque<Vec<u8>>,
    rest: Rest,
}

/// What follows the pieces that have come.
#[derive(Debug, Default)]
enum Rest {
    /// More of the body.
    #[default]
    Open,
    /// The end, perhaps with trailers.
    End(Option<Headers>),
    /// Nothing, though the body is not complete.
    Lost,
}

/// What the reader of a body waits for, once it got what has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: it has enough, or does not read.
    Nothing,
    /// More of the body.
    Data,
    /// The end, which has come.
    End,
    /// More, which does not come.
    Lost,
    /// Nothing more: the reader is gone.
    Gone,
}

impl Incoming {
    /// Appends a copy of the bytes, perhaps the last ones.
    pub fn push(&mut self, bytes: &[u8], end: bool) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE_BYTES_MIN => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(bytes.to_vec()),
        }
        if end {
            self.rest = Rest::End(None);
        }
    }

    /// The body ends with these trailers.
    pub fn end(&mut self, trailers: Headers) {
        self.rest = Rest::End(Some(trailers));
    }

    /// Nothing more comes.
    pub fn cut_short(&mut self) {
        if !self.has_ended() {
            self.rest = Rest::Lost;
        }
    }

    /// Whether the end has come.
    pub fn has_ended(&self) -> bool {
        matches!(self.rest, Rest::End(_))
    }

    /// Whether the end has come, and nothing before it waits for the reader.
    pub fn is_complete(&self) -> bool {
        self.has_ended() && self.pieces.is_empty()
    }

    /// Gives the reader what it asks for, as far as that has come. Returns the number of bytes, and what the reader waits for then.
    pub fn feed(&mut self, reader: &mut Sender, cx: &mut Context<'_>) -> (usize, Demand) {
        let mut taken = 0;
        loop {
            match reader.poll_wanted(cx) {
                Poll::Pending => return (taken, Demand::Nothing),
                Poll::Ready(Err(_)) => return (taken, Demand::Gone),
                Poll::Ready(Ok(())) => {}
            }
            let Some(piece) = self.pop() else { break };
            taken += piece.len();
            // There is room, and a reader that has gone meanwhile shows at the next look.
            let _ = reader.try_send(piece);
        }
        let demand = match self.rest {
            Rest::Open => Demand::Data,
            Rest::End(_) => Demand::End,
            Rest::Lost => Demand::Lost,
        };
        (taken, demand)
    }

    /// Takes the first piece.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.pieces.pop_front().map(Bytes::from)
    }

    /// Takes the trailers, if they have come.
    pub fn take_trailers(&mut self) -> Option<Headers> {
        if let Rest::End(trailers) = &mut self.rest { trailers.take() } else { None }
    }

    /// Drops all pieces. Returns how many bytes that was.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.pieces).iter().map(Vec::len).sum()
    }
}

/// A last piece that is shorter takes what comes next.
const PIECE_BYTES_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_joined() {
        let mut incoming = Incoming::default();
        incoming.push(b"", false);
        assert!(incoming.pieces.is_empty());
        for byte in 0..=255 {
            incoming.push(&[byte; 10], false);
        }
        assert_eq!(incoming.pieces.len(), 3);
        let mut joined = Vec::new();
        while let Some(piece) = incoming.pop() {
            joined.extend(piece);
        }
        assert!(joined.chunks(10).zip(0..=255).all(|(ten, byte)| ten == [byte; 10]));
        assert_eq!(joined.len(), 2560);
        incoming.push(&[0; 5000], false);
        incoming.push(b"more", true);
        assert_eq!((incoming.pieces.len(), incoming.is_complete()), (2, false));
        assert_eq!((incoming.clear(), incoming.is_complete()), (5004, true));
    }
}
