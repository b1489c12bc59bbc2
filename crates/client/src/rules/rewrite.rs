//! What a destination does to a request.

use std::borrow::Cow;

use anywire_http::Url;
use anywire_wire::Address;
use regex::Regex;
use url::form_urlencoded;

use super::matching::split;
use crate::Error;
use crate::call::request::CallRequest;
use crate::chain::leave_origin;
use crate::pool::over_tls;

/// A destination that was checked.
#[derive(Debug, Default)]
pub(super) struct Rewrite {
    pub(super) authority: Option<String>,
    pub(super) keep_host: bool,
    pub(super) keep_credentials: bool,
    pub(super) via: Option<Address>,
    pub(super) path: Option<PathChange>,
    pub(super) remove_headers: Vec<String>,
    pub(super) set_headers: Vec<(String, String)>,
    pub(super) add_headers: Vec<(String, String)>,
    /// With those that are set.
    pub(super) remove_query: Vec<String>,
    /// With those that are set, encoded.
    pub(super) add_query: String,
}

/// Another path.
#[derive(Debug)]
pub(super) enum PathChange {
    Whole(String),
    Prefix(String, String),
    /// Anchored at both ends.
    Regex(Regex, String),
}

impl Rewrite {
    /// Changes a request. `sensitive`: names of further fields that stay with their origin.
    pub(super) fn apply(&self, request: &mut CallRequest, sensitive: &[String]) -> Result<(), Error> {
        if let Some(url) = self.url(&request.url)? {
            let leaves = url.origin() != request.url.origin();
            request.of_server &= url.path_and_query() == request.url.path_and_query();
            let before = std::mem::replace(&mut request.url, url);
            if leaves {
                self.leave(request, &before, sensitive)?;
            }
        }
        if let Some(via) = self.via.as_ref().filter(|_| request.options.via.is_none()) {
            request.options.via = Some(if request.url.is_https() { over_tls(via)? } else { via.clone() });
        }
        for name in &self.remove_headers {
            request.remove_header(name);
        }
        for (name, value) in &self.set_headers {
            request.set_header(name, value)?;
        }
        for (name, value) in &self.add_headers {
            request.append_header(name, value)?;
        }
        Ok(())
    }

    /// Its request goes to another origin than the one of `before`.
    fn leave(&self, request: &mut CallRequest, before: &Url, sensitive: &[String]) -> Result<(), Error> {
        if !self.keep_credentials {
            leave_origin(&mut request.headers, sensitive);
        }
        match (self.keep_host, request.headers.contains("host")) {
            (true, false) => request.append_header("host", before.authority()),
            (true, true) => Ok(()),
            (false, _) => {
                request.remove_header("host");
                Ok(())
            }
        }
    }

    /// Another URL, if it is one.
    fn url(&self, url: &Url) -> Result<Option<Url>, Error> {
        if self.authority.is_none()
            && self.path.is_none()
            && self.remove_query.is_empty()
            && self.add_query.is_empty()
        {
            return Ok(None);
        }
        let (path, query) = split(url);
        let origin = match &self.authority {
            Some(authority) => Cow::Owned(format!("{}://{authority}", url.scheme())),
            None => Cow::Borrowed(url.origin()),
        };
        let path = match &self.path {
            Some(change) => change.of(path),
            None => Cow::Borrowed(path),
        };
        let mut text = format!("{origin}{path}");
        if let Some(query) = self.query(query) {
            text.push('?');
            text.push_str(&query);
        }
        Url::parse(&text).map(Some).map_err(|source| Error::of_url(&text, source))
    }

    /// The query. What stays keeps its bytes.
    fn query<'a>(&self, query: Option<&'a str>) -> Option<Cow<'a, str>> {
        if self.remove_query.is_empty() && self.add_query.is_empty() {
            return query.map(Cow::Borrowed);
        }
        let stays = |pair: &&str| {
            let name = form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name);
            !name.is_some_and(|name| self.remove_query.iter().any(|removed| *removed == name))
        };
        let kept = query.into_iter().flat_map(|query| query.split('&').filter(stays));
        let added = Some(&*self.add_query).filter(|added| !added.is_empty());
        let pairs: Vec<_> = kept.chain(added).collect();
        (!pairs.is_empty()).then(|| pairs.join("&").into())
    }
}

impl PathChange {
    fn of<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self {
            Self::Whole(with) => with.clone().into(),
            Self::Prefix(prefix, with) => match path.strip_prefix(&**prefix) {
                Some(rest) => format!("{with}{rest}").into(),
                None => path.into(),
            },
            Self::Regex(regex, with) => regex.replace(path, with),
        }
    }
}
