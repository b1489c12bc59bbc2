//! The handlers of unknown paths.

use anywire_http::Method;

use crate::conditions::Conditions;
use crate::router::build::endpoints::{EndpointId, Endpoints, RouteName};
use crate::router::build::layers::Layers;
use crate::router::build::tree::Tree;
use crate::router::table::answers;
use crate::router::table::choice::{Candidate, Choice, Otherwise};
use crate::router::table::normal;
use crate::router::{Entry, Fallback, RouteError, Scope};

/// The handlers of unknown paths.
pub(in crate::router) struct Fallbacks {
    /// By the prefix of a nested router.
    nested: matchit::Router<EndpointId>,
    /// Those of nested routers, with the prefix in normal form of the router that has the fallback.
    prefixes: Vec<(String, EndpointId)>,
    outermost: EndpointId,
}

/// A prefix whose unknown paths are answered there.
struct FallbackPrefix<'r> {
    /// In normal form.
    normal: String,
    /// The fallbacks of the prefix.
    given: Vec<&'r Fallback>,
    /// Without one: the nested router whose layers are around that of the router around it.
    layered: Option<usize>,
}

impl Fallbacks {
    pub(in crate::router) fn new(
        given: &[Fallback],
        scopes: &[Scope],
        endpoints: &mut Endpoints<'_>,
    ) -> Result<Self, RouteError> {
        let sites = sites(given, scopes, &endpoints.layers);
        let (mut tree, mut prefixes) = (Tree::new(), Vec::new());
        let mut known: Vec<(&str, EndpointId)> = Vec::with_capacity(sites.len());
        for site in &sites {
            let normal = &*site.normal;
            // A prefix is longer than those around it.
            let outer = known.iter().rev().find(|(prefix, _)| normal::is_below(normal, prefix));
            let outer = outer.map(|(_, endpoint)| *endpoint);
            let (endpoint, prefix, place) = match (site.layered, &site.given[..]) {
                (Some(scope), _) => {
                    let endpoint = add_layered(normal, scope, outer, &sites, &mut prefixes, endpoints)?;
                    (endpoint, &scopes[scope].prefix, scopes[scope].place)
                }
                (None, given) => {
                    let endpoint = add(given, None, outer, endpoints)?;
                    prefixes.push((normal.to_owned(), endpoint));
                    (endpoint, &given[0].prefix, Some(given[0].entry.place))
                }
            };
            known.push((normal, endpoint));
            if let (false, Some(place)) = (normal.is_empty(), place) {
                for below in BELOW {
                    tree.insert(format!("{normal}{below}"), endpoint, prefix, place)?;
                }
            }
        }
        let outermost = known.first().filter(|(normal, _)| normal.is_empty()).map(|(_, endpoint)| *endpoint);
        let outermost = outermost.unwrap_or_else(|| endpoints.add_own(answers::unknown_path(), 0));
        Ok(Self { nested: tree.build(), prefixes, outermost })
    }

    /// The fallbacks that come before this route: it has a variable where their prefix has text, and is no route of theirs. That of the
    /// outermost router comes before none.
    pub(in crate::router) fn closer_than(&self, route: &str) -> impl Iterator<Item = EndpointId> {
        let closer = self.prefixes.iter().filter(|(prefix, _)| normal::is_closer(prefix, route));
        closer.map(|(_, fallback)| *fallback)
    }

    /// The fallback of the innermost nested router that contains the path, which is in normal form.
    pub(in crate::router) fn find(&self, normal: &str) -> EndpointId {
        self.nested(normal).unwrap_or(self.outermost)
    }

    /// The same, of nested routers alone.
    pub(in crate::router) fn nested(&self, normal: &str) -> Option<EndpointId> {
        self.nested.at(normal).ok().map(|found| *found.value)
    }
}

/// Adds the fallbacks of one prefix, within the layers of this nested router as well. `outer` answers what none of them takes.
fn add(
    given: &[&Fallback],
    nested: Option<usize>,
    outer: Option<EndpointId>,
    endpoints: &mut Endpoints<'_>,
) -> Result<EndpointId, RouteError> {
    let name = RouteName::fallback(&given[0].prefix);
    let entries = given.iter().map(|fallback| &fallback.entry);
    let candidates = candidates(entries, &name, nested, endpoints).map_err(|error| match error {
        RouteError::Twice { first, second, .. } => {
            RouteError::FallbackTwice { prefix: given[0].prefix.clone(), first, second }
        }
        other => other,
    })?;
    if let [Candidate { conditions, endpoint, .. }] = &candidates[..]
        && conditions.are_none()
    {
        return Ok(*endpoint);
    }
    let outer = outer.unwrap_or_else(|| endpoints.add_own(answers::unknown_path(), nested.unwrap_or(0)));
    let common = endpoints.layers.common(given.iter().map(|fallback| fallback.entry.scope));
    Ok(add_choice(candidates, outer, nested.unwrap_or(common), name, endpoints))
}

