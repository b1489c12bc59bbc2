//! A service below a prefix, which it does not see.

use anywire_http::Body;
use anywire_http::body::BoxError;
use http::Uri;
use http::uri::PathAndQuery;
use tower_service::Service;

use super::{ResponseBody, service};
use crate::router::Router;

/// The URI of a request as it came, among the extensions of one whose prefix was stripped.
#[derive(Debug, Clone)]
pub struct OriginalUri(pub Uri);

impl Router {
    /// Answers everything below a prefix by a [service](service), such as an `axum::Router`: the prefix itself, the prefix with a
    /// slash behind it, and all paths below. The prefix may have parameters. A route of this router below the prefix comes first.
    ///
    /// The service sees the path without the prefix, `/` for the prefix itself, and the query as it is. The whole URI is an
    /// [`OriginalUri`] among the extensions. [`MatchedPath`](crate::MatchedPath) is the prefix with `/{*rest}` behind it.
    ///
    /// Without a prefix (`/`) it answers all that has no route here.
    #[track_caller]
    pub fn nest_service<S, B>(self, prefix: &str, nested: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>>
            + Clone
            + Send
            + 'static,
        B: ResponseBody,
    {
        let prefix = prefix.trim_end_matches('/');
        let mut handler = service(nested);
        handler.is_nested = true;
        let router = match prefix {
            "" => self,
            prefix => self.any(prefix, handler.clone()),
        };
        router.any(&format!("{prefix}/"), handler.clone()).any(&format!("{prefix}{REST}"), handler)
    }
}

/// How many segments the prefix of a route has that was made here. Routers around this one may have added some.
pub(super) fn segments(route: &str) -> usize {
    let prefix = route.strip_suffix(REST).or(route.strip_suffix('/')).unwrap_or(route);
    prefix.matches('/').count()
}

/// Takes so many segments off the path of a request.
pub(super) fn strip(mut request: http::Request<Body>, segments: Option<usize>) -> http::Request<Body> {
    let Some(segments) = segments else { return request };
    let mut parts = request.uri().clone().into_parts();
    let Some(path) = &parts.path_and_query else { return request };
    // A piece of a URI, with a slash in front if it has none, is one.
    let Ok(stripped) = PathAndQuery::try_from(without(path.as_str(), segments)) else { return request };
    parts.path_and_query = Some(stripped);
    if let Ok(uri) = Uri::from_parts(parts) {
        let original = std::mem::replace(request.uri_mut(), uri);
        request.extensions_mut().insert(OriginalUri(original));
    }
    request
}

/// Path and query without the first segments of the path.
fn without(path: &str, segments: usize) -> String {
    let (path, query) = path.find('?').map_or((path, ""), |at| path.split_at(at));
    // The text before the first slash is no segment.
    let rest = path.match_indices('/').nth(segments).map_or("/", |(at, _)| &path[at..]);
    format!("{rest}{query}")
}

const REST: &str = "/{*rest}";

#[cfg(test)]
mod tests {
    use super::{segments, without};

    #[test]
    fn a_route_has_the_segments_of_its_prefix() {
        for (route, count) in [("/", 0), ("/{*rest}", 0), ("/a", 1), ("/a/", 1), ("/a/{b}/{*rest}", 2)] {
            assert_eq!(segments(route), count, "{route}");
        }
    }

    #[test]
    fn segments_are_taken_off() {
        for (path, segments, rest) in [
            ("/a", 1, "/"),
            ("/a/", 1, "/"),
            ("/a?q=/x/y", 1, "/?q=/x/y"),
            ("/a/b/c?q", 1, "/b/c?q"),
            ("/a/b/c", 2, "/c"),
            ("/a//b", 1, "//b"),
            ("/%61/b", 1, "/b"),
            ("/a/b", 0, "/a/b"),
            ("*", 1, "/"),
        ] {
            assert_eq!(without(path, segments), rest, "{path}");
        }
    }
}
