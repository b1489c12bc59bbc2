//! Where a connection is to lead.

use anywire_wire::{Address, Connection, DialError, DialOptions, Dialer};

use crate::proxy::Proxy;

/// Where a connection is to lead, and how it is dialled: the origin of a URL, or a proxy before it.
#[derive(Debug, Clone)]
pub struct Target {
    host: Box<str>,
    port: u16,
    is_https: bool,
    address: Address,
    dialer: Dialer,
}

impl Target {
    pub(crate) fn new(host: &str, port: u16, is_https: bool, address: Address, dialer: Dialer) -> Self {
        Self { host: host.into(), port, is_https, address, dialer }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Whether TLS is to be spoken, so that [`secure`](Self::secure) does so.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// A name, or an IP address without brackets and zone.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a client without proxies dials: `tcp:HOST:PORT`, or `tls:HOST:PORT`. For a proxy, where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A dialler with the client's deadlines, socket options and TLS. It offers the protocols that the client speaks.
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Speaks TLS around a connection that leads to the target, if the scheme is `https`; the connection as it is if not.
    ///
    /// # Errors
    /// [`DialError::Handshake`], with the address of the target.
    pub async fn secure(&self, connection: Connection) -> Result<Connection, DialError> {
        if !self.is_https {
            return Ok(connection);
        }
        self.secured(connection)
            .await
            .map_err(|cause| DialError::Handshake { address: self.address.clone(), cause })
    }

    #[cfg(feature = "tls")]
    async fn secured(&self, connection: Connection) -> std::io::Result<Connection> {
        let DialOptions { tls, server_name, protocols, handshake_timeout, .. } = self.dialer.options();
        let name = server_name.as_deref().unwrap_or(&self.host);
        let secured = tls.clone().unwrap_or_default().around(connection, name, protocols);
        let mut secured =
            secured.map_err(|wrong| std::io::Error::new(std::io::ErrorKind::InvalidInput, wrong))?;
        secured.handshake(*handshake_timeout).await?;
        Ok(secured)
    }

    #[cfg(not(feature = "tls"))]
    async fn secured(&self, _connection: Connection) -> std::io::Result<Connection> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// The IP addresses of the host, as text.
    ///
    /// # Errors
    /// [`DialError::Resolve`].
    pub(crate) async fn resolve(&self) -> Result<Vec<String>, DialError> {
        let found = self.dialer.resolve(&self.address).await?;
        Ok(found.iter().map(|address| address.ip().to_string()).collect())
    }

    /// The proxy through which this target is reached.
    pub(crate) fn of_proxy(&self, proxy: &Proxy) -> Self {
        let options = DialOptions {
            // The name of the client's options is for origins, and so are the protocols.
            server_name: Some(proxy.host().to_owned()),
            protocols: vec!["http/1.1".to_owned()],
            ..self.dialer.options().clone()
        };
        let (host, port, address) = (proxy.host(), proxy.port(), proxy.address().clone());
        Self::new(host, port, proxy.is_https(), address, Dialer::new(options))
    }
}
