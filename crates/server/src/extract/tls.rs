//! What the handshake of a connection agreed on, as an argument of a handler.

use std::ops::Deref;
use std::sync::Arc;

use anywire_wire::Negotiated;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// What the TLS handshake of the request's connection agreed on: version, cipher suite, the name that the peer asked for
/// (SNI), the protocol (ALPN), whether a session was resumed, and the peer's certificates.
///
/// A request that came in clear text is refused with 403. A handler that takes `Option<TlsInfo>` serves it, too.
///
/// ```
/// use anywire_server::{Router, TlsInfo};
///
/// async fn who(tls: TlsInfo) -> String {
///     // Without a certificate of the peer there is no subject: see `ClientCertificates`.
///     tls.peer_subject().unwrap_or_else(|| "somebody".to_owned())
/// }
///
/// async fn version(tls: Option<TlsInfo>) -> String {
///     tls.and_then(|tls| tls.version.clone()).unwrap_or_else(|| "clear text".to_owned())
/// }
///
/// let router = Router::new().get("/who", who).get("/version", version);
/// # drop(router);
/// ```
#[derive(Debug, Clone)]
pub struct TlsInfo(pub Arc<Negotiated>);

impl Deref for TlsInfo {
    type Target = Negotiated;

    fn deref(&self) -> &Negotiated {
        &self.0
    }
}

impl FromRequestParts for TlsInfo {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        parts.negotiated().cloned().map(Self).ok_or(Rejection::ClearText)
    }
}

impl OptionalFromRequestParts for TlsInfo {
    fn is_absent(parts: &Parts) -> bool {
        parts.negotiated().is_none()
    }
}
