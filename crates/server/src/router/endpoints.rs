//! The handlers of a router, numbered, each with its name in the log.

use std::fmt;
use std::sync::Arc;

use super::{Entry, RouteError, Scope};
use crate::handler::Endpoint;

/// The handlers that have passed the checks so far.
pub(super) struct Endpoints<'r> {
    served: Vec<Served>,
    scopes: &'r [Scope],
}

impl<'r> Endpoints<'r> {
    pub(super) fn new(scopes: &'r [Scope]) -> Self {
        Self { served: Vec::new(), scopes }
    }

    /// Adds a handler whose path has this many parameters.
    pub(super) fn add(
        &mut self,
        name: RouteName,
        entry: &Entry,
        params: usize,
    ) -> Result<EndpointId, RouteError> {
        if params == 0 && entry.needs.takes_params() {
            return Err(RouteError::Parameters { route: name.to_string(), place: entry.place });
        }
        let scopes = std::iter::successors(Some(entry.scope), |scope| self.scopes[*scope].parent);
        if let Some(type_name) =
            entry.needs.missing(|id| scopes.clone().any(|scope| self.scopes[scope].states.contains(id)))
        {
            return Err(RouteError::State { route: name.to_string(), place: entry.place, type_name });
        }
        Ok(self.push(Served { endpoint: Arc::clone(&entry.endpoint), name, scope: entry.scope }))
    }

    /// Adds an endpoint of the router itself.
    pub(super) fn add_own(&mut self, endpoint: Arc<dyn Endpoint>) -> EndpointId {
        self.push(Served { endpoint, name: RouteName::router(), scope: 0 })
    }

    fn push(&mut self, served: Served) -> EndpointId {
        self.served.push(served);
        // Each route is some hundred bytes of a program.
        EndpointId(self.served.len() as u32 - 1)
    }

    /// By their [`EndpointId`].
    pub(super) fn into_served(self) -> Vec<Served> {
        self.served
    }
}

/// A handler and its name in the log.
pub(super) struct Served {
    pub(super) endpoint: Arc<dyn Endpoint>,
    pub(super) name: RouteName,
    /// The index of its router's states.
    pub(super) scope: usize,
}

/// The name of a handler in the log.
#[derive(Debug)]
pub(crate) struct RouteName {
    /// The method of the route; `*` for any.
    pub(crate) method: Box<str>,
    /// The path as it was given, with its prefix.
    pub(crate) path: Box<str>,
}

impl RouteName {
    /// Of what no handler answers.
    pub(super) fn router() -> Self {
        Self { method: "*".into(), path: "(the router)".into() }
    }

    pub(super) fn fallback(prefix: &str) -> Self {
        let path = if prefix.is_empty() {
            "(the fallback)".into()
        } else {
            format!("{prefix}/(the fallback)").into()
        };
        Self { method: "*".into(), path }
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A handler's place among all handlers of a [`Table`](super::Table).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointId(u32);

impl EndpointId {
    /// Of a request that no router has matched.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
