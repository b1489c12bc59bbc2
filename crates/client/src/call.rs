//! A call while it is put together.

pub(crate) mod attempt;
pub(crate) mod callers;
pub(crate) mod job;
pub(crate) mod max_forwards;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod sending;

use std::sync::Arc;
use std::time::Duration;

use anywire_http::url::{UrlError, is_bare};
use anywire_http::{Body, Method, Request, RequestHead, ResponseHead, Url};
use anywire_wire::ToAddress;
use serde::Serialize;

use crate::call::request::{CallRequest, Contained, Last};
use crate::call::sending::Sending;
use crate::chain::{Redirects, Retries};
use crate::client::handle::ClientRef;
use crate::pool::over_tls;
use crate::proxy::ProxyOfCall;
use crate::{Error, Trace};

/// A call that is not sent yet. It keeps its client, as a clone of the client does.
///
/// [`send`](Self::send) reports a fault in an argument, so that calls read in one line.
///
/// ```no_run
/// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
/// let order = [("item", "tea"), ("count", "2")];
/// let call = client.post("http://shop/orders").query(&order).json(&order).via("unix:/run/shop.sock");
/// let response = call.send().await?;
/// assert_eq!(response.status(), 201);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent and awaited"]
pub struct Call {
    client: ClientRef,
    request: Result<Box<CallRequest>, Error>,
}

impl Call {
    pub(crate) fn new(client: ClientRef, method: Method, url: &str) -> Self {
        let of_server = method == Method::OPTIONS && is_bare(url);
        let mut request = match parse_url(url) {
            Ok(url) => client.inner().request(method, url),
            Err(Error::Url { source: UrlError::UserInfo, .. }) => {
                return Self::with_user_info(client, method, url);
            }
            Err(error) => Err(error),
        };
        if let Ok(request) = &mut request {
            request.of_server = of_server;
        }
        Self { request, client }
    }

    /// Name and password of a URL are sent as such, and are no part of it.
    #[cold]
    fn with_user_info(client: ClientRef, method: Method, url: &str) -> Self {
        match crate::auth::of_url(url) {
            Some((without, credential)) => Self::new(client, method, &without).authorization(credential),
            None => Self { client, request: Err(Error::of_url(url, UrlError::UserInfo)) },
        }
    }

    /// A call with a request that was made elsewhere, to the URL that `url` gives.
    pub(crate) fn of(
        client: ClientRef,
        request: Result<Request, Error>,
        url: impl FnOnce(&mut RequestHead) -> Result<Url, Error>,
    ) -> Self {
        let request = request.and_then(|mut request| {
            if let Some(fault) = request.fault() {
                return Err(fault.clone().into());
            }
            let url = url(&mut request.head)?;
            let mut made = client.inner().request(request.head.method().clone(), url)?;
            // Behind the path of an upstream, a path stands in its place.
            made.of_server = request.head.path_and_query() == "*" && made.url.path_and_query() == "/";
            made.headers = request.head.into_headers();
            made.check_host()?;
            if made.headers.contains("connection") {
                made.last = Last::ByField;
            }
            made.body = request.body.into();
            Ok(made)
        });
        Self { client, request }
    }

