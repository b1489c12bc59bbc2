//! A stream of bytes that has left HTTP for another protocol.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anywire_http::body::Sender;
use anywire_http::{Body, BodyError, Fault};
use anywire_wire::Connection;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A stream of bytes that has left HTTP: a whole connection after a response 101 (RFC 9110 section 7.8), or one stream of a
/// connection after an extended CONNECT (RFC 8441). Bytes of the new protocol that arrived with the last message of HTTP are read
/// first.
///
/// On a server a whole connection is the [`Connection`] itself, on a client a stream to it that may leave the connection's loop.
#[derive(Debug)]
pub struct Upgraded<S = Connection> {
    carrier: Carrier<S>,
    received: Bytes,
    /// Its drop is what a [`Departure`] waits for.
    _watched: Option<oneshot::Sender<Infallible>>,
}

#[derive(Debug)]
enum Carrier<S> {
    Whole(S),
    Stream(Stream),
}

/// Ready once an [`Upgraded`] was dropped.
#[derive(Debug)]
pub struct Departure(oneshot::Receiver<Infallible>);

impl Future for Departure {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// One stream of a connection: its received bytes, and its bytes to send.
#[derive(Debug)]
struct Stream {
    incoming: Body,
    /// `None` once our direction has ended.
    outgoing: Option<Sender>,
}

impl<S> Upgraded<S> {
    /// A whole connection, of which these bytes have been received already.
    pub fn new(connection: S, received: Bytes) -> Self {
        Self { carrier: Carrier::Whole(connection), received, _watched: None }
    }

    /// One stream of a connection, whose driver fills `incoming`, and sends the bytes of `outgoing`.
    pub fn of_stream(incoming: Body, outgoing: Sender) -> Self {
        let stream = Stream { incoming, outgoing: Some(outgoing) };
        Self { carrier: Carrier::Stream(stream), received: Bytes::new(), _watched: None }
    }

    /// Has its drop be known to the driver of its bytes. By the bytes alone, a drop looks like the end of our direction.
    #[must_use]
    pub fn watched(mut self) -> (Self, Departure) {
        let (watched, departure) = oneshot::channel();
        self._watched = Some(watched);
        (self, Departure(departure))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Upgraded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.received.is_empty() {
            match &mut this.carrier {
                Carrier::Whole(connection) => return Pin::new(connection).poll_read(cx, buffer),
                Carrier::Stream(stream) => {
                    let read = ready!(stream.incoming.poll_chunk(cx));
                    this.received = read.map_err(broken)?.unwrap_or_default();
                }
            }
        }
        let len = buffer.remaining().min(this.received.len());
        buffer.put_slice(&this.received.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Upgraded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.carrier {
            Carrier::Whole(connection) => Pin::new(connection).poll_write(cx, bytes),
            Carrier::Stream(stream) => stream.poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.carrier {
            Carrier::Whole(connection) => Pin::new(connection).poll_write_vectored(cx, slices),
            Carrier::Stream(stream) => {
                let first = slices.iter().find(|slice| !slice.is_empty());
                stream.poll_write(cx, first.map_or(&[], |slice| slice))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.carrier, Carrier::Whole(connection) if connection.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Whole(connection) => Pin::new(connection).poll_flush(cx),
            Carrier::Stream(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Whole(connection) => Pin::new(connection).poll_shutdown(cx),
            Carrier::Stream(stream) => {
                stream.end();
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl Stream {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(outgoing) = &mut self.outgoing else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let len = bytes.len().min(PIECE_BYTES_MAX);
        let sent = ready!(outgoing.poll_ready(cx))
            .and_then(|()| outgoing.try_send(Bytes::copy_from_slice(&bytes[..len])));
        Poll::Ready(sent.map(|()| len).map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }

    /// Ends our direction.
    fn end(&mut self) {
        if let Some(outgoing) = self.outgoing.take() {
            outgoing.finish();
        }
    }
}

/// As a connection that is dropped, it ends in order (RFC 8441 section 5).
impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

/// The error for the reader of a stream that broke off.
fn broken(error: BodyError) -> io::Error {
    let was_cut = error.fault() == Fault::Wire;
    io::Error::new(if was_cut { io::ErrorKind::ConnectionReset } else { io::ErrorKind::Other }, error)
}

/// The largest piece that one write hands over, so that the limit of what waits holds nearly.
const PIECE_BYTES_MAX: usize = 16 << 10;
