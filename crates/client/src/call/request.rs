//! The request of a call, with the options that hold for this call alone.

use std::borrow::Borrow;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anywire_http::h1::Framing;
use anywire_http::h1::encode::{self, EncodeError};
use anywire_http::{Body, BodyError, Headers, Method, ResponseHead, Url};
use anywire_wire::Address;
use bytes::Bytes;
use http::Extensions;

use crate::chain::{Redirects, Retries};
use crate::client::config::Config;
use crate::contained::{drop_caught, text_of_panic};
use crate::proxy::{ProxyOfCall, Relay};
use crate::trace::InterimHook;
use crate::{Error, Response, Trace};

/// A request on its way, as [interceptors](crate::Interceptor) see it.
///
/// ```
/// use anywire_client::{CallRequest, Error, Next, Response};
///
/// /// Names the tenant in each call.
/// async fn tenant(mut request: CallRequest, next: Next) -> Result<Response, Error> {
///     request.set_header("x-tenant", "blue")?;
///     next.call(request).await
/// }
/// # drop(anywire_client::Client::builder().intercept(tenant));
/// ```
#[derive(Debug)]
pub struct CallRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Headers,
    pub(crate) body: Contained,
    pub(crate) extensions: Extensions,
    pub(crate) options: CallOptions,
    /// Whether the connection is closed after the response.
    pub(crate) last: Last,
    /// It asks for the server as a whole, as `OPTIONS *`.
    pub(crate) of_server: bool,
    /// A response 101 is what the caller hopes for.
    pub(crate) upgrade: bool,
    /// When it was first given to a loop. Its deadlines hold for all its attempts.
    pub(crate) started: Option<Instant>,
    /// The reason why it goes out once more, which is the call's error if it may not.
    pub(crate) retry_of: Option<Box<Error>>,
    /// The proxy that reads the request, once it is with the pool whose connections lead there.
    pub(crate) relay: Option<Arc<Relay>>,
    /// Where it went, if a link of its hop has sent it elsewhere.
    pub(crate) sent_to: Option<Box<Url>>,
    /// The response, if it is known without a server.
    pub(crate) known_response: Option<Box<(ResponseHead, Body)>>,
}

/// Whether a request is the last one on its connection, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    No,
    /// The option `keep_alive` of its origin, of the client or of the call: it may go to another origin.
    ByOption,
    /// A `connection` field of the caller's.
    ByField,
}

/// The options of one call.
#[derive(Debug, Clone)]
pub(crate) struct CallOptions {
    /// Set if the call goes by another wire than the URL's.
    pub(crate) via: Option<Address>,
    pub(crate) proxy: ProxyOfCall,
    /// None: as for each other part of the response.
    pub(crate) first_byte_timeout: Option<Duration>,
    pub(crate) read_timeout: Duration,
    pub(crate) stream_timeout: Duration,
    pub(crate) forwarded_timeout: Duration,
    /// The call has said so itself, whatever its origin has.
    pub(crate) has_first_byte_timeout: bool,
    pub(crate) has_read_timeout: bool,
    pub(crate) has_stream_timeout: bool,
    pub(crate) has_keep_alive: bool,
    pub(crate) total_timeout: Duration,
    pub(crate) stream_total_timeout: Duration,
    /// Another's request, sent on by a proxy.
    pub(crate) is_forwarded: bool,
    /// Repeating it does no harm, whatever its method is.
    pub(crate) is_idempotent: bool,
    /// Its connection may carry other calls, before it and behind it.
    pub(crate) keep_alive: bool,
    /// The call itself has asked to share no connection.
    pub(crate) needs_own_connection: bool,
    /// [`Limits::body_bytes`](crate::Limits::body_bytes).
    pub(crate) collect_bytes: usize,
    /// None: as the client has it.
    pub(crate) redirects: Option<Arc<Redirects>>,
    /// None: as the client has it.
    pub(crate) retries: Option<Arc<Retries>>,
    /// From which size on a body waits for a 100. None: none does.
    pub(crate) expect_continue: Option<u64>,
    /// None: the usual ones.
    pub(crate) codecs: Option<Arc<crate::codec::Codecs>>,
    /// Is told of interim responses.
    pub(crate) on_interim: Option<InterimHook>,
    /// Sees where its time goes.
    pub(crate) trace: Option<Trace>,
    /// The jar of the client is left alone.
    #[cfg(feature = "cookies")]
    pub(crate) without_cookies: bool,
    /// None: as the client has it.
    #[cfg(feature = "signatures")]
    pub(crate) signer: Option<Arc<anywire_http::signatures::Signer>>,
}

