//! TLS around any wire: `tls:` (over TCP), `tls+unix:`, `tls+memory:` and `tls+stack:`.
//!
//! TLS 1.3 and 1.2 by [rustls](https://docs.rs/rustls). A listener needs a [`ServerTls`] in its
//! [options](crate::ListenOptions::tls); a dialler works without any, and trusts what the platform trusts, or takes a
//! [`ClientTls`]. Nothing of either is part of an address.
//!
//! | question | answer |
//! | --- | --- |
//! | who checks what? | a dialler always checks the name, the dates and the chain; a listener asks for a certificate if it is told to |
//! | what was agreed on? | [`Connection::negotiated`](crate::Connection::negotiated): protocol, name, version, certificates |
//! | how does a stream end? | with `close_notify` both ways (RFC 8446 section 6.1); a stream that ends without one fails with `UnexpectedEof`, so that nobody takes what was cut short for whole |
//! | what of a connection that is there already? | [`ClientTls::around`] and [`ServerTls::around`], which then need a [handshake](crate::Connection::handshake) |
//! | what does an idle connection hold? | the keys and no buffer: records are opened and sealed in memory that all connections of a loop share |
//!
//! ```
//! use anywire_wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};
//! use anywire_wire::{DialOptions, Dialer, ListenOptions, Listener};
//!
//! # let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
//! let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes())?;
//! let server = ServerTls::new(ServerTlsOptions { identities: vec![identity], ..Default::default() })?;
//! let trusted = Roots::only_pem(chain.as_bytes())?;
//! let client = ClientTls::new(ClientTlsOptions { roots: trusted, ..Default::default() })?;
//!
//! let loops = anywire_loops::Loops::start(1)?;
//! let options = ListenOptions { tls: Some(server), ..Default::default() };
//! let listening = Listener::bind("tls:127.0.0.1:0", &options, &loops)?
//!     .serve(|mut connection| drop(anywire_loops::spawn(async move { connection.write_all(b"hello").await })));
//! let address = listening.local().clone();
//! let version = loops.get(0).spawn(move || async move {
//!     let options = DialOptions { tls: Some(client), server_name: Some("localhost".into()), ..Default::default() };
//!     let connection = Dialer::new(options).dial(address).await?;
//!     Ok::<_, anywire_wire::DialError>(connection.negotiated().and_then(|agreed| agreed.version.clone()))
//! });
//! assert_eq!(version.wait()??.as_deref(), Some("TLSv1.3"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod certificate;
mod client;
mod error;
mod identity;
mod records;
mod server;
mod sessions;
mod stream;
mod verify;
mod wires;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

pub(crate) use certificate::Certificate;
pub use client::{ClientTls, ClientTlsOptions, Roots, ToClientTls};
pub use error::{HandshakeError, TlsError};
pub use identity::Identity;
pub use server::{AnswerToClearText, ClientCertificates, ServerTls, ServerTlsOptions};
#[cfg(feature = "shm")]
pub(crate) use wires::SHM;
#[cfg(feature = "stack")]
pub(crate) use wires::STACK;
pub use wires::Tls;
pub(crate) use wires::{MEMORY, TCP, UNIX};

/// The oldest version that is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3, the default; older versions have been out of use since RFC 8996.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

impl MinVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
        match self {
            Self::Tls12 => &BOTH,
            Self::Tls13 => &BOTH[..1],
        }
    }
}

/// The one source of cryptography: it builds with cargo and a C compiler.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    PROVIDER.clone()
}

/// The same with these cipher suites alone, unless none is named.
fn provider_of(suites: &[String]) -> Result<Arc<CryptoProvider>, TlsError> {
    let all = provider();
    if suites.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.cipher_suites.iter().find(|suite| iana_name(suite) == *name);
        found.copied().ok_or_else(|| TlsError::CipherSuite {
            name: name.clone(),
            known: all.cipher_suites.iter().map(iana_name).collect(),
        })
    };
    let cipher_suites = suites.iter().map(find).collect::<Result<_, _>>()?;
    Ok(Arc::new(CryptoProvider { cipher_suites, ..(*all).clone() }))
}

/// rustls names those of TLS 1.3 by their version.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}
