//! A stream that speaks another protocol than it began with.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;

/// A stream that has left its first protocol, such as HTTP after a response 101 (RFC 9110 section 7.8). Bytes of the new
/// protocol that came along with the last message of the old one are read first.
///
/// On a server it holds the [`Connection`] itself, on a client a stream to it that may leave the connection's loop.
#[derive(Debug)]
pub struct Upgraded<S = Connection> {
    stream: S,
    received: Bytes,
}

impl<S> Upgraded<S> {
    /// This stream, of which these bytes have been received already.
    pub fn new(stream: S, received: Bytes) -> Self {
        Self { stream, received }
    }

    /// The stream, and the bytes that were received before and have not been read.
    pub fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.received)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Upgraded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let len = buffer.remaining().min(self.received.len());
        buffer.put_slice(&self.received.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Upgraded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
