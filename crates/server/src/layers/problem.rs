//! Errors as problem documents.

mod document;

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use anywire_http::accept::{Accept, MediaType};
use anywire_http::{Headers, Response};

use super::request_id::RequestId;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

pub(crate) use self::document::Carried;

pub use self::document::Problem;

/// Words all errors as [`Problem`]s: responses with a status of 400 or more whose body is text or empty, such as rejections, 404, and
/// [`Error`](crate::Error). A body of another type is the handler's own document and stays. A [`Problem`] gets the members that this
/// layer adds.
///
/// If there are [`RequestIds`](super::RequestIds) outside of this layer, each document has the member `request_id`. A peer whose
/// `Accept` refuses JSON, both `application/problem+json` and `application/json`, keeps the text.
///
/// What the server refuses by itself reaches no layer: such as a malformed head, or a handler that is later than its limits allow.
/// [`Server::problems`](crate::Server::problems) words that as well.
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
    names_path: bool,
}

type Changes = dyn Fn(&mut Problem) + Send + Sync;

impl Problems {
    /// As the responses word them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes each document before it is sent, such as to name its kind. Those that are [`Problem`]s already, too: look at what they
    /// have.
    pub fn each(mut self, change: impl Fn(&mut Problem) + Send + Sync + 'static) -> Self {
        self.each = Some(Arc::new(change));
        self
    }

    /// Names the path of the request as the member `instance`, unless there is one.
    pub fn with_path(mut self) -> Self {
        self.names_path = true;
        self
    }

    /// Words what the server refuses by itself. If that is within this layer, it gets its members there.
    pub(crate) fn word(&self, refusal: &Refusal<'_>) -> Response {
        let mut problem = Problem::from(refusal);
        self.change(&mut problem);
        Carried::changed(problem)
    }

    fn change(&self, problem: &mut Problem) {
        if let Some(change) = &self.each {
            change(problem);
        }
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problems").field("names_path", &self.names_path).finish_non_exhaustive()
    }
}

/// What is kept of a request until its response is there.
pub(crate) struct Asked {
    id: Option<RequestId>,
    path: Option<Box<str>>,
    takes_json: bool,
}

impl SyncLayer for Problems {
    type Local = Self;
    type Kept = Asked;

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<Asked, Response> {
        Ok(Asked {
            id: request.extensions().get().cloned(),
            path: local.names_path.then(|| request.path().into()),
            takes_json: takes_json(request),
        })
    }

    fn after(local: &Rc<Self>, asked: Asked, response: &mut Response) {
        let Some(form) = Form::of(response) else { return };
        if form == Form::Text {
            add_vary(&mut response.headers);
            if !asked.takes_json {
                return;
            }
        }
        let (mut problem, is_changed) =
            Carried::take_from(response).unwrap_or_else(|| (of_words(response), false));
        if !is_changed {
            local.change(&mut problem);
        }
        if let Some(id) = asked.id {
            problem.members.entry("request_id").or_insert_with(|| (&*id).into());
        }
        problem.instance = problem.instance.or(asked.path.map(Into::into));
        let worded = problem.to_document();
        // The rest stays: fields such as `allow`, and the cause for the log.
        response.status = worded.status;
        response.body = worded.body;
        response.headers.remove("content-type");
        response.headers.append_static(&document::TYPE);
    }
}

sync_layer!(Problems, Self);

/// Whether the peer takes a problem document.
fn takes_json(request: &Request) -> bool {
    static OFFERS: LazyLock<[MediaType; 2]> = LazyLock::new(|| {
        ["application/problem+json", "application/json"]
            .map(|text| MediaType::parse(text).expect("both are media types"))
    });
    // Most peers say nothing, or that they take anything.
    request.headers().get_all("accept").all(|types| types == b"*/*")
        || Accept::of(request.headers()).best(&*OFFERS).is_some()
}

/// How a response tells an error, as far as this layer knows it.
#[derive(PartialEq, Eq)]
enum Form {
    Text,
    Document,
}

impl Form {
    fn of(response: &Response) -> Option<Self> {
        let is_error = response.status.is_client_error() || response.status.is_server_error();
        if !is_error || response.body.as_full().is_none() || response.headers.contains("content-encoding") {
            return None;
        }
        match response.headers.get("content-type") {
            None => Some(Self::Text),
            Some(of_type) if is_text(of_type) => Some(Self::Text),
            Some(document::TYPE_NAME) if Carried::is_in(response) => Some(Self::Document),
            Some(_) => None,
        }
    }
}

/// `text/plain`, with whatever parameters.
fn is_text(of_type: &str) -> bool {
    let essence = of_type.split_once(';').map_or(of_type, |(essence, _)| essence);
    essence.trim_ascii_end().eq_ignore_ascii_case("text/plain")
}

/// What the text of an error says.
fn of_words(response: &Response) -> Problem {
    let problem = Problem::new(response.status);
    match response.body.as_full().and_then(|text| str::from_utf8(text).ok()) {
        None | Some("") => problem,
        Some(detail) => problem.detail(detail),
    }
}

/// The peer's `Accept` decides whether it is a document.
fn add_vary(headers: &mut Headers) {
    if !headers.lists("vary", "accept") && !headers.lists("vary", "*") {
        let added = headers.append("vary", "accept");
        debug_assert!(added.is_ok(), "a valid field");
    }
}
