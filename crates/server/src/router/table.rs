//! The routes as they serve: a radix tree of paths, built once and shared by all loops.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use anywire_http::{Method, RequestHead, Response};
use anywire_loops::Pool;

use super::choice::{Choice, Otherwise, Outcome};
use super::endpoints::{EndpointId, Endpoints, Generation, RouteName, Served, Serves};
use super::fallbacks::Fallbacks;
use super::layers::UsedLayer;
use super::leaf::Leaf;
use super::matrix::Bare;
use super::pools::counts_from_arrival;
use super::tree::Tree;
use super::{Route, RouteError, Router, path};
use crate::contained::drop_each;
use crate::extract::{StateFactories, States, StatesId};
use crate::layer::GivenLayer;
use crate::request::{Params, Request};

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
        self.fill(&pages)?;
        let tunnel = self.tunnel(&mut endpoints)?;
        let around = endpoints.add_routes(around)?;
        let states = self.scopes.iter().map(|scope| (scope.states.clone(), scope.parent)).collect();
        let (endpoints, choices, layers) = endpoints.into_parts();
        // Within layers of a server, the route is looked up later.
        let hidden = if around.is_some() { std::mem::take(&mut literals) } else { Vec::new() };
        let tree = tree.build();
        let (is_stamped, pools) = (endpoints.iter().any(counts_from_arrival), Vec::new());
        Ok(Table {
            generation,
            tree,
            literals,
            hidden,
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
        let normal = path::of_route(&route.path);
        let place = *places.entry(normal.clone()).or_insert(paths.len());
        match paths.get_mut(place) {
            Some((_, routes)) => routes.push(route),
            None => paths.push((normal, vec![route])),
        }
    }
    Ok(paths)
}

/// The routes as they serve.
pub(crate) struct Table {
    generation: Generation,
    tree: matchit::Router<usize>,
    /// The first paths without a variable. They are compared before the tree is searched: 15 instructions instead of 150.
    literals: Vec<Literal>,
    /// The same, if layers of the server come before the look-up.
    hidden: Vec<Literal>,
    leaves: Vec<Leaf>,
    /// A route ignores matrix parameters.
    has_matrix: bool,
    endpoints: Vec<Served>,
    /// By their number.
    choices: Vec<Choice>,
    /// Those of routes, routers and the server, by their number.
    layers: Vec<GivenLayer>,
    fallbacks: Fallbacks,
    /// What answers `CONNECT`.
    tunnel: EndpointId,
    /// All of it within layers of the server, if there are any.
    around: Option<EndpointId>,
    /// Of each router, and the router around it.
    states: Vec<(StateFactories, Option<usize>)>,
    /// A handler has to know when its requests came.
    pub(super) is_stamped: bool,
    /// By endpoint: the pool that its handler runs on. Empty without a server.
    pub(super) pools: Vec<Option<Pool>>,
}

impl Drop for Table {
    /// A handler drops what it has captured, and a router its states.
    fn drop(&mut self) {
        drop_each(self.endpoints.drain(..));
        // A guard may be a function.
        drop_each(self.choices.drain(..));
        drop_each(self.layers.drain(..));
        drop_each(self.states.drain(..).flat_map(|(factories, _)| factories.into_all()));
    }
}

/// A path without a variable.
struct Literal {
    /// In normal form.
    path: Box<str>,
    /// What answers `GET`, here to save a look at the leaf.
    get: EndpointId,
    leaf: usize,
}

