//! All methods of one path, and who answers those it does not have.

use anywire_http::Method;

use crate::conditions::GivenTypes;
use crate::router::build::endpoints::{EndpointId, Endpoints, RouteName};
use crate::router::table::answers;
use crate::router::table::choice::{Candidate, Choice, Otherwise};
use crate::router::{PathFault, Route, RouteError};

/// All methods of one path.
pub(in crate::router) struct Leaf {
    methods: Vec<(Method, EndpointId)>,
    /// What answers `GET`: most requests are that.
    pub(in crate::router) get: EndpointId,
    /// What answers the methods that are not among these.
    other: EndpointId,
    /// What chooses among handlers with conditions.
    choice: Option<EndpointId>,
    /// What words their refusals.
    refused: Box<[EndpointId]>,
    /// Of all handlers.
    endpoints: Box<[EndpointId]>,
    pub(in crate::router) params: Vec<Box<str>>,
    /// A handler takes matrix parameters, which the look-up then ignores.
    pub(in crate::router) ignores_matrix: bool,
    /// Its own path has a `;`, so that it comes before those that ignore matrix parameters.
    pub(in crate::router) has_semicolon: bool,
    /// The fallbacks of nested routers that come before it.
    pub(in crate::router) yields_to: Box<[EndpointId]>,
}

impl Leaf {
    /// `normal` is the path of all these routes in its normal form, and `index` the number that the leaf gets.
    pub(in crate::router) fn new(
        normal: &str,
        index: usize,
        routes: &[&Route],
        endpoints: &mut Endpoints<'_>,
    ) -> Result<Self, RouteError> {
        let params = param_names(normal);
        if (1..params.len()).any(|index| params[..index].contains(&params[index])) {
            let Route { path, entry, .. } = routes[0];
            let (path, place, fault) = (path.clone(), entry.place, PathFault::ParameterTwice);
            return Err(RouteError::Path { path, place, fault });
        }
        let ignores_matrix = routes.iter().any(|route| route.entry.parts.needs.takes_matrix());
        let mut candidates: Vec<Candidate> = Vec::with_capacity(routes.len());
        for (place, Route { path, method, entry, redirects }) in routes.iter().enumerate() {
            let name = method.as_ref().map_or("*", Method::as_str);
            let name = RouteName { method: name.into(), path: path.as_str().into() };
            let mut conditions = endpoints.conditions(&name.to_string(), entry, &params)?;
            if *redirects {
                conditions = conditions.guards_alone();
            } else if *method == Some(Method::QUERY) {
                // Of any type, and it has to say which (RFC 10008 section 2).
                conditions.consumes.get_or_insert_with(|| GivenTypes::new("*/*", entry.place));
            }
            let of_method = |other: &Candidate| other.method == *method;
            if *redirects {
                // Handlers that differ in media types alone are led to alike.
                let leads =
                    |other: &Candidate| of_method(other) && other.conditions.leave_nothing_to(&conditions);
                if candidates.iter().any(leads) {
                    continue;
                }
            } else if let Some(first) = candidates
                .iter()
                .position(|other| of_method(other) && other.conditions.leave_one_idle(&conditions))
            {
                let (first, second) = (routes[first], routes[place]);
                return Err(RouteError::Twice {
                    method: method.clone(),
                    path: first.path.clone(),
                    first: first.entry.place,
                    other_path: path.clone(),
                    second: second.entry.place,
                });
            }
            let endpoint = endpoints.add(name, entry, &params)?;
            endpoints
                .note(endpoint, if *redirects { "redirects".to_owned() } else { conditions.to_string() });
            let within = endpoints.layers.scopes_around(entry.scope).into_iter().rev().collect();
            let preflight = endpoints.add_preflight(endpoint, entry);
            candidates.push(Candidate { method: method.clone(), conditions, endpoint, within, preflight });
        }
        let all = candidates.iter().map(|candidate| candidate.endpoint).collect();
        let scope = endpoints.layers.common(routes.iter().map(|route| route.entry.scope));
        let allow = answers::allow(candidates.iter().filter_map(|candidate| candidate.method.as_ref()));
        let mut direct: Vec<(Option<Method>, Option<EndpointId>)> = Vec::new();
        for Candidate { method, .. } in &candidates {
            if direct.iter().all(|(of, _)| of != method) {
                direct.push((method.clone(), alone(&candidates, method.as_ref())));
            }
        }
        let preflights: Vec<_> = candidates.iter().filter_map(|candidate| candidate.preflight).collect();
        // Which layers are around a preflight depends on the method for which it asks.
        let has_preflights = !preflights.is_empty();
        let has_choice =
            has_preflights || candidates.iter().any(|candidate| !candidate.conditions.are_none());
        let mut refused = Vec::new();
        if has_choice {
            // Whose guards let a request in decides which routers are around its refusal.
            let scopes = || routes.iter().map(|route| route.entry.scope);
            let of_two = scopes().flat_map(|one| scopes().map(move |other| [one, other]));
            for two in std::iter::once([scope; 2]).chain(of_two) {
                let scope = endpoints.layers.common(two);
                if refused.iter().all(|(known, _)| *known != scope) {
                    refused.push((scope, endpoints.add_own(answers::refused(), scope)));
                }
            }
        }
        let all_refused = refused.iter().map(|(_, endpoint)| *endpoint).chain(preflights).collect();
        let choice = has_choice.then(|| {
            let name = RouteName { method: "*".into(), path: routes[0].path.as_str().into() };
            // That within the innermost router around all.
            let by_all = refused[0].1;
            let otherwise = Otherwise::Unknown { leaf: index, refused: refused.into() };
            let choice = Choice::new(candidates, otherwise, by_all);
            endpoints.add_choice(name, |_| choice)
        });
        let any =
            direct.iter().find_map(|(method, endpoint)| method.is_none().then_some(*endpoint)).flatten();
        // What a choice says of other methods depends on whose conditions hold. A preflight is for the handler of the method that it asks for,
        // also beside one of all methods.
        let asks_for_one = any.is_some() && has_preflights && direct.len() > 1;
        let other =
            choice.filter(|_| asks_for_one).or(any).or(choice).unwrap_or_else(|| {
                endpoints.add_own(answers::other_method(allow.unwrap_or_default()), scope)
            });
        let of_method =
            |(method, endpoint): (Option<Method>, Option<EndpointId>)| Some((method?, endpoint.or(choice)?));
        let methods = direct.into_iter().filter_map(of_method).collect();
        let mut leaf = Self {
            methods,
            get: other,
            other,
            choice,
            refused: all_refused,
            endpoints: all,
            params,
            ignores_matrix,
            has_semicolon: literals(normal).any(|text| text.contains(';')),
            yields_to: Box::default(),
        };
        leaf.get = leaf.endpoint_of(&Method::GET);
        Ok(leaf)
    }

