//! A request as a handler sees it: head, body, path parameters and connection.

mod kind;
mod params;
mod ticket;

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anywire_http::{Body, Extensions, Headers, InvalidRequest, InvalidTarget, Method, RequestHead, Version};
use anywire_wire::{Address, Credentials, Negotiated};

use crate::context::{Arrival, CancelGuard, LoopContext, Peer, RequestContext, RequestKey, RequestNumber};
use crate::extract::StatesId;
use crate::interim::Interim;
use crate::router::{EndpointId, path_below};

pub(crate) use self::kind::RequestKind;
pub(crate) use self::params::Params;
pub(crate) use self::ticket::Ticket;

/// One request: its [`Parts`], and its body, which is read only when the handler asks for it.
///
/// A handler takes it as its last argument, changes it if need be, and gives it to a client that sends it on. It converts to an
/// `http::Request` and back, on its loop without a loss: path parameters, states and peer travel in a value among the extensions.
///
/// A request may also be made, of an [`anywire_http::Request`] or of an `http::Request`. It has no path parameters and no states then, and its
/// peer is `memory:unknown`: a layer that goes on with another request changes the one that it has.
///
/// ```
/// use anywire_server::{Request, Router};
///
/// async fn echo_head(mut request: Request) -> String {
///     request.headers_mut().remove("cookie");
///     format!("{} {} {:?}", request.method(), request.target(), request.headers())
/// }
/// # drop(Router::new().get("/", echo_head));
/// ```
#[derive(Debug)]
pub struct Request {
    parts: Parts,
}

/// A request without its body: head, path parameters and peer. Two pointers, because requests move often.
#[derive(Debug)]
pub struct Parts {
    head: RequestHead,
    /// With the body of the request, where it has one.
    context: RequestContext,
}

impl Request {
    #[inline(always)]
    pub(crate) fn new(head: RequestHead, body: Option<Body>, endpoint: EndpointId, arrival: Arrival) -> Self {
        let mut context = RequestContext::new(endpoint, arrival);
        if body.is_some() {
            context.body = body;
        }
        Self { parts: Parts { head, context } }
    }

    /// Whether the head announced a body. A length of 0 counts as none. Chunks count as a body, although they may be empty.
    pub fn has_body(&self) -> bool {
        self.context.body.as_ref().is_some_and(|body| !body.is_empty())
    }

    /// The body; empty if there is none.
    pub fn into_body(mut self) -> Body {
        self.take_body()
    }

    /// The parts and the body.
    pub fn into_parts(mut self) -> (Parts, Body) {
        let body = self.take_body();
        (self.parts, body)
    }

    /// Puts a request together again, such as with another body.
    pub fn from_parts(mut parts: Parts, body: Body) -> Self {
        parts.context.body = Some(body);
        Self { parts }
    }

    /// The body, to be read in part or to be replaced.
    ///
    /// ```
    /// use anywire_server::{Request, Router};
    ///
    /// async fn first_chunk(mut request: Request) -> String {
    ///     let chunk = request.body_mut().chunk().await.ok().flatten().unwrap_or_default();
    ///     format!("{} bytes came first", chunk.len())
    /// }
    /// # drop(Router::new().post("/", first_chunk));
    /// ```
    pub fn body_mut(&mut self) -> &mut Body {
        self.context.body.get_or_insert_default()
    }

    /// A request of no server: without path parameters, and of an unknown peer.
    pub(crate) fn of_no_server(head: RequestHead, body: Body) -> Self {
        let arrival = Arrival::new(Arc::new(Peer::unknown()), &LoopContext::of_no_server());
        Self::new(head, Some(body), EndpointId::NONE, arrival)
    }

    /// The head as it is, with the fields that belong to the connection.
    pub(crate) fn head_mut(&mut self) -> &mut RequestHead {
        &mut self.parts.head
    }

    pub(crate) fn into_head_and_body(mut self) -> (RequestHead, Body) {
        (std::mem::take(&mut self.parts.head), self.take_body())
    }

    fn take_body(&mut self) -> Body {
        self.context.body.take().unwrap_or_default()
    }
}

/// For sending it on with a client. Head and body move; path parameters and peer are dropped.
impl From<Request> for anywire_http::Request {
    fn from(request: Request) -> Self {
        let (head, body) = request.into_head_and_body();
        Self::from_parts(head, body)
    }
}

/// A request of no server: for a layer or a handler that is called with one.
impl TryFrom<anywire_http::Request> for Request {
    type Error = InvalidRequest;

    fn try_from(request: anywire_http::Request) -> Result<Self, InvalidRequest> {
        match request.fault() {
            Some(fault) => Err(fault.clone()),
            None => Ok(Self::of_no_server(request.head, request.body)),
        }
    }
}

