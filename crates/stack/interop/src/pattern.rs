//! The bytes of a transfer: each tells its place, so a byte that is lost, doubled or in another place is seen.

/// A long random text, repeated; its length is prime, so a shift by any length of a segment or buffer shows.
pub(crate) struct Pattern {
    text: Vec<u8>,
}

impl Pattern {
    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let once: Vec<u8> = (0..PERIOD)
            .map(|_| {
                // xorshift64 (Marsaglia 2003).
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        // Twice, so that what starts anywhere is in one piece.
        Self { text: [once.as_slice(), once.as_slice()].concat() }
    }

    /// So many bytes of the stream of this number, from a place on: at most [`PIECE`].
    pub(crate) fn at(&self, stream: u64, place: u64, length: usize) -> &[u8] {
        let from = (place.wrapping_add(stream.wrapping_mul(7919)) % PERIOD as u64) as usize;
        &self.text[from..from + length.min(PIECE)]
    }

    /// Whether these bytes are those of the stream at this place.
    pub(crate) fn is_at(&self, stream: u64, place: u64, bytes: &[u8]) -> bool {
        let mut place = place;
        bytes.chunks(PIECE).all(|piece| {
            let is_right = self.at(stream, place, piece.len()) == piece;
            place += piece.len() as u64;
            is_right
        })
    }
}

const PERIOD: usize = 65_521;

/// Bytes that are written at once, at most.
pub(crate) const PIECE: usize = 65_520;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_by_any_length_is_seen() {
        let pattern = Pattern::new();
        let bytes = pattern.at(3, 1_000_000, 500).to_vec();
        assert!(pattern.is_at(3, 1_000_000, &bytes));
        for shift in [1, 2, 4, 536, 1448, 2028, 4096, 65_520, 65_536, 1 << 20] {
            assert!(!pattern.is_at(3, 1_000_000 + shift, &bytes), "{shift}");
        }
        assert!(!pattern.is_at(4, 1_000_000, &bytes));
    }

    #[test]
    fn pieces_follow_one_another() {
        let pattern = Pattern::new();
        let mut all = pattern.at(0, 0, PIECE).to_vec();
        all.extend_from_slice(pattern.at(0, PIECE as u64, PIECE));
        assert!(pattern.is_at(0, 0, &all) && pattern.is_at(0, 100, &all[100..]));
    }
}
