//! A handler with a layer, limits or conditions of its own.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Weak;

use anywire_http::{IntoResponse, Response};

use crate::conditions::Conditions;
use crate::extract::Needs;
use crate::handler::{Handler, HandlerParts};
use crate::layer::{GivenLayer, Next};
use crate::request::Request;
use crate::route_limits::RouteLimits;
use crate::run::chain::{self, Innermost, Link, Owner};

/// A handler with something of its own: what [`Handler::layer`], [`Handler::limits`], [`Handler::when`], [`Handler::consumes`] and
/// [`Handler::produces`] return.
pub struct With<H, Args> {
    handler: H,
    addition: Addition,
    args: PhantomData<fn() -> Args>,
}

/// Tells such handlers from functions.
#[derive(Debug)]
pub struct Added<Args>(PhantomData<Args>);

/// What a handler was given.
#[derive(Clone)]
pub(crate) enum Addition {
    Layer(GivenLayer),
    Limits(RouteLimits),
    Conditions(Conditions),
}

impl<H, Args> With<H, Args> {
    pub(crate) fn new(handler: H, addition: Addition) -> Self {
        Self { handler, addition, args: PhantomData }
    }
}

impl<H: Handler<Args>, Args: 'static> Handler<Added<Args>> for With<H, Args> {
    /// Outside of a router nothing limits or guards it, and nothing is kept for the next call: each one makes the local part of its layers
    /// anew.
    async fn call(self, request: Request) -> Response {
        let HandlerParts { endpoint, layers, .. } = self.into_parts();
        let owner = Owner { dispatch: Weak::new(), endpoint: None };
        let links =
            layers.iter().map(|layer| Link { layer: layer.on_loop(), name: layer.name(), states: None });
        let inner = chain::inner(links, Innermost::Handler(endpoint, None), &owner);
        Next::into(inner).run(request).await.into_response()
    }

    fn needs(needs: &mut Needs) {
        H::needs(needs);
    }

    fn into_parts(self) -> HandlerParts {
        let mut parts = self.handler.into_parts();
        // Of what is said twice the later holds.
        match self.addition {
            Addition::Layer(layer) => parts.layers.push(layer),
            Addition::Limits(limits) => parts.limits = limits.within(parts.limits),
            Addition::Conditions(conditions) => parts.conditions = conditions.within(&parts.conditions),
        }
        parts
    }
}

impl<H: Clone, Args> Clone for With<H, Args> {
    fn clone(&self) -> Self {
        Self::new(self.handler.clone(), self.addition.clone())
    }
}

impl<H, Args> fmt::Debug for With<H, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut with = f.debug_struct("With");
        match &self.addition {
            Addition::Layer(layer) => with.field("layer", layer),
            Addition::Limits(limits) => with.field("limits", limits),
            Addition::Conditions(conditions) => with.field("conditions", &conditions.to_string()),
        };
        with.finish_non_exhaustive()
    }
}
