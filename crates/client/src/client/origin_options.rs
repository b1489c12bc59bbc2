//! Options that hold for one origin, and may change while the client runs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use anywire_wire::SocketOptions;
#[cfg(feature = "tls")]
use anywire_wire::tls::{ClientTls, TlsError};

use crate::chain::{Redirects, Retries};
use crate::client::by_origin::ByOrigin;
use crate::client::config::{Config, Versions};
use crate::proxy::{Proxies, ProxyUrlError, ToProxy};
use crate::{Client, Error, Limits, Timeouts};

/// What holds for one origin in place of what the client has: [`ClientBuilder::origin_options`](crate::ClientBuilder::origin_options)
/// and [`Client::set_origin_options`]. What is not given is the client's.
///
/// A redirect, a rule or an interceptor that leads to another origin brings a call under the options of that one. What the call says
/// itself stays, such as [`Call::read_timeout`](crate::Call::read_timeout), and so does the deadline of the whole call.
///
/// ```
/// use std::time::Duration;
/// use anywire_client::{Client, Limits, OriginOptions, Timeouts};
///
/// let slow = OriginOptions::default()
///     .limits(Limits { connections_per_origin: 4, ..Limits::default() })
///     .timeouts(Timeouts { read: Duration::from_secs(120), ..Timeouts::default() });
/// let client = Client::builder().origin_options("http://reports.internal", slow).build();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until a client has them"]
pub struct OriginOptions {
    limits: Option<Limits>,
    timeouts: Option<Timeouts>,
    versions: Option<Versions>,
    proxies: Option<Result<Proxies, Arc<ProxyUrlError>>>,
    retries: Option<Arc<Retries>>,
    redirects: Option<Arc<Redirects>>,
    keep_alive: Option<bool>,
    socket: Option<SocketOptions>,
    local_address: Option<IpAddr>,
    #[cfg(feature = "tls")]
    tls: Option<Result<ClientTls, Arc<TlsError>>>,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
}

impl OriginOptions {
    /// How much of each thing there may be. [`Limits::origins`] is the client's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits.at_least_one());
        self
    }

    /// All deadlines: of phases, and of connections, such as how long they are kept.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = Some(timeouts);
        self
    }

    /// HTTP/1 only, whatever the peer offers.
    pub fn http1_only(mut self) -> Self {
        self.versions = Some(Versions::Http1);
        self
    }

    /// HTTP/2 only, without asking the peer: as
    /// [`ClientBuilder::http2_prior_knowledge`](crate::ClientBuilder::http2_prior_knowledge).
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.versions = Some(Versions::Http2);
        self
    }

    /// [`ClientBuilder::proxy`](crate::ClientBuilder::proxy). What is wrong with the URL is [`Error::ProxyUrl`] of each call.
    pub fn proxy(mut self, proxy: impl ToProxy) -> Self {
        self.proxies = Some(Proxies::all(proxy).map_err(Arc::new));
        self
    }

    /// No proxy, whatever the client and the environment say.
    pub fn no_proxy(mut self) -> Self {
        self.proxies = Some(Ok(Proxies::none()));
        self
    }

    /// How attempts are repeated, or how often: [`Retries`].
    pub fn retries(mut self, retries: impl Into<Retries>) -> Self {
        self.retries = Some(Arc::new(retries.into()));
        self
    }

    /// How redirects from this origin are followed, or how many: [`Redirects`].
    pub fn redirects(mut self, redirects: impl Into<Redirects>) -> Self {
        self.redirects = Some(Arc::new(redirects.into()));
        self
    }

    /// [`ClientBuilder::keep_alive`](crate::ClientBuilder::keep_alive).
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.keep_alive = Some(keep_alive);
        self
    }

    /// Options of the sockets that lead there: [`ClientBuilder::socket`](crate::ClientBuilder::socket).
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.socket = Some(options);
        self
    }

    /// The address of this machine from which connections are made: [`ClientBuilder::local_address`](crate::ClientBuilder::local_address).
    pub fn local_address(mut self, address: IpAddr) -> Self {
        self.local_address = Some(address);
        self
    }

    /// How TLS is spoken, such as with another certificate of this end: [`ClientBuilder::tls`](crate::ClientBuilder::tls). A
    /// fault in the options is [`Error::Tls`] of each call.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: impl anywire_wire::tls::ToClientTls) -> Self {
        self.tls = Some(tls.to_client_tls().map_err(Arc::new));
        self
    }

    /// The name that the peer must prove: [`ClientBuilder::server_name`](crate::ClientBuilder::server_name).
    #[cfg(feature = "tls")]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    fn over(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if let Some(limits) = &self.limits {
            config.limits = Limits { origins: config.limits.origins, ..limits.clone() };
        }
        config.timeouts = self.timeouts.clone().unwrap_or(config.timeouts);
        config.versions = self.versions.unwrap_or(config.versions);
        config.keep_alive = self.keep_alive.unwrap_or(config.keep_alive);
        if let Some(proxies) = &self.proxies {
            config.network.proxies = Some(proxies.clone());
        }
        if let Some(socket) = &self.socket {
            config.network.socket = socket.clone();
        }
        config.network.local_address = self.local_address.or(config.network.local_address);
        if let Some(retries) = &self.retries {
            config.retries = Arc::clone(retries);
        }
        if let Some(redirects) = &self.redirects {
            config.redirects = Arc::clone(redirects);
        }
        #[cfg(feature = "tls")]
        {
            config.tls = self.tls.clone().or(config.tls);
            config.server_name = self.server_name.clone().or(config.server_name);
        }
        config
    }
}

