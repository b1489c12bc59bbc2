//! How a layer goes on.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use anywire_http::Response;

use super::chain::Inside;
use crate::contained::Payload;
use crate::handler::Slot;
use crate::request::Request;

/// What is inside of a layer: the next layer, the handler, or all routes of the server.
///
/// [`run`](Self::run) uses it up. A clone is one reference more, so a layer that tries again may run one clone after another, or
/// two at a time. It needs a request for each: a request is not cloned, but the head of the `http::Request` that it converts to is. It
/// stays on its loop.
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
        self.going(request)
    }

    /// As [`run`](Self::run), by the name of the future.
    #[inline]
    pub(crate) fn going(self, request: Request) -> Going {
        // At once and not with the first poll: the request would otherwise move into this future first.
        self.begin(&mut Some(request))
    }

    /// Goes on with a request, which it takes out.
    #[inline]
    pub(super) fn begin(self, request: &mut Option<Request>) -> Going {
        let state = match self.inside.begin(request) {
            Ok(slot) => State::Running(slot),
            Err(panic) => State::Panicked(panic),
        };
        Going { state, inside: self.inside }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// A run of what is inside.
pub(crate) struct Going {
    state: State,
    inside: Rc<Inside>,
}

enum State {
    Running(Slot),
    /// It has, before its first poll.
    Panicked(Payload),
    Done,
}

impl Going {
    /// It has not run to its end.
    #[cold]
    fn broken_off(&mut self, panic: Option<Payload>) -> Poll<Response> {
        let panic = match std::mem::replace(&mut self.state, State::Done) {
            State::Running(slot) => {
                self.inside.drop_slot(slot);
                panic
            }
            State::Panicked(panic) => Some(panic),
            State::Done => None,
        };
        panic.map_or(Poll::Pending, |panic| Poll::Ready(self.inside.panicked(panic)))
    }
}

impl Future for Going {
    type Output = Response;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let this = &mut *self;
        let State::Running(slot) = &mut this.state else { return this.broken_off(None) };
        match slot.as_mut().poll(cx) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(response)) => {
                if let State::Running(slot) = std::mem::replace(&mut this.state, State::Done) {
                    this.inside.leave(slot);
                }
                Poll::Ready(response)
            }
            Err(panic) => this.broken_off(Some(panic)),
        }
    }
}

impl Drop for Going {
    #[inline]
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Running(slot) => self.inside.cancel(slot),
            State::Panicked(panic) => drop(self.inside.panicked(panic)),
            State::Done => {}
        }
    }
}
