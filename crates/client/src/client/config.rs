//! The settings of a client, or of one of its origins.

use std::sync::Arc;

use anywire_http::h2;
use anywire_wire::names::Names;
#[cfg(feature = "tls")]
use anywire_wire::tls::{ClientTls, TlsError};
use anywire_wire::{Connection, DialOptions, Dialer};

use crate::balancer::balance::Balance;
use crate::call::request::CallRequest;
use crate::chain::{Links, Redirects, Retries};
use crate::client::by_origin::ByOrigin;
use crate::connection::pipeline::Pipelines;
use crate::connector::Network;
use crate::observe::Observers;
use crate::{Error, Limits, Timeouts};

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) versions: Versions,
    pub(crate) network: Network,
    /// Several addresses for some origins.
    pub(crate) balances: ByOrigin<Balance>,
    /// Origins whose calls share connections of HTTP/1.
    pub(crate) pipelines: Pipelines,
    /// Where addresses come from.
    pub(crate) names: Names,
    pub(crate) interceptors: Links,
    /// Whether there is any link around the attempts of all calls.
    pub(crate) has_links: bool,
    /// Whether connections of HTTP/1 carry more than one call.
    pub(crate) keep_alive: bool,
    /// From which size on a body waits for a 100. None: none does.
    pub(crate) expect_continue: Option<u64>,
    /// None: the usual ones.
    pub(crate) codecs: Option<Arc<crate::codec::Codecs>>,
    /// Rules and credentials, in this order.
    pub(crate) hop_links: Links,
    /// Cookies and interceptors, in this order.
    pub(crate) attempt_links: Links,
    #[cfg(feature = "signatures")]
    pub(crate) signatures: crate::auth::Signatures,
    /// Of calls that have none.
    pub(crate) user_agent: Option<String>,
    pub(crate) redirects: Arc<Redirects>,
    pub(crate) retries: Arc<Retries>,
    /// Are told of attempts and connections.
    pub(crate) observers: Observers,
    /// Whether the time of each phase is recorded.
    pub(crate) measures: bool,
    /// None: as the platform has it.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Result<ClientTls, Arc<TlsError>>>,
    /// The name that peers have to prove, if it is not the host of the URL.
    #[cfg(feature = "tls")]
    pub(crate) server_name: Option<String>,
}

/// The versions of HTTP that a client speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Versions {
    /// What the handshake agrees on; without one, HTTP/1.
    #[default]
    Negotiated,
    Http1,
    /// HTTP/2, which the peer is known to speak.
    Http2,
}

impl Config {
    /// The limits of an HTTP/2 connection.
    pub(crate) fn http2(&self) -> h2::EngineLimits {
        h2::EngineLimits { head: self.limits.head, connection: self.limits.http2 }
    }

    /// Whether something sees every attempt.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.measures || !self.observers.is_empty()
    }

    /// The protocols to offer in a handshake.
    pub(crate) fn offers(&self) -> Vec<String> {
        let names: &[&str] = match self.versions {
            Versions::Negotiated => &["h2", "http/1.1"],
            Versions::Http1 => &["http/1.1"],
            Versions::Http2 => &["h2"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// How connections for `host` are dialled. `needs_tls`: with it, or a proxy on the way is spoken to over TLS.
    pub(crate) fn dialer(&self, host: &str, needs_tls: bool) -> Result<Dialer, Error> {
        let options = DialOptions {
            local_address: self.network.local_address,
            socket: self.network.socket.clone(),
            names: self.names.clone(),
            resolve_timeout: self.timeouts.resolve,
            connect_timeout: self.timeouts.connect,
            handshake_timeout: self.timeouts.handshake,
            server_name: Some(self.server_name(host)),
            protocols: self.offers(),
            ..DialOptions::default()
        };
        #[cfg(feature = "tls")]
        if needs_tls {
            let tls = self.tls.clone().transpose().map_err(|source| Error::Tls { source })?;
            return Ok(Dialer::new(DialOptions { tls, ..options }));
        }
        let _ = needs_tls;
        Ok(Dialer::new(options))
    }

    fn server_name(&self, host: &str) -> String {
        #[cfg(feature = "tls")]
        if let Some(name) = &self.server_name {
            return name.clone();
        }
        host.to_owned()
    }

    /// Whether the handshake of TLS has agreed on a version that the client speaks.
    pub(crate) fn agrees_with(&self, connection: &Connection) -> bool {
        self.versions != Versions::Http2 || agreed_on_http2(connection)
    }

    /// Whether a call goes through the chain from its start.
    #[inline]
    pub(crate) fn has_links(&self, request: &CallRequest) -> bool {
        #[cfg(feature = "signatures")]
        if request.options.signer.is_some() {
            return true;
        }
        let _ = request;
        self.has_links
    }

    /// How a call follows redirects.
    pub(crate) fn redirects_of(&self, request: &CallRequest) -> Arc<Redirects> {
        Arc::clone(request.options.redirects.as_ref().unwrap_or(&self.redirects))
    }

    /// How a call is repeated.
    pub(crate) fn retries_of<'a>(&'a self, request: &'a CallRequest) -> &'a Retries {
        request.options.retries.as_ref().unwrap_or(&self.retries)
    }

    /// Whether a new connection speaks HTTP/2.
    pub(crate) fn speaks_http2(&self, connection: &Connection) -> bool {
        match self.versions {
            Versions::Negotiated => agreed_on_http2(connection),
            Versions::Http1 => false,
            Versions::Http2 => true,
        }
    }
}

fn agreed_on_http2(connection: &Connection) -> bool {
    connection.negotiated().is_some_and(|agreed| agreed.protocol.as_deref() == Some("h2"))
}
