//! Connections through a proxy.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anywire_wire::{Connection, DialLog, DialStep};

use super::server::Kind;
use super::{Handshake, HandshakeLimits, Proxy, ProxyError, ProxyReason};
use crate::connector::{ConnectError, Connecting, Connector, Direct, Target};

/// Makes connections through a proxy: reaches the proxy, speaks TLS to it if its scheme is `https`, has it make a tunnel, and speaks TLS to the
/// origin within, if the URL says so.
///
/// A client with [proxies](crate::ClientBuilder::proxies) does this by itself. Here it is for a
/// [connector of your own](crate::ClientBuilder::connector), such as two proxies one behind the other:
///
/// ```
/// use anywire_client::Client;
/// use anywire_client::proxy::{Proxy, Through};
///
/// let (near, far): (Proxy, Proxy) = ("socks5h://near:1080".parse()?, "http://far:3128".parse()?);
/// let client = Client::builder().connector(Through::new(far).over(Through::new(near))).build();
/// # Ok::<(), anywire_client::proxy::ProxyUrlError>(())
/// ```
#[derive(Clone)]
pub struct Through {
    proxy: Proxy,
    /// What reaches the proxy.
    below: Arc<dyn Connector>,
    limits: HandshakeLimits,
    /// Without a tunnel the proxy itself is spoken to.
    makes_tunnels: bool,
}

impl Through {
    /// Through this proxy, which is reached directly.
    pub fn new(proxy: Proxy) -> Self {
        Self { proxy, below: Arc::new(Direct), limits: HandshakeLimits::default(), makes_tunnels: true }
    }

    /// The same, and the proxy is reached by another connector.
    #[must_use]
    pub fn over(self, below: impl Connector) -> Self {
        Self { below: Arc::new(below), ..self }
    }

    /// How much the proxy may send before the tunnel begins.
    #[must_use]
    pub fn limits(self, limits: HandshakeLimits) -> Self {
        Self { limits, ..self }
    }

    /// To the proxy itself, which is to relay requests.
    pub(crate) fn without_tunnel(self) -> Self {
        Self { makes_tunnels: false, ..self }
    }

    fn error(&self, reason: ProxyReason) -> ConnectError {
        ProxyError::new(&self.proxy, reason).into()
    }

    /// A connection to the proxy.
    async fn reach(&self, target: &Target) -> Result<Connection, ConnectError> {
        let to_proxy = target.of_proxy(&self.proxy);
        self.below.connect(&to_proxy).await.map_err(|error| match error {
            ConnectError::Dial(cause) => self.error(ProxyReason::Dial(cause)),
            // Of a proxy on the way to this one.
            error @ ConnectError::Proxy(_) => error,
        })
    }

    async fn tunnel(&self, connection: Connection, target: &Target) -> Result<Connection, ConnectError> {
        let after = target.dialer().options().connect_timeout;
        let host = match self.proxy.kind() {
            Kind::Socks5 => target.resolve().await?,
            _ => target.host().to_owned(),
        };
        let handshake = Handshake::new(&self.proxy, &host, target.port(), &self.limits);
        let handshake = handshake.map_err(|reason| self.error(reason))?;
        let tunnel = in_time(after, ask(connection, handshake)).await.map_err(|reason| self.error(reason))?;
        DialLog::note(DialStep::Tunnelled);
        Ok(tunnel)
    }
}

impl Connector for Through {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let connection = self.reach(target).await?;
            if !self.makes_tunnels {
                return Ok(connection);
            }
            let connection = self.tunnel(connection, target).await?;
            Ok(target.secure(connection).await?)
        })
    }
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Through").field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

async fn in_time<T>(
    after: Duration,
    asking: impl Future<Output = Result<T, ProxyReason>>,
) -> Result<T, ProxyReason> {
    let in_time = tokio::time::timeout(after, asking).await;
    in_time.unwrap_or(Err(ProxyReason::TimedOut { after }))
}

/// Carries a handshake to its end.
async fn ask(mut connection: Connection, mut handshake: Handshake) -> Result<Connection, ProxyReason> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let sent = connection.write_all(handshake.output()).await;
        if sent.is_ok() {
            handshake.sent(handshake.output().len());
        }
        // A proxy that does not read on may have said why.
        let read = match connection.read(&mut buffer).await {
            Ok(0) => return Err(sent.map_or_else(ProxyReason::Broken, |()| ProxyReason::Closed)),
            Ok(read) => read,
            Err(error) => return Err(ProxyReason::Broken(error)),
        };
        if let Some(taken) = handshake.receive(&buffer[..read])? {
            return Ok(connection.preceded_by(buffer[taken..read].to_vec()));
        }
    }
}

/// A head of a response, as a rule.
const READ_BYTES: usize = 4 << 10;
