//! Redirects (RFC 9110 section 15.4): where a response sends its client, and with what.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;

use anywire_http::url::UrlError;
use anywire_http::{Headers, Method, StatusCode, Url};

use crate::call::request::{CallRequest, Contained};
use crate::{Error, Response};

/// How a client follows redirects: responses 301, 302, 303, 307 and 308 with a `location`.
///
/// | status | method | body |
/// | --- | --- | --- |
/// | 301, 302 | `POST` becomes `GET`, others stay | dropped with its fields if the method changes, else kept |
/// | 303 | becomes `GET`, `HEAD` stays | dropped with its fields |
/// | 307, 308 | stays | kept |
///
/// To another origin (scheme, host, port) go no `authorization`, `proxy-authorization`, `cookie` and `host`, and none of
/// [`sensitive`](Self::sensitive). The deadline of the whole call holds for all hops together.
///
/// ```
/// use anywire_client::{Client, Redirects};
///
/// let client = Client::builder().redirects(Redirects { hops: 3, ..Redirects::default() }).build();
/// let call = client.get("http://shop/").redirects(0);
/// ```
#[derive(Clone)]
pub struct Redirects {
    /// How many are followed, one after the other. Default 5: real sites need two or three, and a circle is noticed apart. One more is [`Error::Redirect`]. With 0 a response of this
    /// kind is what the caller gets.
    pub hops: usize,
    /// Whether a URL of `https` may lead to one of `http`. Default: no.
    pub to_clear_text: bool,
    /// Names of further fields that stay with their origin, such as `x-api-key`. Default: none.
    pub sensitive: Vec<String>,
    /// Asked before each hop, if it is set: `false` leaves the response to the caller.
    pub follow: Option<FollowHook>,
}

/// Decides about a redirect: [`Redirects::follow`].
pub type FollowHook = Arc<dyn Fn(&RedirectTarget<'_>) -> bool + Send + Sync>;

impl Default for Redirects {
    fn default() -> Self {
        Self { hops: 5, to_clear_text: false, sensitive: Vec::new(), follow: None }
    }
}

/// As many hops; the rest is as the default.
impl From<usize> for Redirects {
    fn from(hops: usize) -> Self {
        Self { hops, ..Self::default() }
    }
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hops, to_clear_text, sensitive, follow } = self;
        f.debug_struct("Redirects")
            .field("hops", hops)
            .field("to_clear_text", to_clear_text)
            .field("sensitive", sensitive)
            .field("follow", &follow.is_some())
            .finish()
    }
}

/// Where a redirect leads.
#[derive(Debug)]
#[non_exhaustive]
pub struct RedirectTarget<'a> {
    /// The URL that answered.
    pub from: &'a Url,
    /// The URL of its `location`.
    pub to: &'a Url,
    /// The status.
    pub status: StatusCode,
    /// The hops before.
    pub history: &'a [Hop],
}

/// A URL that has led to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hop {
    /// The URL.
    pub url: Url,
    /// The method that it was called with.
    pub method: Method,
    /// What it has answered.
    pub status: StatusCode,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectFault {
    /// There were as many as [`Redirects::hops`] before. A limit.
    #[error("{0} have been followed before")]
    TooMany(usize),
    /// The same request was redirected before. Fault of the peer.
    #[error("it leads in a circle")]
    Circle,
    /// The `location` is no URL that can be called. Fault of the peer.
    #[error("its location cannot be called")]
    Location(#[source] UrlError),
    /// It leads from `https` to `http`, which [`Redirects::to_clear_text`] does not allow. Fault of the peer.
    #[error("it leads from https to http")]
    ClearText,
    /// The request goes with its body, which came in pieces and was read. Fault of the caller.
    #[error("the body of the request was read, and cannot be sent again")]
    BodyIsGone,
    /// It leads to another origin, and the call goes [by way of](crate::Call::via) an address. Fault of the peer.
    #[error("it leads to another origin than the one that the call goes to by its own wire")]
    LeavesWire,
}

/// What comes behind a response that redirects.
pub(super) enum Step {
    /// The response is the caller's.
    Stay(Box<CallRequest>),
    /// The next request, and the hop that is behind.
    Follow(Box<CallRequest>, Hop),
}

/// Whether a response is a redirect, and one that may be followed.
pub(super) fn applies(redirects: &Redirects, response: &Response) -> bool {
    redirects.hops > 0
        && matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308)
        && response.headers().contains("location")
}

/// What follows a response to which redirects [apply](applies).
pub(super) fn next(
    redirects: &Redirects,
    response: &Response,
    mut request: Box<CallRequest>,
    history: &[Hop],
) -> Result<Step, Error> {
    let status = response.status();
    let location = response.headers().get_bytes("location").unwrap_or_default();
    let location = text(location);
    let wrong = |url: &Url, fault| Error::Redirect {
        url: url.as_str().to_owned(),
        status,
        location: anywire_http::url::redact(&location),
        fault,
    };
    let from = &request.url;
    let to = from.resolve(&location).map_err(|source| wrong(from, RedirectFault::Location(source)))?;
    if let Some(follow) = &redirects.follow
        && !follow(&RedirectTarget { from, to: &to, status, history })
    {
        return Ok(Step::Stay(request));
    }
    let method = method_after(status, &request.method);
    let same_origin = from.origin() == to.origin();
    let hop = Hop { url: from.clone(), method: request.method.clone(), status };
    let fault = if history.len() >= redirects.hops {
        Some(RedirectFault::TooMany(redirects.hops))
    } else if from.is_https() && !to.is_https() && !redirects.to_clear_text {
        Some(RedirectFault::ClearText)
    } else if request.options.via.is_some() && !same_origin {
        Some(RedirectFault::LeavesWire)
    } else if to.is_https() && !cfg!(feature = "tls") {
        Some(RedirectFault::Location(UrlError::Tls))
    } else if history.iter().any(|before| before.url == hop.url && before.method == hop.method) {
        // Once may have set a cookie, so the second time is the first in a circle.
        Some(RedirectFault::Circle)
    } else if method == request.method && request.body.is_taken() {
        Some(RedirectFault::BodyIsGone)
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(wrong(from, fault));
    }
    if method != request.method {
        request.body = Contained::default();
        for name in OF_THE_BODY {
            request.headers.remove(name);
        }
    }
    if !same_origin {
        leave_origin(&mut request.headers, &redirects.sensitive);
        request.headers.remove("host");
    }
    request.method = method;
    request.url = to;
    request.of_server = false;
    request.retry_of = None;
    request.sent_to = None;
    Ok(Step::Follow(request, hop))
}

/// A location as text. Bytes that are no UTF-8 go to the server as it has sent them, percent-encoded.
fn text(location: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(location) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(location.len() + 8);
    for chunk in location.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    Cow::Owned(text)
}

/// The method of the request that follows.
fn method_after(status: StatusCode, method: &Method) -> Method {
    match (status.as_u16(), method) {
        (301 | 302, &Method::POST) => Method::GET,
        (303, method) if method != Method::HEAD => Method::GET,
        _ => method.clone(),
    }
}

/// Fields that go with their body, and mean nothing without it (RFC 9110 section 15.4).
const OF_THE_BODY: [&str; 11] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "content-length",
    "content-disposition",
    "content-digest",
    "repr-digest",
    "digest",
    "expect",
    "trailer",
];

/// Removes the fields that are for one origin alone: they say who calls. `sensitive`: names of further ones.
pub(crate) fn leave_origin(headers: &mut Headers, sensitive: &[String]) {
    for name in OF_THE_ORIGIN.into_iter().chain(sensitive.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

const OF_THE_ORIGIN: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];
