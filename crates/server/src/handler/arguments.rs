//! The arguments of a handler, taken out of its request from left to right.

use anywire_http::{IntoResponse, Response};

use crate::extract::{FromRequest, FromRequestParts, Needs};
use crate::request::Request;

/// An `async` function of any arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not an `async` function of at most eight arguments"
)]
pub trait Function<Args> {
    /// Its result.
    type Output;

    /// Calls the function.
    fn run(self, args: Args) -> impl Future<Output = Self::Output>;
}

/// The arguments of a handler: all but the last one come from the head, the last one comes by way of `Via`.
pub trait Arguments<Via>: Sized {
    /// Extracts all of them, or returns the response of the first that fails.
    fn extract(request: Request) -> impl Future<Output = Result<Self, Response>>;

    /// Names the states that they need from the router.
    fn needs(needs: &mut Needs);
}

impl Arguments<()> for () {
    // A call of it took a quarter of the instructions that run a handler without arguments.
    #[inline]
    fn extract(request: Request) -> impl Future<Output = Result<Self, Response>> {
        drop(request);
        std::future::ready(Ok(()))
    }

    fn needs(_: &mut Needs) {}
}

impl<F: AsyncFnOnce() -> R, R> Function<()> for F {
    type Output = R;

    fn run(self, (): ()) -> impl Future<Output = R> {
        self()
    }
}

macro_rules! arguments {
    ($(($($head:ident)* | $last:ident))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<Via, $($head: FromRequestParts,)* $last: FromRequest<Via>> Arguments<Via> for ($($head,)* $last,) {
            #[allow(unused_mut, reason = "a single argument takes the request as it is")]
            async fn extract(mut request: Request) -> Result<Self, Response> {
                $(let $head = match $head::from_request_parts(&mut request).await {
                    Ok(value) => value,
                    Err(rejection) => return Err(rejection.into_response()),
                };)*
                match $last::from_request(request).await {
                    Ok($last) => Ok(($($head,)* $last,)),
                    Err(rejection) => Err(rejection.into_response()),
                }
            }

            fn needs(needs: &mut Needs) {
                $($head::needs(needs);)*
                $last::needs(needs);
            }
        }

        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<F: AsyncFnOnce($($head,)* $last) -> R, R, $($head,)* $last> Function<($($head,)* $last,)> for F {
            type Output = R;

            fn run(self, ($($head,)* $last,): ($($head,)* $last,)) -> impl Future<Output = R> {
                self($($head,)* $last)
            }
        }
    )*};
}

arguments! {
    (| A)
    (A | B)
    (A B | C)
    (A B C | D)
    (A B C D | E)
    (A B C D E | G)
    (A B C D E G | H)
    (A B C D E G H | I)
}
