//! What stands before the body in a tuple that becomes a response.

use http::{Extensions, HeaderMap};

use super::{IntoResponse, SetCookie};
use crate::{Headers, Response, StatusCode};

/// A part of a response, which stands before its body in a tuple: fields as pairs of name and value in an array, as [`Headers`] or
/// as the `http` crate's `HeaderMap`; a [`SetCookie`]; `Extensions`, which layers read and which are not sent. `None` of an `Option`
/// adds nothing.
///
/// Fields replace those of their names that the body brings, or an earlier part; a cookie does not. Two fields of one name in one
/// part are both sent. A field that cannot be sent is remembered as the response's [`Response::fault`], and a server answers 500
/// instead.
///
/// ```
/// use anywire_http::{IntoResponse, SetCookie, StatusCode};
///
/// let response = (StatusCode::CREATED, SetCookie::new("cart", "7"), [("location", "/carts/7")], "made").into_response();
/// assert_eq!(response.headers.get("set-cookie"), Some("cart=7; Path=/; Secure; HttpOnly; SameSite=Lax"));
/// assert_eq!(response.headers.get("location"), Some("/carts/7"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a part of a response",
    label = "this stands where the fields of a response belong",
    note = "give an array of pairs such as `[(\"location\", \"/orders/7\")]`, `Headers`, an `http::HeaderMap`, or a `SetCookie`"
)]
pub trait IntoResponseParts {
    /// Sets it.
    fn set_on(self, response: &mut Response);
}

impl<K: AsRef<str>, V: AsRef<[u8]>, const N: usize> IntoResponseParts for [(K, V); N] {
    fn set_on(self, response: &mut Response) {
        set(response, self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
    }
}

impl IntoResponseParts for Headers {
    fn set_on(self, response: &mut Response) {
        set(response, self.iter());
    }
}

impl IntoResponseParts for HeaderMap {
    fn set_on(self, response: &mut Response) {
        Headers::from(&self).set_on(response);
    }
}

impl IntoResponseParts for Extensions {
    fn set_on(self, response: &mut Response) {
        response.extensions_mut().extend(self);
    }
}

/// Nothing.
impl IntoResponseParts for () {
    fn set_on(self, _: &mut Response) {}
}

impl<P: IntoResponseParts> IntoResponseParts for Option<P> {
    fn set_on(self, response: &mut Response) {
        if let Some(part) = self {
            part.set_on(response);
        }
    }
}

/// Replaces the fields of these names. Repeated names in `fields` all stay.
fn set<'f>(response: &mut Response, fields: impl Iterator<Item = (&'f str, &'f [u8])> + Clone) {
    for (name, _) in fields.clone() {
        response.headers.remove(name);
    }
    for (name, value) in fields {
        let added = response.headers.append(name, value);
        response.note(added);
    }
}

/// A part without a body.
macro_rules! alone {
    ($([$($generics:tt)*] $part:ty)*) => {$(
        impl<$($generics)*> IntoResponse for $part {
            #[inline]
            fn into_response(self) -> Response {
                (self, ()).into_response()
            }
        }
    )*};
}

alone! {
    [K: AsRef<str>, V: AsRef<[u8]>, const N: usize] [(K, V); N]
    [] Headers
    [] HeaderMap
    [] SetCookie
}

macro_rules! tuples {
    ($(($($part:ident)+))*) => {$(
        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of a part")]
        impl<$($part: IntoResponseParts,)+ R: IntoResponse> IntoResponse for ($($part,)+ R) {
            #[inline]
            fn into_response(self) -> Response {
                let ($($part,)+ body) = self;
                let mut response = body.into_response();
                $($part.set_on(&mut response);)+
                response
            }
        }

        #[allow(non_snake_case, reason = "one identifier serves as the type and as the value of a part")]
        impl<$($part: IntoResponseParts,)+ R: IntoResponse> IntoResponse for (StatusCode, $($part,)+ R) {
            #[inline]
            fn into_response(self) -> Response {
                let (status, $($part,)+ body) = self;
                (status, ($($part,)+ body)).into_response()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_apply_in_their_order() {
        let mut extensions = Extensions::new();
        extensions.insert(7_u8);
        let cookies = [("set-cookie", "a=1"), ("set-cookie", "b=2")];
        let (none, page) = (None::<SetCookie>, [("content-type", "text/css")]);
        let response = (StatusCode::CREATED, page, cookies, extensions, none, "text").into_response();
        assert_eq!((response.status, response.extensions().get()), (StatusCode::CREATED, Some(&7_u8)));
        let expected = b"content-type: text/css\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n";
        assert_eq!(response.headers.wire_bytes(), expected);
        let (one, other) = ([("x", "1")], Some([("X", "2")]));
        assert_eq!((one, other, ()).into_response().headers.wire_bytes(), b"X: 2\r\n");
    }
}
