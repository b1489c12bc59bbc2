//! What the extractors of this crate take and refuse.

use std::sync::Arc;

use anywire_http::{Body, Bytes, Headers, Method, StatusCode};
use anywire_wire::Credentials;
use schemars::JsonSchema;

use super::describe::NEGOTIATED;
use super::{DescribeRequest, RequestDoc, Schemas};
use crate::codec::{Decoded, Format};
use crate::extract::{
    Cookies, Extension, Form, FromHeader, Header, Json, Languages, MatchedPath, Matrix, Multipart, Path,
    PeerAddress, PeerGone, Produces, Query, State, Valid,
};
use crate::request::Request;

impl<T: JsonSchema> DescribeRequest for Path<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        RequestDoc::path_of::<T>(schemas).refuses(StatusCode::BAD_REQUEST, "The path does not fit.")
    }
}

impl<T: JsonSchema> DescribeRequest for Query<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        read_as_query(RequestDoc::query_of::<T>(schemas))
    }
}

impl<T: JsonSchema> DescribeRequest for Matrix<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        RequestDoc::matrix_of::<T>(schemas)
            .refuses(StatusCode::BAD_REQUEST, "The matrix parameters do not fit.")
            .refuses(StatusCode::URI_TOO_LONG, "There are too many matrix parameters.")
    }
}

impl<T: FromHeader> DescribeRequest for Header<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let text = schemas.request::<String>();
        let why = format!("The field {} does not fit.", T::name());
        RequestDoc::new().header(T::name(), text).refuses(StatusCode::BAD_REQUEST, &why)
    }
}

impl DescribeRequest for Cookies {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().refuses(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "There are too many cookies.")
    }
}

impl<T: JsonSchema> DescribeRequest for Form<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let of_body = collected(RequestDoc::new(), "form")
            .refuses(StatusCode::UNPROCESSABLE_ENTITY, "The form does not fit.");
        RequestDoc::form_of::<T>(schemas, read_as_query(RequestDoc::new()), of_body)
    }
}

impl<T: JsonSchema> DescribeRequest for Json<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let schema = schemas.request::<T>();
        collected(RequestDoc::new().body("application/json", schema), "JSON")
            .refuses(StatusCode::UNPROCESSABLE_ENTITY, "The JSON has another shape.")
    }
}

impl<T: JsonSchema> DescribeRequest for Decoded<T> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let schema = schemas.request::<T>();
        collected(RequestDoc::new().body(NEGOTIATED, schema), "well-formed")
            .refuses(StatusCode::UNPROCESSABLE_ENTITY, "The body has another shape.")
    }
}

#[cfg(feature = "protobuf")]
impl<T> DescribeRequest for crate::extract::Protobuf<T> {
    fn describe(_: &mut Schemas) -> RequestDoc {
        collected(RequestDoc::new().body("application/protobuf", super::message::<T>()), "message")
    }
}

impl DescribeRequest for String {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let schema = schemas.request::<Self>();
        collected(RequestDoc::new().body("text/plain", schema), "text")
    }
}

impl DescribeRequest for Bytes {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new()
            .body("application/octet-stream", true.into())
            .refuses(StatusCode::BAD_REQUEST, "The body did not come whole.")
            .refuses(TOO_LARGE.0, TOO_LARGE.1)
    }
}

/// The parts are what the handler makes of them.
impl DescribeRequest for Multipart {
    fn describe(_: &mut Schemas) -> RequestDoc {
        let object = schemars::json_schema!({ "type": "object" });
        collected(RequestDoc::new().body("multipart/form-data", object), "a form with files")
    }
}

impl DescribeRequest for Body {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().body("application/octet-stream", true.into())
    }
}

/// What the handler does with it is not known.
impl DescribeRequest for Request {}

impl DescribeRequest for http::Request<Body> {}

impl<E: DescribeRequest> DescribeRequest for Valid<E> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        E::describe(schemas).refuses(StatusCode::UNPROCESSABLE_ENTITY, "A value breaks a rule.")
    }
}

impl<E: DescribeRequest> DescribeRequest for Option<E> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        E::describe(schemas).optional()
    }
}

/// The handler answers what is wrong.
impl<E: DescribeRequest, R> DescribeRequest for Result<E, R> {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        E::describe(schemas).without_refusals()
    }
}

impl DescribeRequest for Format {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().refuses(StatusCode::NOT_ACCEPTABLE, "No format is acceptable.")
    }
}

impl DescribeRequest for Credentials {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().refuses(StatusCode::FORBIDDEN, "Who asks is not known on this wire.")
    }
}

#[cfg(feature = "tls")]
impl DescribeRequest for crate::extract::TlsInfo {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().refuses(StatusCode::FORBIDDEN, "This is served over TLS alone.")
    }
}

impl DescribeRequest for crate::upgrade::Upgrade {
    fn describe(_: &mut Schemas) -> RequestDoc {
        RequestDoc::new().refuses(StatusCode::BAD_REQUEST, "The request does not ask for an upgrade.")
    }
}

impl DescribeRequest for Languages {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let text = schemas.request::<String>();
        RequestDoc::new().header("accept-language", text).optional()
    }
}

/// What the server gives, and not the peer.
macro_rules! given {
    ($([$($generics:tt)*] $extractor:ty)*) => {$(
        impl<$($generics)*> DescribeRequest for $extractor {}
    )*};
}

given! {
    [T] State<T>
    [T] Arc<T>
    [T] Extension<T>
    [] Method
    [] Headers
    [] PeerAddress
    [] MatchedPath
    [] PeerGone
    [] Produces
    [] crate::interim::Informational
    [] crate::upgrade::Tunnel
    [] crate::layers::RequestId
}

macro_rules! arguments {
    ($(($($argument:ident)*))*) => {$(
        impl<$($argument: DescribeRequest),*> DescribeRequest for ($($argument,)*) {
            #[allow(unused_variables, reason = "a handler may have no arguments")]
            fn describe(schemas: &mut Schemas) -> RequestDoc {
                RequestDoc::new()$(.and($argument::describe(schemas)))*
            }
        }
    )*};
}

each_arity! { arguments }

fn read_as_query(doc: RequestDoc) -> RequestDoc {
    doc.refuses(StatusCode::BAD_REQUEST, "The query does not fit.")
        .refuses(StatusCode::URI_TOO_LONG, "The query has too many fields.")
}

/// A body that is collected and read.
fn collected(doc: RequestDoc, form: &str) -> RequestDoc {
    doc.refuses(StatusCode::BAD_REQUEST, &format!("The body is not {form}, or did not come whole."))
        .refuses(TOO_LARGE.0, TOO_LARGE.1)
        .refuses(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body has another media type, charset or coding.")
}

const TOO_LARGE: (StatusCode, &str) = (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.");
