//! A connection with bytes before what its peer sends.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::address::Address;
use crate::connection::{Connection, Credentials, Negotiated, Transport};

/// A connection of which some bytes were read before.
pub(crate) struct Preceded {
    /// Those that were not read again, the next one last.
    reversed: Vec<u8>,
    inner: Connection,
}

impl Preceded {
    pub(crate) fn new(mut bytes: Vec<u8>, inner: Connection) -> Self {
        bytes.reverse();
        Self { reversed: bytes, inner }
    }
}

impl Transport for Preceded {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reversed.is_empty() { self.inner.poll_readable(cx) } else { Poll::Ready(Ok(())) }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.reversed.is_empty() {
            return self.inner.poll_read(cx, buffer);
        }
        let count = buffer.len().min(self.reversed.len());
        let rest = self.reversed.len() - count;
        let taken = self.reversed.drain(rest..).rev();
        buffer.iter_mut().zip(taken).for_each(|(place, byte)| *place = byte);
        if rest == 0 {
            // It may live for long.
            self.reversed = Vec::new();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_write_vectored(cx, slices)
    }

    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_half_close(cx)
    }

    fn abort(&mut self) {
        // A read after it must not find bytes of before.
        self.reversed = Vec::new();
        self.inner.abort();
    }

    fn local(&self) -> Address {
        self.inner.local()
    }

    fn peer(&self) -> Address {
        self.inner.peer()
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_handshake(cx)
    }

    fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.inner.negotiated()
    }

    fn is_buffered(&self) -> bool {
        self.inner.is_buffered()
    }

    fn held_back(&self) -> usize {
        self.inner.held_back()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn credentials(&self) -> Option<Credentials> {
        self.inner.credentials()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        // What looks into the socket must not miss the bytes before.
        if self.reversed.is_empty() { self.inner.as_fd() } else { None }
    }
}

impl Drop for Preceded {
    /// Bytes that nobody read make the close a reset, as on a plain wire.
    fn drop(&mut self) {
        if !self.reversed.is_empty() {
            self.inner.abort();
        }
    }
}
