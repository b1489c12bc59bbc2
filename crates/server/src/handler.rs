//! Handlers: `async fn`s whose arguments come out of the request and whose result becomes the response.
//!
//! One impl covers all handlers, and each of its bounds is a trait of its own. So the compiler reports the bound that
//! fails, on the argument or result that fails it, instead of "`Handler` is not implemented".

mod arguments;

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anywire_http::{IntoResponse, Response};
use pin_project_lite::pin_project;

use crate::conditions::guards::Guard;
use crate::conditions::{Conditions, MediaTypes};
use crate::extract::Needs;
use crate::layer::{GivenLayer, Layer};
use crate::request::Request;
use crate::route_limits::RouteLimits;
use crate::run::chain::Owner;
use crate::run::{Running, Slot};
use crate::with::{Addition, With};

pub use self::arguments::{Arguments, Function};

/// An `async` function of up to eight extractors that answers requests.
///
/// The future need not be `Send`: it runs on the connection's loop, beside the connection, from start to end. The last
/// argument implements [`FromRequest`](crate::FromRequest) and may take the body, the others implement
/// [`FromRequestParts`](crate::FromRequestParts). They are
/// extracted from left to right, and the first one that fails answers instead of the handler. The result implements
/// [`IntoResponse`].
///
/// A closure may capture values that are `Clone + Send + Sync`. It is cloned for each request.
///
/// ```
/// use anywire_server::{Path, Router};
///
/// async fn hello(Path(name): Path<String>) -> String {
///     format!("Hello, {name}!")
/// }
///
/// let greeting = String::from("Hello, World!");
/// let router = Router::new().get("/hello/{name}", hello).get("/", async move || greeting);
/// # drop(router);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not an `async` function of at most eight arguments",
    note = "a handler is an `async fn`, or a closure `async |..| ..`; if it is not `async`, make it so",
    note = "it takes at most eight arguments; take more of them as one extractor of your own",
    note = "a closure states the types of its arguments: `async |Path(id): Path<u64>| ..`"
)]
pub trait Handler<Args>: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn call(self, request: Request) -> impl Future<Output = Response> + 'static;

    /// Names the states that the arguments need, so that a missing one is an error at start.
    fn needs(needs: &mut Needs);

    /// This handler within a layer, on the routes that it is given to. Layers apply as they were added, the outermost first, and
    /// within those of the router.
    ///
    /// The router's own answers to other methods of the path are not the handler's: a layer that is to see them, such as one that
    /// answers `OPTIONS`, is given to a router.
    ///
    /// ```
    /// use anywire_server::{Handler, Next, Request, Response, Router};
    ///
    /// async fn slowly(request: Request, next: Next) -> Response {
    ///     next.run(request).await.header("x-slow", "yes")
    /// }
    ///
    /// let report = async || "a long report";
    /// let router = Router::new().get("/report", report.layer(slowly)).get("/", async || "Hello, World!");
    /// # drop(router);
    /// ```
    #[track_caller]
    fn layer<L: Layer<By>, By: 'static>(self, layer: L) -> With<Self, Args> {
        With::new(self, Addition::Layer(GivenLayer::new(layer, Location::caller())))
    }

    /// This handler with limits of its own, on the routes that it is given to. What they do not set is that of the router. Of
    /// limits that are set twice the outer ones hold.
    ///
    /// ```
    /// use std::time::Duration;
    /// use anywire_server::{Handler, RouteLimits, Router};
    ///
    /// let limits = RouteLimits { handler_timeout: Some(Duration::from_secs(300)), ..Default::default() };
    /// let report = async || "a long report";
    /// let router = Router::new().get("/report", report.limits(limits)).get("/", async || "Hello, World!");
    /// # drop(router);
    /// ```
    fn limits(self, limits: RouteLimits) -> With<Self, Args> {
        With::new(self, Addition::Limits(limits))
    }

    /// This handler for requests that pass a [guard](crate::guards) alone. With several guards they must pass all of them.
    ///
    /// ```
    /// use anywire_server::guards::header;
    /// use anywire_server::{Handler, Router};
    ///
    /// let second = async || "orders, version 2";
    /// let router = Router::new()
    ///     .get("/orders", second.when(header("x-version").equals("2")))
    ///     .get("/orders", async || "orders");
    /// # drop(router);
    /// ```
    #[track_caller]
    fn when(self, guard: impl Into<Guard>) -> With<Self, Args> {
        With::new(self, Addition::Conditions(Conditions::guarded(guard, Location::caller())))
    }

    /// This handler for requests whose content has one of these media types, or ranges such as `image/*`. Others are a 415 that
    /// lists what the handlers of the path take. Content without a type counts as `application/octet-stream`; a request without content
    /// passes.
    ///
    /// ```
    /// use anywire_server::{Handler, Json, Router};
    ///
    /// let from_json = async |Json(order): Json<u64>| order.to_string();
    /// let from_text = async |order: String| order;
    /// let router = Router::new()
    ///     .post("/orders", from_json.consumes(["application/json", "application/*+json"]))
    ///     .post("/orders", from_text.consumes("text/plain"));
    /// # drop(router);
    /// ```
    #[track_caller]
    fn consumes(self, types: impl MediaTypes) -> With<Self, Args> {
        With::new(self, Addition::Conditions(Conditions::consuming(types, Location::caller())))
    }

    /// This handler for requests that accept one of these media types, by the weights of their `Accept`
    /// ([`Accept::best`](anywire_http::accept::Accept::best)). Others are a 406. The handler learns the chosen type by
    /// [`Produces`](crate::Produces), and sets `content-type` itself. Responses of the path have `Vary: accept`.
    ///
    /// ```
    /// use anywire_server::{Handler, Html, Json, Router};
    ///
    /// let router = Router::new()
    ///     .get("/count", (async || Json(42)).produces("application/json"))
    ///     .get("/count", (async || Html("<b>42</b>")).produces("text/html"));
    /// # drop(router);
    /// ```
    #[track_caller]
    fn produces(self, types: impl MediaTypes) -> With<Self, Args> {
        With::new(self, Addition::Conditions(Conditions::producing(types, Location::caller())))
    }

    /// This handler with a description of what it takes and answers, for [OpenAPI](crate::openapi). Its arguments and its result say so
    /// themselves, for types that derive `schemars::JsonSchema`.
    ///
    /// ```
    /// use anywire_server::{Handler, Path, Router};
    ///
    /// let order = async |Path(id): Path<u64>| format!("order {id}");
    /// let router = Router::new().get("/orders/{id}", order.documented().summary("One order").tag("orders"));
    /// # drop(router);
    /// ```
    #[cfg(feature = "openapi")]
    #[track_caller]
    fn documented(self) -> crate::openapi::Documented<Self, Args>
    where
        Self: crate::openapi::Describe<Args>,
    {
        crate::openapi::Documented::new(self, Self::types(), Location::caller())
    }

    /// This handler without a place in the description by [OpenAPI](crate::openapi).
    #[cfg(feature = "openapi")]
    fn hidden(self) -> crate::openapi::Documented<Self, Args> {
        crate::openapi::Documented::hidden(self)
    }

    /// What a router keeps of it.
    #[doc(hidden)]
    fn into_parts(self) -> HandlerParts
    where
        Args: 'static,
    {
        HandlerParts::new(self)
    }
}

