//! The bytes of a small body, while it is not known yet whether more of it comes.

use bytes::Bytes;

/// Pieces of a body in one: copied once if there is one piece, which is what a small answer has.
#[derive(Debug, Default)]
pub(crate) enum Gathered {
    #[default]
    Nothing,
    One(Bytes),
    Many(Vec<u8>),
}

impl Gathered {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        match self {
            Self::Nothing => *self = Self::One(Bytes::copy_from_slice(piece)),
            Self::One(first) => *self = Self::Many([first, piece].concat()),
            Self::Many(pieces) => pieces.extend_from_slice(piece),
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(pieces) => pieces.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_in_order() {
        let mut gathered = Gathered::default();
        for piece in ["", "a", "bc", "def"] {
            gathered.push(piece.as_bytes());
        }
        assert_eq!(gathered.into_bytes(), "abcdef");
        assert_eq!(Gathered::default().into_bytes(), "");
    }
}
