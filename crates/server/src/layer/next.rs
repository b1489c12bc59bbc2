//! How a layer goes on.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use anywire_http::Response;

use crate::request::Request;
use crate::run::Slot;
use crate::run::chain::Inner;

/// What is inside of a layer: the next layer, the handler, or all routes of the server.
///
/// [`run`](Self::run) uses it up. A clone is one reference more, so a layer that tries again may run one clone after another, or
/// two at a time. It needs a request for each: a request is not cloned, but the head of the `http::Request` that it converts to is. It
/// stays on its loop.
#[derive(Clone)]
pub struct Next {
    inner: Rc<Inner>,
}

impl Next {
    #[inline]
    pub(crate) fn into(inner: Rc<Inner>) -> Self {
        Self { inner }
    }

    /// What is inside, as long as its loop has it.
    #[cfg(feature = "tower")]
    pub(crate) fn downgrade(&self) -> std::rc::Weak<Inner> {
        Rc::downgrade(&self.inner)
    }

    /// Goes on with this request. A panic inside is a response 500. Dropping the future cancels what is inside.
    #[inline]
    pub fn run(self, request: Request) -> impl Future<Output = Response> + use<> {
        self.future(request)
    }

    /// As [`run`](Self::run), by the name of the future.
    #[inline]
    pub(crate) fn future(self, request: Request) -> InnerFuture {
        InnerFuture { state: State::Asked(request), inner: self.inner }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// A run of what is inside.
pub(crate) struct InnerFuture {
    state: State,
    inner: Rc<Inner>,
}

enum State {
    /// Not polled yet.
    Asked(Request),
    Running(Slot),
    Done,
}

impl Future for InnerFuture {
    type Output = Response;

    // Most are ready at their first poll; inlined, the compiler knows that nothing is left to be dropped.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let mut response = None;
        let waits = match std::mem::replace(&mut self.state, State::Done) {
            State::Asked(request) => self.inner.start(request, &mut response, cx),
            State::Running(slot) => self.inner.go_on(slot, &mut response, cx),
            State::Done => None,
        };
        if let Some(slot) = waits {
            self.state = State::Running(slot);
        }
        response.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for InnerFuture {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.state, State::Done)
            && let State::Running(slot) = std::mem::replace(&mut self.state, State::Done)
        {
            self.inner.cancel(slot);
        }
    }
}
