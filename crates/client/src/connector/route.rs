//! How a pool's connections reach its origin, and what that means for the requests.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use anywire_http::Url;
use anywire_wire::{Address, Connection, DialError};

use super::{ConnectError, Connector, Direct, Target};
use crate::Error;
use crate::call::request::CallRequest;
use crate::client::config::{Config, Versions};
use crate::contained::{drop_caught, text_of_panic};
use crate::pool::over_tls;
use crate::proxy::{HandshakeLimits, Proxy, ProxyOfCall, Relay, Through};

/// What two calls have in common that share a pool: the origin of their URLs, and how it is reached.
#[derive(Clone, Copy)]
pub(crate) struct RouteKey<'a> {
    pub(crate) url: &'a Url,
    pub(crate) via: Option<&'a Address>,
    proxy: &'a ProxyOfCall,
    /// The connection is to leave HTTP.
    upgrade: bool,
}

impl<'a> RouteKey<'a> {
    pub(crate) fn of(request: &'a CallRequest) -> Self {
        let CallRequest { url, options, upgrade, .. } = request;
        // A wire that a call names is taken as it is.
        let proxy = if options.via.is_some() { &OF_CLIENT } else { &options.proxy };
        Self { url, via: options.via.as_ref(), proxy, upgrade: *upgrade }
    }

    /// The key of calls without options, except for the wire.
    pub(crate) fn to(url: &'a Url, via: Option<&'a Address>) -> Self {
        Self { url, via, proxy: &OF_CLIENT, upgrade: false }
    }

    /// Under which cap the connections count.
    pub(crate) fn cap_key(self, config: &Config) -> CapKey {
        let origin = self.url.origin();
        CapKey { origin: origin.into(), address: self.via.filter(|_| config.balances.has(origin)).cloned() }
    }

    /// Whether the client itself finds the addresses of the origin. A proxy does so elsewhere, and so may a connector of the user's. A wire
    /// that a call names is its address.
    pub(crate) fn is_direct(self, config: &Config) -> bool {
        self.via.is_none() && self.connector(config).is_none() && matches!(self.proxy(config), Ok(None))
    }

    /// The connector of the user's that is asked.
    fn connector(self, config: &Config) -> Option<&Arc<dyn Connector>> {
        let is_asked = self.via.is_none() && !matches!(self.proxy, ProxyOfCall::This(_));
        config.network.connector.as_ref().filter(|_| is_asked)
    }

    /// The proxy that the connections go through.
    fn proxy(self, config: &Config) -> Result<Option<Proxy>, Error> {
        match self.proxy {
            _ if self.via.is_some() => Ok(None),
            ProxyOfCall::None => Ok(None),
            ProxyOfCall::This(proxy) => Ok(Some(proxy.clone())),
            ProxyOfCall::OfClient if config.network.connector.is_some() => Ok(None),
            ProxyOfCall::OfClient => match &config.network.proxies {
                None => Ok(None),
                Some(Ok(proxies)) => Ok(proxies.of(self.url).cloned()),
                Some(Err(source)) => Err(Error::ProxyUrl { source: Arc::clone(source) }),
            },
        }
    }

    /// The address of the origin, with TLS if the URL says so.
    fn address(self) -> Result<Address, Error> {
        let address = match self.via {
            Some(address) => address.clone(),
            None => Address::from_host(self.url.host_with_zone(), self.url.port())
                .map_err(|source| Error::Host { origin: self.url.origin().to_owned(), source })?,
        };
        // Also for a wire that the call names: an interceptor may have changed the scheme of the URL since then.
        if self.url.is_https() { over_tls(&address) } else { Ok(address) }
    }
}

static OF_CLIENT: ProxyOfCall = ProxyOfCall::OfClient;

/// Which connections count under one cap: those to an origin, by all routes. Each address of a [`Balance`](crate::Balance) has a cap of
/// its own.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CapKey {
    pub(crate) origin: Box<str>,
    pub(crate) address: Option<Address>,
}

