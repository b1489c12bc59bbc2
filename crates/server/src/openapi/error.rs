//! Why routes cannot be described.

use std::panic::Location;

use anywire_advice::Advice;

/// Why routes cannot be described. The author of the routes, or of a type, is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiFault {
    /// Two operations of one name.
    #[error(
        "two operations have the id {id:?}: {first}, described at {first_place}, and {second}, described at {second_place}{help}",
        help = Advice("give each an id of its own")
    )]
    OperationId {
        /// The id of both.
        id: String,
        /// Method and path.
        first: String,
        /// Where its handler was described.
        first_place: &'static Location<'static>,
        /// Method and path.
        second: String,
        /// Where its handler was described.
        second_place: &'static Location<'static>,
    },
    /// A handler asks for a security scheme that is not declared.
    #[error(
        "{route}, described at {place}, asks for the security scheme {name:?}, which is not declared{help}",
        help = Advice(format_args!("add it to the Info, such as .bearer({name:?})"))
    )]
    Scheme {
        /// The name of the scheme.
        name: String,
        /// Method and path.
        route: String,
        /// Where the handler was described.
        place: &'static Location<'static>,
    },
    /// Two security schemes of one name.
    #[error(
        "there are two security schemes with the name {name:?}, given at {first} and at {second}{help}",
        help = Advice("give each a name of its own")
    )]
    SchemeTwice {
        /// The name of both.
        name: String,
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
    /// The type of a path, a query, a form or matrix parameters is a part of itself, so it has no end as parameters.
    #[error(
        "{name} is a part of itself, so its parameters have no end{help}",
        help = Advice("take it as JSON, or without `serde(flatten)`")
    )]
    Cycle {
        /// The type.
        name: String,
    },
    /// Two types that `schemars` takes for one.
    #[error(
        "{name} and {other} have the same schema id {id:?} and differ{help}",
        help = Advice("move one of them into a module of its own, or give it a `schema_id` by implementing JsonSchema")
    )]
    SameId {
        /// What both are called by `schemars`.
        id: String,
        /// The second type.
        name: String,
        /// The first type.
        other: String,
    },
}
