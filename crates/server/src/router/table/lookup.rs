//! Which route of a table answers a request.

use std::ops::Range;
use std::rc::Rc;

use anywire_http::{Method, RequestHead};

use crate::request::{Params, Request};
use crate::router::build::endpoints::{EndpointId, EndpointKind};
use crate::router::table::choice::{Otherwise, Outcome};
use crate::router::table::leaf::Leaf;
use crate::router::table::matrix::Bare;
use crate::router::table::normal;
use crate::router::table::{Literal, Table};

impl Table {
    /// Who answers a request whose path is one of the literals. [`Table::find`] finds the others.
    #[inline]
    pub(crate) fn find_literal(&self, head: &RequestHead) -> Option<EndpointId> {
        self.literal_of(&self.literals, head)
    }

    #[inline(always)]
    fn literal_of(&self, literals: &[Literal], head: &RequestHead) -> Option<EndpointId> {
        // A target that is a literal path has no query to be split off.
        let (method, target) = (head.method(), head.path_and_query());
        let literal = literals.iter().find(|literal| *literal.path == *target)?;
        Some(if *method == Method::GET { literal.get } else { self.leaves[literal.leaf].endpoint(method) })
    }

    /// Finds who answers a request. Its path is matched as it came, and in its normal form if that may differ. If the server
    /// has layers, they answer.
    #[inline]
    pub(crate) fn find(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        match self.around {
            Some(endpoint) => endpoint,
            None => self.search(head, names, params),
        }
    }

    /// Finds the route, within the layers of the server.
    #[inline(never)]
    pub(crate) fn route(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        match self.literal_of(&self.literals_within, head) {
            Some(endpoint) => endpoint,
            None => self.search(head, names, params),
        }
    }

    #[inline]
    fn search(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        if self.has_matrix && path.contains(';') {
            return self.search_matrix(head, names, params);
        }
        let Ok(found) = self.tree.at(path) else {
            return match normal::is_plain(path) {
                true => self.unknown_path(head, path, params),
                false => self.find_normal(head, names, params),
            };
        };
        let leaf = *found.value;
        let mut is_plain = true;
        if !found.params.is_empty() {
            // One pass: each step of the tree's iterator checks name and value for UTF-8.
            let ranges = found.params.iter().map(|(_, value)| {
                is_plain &= normal::is_plain(value);
                let range = range_in(path, value);
                // A head is limited to far less than 4 GiB.
                range.start as u32..range.end as u32
            });
            params.set(&names[leaf], ranges);
        }
        match is_plain {
            true => self.matched(leaf, head, path, params),
            // The text between parameters is the route's, and so in normal form. A parameter that is not may hide that another route
            // has this text.
            false => self.find_normal(head, names, params),
        }
    }

    /// Finds who answers by the normal form of the path. Parameters are those of the path as it came.
    #[cold]
    fn find_normal(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        let normal = normal::of_request(path);
        let Ok(found) = self.tree.at(&normal) else { return self.unknown_path(head, &normal, params) };
        set_in_original(params, path, &normal, &found, names);
        self.matched(*found.value, head, &normal, params)
    }

    /// Finds who answers a path with matrix parameters: a route that has a `;` in its own path, else one that ignores the parameters, else one
    /// to which a `;` is a character as any other.
    #[cold]
    fn search_matrix(&self, head: &RequestHead, names: &[Rc<[Box<str>]>], params: &mut Params) -> EndpointId {
        let path = head.path();
        let normal = normal::of_request(path);
        let whole = self.tree.at(&normal).ok();
        let is_own = whole.as_ref().is_some_and(|found| self.leaves[*found.value].has_semicolon);
        if !is_own && let Some(endpoint) = self.find_without_matrix(head, names, params) {
            return endpoint;
        }
        match whole {
            // A segment of parameters alone is empty to a route that ignores them.
            Some(found) if is_own || !self.leaves[*found.value].ignores_matrix => {
                set_in_original(params, path, &normal, &found, names);
                self.matched(*found.value, head, &normal, params)
            }
            _ => self.unknown_path(head, &normal, params),
        }
    }