/// How the connections of a pool are made.
pub(crate) struct Route {
    via: Option<Address>,
    proxy: ProxyOfCall,
    connector: Arc<dyn Connector>,
    target: Target,
    /// The proxy reads the requests, instead of making a tunnel.
    relay: Option<Arc<Relay>>,
    calls: Calls,
}

/// Which calls take a route. A proxy makes a tunnel for an upgrade, and reads the other requests of clear text itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    All,
    Upgrades,
    NoUpgrades,
}

impl Route {
    pub(crate) fn of(key: RouteKey<'_>, config: &Config) -> Result<Self, Error> {
        let (url, address, proxy) = (key.url, key.address()?, key.proxy(config)?);
        let needs_tls = address.has_tls() || proxy.as_ref().is_some_and(Proxy::is_https);
        let dialer = config.dialer(url.host(), needs_tls)?;
        let target = Target::new(url.host(), url.port(), url.is_https(), address, dialer);
        // HTTP/2, and what switches protocols, is nothing that a proxy could relay.
        let is_plain = !url.is_https() && config.versions != Versions::Http2;
        let relaying = proxy.as_ref().filter(|proxy| is_plain && !proxy.is_socks());
        let calls = match relaying {
            None => Calls::All,
            Some(_) if key.upgrade => Calls::Upgrades,
            Some(_) => Calls::NoUpgrades,
        };
        let relay = relaying.filter(|_| !key.upgrade).map(|proxy| Arc::new(Relay::of(proxy)));
        let connector: Arc<dyn Connector> = match (proxy, key.connector(config)) {
            (Some(proxy), _) => {
                let through = Through::new(proxy).limits(HandshakeLimits::of(&config.limits));
                Arc::new(if relay.is_some() { through.without_tunnel() } else { through })
            }
            (None, Some(own)) => Arc::clone(own),
            (None, None) => Arc::new(Direct),
        };
        Ok(Self { via: key.via.cloned(), proxy: key.proxy.clone(), connector, target, relay, calls })
    }

    /// Whether calls with this key take the route. The origin is not compared.
    pub(crate) fn serves(&self, key: RouteKey<'_>) -> bool {
        self.via.as_ref() == key.via
            && self.proxy == *key.proxy
            && match self.calls {
                Calls::All => true,
                Calls::Upgrades => key.upgrade,
                Calls::NoUpgrades => !key.upgrade,
            }
    }

    pub(crate) fn relay(&self) -> Option<&Arc<Relay>> {
        self.relay.as_ref()
    }

    /// The address of the origin.
    pub(crate) fn address(&self) -> &Address {
        self.target.address()
    }

    /// Whether a handshake with the origin agrees on the version of HTTP.
    pub(crate) fn agrees_on_version(&self) -> bool {
        self.relay.is_none() && self.address().has_tls()
    }

    /// A connection on which HTTP is spoken. A panic of the user's code, of a connector or a hook on sockets, is an error of the dial:
    /// the calls that wait for it are told.
    pub(crate) async fn connect(&self, config: &Config) -> Result<Connection, ConnectError> {
        let mut connecting = None;
        let connected = poll_fn(|cx| {
            let poll =
                || connecting.get_or_insert_with(|| self.connector.connect(&self.target)).as_mut().poll(cx);
            catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|payload| {
                let cause = io::Error::other(format!("it panicked: {}", text_of_panic(payload)));
                Poll::Ready(Err(DialError::System { address: self.address().clone(), cause }.into()))
            })
        });
        let outcome = connected.await;
        // Its destructor is the user's code as well.
        drop_caught(connecting);
        let connection = outcome?;
        if self.agrees_on_version() && !config.agrees_with(&connection) {
            let cause = io::Error::new(io::ErrorKind::InvalidData, "it does not agree to HTTP/2 (ALPN)");
            return Err(DialError::Handshake { address: self.address().clone(), cause }.into());
        }
        Ok(connection)
    }
}
