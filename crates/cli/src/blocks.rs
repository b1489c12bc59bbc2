//! A file, or what else has a descriptor, as a body: one block is read when one is asked for, off the loop.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anywire::http::{Body, BodyError};
use bytes::Bytes;
use futures_core::Stream;
use tokio::task::JoinHandle;

/// A stream of blocks. Nothing is read ahead: the connection's back-pressure reaches the disk.
pub(crate) struct Blocks {
    /// What is read, for errors.
    name: String,
    /// How long the body was to be, if that is known.
    length: Option<u64>,
    /// Bytes still to come; `None`: until the end, wherever that is.
    left: Option<u64>,
    state: Reading,
    /// Dropped with the blocks, so that others see when they are over.
    _held: Option<Arc<()>>,
}

enum Reading {
    /// The next block has not been asked for yet.
    Idle(File),
    Busy(JoinHandle<(File, io::Result<Block>)>),
    Ended,
}

enum Block {
    Bytes(Bytes),
    /// The end, of a file that has so many bytes now.
    End(u64),
}

impl Blocks {
    /// So many bytes of this file, or all that come. Errors call it `name`.
    pub(crate) fn of(file: File, length: Option<u64>, name: impl Into<String>) -> Self {
        let state = Reading::Idle(file);
        Self { name: name.into(), length, left: length, state, _held: None }
    }

    /// Holds this until they are over.
    pub(crate) fn holding(self, held: Arc<()>) -> Self {
        Self { _held: Some(held), ..self }
    }

    /// How many bytes they are, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// A body of them.
    pub(crate) fn into_body(self) -> Body {
        let length = self.length;
        let body = Body::stream(self);
        match length {
            Some(length) => body.with_length(length),
            None => body,
        }
    }

    fn take(&mut self, block: Block, file: File) -> Option<Result<Bytes, BodyError>> {
        match (block, self.length) {
            (Block::Bytes(bytes), _) => {
                if let Some(left) = &mut self.left {
                    *left -= bytes.len() as u64;
                }
                self.state = Reading::Idle(file);
                Some(Ok(bytes))
            }
            (Block::End(_), None) => None,
            // Shorter than its head said: the peer must not take it for whole.
            (Block::End(found), Some(length)) => {
                let name = &self.name;
                Some(Err(BodyError::failed(format!(
                    "{name} became shorter while it was sent: it had {length} bytes, and has {found} now"
                ))))
            }
        }
    }
}

impl Stream for Blocks {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let left = self.left;
        if left == Some(0) {
            return Poll::Ready(None);
        }
        let mut reading = match std::mem::replace(&mut self.state, Reading::Ended) {
            Reading::Ended => return Poll::Ready(None),
            Reading::Busy(reading) => reading,
            Reading::Idle(mut file) => tokio::task::spawn_blocking(move || {
                let block = read(&mut file, left);
                (file, block)
            }),
        };
        let Poll::Ready(done) = Pin::new(&mut reading).poll(cx) else {
            self.state = Reading::Busy(reading);
            return Poll::Pending;
        };
        Poll::Ready(match done {
            Ok((file, Ok(block))) => self.take(block, file),
            Ok((_, Err(cause))) => {
                Some(Err(BodyError::failed(format!("{} cannot be read: {cause}", self.name))))
            }
            Err(cause) => Some(Err(BodyError::failed(cause))),
        })
    }
}

/// What one read gives, at most `left` and [`BLOCK_BYTES`]. Blocks.
fn read(file: &mut File, left: Option<u64>) -> io::Result<Block> {
    let limit = left.map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES as u64) as usize);
    let mut block = vec![0; limit];
    let length = loop {
        match file.read(&mut block) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if length == 0 {
        return Ok(Block::End(file.metadata()?.len()));
    }
    block.truncate(length);
    Ok(Block::Bytes(block.into()))
}

/// Read and held at once for each body under way: large enough to make the hop to another thread cheap.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
