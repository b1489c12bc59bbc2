//! What TCP and Unix sockets have in common: accepting, and reading and writing through tokio's stream types.

use std::io;
use std::task::{Context, Poll};

use crate::wires::{Acceptor, Arrival};

/// Accepts from a listening socket, which joins the loop at the first poll: `S` is the socket before, `L` after.
pub(crate) struct SocketAcceptor<S, L> {
    state: State<S, L>,
    /// Takes a copy of the descriptor, so that a loop that has no room for it now can be asked again.
    join: fn(&S) -> io::Result<L>,
    accept: AcceptFrom<L>,
}

/// One accept from a socket that has joined a loop.
pub(crate) type AcceptFrom<L> = fn(&L, &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>>;

enum State<S, L> {
    /// Bound, and not yet on a loop.
    Waiting(S),
    Live(L),
}

impl<S, L> SocketAcceptor<S, L> {
    pub(crate) fn new(socket: S, join: fn(&S) -> io::Result<L>, accept: AcceptFrom<L>) -> Self {
        Self { state: State::Waiting(socket), join, accept }
    }
}

impl<S: Send, L: Send> Acceptor for SocketAcceptor<S, L> {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        loop {
            match &mut self.state {
                State::Live(socket) => return (self.accept)(socket, cx),
                State::Waiting(socket) => self.state = State::Live((self.join)(socket)?),
            }
        }
    }
}

/// The parts of [`Transport`](crate::Transport) that tokio's stream types share.
///
/// Reads go through `AsyncRead`, which takes a short read as "the socket is empty" and so saves the read that would
/// say so.
macro_rules! tokio_stream {
    () => {
        #[inline]
        fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.stream.poll_read_ready(cx)
        }

        #[inline]
        fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            Poll::Ready(Ok(buffer.filled().len()))
        }

        #[inline]
        fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, bytes)
        }

        #[inline]
        fn poll_write_vectored(
            &mut self,
            cx: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
        }

        fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }

        fn as_fd(&self) -> Option<BorrowedFd<'_>> {
            Some(AsFd::as_fd(&self.stream))
        }
    };
}

pub(crate) use tokio_stream;
