//! The routes as they serve: a radix tree of paths, built once and shared by all loops. [`lookup`] searches it.

pub(super) mod answers;
pub(super) mod choice;
pub(super) mod fallbacks;
pub(super) mod leaf;
pub(super) mod lookup;
pub(super) mod matrix;
pub(super) mod normal;

use std::rc::Rc;

use anywire_http::Response;
use anywire_loops::Pool;

use crate::contained::drop_each;
use crate::extract::{StateFactories, States, StatesId};
use crate::layer::GivenLayer;
use crate::request::Request;
use crate::router::build::endpoints::{EndpointId, EndpointRecord, Generation, RouteName};
use crate::router::build::layers::UsedLayer;
use crate::router::table::answers::NoCandidate;
use crate::router::table::choice::{Choice, Otherwise, Outcome};
use crate::router::table::fallbacks::Fallbacks;
use crate::router::table::leaf::Leaf;

/// The routes as they serve.
pub(crate) struct Table {
    pub(in crate::router) generation: Generation,
    pub(in crate::router) tree: matchit::Router<usize>,
    /// The first paths without a variable. They are compared before the tree is searched: 15 instructions instead of 150.
    pub(in crate::router) literals: Vec<Literal>,
    /// The same, if layers of the server come before the look-up.
    pub(in crate::router) literals_within: Vec<Literal>,
    pub(in crate::router) leaves: Vec<Leaf>,
    /// A route ignores matrix parameters.
    pub(in crate::router) has_matrix: bool,
    pub(in crate::router) endpoints: Vec<EndpointRecord>,
    /// By their number.
    pub(in crate::router) choices: Vec<Choice>,
    /// Those of routes, routers and the server, by their number.
    pub(in crate::router) layers: Vec<GivenLayer>,
    pub(in crate::router) fallbacks: Fallbacks,
    /// What answers `CONNECT`.
    pub(in crate::router) tunnel: EndpointId,
    /// All of it within layers of the server, if there are any.
    pub(in crate::router) around: Option<EndpointId>,
    /// Of each router, and the router around it.
    pub(in crate::router) states: Vec<(StateFactories, Option<usize>)>,
    /// A handler has to know when its requests came.
    pub(in crate::router) is_stamped: bool,
    /// By endpoint: the pool that its handler runs on. Empty without a server.
    pub(in crate::router) pools: Vec<Option<Pool>>,
}

impl Drop for Table {
    /// A handler drops what it has captured, and a router its states.
    fn drop(&mut self) {
        drop_each(self.endpoints.drain(..));
        // A guard may be a function.
        drop_each(self.choices.drain(..));
        drop_each(self.layers.drain(..));
        drop_each(self.states.drain(..).flat_map(|(factories, _)| factories.into_all()));
    }
}

/// A path without a variable.
pub(in crate::router) struct Literal {
    /// In normal form.
    pub(in crate::router) path: Box<str>,
    /// What answers `GET`, here to save a look at the leaf.
    pub(in crate::router) get: EndpointId,
    pub(in crate::router) leaf: usize,
}

impl Table {
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// The names of all handlers, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RouteName> {
        self.endpoints.iter().map(|record| &record.name)
    }

    /// A handler and its layers.
    pub(crate) fn record(&self, id: EndpointId) -> &EndpointRecord {
        &self.endpoints[id.index()]
    }

    /// All handlers in the order of their numbers.
    pub(crate) fn records(&self) -> &[EndpointRecord] {
        &self.endpoints
    }

    /// The layers by their number.
    pub(crate) fn layers(&self) -> &[GivenLayer] {
        &self.layers
    }

    /// Whose states a layer sees.
    pub(crate) fn states_of(&self, layer: UsedLayer) -> StatesId {
        StatesId::of_router(layer.scope, self.endpoints.len())
    }

    /// The name of the layer that an endpoint runs, if it runs one.
    #[cold]
    pub(crate) fn outermost_layer(&self, id: EndpointId) -> Option<&'static str> {
        self.record(id).layers.first().map(|used| self.layers[used.layer].name())
    }

    /// The name of this handler in the log.
    pub(crate) fn name(&self, id: EndpointId) -> &RouteName {
        &self.endpoints[id.index()].name
    }

    /// A clone of all states, for one loop.
    pub(crate) fn states(&self) -> States {
        States::new(&self.states, self.endpoints.iter().map(|record| record.scope))
    }

    /// The path of each handler's route, for one loop. What the router itself answers to other methods of a path has that path; fallbacks
    /// have none.
    pub(crate) fn paths(&self) -> Vec<Option<Rc<str>>> {
        let mut paths = vec![None; self.endpoints.len()];
        for leaf in &self.leaves {
            let mut first = None;
            // Handlers come first, each with the path as it was given to it.
            for endpoint in leaf.endpoints() {
                let path = Some(&self.name(endpoint).path).filter(|path| path.starts_with('/'));
                let own = path.map(|path| Rc::from(&**path));
                first = first.or_else(|| own.clone());
                paths[endpoint.index()] = own.or_else(|| first.clone());
            }
        }
        paths
    }

    /// The names of each route's parameters, for one loop: reference-counted without atomics.
    pub(crate) fn param_names(&self) -> Vec<Rc<[Box<str>]>> {
        self.leaves.iter().map(|leaf| leaf.params.iter().cloned().collect()).collect()
    }

    /// Chooses among endpoints with conditions. Gives the request to the one that it returns.
    #[cold]
    pub(crate) fn choose(
        &self,
        choice: usize,
        request: &mut Request,
        names: &[Rc<[Box<str>]>],
    ) -> EndpointId {
        let choice = &self.choices[choice];
        let same = match (choice.choose(request), &choice.otherwise) {
            (Outcome::Endpoint(endpoint), _) => endpoint,
            (Outcome::Producing(endpoint, produces), _) => {
                request.extensions_mut().insert(produces);
                endpoint
            }
            (Outcome::Refused(why, scope), Otherwise::Unknown { refused, .. }) => {
                request.extensions_mut().insert(why);
                let within = refused.iter().find(|(of, _)| *of == scope);
                debug_assert!(within.is_some(), "there is one for each router around some of them");
                within.map_or_else(|| self.fallbacks.find(""), |(_, endpoint)| *endpoint)
            }
            (Outcome::Preflight(why, endpoint), _) => {
                request.extensions_mut().insert(why);
                endpoint
            }
            (Outcome::Nobody, Otherwise::Unknown { leaf, .. }) => {
                let endpoint = self.beside_leaf(request, &self.leaves[*leaf]);
                return request.find_route(|_, params| {
                    params.clear();
                    endpoint
                });
            }
            (_, &Otherwise::Outer { fallback, outer }) => {
                return request
                    .find_route(|head, params| self.beside_fallback(head, fallback, outer, names, params));
            }
        };
        request.set_endpoint(same);
        same
    }

    /// Where a request goes whose guards could not be asked, because one of them has panicked with this text: to code that panics in its
    /// place, within the layers of the routers around all that the choice is among.
    #[cold]
    pub(crate) fn fail(&self, choice: usize, request: &mut Request, text: String) -> EndpointId {
        let endpoint = self.choices[choice].refused;
        request.extensions_mut().insert(NoCandidate::GuardPanicked { text });
        request.set_endpoint(endpoint);
        endpoint
    }

    /// Says to caches on what a choice has looked at.
    pub(crate) fn mark(&self, choice: usize, response: &mut Response) {
        self.choices[choice].mark(response);
    }
}
