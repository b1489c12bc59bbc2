//! Connections through a proxy.

use std::fmt;
use std::sync::Arc;

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

    /// Through a proxy that is reached by another connector.
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

    /// A connection to the target: to the first of its addresses which the proxy reaches, if they are resolved here.
    async fn tunnel(&self, target: &Target) -> Result<Connection, ConnectError> {
        let mut connection = self.reach(target).await?;
        let mut hosts = match self.proxy.kind() {
            Kind::Socks5 => target.resolve().await?,
            _ => Vec::new(),
        }
        .into_iter();
        let mut host = hosts.next().unwrap_or_else(|| target.host().to_owned());
        let asking = async {
            loop {
                let handshake = Handshake::new(&self.proxy, &host, target.port(), &self.limits);
                let handshake = handshake.map_err(|reason| self.error(reason))?;
                host = match (ask(connection, handshake).await, hosts.next()) {
                    (Ok(tunnel), _) => return Ok(tunnel),
                    (Err(ProxyReason::Socks(_)), Some(next)) => next,
                    (Err(reason), _) => return Err(self.error(reason)),
                };
                // After its answer the proxy closes (RFC 1928 section 6).
                connection = self.reach(target).await?;
            }
        };
        // All addresses of the origin together.
        let after = target.dialer().options().connect_timeout;
        let asked = tokio::time::timeout(after, asking).await;
        let tunnel = asked.unwrap_or_else(|_| Err(self.error(ProxyReason::TimedOut { after })))?;
        DialLog::note(DialStep::Tunnelled);
        Ok(tunnel)
    }
}

impl Connector for Through {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            if !self.makes_tunnels {
                return self.reach(target).await;
            }
            let connection = self.tunnel(target).await?;
            Ok(target.secure(connection).await?)
        })
    }
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Through").field("proxy", &self.proxy).finish_non_exhaustive()
    }
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
