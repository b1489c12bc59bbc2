//! A state that all loops and the threads of pools share.

use std::any::type_name;
use std::sync::Arc;

use super::{FromRequestParts, Needs, Rejection};
use crate::request::Parts;

/// A value given to the router by `.state(value)`, or by `.state(Arc::new(value))` if it cannot be cloned: for functions on a
/// [pool](crate::Blocking::on_pool), which get no [`State`](crate::State). All handlers that take it so have the same one, and no clone of it.
///
/// ```
/// use std::sync::Arc;
/// use anywire_server::{Blocking, Path, Router, State};
///
/// #[derive(Clone)]
/// struct Index(Vec<String>);
///
/// let find = |index: Arc<Index>, Path(word): Path<String>| index.0.contains(&word).to_string();
/// let count = async |State(index): State<Index>| index.0.len().to_string();
/// let router = Router::new()
///     .state(Index(Vec::new()))
///     .get("/find/{word}", find.on_pool("cpu"))
///     .get("/count", count);
/// # drop(router);
/// ```
impl<T: Send + Sync + 'static> FromRequestParts for Arc<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let found = parts.state::<Self>();
        found.map(|found| Self::clone(&found)).ok_or(Rejection::NoState { type_name: type_name::<Self>() })
    }

    fn needs(needs: &mut Needs) {
        needs.state::<Self>();
    }
}
