//! Why an extractor refused a request, and the response to the peer.

use anywire_advice::{Advice, Chain};
use anywire_http::body::BodyError;
use anywire_http::gateway::status_of_call;
use anywire_http::{Fault, IntoResponse, Method, Response, StatusCode, multipart};

use super::{FieldError, HeaderFault};
use crate::conditions::takes;
use crate::layers::Problem;
use crate::layers::problem::Carried;

/// Why an extractor of this crate refused a request. The status of each variant says who is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// 400, the peer's fault: a path parameter does not have the type that the handler takes.
    #[error("the path does not fit")]
    Path(#[source] FieldError),
    /// 500, the handler's fault: it takes other path parameters than the route has.
    #[error("the handler does not fit its route: {0}")]
    Parameters(String),
    /// 400, the peer's fault: the query does not have the fields or types that the handler takes. 414 if it has more than
    /// [`Limits::form_fields`](crate::Limits::form_fields).
    #[error("the query does not fit")]
    Query(#[source] FieldError),
    /// 422, the peer's fault: the form does not have the fields or types that the handler takes. 400 if it is not UTF-8, 413
    /// if it has more than [`Limits::form_fields`](crate::Limits::form_fields).
    #[error("the form does not fit")]
    Form(#[source] FieldError),
    /// 400, the peer's fault: the matrix parameters do not have the fields or types that the handler takes. 414 if there are more than
    /// [`Limits::form_fields`](crate::Limits::form_fields).
    #[error("the matrix parameters do not fit")]
    Matrix(#[source] FieldError),
    /// 431, the peer's fault: there are more cookies than [`Limits::form_fields`](crate::Limits::form_fields).
    #[error("there are more than {max} cookies{help}", help = Advice("send fewer"))]
    TooManyCookies {
        /// How many there may be.
        max: usize,
    },
    /// 400, the peer's fault: a header field is missing, or does not have the type that the handler takes.
    #[error("the field {name} does not fit")]
    Header {
        /// The name of the field.
        name: &'static str,
        /// What is wrong with it.
        #[source]
        fault: HeaderFault,
    },
    /// 415, the peer's fault: the content type of the body is another one than the handler takes.
    #[error("the content type is {found:?}, expected {expected}")]
    ContentType {
        /// What the request said.
        found: String,
        /// What the handler takes.
        expected: &'static str,
        /// The method of the request.
        method: Method,
    },
    /// 415, the peer's fault: the body is of another character set than UTF-8.
    #[error("the character set is {found:?}, expected utf-8")]
    Charset {
        /// What the request said.
        found: String,
    },
    /// 415, the peer's fault: the body was to be text or JSON, and is coded, such as by gzip, which a server does not undo.
    #[error("the body is coded ({coding}){help}", help = Advice("send it as it is"))]
    Coded {
        /// The codings, in the order in which they were applied.
        coding: String,
    },
    /// 400 (not JSON) or 422 (JSON of another shape), the peer's fault.
    #[error("{} does not fit", json_part(path))]
    Json {
        /// The way to the part that does not fit, such as `items[2].count`. Empty if it is all of it.
        path: String,
        /// What is wrong, with line and column.
        #[source]
        cause: serde_json::Error,
    },
    /// 400, the peer's fault: as many arrays and objects of the JSON body stand in each other as
    /// [`Limits::json_depth`](crate::Limits::json_depth) says.
    #[error("the JSON body nests {limit} deep{help}", help = Advice("send it in more parts"))]
    JsonDepth {
        /// The limit.
        limit: usize,
    },
    /// 400, the peer's fault: the form with files is malformed, or does not end. 413 if it is larger than its
    /// [`Limits`](anywire_http::multipart::Limits).
    #[error(transparent)]
    Multipart(multipart::Error),
    /// 400, the peer's fault: the body is no such message of Protocol Buffers.
    #[cfg(feature = "protobuf")]
    #[error("the protobuf message does not fit")]
    Protobuf(#[source] prost::DecodeError),
    /// 413 if it was too large for [`Limits::body_bytes`](crate::Limits::body_bytes) or for a layer, 408 or 400 if it did not come
    /// whole, 400 if it was to be text and is not UTF-8, 431 if its trailers were too large for
    /// [`Limits::head`](crate::Limits::head).
    #[error(transparent)]
    Body(BodyError),
    /// 403, the peer's fault: the request came in clear text, and the handler takes what only TLS has.
    #[error("this is served over TLS alone{help}", help = Advice("use https://"))]
    ClearText,
    /// 403, the peer's fault: the handler takes process and user of the peer, which this wire does not know.
    #[error("who asks is not known on this wire{help}", help = Advice("come over the server's Unix socket"))]
    NoCredentials,
    /// 500, the server's fault: the handler takes an extension that no layer has left.
    #[error("no extension of type {type_name} travels with the request{help}", help = Advice("add the layer that leaves it"))]
    NoExtension {
        /// The type that was asked for.
        type_name: &'static str,
    },
    /// 500, the server's fault: the state was not given. This is an error at start if the extractor names its needs.
    #[error("no state of type {type_name} was given to the router{help}", help = Advice("add .state(..)"))]
    NoState {
        /// The type that was asked for.
        type_name: &'static str,
    },
}

impl Rejection {
    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Query(error) | Self::Matrix(error) if error.is_too_many() => StatusCode::URI_TOO_LONG,
            Self::Path(_) | Self::Query(_) | Self::Matrix(_) | Self::Header { .. } => StatusCode::BAD_REQUEST,
            Self::Form(error) if error.is_too_many() => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Form(error) if error.is_no_text() => StatusCode::BAD_REQUEST,
            Self::Form(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyCookies { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::ClearText | Self::NoCredentials => StatusCode::FORBIDDEN,
            Self::ContentType { .. } | Self::Charset { .. } | Self::Coded { .. } => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::Json { cause, .. } if cause.is_data() => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Json { .. } | Self::JsonDepth { .. } => StatusCode::BAD_REQUEST,
            #[cfg(feature = "protobuf")]
            Self::Protobuf(_) => StatusCode::BAD_REQUEST,
            Self::Multipart(error) if error.fault() == Fault::Limit => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Multipart(_) => StatusCode::BAD_REQUEST,
            Self::Body(cause) => status_of(cause),
            Self::Parameters(_) | Self::NoExtension { .. } | Self::NoState { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl Rejection {
    /// The name of the field that does not fit, if it is one: of the path, the query, a form or the head, or the way to a part of a
    /// JSON body.
    pub fn field(&self) -> Option<&str> {
        self.field_and_fault().map(|(field, _)| field)
    }

    /// The field, and what is wrong with it.
    fn field_and_fault(&self) -> Option<(&str, String)> {
        match self {
            Self::Path(error) | Self::Query(error) | Self::Matrix(error) | Self::Form(error) => {
                Some((error.field()?, error.reason()))
            }
            Self::Header { name, fault } => Some((name, fault.to_string())),
            Self::Json { path, cause } if !path.is_empty() => Some((path, cause.to_string())),
            _ => None,
        }
    }
}

fn json_part(path: &str) -> String {
    match path {
        "" => "the JSON body".to_owned(),
        part => format!("{part} in the JSON body"),
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = match status.is_server_error() {
            true => (status, "this route is not set up right; its owner finds the reason in the log")
                .into_response(),
            false => (status, Chain(&self).for_peer().to_string()).into_response(),
        };
        match &self {
            // What would have been taken (RFC 9110 section 15.5.16).
            Self::Coded { .. } => response = response.header("accept-encoding", "identity"),
            Self::ContentType { expected, method, .. } => {
                takes::refuse(&mut response.headers, method, &[*expected]);
            }
            _ => {}
        }
        if let Some((field, message)) = self.field_and_fault() {
            // For `Problems`: as `Valid` lists what breaks rules.
            let errors = vec![serde_json::json!({ "field": field, "message": message })];
            let problem = Problem::new(status).detail(Chain(&self).for_peer().to_string());
            Carried::from(problem.member("errors", errors)).put(&mut response);
        }
        response.caused_by(&self)
    }
}

/// The status of a request whose body cannot be read.
pub(crate) fn status_of(cause: &BodyError) -> StatusCode {
    match cause {
        BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Timeout => StatusCode::REQUEST_TIMEOUT,
        BodyError::Malformed(error) => error.status(),
        #[cfg(feature = "tower")]
        BodyError::Failed(reason) if crate::tower::is_length_limit(&**reason) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        _ if cause.fault() == Fault::Caller => {
            status_of_call(cause).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        _ => StatusCode::BAD_REQUEST,
    }
}
