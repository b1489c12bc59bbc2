//! What the result of a handler answers, in the words of OpenAPI.

use std::collections::BTreeMap;

use anywire_http::StatusCode;
use schemars::Schema;
use serde_json::{Value, json};

use super::Schemas;
use super::request::media;

/// A result of a handler that says what it answers, so that a [documented](crate::Handler::documented) handler may have it.
///
/// All results of this crate do, with [`Json`](crate::Json) for types that have a schema: `#[derive(schemars::JsonSchema)]`. A type of
/// your own says it by this trait; it may say nothing.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::openapi::{DescribeResponse, ResponseDoc, Schemas};
///
/// /// Becomes a 200 with lines, or a 409.
/// struct Lines(Option<String>);
///
/// impl DescribeResponse for Lines {
///     fn describe(schemas: &mut Schemas) -> ResponseDoc {
///         let lines = ResponseDoc::of(StatusCode::OK).content("text/csv", schemas.response::<String>());
///         lines.or(ResponseDoc::of(StatusCode::CONFLICT).description("they are being changed").problem(schemas))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what it answers",
    label = "this documented handler gives a `{Self}`, be it as its result or as its error",
    note = "for `Json<T>` and `Negotiated<T>`, `T` implements `schemars::JsonSchema`: add `#[derive(schemars::JsonSchema)]` to it",
    note = "for a type of your own, implement `anywire_server::openapi::DescribeResponse`"
)]
pub trait DescribeResponse {
    /// Says what it answers.
    fn describe(_schemas: &mut Schemas) -> ResponseDoc {
        ResponseDoc::unknown()
    }
}

/// What the result of a handler answers: one response or several.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ResponseDoc {
    pub(super) answers: Vec<Answer>,
}

/// One response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) description: Option<String>,
    /// By media type.
    pub(super) content: BTreeMap<String, Value>,
    /// The fields that it has, by name.
    pub(super) headers: BTreeMap<String, String>,
}

/// What is known of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Is(u16),
    /// One of a hundred, by its first digit.
    Of(u8),
    Any,
}

impl ResponseDoc {
    /// No response at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// A response with this status and without a body.
    pub fn of(status: StatusCode) -> Self {
        Self::one(Status::Is(status.as_u16()))
    }

    /// A response of which nothing is known.
    pub fn unknown() -> Self {
        Self::one(Status::Any)
    }

    pub(super) fn one(status: Status) -> Self {
        let answer = Answer { status, description: None, content: BTreeMap::new(), headers: BTreeMap::new() };
        Self { answers: vec![answer] }
    }

    /// Says what the responses mean.
    pub fn description(self, text: &str) -> Self {
        self.each(|answer| answer.description = Some(text.to_owned()))
    }

    /// A body of this media type.
    pub fn content(self, media_type: &str, schema: Schema) -> Self {
        let schema = Value::from(schema);
        self.each(|answer| {
            answer.content.insert(media_type.to_owned(), schema.clone());
        })
    }

    /// A problem document as the body.
    pub fn problem(self, schemas: &Schemas) -> Self {
        self.content("application/problem+json", schemas.problem())
    }

    /// A header field that the responses have.
    pub fn header(self, name: &str, description: &str) -> Self {
        self.each(|answer| {
            answer.headers.insert(name.to_owned(), description.to_owned());
        })
    }

    /// These responses or others.
    pub fn or(mut self, other: Self) -> Self {
        self.answers.extend(other.answers);
        self
    }

    /// The same with a status that is known when it runs.
    pub(super) fn with_status(self, status: Status) -> Self {
        self.each(|answer| answer.status = status)
    }

    fn each(mut self, change: impl FnMut(&mut Answer)) -> Self {
        self.answers.iter_mut().for_each(change);
        self
    }
}

impl Answer {
    /// Words as text, or as a problem document within [`Problems`](crate::layers::Problems).
    pub(super) fn refusal(status: u16, why: &str, schemas: &Schemas) -> Self {
        let content = [("application/problem+json", schemas.problem().into()), ("text/plain", text())];
        Self {
            status: Status::Is(status),
            description: Some(why.to_owned()),
            content: content.map(|(of, schema)| (of.to_owned(), schema)).into(),
            headers: BTreeMap::new(),
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let mut response = json!({ "description": self.text() });
        if !self.content.is_empty() {
            let content = self.content.iter().map(|(of, schema)| (of.clone(), media(schema)));
            response["content"] = Value::Object(content.collect());
        }
        if !self.headers.is_empty() {
            let field = |(name, description): (&String, &String)| {
                (name.clone(), json!({ "description": description, "schema": text() }))
            };
            response["headers"] = Value::Object(self.headers.iter().map(field).collect());
        }
        response
    }

    fn text(&self) -> String {
        match (&self.description, self.status) {
            (Some(text), _) => text.clone(),
            (None, Status::Is(status)) => {
                let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
                reason.unwrap_or("Another response").to_owned()
            }
            (None, Status::Of(2)) => "Success".to_owned(),
            (None, Status::Of(3)) => "Another place".to_owned(),
            (None, _) => "Another response".to_owned(),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Is(status) => write!(f, "{status}"),
            Self::Of(digit) => write!(f, "{digit}XX"),
            Self::Any => f.write_str("default"),
        }
    }
}

/// The schema of text.
pub(super) fn text() -> Value {
    json!({ "type": "string" })
}
