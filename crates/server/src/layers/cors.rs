//! Calls of pages of other origins.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anywire_http::{Headers, Method, Response, StatusCode};

use super::headers::check;
use super::origin::Origins;
use crate::layer::LayerFault;
use crate::request::{Parts, Request};
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Lets pages of other origins call (CORS, the fetch standard section 3.3). Without this layer browsers forbid it, and
/// [`Cors::new`] allows nothing: name origins first.
///
/// **Add it before layers that refuse**, such as authentication: a browser asks first by an `OPTIONS` without credentials (the
/// preflight), and this layer answers that for each path of its router. Given to a handler, it answers those that ask for the method
/// of that handler, if it is certain that the request will be answered by this one: beside others of that method, whose guards look at fields
/// or whose media types differ, it is not known before the request comes. Then give it to the router.
///
/// It refuses no request: browsers do, for the page. A service that must not be called from elsewhere has
/// [`Csrf`](super::Csrf).
///
/// ```
/// use anywire_http::Method;
/// use anywire_server::Router;
/// use anywire_server::layers::Cors;
///
/// let cors = Cors::new().origins(["https://shop.example"]).methods([Method::PUT]).headers(["content-type"]);
/// let router = Router::new().put("/orders/{id}", async || "changed").layer(cors);
/// # anywire_loops::block_on(async {
/// let request = anywire_http::Request::new(Method::OPTIONS, "/orders/7");
/// let request = request.header("origin", "https://shop.example").header("access-control-request-method", "PUT");
/// let response = router.call(request).await;
/// assert_eq!(response.headers.get("access-control-allow-origin"), Some("https://shop.example"));
/// assert_eq!(response.headers.get("access-control-allow-methods"), Some("PUT"));
/// # });
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Cors {
    origins: Origins,
    predicate: Option<(Arc<Predicate>, &'static Location<'static>)>,
    any_origin: Option<&'static Location<'static>>,
    credentials: Option<&'static Location<'static>>,
    methods: String,
    headers: Names,
    expose: String,
    max_age: Option<String>,
    private_network: bool,
    wrong: Option<(String, &'static Location<'static>)>,
}

type Predicate = dyn Fn(&str, &Parts) -> bool + Send + Sync;

/// The fields that a page may send.
#[derive(Debug, Clone, Default)]
enum Names {
    #[default]
    None,
    These(String),
    /// Those for which it asks.
    Any,
}

impl Cors {
    /// Allows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows pages of these origins, such as `https://shop.example`. One that no browser sends is an error at start.
    #[track_caller]
    pub fn origins<'o>(mut self, origins: impl IntoIterator<Item = &'o str>) -> Self {
        let origins: Vec<&str> = origins.into_iter().collect();
        for origin in origins {
            self.origins.add(origin);
        }
        self
    }

    /// Allows pages of origins of which this says so, such as those of subdomains.
    #[track_caller]
    pub fn origins_that(mut self, allows: impl Fn(&str, &Parts) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some((Arc::new(allows), Location::caller()));
        self
    }

    /// Allows pages of all origins, for what is public. Together with [`credentials`](Self::credentials), or with other origins, it
    /// is an error at start.
    #[track_caller]
    pub fn any_origin(mut self) -> Self {
        self.any_origin = Some(Location::caller());
        self
    }

    /// Lets pages send cookies and passwords, and read the response then.
    #[track_caller]
    pub fn credentials(mut self) -> Self {
        self.credentials = Some(Location::caller());
        self
    }

    /// Allows these methods, besides `GET`, `HEAD` and `POST`, which need no permission.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        methods.into_iter().for_each(|method| push(&mut self.methods, method.as_str()));
        self
    }

    /// Allows these fields of requests, such as `authorization` and `content-type`.
    #[track_caller]
    pub fn headers<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut list = match std::mem::take(&mut self.headers) {
            Names::These(list) => list,
            Names::None | Names::Any => String::new(),
        };
        self.add_names(&mut list, names.into_iter().collect());
        self.headers = Names::These(list);
        self
    }

    /// Allows all fields of requests.
    pub fn any_headers(mut self) -> Self {
        self.headers = Names::Any;
        self
    }

    /// Lets pages read these fields of responses, besides the few that need no permission.
    #[track_caller]
    pub fn expose<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut list = std::mem::take(&mut self.expose);
        self.add_names(&mut list, names.into_iter().collect());
        self.expose = list;
        self
    }

    /// How long a browser may keep what a preflight said, in whole seconds (without: 5 seconds).
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age.as_secs().to_string());
        self
    }

    /// Lets pages of the open network call this server in a private one.
    pub fn private_network(mut self) -> Self {
        self.private_network = true;
        self
    }

    #[track_caller]
    fn add_names(&mut self, list: &mut String, names: Vec<&str>) {
        for name in names {
            if let Err(fault) = check(name, "") {
                self.wrong.get_or_insert((fault.to_string(), Location::caller()));
            }
            push(list, name);
        }
    }

    /// The method for which a preflight asks. `None` if this is none.
    pub(crate) fn asked_method(request: &Parts) -> Option<Method> {
        let is_question = *request.method() == Method::OPTIONS && request.headers().contains("origin");
        let asked = request.headers().get_bytes("access-control-request-method").filter(|_| is_question)?;
        // Whatever it is, it is a question about one.
        Some(Method::from_bytes(asked).unwrap_or(Method::OPTIONS))
    }

    /// Whether a page of this origin may call.
    fn allows(&self, origin: &str, request: &Parts) -> bool {
        self.any_origin.is_some()
            || self.origins.contains(origin)
            || self.predicate.as_ref().is_some_and(|(allows, _)| allows(origin, request))
    }

    /// What preflights and other responses say.
    fn allow(&self, origin: &str, headers: &mut Headers) {
        let origin = if self.any_origin.is_some() { "*" } else { origin };
        set(headers, "access-control-allow-origin", origin);
        if self.credentials.is_some() {
            set(headers, "access-control-allow-credentials", "true");
        }
    }

    /// The response to a preflight.
    fn preflight(&self, origin: Option<&str>, request: &Parts) -> Response {
        let mut response = Response::new(StatusCode::NO_CONTENT);
        let headers = &mut response.headers;
        let asked = "access-control-request-headers";
        set(headers, "vary", &format!("origin, access-control-request-method, {asked}"));
        let Some(origin) = origin else { return response };
        self.allow(origin, headers);
        if !self.methods.is_empty() {
            set(headers, "access-control-allow-methods", &self.methods);
        }
        let names = match &self.headers {
            Names::None => Cow::default(),
            Names::These(names) => names.into(),
            Names::Any => {
                let mut list = String::new();
                let fields = request.headers().get_all(asked).filter_map(|names| str::from_utf8(names).ok());
                fields.for_each(|names| push(&mut list, names));
                list.into()
            }
        };
        if !names.is_empty() {
            set(headers, "access-control-allow-headers", &names);
        }
        if let Some(age) = &self.max_age {
            set(headers, "access-control-max-age", age);
        }
        if self.private_network && request.headers().contains("access-control-request-private-network") {
            set(headers, "access-control-allow-private-network", "true");
        }
        response
    }
}