/// Handlers without a path, of which guards choose one, within the layers of this nested router as well.
pub(in crate::router) fn candidates<'r>(
    entries: impl Iterator<Item = &'r Entry>,
    name: &RouteName,
    nested: Option<usize>,
    endpoints: &mut Endpoints<'_>,
) -> Result<Vec<Candidate>, RouteError> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut places = Vec::new();
    for entry in entries {
        let own = &entry.parts.conditions;
        // Those of a router are for its routes alone.
        if let Some(types) = own.consumes.as_ref().or(own.produces.as_ref()) {
            let (route, handler, place) = (name.to_string(), entry.place, types.place);
            return Err(RouteError::MediaTypesWithoutPath { route, handler, place });
        }
        let conditions = endpoints.conditions(&name.to_string(), entry, &[])?.guards_alone();
        if let Some(first) = candidates.iter().position(|other| other.conditions.leave_one_idle(&conditions))
        {
            let (method, path) = (Method::from_bytes(name.method.as_bytes()).ok(), name.path.to_string());
            let (first, second, other_path) = (places[first], entry.place, path.clone());
            return Err(RouteError::Twice { method, path, first, other_path, second });
        }
        let within = endpoints.layers.around_both(nested.unwrap_or(entry.scope), entry.scope);
        let endpoint = endpoints.add_within(within, name.clone(), entry, &[])?;
        endpoints.note(endpoint, conditions.to_string());
        candidates.push(Candidate {
            method: None,
            conditions,
            endpoint,
            within: Box::default(),
            preflight: None,
        });
        places.push(entry.place);
    }
    Ok(candidates)
}

/// Adds what chooses among handlers without a path. A guard of them that panics is answered within the layers of this router.
pub(in crate::router) fn add_choice(
    candidates: Vec<Candidate>,
    outer: EndpointId,
    scope: usize,
    name: RouteName,
    endpoints: &mut Endpoints<'_>,
) -> EndpointId {
    let refused = endpoints.add_own(answers::refused(), scope);
    let choice = |fallback| Choice::new(candidates, Otherwise::Outer { fallback, outer }, refused);
    endpoints.add_choice(name, choice)
}

/// Adds what answers the unknown paths of a nested router that has layers and no fallback: what would answer without it, within the layers
/// of both. `outer` answers those to whom the router is not there.
fn add_layered(
    normal: &str,
    scope: usize,
    outer: Option<EndpointId>,
    sites: &[FallbackPrefix<'_>],
    prefixes: &mut Vec<(String, EndpointId)>,
    endpoints: &mut Endpoints<'_>,
) -> Result<EndpointId, RouteError> {
    let around = sites.iter().filter(|site| !site.given.is_empty() && normal::is_below(normal, &site.normal));
    let mut around: Vec<&FallbackPrefix<'_>> = around.collect();
    // One without guards takes all that come to it.
    let is_open = |site: &&FallbackPrefix<'_>| {
        let conditions =
            |Entry { parts, scope, .. }: &Entry| endpoints.within_routers(&parts.conditions, *scope);
        site.given.iter().any(|fallback| conditions(&fallback.entry).guards.is_empty())
    };
    around.drain(..around.iter().rposition(is_open).unwrap_or(0));
    let mut answers = None;
    for site in &around {
        let endpoint = add(&site.given, Some(scope), answers, endpoints)?;
        prefixes.push((site.normal.clone(), endpoint));
        answers = Some(endpoint);
    }
    let endpoint = answers.unwrap_or_else(|| endpoints.add_own(answers::unknown_path(), scope));
    let conditions = endpoints.within_routers(&Conditions::default(), scope).guards_alone();
    if conditions.are_none() {
        return Ok(endpoint);
    }
    let candidates =
        vec![Candidate { method: None, conditions, endpoint, within: Box::default(), preflight: None }];
    let outer = outer.unwrap_or_else(|| endpoints.add_own(answers::unknown_path(), 0));
    let name = RouteName::fallback(&endpoints.scopes[scope].prefix);
    let choice = add_choice(candidates, outer, scope, name, endpoints);
    prefixes.extend(around.last().map(|site| (site.normal.clone(), choice)));
    Ok(choice)
}

/// All prefixes with fallbacks, or with layers alone, the shortest first.
fn sites<'r>(given: &'r [Fallback], scopes: &[Scope], layers: &Layers<'_>) -> Vec<FallbackPrefix<'r>> {
    let mut sites: Vec<FallbackPrefix<'_>> = Vec::with_capacity(given.len());
    for fallback in given {
        let normal = normal::of_route(&fallback.prefix);
        match sites.iter_mut().find(|site| site.normal == normal) {
            Some(site) => site.given.push(fallback),
            None => sites.push(FallbackPrefix { normal, given: vec![fallback], layered: None }),
        }
    }
    for (normal, scope) in layered_only(scopes, layers) {
        if sites.iter().all(|site| site.normal != normal) {
            sites.push(FallbackPrefix { normal, given: Vec::new(), layered: Some(scope) });
        }
    }
    sites.sort_by_key(|site| site.normal.len());
    sites
}

/// The nested routers that have layers, each with its prefix in normal form. Where several are nested below one prefix, an
/// unknown path is of none of them.
fn layered_only(scopes: &[Scope], layers: &Layers<'_>) -> Vec<(String, usize)> {
    let nested = scopes.iter().enumerate().filter(|(_, scope)| scope.is_nested);
    let nested: Vec<_> = nested.map(|(index, scope)| (normal::of_route(&scope.prefix), index)).collect();
    let is_alone = |normal: &String| nested.iter().filter(|(other, _)| other == normal).count() == 1;
    nested.iter().filter(|(normal, index)| layers.are_of(*index) && is_alone(normal)).cloned().collect()
}

/// What stands behind the prefix of a router in the paths below it.
const BELOW: [&str; 3] = ["", "/", "/{*rest}"];
