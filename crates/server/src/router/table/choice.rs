//! Several handlers for one path and method, or one with conditions: which of them answers is chosen request by request.

use std::borrow::Cow;
use std::sync::Arc;

use anywire_http::accept::{Accept, MediaType};
use anywire_http::{Method, Response};

use crate::conditions::takes;
use crate::conditions::{Conditions, GivenTypes};
use crate::extract::{Produces, fields, media};
use crate::layers::Cors;
use crate::request::{Parts, Request};
use crate::router::EndpointId;
use crate::router::table::answers::{self, NoCandidate};

/// The handlers of a path, or the fallbacks of a prefix, of which at least one has conditions.
pub(in crate::router) struct Choice {
    candidates: Vec<Candidate>,
    /// What answers if each refuses.
    pub(in crate::router) otherwise: Otherwise,
    /// What words a refusal of all of them.
    pub(in crate::router) refused: EndpointId,
    /// The fields of a request on which the choice depends.
    vary: Box<[Box<str>]>,
}

/// A handler that may be chosen.
pub(in crate::router) struct Candidate {
    /// `None` for all.
    pub(in crate::router) method: Option<Method>,
    pub(in crate::router) conditions: Conditions,
    pub(in crate::router) endpoint: EndpointId,
    /// The routers around it, from the outside; none for a fallback.
    pub(in crate::router) within: Box<[usize]>,
    /// What answers a preflight of CORS about it within its own layers, if it has some.
    pub(in crate::router) preflight: Option<EndpointId>,
}

/// What answers if no candidate does.
pub(in crate::router) enum Otherwise {
    /// The handler of unknown paths: the candidates are those of this leaf. The endpoints word what is refused, each within the layers of a
    /// router.
    Unknown { leaf: usize, refused: Box<[(usize, EndpointId)]> },
    /// That of the prefix around this one: the candidates are fallbacks, and this is the endpoint of the choice.
    Outer { fallback: EndpointId, outer: EndpointId },
}

/// What a choice comes to.
pub(in crate::router) enum Outcome {
    Endpoint(EndpointId),
    /// To this handler, with the media type that it is to produce.
    Producing(EndpointId, Produces),
    /// By handlers of which this is the innermost router around all.
    Refused(NoCandidate, usize),
    /// A preflight, within the layers of the handler that it asks about.
    Preflight(NoCandidate, EndpointId),
    Nobody,
}

impl Choice {
    pub(in crate::router) fn new(
        candidates: Vec<Candidate>,
        otherwise: Otherwise,
        refused: EndpointId,
    ) -> Self {
        let mut fields: Vec<&str> = Vec::new();
        for Candidate { conditions, .. } in &candidates {
            fields.extend(conditions.guards.iter().filter_map(|given| given.guard.field()));
            fields.extend(conditions.produces.as_ref().map(|_| "accept"));
        }
        fields.sort_unstable();
        fields.dedup();
        let vary = fields.into_iter().map(Into::into).collect();
        Self { candidates: narrower_first(candidates), otherwise, refused, vary }
    }

    /// Says to caches on which fields the response depends.
    pub(in crate::router) fn mark(&self, response: &mut Response) {
        let headers = &mut response.headers;
        // The handler may have said some of them itself.
        let said = |field: &str| headers.lists("vary", field) || headers.lists("vary", "*");
        let missing: Vec<&str> =
            self.vary.iter().map(|field| &**field).filter(|field| !said(field)).collect();
        if !missing.is_empty() {
            let set = headers.append("vary", missing.join(", "));
            debug_assert!(set.is_ok(), "names are tokens");
        }
    }

    pub(in crate::router) fn choose(&self, request: &Request) -> Outcome {
        let method = request.method();
        let asked = Cors::asked_method(request);
        let of_get = (*method == Method::HEAD).then_some(Method::GET);
        // A preflight is not for the handler of all methods if another one has the method that it asks for.
        let is_for_any = !asked.as_ref().is_some_and(|asked| self.has_preflight_beside_any(asked));
        let any = is_for_any.then_some(None);
        for of in [Some(method), of_get.as_ref()].into_iter().flatten().map(Some).chain(any) {
            let candidates = self.candidates.iter().filter(|candidate| candidate.method.as_ref() == of);
            let open: Vec<_> = candidates.filter(|candidate| candidate.is_open(request)).collect();
            if !open.is_empty() {
                return negotiate(&open, request);
            }
        }
        let open: Vec<_> = self.candidates.iter().filter(|candidate| candidate.is_open(request)).collect();
        let asked_about = asked.as_ref().map_or_else(Vec::new, |asked| self.asked_about(asked, request));
        // A handler of all methods has the one that a preflight asks for.
        let methods = asked_about.iter().filter_map(|candidate| candidate.method.as_ref().or(asked.as_ref()));
        let open = if asked_about.is_empty() { &open } else { &asked_about };
        match answers::allow(open.iter().filter_map(|candidate| candidate.method.as_ref()).chain(methods)) {
            Some(allow) => {
                let takes = if *method == Method::OPTIONS { self.takes(request) } else { Vec::new() };
                let refused = NoCandidate::Method { allow, takes };
                match asked.and_then(|asked| self.preflight(&asked, request)) {
                    Some(preflight) => Outcome::Preflight(refused, preflight),
                    None => Outcome::Refused(refused, common(open)),
                }
            }
            None => Outcome::Nobody,
        }
    }
}

