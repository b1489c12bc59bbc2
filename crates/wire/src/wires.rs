//! What a wire implements, and the list of those in this build.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;

/// A way for bytes to travel.
///
/// A program can implement one of its own, listen and dial on it with [`Address::on`], and serve and call HTTP over it.
/// The example `own_wire` does so. What its connections must keep is at [`Transport`](crate::Transport).
///
/// Two wires of one type that differ in their state must differ in their [`scheme`](Self::scheme): by type and scheme
/// addresses are compared.
pub trait Wire: Any + Sync {
    /// Its name in addresses.
    fn scheme(&self) -> &'static str;

    /// One line for a list of wires.
    fn summary(&self) -> &'static str;

    /// The form of its locations, for error messages: `HOST:PORT, such as 127.0.0.1:8080`.
    fn form(&self) -> &'static str;

    /// Checks a location and gives the one spelling that equal locations share.
    ///
    /// # Errors
    /// Says which part of the location is wrong, and how.
    fn normalise(&self, location: &str) -> Result<String, String>;

    /// The names of the options that its addresses may have.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks one of its [`options`](Self::options) and gives the one spelling of its value.
    ///
    /// # Errors
    /// Says why the value is wrong, or that this location cannot have the option.
    fn normalise_option(&self, _location: &str, _name: &str, value: &str) -> Result<String, String> {
        Ok(value.to_owned())
    }

    /// Host (an IPv6 address without brackets) and port of a location, on wires that have them.
    fn host_and_port<'a>(&self, _location: &'a str) -> Option<(&'a str, u16)> {
        None
    }

    /// Starts to listen, for a server of so many loops.
    ///
    /// # Errors
    /// [`ListenError`]; [`ListenError::from_io`] sorts errors of the system.
    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError>;

    /// Connects, on the loop that polls, and keeps the deadlines of the options ([`DialOptions::connect_in_time`]). A
    /// handshake is not made here but by [`Dialer`](crate::Dialer), with a deadline of its own.
    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a>;

    /// An address to listen on that no other listener uses, such as a free port or a new file; the listener then tells which
    /// one it is. `None` if the wire cannot make one up.
    fn scratch(&'static self) -> Option<Address>;

    /// Whether another process can reach a listener of this wire, at some locations at least. The command `anywire` takes only such
    /// wires.
    fn reaches_other_processes(&self) -> bool {
        true
    }

    /// Whether a location is of this process alone.
    fn is_within_process(&self, _location: &str) -> bool {
        !self.reaches_other_processes()
    }
}

/// A connection on its way.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<Connection, DialError>> + 'a>>;

/// A wire that listens.
pub struct Bound {
    /// Where it listens, with the port that the system chose.
    pub local: Address,
    /// Releases the address when it is dropped, such as by unlinking the socket file. Dropped when listening ends, before
    /// the acceptors: the open socket pins the inode, so that no other server's file can be unlinked.
    pub guard: Option<Box<dyn Send + Sync>>,
    /// One for each loop, or a single one whose connections are distributed round-robin.
    pub acceptors: Vec<Box<dyn Acceptor>>,
}

/// For whom accepting has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// This acceptor, such as one whose engine has panicked. Those of other loops go on.
    One,
    /// All acceptors of the listener, such as those on a device that was removed.
    All,
}

/// Accepts connections on the loop that polls it.
pub trait Acceptor: Send {
    /// The next connection, not yet registered with a loop.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>>;

    /// Whether accepting has failed for good, and for whom: then nobody tries again. The listener ends with the last error once none of
    /// its acceptors is left.
    fn ended(&self) -> Option<Ended> {
        None
    }

    /// The loop that polled it has died, and another one polls it next. Gives up what is registered with the first one, such as a
    /// socket. Called only if it is the one of several loops.
    fn leave_loop(&mut self) {}
}

/// An accepted connection on its way to its loop.
pub trait Arrival: Send {
    /// Registers it with the loop that calls. A handshake is not made here: it belongs into
    /// [`Transport::poll_handshake`](crate::Transport::poll_handshake), which does not hold up other arrivals.
    ///
    /// # Errors
    /// Any error of the system; the connection is closed then.
    fn register(self: Box<Self>) -> io::Result<Connection>;
}

/// All wires of this build, in this order: `tcp` (the wire of plain URLs), `unix`, `memory`, `stack` and `shm` if those features are
/// on, and with the feature `tls` the same again with TLS around them.
pub fn wires() -> impl Iterator<Item = &'static dyn Wire> {
    WIRES.iter().copied()
}

/// The wire of plain URLs.
pub(crate) static DEFAULT: &dyn Wire = &crate::tcp::Tcp;

static WIRES: &[&dyn Wire] = &[
    &crate::tcp::Tcp,
    &crate::unix::Unix,
    &crate::memory::Memory,
    #[cfg(feature = "stack")]
    &crate::stack::Stack,
    #[cfg(feature = "shm")]
    &crate::shm::Shm,
    #[cfg(feature = "tls")]
    &crate::tls::TCP,
    #[cfg(feature = "tls")]
    &crate::tls::UNIX,
    #[cfg(feature = "tls")]
    &crate::tls::MEMORY,
    #[cfg(all(feature = "tls", feature = "stack"))]
    &crate::tls::STACK,
    #[cfg(all(feature = "tls", feature = "shm"))]
    &crate::tls::SHM,
];
