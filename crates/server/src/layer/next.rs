//! How a layer goes on.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use anywire_http::Response;

use super::chain::Inside;
use crate::handler::Slot;
use crate::request::Request;

/// What is inside of a layer: the next layer, the handler, or all routes of the server.
///
/// [`run`](Self::run) uses it up. A clone is one reference more, so a layer that tries again may run one clone after another, or
/// two at a time. It stays on its loop.
#[derive(Clone)]
pub struct Next {
    inside: Rc<Inside>,
}

impl Next {
    #[inline]
    pub(super) fn into(inside: Rc<Inside>) -> Self {
        Self { inside }
    }

    /// Goes on with this request. A panic inside is a response 500. Dropping the future cancels what is inside.
    #[inline]
    pub fn run(self, request: Request) -> impl Future<Output = Response> + use<> {
        Going { request: Some(request), slot: None, inside: self.inside }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// A run of what is inside.
struct Going {
    /// Until it begins.
    request: Option<Request>,
    /// From then on, until it ends.
    slot: Option<Slot>,
    inside: Rc<Inside>,
}

impl Future for Going {
    type Output = Response;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let this = &mut *self;
        let polled = if let Some(request) = &mut this.request {
            let entered = this.inside.enter(request);
            let Some(request) = this.request.take() else { return Poll::Pending };
            match entered {
                Ok(slot) => this.slot.insert(slot).as_mut().start(request, cx),
                Err(panic) => Err(panic),
            }
        } else {
            let Some(slot) = &mut this.slot else { return Poll::Pending };
            slot.as_mut().poll(cx)
        };
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(response)) => {
                if let Some(slot) = this.slot.take() {
                    this.inside.leave(slot);
                }
                Poll::Ready(response)
            }
            Err(panic) => Poll::Ready(this.inside.panicked(panic, this.slot.take())),
        }
    }
}

impl Drop for Going {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.inside.cancel(slot);
        }
    }
}
