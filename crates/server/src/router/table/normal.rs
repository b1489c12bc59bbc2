//! The normal form of a path, so that routes and requests compare equal if they name the same thing.
//!
//! Unreserved octets are decoded, all other encoded ones are written with upper-case digits (RFC 3986 sections 6.2.2.1 and
//! 6.2.2.2), and octets that a path cannot hold are encoded. Reserved octets stay as they are: `%2F` is no `/`. Dot segments
//! stay too, because only the sender of a request may remove them.

use std::fmt::Write;
use std::ops::Range;

/// The normal form of a route. Parameters stay as they are, and a doubled brace becomes an encoded one.
pub(in crate::router) fn of_route(route: &str) -> String {
    let mut normal = String::with_capacity(route.len());
    let mut rest = route;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, from_brace) = rest.split_at(at);
        push(&mut normal, literal.as_bytes());
        // The whole parameter, one brace of a doubled one, or a brace alone, which the tree refuses.
        let (doubled, length) = match (from_brace.get(..2), from_brace.find('}')) {
            (Some(pair @ ("{{" | "}}")), _) => (Some(&pair[..1]), 2),
            (_, Some(end)) => (None, end + 1),
            (_, None) => (None, from_brace.len()),
        };
        match doubled {
            Some(brace) => push(&mut normal, brace.as_bytes()),
            None => normal.push_str(&from_brace[..length]),
        }
        rest = &from_brace[length..];
    }
    push(&mut normal, rest.as_bytes());
    normal
}

/// The normal form of a request's path.
pub(in crate::router) fn of_request(path: &str) -> String {
    let mut normal = String::with_capacity(path.len());
    push(&mut normal, path.as_bytes());
    normal
}

/// What a path has behind a prefix of whole segments: nothing, or text that begins with a `/`. `None` if it is not below the prefix. Both are
/// as they were given.
pub(crate) fn below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    // An encoded slash ends no segment, so that both have as many slashes as their normal forms.
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let end = slashes.chain([path.len()]).nth(prefix.matches('/').count())?;
    let (front, rest) = path.split_at(end);
    (of_request(front) == of_request(prefix)).then_some(rest)
}

/// Whether nothing in this part of a path has another normal form. Says no to some that are normal, such as `%2F`.
#[inline]
pub(in crate::router) fn is_plain(part: &str) -> bool {
    // No early exit: parts are short.
    part.bytes().fold(true, |so_far, byte| so_far & PLAIN[usize::from(byte)])
}

/// Where ranges of the normal form stand in the path as it came. They must be in order.
pub(in crate::router) fn in_original(
    path: &str,
    ranges: impl Iterator<Item = Range<usize>>,
) -> Vec<Range<u32>> {
    let (mut rest, mut reached) = (path.as_bytes(), 0);
    let mut original = move |offset: usize| {
        while reached < offset
            && let Some((octet, after)) = next(rest)
        {
            reached += octet.normal_length();
            rest = after;
        }
        // A head is limited to far less than 4 GiB.
        (path.len() - rest.len()) as u32
    };
    ranges.map(|range| original(range.start)..original(range.end)).collect()
}

/// Whether a prefix names a path below it more closely than a route does: at the first part in which they differ, the route
/// is less definite. All routes at or below the prefix are as close. Both are in normal form.
pub(in crate::router) fn is_closer(prefix: &str, route: &str) -> bool {
    let parts = prefix.split('/').zip(route.split('/'));
    let definite = parts.map(|(prefix, route)| (how_definite(prefix), how_definite(route)));
    definite
        .filter(|(prefix, route)| prefix != route)
        .map(|(prefix, route)| prefix > route)
        .next()
        .unwrap_or(false)
}

/// Whether a prefix is at or below another one. Both are in normal form.
pub(in crate::router) fn is_below(prefix: &str, other: &str) -> bool {
    prefix.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// How much a part of a route says of what it matches, as the tree weighs it.
fn how_definite(part: &str) -> u8 {
    match part {
        _ if !part.contains('{') => 3,
        _ if part.starts_with("{*") => 0,
        _ if part.starts_with('{') && part.ends_with('}') => 1,
        _ => 2,
    }
}

fn push(normal: &mut String, mut rest: &[u8]) {
    while let Some((octet, after)) = next(rest) {
        match octet {
            Octet::Plain(byte) => normal.push(char::from(byte)),
            Octet::Encoded(byte) => {
                let written = write!(normal, "%{byte:02X}");
                debug_assert!(written.is_ok(), "a string takes everything");
            }
        }
        rest = after;
    }
}

/// One octet in its normal form.
enum Octet {
    /// As it is; always ASCII.
    Plain(u8),
    /// As `%` and two digits.
    Encoded(u8),
}

impl Octet {
    fn normal_length(&self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Encoded(_) => 3,
        }
    }
}

