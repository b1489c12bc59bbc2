//! The router: a radix tree of paths, and at each path a handler per method.

use std::ops::Range;
use std::rc::Rc;

use anywire_http::{Method, RequestHead, Response, StatusCode};

use crate::extract::{Needs, StateFactories, States};
use crate::handler::{Endpoint, Handler, Slot, endpoint};
use crate::request::Params;
use crate::respond::IntoResponse;

/// Routes and their handlers.
///
/// A path is literal text, `{name}` for one segment (also `a-{name}.b`, one a segment), and `{*rest}` for all that
/// follows; literal beats variable, and the cost of a match does not grow with the number of routes. A path that
/// nobody has answers 404; a method that the path does not have answers 405 with `Allow`; `HEAD` is answered by the
/// `GET` handler without its body, `OPTIONS` by the list of methods, unless a handler of their own is given.
///
/// Mistakes (two handlers for one path and method, paths that clash, state that a handler needs and nobody gave) are
/// collected and reported by [`Server::start`](crate::Server::start), each naming its route.
///
/// ```
/// use anywire_server::{Path, Router};
///
/// let orders = Router::new().get("/{id}", async |Path(id): Path<u64>| format!("order {id}"));
/// let router = Router::new().get("/", async || "Hello, World!").nest("/orders", orders);
/// # drop(router);
/// ```
#[derive(Default)]
pub struct Router {
    routes: Vec<Route>,
    fallback: Option<Box<dyn Endpoint>>,
    states: StateFactories,
    needs: Vec<(String, Needs)>,
}

struct Route {
    path: String,
    methods: Vec<(Method, Box<dyn Endpoint>)>,
}

/// Why a set of routes cannot serve; its author's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path clashes with another or is malformed.
    #[error("route {path:?} cannot be added: {cause}; rename one of the two or make one of them longer")]
    Path {
        /// The path as it was given, with its prefix.
        path: String,
        /// What the radix tree found.
        #[source]
        cause: matchit::InsertError,
    },
    /// A path that does not begin with `/`.
    #[error("route {path:?} cannot be added: a path begins with '/'; write {:?}", format!("/{path}"))]
    Relative {
        /// The path as it was given.
        path: String,
    },
    /// Two handlers for the same method and path.
    #[error("{method} {path} has two handlers; remove one of them")]
    Twice {
        /// The method.
        method: Method,
        /// The path.
        path: String,
    },
    /// A handler takes a state that was not given.
    #[error(
        "the handler of {route} takes a State<{type_name}> that nobody gave; add .state(..) to the router"
    )]
    State {
        /// Method and path.
        route: String,
        /// The type that is missing.
        type_name: &'static str,
    },
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {$(
        #[doc = concat!("Answers `", stringify!($method), "` on this path.")]
        #[must_use]
        pub fn $name<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
            self.route(Method::$method, path, handler)
        }
    )*};
}

impl Router {
    /// A router without routes: everything is 404.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    methods! { get GET post POST put PUT delete DELETE patch PATCH head HEAD options OPTIONS }

