//! A connection that speaks another protocol since its response 101 (RFC 9110 section 7.8).

use std::future::Future;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_wire::Connection;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf};

/// The connection of a response 101, from [`Response::upgrade`](crate::Response::upgrade): the first byte it gives is
/// the one behind the response's head.
///
/// It may be used on any executor. The connection stays on its loop, where a task copies between the two, at most 64 KiB
/// ahead each way. No deadline holds any more. The connection counts against
/// [`Limits::connections_per_origin`](crate::Limits::connections_per_origin) until this is dropped, or both sides have
/// ended.
#[derive(Debug)]
pub struct Upgraded(DuplexStream);

/// Copies until both sides have ended or one has failed.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()>>>;

impl Upgraded {
    /// The caller's end of a connection, and the task of the loop's end. `received` came behind the response's head.
    pub(crate) fn new(connection: Connection, received: Bytes) -> (Self, Tunnel) {
        let (ours, mut theirs) = tokio::io::duplex(AHEAD_BYTES);
        let tunnel = async move {
            let (reader, writer) = tokio::io::split(connection);
            let mut connection = tokio::io::join(Cursor::new(received).chain(reader), writer);
            // Either side learns of a failure by the end of its stream.
            let _ = tokio::io::copy_bidirectional(&mut connection, &mut theirs).await;
        };
        (Self(ours), Box::pin(tunnel))
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Bytes that may be on their way between the caller and the loop, each way.
const AHEAD_BYTES: usize = 64 << 10;
