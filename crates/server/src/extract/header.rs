//! One header field as a value of its own type.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Deref;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// A header field of the request, as the type that knows its name: [`FromHeader`].
///
/// A missing or malformed field is a 400 that names the field. With an `Option`, a missing one is `None`, and a malformed one is
/// still refused.
///
/// ```
/// use std::num::ParseIntError;
/// use anywire_server::{FromHeader, Header, Router};
///
/// struct Tenant(u32);
///
/// impl FromHeader for Tenant {
///     type Error = ParseIntError;
///
///     fn name() -> &'static str {
///         "x-tenant"
///     }
///
///     fn from_header(value: &str) -> Result<Self, ParseIntError> {
///         value.parse().map(Tenant)
///     }
/// }
///
/// let router = Router::new().get("/", async |Header(tenant): Header<Tenant>| tenant.0.to_string());
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/").header("x-tenant", "seven")).await;
/// assert_eq!(response.status, anywire_http::StatusCode::BAD_REQUEST);
/// let expected = "the field x-tenant does not fit: invalid digit found in string";
/// assert_eq!(response.body.text(100).await?, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the feature `headers`, each type of the crate `headers` is one, too: `Header<headers::UserAgent>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header<T>(pub T);

impl<T> Deref for Header<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A type that is read from a header field, for [`Header`].
///
/// With the feature `headers`, every `headers::Header` implements it. A type of your own then implements one of the two traits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a header field",
    label = "`Header` takes a type that knows the name of its field",
    note = "implement `FromHeader` for `{Self}`; for the types of the crate `headers`, enable the feature `headers`"
)]
pub trait FromHeader: Sized {
    /// What is wrong with a value. The peer reads it.
    type Error: Display;

    /// Whether the value is a list, such as that of `accept`. A list may come in several fields of the same name: their values
    /// arrive joined by `, ` (RFC 9110 section 5.3). Of any other field a second one is refused.
    const IS_LIST: bool = false;

    /// The name of the field. Its case does not matter.
    fn name() -> &'static str;

    /// Reads the value, which has no white space around it.
    ///
    /// # Errors
    /// What is wrong with the value: the request is refused with 400.
    fn from_header(value: &str) -> Result<Self, Self::Error>;

    /// Reads all values of the field. The default gives them to [`from_header`](Self::from_header).
    #[doc(hidden)]
    fn from_headers<'v>(values: impl Iterator<Item = &'v [u8]>) -> Result<Self, HeaderFault> {
        let value = joined::<Self>(values)?;
        Self::from_header(&value).map_err(|wrong| HeaderFault::Malformed(wrong.to_string()))
    }
}

/// Why a header field does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// There is none of this name.
    #[error("it is missing")]
    Missing,
    /// It stands more than once, and is no list.
    #[error("it stands more than once")]
    Repeated,
    /// Its value is not UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// Its type does not take the value.
    #[error("{0}")]
    Malformed(String),
}

fn joined<'v, T: FromHeader>(
    mut values: impl Iterator<Item = &'v [u8]>,
) -> Result<Cow<'v, str>, HeaderFault> {
    let text = |value| str::from_utf8(value).map_err(|_| HeaderFault::NotText);
    let mut value = Cow::Borrowed(text(values.next().ok_or(HeaderFault::Missing)?)?);
    for more in values {
        if !T::IS_LIST {
            return Err(HeaderFault::Repeated);
        }
        let list = value.to_mut();
        list.push_str(", ");
        list.push_str(text(more)?);
    }
    Ok(value)
}

/// The types of the crate `headers`.
#[cfg(feature = "headers")]
impl<T: headers::Header> FromHeader for T {
    type Error = headers::Error;

    fn name() -> &'static str {
        T::name().as_str()
    }

    fn from_header(value: &str) -> Result<Self, headers::Error> {
        let value = headers::HeaderValue::from_str(value).map_err(|_| headers::Error::invalid())?;
        T::decode(&mut std::iter::once(&value))
    }

    // Such a type knows by itself what several fields mean, and takes bytes that are not UTF-8.
    fn from_headers<'v>(values: impl Iterator<Item = &'v [u8]>) -> Result<Self, HeaderFault> {
        let values: Result<Vec<_>, _> = values.map(headers::HeaderValue::from_bytes).collect();
        let values = values.map_err(|wrong| HeaderFault::Malformed(wrong.to_string()))?;
        match values.is_empty() {
            true => Err(HeaderFault::Missing),
            false => T::decode(&mut values.iter()).map_err(|wrong| HeaderFault::Malformed(wrong.to_string())),
        }
    }
}

impl<T: FromHeader> FromRequestParts for Header<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let read = T::from_headers(parts.headers().get_all(T::name()));
        read.map(Self).map_err(|fault| Rejection::Header { name: T::name(), fault })
    }
}

impl<T: FromHeader> OptionalFromRequestParts for Header<T> {
    fn is_absent(parts: &Parts) -> bool {
        !parts.headers().contains(T::name())
    }
}
