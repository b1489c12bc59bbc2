//! Connecting out from a task.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_tcp::{ConnectError, ConnectOptions, End, Status};
use thiserror::Error;

use super::conn::Conn;
use super::context::swarm_state;
use super::leaf::current;

/// Opens a connection from the running task, from any address and port of its engine. The task itself gets its events: no
/// other task is started.
///
/// ```no_run
/// use anywire_stack::swarm::{self, Incoming};
/// use anywire_tcp::ConnectOptions;
///
/// async fn forward(mut incoming: Incoming) {
///     let to = "10.0.0.9:7".parse().expect("an address");
///     match swarm::connect(to, ConnectOptions::default()).await {
///         Ok(mut far) => swarm::splice(&mut incoming.conn, &mut far).await,
///         Err(_) => incoming.conn.abort(),
///     }
/// }
/// ```
///
/// # Errors
///
/// The future gives a [`DialError`]. If it is dropped before it is ready, the attempt ends.
pub const fn connect(to: SocketAddr, options: ConnectOptions) -> Dial {
    Dial { state: State::New { from: None, to, options } }
}

/// The same from this address and port.
///
/// # Errors
///
/// As [`connect`].
pub const fn connect_from(from: SocketAddr, to: SocketAddr, options: ConnectOptions) -> Dial {
    Dial { state: State::New { from: Some(from), to, options } }
}

/// The future of [`connect`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Dial {
    state: State,
}

#[derive(Debug)]
enum State {
    New { from: Option<SocketAddr>, to: SocketAddr, options: ConnectOptions },
    Opening(Conn),
    Over,
}

impl Future for Dial {
    type Output = Result<Conn, DialError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<Conn, DialError>> {
        let conn = match std::mem::replace(&mut self.state, State::Over) {
            State::New { from, to, options } => {
                let mut state = swarm_state();
                let id = match from {
                    Some(from) => state.engine.connect_from(from, to, options),
                    None => state.engine.connect(to, options),
                }?;
                // Even if it has this task's own number: otherwise it would start a task when it opens.
                state.owners.set(id.index(), current());
                Conn::claim(&mut state, id)
            }
            State::Opening(conn) => conn,
            State::Over => panic!("a future of swarm::connect was polled after its end"),
        };
        match conn.status() {
            Status::Opening => {
                swarm_state().wait_for(conn.index());
                self.state = State::Opening(conn);
                Poll::Pending
            }
            Status::Ended(End::Refused) => Poll::Ready(Err(DialError::Refused)),
            Status::Ended(End::TimedOut) => Poll::Ready(Err(DialError::TimedOut)),
            Status::Ended(End::NetworkDown) => Poll::Ready(Err(DialError::NetworkDown)),
            Status::Ended(End::Unreachable) => Poll::Ready(Err(DialError::Unreachable)),
            Status::Ended(End::Reset | End::Aborted) => Poll::Ready(Err(DialError::Reset)),
            Status::Ended(End::Closed) | Status::Open | Status::PeerClosed => Poll::Ready(Ok(conn)),
        }
    }
}

/// Why a task's connection was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DialError {
    /// Nothing was sent: the caller's fault, or a limit.
    #[error("the connection was not begun")]
    Begin(#[from] ConnectError),
    /// The peer is there and does not listen on the port.
    #[error("the peer does not listen on that port")]
    Refused,
    /// The peer did not answer within the engine's time for opening (180 s by default). [`timeout`](super::timeout) ends an
    /// attempt sooner.
    #[error("the peer did not answer: check that it runs, and the route to it")]
    TimedOut,
    /// Nobody at the next hop answers: the host is not there, or the gateway is not.
    #[error("nobody answers on the link: check that the host or the gateway runs, and its address")]
    Unreachable,
    /// Our address was taken away meanwhile, or the network interface.
    #[error("our address is gone, or the interface that had it: add one, and connect again")]
    NetworkDown,
    /// The connection was reset before it was open.
    #[error("the connection was reset before it was open")]
    Reset,
}
