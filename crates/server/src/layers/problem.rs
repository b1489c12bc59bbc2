//! Errors as problem documents.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use anywire_http::{IntoResponse, Response, StaticHeader, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

use super::request_id::RequestId;
use crate::layer::hook::{Hook, by_hook};
use crate::request::Request;
use crate::respond::Error;

/// What went wrong, as a JSON document of the type `application/problem+json` (RFC 9457). A handler may return one; [`Problems`] makes
/// one of each other error.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::layers::Problem;
///
/// let problem = Problem::new(StatusCode::FORBIDDEN)
///     .kind("https://shop.example/problems/out-of-credit")
///     .detail("It costs 50, and the account has 30.")
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
    /// What else a program may read.
    pub members: Map<String, Value>,
}

impl Problem {
    /// With nothing but a status.
    pub fn new(status: StatusCode) -> Self {
        Self { status, detail: None, kind: None, title: None, members: Map::new() }
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

    /// Adds a member of its own. Those that RFC 9457 defines are not replaced by it.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
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
    #[serde(flatten)]
    members: Map<String, Value>,
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        for defined in ["type", "title", "status", "detail"] {
            self.members.remove(defined);
        }
        let document = Document {
            r#type: self.kind.as_deref().unwrap_or("about:blank"),
            title: self.title.as_deref().or(self.status.canonical_reason()).unwrap_or("unknown"),
            status: self.status.as_u16(),
            detail: self.detail.as_deref(),
            members: self.members,
        };
        match serde_json::to_vec(&document) {
            Ok(text) => (self.status, Response::typed(&PROBLEM, text)).into_response(),
            Err(cause) => Error::from(cause).into_response(),
        }
    }
}

/// Words all errors as [`Problem`]s: responses with a status of 400 or more whose body is text or empty, such as rejections, 404, and
/// [`Error`](crate::Error). A body of another type is the handler's own document and stays. If there are [`RequestIds`](super::RequestIds)
/// outside of this layer, each document has the member `request_id`.
///
/// What the server refuses by itself reaches no layer: such as a malformed head, or a handler that is later than its limits allow.
/// [`Server::on_refusal`](crate::Server::on_refusal) words that, and may give a [`Problem`] as well.
///
/// ```
/// use anywire_server::Router;
/// use anywire_server::layers::Problems;
///
/// let router = Router::new().get("/", async || "Hello, World!").layer(Problems::new());
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/nowhere")).await;
/// assert_eq!(response.headers.get("content-type"), Some("application/problem+json"));
/// let expected = r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"nothing is here"}"#;
/// assert_eq!(response.body.text(1000).await?, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Problems {
    each: Option<Arc<Changes>>,
}

type Changes = dyn Fn(&mut Problem) + Send + Sync;

impl Problems {
    /// As the responses word them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes each document before it is sent, such as to name its kind.
    pub fn each(mut self, change: impl Fn(&mut Problem) + Send + Sync + 'static) -> Self {
        self.each = Some(Arc::new(change));
        self
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problems").finish_non_exhaustive()
    }
}

impl Hook for Problems {
    type Local = Self;
    type Kept = Option<RequestId>;

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(_: &Rc<Self>, request: &mut Request) -> Result<Option<RequestId>, Response> {
        Ok(request.extensions().get().cloned())
    }

    fn after(local: &Rc<Self>, id: Option<RequestId>, response: &mut Response) {
        let Some(detail) = words(response) else { return };
        let mut problem = Problem::new(response.status);
        problem.detail = (!detail.is_empty()).then(|| detail.to_owned());
        if let Some(id) = id {
            problem = problem.member("request_id", &*id);
        }
        if let Some(change) = &local.each {
            change(&mut problem);
        }
        let worded = problem.into_response();
        // The rest stays: fields such as `allow`, and the cause for the log.
        response.status = worded.status;
        response.body = worded.body;
        response.headers.remove("content-type");
        response.headers.append_static(&PROBLEM);
    }
}

by_hook!(Problems, Self);

/// What an error says, if it is text or nothing.
fn words(response: &Response) -> Option<&str> {
    let is_error = response.status.is_client_error() || response.status.is_server_error();
    let of_type = response.headers.get("content-type");
    let is_text = of_type.is_none_or(|of_type| of_type.starts_with("text/plain"));
    let is_plain = is_error && is_text && !response.headers.contains("content-encoding");
    str::from_utf8(response.body.as_full().filter(|_| is_plain)?).ok()
}

static PROBLEM: StaticHeader = StaticHeader::new("content-type: application/problem+json");
