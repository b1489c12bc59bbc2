//! The routes as they serve: a radix tree of paths, built once and shared by all loops.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use anywire_http::{Method, RequestHead, Response, StatusCode};

use super::{Entry, Fallback, RouteError, Router, Scope};
use crate::contained::drop_each;
use crate::extract::{StateFactories, States};
use crate::handler::{Endpoint, Slot};
use crate::request::Params;
use anywire_http::IntoResponse;

impl Router {
    /// Checks everything and builds the tree.
    pub(crate) fn build(&self) -> Result<Table, RouteError> {
        self.scopes.iter().try_for_each(|scope| scope.states.check())?;
        let mut tree = matchit::Router::new();
        let mut leaves = Vec::with_capacity(self.routes.len());
        let mut endpoints = Endpoints { served: Vec::new(), scopes: &self.scopes };
        let mut literals = Vec::new();
        for route in &self.routes {
            RouteError::check_path(&route.path)?;
            let leaf = Leaf::new(&route.path, &route.methods, &mut endpoints)?;
            if let Err(cause) = tree.insert(&route.path, leaves.len()) {
                return Err(RouteError::Path { path: route.path.clone(), cause });
            }
            if !route.path.contains(['{', '}']) && literals.len() < LITERALS_MAX {
                literals.push(Literal {
                    path: route.path.as_str().into(),
                    get: leaf.get,
                    leaf: leaves.len(),
                });
            }
            leaves.push(leaf);
        }
        let fallbacks = Fallbacks::new(&self.fallbacks, &mut endpoints)?;
        let states = self.scopes.iter().map(|scope| (scope.states.clone(), scope.parent)).collect();
        Ok(Table { tree, literals, leaves, endpoints: endpoints.served, fallbacks, states })
    }
}

/// The handlers that have passed the checks so far.
struct Endpoints<'r> {
    served: Vec<Served>,
    scopes: &'r [Scope],
}

impl Endpoints<'_> {
    fn add(&mut self, name: RouteName, entry: &Entry) -> Result<EndpointId, RouteError> {
        let scopes = std::iter::successors(Some(entry.scope), |scope| self.scopes[*scope].parent);
        if let Some(type_name) =
            entry.needs.missing(|id| scopes.clone().any(|scope| self.scopes[scope].states.contains(id)))
        {
            return Err(RouteError::State { route: name.to_string(), place: entry.place, type_name });
        }
        self.served.push(Served { endpoint: Arc::clone(&entry.endpoint), name, scope: entry.scope });
        // Each route is some hundred bytes of a program.
        Ok(EndpointId(self.served.len() as u32 - 1))
    }
}

