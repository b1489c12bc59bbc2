//! Errors as problem documents (RFC 9457), and values that are checked by rules.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use garde::Validate;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tower_http::request_id::RequestId;

/// What went wrong. It becomes a document within [`problems`].
#[derive(Clone)]
pub struct Problem {
    status: StatusCode,
    members: Map<String, Value>,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, members: Map::new() }.member("detail", Value::String(detail.into()))
    }

    pub fn kind(self, url: &str, title: &str) -> Self {
        self.member("type", json!(url)).member("title", json!(title))
    }

    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Words all errors, those of axum and of other layers, too.
pub async fn problems(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let id = request.extensions().get().and_then(|id: &RequestId| id.header_value().to_str().ok());
    let id = id.map(str::to_owned);
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let mut members = match parts.extensions.remove::<Problem>() {
        Some(problem) => problem.members,
        None => {
            let text = to_bytes(body, 64 * 1024).await.unwrap_or_default();
            let detail = (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into());
            Map::from_iter(detail.map(|detail| ("detail".to_owned(), detail)))
        }
    };
    let title = status.canonical_reason().unwrap_or("unknown");
    let own = [("type", json!("about:blank")), ("title", json!(title)), ("request_id", json!(id))];
    for (name, value) in
        own.into_iter().chain([("status", json!(status.as_u16())), ("instance", json!(path))])
    {
        members.entry(name).or_insert(value);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    Response::from_parts(parts, Value::Object(members).to_string().into())
}

/// A value that keeps its rules.
pub struct Valid<E>(pub E);

impl<S: Send + Sync, T: DeserializeOwned + Validate<Context = ()>> FromRequest<S> for Valid<Json<T>> {
    type Rejection = Invalid<JsonRejection>;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let Json(value) = Json::<T>::from_request(request, state).await.map_err(Invalid::Other)?;
        value.validate().map_err(Invalid::Rules)?;
        Ok(Self(Json(value)))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Validate<Context = ()>> FromRequestParts<S> for Valid<Query<T>> {
    type Rejection = Invalid<QueryRejection>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Query(value) = Query::<T>::from_request_parts(parts, state).await.map_err(Invalid::Other)?;
        value.validate().map_err(Invalid::Rules)?;
        Ok(Self(Query(value)))
    }
}

pub enum Invalid<R> {
    Other(R),
    Rules(garde::Report),
}

impl<R: IntoResponse> IntoResponse for Invalid<R> {
    fn into_response(self) -> Response {
        let report = match self {
            Self::Other(rejection) => return rejection.into_response(),
            Self::Rules(report) => report,
        };
        let error = |(field, error): &(garde::Path, garde::Error)| json!({"field": field.to_string(), "message": error.message()});
        let errors = report.iter().map(error).collect();
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "a value breaks a rule");
        problem.member("errors", Value::Array(errors)).into_response()
    }
}
