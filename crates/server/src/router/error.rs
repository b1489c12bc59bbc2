//! Why a set of routes cannot serve.

use std::fmt;
use std::panic::Location;

use anywire_http::{Chain, Method};

/// Why a set of routes cannot serve. The author of the routes is at fault.
///
/// Its `Debug` form is the message with its causes, so that a `main` that returns it prints a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path clashes with another or is malformed.
    #[error("route {path:?} cannot be added; rename one of the two or make one of them longer")]
    Path {
        /// The path as it was given, with its prefix.
        path: String,
        /// What the radix tree found.
        #[source]
        cause: matchit::InsertError,
    },
    /// A path that does not begin with `/`.
    #[error("route {path:?} cannot be added: a path begins with '/'; write {:?}", format!("/{path}"))]
    Relative {
        /// The path as it was given.
        path: String,
    },
    /// Two handlers for the same method and path.
    #[error("{method} {path} has two handlers, given at {first} and at {second}; remove one of them")]
    Twice {
        /// The method.
        method: Method,
        /// The path.
        path: String,
        /// Where the first handler was given.
        first: &'static Location<'static>,
        /// Where the second handler was given.
        second: &'static Location<'static>,
    },
    /// Two handlers for what no route has.
    #[error("there are two fallbacks, given at {first} and at {second}; remove one of them")]
    FallbackTwice {
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
    /// A handler takes a state that was not given.
    #[error(
        "the handler of {route} takes a State<{type_name}> that nobody gave; add .state(..) to the router"
    )]
    State {
        /// Method and path.
        route: String,
        /// The type that is missing.
        type_name: &'static str,
    },
    /// Two states of one type, of which a handler could get only one. Nested routers share their states.
    #[error(
        "there are two states of the type {type_name}, given at {first} and at {second}; remove one of them, or give \
         each a type of its own"
    )]
    StateTwice {
        /// The type of both.
        type_name: &'static str,
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
}

impl fmt::Debug for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Chain(self), f)
    }
}