/// A handler and its name in the log.
struct Served {
    endpoint: Arc<dyn Endpoint>,
    name: RouteName,
    /// The index of its router's states.
    scope: usize,
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
    fn fallback(prefix: &str) -> Self {
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

/// The routes as they serve.
pub(crate) struct Table {
    tree: matchit::Router<usize>,
    /// The first paths without a variable. They are compared before the tree is searched: 15 instructions instead of 150.
    literals: Vec<Literal>,
    leaves: Vec<Leaf>,
    endpoints: Vec<Served>,
    fallbacks: Fallbacks,
    /// Of each router, and the router around it.
    states: Vec<(StateFactories, Option<usize>)>,
}

impl Drop for Table {
    /// A handler drops what it has captured, and a router its states.
    fn drop(&mut self) {
        drop_each(self.endpoints.drain(..));
        drop_each(self.states.drain(..).flat_map(|(factories, _)| factories.into_all()));
    }
}

/// A path without a variable.
struct Literal {
    path: Box<str>,
    /// The `GET` handler, here to save a look at the leaf.
    get: Option<EndpointId>,
    leaf: usize,
}

/// A handler's place among all handlers of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointId(u32);

impl EndpointId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The result of a search.
pub(crate) enum Matched {
    /// This handler answers, with these parameters.
    Endpoint(EndpointId, Params),
    /// The router itself answers: 404, 405, or the list of methods. Boxed, because it is rare and the other one is hot.
    Response(Box<Response>),
}

impl Table {
    /// The names of all handlers, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RouteName> {
        self.endpoints.iter().map(|served| &served.name)
    }

    /// Memory for a run of this handler.
    pub(crate) fn slot(&self, id: EndpointId) -> Slot {
        self.endpoints[id.index()].endpoint.slot()
    }

    /// The name of this handler in the log.
    pub(crate) fn name(&self, id: EndpointId) -> &RouteName {
        &self.endpoints[id.index()].name
    }

    /// A clone of all states, for one loop.
    pub(crate) fn states(&self) -> States {
        States::new(&self.states, self.endpoints.iter().map(|served| served.scope))
    }

    /// The names of each route's parameters, for one loop: reference-counted without atomics.
    pub(crate) fn param_names(&self) -> Vec<Rc<[Box<str>]>> {
        self.leaves.iter().map(|leaf| leaf.params.iter().cloned().collect()).collect()
    }

    /// The handler of a request whose path is one of the literals. [`Table::find`] finds the others.
    #[inline]
    pub(crate) fn find_literal(&self, head: &RequestHead) -> Option<EndpointId> {
        // A target that is a literal path has no query to be split off.
        let (method, target) = (head.method(), head.path_and_query());
        let literal = self.literals.iter().find(|literal| *literal.path == *target)?;
        if *method == Method::GET { literal.get } else { self.leaves[literal.leaf].endpoint(method) }
    }

    /// Finds the handler of a request. The path is matched as it came, still percent-encoded.
    #[inline(never)]
    pub(crate) fn find(&self, head: &RequestHead, names: &[Rc<[Box<str>]>]) -> Matched {
        let path = head.path();
        let Ok(found) = self.tree.at(path) else { return self.unknown_path(head) };
        self.leaves[*found.value].matched(head.method(), || {
            if found.params.is_empty() {
                return Params::default();
            }
            let ranges = found.params.iter().map(|(_, value)| range_in(path, value)).collect();
            Params::new(Rc::clone(&names[*found.value]), ranges)
        })
    }

    fn unknown_path(&self, head: &RequestHead) -> Matched {
        if *head.method() == Method::CONNECT {
            // Not even the fallback may answer: a 2xx would promise a tunnel (RFC 9110 section 9.3.6).
            return (StatusCode::NOT_IMPLEMENTED, "this server makes no tunnels").into();
        }
        if let Some(endpoint) = self.fallbacks.find(head.path()) {
            return Matched::Endpoint(endpoint, Params::default());
        }
        if *head.method() == Method::OPTIONS && head.path() == "*" {
            // A question about the server as a whole (RFC 9110 section 9.3.7).
            return StatusCode::NO_CONTENT.into();
        }
        (StatusCode::NOT_FOUND, "nothing is here").into()
    }
}

impl<R: IntoResponse> From<R> for Matched {
    fn from(response: R) -> Self {
        Self::Response(Box::new(response.into_response()))
    }
}

/// The handlers of unknown paths.
struct Fallbacks {
    /// By the prefix of a nested router.
    nested: matchit::Router<EndpointId>,
    outermost: Option<EndpointId>,
}

impl Fallbacks {
    fn new(given: &[Fallback], endpoints: &mut Endpoints<'_>) -> Result<Self, RouteError> {
        let mut fallbacks = Self { nested: matchit::Router::new(), outermost: None };
        for (index, Fallback { prefix, entry }) in given.iter().enumerate() {
            if let Some(first) = given[..index].iter().find(|first| first.prefix == *prefix) {
                return Err(RouteError::FallbackTwice { first: first.entry.place, second: entry.place });
            }
            let endpoint = endpoints.add(RouteName::fallback(prefix), entry)?;
            if prefix.is_empty() {
                fallbacks.outermost = Some(endpoint);
                continue;
            }
            RouteError::check_path(prefix)?;
            for path in [prefix.clone(), format!("{prefix}/"), format!("{prefix}/{{*rest}}")] {
                let added = fallbacks.nested.insert(path, endpoint);
                added.map_err(|cause| RouteError::Path { path: prefix.clone(), cause })?;
            }
        }
        Ok(fallbacks)
    }

    /// The fallback of the innermost nested router that contains the path.
    fn find(&self, path: &str) -> Option<EndpointId> {
        self.nested.at(path).ok().map(|found| *found.value).or(self.outermost)
    }
}

/// All methods of one path.
struct Leaf {
    methods: Vec<(Method, EndpointId)>,
    /// The `GET` handler: most requests are `GET`.
    get: Option<EndpointId>,
    allow: String,
    params: Vec<Box<str>>,
}

impl Leaf {
    fn new(
        path: &str,
        methods: &[(Method, Entry)],
        endpoints: &mut Endpoints<'_>,
    ) -> Result<Self, RouteError> {
        for (index, (method, second)) in methods.iter().enumerate() {
            if let Some((_, first)) = methods[..index].iter().find(|(other, _)| other == method) {
                return Err(RouteError::Twice {
                    method: method.clone(),
                    path: path.to_owned(),
                    first: first.place,
                    second: second.place,
                });
            }
        }
        let mut allow: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
        if allow.contains(&"GET") && !allow.contains(&"HEAD") {
            allow.push("HEAD");
        }
        if !allow.contains(&"OPTIONS") {
            allow.push("OPTIONS");
        }
        let allow = allow.join(", ");
        let mut served = Vec::with_capacity(methods.len());
        for (method, entry) in methods {
            let name = RouteName { method: method.as_str().into(), path: path.into() };
            served.push((method.clone(), endpoints.add(name, entry)?));
        }
        let mut leaf = Self { methods: served, get: None, allow, params: param_names(path) };
        leaf.get = leaf.endpoint_of(&Method::GET);
        Ok(leaf)
    }

