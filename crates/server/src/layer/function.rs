//! Layers from functions.
//!
//! As with handlers, one impl covers all of them, and each of its bounds is a trait of its own, so that the compiler reports
//! the argument that is wrong.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use anywire_http::{IntoResponse, Response};
use pin_project_lite::pin_project;

use super::{Layer, Next};
use crate::extract::{FromRequestParts, Needs};
use crate::handler::Call;
use crate::request::Request;

impl<F, Args> Layer<(Args,)> for F
where
    F: LayerFunction<Args> + Clone + Send + Sync + 'static,
    Args: LayerArguments + 'static,
    F::Output: IntoResponse,
{
    type Local = F;

    fn local(&self) -> F {
        self.clone()
    }

    fn call(local: Rc<F>, request: Request, next: Next) -> impl Future<Output = Response> + 'static {
        Args::call(F::clone(&local), request, next)
    }

    fn needs(needs: &mut Needs) {
        Args::needs(needs);
    }
}

/// An `async` function of any arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "neither an `async` function of a `Request` and a `Next` nor a type that implements `Layer`"
)]
pub trait LayerFunction<Args> {
    /// Its result.
    type Output;

    /// Calls the function.
    fn run(self, args: Args) -> impl Future<Output = Self::Output>;
}

/// The arguments of a layer: extractors of the head, then the request, then what is inside.
#[diagnostic::on_unimplemented(
    message = "the arguments of a layer end with a `Request` and a `Next`",
    label = "this layer takes `{Self}`",
    note = "a layer is an `async fn(request: Request, next: Next) -> Response`, with up to six extractors of the head as its first arguments"
)]
pub trait LayerArguments: Sized {
    /// Extracts all of them and calls the function, or returns the response of the first that fails.
    fn call<F>(function: F, request: Request, next: Next) -> impl Future<Output = Response>
    where
        F: LayerFunction<Self, Output: IntoResponse>;

    /// Names the states that they need from the router.
    fn needs(needs: &mut Needs);
}

/// [`Request`], where a layer takes it. A trait, so that the compiler names an argument of another type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` stands where a layer takes its `Request`",
    label = "the last argument but one of this layer is a `{Self}`",
    note = "make it a `Request`; extractors of the head stand before it, `Next` behind it"
)]
pub trait IsRequest {
    /// It is one.
    fn is(request: Request) -> Self;
}

impl IsRequest for Request {
    fn is(request: Request) -> Self {
        request
    }
}

/// [`Next`], where a layer takes it. A trait, so that the compiler names an argument of another type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` stands where a layer takes its `Next`",
    label = "the last argument of this layer is a `{Self}`",
    note = "make it a `Next`: `next.run(request).await` goes on with what is inside of the layer"
)]
pub trait IsNext {
    /// It is one.
    fn is(next: Next) -> Self;
}

impl IsNext for Next {
    fn is(next: Next) -> Self {
        next
    }
}

pin_project! {
    /// A run of a function, whose result becomes the response.
    struct Responding<R> {
        #[pin]
        running: R,
    }
}

impl<R: Future<Output: IntoResponse>> Future for Responding<R> {
    type Output = Response;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        self.project().running.poll(cx).map(IntoResponse::into_response)
    }
}

impl<R: IsRequest, N: IsNext> LayerArguments for (R, N) {
    // Nothing is extracted, so the function gets the request at once: each move of it counts.
    #[inline]
    fn call<F>(function: F, request: Request, next: Next) -> impl Future<Output = Response>
    where
        F: LayerFunction<Self, Output: IntoResponse>,
    {
        Responding { running: function.run((R::is(request), N::is(next))) }
    }

    fn needs(_: &mut Needs) {}
}

macro_rules! arguments {
    ($(($($head:ident)*))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<$($head: FromRequestParts,)* R: IsRequest, N: IsNext> LayerArguments for ($($head,)* R, N) {
            fn call<F>(function: F, mut request: Request, next: Next) -> impl Future<Output = Response>
            where
                F: LayerFunction<Self, Output: IntoResponse>,
            {
                let extracting = async move {
                    $(let $head = match $head::from_request_parts(&mut request).await {
                        Ok(value) => value,
                        Err(rejection) => return Err(rejection.into_response()),
                    };)*
                    Ok(($($head,)* R::is(request), N::is(next)))
                };
                Call::Extracting { extracting, run: Some(move |args| function.run(args)) }
            }

            fn needs(needs: &mut Needs) {
                $($head::needs(needs);)*
            }
        }
    )*};
}

arguments! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E G)
}

macro_rules! functions {
    ($(($($arg:ident)*))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<F: AsyncFnOnce($($arg),*) -> Output, Output, $($arg),*> LayerFunction<($($arg,)*)> for F {
            type Output = Output;

            fn run(self, ($($arg,)*): ($($arg,)*)) -> impl Future<Output = Output> {
                self($($arg),*)
            }
        }
    )*};
}

// Fewer than two arguments are none of a layer; they are here so that `LayerArguments` says so.
each_arity! { functions }
