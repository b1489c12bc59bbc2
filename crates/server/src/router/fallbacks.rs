//! The handlers of unknown paths.

use anywire_http::Method;

use super::choice::{Candidate, Choice, Otherwise};
use super::endpoints::{EndpointId, Endpoints, RouteName};
use super::layers::Layers;
use super::tree::Tree;
use super::{Entry, Fallback, RouteError, Scope, own, path};
use crate::conditions::Conditions;

/// The handlers of unknown paths.
pub(super) struct Fallbacks {
    /// By the prefix of a nested router.
    nested: matchit::Router<EndpointId>,
    /// Those of nested routers with their prefix in normal form, also as they answer within the layers of a router that has none.
    prefixes: Vec<(String, EndpointId)>,
    outermost: EndpointId,
}

/// The fallbacks of one prefix.
struct Group<'r> {
    /// In normal form.
    normal: String,
    given: Vec<&'r Fallback>,
}

impl Fallbacks {
    pub(super) fn new(
        given: &[Fallback],
        scopes: &[Scope],
        endpoints: &mut Endpoints<'_>,
    ) -> Result<Self, RouteError> {
        let mut groups: Vec<Group<'_>> = Vec::with_capacity(given.len());
        for fallback in given {
            let normal = path::of_route(&fallback.prefix);
            match groups.iter_mut().find(|group| group.normal == normal) {
                Some(group) => group.given.push(fallback),
                None => groups.push(Group { normal, given: vec![fallback] }),
            }
        }
        // A prefix is longer than those around it.
        groups.sort_by_key(|group| group.normal.len());
        let mut outermost = None;
        let (mut tree, mut prefixes) = (Tree::new(), Vec::new());
        for Group { normal, given } in &groups {
            let outer = around(&prefixes, normal).or(outermost);
            let endpoint = add(given, outer, endpoints)?;
            if normal.is_empty() {
                outermost = Some(endpoint);
            } else {
                let Fallback { prefix, entry } = given[0];
                for below in BELOW {
                    tree.insert(format!("{normal}{below}"), endpoint, prefix, entry.place)?;
                }
                prefixes.push((normal.clone(), endpoint));
            }
        }
        let outermost = outermost.unwrap_or_else(|| endpoints.add_own(own::unknown_path(), 0));
        let mut layered = Vec::new();
        for (normal, scope) in layered_only(scopes, &endpoints.layers) {
            if groups.iter().any(|group| group.normal == normal) {
                continue;
            }
            let Some(place) = scopes[scope].place else { continue };
            let (answers, mut endpoint) = add_layered(&normal, scope, &groups, endpoints)?;
            let conditions = endpoints.within_routers(&Conditions::default(), scope).guards_alone();
            if !conditions.are_none() {
                let outer = around(&prefixes, &normal).unwrap_or(outermost);
                let candidate = Candidate { method: None, conditions, endpoint };
                let name = RouteName::fallback(&scopes[scope].prefix);
                endpoint = add_choice(vec![candidate], outer, name, endpoints);
            }
            for below in BELOW {
                tree.insert(format!("{normal}{below}"), endpoint, &scopes[scope].prefix, place)?;
            }
            layered.push((answers, endpoint));
        }
        // A layer around a fallback does not change before which routes it comes.
        prefixes.extend(layered);
        Ok(Self { nested: tree.build(), prefixes, outermost })
    }

    /// The fallbacks that come before this route: it has a variable where their prefix has text, and is no route of theirs.
    pub(super) fn closer_than(&self, route: &str) -> impl Iterator<Item = EndpointId> {
        let closer = self.prefixes.iter().filter(|(prefix, _)| path::is_closer(prefix, route));
        closer.map(|(_, fallback)| *fallback)
    }

    /// The fallback of the innermost nested router that contains the path, which is in normal form.
    pub(super) fn find(&self, normal: &str) -> EndpointId {
        self.nested(normal).unwrap_or(self.outermost)
    }

    /// The same, of nested routers alone.
    pub(super) fn nested(&self, normal: &str) -> Option<EndpointId> {
        self.nested.at(normal).ok().map(|found| *found.value)
    }
}

