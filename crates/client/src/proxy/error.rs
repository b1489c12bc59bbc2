//! Why a proxy did not make the connection, and what is wrong with the URL of one.

use std::fmt;
use std::io;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_http::h1::DecodeError;
use anywire_http::{Fault, StatusCode};
use anywire_wire::{AddressError, DialError};

use super::Proxy;

/// A proxy that made no connection. No byte of a request was sent. It names the proxy, and never who we are to it.
#[derive(Debug)]
pub struct ProxyError {
    proxy: Proxy,
    reason: ProxyReason,
}

impl ProxyError {
    /// This proxy, for this reason: for a [`Connector`](crate::Connector) of your own.
    pub fn new(proxy: &Proxy, reason: ProxyReason) -> Self {
        Self { proxy: proxy.clone(), reason }
    }

    /// The proxy.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// What it did.
    pub fn reason(&self) -> &ProxyReason {
        &self.reason
    }

    /// What it did, without the proxy.
    pub fn into_reason(self) -> ProxyReason {
        self.reason
    }

    /// Who can mend it.
    pub fn fault(&self) -> Fault {
        match &self.reason {
            ProxyReason::LoginWanted { .. } | ProxyReason::LoginRefused | ProxyReason::Target => {
                Fault::Caller
            }
            ProxyReason::Dial(DialError::Handshake { .. }) => Fault::Peer,
            ProxyReason::Dial(DialError::Address(_)) => Fault::Caller,
            ProxyReason::Dial(cause) if cause.is_limit() => Fault::Limit,
            ProxyReason::Dial(_) | ProxyReason::Broken(_) => Fault::Wire,
            ProxyReason::Malformed(cause) => cause.fault(),
            _ => Fault::Peer,
        }
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        match &self.reason {
            ProxyReason::TimedOut { .. } => true,
            ProxyReason::Dial(cause) => cause.is_timeout(),
            _ => false,
        }
    }

    /// Whether its name has no address, or none in time.
    pub(crate) fn is_resolve(&self) -> bool {
        matches!(&self.reason, ProxyReason::Dial(DialError::Resolve { .. }))
    }

    /// Whether the proxy was reached, and its TLS handshake failed or took too long.
    pub fn is_handshake(&self) -> bool {
        matches!(&self.reason, ProxyReason::Dial(DialError::Handshake { .. }))
    }
}

#[cfg(feature = "tls")]
impl ProxyError {
    /// What TLS with the proxy found, if that is why.
    pub(crate) fn handshake(&self) -> Option<&anywire_wire::tls::HandshakeError> {
        match &self.reason {
            ProxyReason::Dial(cause) => cause.handshake(),
            _ => None,
        }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, reason } = self;
        write!(f, "the proxy {proxy} {reason}")
    }
}

impl std::error::Error for ProxyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            ProxyReason::Dial(cause) => Some(cause),
            ProxyReason::Broken(cause) => Some(cause),
            ProxyReason::Malformed(cause) => Some(cause),
            _ => None,
        }
    }
}

/// What a proxy did instead of making a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProxyReason {
    /// No connection to it could be made, or TLS with it failed. Fault of the wire, or of the proxy.
    Dial(DialError),
    /// It did not answer. It may have waited for the origin. Fault of the proxy, or a limit.
    TimedOut {
        /// [`Timeouts::connect`](crate::Timeouts::connect).
        after: Duration,
    },
    /// It closed the connection before its answer was whole. Fault of the proxy.
    Closed,
    /// The connection to it broke. Fault of the wire.
    Broken(io::Error),
    /// It answered CONNECT with this status. Fault of the proxy, or of the origin that it cannot reach.
    Refused(StatusCode),
    /// It wants to know who we are (407, or no method of SOCKS5 that we have). Fault of the caller.
    LoginWanted {
        /// What it offers, as its `proxy-authenticate` says.
        offers: Option<String>,
    },
    /// It does not take the user and password that it was given. Fault of the caller.
    LoginRefused,
    /// It answered by SOCKS5 that it made no connection. Fault of the proxy, or of the origin that it cannot reach.
    Socks(SocksReply),
    /// Its answer is not HTTP, or is over a limit. Fault of the proxy.
    Malformed(DecodeError),
    /// It sent so many interim responses (1xx) and none that is final. Fault of the proxy.
    Interim(usize),
    /// Its answer is not SOCKS5. Fault of the proxy.
    NotSocks,
    /// It answered before it was asked. Fault of the proxy.
    Early,
    /// The origin cannot be named to it: SOCKS5 has names of up to 255 bytes, and as much for user and password. Fault of the caller.
    Target,
}

