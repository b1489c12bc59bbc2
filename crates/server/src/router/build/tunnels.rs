//! The handlers of `CONNECT`.

use anywire_http::Method;

use crate::router::build::endpoints::{EndpointId, Endpoints, RouteName};
use crate::router::table::answers;
use crate::router::table::fallbacks::{add_choice, candidates};
use crate::router::{RouteError, Router};

impl Router {
    /// What answers `CONNECT`. Not even a fallback may: a 2xx would promise a tunnel (RFC 9110 section 9.3.6).
    pub(in crate::router) fn tunnel(&self, endpoints: &mut Endpoints<'_>) -> Result<EndpointId, RouteError> {
        if let Some(route) = self.routes.iter().find(|route| route.method == Some(Method::CONNECT)) {
            return Err(RouteError::Connect { path: route.path.clone(), place: route.entry.place });
        }
        let none = endpoints.add_own(answers::no_tunnel(), 0);
        let name = RouteName { method: "CONNECT".into(), path: "*".into() };
        let candidates = candidates(self.tunnels.iter(), &name, None, endpoints)?;
        Ok(match &candidates[..] {
            [] => none,
            [only] if only.conditions.are_none() => only.endpoint,
            _ => {
                let scope = endpoints.layers.common(self.tunnels.iter().map(|entry| entry.scope));
                add_choice(candidates, none, scope, name, endpoints)
            }
        })
    }
}
