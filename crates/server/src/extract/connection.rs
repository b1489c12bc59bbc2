//! Who asks, as arguments of a handler: the address of the peer, and its process and user.

use std::convert::Infallible;
use std::ops::Deref;

use anywire_wire::{Address, Credentials};

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The address of the peer of the connection. It is that of a proxy if there is one in between.
///
/// ```
/// use anywire_server::{PeerAddress, Router};
///
/// async fn who(peer: PeerAddress) -> String {
///     // An IP address on wires that have one, such as TCP.
///     peer.ip().map_or_else(|| peer.to_string(), |ip| ip.to_string())
/// }
/// # drop(Router::new().get("/", who));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub Address);

impl Deref for PeerAddress {
    type Target = Address;

    fn deref(&self) -> &Address {
        &self.0
    }
}

impl FromRequestParts for PeerAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(Self(parts.peer().clone()))
    }
}

/// Process, user and group of the peer. On wires that do not know them the request is refused with 403, unless the handler
/// takes an `Option`.
impl FromRequestParts for Credentials {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        parts.credentials().ok_or(Rejection::NoCredentials)
    }
}

impl OptionalFromRequestParts for Credentials {
    fn is_absent(parts: &Parts) -> bool {
        parts.credentials().is_none()
    }
}
