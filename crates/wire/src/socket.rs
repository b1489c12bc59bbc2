//! What TCP and Unix sockets have in common: accepting, and reading and writing through tokio's stream types.

use std::io;
use std::task::{Context, Poll};

use crate::wires::{Acceptor, Arrival};

/// Accepts from a listening socket, which joins the loop at the first poll: `S` is the socket before, `L` after.
pub(crate) struct SocketAcceptor<S, L, A> {
    state: State<S, L>,
    /// Takes a copy of the descriptor, so that a loop that has no room for it now can be asked again.
    join: fn(&S) -> io::Result<L>,
    leave: fn(L) -> io::Result<S>,
    /// One accept from a socket that has joined a loop.
    accept: A,
}

enum State<S, L> {
    /// Bound, and not yet on a loop.
    Waiting(S),
    Live(L),
    /// It has left a loop, and was lost.
    Gone,
}

impl<S, L, A> SocketAcceptor<S, L, A>
where
    A: Fn(&L, &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>>,
{
    pub(crate) fn new(
        socket: S,
        join: fn(&S) -> io::Result<L>,
        leave: fn(L) -> io::Result<S>,
        accept: A,
    ) -> Self {
        Self { state: State::Waiting(socket), join, leave, accept }
    }
}

impl<S: Send, L: Send, A> Acceptor for SocketAcceptor<S, L, A>
where
    A: Fn(&L, &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> + Send,
{
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        loop {
            match &mut self.state {
                State::Live(socket) => return (self.accept)(socket, cx),
                State::Waiting(socket) => self.state = State::Live((self.join)(socket)?),
                State::Gone => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }

    fn leave_loop(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Live(socket) => (self.leave)(socket).map_or(State::Gone, State::Waiting),
            other => other,
        };
    }
}

/// How a socket has failed. The system reports a failure once, mostly to a write. From then on a read finds an orderly
/// end, so that a message that was cut short would look whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fault(Option<io::ErrorKind>);

impl Fault {
    /// What a read has found; an end behind a failure is none.
    #[inline]
    pub(crate) fn of_read(&mut self, read: Poll<io::Result<()>>, filled: usize) -> Poll<io::Result<usize>> {
        match read {
            Poll::Ready(Ok(())) if filled > 0 => Poll::Ready(Ok(filled)),
            Poll::Ready(Ok(())) => Poll::Ready(self.0.map_or(Ok(0), |fault| Err(fault.into()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.note(error))),
            Poll::Pending => Poll::Pending,
        }
    }

    #[inline]
    pub(crate) fn of_write(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        written.map_err(|error| self.note(error))
    }

    #[cold]
    fn note(&mut self, error: io::Error) -> io::Error {
        // A broken pipe is about the own direction; what the peer has said may have ended well before.
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.0.get_or_insert(error.kind());
        }
        error
    }
}

/// The parts of [`Transport`](crate::Transport) that tokio's stream types share, with a `stream` and its `fault`.
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
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            self.fault.of_read(read, buffer.filled().len())
        }

        #[inline]
        fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.fault.of_write(Pin::new(&mut self.stream).poll_write(cx, bytes))
        }

        #[inline]
        fn poll_write_vectored(
            &mut self,
            cx: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.fault.of_write(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))
        }

        fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }

        fn is_cooperative(&self) -> bool {
            true
        }

        fn as_fd(&self) -> Option<BorrowedFd<'_>> {
            Some(AsFd::as_fd(&self.stream))
        }
    };
}

pub(crate) use tokio_stream;