/// Adds the fallbacks of one prefix. `outer` is that of the prefix around it.
fn add(
    given: &[&Fallback],
    outer: Option<EndpointId>,
    endpoints: &mut Endpoints<'_>,
) -> Result<EndpointId, RouteError> {
    let name = RouteName::fallback(&given[0].prefix);
    let entries = given.iter().map(|fallback| &fallback.entry);
    let candidates = candidates(entries, &name, endpoints).map_err(|error| match error {
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
    let outer = outer.unwrap_or_else(|| endpoints.add_own(own::unknown_path(), 0));
    Ok(add_choice(candidates, outer, name, endpoints))
}

/// Handlers without a path, of which guards choose one.
pub(super) fn candidates<'r>(
    entries: impl Iterator<Item = &'r Entry>,
    name: &RouteName,
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
        if let Some(first) = candidates.iter().position(|other| other.conditions.are_same(&conditions)) {
            let (method, path) = (Method::from_bytes(name.method.as_bytes()).ok(), name.path.to_string());
            let (first, second, other_path) = (places[first], entry.place, path.clone());
            return Err(RouteError::Twice { method, path, first, other_path, second });
        }
        let endpoint = endpoints.add(name.clone(), entry, &[])?;
        endpoints.note(endpoint, conditions.to_string());
        candidates.push(Candidate { method: None, conditions, endpoint });
        places.push(entry.place);
    }
    Ok(candidates)
}

pub(super) fn add_choice(
    candidates: Vec<Candidate>,
    outer: EndpointId,
    name: RouteName,
    endpoints: &mut Endpoints<'_>,
) -> EndpointId {
    let choice = |fallback| Choice::new(candidates, Otherwise::Outer { fallback, outer });
    endpoints.add_choice(name, choice)
}

/// Adds what answers the unknown paths of a nested router that has layers and no fallback: the fallback of the router
/// around it, within the layers of both. Gives the prefix of that fallback, too.
fn add_layered(
    normal: &str,
    scope: usize,
    given: &[Group<'_>],
    endpoints: &mut Endpoints<'_>,
) -> Result<(String, EndpointId), RouteError> {
    let around = given.iter().filter(|group| path::is_below(normal, &group.normal));
    // One with guards may let the request not in.
    let is_open = |fallback: &&&Fallback| {
        let entry = &fallback.entry;
        endpoints.within_routers(&entry.parts.conditions, entry.scope).guards.is_empty()
    };
    let open = around.filter_map(|group| Some((&group.normal, group.given.iter().find(is_open)?)));
    let Some((prefix, fallback)) = open.max_by_key(|(prefix, _)| prefix.len()) else {
        return Ok((String::new(), endpoints.add_own(own::unknown_path(), scope)));
    };
    let within = endpoints.layers.around_both(scope, fallback.entry.scope);
    let name = RouteName::fallback(&fallback.prefix);
    Ok((prefix.clone(), endpoints.add_within(within, name, &fallback.entry, &[])?))
}

/// The fallback of the innermost of these prefixes around another one.
fn around(prefixes: &[(String, EndpointId)], normal: &str) -> Option<EndpointId> {
    let around = prefixes.iter().filter(|(prefix, _)| path::is_below(normal, prefix));
    around.max_by_key(|(prefix, _)| prefix.len()).map(|(_, fallback)| *fallback)
}

/// The nested routers that have layers, each with its prefix in normal form. Where several are nested below one prefix, an
/// unknown path is of none of them.
fn layered_only(scopes: &[Scope], layers: &Layers<'_>) -> Vec<(String, usize)> {
    let nested = scopes.iter().enumerate().filter(|(_, scope)| scope.is_nested);
    let nested: Vec<_> = nested.map(|(index, scope)| (path::of_route(&scope.prefix), index)).collect();
    let is_alone = |normal: &String| nested.iter().filter(|(other, _)| other == normal).count() == 1;
    nested.iter().filter(|(normal, index)| layers.are_of(*index) && is_alone(normal)).cloned().collect()
}

/// What stands behind the prefix of a router in the paths below it.
const BELOW: [&str; 3] = ["", "/", "/{*rest}"];