impl Choice {
    /// The handlers that a preflight of CORS asks about, if none of its method takes it as it is: it does not have the fields of the
    /// request that is to follow.
    fn asked_about(&self, asked: &Method, preflight: &Request) -> Vec<&Candidate> {
        let of_method = self.candidates.iter().filter(|candidate| candidate.has(asked));
        if of_method.clone().any(|candidate| candidate.is_open(preflight)) {
            return Vec::new();
        }
        let may_take = |candidate: &&Candidate| {
            candidate.conditions.guards.iter().all(|given| given.guard.takes_after(preflight))
        };
        of_method.filter(may_take).collect()
    }

    /// Whether layers of handlers may answer a preflight that asks for this method, which a handler of its own has.
    fn has_preflight_beside_any(&self, asked: &Method) -> bool {
        let of_method = |candidate: &Candidate| candidate.method.is_some() && candidate.has(asked);
        self.candidates.iter().any(of_method)
            && self.candidates.iter().any(|candidate| candidate.preflight.is_some())
    }

    /// What answers a preflight within layers of a handler: if it is certain that the request that is to follow is this handler's, since
    /// the permission of another one must not lead there.
    fn preflight(&self, asked: &Method, preflight: &Parts) -> Option<EndpointId> {
        let may_take = |candidate: &&Candidate| {
            candidate.has(asked)
                && candidate.conditions.guards.iter().all(|given| given.guard.takes_after(preflight))
        };
        let mut possible: Vec<&Candidate> = self.candidates.iter().filter(may_take).collect();
        // In the order in which they are asked; see `negotiate`.
        let order = |candidate: &&Candidate| {
            let method = candidate.method.as_ref().map(|own| own != asked);
            (method.is_none(), method, std::cmp::Reverse(candidate.conditions.rank()))
        };
        possible.sort_by_key(order);
        let (first, others) = possible.split_first()?;
        let takes_all = first.is_open(preflight)
            && first.conditions.consumes.is_none()
            && first.conditions.produces.is_none()
            // One with types of as high a rank comes before it.
            && others.iter().all(|other| other.conditions.consumes.is_none() || order(other) > order(first));
        first.preflight.filter(|_| others.is_empty() || takes_all)
    }

    /// What methods take whose handlers all say it.
    fn takes(&self, request: &Request) -> Vec<(Method, Vec<Arc<MediaType>>)> {
        let of_method = |method: Method| {
            let candidates =
                self.candidates.iter().filter(|candidate| candidate.method.as_ref() == Some(&method));
            let mut open = candidates.filter(|candidate| candidate.is_open(request)).peekable();
            open.peek()?;
            let takes: Option<Vec<_>> =
                open.map(|candidate| candidate.conditions.consumes.as_ref()).collect();
            Some((method, distinct(takes?.into_iter().flat_map(GivenTypes::types))))
        };
        takes::METHODS.into_iter().filter_map(of_method).collect()
    }
}

impl Candidate {
    /// Whether it answers this method.
    fn has(&self, asked: &Method) -> bool {
        match &self.method {
            Some(method) => method == asked || (*method == Method::GET && *asked == Method::HEAD),
            None => true,
        }
    }

    /// Whether all guards let the request through.
    fn is_open(&self, parts: &Parts) -> bool {
        self.conditions.guards.iter().all(|given| given.guard.takes(parts))
    }

    fn produces(&self) -> impl Iterator<Item = &Arc<MediaType>> + Clone {
        self.conditions.produces.iter().flat_map(GivenTypes::types)
    }
}

/// In the order of adding, except that of two for the same method the one comes first whose requests the other would take, too.
fn narrower_first(given: Vec<Candidate>) -> Vec<Candidate> {
    let mut ordered: Vec<Candidate> = Vec::with_capacity(given.len());
    for candidate in given {
        let is_wider = |other: &Candidate| {
            other.method == candidate.method && other.conditions.cover(&candidate.conditions)
        };
        let place = ordered.iter().position(is_wider).unwrap_or(ordered.len());
        ordered.insert(place, candidate);
    }
    ordered
}

