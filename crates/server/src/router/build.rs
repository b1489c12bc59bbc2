//! Routes as they were given become routes that serve, once all of them are checked.

pub(super) mod conditions;
pub(super) mod endpoints;
pub(super) mod layers;
#[cfg(feature = "openapi")]
pub(super) mod openapi;
pub(super) mod pools;
pub(super) mod slashes;
pub(super) mod tree;
pub(super) mod tunnels;

use std::collections::HashMap;

use crate::layer::GivenLayer;
use crate::router::build::endpoints::{Endpoints, Generation};
use crate::router::build::pools::counts_from_arrival;
use crate::router::build::tree::Tree;
use crate::router::table::fallbacks::Fallbacks;
use crate::router::table::leaf::Leaf;
use crate::router::table::normal;
use crate::router::table::{Literal, Table};
use crate::router::{Route, RouteError, Router};

impl Router {
    /// Checks everything and builds the tree.
    pub(crate) fn build(&self) -> Result<Table, RouteError> {
        self.build_within(&[], Generation::MIN)
    }

    /// Checks everything and builds the tree, within the layers of a server, as its table of this generation.
    pub(crate) fn build_within(
        &self,
        around: &[GivenLayer],
        generation: Generation,
    ) -> Result<Table, RouteError> {
        self.check_layers_wrap()?;
        self.scopes.iter().try_for_each(|scope| scope.states.check())?;
        self.prefixes.iter().try_for_each(|(prefix, place)| RouteError::check_path(prefix, place))?;
        let mut tree = Tree::new();
        let (mut leaves, mut normals) = (Vec::new(), Vec::new());
        let mut endpoints = Endpoints::new(&self.scopes, generation)?;
        let mut literals = Vec::new();
        let mut more = Vec::new();
        #[cfg(feature = "openapi")]
        let pages = self.add_pages(&mut more);
        more.extend(self.redirects(&more));
        for (normal, routes) in by_path(self.routes.iter().chain(&more))? {
            let leaf = Leaf::new(&normal, leaves.len(), &routes, &mut endpoints)?;
            if leaf.params.is_empty() && literals.len() < LITERALS_MAX {
                literals.push(Literal { path: normal.as_str().into(), get: leaf.get, leaf: leaves.len() });
            }
            tree.insert(normal.clone(), leaves.len(), &routes[0].path, routes[0].entry.place)?;
            leaves.push(leaf);
            normals.push(normal);
        }
        let fallbacks = Fallbacks::new(&self.fallbacks, &self.scopes, &mut endpoints)?;
        for (leaf, normal) in leaves.iter_mut().zip(&normals) {
            leaf.yields_to = fallbacks.closer_than(normal).collect();
        }
        #[cfg(feature = "openapi")]
        self.fill(&pages, around)?;
        let tunnel = self.tunnel(&mut endpoints)?;
        let around = endpoints.add_routes(around)?;
        let states = self.scopes.iter().map(|scope| (scope.states.clone(), scope.parent)).collect();
        let (endpoints, choices, layers) = endpoints.into_parts();
        // Within layers of a server, the route is looked up later.
        let literals_within = if around.is_some() { std::mem::take(&mut literals) } else { Vec::new() };
        let tree = tree.build();
        let (is_stamped, pools) = (endpoints.iter().any(counts_from_arrival), Vec::new());
        Ok(Table {
            generation,
            tree,
            literals,
            literals_within,
            has_matrix: leaves.iter().any(|leaf| leaf.ignores_matrix),
            leaves,
            endpoints,
            choices,
            layers,
            fallbacks,
            tunnel,
            around,
            states,
            is_stamped,
            pools,
        })
    }

    /// Refuses layers of a router without routes that is a part of another one: they would wrap nothing.
    fn check_layers_wrap(&self) -> Result<(), RouteError> {
        let entries = self.routes.iter().map(|route| &route.entry);
        let entries =
            entries.chain(self.fallbacks.iter().map(|fallback| &fallback.entry)).chain(&self.tunnels);
        let scopes = entries.map(|entry| entry.scope);
        #[cfg(feature = "openapi")]
        let scopes = scopes.chain(self.scopes_with_pages());
        let mut has_code = vec![false; self.scopes.len()];
        for scope in scopes {
            let around = std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent);
            around.for_each(|scope| has_code[scope] = true);
        }
        for (scope, has_code) in self.scopes.iter().zip(has_code) {
            if let (Some(layer), Some(router), false) = (scope.layers.first(), scope.place, has_code) {
                return Err(RouteError::LayerOnNothing { name: layer.name(), place: layer.place(), router });
            }
        }
        Ok(())
    }
}

/// The routes by the normal form of their path, in the order of each path's first route.
fn by_path<'r>(routes: impl Iterator<Item = &'r Route>) -> Result<Vec<(String, Vec<&'r Route>)>, RouteError> {
    let mut paths: Vec<(String, Vec<&Route>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for route in routes {
        RouteError::check_path(&route.path, route.entry.place)?;
        let normal = normal::of_route(&route.path);
        let place = *places.entry(normal.clone()).or_insert(paths.len());
        match paths.get_mut(place) {
            Some((_, routes)) => routes.push(route),
            None => paths.push((normal, vec![route])),
        }
    }
    Ok(paths)
}

/// So many are compared before the tree is searched.
const LITERALS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use anywire_http::Method;

    use super::*;
    use crate::State;

    async fn nothing() {}

    #[test]
    fn mistakes_name_their_route() {
        let twice = Router::new().get("/a", nothing).get("/a", nothing).build();
        assert!(
            matches!(twice, Err(RouteError::Twice { method: Some(Method::GET), path, .. }) if path == "/a")
        );
        let clash = Router::new().get("/{a}", nothing).get("/{b}", nothing).build();
        assert!(matches!(clash, Err(RouteError::Conflict { path, .. }) if path == "/{b}"));
        let relative = Router::new().get("a", nothing).build();
        assert!(matches!(relative, Err(RouteError::Relative { .. })));
        let lacking = Router::new().get("/", async |_: State<u8>| ()).build();
        assert!(matches!(lacking, Err(RouteError::State { type_name: "u8", .. })));
    }
}
