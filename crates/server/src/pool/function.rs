//! What a function on a pool may take and return.
//!
//! As with handlers, each bound is a trait of its own, so that the compiler reports the argument or the result that is wrong.

use anywire_http::IntoResponse;

/// A function of up to eight arguments that is not `async`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that a pool can run",
    label = "not a function of at most eight arguments",
    note = "a pool runs a `fn`, or a closure `|..| ..` that states the types of its arguments: `|Path(id): Path<u64>| ..`"
)]
pub trait BlockingFunction<Args> {
    /// Its result.
    type Output;

    /// Calls the function.
    fn run(self, args: Args) -> Self::Output;
}

/// An argument that goes to the thread of a pool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent to the threads of a pool",
    label = "an argument of this function is a `{Self}`",
    note = "arguments of a function on a pool are `Send`: take a shared value as `Arc<T>` instead of `State<T>`, given to the router by `.state(Arc::new(..))`",
    note = "of a `Request`, take what is needed: `Method`, `Headers`, `Path<T>`, `Bytes`, `PeerGone`"
)]
pub trait PoolArgument: Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Send + 'static> PoolArgument for T {}

/// All arguments of a function on a pool.
pub trait PoolArguments: Send + 'static {}

/// The result of a function on a pool. It becomes a response there, so that it need not be `Send`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a response of a function on a pool",
    label = "this function gives a `{Self}`",
    note = "a function on a pool blocks its thread, so it is a `fn` or a closure `|..| ..`; if it is `async`, make it not so",
    note = "its result is one that a handler may have, and implements `IntoResponse`"
)]
pub trait PoolResult: IntoResponse {}

#[diagnostic::do_not_recommend]
impl<T: IntoResponse> PoolResult for T {}

macro_rules! functions {
    ($(($($arg:ident)*))*) => {$(
        impl<$($arg: PoolArgument,)*> PoolArguments for ($($arg,)*) {}

        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<F: FnOnce($($arg),*) -> R, R, $($arg,)*> BlockingFunction<($($arg,)*)> for F {
            type Output = R;

            fn run(self, ($($arg,)*): ($($arg,)*)) -> R {
                self($($arg),*)
            }
        }
    )*};
}

each_arity! { functions }
