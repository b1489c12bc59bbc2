//! The wires with TLS around them.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::error::TlsError;
use super::server::Accepting;
use super::stream::TlsStream;
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::unix::Unix;
use crate::wires::{Acceptor, Arrival, Bound, Dialing, Ended, Wire};

/// TLS around a wire: one of this crate, or your own.
///
/// ```
/// use anywire_wire::tls::Tls;
///
/// static INNER: &dyn anywire_wire::Wire = /* your wire */
/// # { struct W; impl anywire_wire::Wire for W {
/// #     fn scheme(&self) -> &'static str { "own" } fn summary(&self) -> &'static str { "" }
/// #     fn form(&self) -> &'static str { "" }
/// #     fn normalise(&self, location: &str) -> Result<String, String> { Ok(location.to_owned()) }
/// #     fn bind(&'static self, _: &anywire_wire::Address, _: &anywire_wire::ListenOptions, _: usize)
/// #         -> Result<anywire_wire::Bound, anywire_wire::ListenError> { unimplemented!() }
/// #     fn dial<'a>(&'static self, _: &'a anywire_wire::Address, _: &'a anywire_wire::DialOptions)
/// #         -> anywire_wire::Dialing<'a> { unimplemented!() }
/// #     fn scratch(&'static self) -> Option<anywire_wire::Address> { None }
/// # } &W };
/// static TLS: Tls = Tls::around(INNER, "tls+own", "TLS over my wire");
/// let address = anywire_wire::Address::on(&TLS, "where")?;
/// assert_eq!(address.to_string(), "tls+own:where");
/// # Ok::<(), anywire_wire::AddressError>(())
/// ```
pub struct Tls {
    inner: &'static dyn Wire,
    scheme: &'static str,
    summary: &'static str,
}

/// TLS over TCP: the wire of URLs that begin with `https:`.
pub(crate) static TCP: Tls = Tls::around(&crate::tcp::Tcp, "tls", "TLS over TCP");
pub(crate) static UNIX: Tls = Tls::around(&Unix, "tls+unix", "TLS over Unix sockets");
pub(crate) static MEMORY: Tls = Tls::around(&crate::memory::Memory, "tls+memory", "TLS within this process");
#[cfg(feature = "stack")]
pub(crate) static STACK: Tls = Tls::around(&crate::stack::Stack, "tls+stack", "TLS over TCP in user space");

#[cfg(feature = "shm")]
pub(crate) static SHM: Tls = Tls::around(&crate::shm::Shm, "tls+shm", "TLS over shared memory");

impl Tls {
    /// TLS around this wire. Locations and options are those of the wire.
    pub const fn around(inner: &'static dyn Wire, scheme: &'static str, summary: &'static str) -> Self {
        Self { inner, scheme, summary }
    }

    /// The wire below.
    pub fn inner(&self) -> &'static dyn Wire {
        self.inner
    }

    /// Whether the bytes of a connection lie in a Unix socket as they are.
    pub(super) fn is_over_unix(&self) -> bool {
        (self.inner as &dyn Any).is::<Unix>()
    }

    /// The wire of this build that is TLS around this one.
    pub(crate) fn of(inner: &'static dyn Wire) -> Option<&'static Self> {
        let mut all = crate::wires().filter_map(|wire| (wire as &dyn Any).downcast_ref::<Self>());
        all.find(|tls| same(tls.inner, inner))
    }

    /// The address of this wire for one of the wire below.
    pub(super) fn outer(&'static self, inner: &Address) -> Address {
        inner.with_wire(self)
    }

    /// The name that the peer at this address has to prove.
    fn server_name<'a>(&self, address: &'a Address, options: &'a DialOptions) -> io::Result<&'a str> {
        let host = || self.host_and_port(address.location()).map(|(host, _)| host);
        options.server_name.as_deref().or_else(host).ok_or_else(|| {
            let message = "it is not known what name the peer has to prove: there is none in the address, and \
                           no `server_name` in the options";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
    }
}

impl Wire for Tls {
    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn form(&self) -> &'static str {
        self.inner.form()
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        self.inner.normalise(location)
    }

    fn options(&self) -> &'static [&'static str] {
        self.inner.options()
    }

    fn normalise_option(&self, location: &str, name: &str, value: &str) -> Result<String, String> {
        self.inner.normalise_option(location, name, value)
    }

    fn host_and_port<'a>(&self, location: &'a str) -> Option<(&'a str, u16)> {
        self.inner.host_and_port(location)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let Some(tls) = &options.tls else {
            return Err(ListenError::NoCertificate { address: address.clone() });
        };
        let accepting = Arc::new(tls.accepting(options));
        let bound = self.inner.bind(&address.with_wire(self.inner), options, loops);
        let bound = bound.map_err(|error| error.at(address))?;
        let with_tls = |acceptor| {
            Box::new(TlsAcceptor { wire: self, acceptor, accepting: Arc::clone(&accepting) })
                as Box<dyn Acceptor>
        };
        Ok(Bound {
            local: self.outer(&bound.local),
            guard: bound.guard,
            acceptors: bound.acceptors.into_iter().map(with_tls).collect(),
        })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let wrong = |cause| DialError::Handshake { address: address.clone(), cause };
            let name = self.server_name(address, options).map_err(wrong)?;
            let tls = options.tls.clone().unwrap_or_default();
            let session = tls.session(name, &options.protocols).map_err(|error| wrong(invalid(error)))?;
            let connection = self.inner.dial(&address.with_wire(self.inner), options).await;
            let connection = connection.map_err(|error| error.at(address))?;
            Ok(Connection::new(TlsStream::connect(Some(self), connection, name.to_owned(), session)))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        self.inner.scratch().as_ref().map(|inner| self.outer(inner))
    }

    fn reaches_other_processes(&self) -> bool {
        self.inner.reaches_other_processes()
    }

    fn is_within_process(&self, location: &str) -> bool {
        self.inner.is_within_process(location)
    }
}

/// Whether two are the same wire: by type and name, as addresses are compared.
fn same(one: &'static dyn Wire, other: &'static dyn Wire) -> bool {
    let types = [one, other].map(|wire| (wire as &dyn Any).type_id());
    types[0] == types[1] && one.scheme() == other.scheme()
}

struct TlsAcceptor {
    wire: &'static Tls,
    acceptor: Box<dyn Acceptor>,
    accepting: Arc<Accepting>,
}

impl Acceptor for TlsAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let arrival = ready!(self.acceptor.poll_accept(cx))?;
        Poll::Ready(Ok(Box::new(TlsArrival {
            wire: self.wire,
            arrival,
            accepting: Arc::clone(&self.accepting),
        })))
    }

    fn ended(&self) -> Option<Ended> {
        self.acceptor.ended()
    }

    fn leave_loop(&mut self) {
        self.acceptor.leave_loop();
    }
}

struct TlsArrival {
    wire: &'static Tls,
    arrival: Box<dyn Arrival>,
    accepting: Arc<Accepting>,
}

impl Arrival for TlsArrival {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        let connection = self.arrival.register()?;
        let stream = TlsStream::accept(Some(self.wire), connection, self.accepting);
        Ok(Connection::new(stream.map_err(io::Error::other)?))
    }
}

fn invalid(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