impl fmt::Display for ProxyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(_) => write!(f, "cannot be reached"),
            Self::TimedOut { after } => {
                write!(
                    f,
                    "made no connection within {after:?}{}",
                    Advice("see what it waits for, or raise `connect`")
                )
            }
            Self::Closed => write!(f, "closed the connection before it had answered{}", Advice(ITS_LOG)),
            Self::Broken(_) => write!(f, "was lost before it had answered{}", Advice(ITS_LOG)),
            Self::Refused(status) => write!(f, "answered {status} to CONNECT{}", Advice(ITS_LOG)),
            Self::LoginWanted { offers: Some(offers) } => {
                write!(f, "wants to know who asks, by {offers:?}{}", Advice(LOGIN))
            }
            Self::LoginWanted { offers: None } => write!(f, "wants to know who asks{}", Advice(LOGIN)),
            Self::LoginRefused => {
                write!(f, "does not take the user and password that it was given{}", Advice(LOGIN))
            }
            Self::Socks(reply) => write!(f, "answered: {reply}{}", Advice(ITS_LOG)),
            Self::Malformed(_) => write!(f, "gave an answer that cannot be read{}", Advice(SPEAKS)),
            Self::Interim(count) => write!(f, "sent {count} interim responses and no final one"),
            Self::NotSocks => write!(f, "does not speak SOCKS5{}", Advice(SPEAKS)),
            Self::Early => write!(f, "answered before it was asked{}", Advice(SPEAKS)),
            Self::Target => write!(
                f,
                "cannot be told of that host{}",
                Advice("SOCKS5 takes names, users and passwords of up to 255 bytes")
            ),
        }
    }
}

const ITS_LOG: &str = "its log may say why";
const LOGIN: &str = "give them in its URL, or by `Proxy::basic_auth`";
const SPEAKS: &str = "check that its scheme and port are right";

/// A reply of SOCKS5 that is no success (RFC 1928 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocksReply(
    /// Its code.
    pub u8,
);

impl fmt::Display for SocksReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.0 {
            1 => "it has failed",
            2 => "its rules do not allow this connection",
            3 => "the network of the origin cannot be reached",
            4 => "the host of the origin cannot be reached",
            5 => "the origin refuses the connection",
            6 => "the time to live of a packet has expired",
            7 => "it does not know the command CONNECT",
            8 => "it does not know this type of address",
            _ => "it made no connection",
        };
        write!(f, "{meaning} (SOCKS5 reply {})", self.0)
    }
}

/// What is wrong with the URL of a proxy (the caller's fault). It does not show a user and password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyUrlError {
    /// Its scheme is none of a proxy.
    #[error(
        "the scheme of the proxy {url:?} is not one of http, https, socks5 and socks5h{help}",
        help = Advice("http://host:port is wanted")
    )]
    Scheme {
        /// The URL, without user and password.
        url: String,
    },
    /// It names no host and port, or has more than these.
    #[error("the proxy {url:?} is not a host and a port{help}", help = Advice("http://host:port is wanted"))]
    Place {
        /// The URL, without user and password.
        url: String,
    },
    /// Its user and password are not percent-encoded.
    #[error(
        "the user and password of the proxy {url:?} are not percent-encoded{help}",
        help = Advice("write % as %25, and @ as %40")
    )]
    UserInfo {
        /// The URL, without user and password.
        url: String,
    },
    /// Its scheme is `https`, and this build speaks no TLS, or none around that wire.
    #[error("the proxy is to be spoken to over TLS, which this build cannot{help}", help = Advice("build it with the feature `tls`"))]
    Tls,
    /// The address given to [`Proxy::via`] is none.
    #[error("cannot reach the proxy by way of {:?}", source.text())]
    Via {
        /// The part that is wrong.
        source: AddressError,
    },
    /// The variable of the environment holds no proxy.
    #[error("cannot use the proxy that the environment names in {variable}")]
    Environment {
        /// Its name.
        variable: &'static str,
        /// What is wrong with it.
        source: Box<Self>,
    },
}
