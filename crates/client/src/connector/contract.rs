//! The seam between a pool and the network.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

#[cfg(feature = "tls")]
use anywire_wire::tls::HandshakeError;
use anywire_wire::{Connection, DialError};

use super::Target;
use crate::proxy::ProxyError;
use crate::{Error, Phase};

/// Makes connections: wire, proxies and TLS, in the order that it likes. HTTP is spoken on the result as it is.
///
/// A client has one for all its loops, which ask it on their own threads. It keeps the deadlines of the target's
/// [`dialer`](Target::dialer). A call by [`via`](crate::Call::via) names its wire, and takes no connector.
///
/// | to | use |
/// | --- | --- |
/// | dial as a client without a connector does | [`Direct`](super::Direct) |
/// | dial another address | [`Target::dialer`] |
/// | go through a proxy, or several | [`Through`](crate::proxy::Through) |
/// | speak TLS as the client is told to, where the URL says so | [`Target::secure`] |
///
/// ```
/// use anywire_client::Client;
/// use anywire_client::connector::{Connecting, Connector, Direct, Target};
///
/// /// Reaches all that is internal by the socket of a tunnel.
/// struct ByTunnel;
///
/// impl Connector for ByTunnel {
///     fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
///         Box::pin(async move {
///             if !target.host().ends_with(".internal") {
///                 return Direct.connect(target).await;
///             }
///             let connection = target.dialer().dial("unix:/run/tunnel.sock").await?;
///             Ok(target.secure(connection).await?)
///         })
///     }
/// }
///
/// let client = Client::builder().connector(ByTunnel).build();
/// ```
pub trait Connector: Send + Sync + 'static {
    /// A connection to this target, on the loop that polls. It is dropped if nobody waits for it any more.
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a>;
}

/// A connection on its way.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + 'a>>;

impl Connector for Arc<dyn Connector> {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        (**self).connect(target)
    }
}

/// Why there is no connection. No byte of a request was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The wire made none, or a handshake of TLS failed. Other errors of a connector of your own are a
    /// [`DialError::System`] with the target's address.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// A proxy made none.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

impl ConnectError {
    /// Whether a connection was made, and a handshake of TLS on it failed or took too long.
    pub(crate) fn is_handshake(&self) -> bool {
        match self {
            Self::Dial(cause) => matches!(cause, DialError::Handshake { .. }),
            Self::Proxy(cause) => cause.is_handshake(),
        }
    }

    /// Whether a name has no address, or none in time.
    pub(crate) fn is_resolve(&self) -> bool {
        match self {
            Self::Dial(cause) => matches!(cause, DialError::Resolve { .. }),
            Self::Proxy(cause) => cause.is_resolve(),
        }
    }

    /// Whether it counts against the address that was dialled, if that is one of several, and this end could have reached another one.
    pub(crate) fn is_of_address(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Dial(cause) if cause.handshake().is_some_and(HandshakeError::is_own_certificate) => false,
            Self::Dial(
                DialError::Address(_)
                | DialError::Descriptors { .. }
                | DialError::NoLocalPort { .. }
                | DialError::NoInterface { .. },
            ) => false,
            Self::Dial(cause) => !cause.is_limit(),
            // Addresses of several are dialled directly.
            Self::Proxy(_) => false,
        }
    }

    /// The phase whose deadline passed, if that is why.
    pub(crate) fn overdue(&self) -> Option<Phase> {
        match self {
            Self::Dial(DialError::Timeout { .. }) => Some(Phase::Connect),
            Self::Dial(cause @ DialError::Handshake { .. }) => cause.is_timeout().then_some(Phase::Handshake),
            Self::Dial(cause @ DialError::Resolve { .. }) => cause.is_timeout().then_some(Phase::Resolve),
            Self::Dial(_) => None,
            Self::Proxy(cause) if !cause.is_timeout() => None,
            Self::Proxy(cause) if cause.is_resolve() => Some(Phase::Resolve),
            Self::Proxy(cause) if cause.is_handshake() => Some(Phase::Handshake),
            Self::Proxy(_) => Some(Phase::Connect),
        }
    }

    pub(crate) fn into_error(self, origin: String, sent: bool) -> Error {
        match self {
            Self::Dial(source) => Error::Connect { origin, source, sent },
            Self::Proxy(source) => Error::Proxy { origin, source, sent },
        }
    }
}
