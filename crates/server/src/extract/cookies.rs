//! The cookies of a request (RFC 6265, and the draft that replaces it).

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The cookies of a request, in the order in which they came.
///
/// Names and values are as the peer sent them: quotes around a value are a part of it, and nothing is percent-decoded. A part of
/// the field without a name or without `=` is skipped, and so is a cookie that is not UTF-8: a browser also sends the cookies that
/// other programs of the site have set. A request without cookies has none of them. A request with more than
/// [`Limits::form_fields`](crate::Limits::form_fields) is a 431; their length is a part of
/// [`Limits::head`](crate::Limits::head).
///
/// ```
/// use anywire_server::{Cookies, Router};
///
/// let hello = async |cookies: Cookies| format!("Hello, {}!", cookies.get("name").unwrap_or("World"));
/// let router = Router::new().get("/", hello);
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/").header("cookie", "lang=en; name=Ada")).await;
/// assert_eq!(response.body.text(100).await?, "Hello, Ada!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cookies {
    /// The fields, joined.
    text: String,
}

impl Cookies {
    /// The first cookie of this name. Case matters. Browsers send that of the longest path first.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// All cookies of this name: a browser sends those of a site and of its parts side by side.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        anywire_http::cookie::pairs(&self.text)
    }

    /// Those of a request: for an extractor of one of them, and for what may lack it.
    ///
    /// ```
    /// use anywire_server::{Cookies, FromRequestParts, OptionalFromRequestParts, Parts, Rejection, Router};
    ///
    /// struct Session(String);
    ///
    /// impl FromRequestParts for Session {
    ///     type Rejection = Rejection;
    ///
    ///     async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
    ///         Ok(Session(Cookies::of(parts)?.get("session").unwrap_or_default().to_owned()))
    ///     }
    /// }
    ///
    /// impl OptionalFromRequestParts for Session {
    ///     fn is_absent(parts: &Parts) -> bool {
    ///         Cookies::of(parts).is_ok_and(|cookies| cookies.get("session").is_none())
    ///     }
    /// }
    ///
    /// let router = Router::new().get("/", async |session: Option<Session>| session.is_some().to_string());
    /// # anywire_loops::block_on(async {
    /// let mut response = router.call(anywire_http::Request::get("/").header("cookie", "lang=en")).await;
    /// assert_eq!(response.body.text(100).await?, "false");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejection::TooManyCookies`].
    pub fn of(parts: &Parts) -> Result<Self, Rejection> {
        Self::read(parts.headers().get_all("cookie"), parts.form_fields_max())
    }

    /// Reads the values of all fields `cookie` of a request. HTTP/2 allows several.
    fn read<'v>(fields: impl Iterator<Item = &'v [u8]>, cookies_max: usize) -> Result<Self, Rejection> {
        let mut text = String::new();
        let mut found = 0;
        for field in fields {
            // A `;` may end the last one.
            let pairs = field.split(|byte| *byte == b';');
            found += pairs.filter(|pair| !pair.trim_ascii().is_empty()).count();
            if found > cookies_max {
                return Err(Rejection::TooManyCookies { max: cookies_max });
            }
            if !text.is_empty() {
                text.push(';');
            }
            match str::from_utf8(field) {
                Ok(field) => text.push_str(field),
                Err(_) => push_readable(&mut text, field),
            }
        }
        Ok(Self { text })
    }
}

/// Those of the field that are UTF-8.
#[cold]
fn push_readable(text: &mut String, field: &[u8]) {
    for pair in field.split(|byte| *byte == b';').filter_map(|pair| str::from_utf8(pair).ok()) {
        text.push_str(pair);
        text.push(';');
    }
}

impl FromRequestParts for Cookies {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        Self::of(parts)
    }
}

impl OptionalFromRequestParts for Cookies {
    fn is_absent(parts: &Parts) -> bool {
        !parts.headers().contains("cookie")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[&[u8]]) -> Cookies {
        Cookies::read(fields.iter().copied(), 10).expect("few")
    }

    #[test]
    fn names_and_values_are_as_they_came() {
        let cookies = read(&[b"a=1; b=\"x y\"; a=2;c==;d=", b"e=%20"]);
        let expected = [("a", "1"), ("b", "\"x y\""), ("a", "2"), ("c", "="), ("d", ""), ("e", "%20")];
        assert_eq!(cookies.iter().collect::<Vec<_>>(), expected);
        assert_eq!(cookies.get("a"), Some("1"));
        assert_eq!(cookies.get_all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(cookies.get("A"), None);
    }

    #[test]
    fn what_is_no_cookie_is_skipped() {
        let cookies = read(&[b"", b";;", b"alone; =nameless; a=1;\xff=2; b=\xff", b" b = 2 "]);
        assert_eq!(cookies.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    }

    #[test]
    fn there_are_only_so_many() {
        assert!(Cookies::read([&b"a=1; b=2"[..]].into_iter(), 2).is_ok());
        assert!(Cookies::read([&b"a=1; b=2"[..], b"c=3"].into_iter(), 2).is_err());
    }
}
