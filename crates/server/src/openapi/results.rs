//! What the results of handlers answer.

use std::borrow::Cow;
use std::convert::Infallible;

use anywire_http::{Body, Bytes, Created, Headers, NoContent, Redirect, Response, SetCookie, StatusCode};
use http::{Extensions, HeaderMap};
use schemars::JsonSchema;

use super::describe::NEGOTIATED;
use super::response::Status;
use super::{DescribeResponse, ResponseDoc, Schemas};
use crate::codec::{CodecRejection, Negotiated};
use crate::extract::{InvalidValue, Json, Rejection, ValidRejection};
use crate::layers::Problem;
use crate::respond::{Error, Html};

impl<T: JsonSchema> DescribeResponse for Json<T> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let schema = schemas.response::<T>();
        ResponseDoc::of(StatusCode::OK).content("application/json", schema)
    }
}

impl<T: JsonSchema> DescribeResponse for Negotiated<T> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let schema = schemas.response::<T>();
        ResponseDoc::of(StatusCode::OK).content(NEGOTIATED, schema)
    }
}

#[cfg(feature = "protobuf")]
impl<T> DescribeResponse for crate::extract::Protobuf<T> {
    fn describe(_: &mut Schemas) -> ResponseDoc {
        ResponseDoc::of(StatusCode::OK).content("application/protobuf", super::message::<T>())
    }
}

impl<T> DescribeResponse for Html<T> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let schema = schemas.response::<String>();
        ResponseDoc::of(StatusCode::OK).content("text/html", schema)
    }
}

macro_rules! of_text {
    ($($result:ty)*) => {$(
        impl DescribeResponse for $result {
            fn describe(schemas: &mut Schemas) -> ResponseDoc {
                let schema = schemas.response::<String>();
                ResponseDoc::of(StatusCode::OK).content("text/plain", schema)
            }
        }
    )*};
}

of_text! { String &'static str Cow<'static, str> }

macro_rules! of_bytes {
    ($($result:ty)*) => {$(
        impl DescribeResponse for $result {
            fn describe(_: &mut Schemas) -> ResponseDoc {
                ResponseDoc::of(StatusCode::OK).content("application/octet-stream", true.into())
            }
        }
    )*};
}

of_bytes! { Bytes Vec<u8> &'static [u8] Body }

impl DescribeResponse for () {
    fn describe(_: &mut Schemas) -> ResponseDoc {
        ResponseDoc::of(StatusCode::OK)
    }
}

impl DescribeResponse for NoContent {
    fn describe(_: &mut Schemas) -> ResponseDoc {
        ResponseDoc::of(StatusCode::NO_CONTENT)
    }
}

impl DescribeResponse for Infallible {
    fn describe(_: &mut Schemas) -> ResponseDoc {
        ResponseDoc::none()
    }
}

impl<R: DescribeResponse> DescribeResponse for Created<R> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let doc = R::describe(schemas).with_status(Status::Is(201));
        doc.header("location", "Where it is.")
    }
}

impl DescribeResponse for Redirect {
    fn describe(_: &mut Schemas) -> ResponseDoc {
        ResponseDoc::one(Status::Of(3)).header("location", "The other place.")
    }
}

/// Any of them: [`response`](super::Documented::response) says which.
impl DescribeResponse for StatusCode {}

impl DescribeResponse for Response {}

impl<B> DescribeResponse for http::Response<B> {}

impl<T: DescribeResponse, E: DescribeResponse> DescribeResponse for Result<T, E> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let mut error = E::describe(schemas);
        for answer in &mut error.answers {
            // With a status of its own it is no success.
            if answer.status == Status::Of(2) {
                answer.status = Status::Any;
            }
        }
        T::describe(schemas).or(error)
    }
}

impl<T: DescribeResponse> DescribeResponse for Option<T> {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let nothing = super::response::Answer::refusal(404, "Nothing is here.", schemas);
        T::describe(schemas).or(ResponseDoc { answers: vec![nothing] })
    }
}

impl<R: DescribeResponse> DescribeResponse for (StatusCode, R) {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        R::describe(schemas).with_status(Status::Of(2))
    }
}

/// Errors of any status, as text or as a problem document.
macro_rules! errors {
    ($([$($generics:tt)*] $error:ty)*) => {$(
        impl<$($generics)*> DescribeResponse for $error {
            fn describe(schemas: &mut Schemas) -> ResponseDoc {
                let text = schemas.response::<String>();
                ResponseDoc::unknown().description("An error").content("text/plain", text).problem(schemas)
            }
        }
    )*};
}

errors! {
    [] Error
    [] Rejection
    [] CodecRejection
    [R] ValidRejection<R>
}

impl DescribeResponse for Problem {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        ResponseDoc::unknown().description("An error").problem(schemas)
    }
}

impl DescribeResponse for InvalidValue {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        ResponseDoc::of(StatusCode::UNPROCESSABLE_ENTITY)
            .description("A value breaks a rule.")
            .problem(schemas)
    }
}

/// What stands before the body in a tuple, and says what it adds to responses. As [`IntoResponseParts`](anywire_http::IntoResponseParts)
/// sets it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what it adds to a response",
    note = "for a type of your own, implement `anywire_server::openapi::DescribeResponseParts`; it may say nothing"
)]
pub trait DescribeResponseParts {
    /// Adds it.
    fn describe(doc: ResponseDoc) -> ResponseDoc {
        doc
    }
}

impl DescribeResponseParts for SetCookie {
    fn describe(doc: ResponseDoc) -> ResponseDoc {
        doc.header("set-cookie", "A cookie.")
    }
}

impl<P: DescribeResponseParts> DescribeResponseParts for Option<P> {
    fn describe(doc: ResponseDoc) -> ResponseDoc {
        P::describe(doc)
    }
}

impl<K, V, const N: usize> DescribeResponseParts for [(K, V); N] {}
impl DescribeResponseParts for Headers {}
impl DescribeResponseParts for HeaderMap {}
impl DescribeResponseParts for Extensions {}
impl DescribeResponseParts for () {}

macro_rules! alone {
    ($([$($generics:tt)*] $part:ty)*) => {$(
        impl<$($generics)*> DescribeResponse for $part {
            fn describe(schemas: &mut Schemas) -> ResponseDoc {
                <($part, ())>::describe(schemas)
            }
        }
    )*};
}

alone! {
    [K, V, const N: usize] [(K, V); N]
    [] Headers
    [] HeaderMap
    [] SetCookie
}

macro_rules! tuples {
    ($(($($part:ident)+))*) => {$(
        impl<$($part: DescribeResponseParts,)+ R: DescribeResponse> DescribeResponse for ($($part,)+ R) {
            fn describe(schemas: &mut Schemas) -> ResponseDoc {
                let doc = R::describe(schemas);
                $(let doc = $part::describe(doc);)+
                doc
            }
        }

        impl<$($part: DescribeResponseParts,)+ R: DescribeResponse> DescribeResponse for (StatusCode, $($part,)+ R) {
            fn describe(schemas: &mut Schemas) -> ResponseDoc {
                <($($part,)+ R)>::describe(schemas).with_status(Status::Of(2))
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
}
