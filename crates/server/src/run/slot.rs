//! Memory in which a handler runs for one request after another.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use anywire_http::Response;
use anywire_loops::Label;
use pin_project_lite::pin_project;

use crate::request::Request;

/// Memory for the future of a handler. It is reused, so that a request allocates nothing.
pub(crate) type Slot = Pin<Box<dyn Run>>;

/// The free list of one handler's slots.
///
/// Most runs end before the next one begins, so `last` serves them all. Taking it is cheaper than a pop from a list.
pub(crate) struct FreeSlots {
    /// Whose they are.
    label: Label,
    last: Cell<Option<Slot>>,
    others: RefCell<Vec<Slot>>,
}

impl FreeSlots {
    /// None, of the handler of this name.
    pub(crate) fn new(label: Label) -> Self {
        Self { label, last: Cell::default(), others: RefCell::default() }
    }

    /// The name of the handler, for its loop.
    #[inline]
    pub(crate) fn label(&self) -> Label {
        self.label
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Slot> {
        self.last.take().or_else(|| self.others.borrow_mut().pop())
    }

    /// Keeps a slot that is clear. Returns one if there are enough.
    #[inline]
    pub(crate) fn put(&self, slot: Slot) -> Option<Slot> {
        self.put_other(self.last.replace(Some(slot))?)
    }

    #[inline(never)]
    fn put_other(&self, slot: Slot) -> Option<Slot> {
        let mut others = self.others.borrow_mut();
        if others.len() < FREE_SLOTS_MAX {
            others.push(slot);
            return None;
        }
        Some(slot)
    }

    /// All that are kept.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Slot> {
        self.last.into_inner().into_iter().chain(self.others.into_inner())
    }
}

/// Free slots of one handler on one loop.
const FREE_SLOTS_MAX: usize = 256;

/// Operations of a [`Slot`]: start it, and poll it until its response is there. Then it is clear and can start again. After a
/// panic, which is the error, it cannot.
///
/// Both leave the response in `response`: layers would copy one that is returned.
pub(crate) trait Run {
    /// Starts a run and polls it once, which is enough for most.
    fn start(
        self: Pin<&mut Self>,
        request: Request,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()>;
    fn poll(
        self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()>;
    /// Drops the run, and not what the handler has captured: each may panic, and two panics in one go abort the process.
    fn cancel(self: Pin<&mut Self>) -> thread::Result<()>;
}

pin_project! {
    /// A [`Slot`] of any type.
    pub(crate) struct Running<S, F> {
        start: S,
        #[pin]
        answer: Option<F>,
    }
}

impl<S: Fn(Request) -> F, F> Running<S, F> {
    /// Clear; `start` begins a run.
    pub(crate) fn new(start: S) -> Self {
        Self { start, answer: None }
    }
}

impl<S: Fn(Request) -> F, F: Future<Output = Response>> Running<S, F> {
    // Inlined into both callers: in `start` the compiler then knows the state of the future.
    #[inline(always)]
    fn go_on(self: Pin<&mut Self>, response: &mut Option<Response>, cx: &mut Context<'_>) {
        let mut this = self.project();
        let Some(answer) = this.answer.as_mut().as_pin_mut() else { return };
        if let Poll::Ready(ready) = answer.poll(cx) {
            *response = Some(ready);
            this.answer.set(None);
        }
    }
}

// Panics are caught here, where the type of the handler is known: outside, the request would move once more.
impl<S: Fn(Request) -> F, F: Future<Output = Response>> Run for Running<S, F> {
    fn start(
        mut self: Pin<&mut Self>,
        request: Request,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()> {
        catch_unwind(AssertUnwindSafe(|| {
            let mut this = self.as_mut().project();
            let answer = (this.start)(request);
            this.answer.set(Some(answer));
            self.go_on(response, cx)
        }))
    }

    fn poll(
        self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut Context<'_>,
    ) -> thread::Result<()> {
        catch_unwind(AssertUnwindSafe(|| self.go_on(response, cx)))
    }

    fn cancel(self: Pin<&mut Self>) -> thread::Result<()> {
        catch_unwind(AssertUnwindSafe(|| self.project().answer.set(None)))
    }
}