/// What a router keeps of a handler.
#[derive(Clone)]
pub struct HandlerParts {
    /// The handler itself.
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) needs: Needs,
    /// Its own layers, the outermost first.
    pub(crate) layers: Vec<GivenLayer>,
    pub(crate) limits: RouteLimits,
    pub(crate) conditions: Conditions,
    /// The name of that on which it runs, if it runs on one.
    pub(crate) pool: Option<Arc<str>>,
    /// What it says of itself.
    #[cfg(feature = "openapi")]
    pub(crate) doc: Option<Arc<crate::openapi::HandlerDoc>>,
}

impl HandlerParts {
    fn new<H: Handler<Args>, Args: 'static>(handler: H) -> Self {
        let mut needs = Needs::default();
        H::needs(&mut needs);
        Self::of(endpoint(handler), needs, None)
    }

    /// Of a function on a pool.
    pub(crate) fn on_pool(endpoint: Arc<dyn Endpoint>, needs: Needs, pool: Arc<str>) -> Self {
        Self::of(endpoint, needs, Some(pool))
    }

    fn of(endpoint: Arc<dyn Endpoint>, needs: Needs, pool: Option<Arc<str>>) -> Self {
        let (limits, conditions) = (RouteLimits::default(), Conditions::default());
        let layers = Vec::new();
        Self {
            endpoint,
            needs,
            layers,
            limits,
            conditions,
            pool,
            #[cfg(feature = "openapi")]
            doc: None,
        }
    }
}

impl fmt::Debug for HandlerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerParts").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<F, Args, Via: 'static> Handler<(Via, Args)> for F
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: Arguments<Via> + 'static,
    F::Output: IntoResponse,
{
    fn call(self, request: Request) -> impl Future<Output = Response> + 'static {
        Call::Extracting { extracting: Args::extract(request), run: Some(move |args| self.run(args)) }
    }

    fn needs(needs: &mut Needs) {
        Args::needs(needs);
    }
}

pin_project! {
    /// A run of a handler or a layer. An `async` block would move the request within itself before it begins.
    #[project = CallState]
    pub(crate) enum Call<E, F, R> {
        Extracting {
            #[pin]
            extracting: E,
            run: Option<F>,
        },
        Running {
            #[pin]
            running: R,
        },
    }
}

impl<E, F, R, Args> Future for Call<E, F, R>
where
    E: Future<Output = Result<Args, Response>>,
    F: FnOnce(Args) -> R,
    R: Future<Output: IntoResponse>,
{
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        loop {
            match self.as_mut().project() {
                CallState::Extracting { extracting, run } => match ready!(extracting.poll(cx)) {
                    Ok(args) => {
                        let Some(run) = run.take() else { return Poll::Pending };
                        let running = run(args);
                        self.set(Self::Running { running });
                    }
                    Err(rejected) => return Poll::Ready(rejected),
                },
                CallState::Running { running } => return running.poll(cx).map(IntoResponse::into_response),
            }
        }
    }
}

/// A handler without the types of its arguments, as the router keeps it.
pub(crate) trait Endpoint: Send + Sync {
    /// Memory for one run of the handler after another, for this owner.
    fn slot(&self, owner: &Owner) -> Slot;
}

/// Erases the argument types of a handler.
pub(crate) fn endpoint<H: Handler<Args>, Args: 'static>(handler: H) -> Arc<dyn Endpoint> {
    Arc::new(TypedHandler { handler, args: PhantomData::<fn() -> Args> })
}

struct TypedHandler<H, Args> {
    handler: H,
    args: PhantomData<fn() -> Args>,
}

impl<H: Handler<Args>, Args> Endpoint for TypedHandler<H, Args> {
    fn slot(&self, _: &Owner) -> Slot {
        let handler = self.handler.clone();
        Box::pin(Running::new(move |request| handler.clone().call(request)))
    }
}