impl Table {
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// The names of all handlers, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RouteName> {
        self.endpoints.iter().map(|served| &served.name)
    }

    /// A handler and its layers.
    pub(crate) fn served(&self, id: EndpointId) -> &Served {
        &self.endpoints[id.index()]
    }

    /// All handlers in the order of their numbers.
    pub(crate) fn all_served(&self) -> &[Served] {
        &self.endpoints
    }

    /// The layers by their number.
    pub(crate) fn layers(&self) -> &[GivenLayer] {
        &self.layers
    }

    /// Whose states a layer sees.
    pub(crate) fn states_of(&self, layer: UsedLayer) -> StatesId {
        StatesId::of_router(layer.scope, self.endpoints.len())
    }

    /// The name of the layer that an endpoint runs, if it runs one.
    #[cold]
    pub(crate) fn outermost_layer(&self, id: EndpointId) -> Option<&'static str> {
        self.served(id).layers.first().map(|used| self.layers[used.layer].name())
    }

    /// The name of this handler in the log.
    pub(crate) fn name(&self, id: EndpointId) -> &RouteName {
        &self.endpoints[id.index()].name
    }

    /// A clone of all states, for one loop.
    pub(crate) fn states(&self) -> States {
        States::new(&self.states, self.endpoints.iter().map(|served| served.scope))
    }

    /// The path of each handler's route, for one loop. What the router itself answers to other methods of a path has that path; fallbacks
    /// have none.
    pub(crate) fn paths(&self) -> Vec<Option<Rc<str>>> {
        let mut paths = vec![None; self.endpoints.len()];
        for leaf in &self.leaves {
            let mut first = None;
            // Handlers come first, each with the path as it was given to it.
            for endpoint in leaf.endpoints() {
                let path = Some(&self.name(endpoint).path).filter(|path| path.starts_with('/'));
                let own = path.map(|path| Rc::from(&**path));
                first = first.or_else(|| own.clone());
                paths[endpoint.index()] = own.or_else(|| first.clone());
            }
        }
        paths
    }

    /// The names of each route's parameters, for one loop: reference-counted without atomics.
    pub(crate) fn param_names(&self) -> Vec<Rc<[Box<str>]>> {
        self.leaves.iter().map(|leaf| leaf.params.iter().cloned().collect()).collect()
    }

    /// Who answers a request whose path is one of the literals. [`Table::find`] finds the others.
    #[inline]
    pub(crate) fn find_literal(&self, head: &RequestHead) -> Option<EndpointId> {
        self.literal_of(&self.literals, head)
    }

    #[inline(always)]
    fn literal_of(&self, literals: &[Literal], head: &RequestHead) -> Option<EndpointId> {
        // A target that is a literal path has no query to be split off.
        let (method, target) = (head.method(), head.path_and_query());
        let literal = literals.iter().find(|literal| *literal.path == *target)?;
        Some(if *method == Method::GET { literal.get } else { self.leaves[literal.leaf].endpoint(method) })
    }

    /// Finds who answers a request. Its path is matched as it came, and in its normal form if that may differ. If the server
    /// has layers, they answer.
    #[inline]
    pub(crate) fn find(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        match self.around {
            Some(endpoint) => endpoint,
            None => self.search(head, names, params),
        }
    }

    /// Finds the route, within the layers of the server.
    #[inline(never)]
    pub(crate) fn route(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        match self.literal_of(&self.hidden, head) {
            Some(endpoint) => endpoint,
            None => self.search(head, names, params),
        }
    }

    #[inline]
    fn search(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        if self.has_matrix && path.contains(';') {
            return self.search_matrix(head, names, params);
        }
        let Ok(found) = self.tree.at(path) else {
            return match path::is_plain(path) {
                true => self.unknown_path(head, path, params),
                false => self.find_normal(head, names, params),
            };
        };
        let leaf = *found.value;
        let mut is_plain = true;
        if !found.params.is_empty() {
            // One pass: each step of the tree's iterator checks name and value for UTF-8.
            let ranges = found.params.iter().map(|(_, value)| {
                is_plain &= path::is_plain(value);
                let range = range_in(path, value);
                // A head is limited to far less than 4 GiB.
                range.start as u32..range.end as u32
            });
            params.set(&names[leaf], ranges);
        }
        match is_plain {
            true => self.matched(leaf, head, path, params),
            // The text between parameters is the route's, and so in normal form. A parameter that is not may hide that another route
            // has this text.
            false => self.find_normal(head, names, params),
        }
    }

    /// Finds who answers by the normal form of the path. Parameters are those of the path as it came.
    #[cold]
    fn find_normal(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        let normal = path::of_request(path);
        let Ok(found) = self.tree.at(&normal) else { return self.unknown_path(head, &normal, params) };
        set_in_original(params, path, &normal, &found, names);
        self.matched(*found.value, head, &normal, params)
    }

    /// Finds who answers a path with matrix parameters: a route that has a `;` in its own path, else one that ignores the parameters, else one
    /// to which a `;` is a character as any other.
    #[cold]
    fn search_matrix(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        let normal = path::of_request(path);
        let whole = self.tree.at(&normal).ok();
        let is_own = whole.as_ref().is_some_and(|found| self.leaves[*found.value].has_semicolon);
        if !is_own && let Some(endpoint) = self.find_without_matrix(head, names, params) {
            return endpoint;
        }
        match whole {
            // A segment of parameters alone is empty to a route that ignores them.
            Some(found) if is_own || !self.leaves[*found.value].ignores_matrix => {
                set_in_original(params, path, &normal, &found, names);
                self.matched(*found.value, head, &normal, params)
            }
            _ => self.unknown_path(head, &normal, params),
        }
    }

    /// Finds a route that takes the matrix parameters of the path.
    fn find_without_matrix(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> Option<EndpointId> {
        let bare = Bare::of(head.path())?;
        let normal = path::of_request(&bare.path);
        let found = self.tree.at(&normal).ok()?;
        if !self.leaves[*found.value].ignores_matrix {
            return None;
        }
        if !found.params.is_empty() {
            let ranges = found.params.iter().map(|(_, value)| range_in(&normal, value));
            let ranges = bare.in_original(path::in_original(&bare.path, ranges));
            params.set(&names[*found.value], ranges.into_iter());
        }
        Some(self.matched(*found.value, head, &normal, params))
    }

    /// What answers at a leaf, unless the path, which is in normal form, is an unknown one of a nested router.
    #[inline]
    fn matched(&self, leaf: usize, head: &RequestHead, normal: &str, params: &mut Params) -> EndpointId {
        let leaf = &self.leaves[leaf];
        if !leaf.yields_to.is_empty()
            && let Some(fallback) = self.fallbacks.nested(normal)
            && leaf.yields_to.contains(&fallback)
        {
            return self.unknown_path(head, normal, params);
        }
        leaf.endpoint(head.method())
    }

    fn unknown_path(&self, head: &RequestHead, normal: &str, params: &mut Params) -> EndpointId {
        params.clear();
        let is_connect = *head.method() == Method::CONNECT;
        if is_connect { self.tunnel } else { self.fallbacks.find(normal) }
    }

    /// Chooses among endpoints with conditions. Gives the request to the one that it returns.
    #[cold]
    pub(crate) fn choose(
        &self,
        choice: usize,
        request: &mut Request,
        names: &[Rc<[Box<str>]>],
    ) -> EndpointId {
        let choice = &self.choices[choice];
        let same = match (choice.choose(request), &choice.otherwise) {
            (Outcome::Endpoint(endpoint), _) => endpoint,
            (Outcome::Producing(endpoint, produces), _) => {
                request.extensions_mut().insert(produces);
                endpoint
            }
            (Outcome::Refused(why, scope), Otherwise::Unknown { refused, .. }) => {
                request.extensions_mut().insert(why);
                let within = refused.iter().find(|(of, _)| *of == scope);
                debug_assert!(within.is_some(), "there is one for each router around some of them");
                within.map_or_else(|| self.fallbacks.find(""), |(_, endpoint)| *endpoint)
            }
            (Outcome::Nobody, Otherwise::Unknown { leaf, .. }) => {
                let endpoint = self.beside_leaf(request, &self.leaves[*leaf]);
                return request.find_route(|_, params| {
                    params.clear();
                    endpoint
                });
            }
            (_, &Otherwise::Outer { fallback, outer }) => {
                return request
                    .find_route(|head, params| self.beside_fallback(head, fallback, outer, names, params));
            }
        };
        request.set_endpoint(same);
        same
    }

    /// Finds who answers a path whose leaf lets a request not in. The fallbacks before which the leaf stands back have not either.
    fn beside_leaf(&self, request: &Request, leaf: &Leaf) -> EndpointId {
        if *request.method() == Method::CONNECT {
            return self.tunnel;
        }
        let mut endpoint = self.fallbacks.find(&path::of_request(request.path()));
        while leaf.yields_to.contains(&endpoint)
            && let Serves::Choice(choice) = self.endpoints[endpoint.index()].serves
        {
            let choice = &self.choices[choice];
            endpoint = match (choice.choose(request), &choice.otherwise) {
                // To whom a nested router is there, it has fallbacks of others within its layers.
                (Outcome::Endpoint(inside), _) => inside,
                (_, Otherwise::Outer { outer, .. }) => *outer,
                (_, Otherwise::Unknown { .. }) => break,
            };
        }
        endpoint
    }

    /// Finds who answers an unknown path of a nested router whose fallbacks let a request not in: the leaf that has stood back, or the
    /// fallback around it.
    fn beside_fallback(
        &self,
        head: &RequestHead,
        fallback: EndpointId,
        outer: EndpointId,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        let normal = path::of_request(head.path());
        if let Ok(found) = self.tree.at(&normal)
            && let leaf = &self.leaves[*found.value]
            && leaf.yields_to.contains(&fallback)
            && !leaf.yields_to.contains(&outer)
        {
            set_in_original(params, head.path(), &normal, &found, names);
            return leaf.endpoint(head.method());
        }
        outer
    }

    /// Says to caches on what a choice has looked at.
    pub(crate) fn mark(&self, choice: usize, response: &mut Response) {
        self.choices[choice].mark(response);
    }
}

