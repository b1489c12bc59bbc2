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

use super::chain::{Inner, OnLoop};
use super::{Run, Slot};
use crate::contained::{dispose, drop_caught};
use crate::extract::StatesId;
use crate::layer::{LayerFault, LoopPart, Next};
use crate::request::Request;

/// A layer that never waits.
pub(crate) trait SyncLayer: Send + Sync + 'static {
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

    #[cfg(feature = "openapi")]
    fn describe(&self, _method: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new()
    }
}

/// Makes a [`Layer`](crate::Layer) of a type that is a [`SyncLayer`] with this local part.
macro_rules! sync_layer {
    ($layer:ty, $local:ty) => {
        impl $crate::layer::Layer for $layer {
            type Local = $local;

            fn local(&self) -> Self::Local {
                $crate::run::sync_layer::SyncLayer::local(self)
            }

            async fn call(
                local: std::rc::Rc<Self::Local>,
                request: $crate::request::Request,
                next: $crate::layer::Next,
            ) -> anywire_http::Response {
                $crate::run::sync_layer::call::<$layer>(local, request, next).await
            }

            fn fault(&self) -> Option<$crate::layer::LayerFault> {
                $crate::run::sync_layer::SyncLayer::fault(self)
            }

            #[cfg(feature = "openapi")]
            fn describe(&self, method: Option<&anywire_http::Method>) -> $crate::openapi::LayerDoc {
                $crate::run::sync_layer::SyncLayer::describe(self, method)
            }

            fn on_loop(&self) -> $crate::layer::LoopPart {
                $crate::run::sync_layer::on_loop(self)
            }
        }
    };
}

pub(crate) use sync_layer;

/// The same as a future.
pub(crate) async fn call<L: SyncLayer>(local: Rc<L::Local>, mut request: Request, next: Next) -> Response {
    match L::before(&local, &mut request) {
        Ok(kept) => {
            let mut response = next.run(request).await;
            L::after(&local, kept, &mut response);
            response
        }
        Err(refused) => refused,
    }
}

/// What the current loop has of it.
pub(crate) fn on_loop<L: SyncLayer>(layer: &L) -> LoopPart {
    LoopPart(Rc::new(LocalSyncLayer::<L> { local: Rc::new(layer.local()), layer: PhantomData }))
}

struct LocalSyncLayer<L: SyncLayer> {
    local: Rc<L::Local>,
    layer: PhantomData<L>,
}

impl<L: SyncLayer> OnLoop for LocalSyncLayer<L> {
    fn slot(&self, states: Option<StatesId>, inner: Rc<Inner>) -> Slot {
        let local = Rc::clone(&self.local);
        Box::pin(SyncRun::<L> { local, states, inner, run: None })
    }
}

/// A slot of a sync layer.
struct SyncRun<L: SyncLayer> {
    local: Rc<L::Local>,
    /// Those that it sees; `None` if the request sees them already.
    states: Option<StatesId>,
    inner: Rc<Inner>,
    /// The run of what is inside, while that waits, and what the layer kept of the request.
    run: Option<(Slot, L::Kept)>,
}

/// Nothing of it is pinned.
impl<L: SyncLayer> Unpin for SyncRun<L> {}

impl<L: SyncLayer> Run for SyncRun<L> {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()> {
        request.see(self.states);
        match catch_unwind(AssertUnwindSafe(|| L::before(&self.local, &mut request)))? {
            Ok(kept) => {
                let waits = self.inner.start(request, response, cx);
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
        let waits = self.inner.go_on(slot, response, cx);
        self.polled(waits, kept, response)
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        let Some((slot, kept)) = self.run.take() else { return Ok(()) };
        // What is inside ends first, and contains its own panics.
        self.inner.cancel(slot);
        catch_unwind(AssertUnwindSafe(|| drop(kept)))
    }
}

impl<L: SyncLayer> SyncRun<L> {
    /// What is inside waits, or there is a response.
    #[inline]
    fn polled(
        &mut self,
        waits: Option<Slot>,
        kept: L::Kept,
        response: &mut Option<Response>,
    ) -> thread::Result<()> {
        if let Some(slot) = waits {
            self.run = Some((slot, kept));
            return Ok(());
        }
        let Some(there) = response else { return Ok(()) };
        catch_unwind(AssertUnwindSafe(|| L::after(&self.local, kept, there))).inspect_err(|_| {
            // It may panic as well, and is not sent.
            drop_caught(response.take()).into_iter().for_each(dispose);
        })
    }
}
