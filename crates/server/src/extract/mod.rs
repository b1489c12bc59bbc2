//! Extractors: a handler's arguments, taken out of the request.

mod body;
mod connection;
mod cookies;
#[cfg(feature = "macros")]
mod derive;
mod extension;
pub(crate) mod fields;
mod form;
mod header;
mod languages;
mod matched_path;
mod matrix;
pub(crate) mod media;
mod multipart;
mod path;
mod peer_gone;
mod produces;
#[cfg(feature = "protobuf")]
mod protobuf;
mod query;
mod rejection;
mod shape;
mod shared;
pub(crate) mod shown;
mod state;
#[cfg(feature = "tls")]
mod tls;
mod valid;

use std::convert::Infallible;

use anywire_http::{Headers, IntoResponse, Method};

use crate::request::{Parts, Request};

pub use body::Json;
pub use connection::PeerAddress;
pub use cookies::Cookies;
#[cfg(feature = "macros")]
pub use derive::{FromRequest, FromRequestParts};
pub use extension::Extension;
pub use fields::FieldError;
pub use form::Form;
pub use header::{FromHeader, Header, HeaderFault};
pub use languages::Languages;
pub use matched_path::MatchedPath;
pub use matrix::Matrix;
pub use multipart::{Multipart, Part};
pub use path::Path;
pub use peer_gone::PeerGone;
pub use produces::Produces;
#[cfg(feature = "protobuf")]
pub use protobuf::Protobuf;
pub use query::Query;
pub use rejection::Rejection;
pub(crate) use rejection::status_of;
pub use state::{Needs, State};
pub(crate) use state::{StateFactories, States, StatesId};
#[cfg(feature = "tls")]
pub use tls::TlsInfo;
pub use valid::{
    InnerValue, InvalidValue, Valid, ValidRejection, Validate, ValidationMessages, Violation, Violations,
};

/// An extractor that reads the head of a request and leaves the body alone.
///
/// A handler may have several of these, in any order. Implement it for a type of your own to use it as an argument:
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::{Error, FromRequestParts, Parts};
///
/// struct Token(String);
///
/// impl FromRequestParts for Token {
///     type Rejection = Error;
///
///     async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
///         let token = parts.headers().get("x-token");
///         let missing = || Error::new(StatusCode::UNAUTHORIZED, "this route needs a field x-token");
///         token.map(|token| Token(token.to_owned())).ok_or_else(missing)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from the head of a request",
    label = "an argument of this handler is a `{Self}`",
    note = "if `{Self}` takes the body (`Json`, `String`, `Bytes`, `Body`, `Request`), make it the last argument; only the last one can take the body",
    note = "a struct that derives `FromRequest` may have it as its last field",
    note = "else implement `FromRequestParts` for `{Self}`, or take it as `State`, `Path` or `Query`"
)]
pub trait FromRequestParts: Sized {
    /// The response if the value is missing or wrong.
    type Rejection: IntoResponse;

    /// Extracts the value.
    fn from_request_parts(parts: &mut Parts) -> impl Future<Output = Result<Self, Self::Rejection>>;

    /// Names what it needs, so that what is missing is an error at start and not at the first request. An
    /// extractor that uses another one also calls its `needs`. The default names none.
    fn needs(_needs: &mut Needs) {}
}

/// An extractor for the last argument of a handler, which may take the body.
///
/// Every [`FromRequestParts`] is one, too. Implement it for a type of your own that reads the body:
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::{Error, FromRequest, Request, Router};
///
/// struct Lines(Vec<String>);
///
/// impl FromRequest for Lines {
///     type Rejection = Error;
///
///     async fn from_request(request: Request) -> Result<Self, Error> {
///         let text = String::from_request(request).await?;
///         Ok(Lines(text.lines().map(str::to_owned).collect()))
///     }
/// }
///
/// let router = Router::new().post("/count", async |Lines(lines): Lines| lines.len().to_string());
/// # drop(router);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from a request",
    label = "an argument of this handler is a `{Self}`",
    note = "for `Json<T>`, `Path<T>` and `Query<T>`, `T` implements `serde::Deserialize`: add `#[derive(serde::Deserialize)]` to it",
    note = "for `Valid<E>`, the value in `E` also implements `Validate`: add `#[derive(garde::Validate)]` to it (feature `garde`)",
    note = "for `Option<E>`, `E` implements `OptionalFromRequestParts`, or `OptionalFromRequest` if it reads the body; else take a `Result<E, E::Rejection>`",
    note = "for a type of your own, implement `FromRequestParts`, or `FromRequest` if it reads the body; take shared values as `State<T>`"
)]
pub trait FromRequest<Via = ViaRequest>: Sized {
    /// The response if the value is missing or wrong.
    type Rejection: IntoResponse;