impl fmt::Debug for Cors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cors").field("origins", &self.origins).finish_non_exhaustive()
    }
}

impl SyncLayer for Cors {
    type Local = Self;
    type Kept = Option<String>;

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<Option<String>, Response> {
        let Some(origin) = request.headers().get("origin") else { return Ok(None) };
        let is_preflight = Self::asked_method(request).is_some();
        let origin = Some(origin).filter(|origin| local.allows(origin, request)).map(str::to_owned);
        if is_preflight { Err(local.preflight(origin.as_deref(), request)) } else { Ok(origin) }
    }

    fn after(local: &Rc<Self>, origin: Option<String>, response: &mut Response) {
        // A response for any origin says so without one, too: a cache may store it, and answer a page with it later (the fetch standard, "CORS
        // protocol and HTTP caches").
        let origin = origin.as_deref().or(local.any_origin.map(|_| "*"));
        if let Some(origin) = origin {
            local.allow(origin, &mut response.headers);
            if !local.expose.is_empty() {
                set(&mut response.headers, "access-control-expose-headers", &local.expose);
            }
        }
        // Also without an origin, or one that is allowed: a cache must not give this response to another page.
        if local.any_origin.is_none() && !response.headers.lists("vary", "origin") {
            let added = response.headers.append("vary", "origin");
            debug_assert!(added.is_ok(), "a field");
        }
    }

    fn fault(&self) -> Option<LayerFault> {
        if let (Some(any), Some(credentials)) = (self.any_origin, self.credentials) {
            let what = "allows credentials to any origin, so that each page could act as its reader";
            return Some(LayerFault::new(what, "list the origins").at(any).at(credentials));
        }
        let some = self.origins.place().or(self.predicate.as_ref().map(|(_, place)| *place));
        if let (Some(any), Some(some)) = (self.any_origin, some) {
            let what = "allows any origin, and some of them again";
            return Some(LayerFault::new(what, "remove one").at(any).at(some));
        }
        if let Some((what, place)) = &self.wrong {
            return Some(LayerFault::new(what.clone(), "name a field").at(place));
        }
        self.origins.fault()
    }
}

sync_layer!(Cors, Self);

/// Adds to a list that is sent.
fn push(list: &mut String, item: &str) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list.push_str(item);
}

/// Sets a field whose parts were checked.
fn set(headers: &mut Headers, name: &str, value: &str) {
    let set = headers.insert(name, value);
    debug_assert!(set.is_ok(), "{name}: {value}");
}
