//! A response: its head, and its body as it comes.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use anywire_http::{
    Body, BodyError, ConvertError, Headers, IntoResponse, ResponseHead, StatusCode, Url, Version,
};
use anywire_loops::TaskError;
use anywire_mux::Upgraded;
use anywire_wire::Negotiated;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::io::DuplexStream;
use tracing::Span;

use crate::call::request::{CallOptions, CallRequest};
use crate::chain::Hop;
use crate::codec::{CodecError, Codecs, to_utf8};
use crate::{Error, Phase};

/// A response whose head is here. A small body is here too; a larger one is read from the wire as it is asked for.
///
/// Dropping it before the body's end closes the connection that carries it; over HTTP/2 it resets its stream alone.
///
/// ```no_run
/// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
/// let mut response = client.get("http://127.0.0.1:8080/big").send().await?;
/// while let Some(chunk) = response.chunk().await? {
///     println!("{} bytes", chunk.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Response {
    head: ResponseHead,
    body: Body,
    source: Source,
    collect_bytes: usize,
    negotiated: Option<Arc<Negotiated>>,
    /// The request, if the body is here or the call may go on with another one.
    request: Option<Box<CallRequest>>,
    /// A response is moved some ten times, which is cheap up to 128 bytes: so this is no vector.
    history: Box<[Hop]>,
    /// Open until the body has ended. No vector, as above.
    spans: Box<[Span]>,
}

/// The call that a response belongs to.
#[derive(Debug)]
pub(crate) enum Source {
    /// The whole body is here, and so is the request.
    Whole,
    /// There is none: the connection speaks another protocol.
    Upgraded(Box<(Url, Upgraded<DuplexStream>)>),
    Stream(Arc<StreamState>),
}

impl Response {
    /// A response whose body comes by `source`, or none.
    pub(crate) fn new(
        head: ResponseHead,
        body: Body,
        source: Source,
        collect_bytes: usize,
        negotiated: Option<Arc<Negotiated>>,
    ) -> Self {
        Self {
            head,
            body,
            source,
            collect_bytes,
            negotiated,
            request: None,
            history: Box::default(),
            spans: Box::default(),
        }
    }

    /// A response whose body is here.
    pub(crate) fn whole(
        request: Box<CallRequest>,
        head: ResponseHead,
        body: Body,
        negotiated: Option<Arc<Negotiated>>,
    ) -> Self {
        let collect_bytes = request.options.collect_bytes;
        Self::new(head, body, Source::Whole, collect_bytes, negotiated).with_request(request)
    }

    /// Keeps a span open until the body has ended, if it is still to come.
    pub(crate) fn within(mut self, span: Span) -> Self {
        if let Source::Stream(_) = self.source {
            self.spans = self.spans.into_iter().chain([span]).collect();
        }
        self
    }

    /// Whether no link of the chain goes on from a response with this status.
    pub(crate) fn is_final(&self) -> bool {
        self.status().is_success()
    }

    pub(crate) fn request(&self) -> Option<&CallRequest> {
        self.request.as_deref()
    }

    pub(crate) fn take_request(&mut self) -> Option<Box<CallRequest>> {
        self.request.take()
    }