/// The origins with options of their own.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// Whether there is any, or a fault: most clients have none, and look at nothing else.
    is_used: AtomicBool,
    configs: RwLock<HashMap<Box<str>, Arc<Config>>>,
    /// What the builder was told.
    said: ByOrigin<OriginOptions>,
}

impl Origins {
    /// As the builder was told.
    pub(crate) fn new(said: ByOrigin<OriginOptions>, config: &Config) -> Self {
        let origins = Self { is_used: AtomicBool::new(!said.is_empty()), said, configs: RwLock::default() };
        origins.said.iter().for_each(|(origin, options)| origins.set(origin, options, config));
        origins
    }

    fn set(&self, origin: &str, options: &OriginOptions, config: &Config) {
        let config = Arc::new(options.over(config));
        // Nothing panics while the lock is held.
        self.configs.write().unwrap_or_else(PoisonError::into_inner).insert(origin.into(), config);
        self.is_used.store(true, Ordering::Release);
    }

    fn clear(&self, origin: &str) {
        self.configs.write().unwrap_or_else(PoisonError::into_inner).remove(origin);
    }

    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// The settings of an origin that has its own.
    #[inline]
    pub(crate) fn config_of(&self, origin: &str) -> Result<Option<Arc<Config>>, Error> {
        if !self.is_used() {
            return Ok(None);
        }
        self.said.check()?;
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        Ok(configs.get(origin).map(Arc::clone))
    }
}

impl Client {
    /// Gives an origin other options while the client runs, or its first ones. Calls that wait for a connection, and all that come
    /// later, have the new ones: a larger limit serves waiting calls at once. Idle connections are closed, and busy ones after
    /// their calls, which keep their deadlines. They count until then, so a smaller limit is never passed by new ones.
    ///
    /// ```
    /// # fn main() -> Result<(), anywire_client::Error> {
    /// use anywire_client::{Client, Limits, OriginOptions};
    ///
    /// let client = Client::new();
    /// let limits = Limits { connections_per_origin: 64, ..Limits::default() };
    /// client.set_origin_options("http://shop.internal", &OriginOptions::default().limits(limits))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Url`](Error::Url) if that is no origin.
    pub fn set_origin_options(&self, origin: impl AsRef<str>, options: &OriginOptions) -> Result<(), Error> {
        let url = crate::call::parse_url(origin.as_ref())?;
        let inner = &self.handle;
        inner.origins().set(url.origin(), options, inner.config());
        inner.renew_pools(url.origin());
        Ok(())
    }

    /// Takes the options of an origin back, while the client runs or before: it has those of the client from here on. What that means for
    /// calls and connections is as [above](Self::set_origin_options).
    ///
    /// # Errors
    /// [`Url`](Error::Url) if that is no origin.
    pub fn clear_origin_options(&self, origin: impl AsRef<str>) -> Result<(), Error> {
        let url = crate::call::parse_url(origin.as_ref())?;
        self.handle.origins().clear(url.origin());
        self.handle.renew_pools(url.origin());
        Ok(())
    }
}