    /// Finds a route that takes the matrix parameters of the path.
    fn find_without_matrix(
        &self,
        head: &RequestHead,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> Option<EndpointId> {
        let bare = Bare::of(head.path())?;
        let normal = normal::of_request(&bare.path);
        let found = self.tree.at(&normal).ok()?;
        if !self.leaves[*found.value].ignores_matrix {
            return None;
        }
        if !found.params.is_empty() {
            let ranges = found.params.iter().map(|(_, value)| range_in(&normal, value));
            let ranges = bare.in_original(normal::in_original(&bare.path, ranges));
            params.set(&names[*found.value], ranges.into_iter());
        }
        Some(self.matched(*found.value, head, &normal, params))
    }

    /// What answers at a leaf, unless the path, which is in normal form, is an unknown one of a nested router.
    #[inline]
    fn matched(&self, leaf: usize, head: &RequestHead, normal: &str, params: &mut Params) -> EndpointId {
        let leaf = &self.leaves[leaf];
        if !leaf.yields_to.is_empty()
            && let Some(fallback) = self.fallbacks.nested(normal)
            && leaf.yields_to.contains(&fallback)
        {
            return self.unknown_path(head, normal, params);
        }
        leaf.endpoint(head.method())
    }

    fn unknown_path(&self, head: &RequestHead, normal: &str, params: &mut Params) -> EndpointId {
        params.clear();
        let is_connect = *head.method() == Method::CONNECT;
        if is_connect { self.tunnel } else { self.fallbacks.find(normal) }
    }

    /// Finds who answers a path whose leaf lets a request not in. The fallbacks before which the leaf stands back have not either.
    pub(in crate::router) fn beside_leaf(&self, request: &Request, leaf: &Leaf) -> EndpointId {
        if *request.method() == Method::CONNECT {
            return self.tunnel;
        }
        let mut endpoint = self.fallbacks.find(&normal::of_request(request.path()));
        while leaf.yields_to.contains(&endpoint)
            && let EndpointKind::Choice(choice) = self.endpoints[endpoint.index()].kind
        {
            let choice = &self.choices[choice];
            endpoint = match (choice.choose(request), &choice.otherwise) {
                // To whom a nested router is there, it has fallbacks of others within its layers.
                (Outcome::Endpoint(inside), _) => inside,
                (_, Otherwise::Outer { outer, .. }) => *outer,
                (_, Otherwise::Unknown { .. }) => break,
            };
        }
        endpoint
    }

    /// Finds who answers an unknown path of a nested router whose fallbacks let a request not in: the leaf that has stood back, or the
    /// fallback around it.
    pub(in crate::router) fn beside_fallback(
        &self,
        head: &RequestHead,
        fallback: EndpointId,
        outer: EndpointId,
        names: &[Rc<[Box<str>]>],
        params: &mut Params,
    ) -> EndpointId {
        let normal = normal::of_request(head.path());
        if let Ok(found) = self.tree.at(&normal)
            && let leaf = &self.leaves[*found.value]
            && leaf.yields_to.contains(&fallback)
            && !leaf.yields_to.contains(&outer)
        {
            set_in_original(params, head.path(), &normal, &found, names);
            return leaf.endpoint(head.method());
        }
        outer
    }
}

/// Sets the parameters that were found in the normal form of a path, as they stand in the path as it came.
fn set_in_original(
    params: &mut Params,
    path: &str,
    normal: &str,
    found: &matchit::Match<'_, '_, &usize>,
    names: &[Rc<[Box<str>]>],
) {
    params.clear();
    if !found.params.is_empty() {
        let ranges = found.params.iter().map(|(_, value)| range_in(normal, value));
        params.set(&names[*found.value], normal::in_original(path, ranges).into_iter());
    }
}

/// The range of `part` in `whole`, of which it is a slice.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;
    use crate::router::build::endpoints::RouteName;

    async fn nothing() {}

    /// The route that answers; `None` for the router itself.
    fn find(table: &Table, method: Method, target: &str) -> Option<String> {
        let head = RequestHead::new(method, target).expect("a target");
        let endpoint = table.find(&head, &table.param_names(), &mut Params::default());
        if let Some(literal) = table.find_literal(&head) {
            assert_eq!(endpoint, literal, "{target}");
        }
        Some(table.name(endpoint).to_string()).filter(|name| *name != RouteName::router().to_string())
    }

    #[test]
    fn finds_by_method_and_path() {
        let inner = Router::new().get("/", nothing).post("/{id}", nothing);
        let table = Router::new().get("/", nothing).nest("/a", inner).build().expect("routes are right");
        assert_eq!(find(&table, Method::GET, "/").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::HEAD, "/").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::GET, "/?page=2").as_deref(), Some("GET /"));
        assert_eq!(find(&table, Method::GET, "http://example.com/a?page=2").as_deref(), Some("GET /a"));
        assert_eq!(find(&table, Method::GET, "/a").as_deref(), Some("GET /a"));
        assert_eq!(find(&table, Method::POST, "/a/7").as_deref(), Some("POST /a/{id}"));
        assert_eq!(find(&table, Method::GET, "/a/7"), None);
        assert_eq!(find(&table, Method::OPTIONS, "/a/7"), None);
        assert_eq!(find(&table, Method::GET, "/b"), None);
        let table =
            Router::new().nest("/c/", Router::new().get("/d", nothing)).build().expect("routes are right");
        assert_eq!(find(&table, Method::GET, "/c/d").as_deref(), Some("GET /c/d"));
    }

    #[test]
    fn literal_paths_are_found_without_the_tree() {
        let router = Router::new().get("/a", nothing).post("/a", nothing).get("/{name}", nothing);
        let table = router.build().expect("routes are right");
        let literal = |method: Method, target| {
            table.find_literal(&RequestHead::new(method, target).expect("a target")).map(EndpointId::index)
        };
        assert_eq!(literal(Method::GET, "/a"), Some(0));
        assert_eq!(literal(Method::HEAD, "/a"), Some(0));
        assert_eq!(literal(Method::POST, "/a"), Some(1));
        assert_eq!(literal(Method::PUT, "/a"), Some(2), "the router answers");
        assert_eq!(literal(Method::GET, "/a?b"), None);
        assert_eq!(literal(Method::GET, "/b"), None);
    }

    #[test]
    fn parameters_stand_where_they_matched() {
        assert_eq!(range_in("/a/seven", &"/a/seven"[3..]), 3..8);
    }
}
