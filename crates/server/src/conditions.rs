//! What a request must meet, beside method and path, for a handler: guards, the type of its body, the types that it accepts.

pub mod guards;
pub(crate) mod takes;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use anywire_http::accept::{InvalidMediaType, MediaType};

use self::guards::Guard;

/// All conditions of a handler, or of a router.
#[derive(Clone, Default)]
pub(crate) struct Conditions {
    pub(crate) guards: Vec<GivenGuard>,
    pub(crate) consumes: Option<GivenTypes>,
    pub(crate) produces: Option<GivenTypes>,
    /// The parameter of the query that names the format of the response.
    pub(crate) format: Option<Arc<str>>,
}

/// A guard and where it was given.
#[derive(Clone)]
pub(crate) struct GivenGuard {
    pub(crate) guard: Guard,
    pub(crate) place: &'static Location<'static>,
}

/// Media types and where they were given.
#[derive(Clone)]
pub(crate) struct GivenTypes {
    /// As they were given; the checks at start find those that are none.
    pub(crate) given: Arc<[Result<Arc<MediaType>, InvalidMediaType>]>,
    pub(crate) place: &'static Location<'static>,
}

impl GivenTypes {
    pub(crate) fn new(types: impl MediaTypes, place: &'static Location<'static>) -> Self {
        let given = types.into_media_types().into_iter().map(|read| read.map(Arc::new)).collect();
        Self { given, place }
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Arc<MediaType>> + Clone {
        self.given.iter().filter_map(|read| read.as_ref().ok())
    }
}

impl Conditions {
    pub(crate) fn guarded(guard: impl Into<Guard>, place: &'static Location<'static>) -> Self {
        Self { guards: vec![GivenGuard { guard: guard.into(), place }], ..Self::default() }
    }

    pub(crate) fn consuming(types: impl MediaTypes, place: &'static Location<'static>) -> Self {
        Self { consumes: Some(GivenTypes::new(types, place)), ..Self::default() }
    }

    pub(crate) fn producing(types: impl MediaTypes, place: &'static Location<'static>) -> Self {
        Self { produces: Some(GivenTypes::new(types, place)), ..Self::default() }
    }

    /// These and the outer ones. Guards add up; of media types those inside hold.
    pub(crate) fn within(&self, outer: &Self) -> Self {
        Self {
            guards: outer.guards.iter().chain(&self.guards).cloned().collect(),
            consumes: self.consumes.clone().or_else(|| outer.consumes.clone()),
            produces: self.produces.clone().or_else(|| outer.produces.clone()),
            format: self.format.clone().or_else(|| outer.format.clone()),
        }
    }

    /// Without those that ask for media types: unknown paths have none.
    pub(crate) fn guards_alone(&self) -> Self {
        Self { guards: self.guards.clone(), ..Self::default() }
    }

    /// Whether each request meets them.
    pub(crate) fn are_none(&self) -> bool {
        self.guards.is_empty() && self.consumes.is_none() && self.produces.is_none()
    }

    /// Without guards that say no more than another one: `query("a")` beside `query("a").equals("1")`. They would count as if they did.
    pub(crate) fn without_implied(mut self) -> Self {
        let implies = |one: &GivenGuard, other: &GivenGuard| one.guard.implies(&other.guard);
        let mut kept: Vec<GivenGuard> = Vec::with_capacity(self.guards.len());
        for given in self.guards {
            if kept.iter().all(|other| !implies(other, &given)) {
                kept.retain(|other| !implies(&given, other));
                kept.push(given);
            }
        }
        self.guards = kept;
        self
    }

    /// How much they ask: handlers that ask more come first.
    pub(crate) fn rank(&self) -> usize {
        self.guards.len() + usize::from(self.consumes.is_some())
    }

    /// Whether a handler with these takes each request that one with the others takes, and as well: before that one it leaves it nothing.
    pub(crate) fn cover(&self, other: &Self) -> bool {
        let is_implied = |own: &GivenGuard| other.guards.iter().any(|given| given.guard.implies(&own.guard));
        // Types and ranges are compared as they stand: a type comes before a range that includes it, whichever was added first.
        let has_all = |own: &Option<GivenTypes>, other: &Option<GivenTypes>| match (own, other) {
            (Some(own), Some(other)) => other.types().all(|of| own.types().any(|own| own == of)),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.guards.iter().all(is_implied)
            && has_all(&self.consumes, &other.consumes)
            && has_all(&self.produces, &other.produces)
    }

    /// Whether a handler with the others never answers beside one with these, in whatever order they are added.
    pub(crate) fn leave_nothing_to(&self, other: &Self) -> bool {
        self.cover(other) && (self.rank() > other.rank() || other.cover(self))
    }

    /// Whether one of two handlers with these and with the others never answers.
    pub(crate) fn leave_one_idle(&self, other: &Self) -> bool {
        self.leave_nothing_to(other) || other.leave_nothing_to(self)
    }
}

/// For the table of routes: empty if there are none.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if !self.guards.is_empty() {
            let guards: Vec<_> = self.guards.iter().map(|given| given.guard.to_string()).collect();
            parts.push(format!("when {}", guards.join(" and ")));
        }
        for (verb, given) in [("consumes", &self.consumes), ("produces", &self.produces)] {
            if let Some(given) = given {
                let types: Vec<&str> = given.types().map(|of| of.as_str()).collect();
                parts.push(format!("{verb} {}", types.join(", ")));
            }
        }
        f.write_str(&parts.join(" "))
    }
}

/// One media type or several, as text or read before: the argument of [`Handler::consumes`](crate::Handler::consumes) and [`Handler::produces`](crate::Handler::produces). A text that is no
/// media type is an error at start.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no media types",
    note = "give a text such as \"application/json\", an array or a vector of them, or a `MediaType`"
)]
pub trait MediaTypes {
    /// Reads them.
    #[doc(hidden)]
    fn into_media_types(self) -> Vec<Result<MediaType, InvalidMediaType>>;
}

impl MediaTypes for &str {
    fn into_media_types(self) -> Vec<Result<MediaType, InvalidMediaType>> {
        vec![MediaType::parse(self)]
    }
}

impl MediaTypes for MediaType {
    fn into_media_types(self) -> Vec<Result<MediaType, InvalidMediaType>> {
        vec![Ok(self)]
    }
}

impl<T: MediaTypes, const N: usize> MediaTypes for [T; N] {
    fn into_media_types(self) -> Vec<Result<MediaType, InvalidMediaType>> {
        self.into_iter().flat_map(MediaTypes::into_media_types).collect()
    }
}

impl<T: MediaTypes> MediaTypes for Vec<T> {
    fn into_media_types(self) -> Vec<Result<MediaType, InvalidMediaType>> {
        self.into_iter().flat_map(MediaTypes::into_media_types).collect()
    }
}
