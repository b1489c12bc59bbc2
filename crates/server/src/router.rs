//! The router: paths, a handler for each method of a path, nested routers.
//!
//! | word | is |
//! | --- | --- |
//! | route | a method, a path and a handler, as they were given |
//! | entry | a handler as it was given, with its layers, conditions and limits |
//! | scope | what one router, the outermost or a nested one, has around its routes: states, layers, conditions, limits |
//! | endpoint | a handler with all that is around it, by its number in the table |
//! | leaf | a path of the table, with an endpoint for each of its methods |
//! | choice | what picks an endpoint, request by request, among the candidates of one path and method |
//! | candidate | an endpoint with the conditions that a request must meet for it |
//! | generation | a table's number: routes that are replaced while the server runs have the next one |

mod build;
mod call;
mod describe;
mod error;
mod table;

use std::panic::Location;

use anywire_http::Method;

use crate::conditions::guards::Guard;
use crate::conditions::{Conditions, MediaTypes};
use crate::extract::StateFactories;
use crate::handler::{Handler, HandlerParts};
use crate::layer::{GivenLayer, Layer};
use crate::route_limits::RouteLimits;

pub(crate) use self::build::endpoints::{EndpointId, EndpointKind, EndpointRecord, Generation, RouteName};
pub(crate) use self::build::layers::UsedLayer;
#[cfg(feature = "tower")]
pub(crate) use self::call::run;
pub use self::error::{MediaTypeFault, PathFault, RouteError};
pub(crate) use self::table::Table;
pub(crate) use self::table::normal::below as path_below;

/// Routes and their handlers.
///
/// A path has literal segments, `{name}` for one segment (or a part of it: `a-{name}.b`), and `{*rest}` for the remaining
/// segments. Literal text wins over variables. The cost of a match does not grow with the number of routes.
///
/// Literal text may be written decoded or percent-encoded: `/ä` and `/%C3%A4` are one route, and requests for `/%c3%a4` reach
/// it. A reserved octet differs from its encoded form (RFC 3986 section 2.2): `%2F` never splits a segment. Dot segments
/// are not removed. Parameters are decoded by [`Path`](crate::Path).
///
/// An unknown path is a 404, an unknown method of a known path a 405 with `Allow`. `HEAD` gets the response of `GET`
/// without its body, and `OPTIONS` the list of methods, unless [`any`](Self::any) or handlers of their own answer. `CONNECT` is a 501, unless
/// [`connect`](Self::connect) answers.
///
/// Routers compose: [`nest`](Self::nest) puts one behind a prefix, [`merge`](Self::merge) beside another. Each keeps its
/// own states and its own fallback.
///
/// [`Server::start`](crate::Server::start) reports mistakes as [`RouteError`]s, which name the route and the line of code:
/// two handlers for one path and method, conflicting paths, path syntax of another framework, a missing state, two
/// states of one type, path parameters that a route does not have.
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
#[must_use = "a router does nothing unless a server gets it"]
pub struct Router {
    /// One for each handler.
    routes: Vec<Route>,
    fallbacks: Vec<Fallback>,
    /// The handlers of `CONNECT`, which has no path.
    tunnels: Vec<Entry>,
    /// The prefixes of nested routers as they were given, and where.
    prefixes: Vec<(String, &'static Location<'static>)>,
    /// The states of this router, then of its nested routers. A parent comes before its children.
    scopes: Vec<Scope>,
}

struct Route {
    /// As it was given, with its prefix.
    path: String,
    /// `None` for all that have no handler of their own.
    method: Option<Method>,
    entry: Entry,
    /// It leads to the same path with or without its last `/`.
    redirects: bool,
}

/// A handler for the unknown paths below a prefix.
struct Fallback {
    /// Without a `/` at its end. Empty for all paths.
    prefix: String,
    entry: Entry,
}

/// A handler and where it was given.
struct Entry {
    parts: HandlerParts,
    place: &'static Location<'static>,
    /// The index of its router's scope.
    scope: usize,
}

/// The states and layers of one router.
#[derive(Default)]
struct Scope {
    states: StateFactories,
    /// The outermost first.
    layers: Vec<GivenLayer>,
    limits: RouteLimits,
    /// Where these were given.
    limits_place: Option<&'static Location<'static>>,
    conditions: Conditions,
    redirects_slashes: bool,
    #[cfg(feature = "openapi")]
    pages: Vec<crate::openapi::Pages>,
    /// The outer router, whose states its handlers get, too, and within whose layers they are.
    parent: Option<usize>,
    /// Where the router became a part of the outer one.
    place: Option<&'static Location<'static>>,
    /// Below which prefix, with those of the routers around it. Empty if it was merged into the outermost one.
    prefix: String,
    /// Whether it was nested below a prefix of its own, and not merged.
    is_nested: bool,
}

impl Entry {
    fn new<H: Handler<Args>, Args: 'static>(handler: H, place: &'static Location<'static>) -> Self {
        Self { parts: handler.into_parts(), place, scope: 0 }
    }
}

