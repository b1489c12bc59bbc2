//! Why a set of routes cannot serve.

use std::fmt;
use std::panic::Location;

use anywire_advice::Advice;
use anywire_advice::Chain;
use anywire_http::Method;
use anywire_http::accept::InvalidMediaType;

use crate::conditions::guards::GuardFault;
use crate::layer::LayerFault;

/// Why a set of routes cannot serve. The author of the routes is at fault.
///
/// Its `Debug` form is the message with its causes, so that a `main` that returns it prints a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Two paths between which the router could not choose, such as `/{a}` and `/{b}`.
    #[error(
        "the path {path:?}, given at {place}, conflicts with {other:?}, given at {other_place}: some requests would match \
         both{help}",
        help = Advice("name their parameters alike if they are one path, else make one of them longer")
    )]
    Conflict {
        /// The path as it was given, with its prefix.
        path: String,
        /// Where its handler was given.
        place: &'static Location<'static>,
        /// The path that was there before.
        other: String,
        /// Where the handler of that one was given.
        other_place: &'static Location<'static>,
    },
    /// A path whose parameters are malformed.
    #[error("the path {path:?}, given at {place}, {fault}{help}", help = Advice(fault.advice()))]
    Path {
        /// The path as it was given, with its prefix.
        path: String,
        /// Where its handler was given.
        place: &'static Location<'static>,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// A path that does not begin with `/`.
    #[error(
        "the path {path:?}, given at {place}, does not begin with '/'{help}",
        help = Advice(format_args!("write {:?}", format!("/{path}")))
    )]
    Relative {
        /// The path or the prefix as it was given.
        path: String,
        /// Where its handler, or the nested router, was given.
        place: &'static Location<'static>,
    },
    /// A path with a `?` or a `#`, which no path of a request holds.
    #[error(
        "the path {path:?}, given at {place}, holds a '?' or a '#', as no path of a request does{help}",
        help = Advice("take the query as `Query`; a '?' or '#' in a segment is written %3F or %23")
    )]
    Query {
        /// The path or the prefix as it was given.
        path: String,
        /// Where its handler, or the nested router, was given.
        place: &'static Location<'static>,
    },
    /// A segment that is a variable in other frameworks but literal text here.
    #[error(
        "the path {path:?}, given at {place}, has {segment:?}, which is the syntax of another framework{help}",
        help = Advice(format_args!("write {instead:?}"))
    )]
    Syntax {
        /// The path or the prefix as it was given.
        path: String,
        /// Where its handler, or the nested router, was given.
        place: &'static Location<'static>,
        /// The segment.
        segment: String,
        /// The same segment in the syntax of this router.
        instead: String,
    },
    /// Two handlers for the same method and path, of which one would never answer: their conditions are the same, or all requests that one
    /// of them takes are taken by the other, which has more guards and so comes first.
    #[error(
        "{method} {path} has two handlers, given at {first} and at {second}{also}{help}",
        method = method.as_ref().map_or("any method of", Method::as_str),
        also = other_spelling(path, other_path),
        help = Advice("remove one of them, or give one a guard: handler.when(..)")
    )]
    Twice {
        /// The method; `None` for two handlers by [`Router::any`](crate::Router::any).
        method: Option<Method>,
        /// The path as it was given first.
        path: String,
        /// Where the first handler was given.
        first: &'static Location<'static>,
        /// The path as it was given with the second handler: an equivalent one may be written in another way.
        other_path: String,
        /// Where the second handler was given.
        second: &'static Location<'static>,
    },
    /// Two fallbacks for the same paths.
    #[error(
        "{whose} has two fallbacks, given at {first} and at {second}{help}",
        whose = owner(prefix),
        help = Advice("remove one of them")
    )]
    FallbackTwice {
        /// The prefix of the nested router; empty if it is the outermost one.
        prefix: String,
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
    /// A fallback, or a handler of `CONNECT`, with media types: [`Handler::consumes`](crate::Handler::consumes) and
    /// [`produces`](crate::Handler::produces) choose among the handlers of a path, and there is none.
    #[error(
        "the handler of {route}, given at {handler}, has media types, given at {place}, and no path for which they would \
         hold{help}",
        help = Advice("remove them; give it a guard to choose among several")
    )]
    MediaTypesWithoutPath {
        /// What it answers.
        route: String,
        /// Where the handler was given.
        handler: &'static Location<'static>,
        /// Where the media types were given.
        place: &'static Location<'static>,
    },
    /// A handler of `CONNECT` with a path, which no such request has (RFC 9110 section 9.3.6).
    #[error("no request reaches CONNECT {path}, given at {place}: CONNECT has no path{help}", help = Advice("write .connect(handler)"))]
    Connect {
        /// The path as it was given, with its prefix.
        path: String,
        /// Where its handler was given.
        place: &'static Location<'static>,
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
    /// A handler takes path parameters, and its path has none.
    #[error(
        "the handler of {route}, given at {place}, takes path parameters, and its path has none{help}",
        help = Advice("add them to the path, such as /{id}, or take an Option<Path<_>>")
    )]
    Parameters {
        /// Method and path.
        route: String,
        /// Where the handler was given.
        place: &'static Location<'static>,
    },
    /// A handler takes other path parameters than its path has.
    #[error(
        "the handler of {route}, given at {place}, does not fit its path: {fault}{help}",
        help = Advice("take as many as the path has, or a struct with their names")
    )]
    ParametersUnfit {
        /// Method and path.
        route: String,
        /// Where the handler was given.
        place: &'static Location<'static>,
        /// What does not fit.
        fault: String,
    },
    /// A limit would refuse each request.
    #[error(
        "the limits given at {place} let no request in: their concurrency is 0{help}",
        help = Advice("give at least 1, or none")
    )]
    NoConcurrency {
        /// Where the handler or the limits of the router were given.
        place: &'static Location<'static>,
    },
    /// A guard whose host, name or expression is wrong.
    #[error("the guard `{guard}`, given at {place}, {fault}")]
    Guard {
        /// The guard.
        guard: String,
        /// Where it was given.
        place: &'static Location<'static>,
        /// What is wrong.
        fault: GuardFault,
    },
    /// A guard looks at a variable that the path does not have.
    #[error(
        "the guard `{guard}`, given at {place}, looks at {{{name}}}, and {route}, given at {route_place}, has no such \
         parameter{help}",
        help = Advice("name a parameter of the path; a fallback has none")
    )]
    GuardParameter {
        /// The guard.
        guard: String,
        /// Where it was given.
        place: &'static Location<'static>,
        /// The name of the parameter.
        name: String,
        /// Method and path.
        route: String,
        /// Where the handler was given.
        route_place: &'static Location<'static>,
    },
    /// Two guards of one handler, or of the routers around it, that no request passes together.
    #[error(
        "no request reaches {route}: the guard `{guard}`, given at {place}, contradicts `{other}`, given at {other_place}{help}",
        help = Advice("remove one of them, or add the handler twice, each with one of them")
    )]
    GuardsContradict {
        /// Method and path.
        route: String,
        /// The inner guard.
        guard: String,
        /// Where it was given.
        place: &'static Location<'static>,
        /// The outer one, or the one that was given before.
        other: String,
        /// Where that was given.
        other_place: &'static Location<'static>,
    },
    /// What a handler consumes or produces is no media type.
    #[error("the media types given at {place} have a fault: {text:?} {fault}")]
    MediaType {
        /// The text, as far as it is known.
        text: String,
        /// Where it was given.
        place: &'static Location<'static>,
        /// What is wrong.
        fault: MediaTypeFault,
    },
    /// A handler runs on a pool that the server does not have.
    #[error(
        "the handler of {route}, given at {place}, runs on the pool {pool:?}, which the server does not have{known}{help}",
        known = known_pools(known),
        help = Advice(format_args!("add .pool({pool:?}, PoolLimits::default()) to the server"))
    )]
    Pool {
        /// Method and path.
        route: String,
        /// Where the handler was given.
        place: &'static Location<'static>,
        /// The name that it was given with.
        pool: String,
        /// The names of the pools that there are.
        known: Vec<String>,
    },
    /// Two pools of one name.
    #[error(
        "there are two pools with the name {name:?}, given at {first} and at {second}{help}",
        help = Advice("remove one of them, or give each a name of its own")
    )]
    PoolTwice {
        /// The name of both.
        name: String,
        /// Where the first one was given.
        first: &'static Location<'static>,
        /// Where the second one was given.
        second: &'static Location<'static>,
    },
    /// The settings of a layer are wrong, or contradict each other.
    #[error("the layer {name}, given at {place}, {fault}")]
    Layer {
        /// The layer.
        name: &'static str,
        /// Where it was given.
        place: &'static Location<'static>,
        /// What is wrong.
        fault: LayerFault,
    },
    /// A layer takes a state that its routers do not have.
    #[error(
        "the layer {name}, given at {place}, takes a State<{type_name}> that {around} does not have{help}",
        help = Advice("add .state(..) to its router")
    )]
    LayerState {
        /// The layer.
        name: &'static str,
        /// Where it was given.
        place: &'static Location<'static>,
        /// The type that is missing.
        type_name: &'static str,
        /// What it is around: a handler, or a router that was nested or merged, with the place of that.
        around: String,
    },
    /// A layer takes path parameters, and is around code without any, such as the 404.
    #[error(
        "the layer {name}, given at {place}, takes path parameters, which {around} does not have{help}",
        help = Advice("take an Option<Path<_>>, or give the layer to the handler: .get(path, handler.layer(..))")
    )]
    LayerParameters {
        /// The layer.
        name: &'static str,
        /// Where it was given.
        place: &'static Location<'static>,
        /// What it is around: a handler, or a router that was nested or merged, with the place of that.
        around: String,
    },
    /// A layer of a router without routes, which is a part of another router.
    #[error(
        "the layer {name}, given at {place}, is around nothing: its router, added at {router}, has neither routes nor a \
         fallback{help}",
        help = Advice("a layer is around its own router's routes alone; give it to the outer router")
    )]
    LayerOnNothing {
        /// The layer.
        name: &'static str,
        /// Where it was given.
        place: &'static Location<'static>,
        /// Where its router was nested or merged.
        router: &'static Location<'static>,
    },
    /// The routes cannot be [described](crate::openapi).
    #[cfg(feature = "openapi")]
    #[error(transparent)]
    OpenApi(#[from] crate::openapi::OpenApiFault),
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
    pub(in crate::router) fn check_path(path: &str, place: &'static Location<'static>) -> Result<(), Self> {
        if !path.starts_with('/') {
            return Err(Self::Relative { path: path.to_owned(), place });
        }
        if path.contains(['?', '#']) {
            return Err(Self::Query { path: path.to_owned(), place });
        }
        for segment in path.split('/') {
            if let Some(instead) = variable_elsewhere(segment) {
                let (path, segment) = (path.to_owned(), segment.to_owned());
                return Err(Self::Syntax { path, place, segment, instead });
            }
        }
        Ok(())
    }
}