    pub(crate) fn with_request(self, request: Box<CallRequest>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// Puts the request in the place of the one that interceptors of attempts have added to: neither another attempt nor another origin
    /// is to get what was for that one. If they have left none, the call may go on from it as well.
    pub(crate) fn with_request_before_attempt(mut self, mut before: Box<CallRequest>) -> Self {
        if let Some(sent) = &mut self.request
            && before.body.is_taken()
            && let Some(body) = mem::take(&mut sent.body).untouched()
        {
            before.body = body;
        }
        match self.request {
            Some(_) => self.with_request_before_links(before),
            None => Self { request: Some(before).filter(|before| !before.body.is_taken()), ..self },
        }
    }

    /// Puts the request in the place of the one that links have added to, if the call may go on from it.
    pub(crate) fn with_request_before_links(mut self, before: Box<CallRequest>) -> Self {
        if let Some(sent) = &mut self.request {
            let started = sent.started;
            // What an interceptor of attempts has changed was nearer to the server.
            let sent_to = sent.sent_to.take();
            let sent_to = sent_to.or_else(|| (sent.url != before.url).then(|| Box::new(sent.url.clone())));
            **sent = CallRequest { started, sent_to, ..*before };
        }
        self
    }

    /// Reads the body to its end, and keeps it: for links that look at it.
    pub(crate) async fn hold(&mut self) -> Result<Bytes, Error> {
        let bytes = self.collect().await?;
        self.body = Body::from(bytes.clone());
        Ok(bytes)
    }

    pub(crate) fn with_history(self, history: Vec<Hop>) -> Self {
        Self { history: history.into(), ..self }
    }

    /// Reads a small body to its end, so that its connection is free: the response with that body. A body that is longer, or not here when
    /// `late` is ready, is left, and its connection with it.
    pub(crate) async fn drain(mut self, bytes_max: usize, late: impl Future<Output = ()>) -> Option<Self> {
        if let Source::Stream(state) = &self.source {
            state.is_drained.store(true, Ordering::Release);
        }
        let read = {
            let (mut read, mut late) = (pin!(self.body.bytes(bytes_max)), pin!(late));
            poll_fn(|cx| match read.as_mut().poll(cx) {
                // An error ends the connection in any case.
                Poll::Ready(read) => Poll::Ready(read.ok()),
                Poll::Pending => late.as_mut().poll(cx).map(|()| None),
            })
            .await
        };
        self.body = Body::from(read?);
        Some(self)
    }

    /// The status. No status is an error of the call. A status of 600 to 999 has no class of its own: treat it as 5xx (RFC
    /// 9110 section 15).
    pub fn status(&self) -> StatusCode {
        self.head.status()
    }

    /// The version: 2, or that of the status line, which is 1.0 or 1.1.
    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// What was agreed on in the handshake of the connection that carried the call: version, suite, protocol (ALPN), the
    /// peer's certificates. `None` on wires without a handshake.
    pub fn tls(&self) -> Option<&Negotiated> {
        self.negotiated.as_deref()
    }

    /// The header fields.
    pub fn headers(&self) -> &Headers {
        self.head.headers()
    }

    /// The whole head.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The URL that answered, with the query that was added to it: what the links in the body are relative to.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let page = client.get("http://shop/orders/").send().await?;
    /// let next = page.url().resolve("?page=2")?;
    /// client.get(next).send().await?;
    /// # Ok(()) }
    /// ```
    pub fn url(&self) -> &Url {
        // The request is away only while the chain has it.
        static NONE: LazyLock<Url> = LazyLock::new(|| Url::parse("http://none.invalid/").expect("a URL"));
        match &self.source {
            Source::Whole => self.request.as_ref().map_or(&*NONE, |request| request.sent_to()),
            Source::Upgraded(upgraded) => &upgraded.0,
            Source::Stream(state) => &state.url,
        }
    }

    /// The URLs that have led to this one, the first one first: empty without [redirects](crate::Redirects).
    pub fn history(&self) -> &[Hop] {
        &self.history
    }

    /// The response, unless its status is one of an error: 400 and above.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
    /// let orders: Vec<u64> = client.get("http://shop/orders").send().await?.error_for_status()?.json().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Status`](Error::Status), which names the URL and the status.
    pub fn error_for_status(self) -> Result<Self, Error> {
        match self.status() {
            status if status.as_u16() >= 400 => Err(Error::Status { url: self.url().to_string(), status }),
            _ => Ok(self),
        }
    }

    /// The connection of a response 101, if the call asked for it by [`Call::upgrade`](crate::Call::upgrade): the first
    /// byte it gives is the one behind the response's head.
    ///
    /// It may be used on any executor. The connection stays on its loop, where a task copies between the two, at most
    /// 64 KiB ahead each way. No deadline holds any more. The connection counts against
    /// [`Limits::connections_per_origin`](crate::Limits::connections_per_origin) until this is dropped, or both sides have
    /// ended.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let response = client.get("http://shop/updates").upgrade("lines").send().await?;
    /// response.upgrade()?.write_all(b"since 7\n").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Status`](Error::Status) if the peer stays with HTTP.
    pub fn upgrade(self) -> Result<Upgraded<DuplexStream>, Error> {
        match self.source {
            Source::Upgraded(upgraded) => Ok(upgraded.1),
            _ => Err(Error::Status { url: self.url().to_string(), status: self.status() }),
        }
    }

    /// Bytes of the body that are still to come, if that is known.
    pub fn length(&self) -> Option<u64> {
        self.body.length()
    }

    /// The next bytes of the body, never empty; `None` at its end. Nothing is read from the wire, beyond
    /// [`Limits::body_ahead_bytes`](crate::Limits::body_ahead_bytes), that was not asked for in this way.
    ///
    /// # Errors
    /// [`Response`](Error::Response) for a body that is cut short or malformed, [`Timeout`](Error::Timeout) for a silent
    /// peer, [`Io`](Error::Io) for a broken connection.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match self.body.chunk().await {
            Ok(chunk) => {
                if chunk.is_none() {
                    self.spans = Box::default();
                }
                Ok(chunk)
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// The trailer fields, once the end was read, if there were any (RFC 9110 section 6.5).
    pub fn trailers(&self) -> Option<&Headers> {
        self.body.trailers()
    }

    /// The rest of the body in one piece, within the call's total deadline.
    ///
    /// # Errors
    /// [`BodyTooLarge`](Error::BodyTooLarge) beyond [`Limits::body_bytes`](crate::Limits::body_bytes), 16 MiB by
    /// default; and the errors of [`chunk`](Self::chunk).
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        self.collect().await
    }

    /// The rest of the body as text, as [`bytes`](Self::bytes). Its `charset` may be UTF-8, which it is without one, ISO-8859-1 or
    /// Windows-1252.
    ///
    /// # Errors
    /// [`Coded`](Error::Coded) if it is coded, such as by gzip, [`Body`](Error::Body) if it is not UTF-8,
    /// [`Unreadable`](Error::Unreadable) if it has another charset, and the errors of [`bytes`](Self::bytes).
    pub async fn text(mut self) -> Result<String, Error> {
        let bytes = self.collect().await?;
        self.check_coding(&bytes)?;
        let content_type = self.headers().get("content-type").unwrap_or_default();
        let bytes = to_utf8(content_type, bytes.clone()).map_err(|error| self.unreadable(&bytes, error))?;
        String::from_utf8(bytes.into()).map_err(|invalid| Error::Body(BodyError::Text(invalid.utf8_error())))
    }

    /// The rest of the body read as JSON, as [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// [`JsonResponse`](Error::JsonResponse), which names the URL and the status, [`Coded`](Error::Coded) if it is coded, and the
    /// errors of [`bytes`](Self::bytes).
    pub async fn json<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let bytes = self.collect().await?;
        serde_json::from_slice(&bytes).map_err(|source| {
            // What is coded is no JSON.
            if let Err(coded) = self.check_coding(&bytes) {
                return coded;
            }
            let (url, status) = (self.url().to_string(), self.status());
            Error::JsonResponse { url, status, source, start: Self::start_of(&bytes) }
        })
    }