    /// Extracts the value.
    fn from_request(request: Request) -> impl Future<Output = Result<Self, Self::Rejection>>;

    /// As [`FromRequestParts::needs`].
    fn needs(_needs: &mut Needs) {}
}

/// Marks the implementation of [`FromRequest`] by [`FromRequestParts`], so that it overlaps with no other one.
#[derive(Debug)]
pub enum ViaParts {}

/// Marks all other implementations of [`FromRequest`].
#[derive(Debug)]
pub enum ViaRequest {}

#[diagnostic::do_not_recommend]
impl<T: FromRequestParts> FromRequest<ViaParts> for T {
    type Rejection = T::Rejection;

    async fn from_request(mut request: Request) -> Result<Self, T::Rejection> {
        T::from_request_parts(&mut request).await
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// An extractor of the head that may be absent: a handler can take an `Option` of it.
///
/// The `Option` is `None` only if the value is absent. A wrong value is still refused: a typing error in a query does not
/// make it a missing query. [`Query`] is absent without a `?`, [`Path`] on a route without parameters. To handle a wrong
/// value in the handler, take a `Result<T, T::Rejection>`. Take that as well if only the extractor itself can tell whether
/// the value is there.
///
/// ```
/// use anywire_server::{Error, FromRequestParts, OptionalFromRequestParts, Parts, Router};
///
/// struct Token(String);
///
/// impl FromRequestParts for Token {
///     type Rejection = Error;
///
///     async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
///         Ok(Token(parts.headers().get("x-token").unwrap_or_default().to_owned()))
///     }
/// }
///
/// impl OptionalFromRequestParts for Token {
///     fn is_absent(parts: &Parts) -> bool {
///         !parts.headers().contains("x-token")
///     }
/// }
///
/// let router = Router::new().get("/", async |token: Option<Token>| match token {
///     Some(Token(token)) => format!("hello, {token}"),
///     None => "who are you?".to_owned(),
/// });
/// # drop(router);
/// ```
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` cannot be taken from the head of a request",
    label = "an argument of this handler is an `Option<{Self}>`",
    note = "implement `OptionalFromRequestParts` for `{Self}`, or take a `Result<{Self}, _>` with its rejection"
)]
pub trait OptionalFromRequestParts: FromRequestParts {
    /// Whether the head has no such value.
    fn is_absent(parts: &Parts) -> bool;
}

/// As [`OptionalFromRequestParts`], for an extractor of the body: [`Json`], `Bytes`, `String` and `Body` are absent if
/// the request has no body.
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` cannot be taken from a request",
    label = "an argument of this handler is an `Option<{Self}>`",
    note = "implement `OptionalFromRequest` for `{Self}`, or take a `Result<{Self}, _>` with its rejection"
)]
pub trait OptionalFromRequest: FromRequest {
    /// Whether the request has no such value.
    fn is_absent(request: &Request) -> bool;
}

impl<T: OptionalFromRequestParts> FromRequestParts for Option<T> {
    type Rejection = T::Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, T::Rejection> {
        match T::is_absent(parts) {
            true => Ok(None),
            false => T::from_request_parts(parts).await.map(Some),
        }
    }

    fn needs(needs: &mut Needs) {
        needs.optional(T::needs);
    }
}

impl<T: OptionalFromRequest> FromRequest for Option<T> {
    type Rejection = T::Rejection;

    async fn from_request(request: Request) -> Result<Self, T::Rejection> {
        match T::is_absent(&request) {
            true => Ok(None),
            false => T::from_request(request).await.map(Some),
        }
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// For a handler that answers a wrong value itself.
impl<T: FromRequestParts> FromRequestParts for Result<T, T::Rejection> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(T::from_request_parts(parts).await)
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// For a handler that answers a wrong value itself.
impl<T: FromRequest> FromRequest for Result<T, T::Rejection> {
    type Rejection = Infallible;

    async fn from_request(request: Request) -> Result<Self, Infallible> {
        Ok(T::from_request(request).await)
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// The whole request, with its body.
impl FromRequest for Request {
    type Rejection = Infallible;

    async fn from_request(request: Request) -> Result<Self, Infallible> {
        Ok(request)
    }
}

impl FromRequestParts for Method {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(parts.method().clone())
    }
}

/// A copy of the header fields.
impl FromRequestParts for Headers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(parts.headers().clone())
    }
}
