//! All methods of one path, and who answers those it does not have.

use anywire_http::Method;

use super::endpoints::{EndpointId, Endpoints, RouteName};
use super::{Route, RouteError, own};

/// All methods of one path.
pub(super) struct Leaf {
    methods: Vec<(Method, EndpointId)>,
    /// What answers `GET`: most requests are that.
    pub(super) get: EndpointId,
    /// What answers the methods that are not among these.
    other: EndpointId,
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
        let params = param_names(normal);
        let named = routes.iter().filter_map(|route| route.method.as_ref());
        let mut allow: Vec<&str> = named.map(Method::as_str).collect();
        if allow.contains(&"GET") && !allow.contains(&"HEAD") {
            allow.push("HEAD");
        }
        if !allow.contains(&"OPTIONS") {
            allow.push("OPTIONS");
        }
        let mut methods = Vec::with_capacity(routes.len());
        let mut any = None;
        for Route { path, method, entry } in routes {
            let name = method.as_ref().map_or("*", Method::as_str);
            let name = RouteName { method: name.into(), path: path.as_str().into() };
            let endpoint = endpoints.add(name, entry, params.len())?;
            match method {
                Some(method) => methods.push((method.clone(), endpoint)),
                None => any = Some(endpoint),
            }
        }
        let other = any.unwrap_or_else(|| {
            let scope = endpoints.layers.common(routes.iter().map(|route| route.entry.scope));
            endpoints.add_own(own::other_method(allow.join(", ")), scope)
        });
        let mut leaf = Self { methods, get: other, other, params, yields_to: Box::default() };
        leaf.get = leaf.endpoint_of(&Method::GET);
        Ok(leaf)
    }

    /// All that answer this path.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        self.methods.iter().map(|(_, endpoint)| *endpoint).chain([self.other])
    }

    #[inline]
    pub(super) fn endpoint(&self, method: &Method) -> EndpointId {
        if *method == Method::GET { self.get } else { self.endpoint_of(method) }
    }

    #[inline(never)]
    fn endpoint_of(&self, method: &Method) -> EndpointId {
        let own = self.methods.iter().find(|(own, _)| own == method);
        let otherwise = if *method == Method::HEAD { self.get } else { self.other };
        own.map_or(otherwise, |(_, endpoint)| *endpoint)
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
