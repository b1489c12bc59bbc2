//! Extractors: what a handler's arguments take out of a request.

mod body;
mod path;
mod query;
mod rejection;
mod state;

use anywire_http::{Headers, Method};

use crate::request::Request;
use crate::respond::IntoResponse;

pub use body::Json;
pub use path::Path;
pub use query::Query;
pub use rejection::Rejection;
pub(crate) use rejection::status_of;
pub use state::{Needs, State};
pub(crate) use state::{StateFactories, States};

/// Something that a handler's argument takes out of a request.
///
/// Implement it for a type of your own to use it as an argument:
///
/// ```
/// use std::future::Future;
/// use anywire_http::StatusCode;
/// use anywire_server::{Error, FromRequest, Request};
///
/// struct Token(String);
///
/// impl FromRequest for Token {
///     type Rejection = Error;
///
///     async fn from_request(request: &mut Request) -> Result<Self, Error> {
///         let token = request.headers().get("x-token");
///         let missing = || Error::new(StatusCode::UNAUTHORIZED, "this route needs a field x-token");
///         token.map(|token| Token(token.to_owned())).ok_or_else(missing)
///     }
/// }
/// ```
pub trait FromRequest: Sized {
    /// What answers if the request does not have it.
    type Rejection: IntoResponse;

    /// Takes it out.
    fn from_request(request: &mut Request) -> impl Future<Output = Result<Self, Self::Rejection>>;

    /// Names what it needs, so that a lack is an error at start and not at the first request: a state of the router,
    /// the body. An extractor that uses another one passes its needs on. By default nothing.
    fn needs(_needs: &mut Needs) {}
}

/// An extractor that knows whether a request has what it takes, so that a handler may take an `Option` of it.
///
/// The `Option` is `None` if the request lacks it altogether. What is there and wrong is refused as without the
/// `Option`: a typing error in a query is not a missing query. [`Query`] is absent without a `?`, [`Path`] on a route
/// without parameters, and [`Json`], `Bytes`, `String` and `Body` if the request has no body.
///
/// ```
/// use anywire_server::{Error, FromRequest, OptionalFromRequest, Request, Router};
///
/// struct Token(String);
///
/// impl FromRequest for Token {
///     type Rejection = Error;
///
///     async fn from_request(request: &mut Request) -> Result<Self, Error> {
///         Ok(Token(request.headers().get("x-token").unwrap_or_default().to_owned()))
///     }
/// }
///
/// impl OptionalFromRequest for Token {
///     fn is_absent(request: &Request) -> bool {
///         !request.headers().contains("x-token")
///     }
/// }
///
/// let router = Router::new().get("/", async |token: Option<Token>| match token {
///     Some(Token(token)) => format!("hello, {token}"),
///     None => "who are you?".to_owned(),
/// });
/// # drop(router);
/// ```
pub trait OptionalFromRequest: FromRequest {
    /// Whether the request has nothing of the kind.
    fn is_absent(request: &Request) -> bool;
}

impl<T: OptionalFromRequest> FromRequest for Option<T> {
    type Rejection = T::Rejection;

    async fn from_request(request: &mut Request) -> Result<Self, T::Rejection> {
        match T::is_absent(request) {
            true => Ok(None),
            false => T::from_request(request).await.map(Some),
        }
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}

/// The whole request, its body included. A later argument that reads the body is an error at start.
impl FromRequest for Request {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: &mut Request) -> Result<Self, Self::Rejection> {
        Ok(request.take())
    }

    fn needs(needs: &mut Needs) {
        needs.request();
    }
}

impl FromRequest for Method {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: &mut Request) -> Result<Self, Self::Rejection> {
        Ok(request.method().clone())
    }
}

/// A copy of the header fields.
impl FromRequest for Headers {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: &mut Request) -> Result<Self, Self::Rejection> {
        Ok(request.headers().clone())
    }
}