    /// Adds a header field. A `host` takes the place of the URL's. With a `connection`, whatever it says, the
    /// connection is closed after the response.
    ///
    /// [`send`](Self::send) reports [`Header`](Error::Header) if the name or the value holds a forbidden byte, such as
    /// CR or LF. It reports [`ReservedHeader`](Error::ReservedHeader) for `content-length` and `transfer-encoding`:
    /// the client writes them from the body.
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.edit(|request| request.append_header(name, value))
    }

    /// Adds pairs to the URL's query, encoded once: a struct, a map or a list of pairs.
    pub fn query<T: Serialize + ?Sized>(self, pairs: &T) -> Self {
        self.edit(|request| {
            let pairs = serde_urlencoded::to_string(pairs).map_err(Error::Query)?;
            request.of_server &= pairs.is_empty();
            request.url.push_query(&pairs);
            Ok(())
        })
    }

    /// Adds pairs to the URL's query that are percent-encoded already, as they are: `a=b%20c&d`. [`send`](Self::send) reports
    /// [`Url`](Error::Url) if they hold what no query may have (RFC 3986 section 3.4).
    pub fn query_encoded(self, pairs: impl AsRef<str>) -> Self {
        self.edit(|request| {
            let pairs = pairs.as_ref();
            request.url.push_encoded(pairs).map_err(|source| Error::of_url(pairs, source))?;
            request.of_server &= pairs.is_empty();
            Ok(())
        })
    }

    /// Sets the body: bytes, text, or a stream. Its length decides how it is framed (RFC 9112 section 6).
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.edit(|request| {
            request.body = Contained::from(body);
            Ok(())
        })
    }

    /// Sets the body to a value as JSON, and `content-type` if it is not set.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.edit(|request| {
            request.body = Contained::from(serde_json::to_vec(value).map_err(Error::JsonBody)?);
            if !request.headers.contains("content-type") {
                request.headers.append("content-type", "application/json")?;
            }
            Ok(())
        })
    }

    /// Sets the body to the pairs of a form that are encoded already, as they are: `a=b+c&d=%C3%A9`; and `content-type` if it is not set.
    /// Others go through [`FormCodec`](crate::codec::FormCodec).
    pub fn form_encoded(self, pairs: impl Into<String>) -> Self {
        self.edit(|request| {
            request.body = Contained::from(pairs.into());
            if !request.headers.contains("content-type") {
                request.headers.append("content-type", "application/x-www-form-urlencoded")?;
            }
            Ok(())
        })
    }

    /// The wire to go by, as text or as an [`Address`](anywire_wire::Address): `unix:/run/app.sock`,
    /// `tcp:10.0.0.1:80`, `memory:app`. The URL still gives the `host` field and the path.
    ///
    /// If the scheme of the URL is `https`, TLS is spoken on that wire: `unix:/run/app.sock` is the same as
    /// `tls+unix:/run/app.sock` then. The peer has to prove the host of the URL. An `http` URL by way of a wire with TLS goes
    /// over TLS, too. Such a call goes through no proxy.
    pub fn via(self, address: impl ToAddress) -> Self {
        self.edit(|request| {
            let address = address.to_address().map_err(|source| Error::Via { source })?;
            request.options.via = Some(if request.url.is_https() { over_tls(&address)? } else { address });
            Ok(())
        })
    }

    /// Asks the peer to switch to another protocol, such as `websocket` (RFC 9110 section 7.8). A response 101 then has
    /// the connection: [`Response::upgrade`](crate::Response::upgrade). Over HTTP/2 that is an extended CONNECT (RFC 8441), and a
    /// 2xx has a stream of the connection. A body
    /// of this call is not sent then.
    pub fn upgrade(self, protocol: impl AsRef<str>) -> Self {
        let call = self.header("connection", "upgrade").header("upgrade", protocol.as_ref());
        call.edit(|request| {
            request.upgrade = true;
            Ok(())
        })
    }

    /// [`Timeouts::first_byte`](crate::Timeouts::first_byte) of this call.
    pub fn first_byte_timeout(self, limit: Duration) -> Self {
        self.edit(|request| {
            request.options.first_byte_timeout = Some(limit);
            request.options.has_first_byte_timeout = true;
            Ok(())
        })
    }

    /// [`Timeouts::read`](crate::Timeouts::read) of this call.
    pub fn read_timeout(self, limit: Duration) -> Self {
        self.edit(|request| {
            request.options.read_timeout = limit;
            request.options.has_read_timeout = true;
            Ok(())
        })
    }

    /// [`Timeouts::stream`](crate::Timeouts::stream) and [`Timeouts::forwarded`](crate::Timeouts::forwarded) of this call.
    pub fn stream_timeout(self, limit: Duration) -> Self {
        self.edit(|request| {
            request.options.stream_timeout = limit;
            request.options.forwarded_timeout = limit;
            request.options.has_stream_timeout = true;
            Ok(())
        })
    }

    /// [`Timeouts::total`](crate::Timeouts::total) and [`Timeouts::stream_total`](crate::Timeouts::stream_total) of this call: all
    /// of it, up to the last byte of its body, collected or not.
    pub fn total_timeout(self, limit: Duration) -> Self {
        self.edit(|request| {
            request.options.total_timeout = limit;
            request.options.stream_total_timeout = limit;
            Ok(())
        })
    }

    /// How redirects of this call are followed, or how many: see [`Redirects`].
    pub fn redirects(self, redirects: impl Into<Redirects>) -> Self {
        self.edit(|request| {
            request.options.redirects = Some(Arc::new(redirects.into()));
            Ok(())
        })
    }

    /// How attempts of this call are repeated, or how often: see [`Retries`].
    pub fn retries(self, retries: impl Into<Retries>) -> Self {
        self.edit(|request| {
            request.options.retries = Some(Arc::new(retries.into()));
            Ok(())
        })
    }

    /// Says that doing twice what this call asks for does no harm, whatever its method is: so it may be
    /// [sent again](Retries) though the peer may have seen it.
    pub fn idempotent(self) -> Self {
        self.edit(|request| {
            request.options.is_idempotent = true;
            Ok(())
        })
    }

    /// [`ClientBuilder::expect_continue`](crate::ClientBuilder::expect_continue) of this call. With `u64::MAX` its body does not wait.
    pub fn expect_continue(self, min_bytes: u64) -> Self {
        self.edit(|request| {
            request.options.expect_continue = Some(min_bytes);
            Ok(())
        })
    }

    /// [`ClientBuilder::keep_alive`](crate::ClientBuilder::keep_alive) of this call.
    pub fn keep_alive(self, keep_alive: bool) -> Self {
        self.edit(|request| {
            (request.options.keep_alive, request.options.has_keep_alive) = (keep_alive, true);
            Ok(())
        })
    }

    /// Has a trace see where the time of this call goes: see [`Trace`].
    pub fn trace(self, trace: &Trace) -> Self {
        self.edit(|request| {
            request.options.trace = Some(trace.clone());
            Ok(())
        })
    }

    /// A value for the interceptors of this call: [`CallRequest::extensions`].
    pub fn extension<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.edit(|request| {
            request.extensions.insert(value);
            Ok(())
        })
    }

    /// The call's future. Nothing happens before it is polled. Dropping it cancels the call: over HTTP/1 the connection that
    /// carried it is closed, over HTTP/2 its stream is reset and the other calls go on.
    pub fn send(self) -> Sending {
        let request = self.request.and_then(|mut request| match request.method {
            Method::CONNECT => Err(Error::Tunnel),
            _ => request
                .accept_by_codecs()
                .and_then(|()| request.named(self.client.inner().config()))
                .and_then(|()| request.say_last())
                .map(|()| request),
        });
        Sending::new(self.client, request)
    }

    /// A proxy sends it on: a body of unknown length may rest, and its upstream is reached directly.
    pub(crate) fn forwarded(self) -> Self {
        self.edit(|request| {
            request.options.is_forwarded = true;
            request.options.proxy = ProxyOfCall::None;
            Ok(())
        })
    }

    /// Gives this response when it is sent, and sends nothing.
    pub(crate) fn answered(self, head: ResponseHead, body: Body) -> Self {
        self.edit(|request| {
            request.known_response = Some(Box::new((head, body)));
            Ok(())
        })
    }

    pub(crate) fn edit(mut self, change: impl FnOnce(&mut CallRequest) -> Result<(), Error>) -> Self {
        self.request = self.request.and_then(|mut request| change(&mut request).map(|()| request));
        self
    }
}

/// A URL that this build can call.
pub(crate) fn parse_url(text: &str) -> Result<Url, Error> {
    let wrong = |source| Error::of_url(text, source);
    match Url::parse(text) {
        Ok(url) if url.is_https() && !cfg!(feature = "tls") => Err(wrong(UrlError::Tls)),
        parsed => parsed.map_err(wrong),
    }
}