impl Drop for Parts {
    #[inline]
    fn drop(&mut self) {
        self.context.give_back();
    }
}

impl Deref for Request {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

impl Parts {
    /// The method.
    pub fn method(&self) -> &Method {
        self.head.method()
    }

    /// The request target as it came, with its query.
    pub fn target(&self) -> Cow<'_, str> {
        self.head.target()
    }

    /// The path, still percent-encoded.
    pub fn path(&self) -> &str {
        self.head.path()
    }

    /// The query without its `?`, still percent-encoded.
    pub fn query(&self) -> Option<&str> {
        self.head.query()
    }

    /// The host that is asked, with the port if one was given, as the peer wrote it: compare it without regard to case. In each version of HTTP: a client of HTTP/2 sends no `host`
    /// among its fields.
    pub fn host(&self) -> Option<&str> {
        self.head.host()
    }

    /// The protocol version.
    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// The header fields. For the host take [`host`](Self::host).
    pub fn headers(&self) -> &Headers {
        self.head.headers()
    }

    /// The header fields, to be changed, such as before the request is sent on. The host of the request is what
    /// [`host`](Self::host) says, also if the field `host` is changed and the target names an authority.
    ///
    /// The fields that the peer's `connection` names go first
    /// ([`Headers::remove_connection_options`](anywire_http::Headers::remove_connection_options)): else a peer who names a field
    /// that is set here, such as `x-forwarded-for`, would take it out of what is sent on. Not before: a request that is answered
    /// here is for this server, and so are those fields. If they went from each request, a peer could take away what a proxy in
    /// front has set, where that passes `connection` on.
    pub fn headers_mut(&mut self) -> &mut Headers {
        let headers = self.head.headers_mut();
        headers.remove_connection_options();
        headers
    }

    /// Replaces the method.
    pub fn set_method(&mut self, method: Method) {
        self.head.set_method(method);
    }

    /// Replaces path and query, such as before the request is sent on. The path parameters stay those of the path as it came.
    ///
    /// # Errors
    /// [`InvalidTarget`] if the text does not begin with `/`, or holds white space, a control character or a `#`.
    pub fn set_path_and_query(&mut self, path: &str) -> Result<(), InvalidTarget> {
        let before = self.context.params.needs_path().then(|| self.head.path().into());
        self.head.set_path_and_query(path)?;
        if let Some(before) = before {
            self.context.params.keep_path(before);
        }
        Ok(())
    }

