//! Handlers: plain `async fn`s whose arguments are taken out of the request and whose result becomes the response.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use anywire_http::Response;
use pin_project_lite::pin_project;

use crate::extract::{FromRequest, Needs};
use crate::request::Request;
use crate::respond::IntoResponse;

/// An `async` function of up to eight extractors that answers requests.
///
/// The future need not be `Send`: it runs on the connection's loop, beside the connection, from start to end. Every
/// argument implements [`FromRequest`]; they are taken from left to right, and the first one that fails answers for
/// all. The result implements [`IntoResponse`].
///
/// ```
/// use anywire_server::{Path, Router};
///
/// async fn hello(Path(name): Path<String>) -> String {
///     format!("Hello, {name}!")
/// }
///
/// let router = Router::new().get("/hello/{name}", hello).get("/", async || "Hello, World!");
/// # drop(router);
/// ```
pub trait Handler<Args>: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn call(self, request: Request) -> impl Future<Output = Response> + 'static;

    /// Names what the arguments need from the server, so that a lack is an error at start.
    fn needs(needs: &mut Needs);
}

macro_rules! handlers {
    ($(($($arg:ident),*))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of an argument")]
        impl<F, Fut, R, $($arg),*> Handler<($($arg,)*)> for F
        where
            F: Fn($($arg),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = R> + 'static,
            R: IntoResponse + 'static,
            $($arg: FromRequest + 'static,)*
        {
            // Not an `async fn`, which would move the request within its future before it begins.
            fn call(self, mut request: Request) -> impl Future<Output = Response> + 'static {
                async move {
                    #[allow(unused_variables, reason = "a handler without arguments looks at no request; it has one, though")]
                    let request = &mut request;
                    $(let $arg = match $arg::from_request(request).await {
                        Ok(value) => value,
                        Err(rejection) => return rejection.into_response(),
                    };)*
                    self($($arg),*).await.into_response()
                }
            }

            #[allow(unused_variables, reason = "a handler without arguments needs nothing")]
            fn needs(needs: &mut Needs) {
                $($arg::needs(needs);)*
            }
        }
    )*};
}

handlers! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, G)
    (A, B, C, D, E, G, H)
    (A, B, C, D, E, G, H, I)
}

/// A handler whose arguments' types are forgotten, as the router keeps it.
pub(crate) trait Endpoint: Send + Sync {
    /// Memory for one run of the handler after another.
    fn slot(&self) -> Slot;
}

/// Forgets the argument types of a handler.
pub(crate) fn endpoint<H: Handler<Args>, Args: 'static>(handler: H) -> Box<dyn Endpoint> {
    Box::new(Typed { handler, args: PhantomData::<fn() -> Args> })
}

struct Typed<H, Args> {
    handler: H,
    args: PhantomData<fn() -> Args>,
}

impl<H: Handler<Args>, Args> Endpoint for Typed<H, Args> {
    fn slot(&self) -> Slot {
        let handler = self.handler.clone();
        Box::pin(Running { start: move |request| handler.clone().call(request), answer: None })
    }
}

/// Where a handler runs: its future is made in place, so that a request allocates nothing once slots are there.
pub(crate) type Slot = Pin<Box<dyn Run>>;

/// The slots of one handler that are free.
///
/// Most runs are over before another begins, so one slot serves them all, and taking it is cheaper than popping it off a
/// list.
#[derive(Default)]
pub(crate) struct Slots {
    last: Cell<Option<Slot>>,
    others: RefCell<Vec<Slot>>,
}

impl Slots {
    #[inline]
    pub(crate) fn take(&self) -> Option<Slot> {
        self.last.take().or_else(|| self.others.borrow_mut().pop())
    }

    /// Keeps a slot that is clear, unless there are enough.
    #[inline]
    pub(crate) fn put(&self, slot: Slot) {
        if let Some(other) = self.last.replace(Some(slot)) {
            self.put_other(other);
        }
    }

    #[inline(never)]
    fn put_other(&self, slot: Slot) {
        let mut others = self.others.borrow_mut();
        if others.len() < SPARE_SLOTS_MAX {
            others.push(slot);
        }
    }
}

/// Spare slots kept of each handler, on each loop.
const SPARE_SLOTS_MAX: usize = 256;

/// What can be done with a [`Slot`]: start, and poll until ready; then it is clear and can be started again. After a
/// panic, which is the error, it is not.
pub(crate) trait Run {
    /// Starts the handler and polls it for the first time, which is the only time for most.
    fn start(self: Pin<&mut Self>, request: Request, cx: &mut Context<'_>) -> thread::Result<Poll<Response>>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> thread::Result<Poll<Response>>;
}

pin_project! {
    struct Running<S, F> {
        start: S,
        #[pin]
        answer: Option<F>,
    }
}

impl<S: Fn(Request) -> F, F: Future<Output = Response>> Running<S, F> {
    // Part of both ways in: where it starts, the compiler sees that the future is at its beginning.
    #[inline(always)]
    fn go_on(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let mut this = self.project();
        let Some(answer) = this.answer.as_mut().as_pin_mut() else { return Poll::Pending };
        let polled = answer.poll(cx);
        if polled.is_ready() {
            this.answer.set(None);
        }
        polled
    }
}

// Panics are caught here, where the handler is known: outside, its request and its response would be moved once more.
impl<S: Fn(Request) -> F, F: Future<Output = Response>> Run for Running<S, F> {
    fn start(
        mut self: Pin<&mut Self>,
        request: Request,
        cx: &mut Context<'_>,
    ) -> thread::Result<Poll<Response>> {
        catch_unwind(AssertUnwindSafe(|| {
            let mut this = self.as_mut().project();
            let answer = (this.start)(request);
            this.answer.set(Some(answer));
            self.go_on(cx)
        }))
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> thread::Result<Poll<Response>> {
        catch_unwind(AssertUnwindSafe(|| self.go_on(cx)))
    }
}
