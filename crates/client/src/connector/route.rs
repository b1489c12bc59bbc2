//! The way of a pool's connections to its origin, and what it means for the requests.

use std::sync::Arc;

use anywire_wire::{Address, Connection, DialError};

use super::{ConnectError, Connector, Direct, Target};
use crate::Error;
use crate::inner::{Config, Versions};
use crate::pool::over_tls;
use crate::proxy::{HandshakeLimits, Proxy, ProxyOfCall, Relay, Through};
use crate::request::CallRequest;

/// How the connections of a pool are made.
pub(crate) struct Route {
    via: Option<Address>,
    proxy: ProxyOfCall,
    connector: Arc<dyn Connector>,
    target: Target,
    /// The proxy reads the requests, instead of making a tunnel.
    relay: Option<Arc<Relay>>,
}

impl Route {
    /// The way of this request, and of those like it.
    pub(crate) fn of(request: &CallRequest, config: &Config) -> Result<Self, Error> {
        let url = &request.url;
        let address = match &request.options.via {
            Some(address) => address.clone(),
            None => {
                let plain = Address::from_host(url.host_with_zone(), url.port())
                    .map_err(|source| Error::Host { origin: url.origin().to_owned(), source })?;
                if url.is_https() { over_tls(&plain)? } else { plain }
            }
        };
        let proxy = proxy_of(request, config)?;
        let needs_tls = address.has_tls() || proxy.as_ref().is_some_and(Proxy::is_https);
        let dialer = config.dialer(url.host(), needs_tls)?;
        let target = Target::new(url.host(), url.port(), url.is_https(), address, dialer);
        let mut relay = None;
        let connector: Arc<dyn Connector> = match proxy {
            Some(proxy) => {
                let through = Through::new(proxy.clone()).limits(HandshakeLimits::of(&config.limits));
                // What switches protocols, and HTTP/2, is nothing that a proxy could relay.
                let relays = !proxy.is_socks()
                    && !url.is_https()
                    && config.versions != Versions::Http2
                    && !request.upgrade;
                if relays {
                    relay = Some(Arc::new(Relay::of(&proxy)));
                    Arc::new(through.without_tunnel())
                } else {
                    Arc::new(through)
                }
            }
            None => match &config.network.connector {
                Some(own) if takes_own(request) => Arc::clone(own),
                _ => Arc::new(Direct),
            },
        };
        let (via, proxy) = (request.options.via.clone(), request.options.proxy.clone());
        Ok(Self { via, proxy, connector, target, relay })
    }

    /// Whether it is the way of a request to the same origin.
    pub(crate) fn serves(&self, request: &CallRequest) -> bool {
        self.via == request.options.via
            && self.proxy == request.options.proxy
            && (self.relay.is_none() || !request.upgrade)
    }

    pub(crate) fn relay(&self) -> Option<&Arc<Relay>> {
        self.relay.as_ref()
    }

    /// Whether a handshake with the origin agrees on the version of HTTP.
    pub(crate) fn agrees_on_version(&self) -> bool {
        self.relay.is_none() && self.target.address().has_tls()
    }

    /// A connection on which HTTP is spoken.
    pub(crate) async fn connect(&self, config: &Config) -> Result<Connection, ConnectError> {
        let connection = self.connector.connect(&self.target).await?;
        if self.agrees_on_version() && !config.agrees_with(&connection) {
            let cause =
                std::io::Error::new(std::io::ErrorKind::InvalidData, "it does not agree to HTTP/2 (ALPN)");
            return Err(DialError::Handshake { address: self.target.address().clone(), cause }.into());
        }
        Ok(connection)
    }
}

/// A wire that a call names is taken as it is, and so is a proxy.
fn takes_own(request: &CallRequest) -> bool {
    request.options.via.is_none() && !matches!(request.options.proxy, ProxyOfCall::This(_))
}

/// The proxy for a request.
fn proxy_of(request: &CallRequest, config: &Config) -> Result<Option<Proxy>, Error> {
    match &request.options.proxy {
        _ if request.options.via.is_some() => Ok(None),
        ProxyOfCall::None => Ok(None),
        ProxyOfCall::This(proxy) => Ok(Some(proxy.clone())),
        ProxyOfCall::OfClient if config.network.connector.is_some() => Ok(None),
        ProxyOfCall::OfClient => match &config.network.proxies {
            None => Ok(None),
            Some(Ok(proxies)) => Ok(proxies.of(&request.url).cloned()),
            Some(Err(source)) => Err(Error::ProxyUrl { source: Arc::clone(source) }),
        },
    }
}