/// What is wrong with the parameters of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// A brace without its partner, or a parameter without a name.
    #[error("has a brace that is no parameter")]
    Braces,
    /// Nothing tells where one of the two ends.
    #[error("has two parameters in one segment")]
    TwoInOneSegment,
    /// A segment behind `{*rest}`, or text beside it.
    #[error("goes on after the parameter that takes the rest")]
    RestNotLast,
    /// Two parameters of one name, such as one of the prefix of a nested router and one of its routes.
    #[error("has two parameters of one name")]
    ParameterTwice,
    /// More than 25 parameters.
    #[error("has more than 25 parameters")]
    TooManyParameters,
}

impl PathFault {
    fn advice(self) -> &'static str {
        match self {
            Self::Braces => "a parameter is {name}, or {*name} for the rest; write {{ or }} for a brace",
            Self::TwoInOneSegment => "take the segment as one parameter and split its value",
            Self::RestNotLast => "end the path with it",
            Self::ParameterTwice => "give one of them another name",
            Self::TooManyParameters => "take the last ones as {*rest}",
        }
    }
}

/// What is wrong with the media types that a handler consumes or produces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaTypeFault {
    /// It is malformed.
    #[error("is malformed: {0}")]
    Malformed(InvalidMediaType),
    /// It is a range, which no response can have as its type.
    #[error("is a range, and a handler produces one type{help}", help = Advice("list the types"))]
    Range,
    /// There is none.
    #[error("is no media type{help}", help = Advice("name at least one"))]
    None,
}

/// The second path, if it is written in another way.
fn other_spelling(path: &str, other: &str) -> String {
    if path == other { String::new() } else { format!(", there as {other}, which is the same path") }
}

/// The pools that there are, if there are any.
fn known_pools(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (it has {})", names.join(", ")) }
}

/// The router of a fallback.
fn owner(prefix: &str) -> String {
    if prefix.is_empty() { "the router".to_owned() } else { format!("the router at {prefix}") }
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
