//! Layers (middleware): code around handlers, which sees a request before they do and their response after them.
//!
//! A layer is a function ([`function`]) or a type of its own ([`Layer`]). Routes name theirs; each loop makes what it needs of
//! them ([`chain`](crate::run::chain)), and [`Next`] is how a layer goes on.

mod fault;
mod function;
mod given;
mod next;

use std::any::type_name;
use std::fmt;
use std::rc::Rc;

use anywire_http::Response;

use crate::extract::Needs;
use crate::request::Request;
use crate::run::chain::{LocalLayer, OnLoop};

pub use self::fault::LayerFault;
pub use self::function::{IsNext, IsRequest, LayerArguments, LayerFunction};
pub(crate) use self::given::GivenLayer;
#[cfg(feature = "tower")]
pub(crate) use self::next::InnerFuture;
pub use self::next::Next;

/// Code around handlers (middleware): it sees the head of a request before the body is read, may respond itself, and may
/// replace request, response and both bodies.
///
/// Most layers are functions: `async fn(extractors.., request: Request, next: Next) -> impl IntoResponse`, with up to six
/// extractors of the head. An extractor that fails responds instead of the layer. States are those of the router that the layer
/// was given to; a missing one is an error at start. The future need not be `Send`.
///
/// ```
/// use anywire_server::{Next, Request, Response, Router};
///
/// async fn log(request: Request, next: Next) -> Response {
///     let asked = format!("{} {}", request.method(), request.target());
///     let response = next.run(request).await;
///     println!("{asked}: {}", response.status);
///     response
/// }
///
/// let router = Router::new().get("/", async || "Hello, World!").layer(log);
/// # drop(router);
/// ```
///
/// [`Router::layer`](crate::Router::layer) wraps all routes of a router, [`Handler::layer`](crate::Handler::layer) one route,
/// [`Server::layer`](crate::Server::layer) everything, before the route is looked up. Layers apply as they were added, the
/// outermost first. They also see rejections of extractors and the router's own 404, 405 and `OPTIONS`. A panic within a layer
/// is a 500 that the layers around it see.
///
/// Implement this trait for a layer with a state on each loop:
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// use anywire_server::{Layer, Next, Request, Response, Router};
///
/// /// Numbers the requests of each loop.
/// struct Number;
///
/// impl Layer for Number {
///     type Local = Cell<u64>;
///
///     fn local(&self) -> Cell<u64> {
///         Cell::new(0)
///     }
///
///     async fn call(count: Rc<Cell<u64>>, request: Request, next: Next) -> Response {
///         let number = count.get() + 1;
///         count.set(number);
///         next.run(request).await.header("x-number", number.to_string())
///     }
/// }
///
/// # anywire_loops::block_on(async {
/// let router = Router::new().get("/", async || "Hello, World!").layer(Number);
/// let response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.headers.get("x-number"), Some("1"));
/// # });
/// ```
// `Args` tells the functions from the types of their own, so that the two implementations do not overlap.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "neither an `async` function of a `Request` and a `Next` nor a type that implements `Layer`",
    note = "a layer is an `async fn(request: Request, next: Next) -> Response`, with up to six extractors of the head as its first arguments",
    note = "if it is not `async`, make it so; a closure states the types of its arguments: `async |request: Request, next: Next| ..`"
)]
pub trait Layer<Args = ()>: Send + Sync + 'static {
    /// What one loop has of this layer, such as a counter. It stays on its loop and need not be `Send`.
    type Local: 'static;

    /// Makes what one loop has of this layer: once on each loop, before the first request that goes through the layer there. All
    /// routes that one call of `layer` wraps share it.
    fn local(&self) -> Self::Local;

    /// Handles one request. `next.run(request).await` is the response of what is inside.
    fn call(local: Rc<Self::Local>, request: Request, next: Next)
    -> impl Future<Output = Response> + 'static;

    /// Names the states that it needs, so that a missing one is an error at start. The default names none.
    fn needs(_needs: &mut Needs) {}

    /// What is wrong with its settings, for an error at start. The default is nothing.
    fn fault(&self) -> Option<LayerFault> {
        None
    }

    /// What it adds to the [OpenAPI](crate::openapi) description of each operation within it: what it refuses, and whom it lets in. `None`
    /// is a route for all methods that have none of their own. The default is nothing.
    #[cfg(feature = "openapi")]
    fn describe(&self, _method: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new()
    }

    /// What the current loop has of it, without its type.
    #[doc(hidden)]
    fn on_loop(&self) -> LoopPart
    where
        Self: Sized,
        Args: 'static,
    {
        LoopPart(Rc::new(LocalLayer::<Self, Args>::new(self.local())))
    }

    /// Its name in the log, in errors at start and in [`Router::describe`](crate::Router::describe). The default is the name of
    /// its type, or of its function.
    fn name(&self) -> &'static str {
        name_of::<Self>()
    }
}

/// The name of a function or a type.
pub(crate) fn name_of<T: ?Sized>() -> &'static str {
    let path = type_name::<T>();
    // Without the modules of a function or type, and with them for its arguments: these are rare.
    let end = path.find('<').unwrap_or(path.len());
    let begin = path[..end].rfind("::").map_or(0, |at| at + 2);
    match path[begin..end].strip_prefix("{{closure}}") {
        Some(_) => "a closure",
        None => &path[begin..end],
    }
}

/// What a loop has of a layer, without its type.
pub struct LoopPart(pub(crate) Rc<dyn OnLoop>);

impl fmt::Debug for LoopPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopPart").finish_non_exhaustive()
    }
}