impl Default for Router {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            fallbacks: Vec::new(),
            tunnels: Vec::new(),
            prefixes: Vec::new(),
            scopes: vec![Scope::default()],
        }
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

    /// Answers `QUERY` on this path: safe and idempotent as `GET` is, with content that says what is asked (RFC 10008). A request
    /// that does not state the type of its content is a 415.
    #[track_caller]
    pub fn query<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.route(Method::QUERY, path, handler)
    }

    /// Answers `CONNECT`, which has no path: the handler takes a [`Tunnel`](crate::Tunnel), and is the same below whatever prefix its router is
    /// nested. A [guard](Self::when) lets some hosts in alone; a request that no handler takes is a 501.
    ///
    /// A server that makes tunnels is a proxy. Let in only peers that you know, to hosts that you know.
    #[track_caller]
    pub fn connect<H: Handler<Args>, Args: 'static>(mut self, handler: H) -> Self {
        self.tunnels.push(Entry::new(handler, Location::caller()));
        self
    }

    /// Answers all methods on this path that have no handler of their own, extension methods and `OPTIONS` as well.
    ///
    /// ```
    /// use anywire_http::Method;
    /// use anywire_server::Router;
    ///
    /// let echo = async |method: Method| method.to_string();
    /// let router = Router::new().get("/echo", async || "what is to be echoed?").any("/echo", echo);
    /// # drop(router);
    /// ```
    #[track_caller]
    pub fn any<H: Handler<Args>, Args: 'static>(self, path: &str, handler: H) -> Self {
        self.add(None, path, Entry::new(handler, Location::caller()))
    }

    /// Answers this method, which may be an extension method, on this path.
    #[track_caller]
    pub fn route<H: Handler<Args>, Args: 'static>(self, method: Method, path: &str, handler: H) -> Self {
        self.add(Some(method), path, Entry::new(handler, Location::caller()))
    }

    fn add(mut self, method: Option<Method>, path: &str, entry: Entry) -> Self {
        self.routes.push(Route { path: path.to_owned(), method, entry, redirects: false });
        self
    }

    /// Answers unknown paths instead of the 404. The fallback of a nested router answers the unknown paths below its prefix, and
    /// there comes before routes of an outer router that have a variable in place of the prefix, such as `/{*rest}`. A nested
    /// router without a fallback uses that of the outer router. Fallbacks get no path parameters.
    #[track_caller]
    pub fn fallback<H: Handler<Args>, Args: 'static>(mut self, handler: H) -> Self {
        let entry = Entry::new(handler, Location::caller());
        self.fallbacks.push(Fallback { prefix: String::new(), entry });
        self
    }

    /// Sets the value for all handlers that take a [`State`](crate::State) of its type, in nested routers as well. Each loop
    /// holds a clone; a value that cannot be cloned or sent is made on each loop by [`anywire_loops::local`]. A second value of the same type is an error at start. A nested router may have its own value of
    /// this type; its handlers then get that one.
    #[track_caller]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.scopes[0].states.give(value, Location::caller());
        self
    }

    /// Wraps all routes of this router, those of routers that are nested or merged into it, its fallback, and its own 404, 405 and
    /// `OPTIONS`, whether they are added before or after. Layers apply as they are added, the outermost first; those of an outer
    /// router are outside of those of a nested one. The route has been looked up by then: a layer that changes the path or the
    /// method of requests belongs to [`Server::layer`](crate::Server::layer).
    ///
    /// A nested router with layers has them around the 404 of unknown paths below its prefix as well. For a group of routes with
    /// layers and without a prefix, [`merge`](Self::merge) a router. [`describe`](Self::describe) shows which layers each route has.
    ///
    /// ```
    /// use anywire_server::{Next, Request, Response, Router};
    ///
    /// async fn count(request: Request, next: Next) -> Response {
    ///     next.run(request).await
    /// }
    ///
    /// let admin = Router::new().get("/users", async || "all users").layer(count);
    /// let router = Router::new().get("/", async || "Hello, World!").merge(admin);
    /// # drop(router);
    /// ```
    #[track_caller]
    pub fn layer<L: Layer<Args>, Args: 'static>(mut self, layer: L) -> Self {
        self.scopes[0].layers.push(GivenLayer::new(layer, Location::caller()));
        self
    }

    /// Sets limits for all routes of this router, and of routers nested or merged into it, in whatever order they are added.
    /// What a nested router or a [handler](Handler::limits) sets itself comes first. Of limits that are set twice the later ones
    /// hold.
    ///
    /// The router's own answers, such as 404, have none of these. A fallback has.
    ///
    /// ```
    /// use std::time::Duration;
    /// use anywire_server::{RouteLimits, Router};
    ///
    /// let reports = Router::new()
    ///     .get("/reports/{id}", async || "a long report")
    ///     .limits(RouteLimits { handler_timeout: Some(Duration::from_secs(300)), ..Default::default() });
    /// let router = Router::new().get("/", async || "Hello, World!").merge(reports);
    /// # drop(router);
    /// ```
    #[track_caller]
    pub fn limits(mut self, limits: RouteLimits) -> Self {
        let scope = &mut self.scopes[0];
        scope.limits = limits.within(scope.limits);
        scope.limits_place = Some(Location::caller());
        self
    }

    /// Guards all routes of this router, and of routers nested or merged into it, in whatever order they are added, and its fallback. A
    /// request must pass this [guard](crate::guards) and those of the [handler](Handler::when). To one that does not, the router is not
    /// there.
    ///
    /// ```
    /// use anywire_server::{Router, guards};
    ///
    /// let shop = Router::new().get("/", async || "the shop").when(guards::host("shop.example"));
    /// let blog = Router::new().get("/", async || "the blog").when(guards::host("blog.example"));
    /// let router = Router::new().merge(shop).merge(blog);
    /// # drop(router);
    /// ```
    #[track_caller]
    pub fn when(self, guard: impl Into<Guard>) -> Self {
        self.meeting(&Conditions::guarded(guard, Location::caller()))
    }

    /// [`Handler::consumes`] for all routes of this router, and of routers nested or merged into it, that do not say it themselves.
    #[track_caller]
    pub fn consumes(self, types: impl MediaTypes) -> Self {
        self.meeting(&Conditions::consuming(types, Location::caller()))
    }

    /// [`Handler::produces`] for all routes of this router, and of routers nested or merged into it, that do not say it themselves.
    #[track_caller]
    pub fn produces(self, types: impl MediaTypes) -> Self {
        self.meeting(&Conditions::producing(types, Location::caller()))
    }

    /// Lets a parameter of the query choose among what the routes of this router [produce](Handler::produces), before `Accept` does: with
    /// `format_parameter("format")` a request for `/count?format=json` gets JSON. Its value is a media type, its
    /// subtype (`json`, `html`), or what stands behind the `+` of that; another one is a 406.
    pub fn format_parameter(self, name: &str) -> Self {
        self.meeting(&Conditions { format: Some(name.into()), ..Conditions::default() })
    }

    /// Leads requests for `/orders/` to the route `/orders`, and those for `/pages` to the route `/pages/`: a 308 to the path with or without
    /// the `/` at its end, and with the same query. The location is relative, so that it holds if a layer has taken a prefix off the path. For all routes of this router, and of routers nested or merged into it, to whose path no
    /// other route has the counterpart. Without this the paths differ, and one of them is a 404.
    ///
    /// ```
    /// use anywire_http::Request;
    /// use anywire_server::Router;
    ///
    /// let router = Router::new().get("/orders", async || "all orders").redirect_slashes();
    /// # anywire_loops::block_on(async {
    /// let response = router.call(Request::get("/orders/?page=2")).await;
    /// assert_eq!((response.status.as_u16(), response.headers.get("location")), (308, Some("../orders?page=2")));
    /// # });
    /// ```
    pub fn redirect_slashes(mut self) -> Self {
        self.scopes[0].redirects_slashes = true;
        self
    }

    fn meeting(mut self, conditions: &Conditions) -> Self {
        let scope = &mut self.scopes[0];
        // What is said later holds.
        scope.conditions = conditions.within(&scope.conditions);
        self
    }

    /// Adds all routes of another router below a prefix, which may have parameters. The route `/` becomes the prefix itself.
    /// The nested router keeps its fallback and its states. Its handlers also get the states of this router.
    #[track_caller]
    pub fn nest(mut self, prefix: &str, inner: Self) -> Self {
        let prefix = prefix.trim_end_matches('/');
        if !prefix.is_empty() {
            self.prefixes.push((prefix.to_owned(), Location::caller()));
        }
        self.prefixes.extend(inner.prefixes);
        let first = self.scopes.len();
        for (index, scope) in inner.scopes.into_iter().enumerate() {
            self.scopes.push(Scope {
                parent: Some(scope.parent.map_or(0, |parent| first + parent)),
                place: scope.place.or(Some(Location::caller())),
                prefix: format!("{prefix}{}", scope.prefix),
                is_nested: if index == 0 { !prefix.is_empty() } else { scope.is_nested },
                ..scope
            });
        }
        for route in inner.routes {
            let path = match route.path.as_str() {
                "/" if !prefix.is_empty() => prefix.to_owned(),
                // A path without a leading `/` stays as it is, so that `build` refuses it.
                path if path.starts_with('/') => format!("{prefix}{path}"),
                path => path.to_owned(),
            };
            self.routes.push(Route { path, entry: route.entry.in_scope(first), ..route });
        }
        self.tunnels.extend(inner.tunnels.into_iter().map(|entry| entry.in_scope(first)));
        for Fallback { prefix: below, entry } in inner.fallbacks {
            self.fallbacks
                .push(Fallback { prefix: format!("{prefix}{below}"), entry: entry.in_scope(first) });
        }
        self
    }

    /// Adds all routes of another router. Its handlers keep their states and also get those of this router. Its fallback
    /// becomes that of both; if each has one, that is an error at start.
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
    #[track_caller]
    pub fn merge(self, other: Self) -> Self {
        self.nest("", other)
    }
}

impl Entry {
    fn in_scope(mut self, first: usize) -> Self {
        self.scope += first;
        self
    }
}
