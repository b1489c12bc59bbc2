//! Layers as one loop runs them: each around a [`Slot`] of what is inside, down to the handler or to the routes.
//!
//! The chain of a route is made with its slot, and kept with it: a request allocates nothing. A panic ends at the layer around
//! it, which gets a 500 as if it were the response.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Context;
use std::thread;

use anywire_http::Response;

use super::{Running, Slot};
use crate::contained::{Payload, dispose, drop_each};
use crate::dispatch::{Dispatch, Routing};
use crate::extract::StatesId;
use crate::handler::Endpoint;
use crate::layer::{Layer, Next};
use crate::request::Request;
use crate::respond;
use crate::router::EndpointId;

/// What a loop has of a layer.
pub(crate) trait OnLoop {
    /// Memory for one run of it after another, around what is inside. `states` are those that it sees; `None` if the request
    /// sees them already.
    fn slot(&self, states: Option<StatesId>, inner: Rc<Inner>) -> Slot;
}

/// What a loop has of a layer of this type.
pub(crate) struct LocalLayer<L: Layer<Args>, Args> {
    local: Rc<L::Local>,
    args: PhantomData<fn() -> Args>,
}

impl<L: Layer<Args>, Args> LocalLayer<L, Args> {
    pub(crate) fn new(local: L::Local) -> Self {
        Self { local: Rc::new(local), args: PhantomData }
    }
}

impl<L: Layer<Args>, Args: 'static> OnLoop for LocalLayer<L, Args> {
    fn slot(&self, states: Option<StatesId>, inner: Rc<Inner>) -> Slot {
        let local = Rc::clone(&self.local);
        Box::pin(Running::new(move |mut request: Request| {
            request.see(states);
            L::call(Rc::clone(&local), request, Next::into(Rc::clone(&inner)))
        }))
    }
}

/// What is inside of a layer.
pub(crate) struct Inner {
    kind: InnerKind,
    /// The states that the code there sees; `None` for those that the request sees already.
    states: Option<StatesId>,
    /// Its memory between two runs.
    free: Cell<Option<Slot>>,
    owner: Owner,
}

/// Whose chain it is.
#[derive(Clone)]
pub(crate) struct Owner {
    /// Where panics are counted. Gone at the end of the server, and for a handler that is called without one.
    pub(crate) dispatch: Weak<Dispatch>,
    pub(crate) endpoint: Option<EndpointId>,
}

/// The code inside of a layer.
enum InnerKind {
    Handler(Arc<dyn Endpoint>),
    Layer(Rc<dyn OnLoop>, &'static str, Rc<Inner>),
    /// The route is looked up.
    Routes,
}

/// A layer of a chain, and whose states it sees.
pub(crate) struct Link {
    pub(crate) layer: Rc<dyn OnLoop>,
    /// For the log.
    pub(crate) name: &'static str,
    pub(crate) states: Option<StatesId>,
}

/// What the layers of a chain are around.
pub(crate) enum Innermost {
    /// A handler, and whose states it sees.
    Handler(Arc<dyn Endpoint>, Option<StatesId>),
    /// All routes.
    Routes,
}

/// The innermost within these layers, the outermost first.
pub(crate) fn inner(
    layers: impl DoubleEndedIterator<Item = Link>,
    innermost: Innermost,
    owner: &Owner,
) -> Rc<Inner> {
    let (kind, states) = match innermost {
        Innermost::Handler(handler, states) => (InnerKind::Handler(handler), states),
        Innermost::Routes => (InnerKind::Routes, None),
    };
    let innermost = Rc::new(Inner::new(kind, states, owner));
    layers.rev().fold(innermost, |inner, Link { layer, name, states }| {
        Rc::new(Inner::new(InnerKind::Layer(layer, name, inner), states, owner))
    })
}

/// Memory for runs of all that.
pub(crate) fn slot(
    mut layers: impl DoubleEndedIterator<Item = Link>,
    innermost: Innermost,
    owner: &Owner,
) -> Slot {
    let outermost = layers.next();
    let inner = inner(layers, innermost, owner);
    match outermost {
        Some(Link { layer, states, .. }) => layer.slot(states, inner),
        None => inner.make(),
    }
}

impl Inner {
    fn new(kind: InnerKind, states: Option<StatesId>, owner: &Owner) -> Self {
        Self { kind, states, free: Cell::default(), owner: owner.clone() }
    }

