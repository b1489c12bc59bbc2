//! State shared by handlers: given once to the router, cloned once a loop, read without a lock.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;

use super::{FromRequestParts, Rejection};
use crate::request::Parts;
use crate::router::RouteError;

/// A value given to the router by [`Router::state`](crate::Router::state).
///
/// Every loop holds one clone of it, and a request gets a reference to that clone: an `Rc`, which costs neither a lock nor
/// an atomic. Put an `Arc` into the value for what all loops share.
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
        let found = parts.states().find::<T>();
        found.map(Self).ok_or(Rejection::NoState { type_name: type_name::<T>() })
    }

    fn needs(needs: &mut Needs) {
        needs.state::<T>();
    }
}

/// What the arguments of a handler need from the router.
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
        let missing = self.states.iter().find(|(id, _)| !given.contains(*id));
        missing.map(|(_, name)| *name)
    }
}

/// What the router was given; each loop makes its [`States`] of it.
#[derive(Default)]
pub(crate) struct StateFactories {
    given: Vec<Factory>,
}

/// One state: its type, where it was given, and how a loop gets its clone.
struct Factory {
    id: TypeId,
    type_name: &'static str,
    place: &'static Location<'static>,
    make: Box<dyn Fn() -> Rc<dyn Any> + Send + Sync>,
}

impl StateFactories {
    pub(crate) fn give<T: Clone + Send + Sync + 'static>(
        &mut self,
        value: T,
        place: &'static Location<'static>,
    ) {
        self.given.push(Factory {
            id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
            place,
            make: Box::new(move || Rc::new(value.clone())),
        });
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.given.extend(other.given);
    }

    fn contains(&self, id: TypeId) -> bool {
        self.given.iter().any(|factory| factory.id == id)
    }

    /// Refuses two states of one type, of which a handler could get only one.
    pub(crate) fn check(&self) -> Result<(), RouteError> {
        for (index, second) in self.given.iter().enumerate() {
            if let Some(first) = self.given[..index].iter().find(|first| first.id == second.id) {
                let (type_name, first, second) = (first.type_name, first.place, second.place);
                return Err(RouteError::StateTwice { type_name, first, second });
            }
        }
        Ok(())
    }

    pub(crate) fn instantiate(&self) -> States {
        States { values: self.given.iter().map(|factory| (factory.id, (factory.make)())).collect() }
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
