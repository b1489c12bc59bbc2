//! Domains, from a host to the public suffix above it.

use anywire_http::cookie::is_address;

/// The host, and the domains above it.
pub(super) fn domains_of(host: &str) -> impl Iterator<Item = &str> {
    let is_address = is_address(host);
    std::iter::successors(Some(host), move |domain| {
        let (_, above) = domain.split_once('.').filter(|_| !is_address)?;
        Some(above)
    })
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
    fn an_address_has_no_domain_above_it() {
        assert_eq!(domains_of("c.b.a").collect::<Vec<_>>(), ["c.b.a", "b.a", "a"]);
        assert_eq!(domains_of("10.0.0.1").collect::<Vec<_>>(), ["10.0.0.1"]);
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
