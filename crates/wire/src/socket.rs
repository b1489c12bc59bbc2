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
    pub(crate) fn of_read(&mut self, read: io::Result<usize>) -> io::Result<usize> {
        match read {
            Ok(0) => self.0.map_or(Ok(0), |fault| Err(fault.into())),
            Ok(read) => Ok(read),
            Err(error) => Err(self.note(error)),
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

/// How many bytes a call of the system has moved, if it was made and did not say that it would block.
#[derive(Debug, Default)]
pub(crate) struct Moved(Option<usize>);

impl Moved {
    /// Makes a call, within `try_io` of tokio's streams. If it leaves room, tokio is told that the next one would block, which
    /// saves that one.
    #[inline]
    pub(crate) fn by(
        &mut self,
        room: usize,
        call: impl FnOnce() -> rustix::io::Result<usize>,
    ) -> io::Result<()> {
        let moved = call()?;
        self.0 = Some(moved);
        if 0 < moved && moved < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// What the call has done; `None` if it has to wait.
    #[inline]
    pub(crate) fn outcome(self, tried: io::Result<()>) -> Option<io::Result<usize>> {
        match (self.0, tried) {
            (Some(moved), _) => Some(Ok(moved)),
            (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Some(Err(error)),
            (None, _) => None,
        }
    }
}

/// The parts of [`Transport`](crate::Transport) that tokio's stream types share, with a `stream` and its `fault`.
///
/// Calls of the system stand within `try_io`: `AsyncRead` and `AsyncWrite` of the streams took 200 instructions more for a
/// request and its response.
macro_rules! tokio_stream {
    () => {
        #[inline]
        fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.stream.poll_read_ready(cx)
        }

        #[inline]
        fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            let room = buffer.len();
            loop {
                if let Err(error) = ready!(self.stream.poll_read_ready(cx)) {
                    return Poll::Ready(self.fault.of_read(Err(error)));
                }
                let mut moved = Moved::default();
                let receive = || recv(&self.stream, &mut *buffer, RecvFlags::empty()).map(|(read, _)| read);
                let tried = self.stream.try_io(Interest::READABLE, || moved.by(room, receive));
                if let Some(read) = moved.outcome(tried) {
                    return Poll::Ready(self.fault.of_read(read));
                }
            }
        }

        #[inline]
        fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let stream = &self.stream;
            // Nearly always there is room, and asking for it first would cost as much as the rest.
            let written = cooperate(cx, |cx| {
                loop {
                    let mut moved = Moved::default();
                    let send = || send(stream, bytes, SendFlags::NOSIGNAL);
                    let tried = stream.try_io(Interest::WRITABLE, || moved.by(bytes.len(), send));
                    if let Some(written) = moved.outcome(tried) {
                        return Poll::Ready(written);
                    }
                    ready!(stream.poll_write_ready(cx))?;
                }
            });
            self.fault.of_write(written)
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
