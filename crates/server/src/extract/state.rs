//! State shared by handlers: given once to the router, cloned once a loop, read without a lock.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::{FromRequest, Rejection};
use crate::request::Request;

/// A value given to the router by [`Router::state`](crate::Router::state).
///
/// Every loop holds one clone of it, and a request gets a loop-local reference to that: no lock and no atomic on the
/// way of a request. What must be one for all loops is an `Arc` inside.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use anywire_server::{Router, State};
///
/// #[derive(Clone, Default)]
/// struct Visits(Arc<AtomicU64>);
///
/// async fn visit(visits: State<Visits>) -> String {
///     visits.0.fetch_add(1, Ordering::Relaxed).to_string()
/// }
///
/// let router = Router::new().state(Visits::default()).get("/", visit);
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct State<T>(Rc<T>);

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

impl<T: 'static> FromRequest for State<T> {
    type Rejection = Rejection;

    async fn from_request(request: &mut Request) -> Result<Self, Rejection> {
        let found = request.states().find::<T>();
        found.map(Self).ok_or(Rejection::NoState { type_name: type_name::<T>() })
    }

    fn needs(needs: &mut Needs) {
        needs.state::<T>();
    }
}

/// What the arguments of a handler need to be given to the router.
#[derive(Debug, Default)]
pub struct Needs {
    states: Vec<(TypeId, &'static str)>,
}

impl Needs {
    /// A state of this type.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
    }

    /// The first type that was not given.
    pub(crate) fn missing(&self, given: &StateFactories) -> Option<&'static str> {
        let missing = self.states.iter().find(|(id, _)| !given.factories.contains_key(id));
        missing.map(|(_, name)| *name)
    }
}

type Factory = Box<dyn Fn() -> Rc<dyn Any> + Send + Sync>;

/// What the router was given; each loop makes its [`States`] of it.
#[derive(Default)]
pub(crate) struct StateFactories {
    factories: HashMap<TypeId, Factory>,
}

impl StateFactories {
    pub(crate) fn give<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.factories.insert(TypeId::of::<T>(), Box::new(move || Rc::new(value.clone())));
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.factories.extend(other.factories);
    }

    pub(crate) fn instantiate(&self) -> States {
        States { values: self.factories.iter().map(|(id, make)| (*id, make())).collect() }
    }
}

/// The states of one loop.
pub(crate) struct States {
    values: HashMap<TypeId, Rc<dyn Any>>,
}

impl States {
    fn find<T: 'static>(&self) -> Option<Rc<T>> {
        Rc::clone(self.values.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("count", &self.values.len()).finish()
    }
}
