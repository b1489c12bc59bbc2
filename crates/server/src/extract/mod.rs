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

    /// Names what must have been given to the server, so that its lack is an error at start and not at the first
    /// request. By default nothing.
    fn needs(_needs: &mut Needs) {}
}

/// The whole request, its body included: an argument behind it finds the body taken.
impl FromRequest for Request {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: &mut Request) -> Result<Self, Self::Rejection> {
        Ok(request.take())
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

/// `None` where the extractor would have refused.
impl<T: FromRequest> FromRequest for Option<T> {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: &mut Request) -> Result<Self, Self::Rejection> {
        Ok(T::from_request(request).await.ok())
    }

    fn needs(needs: &mut Needs) {
        T::needs(needs);
    }
}