    fn matched(&self, method: &Method, params: impl FnOnce() -> Params) -> Matched {
        match self.endpoint(method) {
            Some(endpoint) => Matched::Endpoint(endpoint, params()),
            None => Matched::Response(self.other_method(method)),
        }
    }

    #[inline]
    fn endpoint(&self, method: &Method) -> Option<EndpointId> {
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

/// The names between braces, in order: `/a/{b}/{*c}` has `b` and `c`. `{{` is a literal brace.
fn param_names(path: &str) -> Vec<Box<str>> {
    let mut names = Vec::new();
    let mut rest = path.replace("{{", "").replace("}}", "");
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        names.push(name.trim_start_matches('*').into());
        rest = tail.to_owned();
    }
    names
}

/// The range of `part` in `whole`, of which it is a slice.
fn range_in(whole: &str, part: &str) -> Range<u32> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    // A head is limited to far less than 4 GiB.
    start as u32..(start + part.len()) as u32
}

const LITERALS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    async fn nothing() {}

    fn find(table: &Table, method: &Method, target: &str) -> Matched {
        let head = RequestHead::new(method.clone(), target).expect("a target");
        let found = table.find(&head, &table.param_names());
        if let Some(literal) = table.find_literal(&head) {
            assert!(matches!(found, Matched::Endpoint(endpoint, _) if endpoint == literal), "{target}");
        }
        found
    }

    fn status(table: &Table, method: &Method, target: &str) -> Option<StatusCode> {
        match find(table, method, target) {
            Matched::Endpoint(..) => None,
            Matched::Response(response) => Some(response.status),
        }
    }

    #[test]
    fn finds_by_method_and_path() {
        let inner = Router::new().get("/", nothing).post("/{id}", nothing);
        let table = Router::new().get("/", nothing).nest("/a", inner).build().expect("routes are right");
        assert_eq!(status(&table, &Method::GET, "/"), None);
        assert_eq!(status(&table, &Method::HEAD, "/"), None);
        assert_eq!(status(&table, &Method::GET, "/?page=2"), None);
        assert_eq!(status(&table, &Method::GET, "http://example.com/a?page=2"), None);
        assert_eq!(status(&table, &Method::GET, "/a"), None);
        assert_eq!(status(&table, &Method::POST, "/a/7"), None);
        assert_eq!(status(&table, &Method::GET, "/a/7"), Some(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(status(&table, &Method::OPTIONS, "/a/7"), Some(StatusCode::NO_CONTENT));
        assert_eq!(status(&table, &Method::GET, "/b"), Some(StatusCode::NOT_FOUND));
        let table =
            Router::new().nest("/c/", Router::new().get("/d", nothing)).build().expect("routes are right");
        assert_eq!(status(&table, &Method::GET, "/c/d"), None);
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
        assert_eq!(literal(Method::PUT, "/a"), None);
        assert_eq!(literal(Method::GET, "/a?b"), None);
        assert_eq!(literal(Method::GET, "/b"), None);
    }

    #[test]
    fn allow_names_what_the_path_answers() {
        let table = Router::new().get("/", nothing).put("/", nothing).build().expect("routes are right");
        let Matched::Response(response) = find(&table, &Method::DELETE, "/") else {
            panic!("DELETE has no handler")
        };
        assert_eq!(response.headers.get("allow"), Some("GET, PUT, HEAD, OPTIONS"));
    }

    #[test]
    fn parameters_stand_where_they_matched() {
        assert_eq!(param_names("/a/{b}/x-{c}.y/{*d}"), ["b".into(), "c".into(), "d".into()] as [Box<str>; 3]);
        assert_eq!(param_names("/{{a}}/{b}"), ["b".into()] as [Box<str>; 1], "a literal brace is doubled");
        assert_eq!(range_in("/a/seven", &"/a/seven"[3..]), 3..8);
    }

    #[test]
    fn mistakes_name_their_route() {
        let twice = Router::new().get("/a", nothing).get("/a", nothing).build();
        assert!(matches!(twice, Err(RouteError::Twice { method: Method::GET, path, .. }) if path == "/a"));
        let clash = Router::new().get("/{a}", nothing).get("/{b}", nothing).build();
        assert!(matches!(clash, Err(RouteError::Path { path, .. }) if path == "/{b}"));
        let relative = Router::new().get("a", nothing).build();
        assert!(matches!(relative, Err(RouteError::Relative { .. })));
        let lacking = Router::new().get("/", async |_: State<u8>| ()).build();
        assert!(matches!(lacking, Err(RouteError::State { type_name: "u8", .. })));
    }
}
