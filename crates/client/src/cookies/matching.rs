//! Which hosts and paths a cookie is for (RFC 6265bis sections 5.1.3 and 5.1.4).

use std::net::IpAddr;

/// Whether `host` is the domain of a cookie, or below it.
pub(super) fn domain_matches(host: &str, domain: &str) -> bool {
    match host.strip_suffix(domain) {
        Some("") => true,
        Some(before) => before.ends_with('.') && !domain.is_empty() && !is_address(host),
        None => false,
    }
}

/// Whether a path is that of a cookie, or below it.
pub(super) fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie that names none: that of its URL up to the last `/`.
pub(super) fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if at > 0 && path.starts_with('/') => &path[..at],
        _ => "/",
    }
}

/// The path of what a request asks for, without its query.
pub(super) fn path_of(path_and_query: &str) -> &str {
    path_and_query.split('?').next().unwrap_or_default()
}

/// The host, and the domains above it.
pub(super) fn domains_of(host: &str) -> impl Iterator<Item = &str> {
    let is_address = is_address(host);
    std::iter::successors(Some(host), move |domain| {
        let (_, above) = domain.split_once('.').filter(|_| !is_address)?;
        Some(above)
    })
}

pub(super) fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// Whether anybody may have a domain below this one, as below `co.uk`. A name of one label that is not listed is taken for such.
pub(super) fn is_public_suffix(domain: &str) -> bool {
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    psl::suffix_str(domain).is_some_and(|suffix| suffix == domain)
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
        assert_eq!(domains_of("c.b.a").collect::<Vec<_>>(), ["c.b.a", "b.a", "a"]);
        assert_eq!(domains_of("10.0.0.1").collect::<Vec<_>>(), ["10.0.0.1"]);
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

    #[test]
    fn suffixes_of_the_list_and_single_labels_are_public() {
        for public in ["com", "co.uk", "github.io", "localhost", "com.", "xn--p1ai", "internal"] {
            assert!(is_public_suffix(public), "{public}");
        }
        for own in ["example.com", "a.co.uk", "me.github.io", "a.internal", "shop.example.com"] {
            assert!(!is_public_suffix(own), "{own}");
        }
    }
}
