//! How a client reaches its origins: its connector or its proxies.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use anywire_wire::SocketOptions;

use super::Connector;
use crate::Error;
use crate::proxy::ProxyOfCall;
use crate::proxy::{Proxies, ProxyUrlError, ToProxy};
use crate::{Call, ClientBuilder};

/// The settings of a client that its routes are made of.
#[derive(Clone, Default)]
pub(crate) struct Network {
    pub(crate) connector: Option<Arc<dyn Connector>>,
    /// None: those of the environment, once the client is built.
    pub(crate) proxies: Option<Result<Proxies, Arc<ProxyUrlError>>>,
    pub(crate) socket: SocketOptions,
    pub(crate) local_address: Option<IpAddr>,
}

impl Network {
    /// With the proxies of the environment, if none are given.
    pub(crate) fn built(self) -> Self {
        let proxies = self.proxies.unwrap_or_else(|| Proxies::from_environment().map_err(Arc::new));
        Self { proxies: Some(proxies), ..self }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connector = self.connector.as_ref().map(|_| "..");
        f.debug_struct("Network")
            .field("connector", &connector)
            .field("proxies", &self.proxies)
            .field("socket", &self.socket)
            .field("local_address", &self.local_address)
            .finish()
    }
}

impl ClientBuilder {
    /// All calls go through this proxy: `http://user:password@host:3128`, `https://..`, `socks5://..` or `socks5h://..`. By
    /// [`proxies`](Self::proxies) it can be for some of them. What is wrong with the URL is [`Error::ProxyUrl`] of each call.
    ///
    /// Without this and the two below, a client uses the proxies of the environment, as curl and reqwest do:
    /// [`Proxies::from_environment`]. Calls by [`via`](Call::via) go through none, and neither does what is
    /// [sent on](crate::Client::forward) to an upstream.
    ///
    /// ```
    /// use anywire_client::Client;
    ///
    /// let client = Client::builder().proxy("socks5h://localhost:9050").build();
    /// ```
    pub fn proxy(self, proxy: impl ToProxy) -> Self {
        self.choose(Proxies::all(proxy))
    }

    /// These proxies for these calls.
    pub fn proxies(self, proxies: Proxies) -> Self {
        self.choose(Ok(proxies))
    }

    /// No proxy, whatever the environment says.
    pub fn no_proxy(self) -> Self {
        self.choose(Ok(Proxies::none()))
    }

    fn choose(mut self, proxies: Result<Proxies, ProxyUrlError>) -> Self {
        self.network.proxies = Some(proxies.map_err(Arc::new));
        self
    }

    /// What is set on each TCP socket before it connects: probes, buffers, an interface, and what a function of your own does
    /// ([`SocketOptions`]; nothing by default). A [`Connector`] can have other options for some origins, by a dialler of its own.
    ///
    /// ```
    /// use anywire_client::Client;
    /// use anywire_wire::{KeepAlive, SocketOptions};
    ///
    /// let socket = SocketOptions { keep_alive: Some(KeepAlive::default()), ..SocketOptions::default() };
    /// let client = Client::builder().socket(socket).build();
    /// ```
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.network.socket = options;
        self
    }

    /// The address of this machine that TCP connections come from, instead of the one that its routes choose. Only peers of its family can
    /// be reached then.
    pub fn local_address(mut self, address: IpAddr) -> Self {
        self.network.local_address = Some(address);
        self
    }

    /// What makes the connections, instead of the client's proxies: see [`Connector`]. Calls by [`via`](Call::via), and those with a
    /// [proxy of their own](Call::proxy), do not take it.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.network.connector = Some(Arc::new(connector));
        self
    }
}

impl Call {
    /// The proxy of this call, instead of its client's. [`send`](Self::send) reports what is wrong with the URL. A call
    /// [`via`](Self::via) a wire goes through none.
    ///
    /// Connections through different proxies are never shared.
    pub fn proxy(self, proxy: impl ToProxy) -> Self {
        self.edit(|request| {
            let proxy = proxy.to_proxy().map_err(|source| Error::ProxyUrl { source: Arc::new(source) })?;
            request.options.proxy = ProxyOfCall::This(proxy);
            Ok(())
        })
    }

    /// No proxy for this call.
    pub fn no_proxy(self) -> Self {
        self.edit(|request| {
            request.options.proxy = ProxyOfCall::None;
            Ok(())
        })
    }
}
