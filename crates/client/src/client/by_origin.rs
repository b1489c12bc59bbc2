//! What is said of some origins of a client, such as that several addresses serve them.

use anywire_http::Url;
use anywire_http::url::UrlError;

use crate::Error;

/// Values of some origins, as a builder was told. What is said last of an origin counts.
#[derive(Debug, Clone)]
pub(crate) struct ByOrigin<T> {
    list: Vec<(String, T)>,
    /// A text that is no origin, and why: the error of each call.
    fault: Option<(String, UrlError)>,
}

impl<T> ByOrigin<T> {
    pub(crate) fn add(&mut self, origin: &str, value: T) {
        match Url::parse(origin) {
            Ok(url) => {
                self.list.retain(|(known, _)| known != url.origin());
                self.list.push((url.origin().to_owned(), value));
            }
            Err(fault) => self.fault = Some((origin.to_owned(), fault)),
        }
    }

    /// Whether nothing is said of any.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.fault.is_none()
    }

    pub(crate) fn has(&self, origin: &str) -> bool {
        self.list.iter().any(|(known, _)| known == origin)
    }

    /// What is said of an origin.
    pub(crate) fn of(&self, origin: &str) -> Result<Option<&T>, Error> {
        self.check()?;
        Ok(self.list.iter().find(|(known, _)| known == origin).map(|(_, value)| value))
    }

    /// Whether all that was named are origins.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.fault {
            Some((text, source)) => Err(Error::of_url(text, *source)),
            None => Ok(()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.list.iter().map(|(origin, value)| (&**origin, value))
    }
}

impl<T> Default for ByOrigin<T> {
    fn default() -> Self {
        Self { list: Vec::new(), fault: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_last_counts() {
        let mut said = ByOrigin::default();
        assert!(said.is_empty());
        for (origin, value) in [("http://a/x", 1), ("https://a", 2), ("HTTP://A:80", 3)] {
            said.add(origin, value);
        }
        assert_eq!(said.of("http://a").ok(), Some(Some(&3)));
        assert_eq!(said.of("http://b").ok(), Some(None));
        assert_eq!(said.iter().count(), 2);
        assert!(said.has("https://a") && !said.has("https://b") && !said.is_empty());
    }

    #[test]
    fn what_is_no_origin_is_an_error_of_all() {
        let mut said = ByOrigin::default();
        said.add("no origin", 1);
        assert!(!said.is_empty() && said.check().is_err());
        assert!(said.of("http://a").is_err());
    }
}
