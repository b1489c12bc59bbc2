//! Why a set of routes cannot serve.

use std::fmt;
use std::panic::Location;

use anywire_advice::Advice;
use anywire_advice::Chain;
use anywire_http::Method;

/// Why a set of routes cannot serve. The author of the routes is at fault.
///
/// Its `Debug` form is the message with its causes, so that a `main` that returns it prints a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path conflicts with another one or is malformed.
    #[error(
        "route {path:?} cannot be added{help}",
        help = Advice("rename one of the two or make one of them longer")
    )]
    Path {
        /// The path as it was given, with its prefix.
        path: String,
        /// What the radix tree found.
        #[source]
        cause: matchit::InsertError,
    },
    /// A path that does not begin with `/`.
    #[error(
        "route {path:?} cannot be added: a path begins with '/'{help}",
        help = Advice(format_args!("write {:?}", format!("/{path}")))
    )]
    Relative {
        /// The path as it was given.
        path: String,
    },
    /// A path with a `?` or a `#`, which no path of a request holds.
    #[error(
        "route {path:?} cannot be added: a path holds no '?' and no '#'{help}",
        help = Advice("take the query as `Query`")
    )]
    Query {
        /// The path as it was given, with its prefix.
        path: String,
    },
    /// A segment that is a variable in other frameworks but literal text here.
    #[error(
        "route {path:?} cannot be added: {segment:?} is the syntax of another framework{help}",
        help = Advice(format_args!("write {instead:?}"))
    )]
    Syntax {
        /// The path as it was given, with its prefix.
        path: String,
        /// The segment.
        segment: String,
        /// The same segment in the syntax of this router.
        instead: String,
    },
    /// Two handlers for the same method and path.
    #[error(
        "{method} {path} has two handlers, given at {first} and at {second}{help}",
        help = Advice("remove one of them")
    )]
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
    /// Two fallbacks for the same paths.
    #[error(
        "there are two fallbacks, given at {first} and at {second}{help}",
        help = Advice("remove one of them")
    )]
    FallbackTwice {
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
    /// A handler takes a state that its routers do not have.
    #[error(
        "the handler of {route}, given at {place}, takes a State<{type_name}> that was not given{help}",
        help = Advice("add .state(..) to its router")
    )]
    State {
        /// Method and path.
        route: String,
        /// Where the handler was given.
        place: &'static Location<'static>,
        /// The type that is missing.
        type_name: &'static str,
    },
    /// Two states of one type in one router: a handler could get only one of them.
    #[error(
        "there are two states of the type {type_name}, given at {first} and at {second}{help}",
        help = Advice("remove one of them, or give each a type of its own")
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

impl RouteError {
    /// Refuses a path that would not match what its author means.
    pub(super) fn check_path(path: &str) -> Result<(), Self> {
        if !path.starts_with('/') {
            return Err(Self::Relative { path: path.to_owned() });
        }
        if path.contains(['?', '#']) {
            return Err(Self::Query { path: path.to_owned() });
        }
        for segment in path.split('/') {
            if let Some(instead) = variable_elsewhere(segment) {
                let (path, segment) = (path.to_owned(), segment.to_owned());
                return Err(Self::Syntax { path, segment, instead });
            }
        }
        Ok(())
    }
}

/// Translates a variable of another framework: `:id`, `*rest`, `<id>`, `{id:[0-9]+}`, `{rest...}`.
fn variable_elsewhere(segment: &str) -> Option<String> {
    if let Some(name) = segment.strip_prefix(':') {
        return Some(format!("{{{name}}}"));
    }
    if let Some(name) = segment.strip_prefix('*') {
        return Some(format!("{{*{}}}", if name.is_empty() { "rest" } else { name }));
    }
    if let Some(name) = segment.strip_prefix('<').and_then(|name| name.strip_suffix('>')) {
        return Some(format!("{{{name}}}"));
    }
    // A doubled brace is a literal one.
    let name = segment.strip_prefix('{')?.strip_suffix('}').filter(|name| !name.starts_with('{'))?;
    match (name.split_once(':'), name.strip_suffix("...")) {
        (Some((name, _)), _) => Some(format!("{{{name}}}")),
        (None, Some(name)) => Some(format!("{{*{name}}}")),
        (None, None) => None,
    }
}
