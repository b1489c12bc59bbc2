//! A handler with a layer of its own.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Weak;

use anywire_http::{IntoResponse, Response};

use super::chain::{self, Centre, Link, Owner};
use super::{GivenLayer, Next};
use crate::extract::Needs;
use crate::handler::{Handler, HandlerParts};
use crate::request::Request;

/// A handler within a layer: what [`Handler::layer`] returns.
pub struct Layered<H, Args> {
    handler: H,
    layer: GivenLayer,
    args: PhantomData<fn() -> Args>,
}

/// Tells the handlers with a layer from functions.
#[derive(Debug)]
pub struct Within<Args>(PhantomData<Args>);

impl<H, Args> Layered<H, Args> {
    pub(crate) fn new(handler: H, layer: GivenLayer) -> Self {
        Self { handler, layer, args: PhantomData }
    }
}

impl<H: Handler<Args>, Args: 'static> Handler<Within<Args>> for Layered<H, Args> {
    /// Runs outside of a router, where nothing is kept for the next call: each one makes the local part of its layers anew.
    async fn call(self, request: Request) -> Response {
        let HandlerParts { endpoint, layers, .. } = self.into_parts();
        let owner = Owner { dispatch: Weak::new(), endpoint: None };
        let links =
            layers.iter().map(|layer| Link { layer: layer.on_loop(), name: layer.name(), states: None });
        let inside = chain::inside(links, Centre::Handler(endpoint, None), &owner);
        Next::into(inside).run(request).await.into_response()
    }

    fn needs(needs: &mut Needs) {
        H::needs(needs);
    }

    fn into_parts(self) -> HandlerParts {
        let mut parts = self.handler.into_parts();
        parts.layers.push(self.layer);
        parts
    }
}

impl<H: Clone, Args> Clone for Layered<H, Args> {
    fn clone(&self) -> Self {
        Self::new(self.handler.clone(), self.layer.clone())
    }
}

impl<H, Args> fmt::Debug for Layered<H, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("layer", &self.layer).finish_non_exhaustive()
    }
}
