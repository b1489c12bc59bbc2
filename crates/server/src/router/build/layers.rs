//! The layers of all routers, numbered, and which of them are around which code.

use std::fmt;
use std::panic::Location;

use crate::layer::{GivenLayer, LayerFault};
use crate::router::build::endpoints::{RouteName, missing};
use crate::router::{RouteError, Scope};

/// The layers that have passed the checks so far.
pub(in crate::router) struct Layers<'r> {
    scopes: &'r [Scope],
    /// By scope: its own layers.
    of_scopes: Vec<Vec<UsedLayer>>,
    all: Vec<GivenLayer>,
}

/// A layer on the way to an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedLayer {
    /// Its number.
    pub(crate) layer: usize,
    /// The router whose states it sees.
    pub(crate) scope: usize,
}

/// What layers are given to, in errors.
pub(in crate::router) enum Around<'r> {
    /// A router, and where it was nested or merged. The outermost one has no place.
    Router(Option<&'static Location<'static>>),
    /// A handler, and where it was given.
    Handler(&'r RouteName, &'static Location<'static>),
}

impl fmt::Display for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Router(None) => f.write_str("the outermost router"),
            Self::Router(Some(place)) => write!(f, "the router added at {place}"),
            Self::Handler(name, place) => write!(f, "the handler of {name}, given at {place},"),
        }
    }
}

impl<'r> Layers<'r> {
    /// Those of all routers.
    pub(in crate::router) fn new(scopes: &'r [Scope]) -> Result<Self, RouteError> {
        let mut layers = Self { scopes, of_scopes: Vec::with_capacity(scopes.len()), all: Vec::new() };
        for (index, scope) in scopes.iter().enumerate() {
            // Not only routes go through them: a 404 has no parameters.
            let own = layers.add_around(&Around::Router(scope.place), &scope.layers, index, &[])?;
            layers.of_scopes.push(own);
        }
        Ok(layers)
    }

    /// Adds layers that see the states of this scope, and a path with these parameters.
    pub(in crate::router) fn add_around(
        &mut self,
        around: &Around<'_>,
        layers: &[GivenLayer],
        scope: usize,
        params: &[Box<str>],
    ) -> Result<Vec<UsedLayer>, RouteError> {
        let mut added = Vec::with_capacity(layers.len());
        for layer in layers {
            let (name, place, needs) = (layer.name(), layer.place(), layer.needs());
            if let Some(fault) = layer.fault() {
                return Err(RouteError::Layer { name, place, fault });
            }
            if let Some(type_name) = missing(self.scopes, scope, &needs) {
                return Err(RouteError::LayerState { name, place, type_name, around: around.to_string() });
            }
            if params.is_empty() && needs.takes_params() {
                return Err(RouteError::LayerParameters { name, place, around: around.to_string() });
            }
            if let Some(fault) = needs.unfit(params) {
                let what = format!("does not fit its path: {fault}");
                let fault =
                    LayerFault::new(what, "take as many as the path has, or a struct with their names");
                return Err(RouteError::Layer { name, place, fault });
            }
            added.push(UsedLayer { layer: self.all.len(), scope });
            self.all.push(layer.clone());
        }
        Ok(added)
    }

    /// All around the code of a router, the outermost first.
    pub(in crate::router) fn around(&self, scope: usize) -> Vec<UsedLayer> {
        let scopes = self.scopes_around(scope).into_iter().rev();
        scopes.flat_map(|scope| &self.of_scopes[scope]).copied().collect()
    }

    /// All around a nested router, then those around the code of another one that answers for it.
    pub(in crate::router) fn around_both(&self, nested: usize, answers: usize) -> Vec<UsedLayer> {
        let (outside, inside) = (self.scopes_around(nested), self.scopes_around(answers));
        let more = inside.iter().rev().filter(|scope| !outside.contains(scope));
        let all = outside.iter().rev().chain(more);
        all.flat_map(|scope| &self.of_scopes[*scope]).copied().collect()
    }

    /// The innermost router around the code of all these.
    pub(in crate::router) fn common(&self, scopes: impl IntoIterator<Item = usize>) -> usize {
        let shared = |one: usize, other: usize| {
            let around = self.scopes_around(other);
            self.scopes_around(one).into_iter().find(|scope| around.contains(scope)).unwrap_or(0)
        };
        scopes.into_iter().reduce(shared).unwrap_or(0)
    }

    /// Whether the router itself has some.
    pub(in crate::router) fn are_of(&self, scope: usize) -> bool {
        !self.of_scopes[scope].is_empty()
    }

    /// A router and those around it, from the inside.
    pub(in crate::router) fn scopes_around(&self, scope: usize) -> Vec<usize> {
        std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent).collect()
    }

    /// By their number.
    pub(in crate::router) fn into_all(self) -> Vec<GivenLayer> {
        self.all
    }
}
