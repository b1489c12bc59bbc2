//! Layers that never wait: they look at the request on its way in, and at the response on its way out.
//!
//! As an `async` function, such a layer would be a future of its own around what is inside, and request and response would move
//! through it. Here both stay where they are.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread;

use anywire_http::Response;

use super::chain::{Inside, OnLoop};
use super::next::Going;
use super::{LayerFault, LoopPart, Next};
use crate::contained::{dispose, drop_caught};
use crate::extract::StatesId;
use crate::handler::{Run, Slot};
use crate::request::Request;

/// A layer that never waits.
pub(crate) trait Hook: Send + Sync + 'static {
    /// What one loop has of it.
    type Local: 'static;
    /// What it keeps of a request until the response is there. Dropped without one if the request is cancelled.
    type Kept: 'static;

    fn local(&self) -> Self::Local;

    /// Looks at a request. The error is the response instead.
    fn before(local: &Rc<Self::Local>, request: &mut Request) -> Result<Self::Kept, Response>;

    /// Looks at the response of what is inside.
    fn after(local: &Rc<Self::Local>, kept: Self::Kept, response: &mut Response);

    fn fault(&self) -> Option<LayerFault> {
        None
    }
}

/// Makes a [`Layer`](super::Layer) of a type that is a [`Hook`] with this local part.
macro_rules! by_hook {
    ($layer:ty, $local:ty) => {
        impl $crate::layer::Layer for $layer {
            type Local = $local;

            fn local(&self) -> Self::Local {
                $crate::layer::hook::Hook::local(self)
            }

            async fn call(
                local: std::rc::Rc<Self::Local>,
                request: $crate::request::Request,
                next: $crate::layer::Next,
            ) -> anywire_http::Response {
                $crate::layer::hook::call::<$layer>(local, request, next).await
            }

            fn fault(&self) -> Option<$crate::layer::LayerFault> {
                $crate::layer::hook::Hook::fault(self)
            }

            fn on_loop(&self) -> $crate::layer::LoopPart {
                $crate::layer::hook::on_loop(self)
            }
        }
    };
}

pub(crate) use by_hook;

/// The same as a future.
pub(crate) async fn call<H: Hook>(local: Rc<H::Local>, mut request: Request, next: Next) -> Response {
    match H::before(&local, &mut request) {
        Ok(kept) => {
            let mut response = next.run(request).await;
            H::after(&local, kept, &mut response);
            response
        }
        Err(refused) => refused,
    }
}

/// What the current loop has of it.
pub(crate) fn on_loop<H: Hook>(hook: &H) -> LoopPart {
    LoopPart(Rc::new(LocalHook::<H> { local: Rc::new(hook.local()), hook: PhantomData }))
}

struct LocalHook<H: Hook> {
    local: Rc<H::Local>,
    hook: PhantomData<H>,
}

impl<H: Hook> OnLoop for LocalHook<H> {
    fn slot(&self, states: Option<StatesId>, inside: Rc<Inside>) -> Slot {
        let local = Rc::clone(&self.local);
        Box::pin(Hooking::<H> { local, states, inside, run: None, refused: None })
    }
}

/// A slot of a hook.
struct Hooking<H: Hook> {
    local: Rc<H::Local>,
    /// Whose states it sees, if it is the outermost layer.
    states: Option<StatesId>,
    inside: Rc<Inside>,
    /// The run of the next layer or the handler, and what the hook kept of the request.
    run: Option<(Going, H::Kept)>,
    refused: Option<Response>,
}

/// Nothing of it is pinned.
impl<H: Hook> Unpin for Hooking<H> {}

impl<H: Hook> Run for Hooking<H> {
    fn begin(
        mut self: Pin<&mut Self>,
        request: &mut Option<Request>,
        states: Option<StatesId>,
    ) -> thread::Result<()> {
        let this = &mut *self;
        let Some(asked) = request.as_mut() else { return Ok(()) };
        if let Some(states) = states.or(this.states) {
            asked.see(states);
        }
        match catch_unwind(AssertUnwindSafe(|| H::before(&this.local, asked)))? {
            Ok(kept) => this.run = Some((Next::into(Rc::clone(&this.inside)).begin(request), kept)),
            Err(refused) => {
                this.refused = Some(refused);
                return drop_caught(request.take()).map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> thread::Result<Poll<Response>> {
        let this = &mut *self;
        let Some((going, _)) = &mut this.run else {
            return Ok(this.refused.take().map_or(Poll::Pending, Poll::Ready));
        };
        let Poll::Ready(mut response) = Pin::new(going).poll(cx) else { return Ok(Poll::Pending) };
        let Some((_, kept)) = this.run.take() else { return Ok(Poll::Ready(response)) };
        match catch_unwind(AssertUnwindSafe(|| H::after(&this.local, kept, &mut response))) {
            Ok(()) => Ok(Poll::Ready(response)),
            Err(panic) => {
                // It may panic as well, and is not sent.
                drop_caught(response).into_iter().for_each(dispose);
                Err(panic)
            }
        }
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        // What is inside ends first, and contains its own panics.
        let (run, refused) = (self.run.take(), self.refused.take());
        catch_unwind(AssertUnwindSafe(|| drop((run, refused))))
    }
}
