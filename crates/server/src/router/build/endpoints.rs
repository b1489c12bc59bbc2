//! The handlers of a router, numbered, each with its name in the log.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::panic::Location;
use std::sync::Arc;

use crate::extract::Needs;
use crate::handler::{Endpoint, HandlerParts};
use crate::layer::GivenLayer;
use crate::route_limits::{Gate, RouteLimits};
use crate::router::build::layers::{Around, Layers, UsedLayer};
use crate::router::table::answers;
use crate::router::table::choice::Choice;
use crate::router::{Entry, RouteError, Scope};

/// The handlers that have passed the checks so far.
pub(in crate::router) struct Endpoints<'r> {
    generation: Generation,
    records: Vec<EndpointRecord>,
    choices: Vec<Choice>,
    pub(in crate::router) scopes: &'r [Scope],
    pub(in crate::router) layers: Layers<'r>,
}

impl<'r> Endpoints<'r> {
    /// None so far. The layers of all routers are checked.
    pub(in crate::router) fn new(scopes: &'r [Scope], generation: Generation) -> Result<Self, RouteError> {
        Ok(Self {
            generation,
            records: Vec::new(),
            choices: Vec::new(),
            scopes,
            layers: Layers::new(scopes)?,
        })
    }

    /// Adds a handler whose path has these parameters.
    pub(in crate::router) fn add(
        &mut self,
        name: RouteName,
        entry: &Entry,
        params: &[Box<str>],
    ) -> Result<EndpointId, RouteError> {
        let within = self.layers.around(entry.scope);
        self.add_within(within, name, entry, params)
    }

    /// What the table of routes is to say of a handler.
    pub(in crate::router) fn note(&mut self, endpoint: EndpointId, note: String) {
        self.records[endpoint.index()].note = note;
    }

    /// Adds a handler within the layers of routers that need not be its own.
    pub(in crate::router) fn add_within(
        &mut self,
        mut within: Vec<UsedLayer>,
        name: RouteName,
        entry: &Entry,
        params: &[Box<str>],
    ) -> Result<EndpointId, RouteError> {
        let HandlerParts { endpoint, needs, layers, limits, pool, .. } = &entry.parts;
        if params.is_empty() && needs.takes_params() {
            return Err(RouteError::Parameters { route: name.to_string(), place: entry.place });
        }
        if let Some(fault) = needs.unfit(params) {
            return Err(RouteError::ParametersUnfit { route: name.to_string(), place: entry.place, fault });
        }
        if let Some(type_name) = missing(self.scopes, entry.scope, needs) {
            return Err(RouteError::State { route: name.to_string(), place: entry.place, type_name });
        }
        let around = Around::Handler(&name, entry.place);
        within.extend(self.layers.add_around(&around, layers, entry.scope, params)?);
        let kind = EndpointKind::Handler(Arc::clone(endpoint));
        let limits = self.limits(*limits, entry)?;
        let gate = limits.concurrency.map(Gate::new);
        let (scope, layers, place) = (entry.scope, within.into(), Some(entry.place));
        let (note, pool) = (String::new(), pool.clone());
        let is_listed = true;
        Ok(self.push(EndpointRecord {
            kind,
            name,
            scope,
            layers,
            limits,
            gate,
            note,
            pool,
            place,
            is_listed,
        }))
    }

    /// The limits of a handler within those of its routers.
    fn limits(&self, own: RouteLimits, entry: &Entry) -> Result<RouteLimits, RouteError> {
        let routers = std::iter::successors(Some(entry.scope), |scope| self.scopes[*scope].parent);
        let all = routers.map(|scope| &self.scopes[scope]);
        let places = all.clone().map(|scope| (scope.limits, scope.limits_place.unwrap_or(entry.place)));
        let mut limits = RouteLimits::default();
        for (outer, place) in std::iter::once((own, entry.place)).chain(places) {
            if outer.concurrency == Some(0) {
                return Err(RouteError::NoConcurrency { place });
            }
            limits = limits.within(outer);
        }
        Ok(limits)
    }

    /// Adds an endpoint of the router itself, within the layers of this scope.
    pub(in crate::router) fn add_own(&mut self, endpoint: Arc<dyn Endpoint>, scope: usize) -> EndpointId {
        let layers = self.layers.around(scope).into();
        self.push(EndpointRecord::of_router(
            EndpointKind::Handler(endpoint),
            RouteName::router(),
            scope,
            layers,
        ))
    }

    /// Adds what answers a preflight of CORS about a handler, if the handler has layers of its own: they are around that, too. One of the
    /// layers may be what answers it.
    pub(in crate::router) fn add_preflight(
        &mut self,
        handler: EndpointId,
        entry: &Entry,
    ) -> Option<EndpointId> {
        if entry.parts.layers.is_empty() {
            return None;
        }
        let EndpointRecord { scope, layers, .. } = &self.records[handler.index()];
        let (scope, layers) = (*scope, layers.clone());
        let kind = EndpointKind::Handler(answers::refused());
        let mut record = EndpointRecord::of_router(kind, RouteName::router(), scope, layers);
        record.is_listed = false;
        Some(self.push(record))
    }

