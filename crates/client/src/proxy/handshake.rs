//! What is said to a proxy until it has made a tunnel: a state machine without I/O.

use anywire_http::HeadLimits;

use super::http::Connect;
use super::socks::Socks;
use super::{Proxy, ProxyReason};
use crate::Limits;

/// Has a proxy make a tunnel: bytes to it, bytes from it, and then the tunnel or the reason why there is none.
///
/// Send [`output`](Self::output), give what comes to [`receive`](Self::receive), and the same again until it says where the tunnel begins.
/// [`Through`](super::Through) does so on a connection, with a deadline.
///
/// ```
/// use anywire_client::proxy::{Handshake, HandshakeLimits, Proxy};
///
/// let proxy: Proxy = "http://proxy.example:3128".parse()?;
/// let mut handshake = Handshake::new(&proxy, "example.com", 443, &HandshakeLimits::default()).expect("a host");
/// assert_eq!(handshake.output(), b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n");
/// handshake.sent(handshake.output().len());
/// let bytes = b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-";
/// assert_eq!(handshake.receive(bytes).expect("a tunnel"), Some(19), "the rest is the origin's");
/// # Ok::<(), anywire_client::proxy::ProxyUrlError>(())
/// ```
pub struct Handshake {
    protocol: Protocol,
    output: Vec<u8>,
    sent: usize,
}

enum Protocol {
    Http(Box<Connect>),
    Socks(Socks),
}

/// What a proxy may send before the tunnel begins. SOCKS5 has no need of limits: its longest reply is 262 bytes.
#[derive(Debug, Clone)]
pub struct HandshakeLimits {
    /// Limits of the head of the response to CONNECT, and of each interim one. Default: [`HeadLimits::default`].
    pub head: HeadLimits,
    /// Interim responses (1xx) before the final one. Default 16, as in [`Limits::interim_responses`].
    pub interim_responses: usize,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self::of(&Limits::default())
    }
}

impl HandshakeLimits {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { head: limits.head, interim_responses: limits.interim_responses }
    }
}

impl Handshake {
    /// Asks this proxy for a tunnel to a host, which is a name or an IP address without brackets.
    ///
    /// # Errors
    /// [`ProxyReason::Target`] if the proxy cannot be told of that host, or of the user and password.
    pub fn new(proxy: &Proxy, host: &str, port: u16, limits: &HandshakeLimits) -> Result<Self, ProxyReason> {
        let mut output = Vec::new();
        let protocol = if proxy.is_socks() {
            Protocol::Socks(Socks::new(proxy.login(), host, port, &mut output)?)
        } else {
            Protocol::Http(Box::new(Connect::new(proxy.login(), host, port, limits, &mut output)?))
        };
        Ok(Self { protocol, output, sent: 0 })
    }

    /// What is to be sent next. If it is empty, the proxy's turn has come.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// So many bytes of the output were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = self.output.len().min(self.sent + count);
    }

    /// Takes bytes of the proxy. If the tunnel begins within them, says how many of these bytes are before it: those behind are of
    /// the origin. `None`: there is more to send, or to receive.
    ///
    /// # Errors
    /// Why there is no tunnel. The connection is of no further use.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProxyReason> {
        let has_asked = self.output().is_empty();
        if has_asked {
            self.output.clear();
            self.sent = 0;
        }
        match &mut self.protocol {
            Protocol::Http(connect) => connect.receive(bytes, has_asked),
            Protocol::Socks(_) if !has_asked => Err(ProxyReason::Early),
            Protocol::Socks(socks) => socks.receive(bytes, &mut self.output),
        }
    }
}
