//! HPACK without frames, for the fuzz target of its own: built with `--cfg fuzzing` alone.

use super::{Block, Decoder, Encoder, HpackError};

/// Both directions of one end.
#[derive(Debug)]
pub struct Hpack {
    decoder: Decoder,
    encoder: Encoder,
}

/// A name and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Hpack {
    /// An end whose decoder allows a table of this size.
    pub fn new(limit: usize) -> Self {
        Self { decoder: Decoder::new(limit), encoder: Encoder::new() }
    }

    /// The peer allows a table of this size.
    pub fn set_limit(&mut self, limit: usize) {
        self.encoder.set_limit(limit);
    }

    /// The fields of a block, those before a fault too.
    pub fn decode(&mut self, block: &[u8]) -> (Vec<Pair>, Result<(), HpackError>) {
        let (mut block, mut pairs) = (Block::new(block), Vec::new());
        loop {
            let mut out = Vec::new();
            match self.decoder.next(&mut block, &mut out) {
                Ok(Some(line)) => pairs.push((out[line.name].to_vec(), out[line.value].to_vec())),
                Ok(None) => return (pairs, Ok(())),
                Err(error) => return (pairs, Err(error)),
            }
        }
    }

    /// A block of these fields.
    pub fn encode(&mut self, pairs: &[Pair]) -> Vec<u8> {
        let mut out = Vec::new();
        self.encoder.begin(&mut out);
        for (name, value) in pairs {
            self.encoder.field(&mut out, name, value);
        }
        out
    }

    /// Bytes that the decoder's table holds in memory.
    pub fn held_bytes(&self) -> usize {
        self.decoder.held_bytes()
    }
}
