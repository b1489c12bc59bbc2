//! Redirects to the path with or without the `/` at its end.

use std::collections::HashSet;

use anywire_http::{IntoResponse, Response, StatusCode};

use crate::handler::{Handler, HandlerParts};
use crate::request::Request;
use crate::router::table::answers::NOTHING;
use crate::router::table::normal;
use crate::router::{Entry, Route, Router};

impl Router {
    /// Routes for the counterparts of those that are to have one. They have the methods and the guards of their routes, so that what is
    /// not there for a request leads nowhere. `pages` are the routes that are not among those of the router.
    pub(in crate::router) fn redirects(&self, pages: &[Route]) -> Vec<Route> {
        let is_in = |scope: usize| {
            let mut around = std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent);
            around.any(|scope| self.scopes[scope].redirects_slashes)
        };
        let all = || self.routes.iter().chain(pages);
        let redirecting: Vec<&Route> = all().filter(|route| is_in(route.entry.scope)).collect();
        if redirecting.is_empty() {
            return Vec::new();
        }
        let taken: HashSet<String> = all().map(|route| normal::of_route(&route.path)).collect();
        let mut redirects = Vec::new();
        for Route { path, method, entry, .. } in redirecting {
            let Some(counterpart) = counterpart(path) else { continue };
            if taken.contains(&normal::of_route(&counterpart)) {
                continue;
            }
            let conditions = entry.parts.conditions.guards_alone();
            let takes_matrix = entry.parts.needs.takes_matrix();
            let leads = async move |request: Request| redirect(&request, takes_matrix);
            let mut parts = HandlerParts { conditions, ..leads.into_parts() };
            if takes_matrix {
                parts.needs.matrix();
            }
            let entry = Entry { parts, place: entry.place, scope: entry.scope };
            redirects.push(Route { path: counterpart, method: method.clone(), entry, redirects: true });
        }
        redirects
    }
}

/// The path of a route with another end. `None` for the root, and for a rest, which takes both.
fn counterpart(route: &str) -> Option<String> {
    match route.strip_suffix('/') {
        Some(without) => (!without.is_empty()).then(|| without.to_owned()),
        None => (!route.rsplit('/').next()?.starts_with("{*")).then(|| format!("{route}/")),
    }
}

/// Leads to the other path, which has another last segment. If the route takes matrix parameters, a path also ends with `/` if parameters
/// alone follow.
///
/// The location is relative (RFC 3986 section 5.2): a layer may have taken a prefix off the path, or a router of others around this one.
fn redirect(request: &Request, takes_matrix: bool) -> Response {
    // In normal form, because browsers take a `\` for a `/`.
    let asked = normal::of_request(request.path());
    let (above, last) = asked.rsplit_once('/').unwrap_or_default();
    let removes = last.is_empty() || takes_matrix && last.starts_with(';');
    let segment = if removes { above.rsplit('/').next().unwrap_or_default() } else { last };
    // To the first, some clients would go as to another host (RFC 3986 section 4.2). The others would be resolved.
    if asked.starts_with("//") || matches!(segment, "." | "..") {
        return (StatusCode::NOT_FOUND, NOTHING).into_response();
    }
    // With a dot before it, a segment with a `:` is no scheme.
    let mut location = if removes { format!("../{segment}{last}") } else { format!("./{segment}/") };
    if let Some(query) = request.query() {
        location.push('?');
        location.push_str(query);
    }
    StatusCode::PERMANENT_REDIRECT.into_response().header("location", location)
}
