//! What the content type of a request says of its body.

use anywire_http::Headers;

use super::Rejection;
use crate::request::{Parts, Request};

/// Refuses a body of another type than the extractor reads.
///
/// A request without a type, or with several, is of another type.
pub(super) fn expect(
    parts: &Parts,
    expected: &'static str,
    is_expected: impl FnOnce(&str) -> bool,
) -> Result<(), Rejection> {
    let found = content_type(parts.headers()).unwrap_or_default();
    let essence = found.split_once(';').map_or(found, |(essence, _)| essence);
    if is_expected(essence.trim_ascii()) {
        return Ok(());
    }
    Err(Rejection::ContentType { found: found.to_owned(), expected, method: parts.method().clone() })
}

/// Refuses a character set other than UTF-8, if the request names one. `us-ascii` is a part of UTF-8.
pub(super) fn expect_utf8(parts: &Parts) -> Result<(), Rejection> {
    let found = content_type(parts.headers()).unwrap_or_default();
    charset(found.split_once(';').map_or("", |(_, parameters)| parameters))
}

/// The type of the content. Empty if there are several, or if it is no text: code that looks at one of them and code that looks at another
/// would not agree on what the content is.
pub(crate) fn content_type(headers: &Headers) -> Option<&str> {
    let mut types = headers.get_all("content-type");
    let first = types.next()?;
    let only = types.next().is_none().then_some(first);
    Some(only.and_then(|only| str::from_utf8(only).ok()).unwrap_or_default())
}

/// Refuses a body that is coded, such as by gzip. Coded bytes may happen to be of the form that is expected.
pub(crate) fn expect_uncoded(request: &Request) -> Result<(), Rejection> {
    match request.headers().content_coding().filter(|_| request.has_body()) {
        Some(coding) => Err(Rejection::Coded { coding }),
        None => Ok(()),
    }
}

fn charset(parameters: &str) -> Result<(), Rejection> {
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let found = parameters.find(|(name, _)| name.trim_ascii().eq_ignore_ascii_case("charset"));
    let Some((_, charset)) = found else { return Ok(()) };
    let charset = charset.trim_ascii().trim_matches('"');
    match ["utf-8", "utf8", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(charset)) {
        true => Ok(()),
        false => Err(Rejection::Charset { found: charset.to_owned() }),
    }
}

/// `application/json`, and `application/*+json`.
pub(super) fn is_json(essence: &str) -> bool {
    let Some(subtype) = strip(essence, "application/") else { return false };
    let suffix = subtype.len().checked_sub("+json".len()).and_then(|at| subtype.get(at..));
    subtype.eq_ignore_ascii_case("json") || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"))
}

pub(super) fn is_form(essence: &str) -> bool {
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_json() {
        for yes in ["application/json", "Application/JSON", "application/problem+json"] {
            assert!(is_json(yes), "{yes}");
        }
        for no in ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "json"] {
            assert!(!is_json(no), "{no}");
        }
    }

    #[test]
    fn character_sets() {
        for yes in
            ["", "charset=utf-8", " Charset = \"UTF-8\" ", "version=1; charset=utf8", "charset=us-ascii"]
        {
            assert!(charset(yes).is_ok(), "{yes}");
        }
        for no in ["charset=utf-16", "version=1;charset=\"iso-8859-1\"", "charset="] {
            assert!(charset(no).is_err(), "{no}");
        }
    }
}