    /// Head and body apart, for example to pass the body on. Its errors are [`BodyError`]s then. Dropping it before
    /// its end closes the connection or resets the stream, as dropping the response does.
    ///
    /// The body of a response to HEAD, and of a 304, is [withheld](Body::withheld): a server that sends it to a client
    /// states the length that this response stated, or none.
    pub fn into_parts(self) -> (ResponseHead, Body) {
        (self.head, self.body)
    }

    /// The codecs of the call. None: the usual ones.
    pub(crate) fn codecs(&self) -> Option<Arc<Codecs>> {
        match &self.source {
            Source::Stream(state) => state.codecs.clone(),
            _ => self.request.as_ref().and_then(|request| request.options.codecs.clone()),
        }
    }

    /// Why a codec cannot read this response.
    pub(crate) fn unreadable(&self, bytes: &Bytes, error: CodecError) -> Error {
        Error::Unreadable {
            url: self.url().to_string(),
            status: self.status(),
            content_type: self.headers().get("content-type").unwrap_or_default().to_owned(),
            start: Self::start_of(bytes),
            source: error.into_parts().1,
        }
    }

    /// The first bytes of a body, for an error.
    fn start_of(bytes: &Bytes) -> String {
        let start = bytes.get(..JSON_START_BYTES).unwrap_or(bytes);
        String::from_utf8_lossy(start).into_owned()
    }

    pub(crate) async fn collect(&mut self) -> Result<Bytes, Error> {
        self.begin_collecting()?;
        let bytes = self.body.bytes(self.collect_bytes).await;
        bytes.map_err(|error| self.explain(error))
    }

    /// Whether these bytes of the body are what the peer means, and not a coding of it.
    pub(crate) fn check_coding(&self, bytes: &Bytes) -> Result<(), Error> {
        match self.headers().content_coding() {
            Some(coding) if !bytes.is_empty() => Err(Error::Coded { url: self.url().to_string(), coding }),
            _ => Ok(()),
        }
    }

    fn begin_collecting(&self) -> Result<(), Error> {
        match &self.source {
            Source::Stream(state) => state.collect(),
            _ => Ok(()),
        }
    }

    fn explain(&self, error: BodyError) -> Error {
        let error = match &self.source {
            Source::Whole | Source::Upgraded(_) => explain_size(error),
            Source::Stream(state) => state.explain(error),
        };
        for span in &self.spans {
            span.record("error.type", error.kind());
        }
        error
    }
}

impl From<Response> for anywire_http::Response {
    /// Status, version and fields as the peer sent them, and the body as it comes.
    fn from(response: Response) -> Self {
        Self::from_head(response.head, response.body)
    }
}

impl TryFrom<Response> for http::Response<Body> {
    type Error = ConvertError;

    fn try_from(response: Response) -> Result<Self, ConvertError> {
        anywire_http::Response::from(response).try_into()
    }
}

