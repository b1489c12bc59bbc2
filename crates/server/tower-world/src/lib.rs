//! Crates of the tower world, unchanged, within routers of anywire and around them. What is tested stands in `tests/`; here is the
//! gRPC service of these tests, as tonic generates it.
//!
//! A workspace of its own, so that no test of anywire itself has to compile them: `cargo test` here.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// What tonic generates for the service `world.Echo`.
#[allow(missing_docs, clippy::default_constructed_unit_structs, reason = "generated")]
pub mod echo {
    include!(concat!(env!("OUT_DIR"), "/world.Echo.rs"));
}

/// The programs of the guide run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/tower.md")]
mod guide {}

/// Messages that are bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
