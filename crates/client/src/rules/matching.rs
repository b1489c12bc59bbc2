//! Conditions, ready to be asked.

use std::borrow::Cow;

use anywire_http::{Headers, Method, Url};
use regex::bytes::Regex;
use url::form_urlencoded;

/// What conditions look at.
pub(super) struct Subject<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a Url,
    pub(super) headers: &'a Headers,
}

/// A condition.
#[derive(Debug)]
pub(super) enum Test {
    Methods(Vec<Method>),
    Authority(Matcher),
    Path(Matcher),
    Header(String, Matcher),
    Query(String, Matcher),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

impl Test {
    pub(super) fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Methods(methods) => methods.contains(subject.method),
            Self::Authority(matcher) => matcher.fits(subject.url.authority().as_bytes()),
            Self::Path(matcher) => matcher.fits(split(subject.url).0.as_bytes()),
            Self::Header(name, matcher) => matcher.fits_any(subject.headers.get_all(name)),
            Self::Query(name, matcher) => {
                let values = pairs(subject.url).filter(|(known, _)| known == name).map(|(_, value)| value);
                matcher.fits_any(values.map(Text))
            }
            Self::All(tests) => tests.iter().all(|test| test.holds(subject)),
            Self::Any(tests) => tests.iter().any(|test| test.holds(subject)),
            Self::Not(test) => !test.holds(subject),
        }
    }
}

/// How a text has to look.
#[derive(Debug)]
pub(super) enum Matcher {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    /// Anchored at both ends.
    Regex(Regex),
    Present(bool),
}

impl Matcher {
    fn fits(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => text == &**exact,
            Self::Prefix(prefix) => text.starts_with(prefix),
            Self::Regex(regex) => regex.is_match(text),
            Self::Present(wanted) => *wanted,
        }
    }

    /// Whether one of them fits; of none, whether none is wanted.
    fn fits_any<T: AsRef<[u8]>>(&self, mut texts: impl Iterator<Item = T>) -> bool {
        match self {
            Self::Present(wanted) => texts.next().is_some() == *wanted,
            _ => texts.any(|text| self.fits(text.as_ref())),
        }
    }
}

struct Text<'a>(Cow<'a, str>);

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The path and the query of a URL.
pub(super) fn split(url: &Url) -> (&str, Option<&str>) {
    let whole = url.path_and_query();
    match whole.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (whole, None),
    }
}

/// The pairs of a query, decoded.
fn pairs(url: &Url) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(split(url).1.unwrap_or_default().as_bytes())
}
