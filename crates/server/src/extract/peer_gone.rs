//! Whether anybody still waits for the response, for code on any thread.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use anywire_loops::Pool;

use super::FromRequestParts;
use crate::request::Parts;

/// Whether the response is still wanted, for a function on a [pool](crate::Blocking::on_pool), which cannot be cancelled: a long one asks
/// now and then, and ends. A clone asks the same, on any thread.
///
/// A handler on its loop need not ask: it is dropped, or told by [`Parts::peer_gone`](crate::Parts::peer_gone).
///
/// ```
/// use anywire_server::{Blocking, PeerGone, Router};
///
/// fn search(gone: PeerGone) -> String {
///     let mut found = 0;
///     for part in 0..1000 {
///         if gone.is_gone() {
///             break;
///         }
///         found += part;
///     }
///     found.to_string()
/// }
/// # drop(Router::new().get("/search", search.on_pool("cpu")));
/// ```
#[derive(Clone, Debug)]
pub struct PeerGone(pub(crate) Arc<AtomicBool>);

impl PeerGone {
    /// Whether the peer has reset the request or ended its direction, or the handler was given up, such as at
    /// [`Limits::handler_timeout`](crate::Limits::handler_timeout). A peer that has only ended its direction may still wait; see
    /// [`Parts::peer_gone`](crate::Parts::peer_gone).
    pub fn is_gone(&self) -> bool {
        self.0.load(Relaxed) || Pool::is_abandoned()
    }
}

impl FromRequestParts for PeerGone {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(Self(parts.gone_flag()))
    }
}
