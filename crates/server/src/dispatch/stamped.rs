//! A route whose handler has to know when its requests came.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::Response;
use anywire_loops::clock::precise;

use crate::extract::StatesId;
use crate::handler::{Run, Slot};
use crate::pooled::Arrived;
use crate::request::Request;

/// A slot that notes the time on each request, unless that was done within layers of the server.
pub(super) struct Stamped(pub(super) Slot);

impl Run for Stamped {
    fn begin(
        mut self: Pin<&mut Self>,
        request: &mut Option<Request>,
        states: Option<StatesId>,
    ) -> thread::Result<()> {
        if let Some(request) = request
            && request.extensions().get::<Arrived>().is_none()
        {
            request.extensions_mut().insert(Arrived(precise()));
        }
        self.0.as_mut().begin(request, states)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> thread::Result<Poll<Response>> {
        self.0.as_mut().poll(cx)
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        self.0.as_mut().cancel()
    }
}
