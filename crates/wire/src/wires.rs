//! The wires of this build: the one place where they are listed, and what a wire must do to be one.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;

/// A way for bytes to travel. Adding one is a file with a type that implements this, and a line in the list below.
pub trait Wire: Sync {
    /// Its name in addresses.
    fn scheme(&self) -> &'static str;

    /// One line for a list of wires.
    fn summary(&self) -> &'static str;

    /// The form of its locations, for error messages: `HOST:PORT, such as 127.0.0.1:8080`.
    fn form(&self) -> &'static str;

    /// Checks a location and gives the one spelling that equal locations share, or says which part is wrong.
    #[expect(clippy::missing_errors_doc, reason = "the sentence above says it")]
    fn normalise(&self, location: &str) -> Result<String, String>;

    /// Host (an IPv6 address without brackets) and port of a location, on wires that have them.
    fn host_and_port<'a>(&self, _location: &'a str) -> Option<(&'a str, u16)> {
        None
    }

    /// Starts to listen, for a server of so many loops.
    #[expect(clippy::missing_errors_doc, reason = "the error type says it")]
    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError>;

    /// Connects, on the loop that polls, and keeps the deadlines of the options.
    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a>;

    /// An address that nobody uses, to listen on for a short while: a free port, a new file. `None` for a wire that
    /// cannot make one up.
    fn scratch(&'static self) -> Option<Address>;

    /// Whether another process can reach what listens on it. A command offers and takes only such wires.
    fn reaches_other_processes(&self) -> bool {
        true
    }

    /// Whether it is worth a row wherever wires are compared: not what is meant for tests.
    fn is_worth_comparing(&self) -> bool {
        self.reaches_other_processes()
    }
}

/// A connection on its way.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<Connection, DialError>> + 'a>>;

/// A wire that listens.
pub struct Bound {
    /// Where it listens, with the port that the system chose.
    pub local: Address,
    /// Dropped when listening ends, before the acceptors are: what takes the name away again. While a socket is open
    /// nobody else can have its file's inode, so that what is taken away is ours.
    pub guard: Option<Box<dyn Send + Sync>>,
    /// One a loop, or one in all whose arrivals are to be spread.
    pub acceptors: Vec<Box<dyn Acceptor>>,
}

/// Accepts connections on the loop that polls it.
pub trait Acceptor: Send {
    /// The next connection, not yet bound to a loop.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>>;
}

/// An accepted connection on its way to its loop.
pub trait Arrival: Send {
    /// Binds it to the loop that calls.
    #[expect(clippy::missing_errors_doc, reason = "whatever the system says to registering a descriptor")]
    fn settle(self: Box<Self>) -> io::Result<Box<dyn Transport>>;
}

/// All wires of this build.
pub fn wires() -> impl Iterator<Item = &'static dyn Wire> {
    WIRES.iter().copied()
}

/// The wire of plain URLs.
pub(crate) const DEFAULT: &dyn Wire = WIRES[0];

const WIRES: &[&dyn Wire] = &[
    &crate::tcp::Tcp,
    &crate::unix::Unix,
    &crate::memory::Memory,
    #[cfg(feature = "stack")]
    &crate::stack::Stack,
];
