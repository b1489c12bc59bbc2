//! A file, or what else has a descriptor, as a body: one block is read when one is asked for, off the loop.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire::http::{Body, BodyError};
use bytes::Bytes;
use futures_core::Stream;
use tokio::task::JoinHandle;

/// A stream of blocks. Nothing is read ahead: the connection's back-pressure reaches the disk.
pub(crate) struct Blocks {
    /// Bytes still to come; `None`: until the end, wherever that is.
    left: Option<u64>,
    state: Reading,
}

enum Reading {
    /// The next block has not been asked for yet.
    Idle(File),
    Busy(JoinHandle<(File, io::Result<Bytes>)>),
    Ended,
}

impl Blocks {
    /// A body of so many bytes of this file, or all that come.
    pub(crate) fn body(file: File, length: Option<u64>) -> Body {
        let body = Body::stream(Self { left: length, state: Reading::Idle(file) });
        match length {
            Some(length) => body.with_length(length),
            None => body,
        }
    }

    fn take(&mut self, block: Bytes, file: File) -> Option<Result<Bytes, BodyError>> {
        match &mut self.left {
            None if block.is_empty() => return None,
            // Shorter than its head said: the peer must not take it for whole.
            Some(_) if block.is_empty() => {
                return Some(Err(BodyError::failed("the file became shorter while it was read")));
            }
            None => {}
            Some(left) => *left -= block.len() as u64,
        }
        self.state = Reading::Idle(file);
        Some(Ok(block))
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
            Ok((_, Err(cause))) => Some(Err(BodyError::failed(cause))),
            Err(cause) => Some(Err(BodyError::failed(cause))),
        })
    }
}

/// What one read gives, at most `left` and [`BLOCK_BYTES`]; empty at the end. Blocks.
fn read(file: &mut File, left: Option<u64>) -> io::Result<Bytes> {
    let limit = left.map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES as u64) as usize);
    let mut block = vec![0; limit];
    let length = loop {
        match file.read(&mut block) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    block.truncate(length);
    Ok(block.into())
}

/// Read and held at once for each body under way: large enough to make the hop to another thread cheap.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