impl CallOptions {
    /// How long the peer may be silent before the first byte of its response.
    pub(crate) fn head_timeout(&self) -> Duration {
        self.first_byte_timeout.unwrap_or(self.read_timeout)
    }
}

impl CallRequest {
    pub(crate) fn new(method: Method, url: Url, config: &Config) -> Self {
        let Config { limits, timeouts, .. } = config;
        let options = CallOptions {
            via: None,
            proxy: ProxyOfCall::OfClient,
            first_byte_timeout: timeouts.first_byte,
            read_timeout: timeouts.read,
            stream_timeout: timeouts.stream,
            forwarded_timeout: timeouts.forwarded,
            has_first_byte_timeout: false,
            has_read_timeout: false,
            has_stream_timeout: false,
            total_timeout: timeouts.total,
            stream_total_timeout: timeouts.stream_total,
            is_forwarded: false,
            is_idempotent: false,
            keep_alive: config.keep_alive,
            has_keep_alive: false,
            needs_own_connection: false,
            collect_bytes: limits.body_bytes,
            redirects: None,
            retries: None,
            expect_continue: config.expect_continue,
            codecs: config.codecs.clone(),
            on_interim: None,
            trace: None,
            #[cfg(feature = "cookies")]
            without_cookies: false,
            #[cfg(feature = "signatures")]
            signer: None,
        };
        Self {
            method,
            url,
            headers: Headers::new(),
            body: Contained::default(),
            extensions: Extensions::new(),
            options,
            last: Last::No,
            of_server: false,
            upgrade: false,
            started: None,
            retry_of: None,
            relay: None,
            sent_to: None,
            known_response: None,
        }
    }

    /// Marks the body as the attempt's own, to tell it from bodies that interceptors put in its place.
    pub(crate) fn with_body_of_attempt(mut self: Box<Self>) -> Box<Self> {
        self.body.is_of_attempt = true;
        self
    }

