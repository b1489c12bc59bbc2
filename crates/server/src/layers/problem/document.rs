//! A problem document (RFC 9457), and how a response carries what it was made of.

use std::sync::Arc;

use anywire_http::{IntoResponse, Response, StaticHeader, StatusCode};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::respond::Error;

/// What went wrong, as a JSON document of the type `application/problem+json` (RFC 9457). A handler may return one, and an error type
/// of your own may become one; [`Problems`](super::Problems) makes one of each other error.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::layers::Problem;
///
/// let problem = Problem::new(StatusCode::FORBIDDEN)
///     .kind("https://shop.example/problems/out-of-credit")
///     .detail("It costs 50, and the account has 30.")
///     .instance("/account/12345/purchases/7")
///     .member("balance", 30);
/// # drop(problem);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// What is wrong this time, for a person.
    pub detail: Option<String>,
    /// A URL that names the kind of problem; without it, the status says enough (`about:blank`).
    pub kind: Option<String>,
    /// The kind in words; without it, those of the status.
    pub title: Option<String>,
    /// A URL that names this occurrence, absolute or as seen from the request.
    pub instance: Option<String>,
    /// What else a program may read.
    pub members: Map<String, Value>,
}

impl Problem {
    /// With nothing but a status.
    pub fn new(status: StatusCode) -> Self {
        Self { status, detail: None, kind: None, title: None, instance: None, members: Map::new() }
    }

    /// Says what is wrong this time.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Names the kind of problem by a URL.
    pub fn kind(mut self, url: impl Into<String>) -> Self {
        self.kind = Some(url.into());
        self
    }

    /// Says the kind in words.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Names this occurrence by a URL.
    pub fn instance(mut self, url: impl Into<String>) -> Self {
        self.instance = Some(url.into());
        self
    }

    /// Adds a member of its own. Those that RFC 9457 defines are not replaced by it.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Its detail as text, for an API that has no documents. Within [`Problems`](super::Problems) it becomes the document, with all
    /// members. So a library can give its users both.
    ///
    /// ```
    /// use anywire_http::{IntoResponse, Response, StatusCode};
    /// use anywire_server::layers::Problem;
    ///
    /// struct SoldOut { left: u32 }
    ///
    /// impl IntoResponse for SoldOut {
    ///     fn into_response(self) -> Response {
    ///         let problem = Problem::new(StatusCode::CONFLICT).detail(format!("{} are left", self.left));
    ///         problem.member("left", self.left).into_text()
    ///     }
    /// }
    /// # drop(SoldOut { left: 3 }.into_response());
    /// ```
    pub fn into_text(self) -> Response {
        let mut response = match &self.detail {
            Some(detail) => (self.status, detail.clone()).into_response(),
            None => self.status.into(),
        };
        Carried::from(self).put(&mut response);
        response
    }

    /// The document alone.
    pub(super) fn to_document(&self) -> Response {
        let document = Document {
            r#type: self.kind.as_deref().unwrap_or("about:blank"),
            title: self.title.as_deref().or(self.status.canonical_reason()).unwrap_or("unknown"),
            status: self.status.as_u16(),
            detail: self.detail.as_deref(),
            instance: self.instance.as_deref(),
            members: Members(&self.members),
        };
        match serde_json::to_vec(&document) {
            Ok(text) => (self.status, Response::typed(&TYPE, text)).into_response(),
            Err(cause) => Error::from(cause).into_response(),
        }
    }
}

/// The document, in the order in which a person reads it.
#[derive(Serialize)]
struct Document<'p> {
    r#type: &'p str,
    title: &'p str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'p str>,
    #[serde(flatten)]
    members: Members<'p>,
}

/// Those that RFC 9457 does not define.
struct Members<'p>(&'p Map<String, Value>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_own = |name: &str| !["type", "title", "status", "detail", "instance"].contains(&name);
        serializer.collect_map(self.0.iter().filter(|(name, _)| is_own(name)))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.to_document();
        Carried::from(self).put(&mut response);
        response
    }
}

/// What the server refuses by itself.
impl From<&Refusal<'_>> for Problem {
    fn from(refusal: &Refusal<'_>) -> Self {
        let mut problem = Self::new(refusal.status);
        problem.detail = (!refusal.text.is_empty()).then(|| refusal.text.to_owned());
        problem
    }
}

/// The problem that a response tells, among its extensions, for the layer that adds members.
#[derive(Clone)]
pub(crate) struct Carried {
    problem: Arc<Problem>,
    /// The function of [`Problems::each`](super::Problems::each) has seen it.
    is_changed: bool,
}

impl Carried {
    /// Leaves it in a response.
    pub(crate) fn put(self, response: &mut Response) {
        response.extensions_mut().insert(self);
    }

    /// The document of a problem that the function has seen.
    pub(super) fn changed(problem: Problem) -> Response {
        let mut response = problem.to_document();
        Self { problem: Arc::new(problem), is_changed: true }.put(&mut response);
        response
    }

    pub(super) fn is_in(response: &Response) -> bool {
        response.extensions().get::<Self>().is_some()
    }

    /// Takes the problem from a response, with the status that this has by now, and whether the function has seen it.
    pub(super) fn take_from(response: &mut Response) -> Option<(Problem, bool)> {
        // Without making room for extensions if there are none.
        response.extensions().get::<Self>()?;
        let Self { problem, is_changed } = response.extensions_mut().remove()?;
        Some((Problem { status: response.status, ..Arc::unwrap_or_clone(problem) }, is_changed))
    }

    /// Copies it to another response.
    pub(crate) fn pass_on(from: &Response, to: &mut Response) {
        if let Some(carried) = from.extensions().get::<Self>() {
            carried.clone().put(to);
        }
    }
}

impl From<Problem> for Carried {
    fn from(problem: Problem) -> Self {
        Self { problem: Arc::new(problem), is_changed: false }
    }
}

/// The media type of a problem document.
pub(super) const TYPE_NAME: &str = "application/problem+json";

pub(super) static TYPE: StaticHeader = StaticHeader::new("content-type: application/problem+json");
