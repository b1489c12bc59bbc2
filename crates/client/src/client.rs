//! The client: what a user holds, clones and calls.

pub(crate) mod builder;
pub(crate) mod by_origin;
pub(crate) mod config;
mod connect_ahead;
pub(crate) mod handle;
pub(crate) mod inner;
pub(crate) mod limits;
pub(crate) mod loops;
pub(crate) mod origin_options;

use std::sync::Arc;
use std::time::Duration;

use anywire_http::{Method, Request, RequestHead, Version};

use crate::Error;
use crate::call::max_forwards;
use crate::call::sending::Sending;
use crate::call::{Call, parse_url};
use crate::client::handle::{ClientRef, Handle, Shutdown};
use crate::metrics::counters::ClientCounters;

/// An HTTP client: pools of connections on loops, usable from any thread and any executor.
///
/// A clone is the same client, and so is a [`Call`] that is not sent yet. When the last one is dropped, idle connections
/// are closed, and calls that are under way finish. The loops that clients share stop with the last of them.
///
/// A call that is made on one of the client's loops stays on that loop. A call from elsewhere goes to the next loop in
/// turn. Any executor may await its future.
///
/// ```no_run
/// # async fn example() -> Result<(), anywire_client::Error> {
/// let client = anywire_client::Client::new();
/// let response = client.get("http://127.0.0.1:8080/hello").header("accept", "text/plain").send().await?;
/// println!("{}: {}", response.status(), response.text().await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) handle: Arc<Handle>,
}

impl Client {
    /// A `GET` call. The URL is a text or a [`Url`](anywire_http::Url). A bad one is reported by [`send`](Call::send), for this and all
    /// methods below.
    pub fn get(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::GET, url)
    }

    /// A `POST` call.
    pub fn post(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::POST, url)
    }

    /// A `PUT` call.
    pub fn put(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::PUT, url)
    }

    /// A `DELETE` call.
    pub fn delete(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::DELETE, url)
    }

    /// A `HEAD` call: the response has no body.
    pub fn head(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::HEAD, url)
    }

    /// An `OPTIONS` call. A URL that ends with its host, `http://host`, asks for the server as a whole (`*`, RFC 9110 section 9.3.7).
    pub fn options(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::OPTIONS, url)
    }

    /// A `PATCH` call.
    pub fn patch(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::PATCH, url)
    }

    /// A call with any method, extension methods included. `CONNECT` is refused by [`send`](Call::send): a tunnel is
    /// no call.
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> Call {
        Call::new(ClientRef::new(&self.handle), method, url.as_ref())
    }

    /// Sends a [`Request`] of anywire or of the `http` crate. Its target is an absolute URL.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let request = http::Request::put("http://127.0.0.1:8080/item").header("x-id", "7").body("text".to_owned())?;
    /// let response: http::Response<_> = client.send(request).await?.try_into()?;
    /// # Ok(()) }
    /// ```
    pub fn send<R>(&self, request: R) -> Sending
    where
        R: TryInto<Request>,
        R::Error: Into<Error>,
    {
        let url = |head: &mut RequestHead| parse_url(&head.target());
        Call::of(ClientRef::new(&self.handle), request.try_into().map_err(Into::into), url).send()
    }

    /// A call that sends a request on to `upstream`, a URL such as `http://backend:8080`, as a reverse proxy does. The
    /// result of its [`send`](Call::send) is a handler's result: see [`Response`](crate::Response) and [`Error`].
    ///
    /// Method, path and query stay as they came, behind the path of `upstream` if it has one. The fields stay, except
    /// the ones for one connection ([`Headers::remove_hop_by_hop`](anywire_http::Headers::remove_hop_by_hop)). The
    /// `host` becomes the upstream's: set another one by [`header`](Call::header). A `via` is added (RFC 9110 section
    /// 7.6.3). The body streams with back-pressure. A `max-forwards` of `OPTIONS` and `TRACE` is counted down, and at 0 the call
    /// is answered here and sent nowhere (RFC 9110 section 7.6.2).
    ///
    /// The upstream is reached without the client's proxies, unless the call is given [one](Call::proxy).
    ///
    /// A redirect is the caller's, as any other response. The call has no total deadline, because a body may be as long as it likes: silence ends the call, and a part
    /// of a head, of a chunk's size or of trailers is no more than silence. A response whose length is not known may be silent for [`Timeouts::forwarded`](crate::Timeouts::forwarded), and one that says it is a stream for
    /// [`Timeouts::stream`](crate::Timeouts::stream).
    ///
    /// ```no_run
    /// use anywire_client::{Client, Error, Response};
    ///
    /// async fn proxy(client: &Client, request: anywire_http::Request) -> Result<Response, Error> {
    ///     client.forward(request, "http://backend:8080").send().await
    /// }
    /// ```
    pub fn forward<R>(&self, request: R, upstream: impl AsRef<str>) -> Call
    where
        R: TryInto<Request>,
        R::Error: Into<Error>,
    {
        let mut request: Result<Request, Error> = request.try_into().map_err(Into::into);
        let answer = request.as_mut().ok().and_then(|request| max_forwards::count(&mut request.head));
        let url = |head: &mut RequestHead| {
            let base = parse_url(upstream.as_ref())?;
            let via = match head.version() {
                Version::HTTP_10 => "1.0 anywire",
                Version::HTTP_2 => "2 anywire",
                _ => "1.1 anywire",
            };
            let headers = head.headers_mut();
            headers.remove_hop_by_hop();
            headers.remove("host");
            headers.append("via", via)?;
            // `OPTIONS *` asks about the server itself, for which the upstream may have its own path.
            Ok(base.join(head.path_and_query()).unwrap_or(base))
        };
        let call = Call::of(ClientRef::new(&self.handle), request, url)
            .forwarded()
            .redirects(0)
            .total_timeout(Duration::MAX);
        match answer {
            Some((head, body)) => call.answered(head, body),
            None => call,
        }
    }

    /// What the client counted so far, per loop. Empty before the first call of a client that was given no loops.
    pub fn counters(&self) -> ClientCounters {
        self.handle.counters()
    }

    /// Where its addresses come from: to find some without a call, and for [`counters`](anywire_wire::names::Names::counters) of
    /// queries and the cache.
    pub fn names(&self) -> &anywire_wire::names::Names {
        &self.handle.config().names
    }

    /// Ends the client: new calls are [`Shutdown`](Error::Shutdown) from now on, calls that are under way have
    /// `deadline` to finish and are then cut. Returns how many were cut.
    pub async fn shutdown(&self, deadline: Duration) -> Shutdown {
        self.handle.shutdown(deadline).await
    }
}
