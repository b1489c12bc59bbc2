//! Proxies: which call goes through which one, and what is said to it.
//!
//! | to | use |
//! | --- | --- |
//! | send all calls of a client through one | [`ClientBuilder::proxy`](crate::ClientBuilder::proxy) |
//! | choose by scheme and host | [`Proxies`], [`ClientBuilder::proxies`](crate::ClientBuilder::proxies) |
//! | use none, whatever the environment says | [`ClientBuilder::no_proxy`](crate::ClientBuilder::no_proxy) |
//! | decide for one call | [`Call::proxy`](crate::Call::proxy), [`Call::no_proxy`](crate::Call::no_proxy) |
//! | go through several, or reach one over a wire | [`Through`], [`Proxy::via`] |
//!
//! A client that is told nothing reads the environment, as curl and reqwest do: see [`Proxies::from_environment`].
//!
//! | the proxy | `http` URL | `https` URL, and HTTP/2 |
//! | --- | --- | --- |
//! | `http://`, `https://` (TLS to the proxy) | the proxy reads the request, which names the whole URL (absolute-form, RFC 9112 section 3.2.2) | a tunnel by CONNECT (RFC 9110 section 9.3.6), within which TLS is spoken |
//! | `socks5://`, `socks5h://` (RFC 1928) | a tunnel | a tunnel |
//!
//! What the proxy says while a tunnel is made is read by a [`Handshake`], a state machine without I/O: it takes no more than the limits of
//! heads allow, and what is behind the response belongs to the tunnel. A user and a password ([RFC 1929], RFC 7617) go to the proxy only,
//! and are shown nowhere: neither by `Debug` nor in errors.
//!
//! [RFC 1929]: https://www.rfc-editor.org/rfc/rfc1929

mod choice;
mod error;
mod handshake;
mod http;
mod no_proxy;
mod relay;
mod server;
mod socks;
mod through;

pub use choice::Proxies;
pub(crate) use choice::ProxyOfCall;
pub use error::{ProxyError, ProxyReason, ProxyUrlError, SocksReply};
pub use handshake::{Handshake, HandshakeLimits};
pub(crate) use relay::Relay;
pub use server::{Proxy, ToProxy};
pub use through::Through;
