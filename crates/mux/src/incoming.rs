//! A body that is received: its bytes wait until their reader asks for them.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use anywire_http::Headers;
use anywire_http::body::Sender;
use bytes::Bytes;

/// The received part of a body that its reader has not asked for yet. The stream's window limits it.
///
/// Small pieces are joined. If each piece stayed by itself, a peer that sends single bytes would make its reader hold 64
/// times the window.
#[derive(Debug, Default)]
pub struct Incoming {
    pieces: VecDeque<Vec<u8>>,
    rest: Rest,
}

/// The part of a body behind its received pieces.
#[derive(Debug, Default)]
enum Rest {
    /// More of the body.
    #[default]
    Open,
    /// The end, perhaps with trailers.
    End(Option<Headers>),
    /// The peer sends no more, and the body is not complete.
    Lost,
}

/// The next thing that the reader of a body waits for, once it has all received pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: it reads no more at the moment.
    Nothing,
    /// More of the body.
    Data,
    /// The end, which was received.
    End,
    /// More of a body that is lost.
    Lost,
    /// Nothing more: the reader is gone.
    Gone,
}

impl Incoming {
    /// Appends a copy of the bytes. `end`: they are the last ones.
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

    /// The peer sends no more.
    pub fn cut_short(&mut self) {
        if !self.has_ended() {
            self.rest = Rest::Lost;
        }
    }

    /// Whether the end was received.
    pub fn has_ended(&self) -> bool {
        matches!(self.rest, Rest::End(_))
    }

    /// Whether the end was received, and no piece waits for the reader.
    pub fn is_complete(&self) -> bool {
        self.has_ended() && self.pieces.is_empty()
    }

    /// Gives the reader as many of the received pieces as it asks for. Returns their bytes, and the reader's demand behind them.
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
            // There is room. If the reader has gone meanwhile, the next poll says so.
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

    /// Takes the trailers, if they were received.
    pub fn take_trailers(&mut self) -> Option<Headers> {
        if let Rest::End(trailers) = &mut self.rest { trailers.take() } else { None }
    }

    /// Drops all pieces. Returns their bytes.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.pieces).iter().map(Vec::len).sum()
    }
}

/// A last piece that is shorter is extended.
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
