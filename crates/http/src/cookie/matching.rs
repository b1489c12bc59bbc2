//! Which hosts and paths a cookie is for (RFC 6265bis sections 5.1.3 and 5.1.4).

use std::net::IpAddr;

/// Whether a host, in lower case, is the domain of a cookie or below it.
///
/// ```
/// use anywire_http::cookie::domain_matches;
///
/// assert!(domain_matches("a.shop.example", "shop.example"));
/// assert!(!domain_matches("myshop.example", "shop.example"));
/// ```
pub fn domain_matches(host: &str, domain: &str) -> bool {
    match host.strip_suffix(domain) {
        Some("") => true,
        Some(before) => before.ends_with('.') && !domain.is_empty() && !is_address(host),
        None => false,
    }
}

/// Whether a path, without a query, is that of a cookie or below it.
///
/// ```
/// use anywire_http::cookie::path_matches;
///
/// assert!(path_matches("/shop/cart", "/shop"));
/// assert!(!path_matches("/shopping", "/shop"));
/// ```
pub fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie that names none: that of its URL up to the last `/`.
pub fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if at > 0 && path.starts_with('/') => &path[..at],
        _ => "/",
    }
}

/// The path of what a request asks for, without its query.
pub(super) fn path_of(path_and_query: &str) -> &str {
    path_and_query.split('?').next().unwrap_or_default()
}

/// Whether a host is an IP address, which is below no domain.
pub fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_their_domain_and_those_above() {
        for (host, domain) in
            [("a.example", "a.example"), ("b.a.example", "a.example"), ("10.0.0.1", "10.0.0.1")]
        {
            assert!(domain_matches(host, domain), "{host} {domain}");
        }
        for (host, domain) in [
            ("a.example", "b.a.example"),
            ("ba.example", "a.example"),
            ("10.0.0.1", "0.0.1"),
            ("10.0.0.1", "0.0.0.1"),
            ("a.example", ""),
            ("a.example", ".example"),
            ("::1", "1"),
        ] {
            assert!(!domain_matches(host, domain), "{host} {domain}");
        }
    }

    #[test]
    fn paths_match_in_whole_parts() {
        for (path, of_cookie) in
            [("/a", "/a"), ("/a/b", "/a"), ("/a/b", "/a/"), ("/", "/"), ("/x", "/"), ("/a/", "/a")]
        {
            assert!(path_matches(path, of_cookie), "{path} {of_cookie}");
        }
        for (path, of_cookie) in [("/ab", "/a"), ("/a", "/a/"), ("/", "/a"), ("/A", "/a")] {
            assert!(!path_matches(path, of_cookie), "{path} {of_cookie}");
        }
        let defaults = [
            ("/", "/"),
            ("/a", "/"),
            ("/a/", "/a"),
            ("/a/b", "/a"),
            ("/a/b/", "/a/b"),
            ("*", "/"),
            ("", "/"),
        ];
        for (path, default) in defaults {
            assert_eq!(default_path(path), default, "{path}");
        }
    }
}