/// The first octet, encoded or not, and what follows it. A `%` without two digits stands for itself.
fn next(path: &[u8]) -> Option<(Octet, &[u8])> {
    let (&first, after) = path.split_first()?;
    if first == b'%'
        && let [high, low, after @ ..] = after
        && let (Some(high), Some(low)) = (digit(*high), digit(*low))
    {
        let byte = high << 4 | low;
        let octet = if is_unreserved(byte) { Octet::Plain(byte) } else { Octet::Encoded(byte) };
        return Some((octet, after));
    }
    let octet = if PLAIN[usize::from(first)] { Octet::Plain(first) } else { Octet::Encoded(first) };
    Some((octet, after))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// RFC 3986 section 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What stands in a path without being encoded: `pchar` and `/` (RFC 3986 section 3.3). Not `%`.
static PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = is_unreserved(byte as u8)
            || matches!(
                byte as u8,
                b'!' | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b','
                    | b';'
                    | b'='
                    | b':'
                    | b'@'
                    | b'/'
            );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_paths_have_one_normal_form() {
        for (path, normal) in [
            ("/a/b", "/a/b"),
            ("/%61%2D%2e%5F%7e", "/a-._~"),
            ("/\u{e4}", "/%C3%A4"),
            ("/%c3%a4", "/%C3%A4"),
            ("/a%2fb", "/a%2Fb"),
            ("/%3a:%40@", "/%3A:%40@"),
            ("/a b|\"", "/a%20b%7C%22"),
            ("/100%", "/100%25"),
            ("/%zz%4", "/%25zz%254"),
            ("/%2561", "/%2561"),
            ("/%2e%2E/x", "/../x"),
            ("", ""),
            ("*", "*"),
        ] {
            assert_eq!(of_request(path), normal, "{path}");
            assert_eq!(of_request(normal), normal, "{path}: normal once and for all");
            assert_eq!(of_route(path), normal, "{path}");
            assert!(!is_plain(path) || path == normal, "{path}");
        }
    }

    #[test]
    fn parameters_of_routes_stay_as_they_are() {
        for (route, normal) in [
            ("/\u{e4}/{\u{e4}}-%61/{*rest}", "/%C3%A4/{\u{e4}}-a/{*rest}"),
            ("/{{a}}/{b}", "/%7Ba%7D/{b}"),
            ("/{{{a}}}", "/%7B{a}%7D"),
            ("/{a", "/{a"),
            ("/a}", "/a}"),
            ("/}{", "/}{"),
            ("/{", "/{"),
        ] {
            assert_eq!(of_route(route), normal, "{route}");
        }
    }

    #[test]
    fn a_prefix_is_closer_than_a_route_with_a_variable_in_its_place() {
        for route in ["/{*all}", "/{a}", "/{a}/users", "/{a}/{b}", "/x{a}/y"] {
            assert!(is_closer("/api", route), "{route}");
        }
        for route in ["/api", "/api/{*all}", "/api/{a}", "/apis/{a}", "/", "/api/{a}/b"] {
            assert!(!is_closer("/api", route), "{route}");
        }
        assert!(is_closer("/of/{tenant}/api", "/of/{id}/{*all}"));
        assert!(!is_closer("/of/{tenant}", "/of/{id}/{*all}"));
        assert!(!is_closer("/of/{tenant}", "/of/all/{*all}"));
        assert!(!is_closer("/{tenant}", "/x{a}/{b}"));
    }

    #[test]
    fn a_prefix_ends_where_a_segment_does() {
        for (path, prefix, rest) in [
            ("/api/orders", "/api", Some("/orders")),
            ("/api/orders", "/api/", Some("/orders")),
            ("/api", "/api", Some("")),
            ("/api/", "/api", Some("/")),
            ("/api//x", "/api", Some("//x")),
            ("/%61pi/%2f", "/api", Some("/%2f")),
            ("/\u{e4}/b", "/%c3%A4", Some("/b")),
            ("/a%2fb/c", "/a%2Fb", Some("/c")),
            ("/x", "", Some("/x")),
            ("/x", "/", Some("/x")),
            ("/a/b/c", "/a/b", Some("/c")),
            ("/apis", "/api", None),
            ("/a", "/a/b", None),
            ("/a%2fb", "/a", None),
            ("/API/x", "/api", None),
            ("/api", "api", None),
            ("*", "/api", None),
        ] {
            assert_eq!(below(path, prefix), rest, "{path} behind {prefix}");
        }
    }

    #[test]
    fn ranges_are_found_where_they_came_from() {
        let path = "/\u{e4}/%61%2fb/%zz";
        let normal = of_request(path);
        assert_eq!(normal, "/%C3%A4/a%2Fb/%25zz");
        let parts = ["%C3%A4", "a%2Fb", "%25zz"];
        let ranges = parts.map(|part| {
            let start = normal.find(part).expect("a part");
            start..start + part.len()
        });
        let found = in_original(path, ranges.into_iter());
        let found: Vec<_> =
            found.iter().map(|range| &path[range.start as usize..range.end as usize]).collect();
        assert_eq!(found, ["\u{e4}", "%61%2fb", "%zz"]);
    }
}
