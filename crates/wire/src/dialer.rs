//! Dialling: a connection to an address, with deadlines.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::address::{Address, ToAddress};
use crate::connection::Connection;
use crate::dial_log::{DialLog, DialStep};
use crate::error::DialError;
use crate::names::{self, Names};
use crate::socket_options::SocketOptions;

/// How to dial.
#[derive(Debug, Clone)]
pub struct DialOptions {
    /// Where the addresses of names come from. Default: the system, with a cache that the process shares.
    pub names: Names,
    /// From the first attempt to the connection, all addresses of a name together (3 s: a lost SYN is sent again after
    /// one second, and again after two more).
    pub connect_timeout: Duration,
    /// Head start of an attempt before the next address is tried beside it (250 ms, RFC 8305 section 5).
    pub attempt_delay: Duration,
    /// Each dial to a name begins with the next of its addresses, instead of the preferred one (`None`: always the preferred one).
    pub in_turn: Option<AddressTurns>,
    /// For a name to resolve: from the question to the first address (2 s). An address needs none of it.
    pub resolve_timeout: Duration,
    /// For the handshake of a wire that has one, after the connection is there (5 s).
    pub handshake_timeout: Duration,
    /// The address of this machine that TCP connections come from (`None`: the one that the system's routes choose). Only peers of its
    /// family can be reached then.
    pub local_address: Option<IpAddr>,
    /// What is set on a TCP socket before it connects (nothing).
    pub socket: SocketOptions,
    /// The name that the peer must prove in the handshake (SNI). `None`: the host of the address. Wires without a
    /// handshake do not read it.
    pub server_name: Option<String>,
    /// Application protocols to offer in the handshake (ALPN), the preferred one first; none by default. The peer's choice
    /// is in [`Connection::negotiated`].
    pub protocols: Vec<String>,
    /// How to speak TLS, on wires that do. `None`: as [`ClientTls::default`](crate::tls::ClientTls), which trusts what the
    /// platform trusts.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ClientTls>,
}

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            names: Names::default(),
            connect_timeout: Duration::from_secs(3),
            attempt_delay: Duration::from_millis(250),
            in_turn: None,
            resolve_timeout: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(5),
            local_address: None,
            socket: SocketOptions::default(),
            server_name: None,
            protocols: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl DialOptions {
    /// Gives up after [`connect_timeout`](Self::connect_timeout): what a [`Wire`](crate::Wire) puts around its attempts.
    ///
    /// # Errors
    /// [`DialError::Timeout`], or the error of `connecting`.
    pub async fn connect_in_time<T>(
        &self,
        address: &Address,
        connecting: impl Future<Output = Result<T, DialError>>,
    ) -> Result<T, DialError> {
        let after = self.connect_timeout;
        let in_time = tokio::time::timeout(after, connecting).await;
        in_time.unwrap_or_else(|_| Err(DialError::Timeout { address: address.clone(), after }))
    }
}

/// Round robin over the addresses of a name: a count of dials, which clones share.
///
/// Addresses that have failed lately take no turn, and stay behind all others. A resolver that gives IPv6 and IPv4 addresses apart has
/// turns within each family, and IPv6 goes first (RFC 8305).
#[derive(Debug, Clone, Default)]
pub struct AddressTurns(Arc<AtomicUsize>);

impl AddressTurns {
    /// The first dial begins with the address behind so many others: processes that share a load begin where the others do not.
    pub fn starting_at(dials: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(dials)))
    }

    /// The number of this dial.
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Makes connections, on the loop that asks for them.
///
/// ```no_run
/// use anywire_wire::Dialer;
///
/// # async fn f() -> Result<(), anywire_wire::DialError> {
/// let connection = Dialer::default().dial("unix:/run/app.sock").await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    options: DialOptions,
}

impl Dialer {
    /// A dialer with these options.
    pub fn new(options: DialOptions) -> Self {
        Self { options }
    }

    /// Its options.
    pub fn options(&self) -> &DialOptions {
        &self.options
    }

    /// The IP addresses of the host of an address, in the order in which they would be tried, with its port.
    ///
    /// # Errors
    /// [`DialError::Resolve`], also for a wire without hosts.
    pub async fn resolve(&self, address: impl ToAddress) -> Result<Vec<SocketAddr>, DialError> {
        names::resolve(&address.to_address()?, &self.options).await
    }

    /// Connects to an [`Address`] or its text: to the first of its hosts that answers. Then makes the handshake if the wire has one.
    ///
    /// # Errors
    /// [`DialError`] names the address, the cause and a remedy. No byte of a request was sent.
    pub async fn dial(&self, address: impl ToAddress) -> Result<Connection, DialError> {
        let address = address.to_address()?;
        let mut connection = address.wire().dial(&address, &self.options).await?;
        DialLog::note(DialStep::Connected);
        connection
            .handshake(self.options.handshake_timeout)
            .await
            .map_err(|cause| DialError::Handshake { address, cause })?;
        Ok(connection)
    }
}
