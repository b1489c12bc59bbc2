//! The routes as an OpenAPI document.

use std::panic::Location;

use anywire_http::Method;

use crate::conditions::Conditions;
use crate::layer::GivenLayer;
use crate::openapi::{DescribedRoute, Document, Files, Info, Pages, ServedFiles};
use crate::router::table::normal;
use crate::router::{Entry, Route, RouteError, Router, Scope};

impl Router {
    /// Serves a description of the routes of this router, and of routers nested or merged into it, in whatever order they are added: a page for
    /// people at this path, and the document at the path with `.json` behind it. Both are made once at start.
    ///
    /// The page needs nothing but itself. Each route is in the description, unless its handler is [hidden](crate::Handler::hidden); what it takes and
    /// answers is there if it is [documented](crate::Handler::documented). See [`openapi`](crate::openapi).
    ///
    /// ```
    /// use anywire_server::openapi::Info;
    /// use anywire_server::{Handler, Path, Router};
    ///
    /// let order = async |Path(id): Path<u64>| format!("order {id}");
    /// let router = Router::new()
    ///     .get("/orders/{id}", order.documented().summary("One order"))
    ///     .openapi("/openapi", Info::new("Orders", "1.0.0"));
    /// # anywire_loops::block_on(async {
    /// let mut response = router.call(anywire_http::Request::get("/openapi.json")).await;
    /// assert!(response.body.text(100_000).await?.contains(r#""summary": "One order""#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn openapi(mut self, path: &str, info: Info) -> Self {
        self.scopes[0].pages.push(Pages::new(path, info, Location::caller()));
        self
    }

    /// As [`openapi`](Self::openapi), for some callers alone: page and document are in a router of their own, which `within` gives layers and guards.
    ///
    /// ```
    /// use anywire_server::Router;
    /// use anywire_server::layers::{BearerAuth, same_secret};
    /// use anywire_server::openapi::Info;
    ///
    /// let staff = BearerAuth::new("the staff", |_, token| same_secret(token, "secret"));
    /// let router = Router::new()
    ///     .get("/orders", async || "all orders")
    ///     .openapi_within("/openapi", Info::new("Orders", "1.0.0"), |pages| pages.layer(staff));
    /// # anywire_loops::block_on(async {
    /// let page = router.call(anywire_http::Request::get("/openapi")).await;
    /// let orders = router.call(anywire_http::Request::get("/orders")).await;
    /// assert_eq!((page.status.as_u16(), orders.status.as_u16()), (401, 200));
    /// # });
    /// ```
    #[track_caller]
    pub fn openapi_within(self, path: &str, info: Info, within: impl FnOnce(Self) -> Self) -> Self {
        let mut inner = Self::new();
        let pages = Pages { is_of_outer: true, ..Pages::new(path, info, Location::caller()) };
        inner.scopes[0].pages.push(pages);
        self.merge(within(inner))
    }

    /// The description of all routes as a value: for a test, or for a file in a repository.
    ///
    /// ```
    /// use anywire_server::Router;
    /// use anywire_server::openapi::Info;
    ///
    /// let router = Router::new().get("/orders", async || "all orders");
    /// let document = router.openapi_document(&Info::new("Orders", "1.0.0"))?;
    /// assert!(document.as_value()["paths"]["/orders"]["get"].is_object());
    /// # Ok::<(), anywire_server::RouteError>(())
    /// ```
    ///
    /// # Errors
    /// The mistakes that [`Server::start`](crate::Server::start) would report.
    pub fn openapi_document(&self, info: &Info) -> Result<Document, RouteError> {
        self.build()?;
        self.document(0, info, &[])
    }

    /// Adds the routes of all pages, which are there once [`Self::fill`] has made them.
    pub(in crate::router) fn add_pages(&self, routes: &mut Vec<Route>) -> Vec<ServedFiles> {
        let mut cells = Vec::new();
        for (scope, pages) in self.pages() {
            let cell = ServedFiles::default();
            for (path, of_type, mut parts) in pages.routes(&cell) {
                if self.conditions(&Conditions::default(), scope).produces.is_some() {
                    parts.conditions = Conditions::producing(of_type, pages.place);
                }
                let path = self.placed(scope, &path);
                let entry = Entry { parts, place: pages.place, scope };
                routes.push(Route { path, method: Some(Method::GET), entry, redirects: false });
            }
            cells.push(cell);
        }
        cells
    }

    /// Makes all pages, of routes within these layers.
    pub(in crate::router) fn fill(
        &self,
        cells: &[ServedFiles],
        server: &[GivenLayer],
    ) -> Result<(), RouteError> {
        for ((scope, pages), cell) in self.pages().zip(cells) {
            let [page, json] = pages.paths().map(|path| self.placed(scope, &path));
            // As seen from the page, whatever a proxy puts before the path of both.
            let folder = page.rfind('/').map_or(0, |at| at + 1);
            let href = json.get(folder..).filter(|href| !href.contains('{'));
            let outer = self.scopes[scope].parent.filter(|_| pages.is_of_outer);
            let files = Files::new(&self.document(outer.unwrap_or(scope), &pages.info, server)?, href);
            cell.get_or_init(|| files);
        }
        Ok(())
    }

    /// The routers that have pages.
    pub(in crate::router) fn scopes_with_pages(&self) -> impl Iterator<Item = usize> {
        self.pages().map(|(scope, _)| scope)
    }

    /// A path of a scope with its prefix.
    fn placed(&self, scope: usize, path: &str) -> String {
        match (self.scopes[scope].prefix.as_str(), path) {
            ("", path) => path.to_owned(),
            (prefix, "/") => prefix.to_owned(),
            // One without a `/` is refused as it is.
            (prefix, path) if path.starts_with('/') => format!("{prefix}{path}"),
            (_, path) => path.to_owned(),
        }
    }

    fn pages(&self) -> impl Iterator<Item = (usize, &Pages)> {
        self.scopes
            .iter()
            .enumerate()
            .flat_map(|(scope, of)| of.pages.iter().map(move |pages| (scope, pages)))
    }

    /// The routes of this scope and of those within it, all of them within these layers.
    fn document(&self, scope: usize, info: &Info, server: &[GivenLayer]) -> Result<Document, RouteError> {
        let is_in = |route: &&Route| self.around(route.entry.scope).any(|(around, _)| around == scope);
        let routes = self.routes.iter().filter(is_in);
        Ok(Document::new(info, routes.filter_map(|route| self.described(route, server)))?)
    }

    /// `None` if it is hidden.
    fn described<'r>(&'r self, route: &'r Route, server: &'r [GivenLayer]) -> Option<DescribedRoute<'r>> {
        let Route { path, method, entry, .. } = route;
        let doc = entry.parts.doc.as_deref();
        if doc.is_some_and(|doc| doc.is_hidden) {
            return None;
        }
        let around = self.around(entry.scope).map(|(_, scope)| scope);
        let limits = around.clone().fold(entry.parts.limits, |limits, scope| limits.within(scope.limits));
        Some(DescribedRoute {
            method: method.as_ref(),
            path: normal::of_route(path),
            doc,
            conditions: self.conditions(&entry.parts.conditions, entry.scope),
            limits,
            has_pool: entry.parts.pool.is_some(),
            layers: entry
                .parts
                .layers
                .iter()
                .rev()
                .chain(around.flat_map(|scope| scope.layers.iter().rev()))
                .chain(server.iter().rev())
                .collect(),
        })
    }

    /// A scope and those around it, from the inside.
    fn around(&self, scope: usize) -> impl Iterator<Item = (usize, &Scope)> + Clone {
        let scopes = std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent);
        scopes.map(|scope| (scope, &self.scopes[scope]))
    }

    fn conditions(&self, own: &Conditions, scope: usize) -> Conditions {
        self.around(scope).fold(own.clone(), |own, (_, scope)| own.within(&scope.conditions))
    }
}