    /// Answers this method, which may be an extension method, on this path.
    #[must_use]
    pub fn route<H: Handler<Args>, Args: 'static>(mut self, method: Method, path: &str, handler: H) -> Self {
        let mut needs = Needs::default();
        H::needs(&mut needs);
        self.needs.push((format!("{method} {path}"), needs));
        self.add(path.to_owned(), method, endpoint(handler));
        self
    }

    /// Answers what no route has, instead of 404.
    #[must_use]
    pub fn fallback<H: Handler<Args>, Args: 'static>(mut self, handler: H) -> Self {
        let mut needs = Needs::default();
        H::needs(&mut needs);
        self.needs.push(("the fallback".to_owned(), needs));
        self.fallback = Some(endpoint(handler));
        self
    }

    /// Gives a value to the handlers that take a [`State`](crate::State) of its type; a later one of the same type
    /// replaces it. Each loop holds a clone.
    #[must_use]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.give(value);
        self
    }

    /// Puts all routes of another router behind a prefix. Its `/` becomes the prefix itself; its states join, its
    /// fallback is dropped.
    #[must_use]
    pub fn nest(mut self, prefix: &str, inner: Self) -> Self {
        let prefix = prefix.trim_end_matches('/');
        for route in inner.routes {
            let path = if route.path == "/" { prefix.to_owned() } else { format!("{prefix}{}", route.path) };
            for (method, endpoint) in route.methods {
                self.add(path.clone(), method, endpoint);
            }
        }
        self.needs.extend(inner.needs);
        self.states.join(inner.states);
        self
    }

    fn add(&mut self, path: String, method: Method, endpoint: Box<dyn Endpoint>) {
        if let Some(route) = self.routes.iter_mut().find(|route| route.path == path) {
            route.methods.push((method, endpoint));
        } else {
            self.routes.push(Route { path, methods: vec![(method, endpoint)] });
        }
    }

    /// Checks everything and builds the tree.
    pub(crate) fn build(self) -> Result<Table, RouteError> {
        for (route, needs) in self.needs {
            if let Some(type_name) = needs.missing(&self.states) {
                return Err(RouteError::State { route, type_name });
            }
        }
        let mut tree = matchit::Router::new();
        let mut leaves = Vec::with_capacity(self.routes.len());
        let mut endpoints = Vec::new();
        let mut literals = Vec::new();
        for route in self.routes {
            if !route.path.starts_with('/') {
                return Err(RouteError::Relative { path: route.path });
            }
            let leaf = Leaf::new(&route.path, route.methods, &mut endpoints)?;
            if let Err(cause) = tree.insert(&route.path, leaves.len()) {
                return Err(RouteError::Path { path: route.path, cause });
            }
            if !route.path.contains(['{', '}', '?']) && literals.len() < LITERALS_MAX {
                literals.push(Literal { path: route.path.into(), get: leaf.get, leaf: leaves.len() });
            }
            leaves.push(leaf);
        }
        let fallback = self.fallback.map(|endpoint| add(&mut endpoints, endpoint));
        Ok(Table { tree, literals, leaves, endpoints, fallback, states: self.states })
    }
}

/// The routes as they serve: built once, shared by all loops.
pub(crate) struct Table {
    tree: matchit::Router<usize>,
    /// The first paths without a variable, which are looked at before the tree: comparing a few lengths costs 15
    /// instructions where the tree costs 150, and a literal path beats a variable one anyhow.
    literals: Vec<Literal>,
    leaves: Vec<Leaf>,
    endpoints: Vec<Box<dyn Endpoint>>,
    fallback: Option<EndpointId>,
    states: StateFactories,
}

/// A path without a variable.
struct Literal {
    path: Box<str>,
    /// That of its leaf, which then need not be looked at.
    get: Option<EndpointId>,
    leaf: usize,
}

/// A handler's place among all handlers of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointId(usize);

impl EndpointId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// What the router says to one request.
pub(crate) enum Matched {
    /// This handler answers, with these parameters.
    Endpoint(EndpointId, Params),
    /// The router itself answers: 404, 405, or the list of methods. Boxed: it is rare, and the other one is hot.
    Response(Box<Response>),
}

fn add(endpoints: &mut Vec<Box<dyn Endpoint>>, endpoint: Box<dyn Endpoint>) -> EndpointId {
    endpoints.push(endpoint);
    EndpointId(endpoints.len() - 1)
}

impl Table {
    /// How many handlers there are.
    pub(crate) fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    /// Memory for a run of this handler.
    pub(crate) fn slot(&self, id: EndpointId) -> Slot {
        self.endpoints[id.0].slot()
    }

    pub(crate) fn states(&self) -> States {
        self.states.instantiate()
    }

