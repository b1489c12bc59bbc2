//! What has come of a body, and its reader has not asked for.

use std::collections::VecDeque;

use bytes::Bytes;

/// What has come of a stream's body, and its reader has not asked for. The stream's window bounds it.
///
/// Small pieces are joined. If each piece stayed by itself, a peer that sends single bytes would make its reader hold 64
/// times the window.
#[derive(Debug, Default)]
pub struct Arrived {
    pieces: VecDeque<Vec<u8>>,
}

impl Arrived {
    /// Appends a copy of the bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE_BYTES_MIN => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    /// Takes the first piece.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.pieces.pop_front().map(Bytes::from)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Drops everything. Returns how many bytes that was.
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
        let mut arrived = Arrived::default();
        arrived.push(b"");
        assert!(arrived.is_empty());
        for byte in 0..=255 {
            arrived.push(&[byte; 10]);
        }
        assert_eq!(arrived.pieces.len(), 3);
        let mut joined = Vec::new();
        while let Some(piece) = arrived.pop() {
            joined.extend(piece);
        }
        assert!(joined.chunks(10).zip(0..=255).all(|(ten, byte)| ten == [byte; 10]));
        assert_eq!(joined.len(), 2560);
        arrived.push(&[0; 5000]);
        arrived.push(b"more");
        assert_eq!((arrived.pieces.len(), arrived.clear(), arrived.is_empty()), (2, 5004, true));
    }
}