    /// Adds all routes as one endpoint within layers of the server, if there are any.
    pub(in crate::router) fn add_routes(
        &mut self,
        within: &[GivenLayer],
    ) -> Result<Option<EndpointId>, RouteError> {
        if within.is_empty() {
            return Ok(None);
        }
        // Unlike those of a route, they see no path parameters.
        let layers = self.layers.add_around(&Around::Router(None), within, 0, &[])?.into();
        Ok(Some(self.push(EndpointRecord::of_router(EndpointKind::Routes, RouteName::server(), 0, layers))))
    }

    /// Adds what chooses among other endpoints.
    pub(in crate::router) fn add_choice(
        &mut self,
        name: RouteName,
        choice: impl FnOnce(EndpointId) -> Choice,
    ) -> EndpointId {
        let kind = EndpointKind::Choice(self.choices.len());
        self.choices.push(choice(EndpointId::new(self.generation, self.records.len())));
        self.push(EndpointRecord::of_router(kind, name, 0, Box::default()))
    }

    fn push(&mut self, record: EndpointRecord) -> EndpointId {
        self.records.push(record);
        EndpointId::new(self.generation, self.records.len() - 1)
    }

    /// By their [`EndpointId`]; the choices by their number; and all layers.
    pub(in crate::router) fn into_parts(self) -> (Vec<EndpointRecord>, Vec<Choice>, Vec<GivenLayer>) {
        (self.records, self.choices, self.layers.into_all())
    }
}

/// The first state that code of a router needs, and neither this router nor one around it has.
pub(in crate::router) fn missing(scopes: &[Scope], scope: usize, needs: &Needs) -> Option<&'static str> {
    let around = std::iter::successors(Some(scope), |scope| scopes[*scope].parent);
    needs.missing(|id| around.clone().any(|scope| scopes[scope].states.contains(id)))
}

/// A handler, its layers, and its name in the log.
pub(crate) struct EndpointRecord {
    pub(crate) kind: EndpointKind,
    pub(in crate::router) name: RouteName,
    /// The index of its router's states.
    pub(in crate::router) scope: usize,
    /// The outermost first.
    pub(crate) layers: Box<[UsedLayer]>,
    /// Where they are others than those of the server.
    pub(crate) limits: RouteLimits,
    /// If requests at once are limited.
    pub(crate) gate: Option<Arc<Gate>>,
    /// For the table of routes, such as its conditions.
    pub(in crate::router) note: String,
    /// The name of that on which its handler runs.
    pub(crate) pool: Option<Arc<str>>,
    /// Where the handler was given; `None` for one of the router itself.
    pub(in crate::router) place: Option<&'static Location<'static>>,
    /// Whether it has a line in the table of routes.
    pub(in crate::router) is_listed: bool,
}

impl EndpointRecord {
    /// An endpoint of the router itself.
    fn of_router(kind: EndpointKind, name: RouteName, scope: usize, layers: Box<[UsedLayer]>) -> Self {
        let (limits, note) = (RouteLimits::default(), String::new());
        // A choice has those among which it chooses.
        let is_listed = !matches!(kind, EndpointKind::Choice(_));
        Self { kind, name, scope, layers, limits, gate: None, note, pool: None, place: None, is_listed }
    }
}

/// What an endpoint runs within its layers.
pub(crate) enum EndpointKind {
    Handler(Arc<dyn Endpoint>),
    /// The endpoint of the route, which is looked up then.
    Routes,
    /// One of several endpoints, as the choice of this number says.
    Choice(usize),
}

/// The name of a handler in the log.
#[derive(Debug, Clone)]
pub(crate) struct RouteName {
    /// The method of the route; `*` for any.
    pub(crate) method: Box<str>,
    /// The path as it was given, with its prefix.
    pub(crate) path: Box<str>,
}

impl RouteName {
    /// Of what no handler answers.
    pub(in crate::router) fn router() -> Self {
        Self { method: "*".into(), path: "(the router)".into() }
    }

    /// Of the layers of a server, until they have gone on to a route.
    pub(in crate::router) fn server() -> Self {
        Self { method: "*".into(), path: "(the server)".into() }
    }

    pub(in crate::router) fn fallback(prefix: &str) -> Self {
        let path = if prefix.is_empty() {
            "(the fallback)".into()
        } else {
            format!("{prefix}/(the fallback)").into()
        };
        Self { method: "*".into(), path }
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A handler's place among all handlers of a [`Table`](super::Table), in the lower half. Above it the generation of that table, because
/// requests and the bodies of responses outlive the routes that have answered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointId(NonZeroU64);

/// Which of the tables that a server has had one after another. Never used twice, so that what is left of an old one is never taken for a new one.
pub(crate) type Generation = NonZeroU32;

impl EndpointId {
    /// Of a request that no router has matched.
    pub(crate) const NONE: Self = Self(NonZeroU64::MAX);

    fn new(generation: Generation, index: usize) -> Self {
        // Each route is some hundred bytes of a program.
        Self(NonZeroU64::from(generation).saturating_mul(GENERATION) | index as u64)
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as u32 as usize
    }

    pub(crate) fn is_of(self, generation: Generation) -> bool {
        (self.0.get() >> u32::BITS) as u32 == generation.get()
    }
}

/// What the number of a generation is worth.
const GENERATION: NonZeroU64 = NonZeroU64::new(1 << u32::BITS).expect("it is not 0");