    /// Makes it the request of another attempt. `error` is what the call is told if the budget of retries allows none, and `was_sent` whether the peer
    /// may have acted on an attempt.
    pub(crate) fn as_retry(mut self: Box<Self>, attempts: u32, error: Error, was_sent: bool) -> Box<Self> {
        let spent = Error::Retried { attempts, is_budget_spent: true, was_sent, source: Box::new(error) };
        self.retry_of = Some(Box::new(spent));
        self.sent_to = None;
        self
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Sets the method.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Sets the URL. Fields stay as they are, those with credentials included.
    pub fn set_url(&mut self, url: Url) {
        self.url = url;
        self.of_server = false;
    }

    /// The header fields. `host`, `content-length` and `transfer-encoding` are written later, unless there is a `host`.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Adds a header field, as [`Call::header`](crate::Call::header) does.
    ///
    /// # Errors
    /// As there: [`Header`](Error::Header), [`ReservedHeader`](Error::ReservedHeader), [`Encode`](Error::Encode).
    pub fn append_header(&mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let name = name.as_ref();
        if let Some(name) = RESERVED.iter().find(|reserved| reserved.eq_ignore_ascii_case(name)) {
            return Err(Error::ReservedHeader { name });
        }
        self.headers.append(name, value)?;
        if name.eq_ignore_ascii_case("host") {
            self.check_host()?;
        }
        if name.eq_ignore_ascii_case("connection") {
            self.last = Last::ByField;
        }
        Ok(())
    }

    /// Sets a header field in place of those with this name.
    ///
    /// # Errors
    /// As [`append_header`](Self::append_header).
    pub fn set_header(&mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.remove_header(name.as_ref());
        self.append_header(name, value)
    }

    /// Removes the header fields with this name: whether there was one.
    pub fn remove_header(&mut self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("connection") {
            self.last = Last::No;
        }
        self.headers.remove(name)
    }

    /// The body. It is whole, or comes in pieces.
    pub fn body(&self) -> &Body {
        self.body.get()
    }

    /// Sets the body.
    pub fn set_body(&mut self, body: impl Into<Body>) {
        self.body = Contained::from(body);
    }

    /// Values of any type that the interceptors of a call hand on to each other.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The [`extensions`](Self::extensions), to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The wire to go by, if it is not the URL's: see [`Call::via`](crate::Call::via).
    pub fn via(&self) -> Option<&Address> {
        self.options.via.as_ref()
    }

    /// The trace of the call. If it has none, it is given one, which sees what happens from here on.
    pub fn trace(&mut self) -> &Trace {
        self.options.trace.get_or_insert_default()
    }

    /// Whether repeating it does no harm: its method is idempotent (RFC 9110 section 9.2.2), the call was
    /// [marked](crate::Call::idempotent), or it has an `idempotency-key`.
    pub fn is_idempotent(&self) -> bool {
        self.method.is_idempotent() || self.options.is_idempotent || self.headers.contains("idempotency-key")
    }

    /// A copy, unless the body comes in pieces, which come once.
    pub fn try_clone(&self) -> Option<Self> {
        Some(self.copy()).filter(|copy| !copy.body.is_taken())
    }

    /// A copy, without the body if that comes in pieces.
    pub(crate) fn copy(&self) -> Self {
        Self {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: self.body.copy(),
            extensions: self.extensions.clone(),
            options: self.options.clone(),
            last: self.last,
            of_server: self.of_server,
            upgrade: self.upgrade,
            started: self.started,
            retry_of: None,
            relay: None,
            sent_to: None,
            known_response: None,
        }
    }

    /// A response to this request that no server gave, for an interceptor that responds itself.
    ///
    /// ```
    /// use anywire_client::{CallRequest, Error, Next, Response};
    ///
    /// async fn closed(request: CallRequest, _next: Next) -> Result<Response, Error> {
    ///     let response = anywire_http::Response::new(anywire_http::StatusCode::SERVICE_UNAVAILABLE);
    ///     Ok(request.respond(response))
    /// }
    /// # drop(anywire_client::Client::builder().intercept(closed));
    /// ```
    pub fn respond(self, response: anywire_http::Response) -> Response {
        let mut head = ResponseHead::new(response.status);
        head.set_version(response.version);
        *head.headers_mut() = response.headers;
        Response::whole(Box::new(self), head, response.body, None)
    }

    /// Says which program calls, if the client has a name for it and the call has none.
    pub(crate) fn named(&mut self, config: &Config) -> Result<(), Error> {
        if let Some(name) = &config.user_agent
            && !self.options.is_forwarded
            && !self.headers.contains("user-agent")
        {
            self.headers.append("user-agent", name)?;
        }
        Ok(())
    }

    /// Says that its connection ends with it, if it does, or takes that back. What is switched to is another protocol, which has no such
    /// end.
    pub(crate) fn say_last(&mut self) -> Result<(), Error> {
        match (self.last, self.options.keep_alive || self.upgrade) {
            (Last::No, false) => {
                self.headers.append("connection", "close")?;
                self.last = Last::ByOption;
            }
            (Last::ByOption, true) => {
                self.remove_header("connection");
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes by the settings of the origin that it goes to, which may be another one than when it was made. What the call says
    /// itself stays, and so does the deadline of the whole call.
    pub(crate) fn come_under(&mut self, config: &Config) -> Result<(), Error> {
        let (options, timeouts) = (&mut self.options, &config.timeouts);
        options.collect_bytes = config.limits.body_bytes;
        if !options.has_first_byte_timeout {
            options.first_byte_timeout = timeouts.first_byte;
        }
        if !options.has_read_timeout {
            options.read_timeout = timeouts.read;
        }
        if !options.has_stream_timeout {
            (options.stream_timeout, options.forwarded_timeout) = (timeouts.stream, timeouts.forwarded);
        }
        if !options.has_keep_alive {
            options.keep_alive = config.keep_alive;
        }
        self.say_last()
    }

    /// The URL that has the request, once it was sent.
    pub(crate) fn sent_to(&self) -> &Url {
        self.sent_to.as_deref().unwrap_or(&self.url)
    }

    /// The target of the request, as the request line or `:path` has it.
    pub(crate) fn target(&self) -> &str {
        if self.of_server { "*" } else { self.url.path_and_query() }
    }

    /// Whether its `host` field, if it has one, can be sent: a bad one must not cost a connection later. Whatever the method, whose
    /// target is no matter here.
    pub(crate) fn check_host(&self) -> Result<(), EncodeError> {
        match self.headers.contains("host") {
            true => {
                encode::request_head(&mut Vec::new(), &Method::GET, "/", "", &self.headers, Framing::None)
            }
            false => Ok(()),
        }
    }

    /// Whether its body waits until the peer asks for it by a 100 (RFC 9110 section 10.1.1).
    #[inline]
    pub(crate) fn expects_continue(&self) -> bool {
        let body = self.body.get();
        self.options.expect_continue.is_some() && !body.is_empty() && self.expects_continue_of(body.length())
    }

    /// Whether a body of this length, which is not empty, waits for a 100.
    pub(crate) fn expects_continue_of(&self, length: Option<u64>) -> bool {
        let is_long = |min_bytes| length.map_or(min_bytes < u64::MAX, |length| length >= min_bytes);
        self.options.expect_continue.is_some_and(is_long) && !self.upgrade && !self.headers.contains("expect")
    }

    pub(crate) fn origin(&self) -> String {
        self.url.origin().to_owned()
    }
}

/// Fields that decide where a message ends. Two writers of one of them is how requests are smuggled.
pub(crate) const RESERVED: [&str; 2] = ["content-length", "transfer-encoding"];

/// A body of the caller's. Its panics end here, because it is polled and dropped by tasks that serve other calls, too.
#[derive(Debug, Default)]
pub(crate) struct Contained {
    body: Body,
    /// A connection has the body, or had it: this is what it left.
    is_taken: bool,
    /// An attempt began with it: it is none that an interceptor has put in its place.
    is_of_attempt: bool,
}

impl<B: Into<Body>> From<B> for Contained {
    fn from(body: B) -> Self {
        Self { body: body.into(), is_taken: false, is_of_attempt: false }
    }
}

impl Borrow<Body> for Contained {
    fn borrow(&self) -> &Body {
        &self.body
    }
}

impl Contained {
    /// The body, to be looked at: only [`poll_chunk`](Self::poll_chunk) runs the caller's code.
    pub(crate) fn get(&self) -> &Body {
        &self.body
    }

    /// The body, for a connection that sends it.
    pub(crate) fn take(&mut self) -> Self {
        let body = mem::take(&mut self.body);
        self.is_taken = true;
        Self { body, is_taken: false, is_of_attempt: self.is_of_attempt }
    }

    /// The body that the attempt began with, if no connection has taken it.
    pub(crate) fn untouched(self) -> Option<Self> {
        Some(self).filter(|body| body.is_of_attempt && !body.is_taken)
    }

    /// Whether a connection has taken it.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// The body with these bytes before it.
    pub(crate) fn preceded_by(mut self, bytes: Bytes) -> Self {
        mem::take(&mut self.body).preceded_by(bytes).into()
    }

    /// A copy of a whole body. The copy of a body that comes in pieces is empty, and counts as taken.
    pub(crate) fn copy(&self) -> Self {
        match self.body.as_full().filter(|_| !self.is_taken) {
            Some(bytes) => bytes.clone().into(),
            None => Self { body: Body::empty(), is_taken: true, is_of_attempt: false },
        }
    }

    /// The next piece. A panic is an error of the body, which must not be polled again.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        catch_unwind(AssertUnwindSafe(|| self.body.poll_chunk(cx))).unwrap_or_else(|payload| {
            Poll::Ready(Err(BodyError::failed(format!("it panicked: {}", text_of_panic(payload)))))
        })
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.body.as_full().is_some() {
            return;
        }
        drop_caught(mem::take(&mut self.body));
    }
}
