//! Layers as one loop runs them: each around a [`Slot`] of what is inside, down to the handler or to the routes.
//!
//! The chain of a route is made with its slot, and kept with it: a request allocates nothing. A panic ends at the layer around
//! it, which gets a 500 as if it were the response.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use anywire_http::Response;
use pin_project_lite::pin_project;

use super::{Layer, Next};
use crate::contained::{Payload, dispose, drop_each};
use crate::dispatch::{Dispatch, Routing};
use crate::extract::StatesId;
use crate::handler::{Endpoint, Run, Running, Slot};
use crate::request::Request;
use crate::respond;
use crate::router::EndpointId;

/// What a loop has of a layer.
pub(crate) trait OnLoop {
    /// Memory for one run of it after another, around what is inside.
    fn slot(&self, states: Option<StatesId>, inside: Rc<Inside>) -> Slot;
}

/// What a loop has of a layer of this type.
pub(super) struct LocalLayer<L: Layer<Args>, Args> {
    local: Rc<L::Local>,
    args: PhantomData<fn() -> Args>,
}

impl<L: Layer<Args>, Args> LocalLayer<L, Args> {
    pub(super) fn new(local: L::Local) -> Self {
        Self { local: Rc::new(local), args: PhantomData }
    }
}

impl<L: Layer<Args>, Args: 'static> OnLoop for LocalLayer<L, Args> {
    fn slot(&self, states: Option<StatesId>, inside: Rc<Inside>) -> Slot {
        let local = Rc::clone(&self.local);
        let start = move |request| L::call(Rc::clone(&local), request, Next::into(Rc::clone(&inside)));
        Box::pin(Layering { running: Running::new(start), states })
    }
}

pin_project! {
    /// A slot of a layer.
    struct Layering<S, F> {
        #[pin]
        running: Running<S, F>,
        // Whose states the layer sees, if it is the outermost one.
        states: Option<StatesId>,
    }
}

// Unlike a handler, a layer is polled in one place: the compiler then makes one function of it and of what it does with
// `Next`.
impl<S: Fn(Request) -> F, F: Future<Output = Response>> Run for Layering<S, F> {
    fn begin(
        self: Pin<&mut Self>,
        request: &mut Option<Request>,
        states: Option<StatesId>,
    ) -> thread::Result<()> {
        let states = states.or(self.states);
        catch_unwind(AssertUnwindSafe(|| self.project().running.fill(request, states)))
    }

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> thread::Result<Poll<Response>> {
        catch_unwind(AssertUnwindSafe(|| self.project().running.go_on(cx)))
    }

    fn cancel(self: Pin<&mut Self>) -> thread::Result<()> {
        self.project().running.cancel()
    }
}

/// What is inside of a layer.
pub(crate) struct Inside {
    core: Core,
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
enum Core {
    Handler(Arc<dyn Endpoint>),
    Layer(Rc<dyn OnLoop>, &'static str, Rc<Inside>),
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
pub(crate) enum Centre {
    /// A handler, and whose states it sees.
    Handler(Arc<dyn Endpoint>, Option<StatesId>),
    /// All routes.
    Routes,
}

/// The centre within these layers, the outermost first.
pub(super) fn inside(
    layers: impl DoubleEndedIterator<Item = Link>,
    centre: Centre,
    owner: &Owner,
) -> Rc<Inside> {
    let (core, states) = match centre {
        Centre::Handler(handler, states) => (Core::Handler(handler), states),
        Centre::Routes => (Core::Routes, None),
    };
    let centre = Rc::new(Inside::new(core, states, owner));
    layers.rev().fold(centre, |inside, Link { layer, name, states }| {
        Rc::new(Inside::new(Core::Layer(layer, name, inside), states, owner))
    })
}

/// Memory for runs of all that.
pub(crate) fn slot(mut layers: impl DoubleEndedIterator<Item = Link>, centre: Centre, owner: &Owner) -> Slot {
    let outermost = layers.next();
    let inside = inside(layers, centre, owner);
    match outermost {
        Some(Link { layer, states, .. }) => layer.slot(states, inside),
        None => inside.make(),
    }
}

impl Inside {
    fn new(core: Core, states: Option<StatesId>, owner: &Owner) -> Self {
        Self { core, states, free: Cell::default(), owner: owner.clone() }
    }

    /// Begins a run, to be polled. The request sees the states of what runs.
    #[inline]
    pub(super) fn begin(&self, request: &mut Option<Request>) -> thread::Result<Slot> {
        let mut slot = match self.free.take() {
            Some(slot) => slot,
            None => self.new_slot()?,
        };
        match slot.as_mut().begin(request, self.states) {
            Ok(()) => Ok(slot),
            Err(panic) => {
                self.drop_slot(slot);
                Err(panic)
            }
        }
    }

    /// Memory for a run. It holds a clone of what a handler has captured, which may panic.
    #[cold]
    fn new_slot(&self) -> thread::Result<Slot> {
        catch_unwind(AssertUnwindSafe(|| self.make()))
    }

    fn make(&self) -> Slot {
        match &self.core {
            Core::Handler(handler) => handler.slot(&self.owner),
            // The request sees its states already.
            Core::Layer(layer, _, inside) => layer.slot(None, Rc::clone(inside)),
            Core::Routes => Box::pin(Routing::new(Weak::clone(&self.owner.dispatch))),
        }
    }

    /// Keeps the memory of a run that has ended.
    #[inline]
    pub(super) fn leave(&self, slot: Slot) {
        if let Some(surplus) = self.free.replace(Some(slot)) {
            self.discard(surplus);
        }
    }

    /// Cancels a run. Its memory serves again.
    #[cold]
    pub(super) fn cancel(&self, mut slot: Slot) {
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
    pub(super) fn panicked(&self, panic: Payload) -> Response {
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
    pub(super) fn drop_slot(&self, mut slot: Slot) {
        if let Err(panic) = slot.as_mut().cancel() {
            self.note(panic);
        }
        self.discard(slot);
    }

    /// The name of the layer, if the code is one.
    fn layer_name(&self) -> Option<&'static str> {
        match &self.core {
            Core::Layer(_, name, _) => Some(name),
            Core::Handler(_) | Core::Routes => None,
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

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(slot) = self.free.take() {
            self.discard(slot);
        }
    }
}