    /// Starts a run. One that has to wait is returned.
    #[inline(always)]
    pub(crate) fn start(
        &self,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> Option<Slot> {
        request.see(self.states);
        let mut slot = self.free.take().or_else(|| self.new_slot(response))?;
        let polled = slot.as_mut().start(request, response, cx);
        self.polled(slot, polled, response)
    }

    /// Goes on with a run that waited.
    #[inline(never)]
    pub(crate) fn go_on(
        &self,
        mut slot: Slot,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> Option<Slot> {
        let polled = slot.as_mut().poll(response, cx);
        self.polled(slot, polled, response)
    }

    #[inline(always)]
    fn polled(
        &self,
        slot: Slot,
        polled: thread::Result<()>,
        response: &mut Option<Response>,
    ) -> Option<Slot> {
        match polled {
            Ok(()) if response.is_none() => return Some(slot),
            Ok(()) => self.leave(slot),
            Err(panic) => self.fail(slot, panic, response),
        }
        None
    }

    /// Memory for a run. It holds a clone of what a handler has captured, which may panic.
    #[cold]
    fn new_slot(&self, response: &mut Option<Response>) -> Option<Slot> {
        let made = catch_unwind(AssertUnwindSafe(|| self.make()));
        made.map_err(|panic| *response = Some(self.panicked(panic))).ok()
    }

    /// Ends a run that has panicked.
    #[cold]
    fn fail(&self, slot: Slot, panic: Payload, response: &mut Option<Response>) {
        self.drop_slot(slot);
        *response = Some(self.panicked(panic));
    }

    fn make(&self) -> Slot {
        match &self.kind {
            InnerKind::Handler(handler) => handler.slot(&self.owner),
            // The request sees its states already.
            InnerKind::Layer(layer, _, inner) => layer.slot(None, Rc::clone(inner)),
            InnerKind::Routes => Box::pin(Routing::new(Weak::clone(&self.owner.dispatch))),
        }
    }

    /// Keeps the memory of a run that has ended.
    #[inline]
    fn leave(&self, slot: Slot) {
        if let Some(surplus) = self.free.replace(Some(slot)) {
            self.discard(surplus);
        }
    }

    /// Cancels a run. Its memory serves again.
    #[cold]
    pub(crate) fn cancel(&self, mut slot: Slot) {
        match slot.as_mut().cancel() {
            Ok(()) => self.leave(slot),
            Err(panic) => {
                self.note(panic);
                self.discard(slot);
            }
        }
    }

    /// The response in place of a run that has panicked.
    #[cold]
    fn panicked(&self, panic: Payload) -> Response {
        match self.owner.dispatch.upgrade() {
            Some(dispatch) => dispatch.panicked(self.owner.endpoint, self.layer_name(), panic, None),
            None => {
                dispose(panic);
                respond::failed()
            }
        }
    }

    /// Drops a run that has panicked, and its memory.
    #[cold]
    fn drop_slot(&self, mut slot: Slot) {
        if let Err(panic) = slot.as_mut().cancel() {
            self.note(panic);
        }
        self.discard(slot);
    }

    /// The name of the layer, if the code is one.
    fn layer_name(&self) -> Option<&'static str> {
        match &self.kind {
            InnerKind::Layer(_, name, _) => Some(name),
            InnerKind::Handler(_) | InnerKind::Routes => None,
        }
    }

    fn note(&self, panic: Payload) {
        match self.owner.dispatch.upgrade() {
            Some(dispatch) => dispatch.note_panic(self.owner.endpoint, panic),
            None => dispose(panic),
        }
    }

    /// Drops a slot that is clear, and what its handler has captured.
    #[cold]
    fn discard(&self, slot: Slot) {
        match self.owner.dispatch.upgrade() {
            Some(dispatch) => dispatch.drop_contained(self.owner.endpoint, slot),
            None => drop_each([slot]),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(slot) = self.free.take() {
            self.discard(slot);
        }
    }
}