/// Passes the response on: fields of the upstream's connection are dropped, the body streams with back-pressure, and
/// trailers follow it.
impl IntoResponse for Response {
    fn into_response(self) -> anywire_http::Response {
        let mut response = anywire_http::Response::from(self);
        response.headers.remove_hop_by_hop();
        response
    }
}

/// What a caller and a connection share while a body is on its way.
#[derive(Debug)]
pub(crate) struct StreamState {
    url: Url,
    status: StatusCode,
    silence_max: Duration,
    total_timeout: Duration,
    stream_total_timeout: Duration,
    total: AtomicU8,
    /// Its reader wants nothing of it but a free connection, and says when that is not worth it.
    is_drained: AtomicBool,
    codecs: Option<Arc<Codecs>>,
}

impl StreamState {
    /// `pause_max`: how long the body may rest, if that is longer than others may.
    pub(crate) fn new(request: &CallRequest, status: StatusCode, pause_max: Duration) -> Self {
        let CallOptions { read_timeout, total_timeout, stream_total_timeout, .. } = request.options;
        let silence_max = read_timeout.max(pause_max);
        let total = AtomicU8::new(STREAMED);
        let (url, codecs) = (request.url.clone(), request.options.codecs.clone());
        let is_drained = AtomicBool::new(false);
        Self { url, status, silence_max, total_timeout, stream_total_timeout, total, is_drained, codecs }
    }

    /// Whether its reader wanted nothing of it but a free connection.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn silence_max(&self) -> Duration {
        self.silence_max
    }

    /// The deadline of the whole stream passed.
    pub(crate) fn end(&self) {
        self.total.store(ENDED, Ordering::Release);
    }

    /// The total deadline passed: whether the body is being collected and so has to end.
    pub(crate) fn expire(&self) -> bool {
        let expired = |state| Some(if state == COLLECTED { OVERDUE } else { PASSED });
        let before = self.total.fetch_update(Ordering::AcqRel, Ordering::Acquire, expired);
        before == Ok(COLLECTED)
    }

    /// Whether the total deadline has passed and is done with.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self.total.load(Ordering::Acquire), PASSED | OVERDUE | ENDED)
    }

    /// The body is to be collected from here, within the total deadline.
    fn collect(&self) -> Result<(), Error> {
        match self.total.compare_exchange(STREAMED, COLLECTED, Ordering::AcqRel, Ordering::Acquire) {
            Err(PASSED | OVERDUE | ENDED) => Err(self.timeout(Phase::Total)),
            _ => Ok(()),
        }
    }

    /// An error of the call in the words of a body, for its reader.
    pub(crate) fn body_error(error: Error) -> BodyError {
        match error {
            // Sending has a limit of its own.
            Error::Timeout { phase, .. } if phase != Phase::Write => BodyError::Timeout,
            Error::Response { source, .. } => BodyError::Malformed(source),
            Error::Io { source, .. } => BodyError::Wire(source),
            other => BodyError::failed(other),
        }
    }

    /// An error of a body in the words of the call that it belongs to.
    fn explain(&self, error: BodyError) -> Error {
        let origin = self.url.origin().to_owned();
        match error {
            BodyError::Timeout => self.timeout(match self.total.load(Ordering::Acquire) {
                OVERDUE | ENDED => Phase::Total,
                // It may have passed before, while the body was a stream.
                _ => Phase::Body,
            }),
            BodyError::Malformed(source) => Error::Response { origin, source },
            BodyError::Wire(source) => Error::Io { origin, phase: Phase::Body, source, sent: true },
            BodyError::Incomplete => Error::Loop { source: TaskError::Stopped, sent: true },
            BodyError::Failed(reason) => match reason.downcast::<Error>() {
                Ok(error) => *error,
                Err(reason) => Error::Body(BodyError::Failed(reason)),
            },
            other => explain_size(other),
        }
    }

    fn timeout(&self, phase: Phase) -> Error {
        let limit = match phase {
            Phase::Total if self.total.load(Ordering::Acquire) == ENDED => self.stream_total_timeout,
            Phase::Total => self.total_timeout,
            _ => self.silence_max,
        };
        Error::Timeout { origin: self.url.origin().to_owned(), phase, limit, sent: true }
    }
}

fn explain_size(error: BodyError) -> Error {
    match error {
        BodyError::TooLarge { limit_bytes } => Error::BodyTooLarge { limit_bytes },
        other => Error::Body(other),
    }
}

/// States of [`StreamState::total`]: handed out as a stream, being collected, and each of these past the total
/// deadline, which ended the latter. The last one: past the deadline of the whole stream, which ended it.
const STREAMED: u8 = 0;
const COLLECTED: u8 = 1;
const PASSED: u8 = 2;
const OVERDUE: u8 = 3;
const ENDED: u8 = 4;

/// Bytes of a response that an error shows: enough to see that it is HTML.
const JSON_START_BYTES: usize = 64;
