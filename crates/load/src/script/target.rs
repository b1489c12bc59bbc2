//! The URLs of a list or a script file: one origin for all of them, and a target of each, which may be a template.

use anywire_advice::Advice;
use anywire_http::Url;
use anywire_http::url::{UrlError, redact};

use super::set::Text;

/// A URL that cannot be one of a set (the caller's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It is no URL.
    #[error("{url:?} is no URL that can be loaded")]
    Url {
        /// The text, without a password.
        url: String,
        /// What is wrong with it.
        #[source]
        source: UrlError,
    },
    /// Another URL of the set has another host: a run loads one.
    #[error("{url:?} is not of {origin}, which the URLs before it are of{help}", help = Advice("load each host in a run of its own"))]
    OtherOrigin {
        /// The text, without a password.
        url: String,
        /// The origin of those before it.
        origin: String,
    },
}

/// The origin that all URLs of a set have.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// Of the first URL that has one.
    pub(super) origin: Option<String>,
}

impl Origins {
    /// The target of a URL; of a path alone the path.
    pub(super) fn target(&mut self, url: &str, is_template: bool) -> Result<Text, TargetError> {
        let wrong = |source| TargetError::Url { url: redact(url), source };
        let text =
            |target: &str| if is_template { Text::template(target.to_owned()) } else { Text::from(target) };
        if url.starts_with('/') {
            return Ok(text(url));
        }
        let (origin, target) = split_url(url);
        let parsed = Url::parse(&origin).map_err(wrong)?;
        match &self.origin {
            Some(known) if known != parsed.origin() => {
                return Err(TargetError::OtherOrigin { url: redact(url), origin: known.clone() });
            }
            _ => self.origin = Some(parsed.origin().to_owned()),
        }
        if target.contains("{{") {
            return Ok(text(&target));
        }
        // Its path may have to be encoded.
        let whole = Url::parse(&format!("{origin}{target}")).map_err(wrong)?;
        Ok(text(whole.path_and_query()))
    }
}

/// The origin of a URL, and its target; neither need be right. Without a scheme it is `http://`.
///
/// ```
/// use anywire_load::script::split_url;
///
/// assert_eq!(split_url("localhost:80/a/{{n}}?b"), ("http://localhost:80".to_owned(), "/a/{{n}}?b".to_owned()));
/// assert_eq!(split_url("https://h"), ("https://h".to_owned(), "/".to_owned()));
/// ```
pub fn split_url(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let slash = if target.starts_with('/') { "" } else { "/" };
    (format!("{scheme}://{authority}"), format!("{slash}{target}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_origin_give_their_targets() {
        let mut origins = Origins::default();
        let mut target = |url: &str| {
            origins.target(url, true).map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
        };
        assert_eq!(target("/first").unwrap(), "/first");
        assert_eq!(target("http://H.test:80/a b").unwrap(), "/a%20b");
        assert_eq!(target("http://h.test/a?b={{n}}").unwrap(), "/a?b={{n}}");
        assert_eq!(target("h.test").unwrap(), "/");
        assert!(matches!(target("https://h.test/"), Err(TargetError::OtherOrigin { .. })));
        assert!(matches!(target("http://{{n}}/"), Err(TargetError::Url { .. })));
        assert_eq!(origins.origin.as_deref(), Some("http://h.test"));
    }
}