/// The one of these whose media types fit. Those that ask most come first.
fn negotiate(open: &[&Candidate], request: &Request) -> Outcome {
    let has_content = request.has_body() || *request.method() == Method::QUERY;
    let sent = match media::content_type(request.headers()) {
        // A query of no type means nothing (RFC 10008 section 2).
        None if *request.method() == Method::QUERY => Some(""),
        // Content without a type is a sequence of octets (RFC 9110 section 8.3).
        None => has_content.then_some("application/octet-stream"),
        sent => sent,
    };
    // How precisely a candidate says that it takes this; `None` if it does not. Some clients state a type without content.
    let precision = |candidate: &Candidate| {
        let (Some(consumes), Some(sent)) = (&candidate.conditions.consumes, sent) else { return Some(None) };
        let taking = consumes.types().filter(|of| of.includes_text(sent));
        let best = taking.map(|of| of.precision()).max();
        (best.is_some() || !has_content).then_some(best)
    };
    let fitting = open.iter().filter_map(|candidate| Some((precision(candidate)?, *candidate)));
    let mut fitting: Vec<_> = fitting.collect();
    // Those that ask most come first, and a type before a range that includes it. Stable: of two alike, the narrower one stays first.
    let order = |(precision, of): &(_, &Candidate)| std::cmp::Reverse((of.conditions.rank(), *precision));
    fitting.sort_by_key(order);
    let Some((_, first)) = fitting.first() else {
        let consumed = open.iter().flat_map(|candidate| &candidate.conditions.consumes);
        let takes = distinct(consumed.flat_map(GivenTypes::types));
        return Outcome::Refused(NoCandidate::ContentType { takes }, common(open));
    };
    if fitting.iter().all(|(_, candidate)| candidate.conditions.produces.is_none()) {
        return Outcome::Endpoint(first.endpoint);
    }
    let format = fitting.iter().find_map(|(_, candidate)| candidate.conditions.format.as_deref());
    let wanted = Wanted::of(request, format);
    for alike in fitting.chunk_by(|one, other| order(one) == order(other)) {
        let offers =
            alike.iter().flat_map(|(_, candidate)| candidate.produces().map(|of| (candidate.endpoint, of)));
        if let Some((endpoint, produced)) = wanted.best(offers) {
            return Outcome::Producing(endpoint, Produces(Arc::clone(produced)));
        }
        if let Some((_, any)) = alike.iter().find(|(_, candidate)| candidate.conditions.produces.is_none()) {
            return Outcome::Endpoint(any.endpoint);
        }
    }
    let offers = listed(fitting.iter().flat_map(|(_, candidate)| candidate.produces()));
    Outcome::Refused(NoCandidate::Accept { offers }, common(open))
}

/// The innermost router around all of these. The others are not there for the request, nor are their layers.
fn common(open: &[&Candidate]) -> usize {
    let shared = open.iter().map(|candidate| &candidate.within[..]).reduce(|one, other| {
        let alike = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        &one[..alike]
    });
    shared.and_then(<[usize]>::last).copied().unwrap_or(0)
}

/// Which media types a peer wants.
enum Wanted<'r> {
    /// By the parameter of the query.
    Format(Cow<'r, str>),
    Accept(Accept<'r>),
}

impl<'r> Wanted<'r> {
    fn of(request: &'r Request, format: Option<&str>) -> Self {
        let named = format.and_then(|format| {
            let mut fields = fields::each(request.query().unwrap_or_default());
            fields.find_map(|(name, value)| (*name == *format).then_some(value))
        });
        match named {
            // What is no text names no format.
            Some(name) => Self::Format(name.unwrap_or_default()),
            None => Self::Accept(Accept::of(request.headers())),
        }
    }

    fn best<'m>(
        &self,
        mut offers: impl Iterator<Item = (EndpointId, &'m Arc<MediaType>)> + Clone,
    ) -> Option<(EndpointId, &'m Arc<MediaType>)> {
        match self {
            Self::Format(name) => offers.find(|(_, of)| is_called(of, name)),
            Self::Accept(accept) => {
                let best = accept.best(offers.clone().map(|(_, of)| &**of))?;
                offers.find(|(_, of)| std::ptr::eq(&***of, best))
            }
        }
    }
}

/// Whether a format is this type: by its whole name, its subtype or the suffix of that.
fn is_called(of: &MediaType, name: &str) -> bool {
    let is_named = |part: &str| part.eq_ignore_ascii_case(name);
    is_named(of.essence()) || is_named(of.subtype()) || of.suffix().is_some_and(is_named)
}

/// Each type once.
fn distinct<'m>(types: impl Iterator<Item = &'m Arc<MediaType>>) -> Vec<Arc<MediaType>> {
    let mut all: Vec<Arc<MediaType>> = Vec::new();
    for of in types {
        if all.iter().all(|other| other.as_str() != of.as_str()) {
            all.push(Arc::clone(of));
        }
    }
    all
}

fn listed<'m>(types: impl Iterator<Item = &'m Arc<MediaType>>) -> String {
    let all = distinct(types);
    all.iter().map(|of| of.as_str()).collect::<Vec<_>>().join(", ")
}
