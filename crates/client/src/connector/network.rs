//! How a client reaches its origins: its connector or its proxies.

use std::fmt;
use std::sync::Arc;

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
        f.debug_struct("Network").field("connector", &connector).field("proxies", &self.proxies).finish()
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
