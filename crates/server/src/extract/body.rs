//! Extractors of the body: as JSON, bytes, text or a stream.

use std::borrow::Cow;
use std::convert::Infallible;

use anywire_http::Body;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use super::{FromRequest, OptionalFromRequest, Rejection, media, shown};
use crate::request::{Parts, Request};

/// A JSON body in a request (as an argument) or a response (as a result).
///
/// As an argument it must be the last one. A request gets 415 unless its content type is `application/json` or
/// `application/*+json`, whatever character set it names (RFC 8259 section 11); 413 if its body is larger than
/// [`Limits::body_bytes`](crate::Limits::body_bytes); 400 if the text is not JSON and nothing else, nests as deep as
/// [`Limits::json_depth`](crate::Limits::json_depth), or holds a number
/// that no type has; and 422 if the JSON has another shape than `T`. A body that is coded, such as by gzip, is a 415, too. The
/// response names the part that does not fit, such as `items[2].count`, with its line and column.
///
/// ```
/// use anywire_server::{Json, Router};
///
/// #[derive(serde::Deserialize, serde::Serialize)]
/// struct Order { item: String }
///
/// let router = Router::new().post("/orders", async |Json(order): Json<Order>| Json(order));
/// # drop(router);
/// ```
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Json<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        media::expect(&request, "application/json", media::is_json)?;
        let limit = request.body_limit_bytes();
        let (parts, mut body) = request.into_parts();
        let bytes = body.bytes(limit).await.map_err(Rejection::Body)?;
        Self::of_bytes(&parts, &bytes)
    }
}

impl<T: DeserializeOwned> Json<T> {
    /// Reads the body of this request.
    pub(crate) fn of_bytes(parts: &Parts, bytes: &[u8]) -> Result<Self, Rejection> {
        let limit = parts.json_depth();
        let read = match limit < SERDE_JSON_DEPTH && reaches(bytes, limit) {
            true => Err(Rejection::JsonDepth { limit }),
            false => serde_json::from_slice(bytes).map(Self).map_err(|cause| Rejection::Json {
                path: path_to_fault::<T>(bytes),
                cause: shortened(cause),
            }),
        };
        read.map_err(|rejection| match parts.headers().content_coding() {
            // What is coded is no JSON.
            Some(coding) => Rejection::Coded { coding },
            None => rejection,
        })
    }
}

/// A value that does not fit is in the message, however long it is.
#[cold]
fn shortened(cause: serde_json::Error) -> serde_json::Error {
    if !cause.is_data() {
        return cause;
    }
    let whole = cause.to_string();
    match shown::message(&*whole) {
        Cow::Borrowed(_) => cause,
        // Line and column are at its end, where `serde_json` reads them again.
        Cow::Owned(cut) => serde::de::Error::custom(cut),
    }
}

/// From so many arrays and objects in each other on `serde_json` refuses a text by itself.
const SERDE_JSON_DEPTH: usize = 128;

/// Whether so many arrays and objects of a JSON text stand in each other.
#[cold]
fn reaches(json: &[u8], limit: usize) -> bool {
    let (mut depth, mut is_string) = (0, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_string = !is_string,
            b'\\' if is_string => _ = bytes.next(),
            b'[' | b'{' if !is_string => {
                depth += 1;
                if depth >= limit {
                    return true;
                }
            }
            // A text that closes more than it opens is no JSON, and refused as such.
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The way to the part that does not fit, such as `items[2].count`; empty if it is all of it. The body is read a second time:
/// to keep track of the way costs each body, and most are right.
#[cold]
fn path_to_fault<T: DeserializeOwned>(json: &[u8]) -> String {
    let mut json = serde_json::Deserializer::from_slice(json);
    let again: Result<T, _> = serde_path_to_error::deserialize(&mut json);
    let Some(error) = again.err() else { return String::new() };
    let mut path = error.path().to_string();
    if path == "." {
        path.clear();
    }
    // What was read last was to be a name.
    if matches!(error.path().iter().next_back(), Some(Segment::Unknown)) {
        path.truncate(path.len() - 1);
        path.truncate(path.trim_end_matches('.').len());
    }
    shown::name(path).into_owned()
}

impl<T: DeserializeOwned> OptionalFromRequest for Json<T> {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

impl FromRequest for Bytes {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        collect(request).await
    }
}

impl OptionalFromRequest for Bytes {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

/// The body as text. A character set other than UTF-8 is a 415.
impl FromRequest for String {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        media::expect_utf8(&request)?;
        media::expect_uncoded(&request)?;
        let limit = request.body_limit_bytes();
        request.into_body().text(limit).await.map_err(Rejection::Body)
    }
}

impl OptionalFromRequest for String {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

/// The body as a stream: nothing is read from the wire before the handler asks for it.
impl FromRequest for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request) -> Result<Self, Infallible> {
        Ok(request.into_body())
    }
}

impl OptionalFromRequest for Body {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

async fn collect(request: Request) -> Result<Bytes, Rejection> {
    let limit = request.body_limit_bytes();
    request.into_body().bytes(limit).await.map_err(Rejection::Body)
}
