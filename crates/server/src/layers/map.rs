//! Functions on one of the two ways.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use anywire_http::{IntoResponse, Response};

use crate::extract::{FromRequestParts, Needs};
use crate::handler::{Arguments, Function};
use crate::layer::{Layer, Next};
use crate::request::{Parts, Request};

/// A layer of a function of the request, `async fn(extractors.., request: Request) -> Request`. It may refuse: `-> Result<Request, _>`,
/// whose error is the response.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::layers::map_request;
/// use anywire_server::{Request, Router};
///
/// async fn known(request: Request) -> Result<Request, StatusCode> {
///     if request.headers().contains("x-key") { Ok(request) } else { Err(StatusCode::UNAUTHORIZED) }
/// }
///
/// let router = Router::new().get("/", async || "Hello, World!").layer(map_request(known));
/// # drop(router);
/// ```
pub fn map_request<F, Args, Via>(function: F) -> MapRequest<F, Args, Via>
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: Arguments<Via>,
    F::Output: IntoRequest,
{
    MapRequest { function, args: PhantomData }
}

/// A layer of a function of the response, `async fn(extractors.., response: Response) -> impl IntoResponse`, with up to four
/// extractors of the request's head.
///
/// ```
/// use anywire_server::layers::map_response;
/// use anywire_server::{Response, Router};
///
/// async fn tagged(response: Response) -> Response {
///     response.header("x-served-by", "the shop")
/// }
///
/// let router = Router::new().get("/", async || "Hello, World!").layer(map_response(tagged));
/// # drop(router);
/// ```
pub fn map_response<F, Args>(function: F) -> MapResponse<F, Args>
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: ResponseArguments,
    F::Output: IntoResponse,
{
    MapResponse { function, errors_only: false, args: PhantomData }
}

/// As [`map_response`], for responses with a status of 400 or more.
///
/// ```
/// use anywire_http::Method;
/// use anywire_server::layers::map_errors;
/// use anywire_server::{Html, IntoResponse, Response, Router};
///
/// async fn as_page(method: Method, mut response: Response) -> Response {
///     let text = response.body.text(1000).await.unwrap_or_default();
///     (response.status, Html(format!("<h1>{method} failed</h1><p>{text}</p>"))).into_response()
/// }
///
/// let router = Router::new().get("/", async || "Hello, World!").layer(map_errors(as_page));
/// # drop(router);
/// ```
pub fn map_errors<F, Args>(function: F) -> MapResponse<F, Args>
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: ResponseArguments,
    F::Output: IntoResponse,
{
    MapResponse { function, errors_only: true, args: PhantomData }
}

/// What [`map_request`] makes.
pub struct MapRequest<F, Args, Via> {
    function: F,
    args: PhantomData<fn() -> (Args, Via)>,
}

/// What [`map_response`] and [`map_errors`] make.
pub struct MapResponse<F, Args> {
    function: F,
    errors_only: bool,
    args: PhantomData<fn() -> Args>,
}

impl<F, Args, Via> Layer for MapRequest<F, Args, Via>
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: Arguments<Via> + 'static,
    Via: 'static,
    F::Output: IntoRequest,
{
    type Local = F;

    fn local(&self) -> F {
        self.function.clone()
    }

    async fn call(function: Rc<F>, request: Request, next: Next) -> Response {
        let args = match Args::extract(request).await {
            Ok(args) => args,
            Err(rejected) => return rejected,
        };
        match F::clone(&function).run(args).await.into_request() {
            Ok(request) => next.run(request).await,
            Err(refused) => refused,
        }
    }

    fn needs(needs: &mut Needs) {
        Args::needs(needs);
    }

    fn name(&self) -> &'static str {
        "map_request"
    }
}

impl<F, Args> Layer for MapResponse<F, Args>
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: ResponseArguments + 'static,
    F::Output: IntoResponse,
{
    type Local = (F, bool);

    fn local(&self) -> (F, bool) {
        (self.function.clone(), self.errors_only)
    }

    async fn call(local: Rc<(F, bool)>, mut request: Request, next: Next) -> Response {
        let (function, errors_only) = &*local;
        let heads = match Args::heads(&mut request).await {
            Ok(heads) => heads,
            Err(rejected) => return rejected,
        };
        let response = next.run(request).await;
        if *errors_only && !response.status.is_client_error() && !response.status.is_server_error() {
            return response;
        }
        F::clone(function).run(Args::join(heads, response)).await.into_response()
    }

    fn needs(needs: &mut Needs) {
        Args::needs(needs);
    }

    fn name(&self) -> &'static str {
        if self.errors_only { "map_errors" } else { "map_response" }
    }
}

impl<F, Args, Via> fmt::Debug for MapRequest<F, Args, Via> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapRequest").finish_non_exhaustive()
    }
}

impl<F, Args> fmt::Debug for MapResponse<F, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapResponse").field("errors_only", &self.errors_only).finish_non_exhaustive()
    }
}

/// What a function of a request gives: another request, or a response instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no request",
    label = "a function of a request gives a `Request`, or a `Result` of one",
    note = "the error of the `Result` is the response, by `IntoResponse`"
)]
pub trait IntoRequest {
    /// The request, or the response instead.
    fn into_request(self) -> Result<Request, Response>;
}

impl IntoRequest for Request {
    fn into_request(self) -> Result<Request, Response> {
        Ok(self)
    }
}

impl<E: IntoResponse> IntoRequest for Result<Request, E> {
    fn into_request(self) -> Result<Request, Response> {
        self.map_err(IntoResponse::into_response)
    }
}

/// The arguments of a function of a response: extractors of the request's head, then the response.
#[diagnostic::on_unimplemented(
    message = "the arguments of a function of a response end with a `Response`",
    label = "this function takes `{Self}`",
    note = "it is an `async fn(response: Response) -> Response`, with up to four extractors of the request's head as its first arguments"
)]
pub trait ResponseArguments: Sized {
    /// What comes from the request.
    type Heads;

    /// Extracts that, or returns the response of the first extractor that fails.
    fn heads(parts: &mut Parts) -> impl Future<Output = Result<Self::Heads, Response>>;

    /// All arguments.
    fn join(heads: Self::Heads, response: Response) -> Self;

    /// Names the states that they need from the router.
    fn needs(needs: &mut Needs);
}

macro_rules! arguments {
    ($(($($head:ident)*))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        #[allow(unused_variables, reason = "without extractors nothing is read")]
        impl<$($head: FromRequestParts),*> ResponseArguments for ($($head,)* Response,) {
            type Heads = ($($head,)*);

            async fn heads(parts: &mut Parts) -> Result<Self::Heads, Response> {
                $(let $head = match $head::from_request_parts(parts).await {
                    Ok(value) => value,
                    Err(rejection) => return Err(rejection.into_response()),
                };)*
                Ok(($($head,)*))
            }

            fn join(($($head,)*): Self::Heads, response: Response) -> Self {
                ($($head,)* response,)
            }

            fn needs(needs: &mut Needs) {
                $($head::needs(needs);)*
            }
        }
    )*};
}

arguments! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
}
