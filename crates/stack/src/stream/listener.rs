//! A listening port, with its queue of connections to accept.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anywire_tcp::ConnectOptions;

use super::duplex::Stream;
use super::interface::Shared;

/// How to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that wait to be accepted, and one more, as with listen(2). While they do, others wait for their handshake: see
    /// [`Engine::set_backlog`](anywire_tcp::Engine::set_backlog). Default 1024.
    pub backlog: usize,
    /// Options of accepted connections. Default: small writes leave at once, no keep-alive.
    pub connections: ConnectOptions,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let connections = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
        Self { backlog: 1024, connections }
    }
}

/// A port that is listened on; made by [`Interface::listen`](super::Interface::listen). Dropping it frees the port
/// and resets the connections that were not accepted. Accepted ones go on.
pub struct Listener {
    pub(super) shared: Rc<Shared>,
    pub(super) address: SocketAddr,
    /// Under which the queue is found.
    pub(super) key: SocketAddr,
}

impl Listener {
    /// The next connection that has come. It may have ended already, which a read will say.
    ///
    /// # Errors
    /// `ConnectionAborted` if the [`Driver`](super::Driver) is no more; `NetworkDown` if the device is gone.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let id = ready!(self.shared.with(|core| core.poll_accept(self.key, cx)))?;
        Poll::Ready(Ok(Stream { shared: Rc::clone(&self.shared), id }))
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// `ConnectionAborted` if the [`Driver`](super::Driver) is no more; `NetworkDown` if the device is gone.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.with(|core| core.stop_listening(self.key));
        self.shared.release();
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish()
    }
}
