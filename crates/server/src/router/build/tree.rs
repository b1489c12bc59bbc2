//! A radix tree of paths that tells which two of them conflict, and where they were given.

use std::panic::Location;

use crate::router::error::{PathFault, RouteError};
use crate::router::table::leaf::param_names;

/// A tree that is being built.
pub(in crate::router) struct Tree<'r, V> {
    paths: matchit::Router<V>,
    given: Vec<Given<'r>>,
}

/// A path of the tree, for the message of a conflict.
struct Given<'r> {
    normal: String,
    path: &'r str,
    place: &'static Location<'static>,
}

impl<'r, V> Tree<'r, V> {
    pub(in crate::router) fn new() -> Self {
        Self { paths: matchit::Router::new(), given: Vec::new() }
    }

    /// Adds a path in its normal form. Errors name it as it was given.
    pub(in crate::router) fn insert(
        &mut self,
        normal: String,
        value: V,
        path: &'r str,
        place: &'static Location<'static>,
    ) -> Result<(), RouteError> {
        let malformed = |fault| RouteError::Path { path: path.to_owned(), place, fault };
        if param_names(&normal).len() > PARAMETERS_MAX {
            return Err(malformed(PathFault::TooManyParameters));
        }
        match self.paths.insert(&*normal, value) {
            Ok(()) => {
                self.given.push(Given { normal, path, place });
                Ok(())
            }
            Err(matchit::InsertError::InvalidParamSegment) => Err(malformed(PathFault::TwoInOneSegment)),
            Err(matchit::InsertError::InvalidCatchAll) => Err(malformed(PathFault::RestNotLast)),
            Err(matchit::InsertError::Conflict { .. }) => match self.conflicting(&normal) {
                Some(Given { path: other, place: other_place, .. }) => Err(RouteError::Conflict {
                    path: path.to_owned(),
                    place,
                    other: (*other).to_owned(),
                    other_place,
                }),
                None => Err(malformed(PathFault::Braces)),
            },
            Err(_) => Err(malformed(PathFault::Braces)),
        }
    }

    pub(in crate::router) fn build(self) -> matchit::Router<V> {
        self.paths
    }

    /// The first path beside which this one cannot be. Found by trial: the tree's own error shows a path as its nodes are
    /// cut, which may be none that was given.
    fn conflicting(&self, normal: &str) -> Option<&Given<'r>> {
        let mut paths = matchit::Router::new();
        self.given.iter().find(|given| {
            let added = paths.insert(&*given.normal, ());
            debug_assert!(added.is_ok(), "it has been added before");
            paths.clone().insert(normal, ()).is_err()
        })
    }
}

/// Above this the tree has no letters left for their names.
const PARAMETERS_MAX: usize = 25;
