//! The checks of conditions: what no request could meet does not start.

use anywire_http::accept::InvalidMediaType;

use crate::conditions::{Conditions, GivenTypes};
use crate::router::build::endpoints::Endpoints;
use crate::router::{Entry, MediaTypeFault, RouteError};

impl Endpoints<'_> {
    /// The conditions of a handler and of the routers around it. Its path has these parameters.
    pub(in crate::router) fn conditions(
        &self,
        route: &str,
        entry: &Entry,
        params: &[Box<str>],
    ) -> Result<Conditions, RouteError> {
        let conditions = self.within_routers(&entry.parts.conditions, entry.scope);
        let guards = &conditions.guards;
        for (index, given) in guards.iter().enumerate() {
            let (guard, place) = (given.guard.to_string(), given.place);
            if let Some(fault) = given.guard.fault() {
                return Err(RouteError::Guard { guard, place, fault: fault.clone() });
            }
            if let Some(name) =
                given.guard.param().filter(|name| params.iter().all(|param| **param != **name))
            {
                let (route, route_place, name) = (route.to_owned(), entry.place, name.to_owned());
                return Err(RouteError::GuardParameter { guard, place, name, route, route_place });
            }
            if let Some(other) = guards[..index].iter().find(|other| other.guard.contradicts(&given.guard)) {
                let (route, other, other_place) = (route.to_owned(), other.guard.to_string(), other.place);
                return Err(RouteError::GuardsContradict { route, guard, place, other, other_place });
            }
        }
        let types = [(&conditions.consumes, true), (&conditions.produces, false)];
        for (given, may_be_range) in types {
            if let Some(given) = given {
                check(given, may_be_range).map_err(|(text, fault)| RouteError::MediaType {
                    text,
                    place: given.place,
                    fault,
                })?;
            }
        }
        Ok(conditions.without_implied())
    }

    /// These conditions within those of a router and of the routers around it.
    pub(in crate::router) fn within_routers(&self, own: &Conditions, scope: usize) -> Conditions {
        let routers = std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent);
        routers.fold(own.clone(), |own, scope| own.within(&self.scopes[scope].conditions))
    }
}

fn check(given: &GivenTypes, may_be_range: bool) -> Result<(), (String, MediaTypeFault)> {
    if given.given.is_empty() {
        return Err((String::new(), MediaTypeFault::None));
    }
    for read in &*given.given {
        match read {
            Err(
                cause @ InvalidMediaType::Essence { found } | cause @ InvalidMediaType::Parameter { found },
            ) => {
                return Err((found.clone(), MediaTypeFault::Malformed(cause.clone())));
            }
            Err(cause) => return Err((String::new(), MediaTypeFault::Malformed(cause.clone()))),
            Ok(of) if of.is_range() && !may_be_range => return Err((of.to_string(), MediaTypeFault::Range)),
            Ok(_) => {}
        }
    }
    Ok(())
}
