//! Extractors: what a handler's arguments take out of a request.

mod body;
mod path;
mod query;
mod rejection;
mod state;

use std::convert::Infallible;

use anywire_http::{Headers, Method};

use crate::request::{Parts, Request};
use anywire_http::IntoResponse;

pub use body::Json;
pub use path::Path;
pub use query::Query;
pub use rejection::Rejection;
pub(crate) use rejection::status_of;
pub use state::{Needs, State};
pub(crate) use state::{StateFactories, States};

/// An argument of a handler that needs no body: it takes what it wants out of the head.
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
    note = "else implement `FromRequestParts` for `{Self}`, or take it as `State`, `Path` or `Query`"
)]
pub trait FromRequestParts: Sized {
    /// The answer to a request that does not have it.
    type Rejection: IntoResponse;

    /// Takes it out.
    fn from_request_parts(parts: &mut Parts) -> impl Future<Output = Result<Self, Self::Rejection>>;

    /// Names the states that it needs, so that a lack is an error at start and not at the first request. An extractor
    /// that uses another one passes its needs on. By default nothing.
    fn needs(_needs: &mut Needs) {}
}

/// The last argument of a handler: it may take the body.
///
/// Everything that implements [`FromRequestParts`] implements this, too. Implement it for a type of your own that reads
/// the body:
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
    note = "for a type of your own, implement `FromRequestParts`, or `FromRequest` if it reads the body; take shared values as `State<T>`"
)]
pub trait FromRequest<Via = ViaRequest>: Sized {
    /// The answer to a request that does not have it.
    type Rejection: IntoResponse;

    /// Takes it out.
    fn from_request(request: Request) -> impl Future<Output = Result<Self, Self::Rejection>>;

    /// As [`FromRequestParts::needs`].
    fn needs(_needs: &mut Needs) {}
}

/// Marks what [`FromRequestParts`] takes from the head alone, so that it does not overlap with the rest.
#[derive(Debug)]
pub enum ViaParts {}

/// Marks what [`FromRequest`] takes from the whole request.
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

/// An extractor that knows whether the head has what it takes, so that a handler may take an `Option` of it.
///
/// The `Option` is `None` if the request lacks it altogether. What is there and wrong is refused as without the
/// `Option`: a typing error in a query is not a missing query. [`Query`] is absent without a `?`, [`Path`] on a route
/// without parameters. A handler that decides about a wrong one itself takes a `Result<T, T::Rejection>`.
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
    /// Whether the head has nothing of the kind.
    fn is_absent(parts: &Parts) -> bool;
}

/// As [`OptionalFromRequestParts`], for an extractor of the body: [`Json`], `Bytes`, `String` and `Body` are absent if
/// the request has no body.
pub trait OptionalFromRequest: FromRequest {
    /// Whether the request has nothing of the kind.
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
        T::needs(needs);
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

/// For a handler that answers a refused request itself.
impl<T: FromRequestParts> FromRequestParts for Result<T, T::Rejection> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(T::from_request_parts(parts).await)
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// For a handler that answers a refused request itself.
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
