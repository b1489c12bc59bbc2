//! All methods of one path, and the answers to those it does not have.

use anywire_http::{IntoResponse, Method, Response, StatusCode};

use super::endpoints::{EndpointId, Endpoints, RouteName};
use super::table::Matched;
use super::{Route, RouteError};
use crate::request::Params;

/// All methods of one path.
pub(super) struct Leaf {
    methods: Vec<(Method, EndpointId)>,
    /// The `GET` handler: most requests are `GET`.
    pub(super) get: Option<EndpointId>,
    allow: String,
    pub(super) params: Vec<Box<str>>,
    /// The fallbacks of nested routers that come before it.
    pub(super) yields_to: Box<[EndpointId]>,
}

impl Leaf {
    /// `normal` is the path of all these routes in its normal form.
    pub(super) fn new(
        normal: &str,
        routes: &[&Route],
        endpoints: &mut Endpoints<'_>,
    ) -> Result<Self, RouteError> {
        for (index, second) in routes.iter().enumerate() {
            if let Some(first) = routes[..index].iter().find(|first| first.method == second.method) {
                return Err(RouteError::Twice {
                    method: first.method.clone(),
                    path: first.path.clone(),
                    first: first.entry.place,
                    other_path: second.path.clone(),
                    second: second.entry.place,
                });
            }
        }
        let mut allow: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
        if allow.contains(&"GET") && !allow.contains(&"HEAD") {
            allow.push("HEAD");
        }
        if !allow.contains(&"OPTIONS") {
            allow.push("OPTIONS");
        }
        let allow = allow.join(", ");
        let mut methods = Vec::with_capacity(routes.len());
        for Route { path, method, entry } in routes {
            let name = RouteName { method: method.as_str().into(), path: path.as_str().into() };
            methods.push((method.clone(), endpoints.add(name, entry)?));
        }
        let mut leaf =
            Self { methods, get: None, allow, params: param_names(normal), yields_to: Box::default() };
        leaf.get = leaf.endpoint_of(&Method::GET);
        Ok(leaf)
    }

    pub(super) fn matched(&self, method: &Method, params: impl FnOnce() -> Params) -> Matched {
        match self.endpoint(method) {
            Some(endpoint) => Matched::Endpoint(endpoint, params()),
            None => Matched::Response(self.other_method(method)),
        }
    }

    #[inline]
    pub(super) fn endpoint(&self, method: &Method) -> Option<EndpointId> {
        if *method == Method::GET { self.get } else { self.endpoint_of(method) }
    }

    #[inline(never)]
    fn endpoint_of(&self, method: &Method) -> Option<EndpointId> {
        let own = self.methods.iter().find(|(own, _)| own == method).map(|(_, endpoint)| *endpoint);
        own.or_else(|| self.get.filter(|_| *method == Method::HEAD))
    }

    #[cold]
    fn other_method(&self, method: &Method) -> Box<Response> {
        let mut response = if method == Method::OPTIONS {
            Response::new(StatusCode::NO_CONTENT)
        } else {
            let message = format!("this path does not answer {method}, it answers {}", self.allow);
            (StatusCode::METHOD_NOT_ALLOWED, message).into_response()
        };
        let set = response.headers.append("allow", &self.allow);
        debug_assert!(set.is_ok(), "methods are tokens");
        Box::new(response)
    }
}

/// The names between braces of a path in normal form, in order: `/a/{b}/{*c}` has `b` and `c`.
pub(super) fn param_names(normal: &str) -> Vec<Box<str>> {
    let mut names = Vec::new();
    let mut rest = normal;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        names.push(name.trim_start_matches('*').into());
        rest = tail;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_names_between_braces() {
        assert_eq!(param_names("/a/{b}/x-{c}.y/{*d}"), ["b".into(), "c".into(), "d".into()] as [Box<str>; 3]);
        assert_eq!(param_names(&super::super::path::of_route("/{{a}}/{b}")), ["b".into()] as [Box<str>; 1]);
    }
}
