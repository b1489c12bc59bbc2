//! A route whose handler has to know when its requests came.

use std::pin::Pin;
use std::task::Context as TaskContext;
use std::thread;

use anywire_http::Response;
use anywire_loops::clock::precise;

use super::{Run, Slot};
use crate::pool::Arrived;
use crate::request::Request;

/// A slot that notes the time on each request, unless that was done within layers of the server.
pub(crate) struct Stamped(pub(crate) Slot);

impl Run for Stamped {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        if request.extensions().get::<Arrived>().is_none() {
            request.extensions_mut().insert(Arrived(precise()));
        }
        self.0.as_mut().start(request, response, cx)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        self.0.as_mut().poll(response, cx)
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        self.0.as_mut().cancel()
    }
}