/// Sets the parameters that were found in the normal form of a path, as they stand in the path as it came.
fn set_in_original(
    params: &mut Params,
    path: &str,
    normal: &str,
    found: &matchit::Match<'_, '_, &usize>,
    names: &[Rc<[Box<str>]>],
) {
    params.clear();
    if !found.params.is_empty() {
        let ranges = found.params.iter().map(|(_, value)| range_in(normal, value));
        params.set(&names[*found.value], path::in_original(path, ranges).into_iter());
    }
}

/// The range of `part` in `whole`, of which it is a slice.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

const LITERALS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    async fn nothing() {}

    /// The route that answers; `None` for the router itself.
    fn find(table: &Table, method: Method, target: &str) -> Option<String> {
        let head = RequestHead::new(method, target).expect("a target");
        let endpoint = table.find(&head, &table.param_names(), &mut Params::default());
        if let Some(literal) = table.find_literal(&head) {
            assert_eq!(endpoint, literal, "{target}");
        }
        Some(table.name(endpoint).to_string()).filter(|name| *name != RouteName::router().to_string())
    }

    #[test]
    fn finds_by_method_and_path() {
        let inner = Router::new().get("/", nothing).post("/{id}", nothing);
        let table = Router::new().get("/", nothing).nest("/a", inner).build().expect("routes are right");
        assert_eq!(find(&table, Method::GET, "/").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::HEAD, "/").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::GET, "/?page=2").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::GET, "http://example.com/a?page=2").as_deref(), Some("GET /a"));
        assert_eq!(find(&table, Method::GET, "/a").as_deref(), Some("GET /a"));
        assert_eq!(find(&table, Method::POST, "/a/7").as_deref(), Some("POST /a/{id}"));
        assert_eq!(find(&table, Method::GET, "/a/7"), None);
        assert_eq!(find(&table, Method::OPTIONS, "/a/7"), None);
        assert_eq!(find(&table, Method::GET, "/b"), None);
        let table =
            Router::new().nest("/c/", Router::new().get("/d", nothing)).build().expect("routes are right");
        assert_eq!(find(&table, Method::GET, "/c/d").as_deref(), Some("GET /c/d"));
    }

    #[test]
    fn literal_paths_are_found_without_the_tree() {
        let router = Router::new().get("/a", nothing).post("/a", nothing).get("/{name}", nothing);
        let table = router.build().expect("routes are right");
        let literal = |method: Method, target| {
            table.find_literal(&RequestHead::new(method, target).expect("a target")).map(EndpointId::index)
        };
        assert_eq!(literal(Method::GET, "/a"), Some(0));
        assert_eq!(literal(Method::HEAD, "/a"), Some(0));
        assert_eq!(literal(Method::POST, "/a"), Some(1));
        assert_eq!(literal(Method::PUT, "/a"), Some(2), "the router answers");
        assert_eq!(literal(Method::GET, "/a?b"), None);
        assert_eq!(literal(Method::GET, "/b"), None);
    }

    #[test]
    fn parameters_stand_where_they_matched() {
        assert_eq!(range_in("/a/seven", &"/a/seven"[3..]), 3..8);
    }

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