    /// The names of each route's parameters, for one loop: reference-counted without atomics.
    pub(crate) fn param_names(&self) -> Vec<Rc<[Box<str>]>> {
        self.leaves.iter().map(|leaf| leaf.params.iter().cloned().collect()).collect()
    }

    /// Who answers this request, if its path is one of the first without a variable. Else [`Table::find`] says it.
    #[inline]
    pub(crate) fn find_literal(&self, head: &RequestHead) -> Option<EndpointId> {
        // A target that is a literal path has no query to be split off.
        let target = head.target();
        let literal = self.literals.iter().find(|literal| *literal.path == *target)?;
        if *head.method() == Method::GET {
            literal.get
        } else {
            self.leaves[literal.leaf].endpoint(head.method())
        }
    }

    /// Finds who answers this request. The path is matched as it came, still percent-encoded.
    #[inline(never)]
    pub(crate) fn find(&self, head: &RequestHead, names: &[Rc<[Box<str>]>]) -> Matched {
        let path = head.path();
        let Ok(found) = self.tree.at(path) else { return self.unknown_path() };
        self.leaves[*found.value].matched(head.method(), || {
            if found.params.is_empty() {
                return Params::default();
            }
            let ranges = found.params.iter().map(|(_, value)| range_in(path, value)).collect();
            Params::new(Rc::clone(&names[*found.value]), ranges)
        })
    }

    fn unknown_path(&self) -> Matched {
        match self.fallback {
            Some(endpoint) => Matched::Endpoint(endpoint, Params::default()),
            None => Matched::Response(Box::new((StatusCode::NOT_FOUND, "nothing is here").into_response())),
        }
    }
}

/// All methods of one path.
struct Leaf {
    methods: Vec<(Method, EndpointId)>,
    /// That of `GET`, which most requests are.
    get: Option<EndpointId>,
    allow: String,
    params: Vec<Box<str>>,
}

impl Leaf {
    fn new(
        path: &str,
        methods: Vec<(Method, Box<dyn Endpoint>)>,
        endpoints: &mut Vec<Box<dyn Endpoint>>,
    ) -> Result<Self, RouteError> {
        let mut allow: Vec<&str> = Vec::new();
        for (method, _) in &methods {
            if allow.contains(&method.as_str()) {
                return Err(RouteError::Twice { method: method.clone(), path: path.to_owned() });
            }
            allow.push(method.as_str());
        }
        if allow.contains(&"GET") && !allow.contains(&"HEAD") {
            allow.push("HEAD");
        }
        if !allow.contains(&"OPTIONS") {
            allow.push("OPTIONS");
        }
        let allow = allow.join(", ");
        let methods =
            methods.into_iter().map(|(method, endpoint)| (method, add(endpoints, endpoint))).collect();
        let mut leaf = Self { methods, get: None, allow, params: param_names(path) };
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

/// The names between braces, in order: `/a/{b}/{*c}` has `b` and `c`; `{{` is a literal brace.
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

/// Where `part`, a slice of `whole`, stands in it.
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
        assert_eq!(range_in("/a/seven", &"/a/seven"[3..]), 3..8);
    }

    #[test]
    fn mistakes_name_their_route() {
        let twice = Router::new().get("/a", nothing).get("/a", nothing).build();
        assert_eq!(
            twice.err().map(|e| e.to_string()),
            Some("GET /a has two handlers; remove one of them".into())
        );
        let clash = Router::new().get("/{a}", nothing).get("/{b}", nothing).build();
        assert!(matches!(clash, Err(RouteError::Path { path, .. }) if path == "/{b}"));
        let relative = Router::new().get("a", nothing).build();
        assert!(matches!(relative, Err(RouteError::Relative { .. })));
        let lacking = Router::new().get("/", async |_: State<u8>| ()).build();
        assert!(matches!(lacking, Err(RouteError::State { type_name: "u8", .. })));
    }
}
