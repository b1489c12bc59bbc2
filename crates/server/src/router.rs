//! The router: paths, at each path a handler per method, and routers within it.

mod call;
mod error;
mod table;

use std::panic::Location;
use std::sync::Arc;

use anywire_http::Method;

use crate::extract::{Needs, StateFactories};
use crate::handler::{Endpoint, Handler, endpoint};

pub use self::error::RouteError;
pub(crate) use self::table::{EndpointId, Matched, Table};

/// Routes and their handlers.
///
/// A path is literal text, `{name}` for one segment (also `a-{name}.b`, one a segment), and `{*rest}` for all that
/// follows; literal beats variable, and the cost of a match does not grow with the number of routes. A path without
/// a route answers 404, and a method that the path does not have answers 405 with `Allow`. The `GET` handler answers
/// `HEAD`, without its body, and the list of methods answers `OPTIONS`, unless they have a handler of their own.
/// `CONNECT` asks for a tunnel, which this server does not make, and answers 501.
///
/// Routers compose: [`nest`](Self::nest) puts one behind a prefix, [`merge`](Self::merge) beside another. Each keeps its
/// own states and its own fallback.
///
/// [`Server::start`](crate::Server::start) reports the mistakes of a router: two handlers for one path and method,
/// paths that clash or have the syntax of another framework, a state that is missing, two states of one type. Each error
/// names the route, or the lines of code.
///
/// ```
/// use anywire_server::{Path, Router, State};
///
/// #[derive(Clone)]
/// struct Prices(u64);
///
/// let price = async |State(prices): State<Prices>, Path(id): Path<u64>| (id * prices.0).to_string();
/// let orders = Router::new().state(Prices(3)).get("/{id}", price).fallback(async || "no such order");
/// let router = Router::new().get("/", async || "Hello, World!").nest("/orders", orders);
/// # drop(router);
/// ```
#[must_use = "a router serves nothing unless a server gets it"]
pub struct Router {
    routes: Vec<Route>,
    fallbacks: Vec<Fallback>,
    /// The states of this router, and behind them those of nested routers. A parent stands before its children.
    scopes: Vec<Scope>,
}

struct Route {
    path: String,
    methods: Vec<(Method, Entry)>,
}

/// A handler for the paths below a prefix that no route has.
struct Fallback {
    /// Without a `/` at its end: empty for all paths.
    prefix: String,
    entry: Entry,
}

/// A handler as it was given.
struct Entry {
    endpoint: Arc<dyn Endpoint>,
    needs: Needs,
    place: &'static Location<'static>,
    /// The index of the router whose states it sees.
    scope: usize,
}

/// The states of one router among those that were put together.
#[derive(Default)]
struct Scope {
    states: StateFactories,
    /// The router around it, whose states its handlers see, too.
    parent: Option<usize>,
}

impl Entry {
    fn new<H: Handler<Args>, Args: 'static>(handler: H, place: &'static Location<'static>) -> Self {
        let mut needs = Needs::default();
        H::needs(&mut needs);
        Self { endpoint: endpoint(handler), needs, place, scope: 0 }
    }
}

impl Default for Router {
    fn default() -> Self {
        Self { routes: Vec::new(), fallbacks: Vec::new(), scopes: vec![Scope::default()] }
    }
}

impl Router {
    /// A router without routes: everything is 404.
    pub fn new() -> Self {
        Self::default()
    }

    // Written out and not by a macro, which the compiler would show in each mistake of a handler.
    /// Answers `GET` on this path.
    #[track_caller]
    pub fn get<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::GET, path, handler)
    }

    /// Answers `POST` on this path.
    #[track_caller]
    pub fn post<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::POST, path, handler)
    }

    /// Answers `PUT` on this path.
    #[track_caller]
    pub fn put<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::PUT, path, handler)
    }

    /// Answers `DELETE` on this path.
    #[track_caller]
    pub fn delete<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::DELETE, path, handler)
    }

    /// Answers `PATCH` on this path.
    #[track_caller]
    pub fn patch<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::PATCH, path, handler)
    }

    /// Answers `HEAD` on this path.
    #[track_caller]
    pub fn head<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::HEAD, path, handler)
    }

    /// Answers `OPTIONS` on this path.
    #[track_caller]
    pub fn options<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::OPTIONS, path, handler)
    }

    /// Answers this method, which may be an extension method, on this path.
    #[track_caller]
    pub fn route<H: Handler<Args>, Args: 'static>(mut self, method: Method, path: &str, handler: H) -> Self {
        self.add(path.to_owned(), method, Entry::new(handler, Location::caller()));
        self
    }

    /// Answers what no route has, instead of 404. The fallback of a nested router answers below its prefix; without one,
    /// that of the router around it does. It gets no path parameters.
    #[track_caller]
    pub fn fallback<H: Handler<Args>, Args: 'static>(mut self, handler: H) -> Self {
        let entry = Entry::new(handler, Location::caller());
        self.fallbacks.push(Fallback { prefix: String::new(), entry });
        self
    }

    /// Gives a value to the handlers that take a [`State`](crate::State) of its type, those of nested routers included. Each
    /// loop holds a clone. A second value of the same type is an error at start; that of a nested router hides this one
    /// from the handlers there.
    #[track_caller]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.scopes[0].states.give(value, Location::caller());
        self
    }

    /// Puts all routes of another router behind a prefix, which may have parameters. Its `/` becomes the prefix itself. It
    /// keeps its states, which its handlers see before those of this router, and its fallback.
    pub fn nest(mut self, prefix: &str, inner: Self) -> Self {
        let prefix = prefix.trim_end_matches('/');
        let first = self.scopes.len();
        for Scope { states, parent } in inner.scopes {
            self.scopes.push(Scope { states, parent: Some(parent.map_or(0, |parent| first + parent)) });
        }
        for route in inner.routes {
            let path = match route.path.as_str() {
                "/" if !prefix.is_empty() => prefix.to_owned(),
                // A path without its `/` stays as it is, so that `build` refuses it.
                path if path.starts_with('/') => format!("{prefix}{path}"),
                path => path.to_owned(),
            };
            for (method, entry) in route.methods {
                self.add(path.clone(), method, entry.in_scope(first));
            }
        }
        for Fallback { prefix: below, entry } in inner.fallbacks {
            self.fallbacks
                .push(Fallback { prefix: format!("{prefix}{below}"), entry: entry.in_scope(first) });
        }
        self
    }

    /// Puts all routes of another router beside the own ones. It keeps its states, which its handlers see before those of
    /// this router. Its fallback becomes the one of both.
    ///
    /// ```
    /// use anywire_server::Router;
    ///
    /// fn orders() -> Router {
    ///     Router::new().get("/orders", async || "all orders")
    /// }
    ///
    /// fn users() -> Router {
    ///     Router::new().get("/users", async || "all users")
    /// }
    ///
    /// let router = orders().merge(users());
    /// # drop(router);
    /// ```
    pub fn merge(self, other: Self) -> Self {
        self.nest("", other)
    }

    fn add(&mut self, path: String, method: Method, entry: Entry) {
        if let Some(route) = self.routes.iter_mut().find(|route| route.path == path) {
            route.methods.push((method, entry));
        } else {
            self.routes.push(Route { path, methods: vec![(method, entry)] });
        }
    }
}

impl Entry {
    fn in_scope(mut self, first: usize) -> Self {
        self.scope += first;
        self
    }
}
