//! The routes that serve a document and its page.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use anywire_http::{Bytes, IntoResponse, Method, Response, StatusCode};

use super::{Document, HandlerDoc, Info};
use crate::handler::{Handler, HandlerParts};
use crate::request::Request;

/// A document that a router serves, as it was asked for.
#[derive(Clone)]
pub(crate) struct Pages {
    /// That of the page, as it was given.
    pub(crate) path: String,
    pub(crate) info: Info,
    pub(crate) place: &'static Location<'static>,
    /// It describes the routes of the router around the one that it is in.
    pub(crate) is_of_outer: bool,
}

/// What is served. It is there once all routes are checked.
pub(crate) type ServedFiles = Arc<OnceLock<Files>>;

/// A document and its page.
pub(crate) struct Files {
    json: File,
    page: File,
}

/// A text, and what tells it from an earlier one.
struct File {
    text: Bytes,
    tag: String,
}

impl Pages {
    pub(crate) fn new(path: &str, info: Info, place: &'static Location<'static>) -> Self {
        Self { path: path.to_owned(), info, place, is_of_outer: false }
    }

    /// That of the page, and that of the document.
    pub(crate) fn paths(&self) -> [String; 2] {
        match self.path.trim_end_matches('/') {
            "" => ["/".to_owned(), "/openapi.json".to_owned()],
            path => [path.to_owned(), format!("{path}.json")],
        }
    }

    /// Of each: path, media type and handler.
    pub(crate) fn routes(&self, files: &ServedFiles) -> [(String, &'static str, HandlerParts); 2] {
        let [page, json] = self.paths();
        let (of_page, of_json) = (Arc::clone(files), Arc::clone(files));
        let page_handler =
            async move |request: Request| of_page.get().map(|files| files.page.answer(&request, PAGE));
        let json_handler =
            async move |request: Request| of_json.get().map(|files| files.json.answer(&request, JSON));
        [(page, "text/html", parts(page_handler)), (json, "application/json", parts(json_handler))]
    }
}

/// A handler that is in no document.
fn parts<H: Handler<Args>, Args: 'static>(handler: H) -> HandlerParts {
    let mut parts = handler.into_parts();
    parts.doc = Some(Arc::new(HandlerDoc { is_hidden: true, ..HandlerDoc::default() }));
    parts
}

impl Files {
    pub(crate) fn new(document: &Document, href: Option<&str>) -> Self {
        Self { json: File::new(document.to_json()), page: File::new(document.page(href)) }
    }
}

impl File {
    fn new(text: String) -> Self {
        // Always of the same key, so that a text has one tag in all processes.
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { tag: format!("\"{:016x}\"", hasher.finish()), text: text.into() }
    }

    fn answer<const N: usize>(&self, request: &Request, fields: [(&str, &str); N]) -> Response {
        let response = match self.is_known(request) {
            true => Response::new(StatusCode::NOT_MODIFIED),
            false => (fields, self.text.clone()).into_response(),
        };
        response.header("etag", &self.tag).header("cache-control", "no-cache")
    }

    /// Whether the peer has this text (RFC 9110 section 13.1.2).
    fn is_known(&self, request: &Request) -> bool {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return false;
        }
        let fields =
            request.headers().get_all("if-none-match").filter_map(|field| str::from_utf8(field).ok());
        let mut tags = fields.flat_map(|field| field.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag)
    }
}

const JSON: [(&str, &str); 2] = [("content-type", "application/json"), ("x-content-type-options", "nosniff")];

const PAGE: [(&str, &str); 4] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", super::page::POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
];
