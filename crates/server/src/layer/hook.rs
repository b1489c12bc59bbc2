//! Layers that never wait: they look at the request on its way in, and at the response on its way out.
//!
//! As an `async` function, such a layer would be a future of its own around what is inside, and request and response would move
//! through it. Here both stay where they are.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Context;
use std::thread;

use anywire_http::Response;

use super::chain::{Inside, OnLoop};
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
        Box::pin(Hooking::<H> { local, states, inside, run: None })
    }
}

/// A slot of a hook.
struct Hooking<H: Hook> {
    local: Rc<H::Local>,
    /// Those that it sees; `None` if the request sees them already.
    states: Option<StatesId>,
    inside: Rc<Inside>,
    /// The run of what is inside, while that waits, and what the hook kept of the request.
    run: Option<(Slot, H::Kept)>,
}

/// Nothing of it is pinned.
impl<H: Hook> Unpin for Hooking<H> {}

impl<H: Hook> Run for Hooking<H> {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()> {
        request.see(self.states);
        match catch_unwind(AssertUnwindSafe(|| H::before(&self.local, &mut request)))? {
            Ok(kept) => {
                let waits = self.inside.start(request, response, cx);
                self.polled(waits, kept, response)
            }
            Err(refused) => {
                drop_caught(request).map_or(Ok(()), Err)?;
                *response = Some(refused);
                Ok(())
            }
        }
    }

    fn poll(
        mut self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()> {
        let Some((slot, kept)) = self.run.take() else { return Ok(()) };
        let waits = self.inside.go_on(slot, response, cx);
        self.polled(waits, kept, response)
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        let Some((slot, kept)) = self.run.take() else { return Ok(()) };
        // What is inside ends first, and contains its own panics.
        self.inside.cancel(slot);
        catch_unwind(AssertUnwindSafe(|| drop(kept)))
    }
}

impl<H: Hook> Hooking<H> {
    /// What is inside waits, or there is a response.
    #[inline]
    fn polled(
        &mut self,
        waits: Option<Slot>,
        kept: H::Kept,
        response: &mut Option<Response>,
    ) -> thread::Result<()> {
        if let Some(slot) = waits {
            self.run = Some((slot, kept));
            return Ok(());
        }
        let Some(there) = response else { return Ok(()) };
        catch_unwind(AssertUnwindSafe(|| H::after(&self.local, kept, there))).inspect_err(|_| {
            // It may panic as well, and is not sent.
            drop_caught(response.take()).into_iter().for_each(dispose);
        })
    }
}
