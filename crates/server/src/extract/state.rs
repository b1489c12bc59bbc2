//! State shared by handlers: given once to the router, cloned once a loop, read without a lock.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use super::{FromRequestParts, Rejection};
use crate::contained::drop_each;
use crate::request::Parts;
use crate::router::{EndpointId, RouteError};

/// A value given to the router by [`Router::state`](crate::Router::state).
///
/// Every loop holds one clone of it, and a request gets a reference to that clone: an `Rc`, which costs neither a lock nor
/// an atomic. Put an `Arc` into the value for what all loops share. A function on a [pool](crate::Blocking::on_pool) takes the same value as
/// `Arc<T>`.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use anywire_server::{Router, State};
///
/// #[derive(Clone, Default)]
/// struct Visits(Arc<AtomicU64>);
///
/// async fn visit(State(visits): State<Visits>) -> String {
///     visits.0.fetch_add(1, Ordering::Relaxed).to_string()
/// }
///
/// let router = Router::new().state(Visits::default()).get("/", visit);
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct State<T>(pub Rc<T>);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: 'static> FromRequestParts for State<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let found = parts.state::<T>();
        found.map(Self).ok_or(Rejection::NoState { type_name: type_name::<T>() })
    }

    fn needs(needs: &mut Needs) {
        needs.state::<T>();
    }
}

/// What the arguments of a handler need from the router and its route.
#[derive(Debug, Default, Clone)]
pub struct Needs {
    states: Vec<(TypeId, &'static str)>,
    takes_params: bool,
    /// Whether the parameters of a route fit a type that is taken.
    params: Vec<FitsParams>,
    takes_matrix: bool,
}

/// Refuses the parameters of a route, by their names.
type FitsParams = fn(&[Box<str>]) -> Result<(), String>;

impl Needs {
    /// A state of this type.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
    }

    /// Path parameters, of which the route has at least one.
    pub fn params(&mut self) {
        self.takes_params = true;
    }

    /// The same, of which the types are known.
    pub(super) fn params_that_fit(&mut self, fit: FitsParams) {
        self.params();
        self.params.push(fit);
    }

    /// Why no request of a route with these parameters fits.
    pub(crate) fn unfit(&self, params: &[Box<str>]) -> Option<String> {
        self.params.iter().find_map(|fit| fit(params).err()).filter(|_| !params.is_empty())
    }

    /// Matrix parameters, which the path of the route then may have.
    pub fn matrix(&mut self) {
        self.takes_matrix = true;
    }

    /// The needs of a value that may be absent, as path parameters may be then.
    pub(crate) fn optional(&mut self, needs: impl FnOnce(&mut Self)) {
        let takes_params = self.takes_params;
        needs(self);
        self.takes_params = takes_params;
    }

    pub(crate) fn takes_params(&self) -> bool {
        self.takes_params
    }

    pub(crate) fn takes_matrix(&self) -> bool {
        self.takes_matrix
    }

    /// The first type that is not there.
    pub(crate) fn missing(&self, is_there: impl Fn(TypeId) -> bool) -> Option<&'static str> {
        let missing = self.states.iter().find(|(id, _)| !is_there(*id));
        missing.map(|(_, name)| *name)
    }
}

/// The states that a router was given; each loop makes its [`States`] of them.
#[derive(Clone, Default)]
pub(crate) struct StateFactories {
    given: Vec<Factory>,
}

/// One state: its type, where it was given, and how a loop gets its clone.
#[derive(Clone)]
struct Factory {
    id: TypeId,
    type_name: &'static str,
    place: &'static Location<'static>,
    make: Make,
    /// The `Arc` of this type, which functions on a pool take, and how to get it: the value itself is in it, and no clone.
    shared_id: TypeId,
    share: Make,
}

/// Makes what one loop has of a state.
type Make = Arc<dyn Fn() -> Rc<dyn Any> + Send + Sync>;

impl StateFactories {
    pub(crate) fn give<T: Clone + Send + Sync + 'static>(
        &mut self,
        value: T,
        place: &'static Location<'static>,
    ) {
        let value = Arc::new(value);
        let shared = Arc::clone(&value);
        self.given.push(Factory {
            id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
            place,
            make: Arc::new(move || Rc::new(T::clone(&value))),
            shared_id: TypeId::of::<Arc<T>>(),
            share: Arc::new(move || Rc::new(Arc::clone(&shared))),
        });
    }

    /// All states, to be dropped one by one.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Make> {
        self.given.into_iter().flat_map(|factory| [factory.make, factory.share])
    }

    pub(crate) fn contains(&self, id: TypeId) -> bool {
        self.given.iter().any(|factory| factory.id == id || factory.shared_id == id)
    }

    /// Refuses two states of one type: a handler could get only one of them.
    pub(crate) fn check(&self) -> Result<(), RouteError> {
        for (index, second) in self.given.iter().enumerate() {
            if let Some(first) = self.given[..index].iter().find(|first| first.id == second.id) {
                let (type_name, first, second) = (first.type_name, first.place, second.place);
                return Err(RouteError::StateTwice { type_name, first, second });
            }
        }
        Ok(())
    }
}

/// The states of one loop.
#[derive(Default)]
pub(crate) struct States {
    /// By endpoint, then by router: what the router has, and the routers around that.
    visible: Vec<Rc<Visible>>,
}

/// Whose states a request sees: those of its endpoint, or of the router of a layer on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatesId(u32);

impl StatesId {
    /// Those that a handler sees.
    pub(crate) fn of_endpoint(endpoint: EndpointId) -> Self {
        // There are 2^32 endpoints at most.
        Self(endpoint.index() as u32)
    }

    /// Those of a router by its number, in a table with so many endpoints.
    pub(crate) fn of_router(router: usize, endpoints: usize) -> Self {
        Self((endpoints + router) as u32)
    }
}

type Visible = HashMap<TypeId, Rc<dyn Any>>;

impl States {
    /// Clones of the states of all routers, each with the router around it, for the endpoints of these routers.
    pub(crate) fn new(
        routers: &[(StateFactories, Option<usize>)],
        router_of_endpoint: impl Iterator<Item = usize>,
    ) -> Self {
        let mut scopes: Vec<Rc<Visible>> = Vec::with_capacity(routers.len());
        for (own, parent) in routers {
            let mut visible = parent.map(|parent| Visible::clone(&scopes[parent])).unwrap_or_default();
            visible.extend(own.given.iter().map(|factory| (factory.shared_id, (factory.share)())));
            // An `Arc` that was given is itself.
            visible.extend(own.given.iter().map(|factory| (factory.id, (factory.make)())));
            scopes.push(Rc::new(visible));
        }
        let of_endpoints: Vec<_> = router_of_endpoint.map(|router| Rc::clone(&scopes[router])).collect();
        Self { visible: of_endpoints.into_iter().chain(scopes).collect() }
    }

    pub(crate) fn find<T: 'static>(&self, whose: StatesId) -> Option<Rc<T>> {
        let visible = self.visible.get(whose.0 as usize)?;
        Rc::clone(visible.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

impl Drop for States {
    fn drop(&mut self) {
        drop_each(self.visible.drain(..).filter_map(Rc::into_inner).flat_map(Visible::into_values));
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}