    /// All that answer this path.
    pub(in crate::router) fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        let own = self.choice.iter().chain(&self.refused);
        self.endpoints.iter().chain([&self.other]).chain(own).copied()
    }

    #[inline]
    pub(in crate::router) fn endpoint(&self, method: &Method) -> EndpointId {
        if *method == Method::GET { self.get } else { self.endpoint_of(method) }
    }

    #[inline(never)]
    fn endpoint_of(&self, method: &Method) -> EndpointId {
        let own = self.methods.iter().find(|(own, _)| own == method);
        let otherwise = if *method == Method::HEAD { self.get } else { self.other };
        own.map_or(otherwise, |(_, endpoint)| *endpoint)
    }
}

/// The handler of a method if it has neither conditions nor others beside it.
fn alone(candidates: &[Candidate], method: Option<&Method>) -> Option<EndpointId> {
    let mut of_method = candidates.iter().filter(|candidate| candidate.method.as_ref() == method);
    let first = of_method.next().filter(|first| first.conditions.are_none())?;
    of_method.next().is_none().then_some(first.endpoint)
}

/// The names between braces of a path in normal form, in order: `/a/{b}/{*c}` has `b` and `c`.
pub(in crate::router) fn param_names(normal: &str) -> Vec<Box<str>> {
    let mut names = Vec::new();
    let mut rest = normal;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        names.push(name.trim_start_matches('*').into());
        rest = tail;
    }
    names
}

/// The text around the parameters of a path in normal form.
fn literals(normal: &str) -> impl Iterator<Item = &str> {
    normal.split('{').enumerate().map(|(index, part)| match index {
        0 => part,
        _ => part.split_once('}').map_or("", |(_, text)| text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_text_stands_around_parameters() {
        assert_eq!(literals("/a/{b;}-c/{*d}").collect::<Vec<_>>(), ["/a/", "-c/", ""]);
        assert_eq!(literals("/a").collect::<Vec<_>>(), ["/a"]);
    }

    #[test]
    fn parameters_have_the_names_between_braces() {
        assert_eq!(param_names("/a/{b}/x-{c}.y/{*d}"), ["b".into(), "c".into(), "d".into()] as [Box<str>; 3]);
        assert_eq!(param_names(&super::super::normal::of_route("/{{a}}/{b}")), ["b".into()] as [Box<str>; 1]);
    }
}