    /// Takes a prefix off the path, such as before the request is sent on: with `/api` the path `/api/orders?page=2` becomes
    /// `/orders?page=2`, and `/api` becomes `/`. The path parameters stay those of the path as it came.
    ///
    /// A prefix consists of whole segments, and is compared as routes are: `/%61pi` is below `/api`, and `/apis` is not. Returns false,
    /// and changes nothing, if the path is not below the prefix.
    ///
    /// ```
    /// use anywire_server::{Request, Router};
    ///
    /// async fn behind(mut request: Request) -> String {
    ///     request.strip_prefix("/api");
    ///     request.target().into_owned()
    /// }
    ///
    /// let router = Router::new().get("/api/{*rest}", behind);
    /// # anywire_loops::block_on(async {
    /// let mut response = router.call(anywire_http::Request::get("/api/orders?page=2")).await;
    /// assert_eq!(response.body.text(100).await?, "/orders?page=2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strip_prefix(&mut self, prefix: &str) -> bool {
        let Some(rest) = path_below(self.path(), prefix) else { return false };
        let slash = if rest.is_empty() { "/" } else { "" };
        let stripped = match self.query() {
            Some(query) => format!("{slash}{rest}?{query}"),
            None => format!("{slash}{rest}"),
        };
        self.set_path_and_query(&stripped).is_ok()
    }

    /// The head.
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    /// Values that travel with the request and are not sent: what one extractor leaves for another, or for the handler.
    pub fn extensions(&self) -> &Extensions {
        self.head.extensions()
    }

    /// The extensions, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        self.head.extensions_mut()
    }

    /// The path parameter `{name}`, still percent-encoded.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// All path parameters in the order of the route, still percent-encoded.
    pub fn params(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        // The path stands at the front of this, which is not searched for its end here.
        let path = self.context.params.path().unwrap_or_else(|| self.head.path_and_query());
        self.context.params.iter().map(move |(name, range)| (name, path.get(range).unwrap_or_default()))
    }

    /// The address of the peer; [`Address::ip`] is its IP address on wires that have one.
    pub fn peer(&self) -> &Address {
        &self.context.peer().address
    }

    /// Process, user and group of the peer, on wires that know them (Unix sockets).
    pub fn credentials(&self) -> Option<Credentials> {
        self.context.peer().credentials()
    }

    /// What the handshake of the connection agreed on; `None` on wires without one, and in clear text. With the feature `tls`
    /// the extractor `TlsInfo` gives the same.
    pub fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.context.peer().negotiated()
    }

    /// Ready once the peer has ended its direction while the handler works.
    ///
    /// If the peer resets the connection, the handler is dropped at once. If the peer only ends its direction, it may still
    /// wait for the response, so the handler has [`Limits::half_close_timeout`](crate::Limits::half_close_timeout) to
    /// answer. This future lets it stop earlier. The end is noticed behind at most 8 KiB of unread bytes. The future is
    /// never ready once the handler has answered.
    ///
    /// ```
    /// use anywire_server::{Request, Router};
    ///
    /// async fn search(request: Request) -> String {
    ///     tokio::select! {
    ///         found = std::future::ready("all of it") => found.to_owned(),
    ///         () = request.peer_gone() => "what there was so far".to_owned(),
    ///     }
    /// }
    /// # drop(Router::new().get("/search", search));
    /// ```
    pub fn peer_gone(&self) -> impl Future<Output = ()> + use<> {
        let gone = self.context.gone();
        async move { gone.wait().await }
    }

    /// Ready once the server begins to shut down. For an [`Upgrade`](crate::Upgrade), and for the task that fills a body
    /// without end: they would otherwise hold the shutdown until its deadline and then be cut.
    ///
    /// ```
    /// use anywire_server::{Request, Router, Upgrade};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let ticks = async |upgrade: Upgrade, request: Request| {
    ///     let stopping = request.stopping();
    ///     upgrade.accept("ticks", async move |mut connection| {
    ///         stopping.await;
    ///         let _ = connection.write_all(b"goodbye").await;
    ///     })
    /// };
    /// # drop(Router::new().get("/ticks", ticks));
    /// ```
    pub fn stopping(&self) -> impl Future<Output = ()> + use<> {
        let stopping = self.context.stopping();
        async move { stopping.wait().await }
    }

    /// Whether the peer has gone, for other threads.
    pub(crate) fn gone_flag(&self) -> Arc<AtomicBool> {
        self.context.gone_flag()
    }

    /// Tells the threads of this request, once it is dropped, that nobody waits for them.
    pub(crate) fn cancel_guard(&self) -> CancelGuard {
        self.context.cancel_guard()
    }

    /// Ready once it is too late to wait for a thread of a pool.
    pub(crate) fn waits_no_more(&self) -> impl Future<Output = ()> + use<> {
        let watch = self.context.waits_no_more();
        async move { watch.wait().await }
    }

    /// By which it is known again, wherever it goes.
    pub(crate) fn key(&self) -> RequestKey {
        self.context.key()
    }

    /// The path of the route; `None` in a fallback.
    pub(crate) fn matched_path(&self) -> Option<&Rc<str>> {
        self.context.loop_context().paths.get(self.context.endpoint.index())?.as_ref()
    }

    pub(crate) fn state<T: 'static>(&self) -> Option<Rc<T>> {
        self.context.loop_context().states.find(self.context.states)
    }

    /// Goes on to code that sees these states, if it is that of another router.
    #[inline]
    pub(crate) fn see(&mut self, states: Option<StatesId>) {
        if let Some(states) = states {
            self.context.states = states;
        }
    }

    /// Looks a route up in the head, with the parameters of its path. Returns what answers.
    #[inline]
    pub(crate) fn find_route(
        &mut self,
        find: impl FnOnce(&RequestHead, &mut Params) -> EndpointId,
    ) -> EndpointId {
        let Self { head, context } = self;
        let endpoint = find(head, &mut context.params);
        self.set_endpoint(endpoint);
        endpoint
    }

    /// This answers.
    pub(crate) fn set_endpoint(&mut self, endpoint: EndpointId) {
        self.context.endpoint = endpoint;
        self.context.states = StatesId::of_endpoint(endpoint);
    }

    /// Its number, if it is of this loop.
    pub(crate) fn number_in(&self, loop_context: &LoopContext) -> Option<RequestNumber> {
        self.context.number_in(loop_context)
    }

    /// What all requests of this loop share.
    #[cfg(feature = "tower")]
    pub(crate) fn server(&self) -> &LoopContext {
        self.context.loop_context()
    }

    pub(crate) fn open_interim(&self) -> Rc<Interim> {
        self.context.open_interim()
    }

    pub(crate) fn body_limit_bytes(&self) -> usize {
        self.context.loop_context().body_limit_bytes(self.context.endpoint)
    }

    pub(crate) fn json_depth(&self) -> usize {
        self.context.loop_context().json_depth
    }

    pub(crate) fn form_fields_max(&self) -> usize {
        self.context.loop_context().form_fields_max
    }
}
