//! The request of a plan, as far as it can be made ready before the run.

use std::sync::Arc;
use std::time::Instant;

use anywire_http::h1::{self, Framing};
use anywire_http::h2::{self, Engine, RequestParts};
use anywire_http::url::Url;
use anywire_http::{Headers, Method};
use bytes::Bytes;

use crate::errors::LoadError;
use crate::plan::Plan;
use crate::protocol::Protocol;
use crate::script::StreamHead;

/// The request as its protocol needs it.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Http1(Window),
    Http2(Arc<StreamRequest>),
}

/// An encoded request of HTTP/1, repeated.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The request, as often as it leaves in one write at most.
    pub(crate) bytes: Bytes,
    /// The length of one.
    pub(crate) request_bytes: usize,
}

/// Whether these fields ask to close the connection (RFC 9112 section 9.6): nothing more is sent on it then.
pub(crate) fn asks_to_close(headers: &Headers) -> bool {
    let options = headers.get_all("connection").flat_map(|value| value.split(|byte| *byte == b','));
    options.into_iter().any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// A request of HTTP/2, which each connection encodes with its own table.
#[derive(Debug, Clone)]
pub(crate) struct StreamRequest {
    pub(crate) limits: h2::EngineLimits,
    pub(crate) body: Bytes,
    method: Method,
    scheme: &'static str,
    authority: String,
    path: String,
    headers: Headers,
    /// The length of the first one of a connection. Later ones are shorter, because their fields are in the table.
    first_bytes: usize,
}

impl Request {
    /// Makes the request of a plan ready. The plan is within its limits.
    pub(crate) fn of(plan: &Plan, url: &Url) -> Result<Self, LoadError> {
        let mut headers = plan.headers.clone();
        let host = match headers.get("host") {
            Some(host) => host.to_owned(),
            None => url.authority().to_owned(),
        };
        headers.remove("host");
        let path = url.path_and_query();
        let framing =
            if plan.body.is_empty() { Framing::None } else { Framing::Length(plan.body.len() as u64) };
        // For HTTP/2 too: it says what cannot be sent.
        let mut request = Vec::new();
        h1::encode::request_head(&mut request, &plan.method, path, &host, &headers, framing)
            .map_err(|source| LoadError::Request { source })?;
        if plan.protocol == Protocol::Http2 {
            let scheme = if url.is_https() { "https" } else { "http" };
            let request = StreamRequest::new(plan, scheme, host, path.to_owned(), headers);
            return Ok(Self::Http2(Arc::new(request)));
        }
        request.extend_from_slice(&plan.body);
        let copies = (plan.limits.window_bytes / request.len()).clamp(1, plan.depth);
        Ok(Self::Http1(Window { bytes: Bytes::from(request.repeat(copies)), request_bytes: request.len() }))
    }

    /// The length of one encoded request, with its body.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Http1(window) => window.request_bytes,
            Self::Http2(request) => request.first_bytes,
        }
    }
}

impl StreamRequest {
    fn new(plan: &Plan, scheme: &'static str, authority: String, path: String, headers: Headers) -> Self {
        let connection = h2::Limits {
            // As h2load has it: the generator drops each byte at once, so that a window would only hold up the server.
            stream_window_bytes: WINDOW_BYTES,
            connection_window_bytes: WINDOW_BYTES,
            // Faults of the server are to be counted, not to be kept off.
            resets: h2::Rate { burst: u32::MAX, per_second: u32::MAX },
            ..h2::Limits::default()
        };
        let mut request = Self {
            limits: h2::EngineLimits { head: plan.limits.head, connection },
            body: plan.body.clone(),
            method: plan.method.clone(),
            scheme,
            authority,
            path,
            headers,
            first_bytes: 0,
        };
        let mut out = Vec::new();
        let mut engine = Engine::client(request.limits, Instant::now(), &mut out);
        let before = out.len();
        // A new connection has a slot, and the request is no extended CONNECT.
        let _ = engine.open_parts(&request.parts(), true, &mut out);
        request.first_bytes = out.len() - before + request.body.len();
        request
    }

    /// The head of a request of a script.
    pub(crate) fn parts_of<'s>(&'s self, head: &'s StreamHead<'_>, body: &[u8]) -> RequestParts<'s> {
        RequestParts {
            method: &head.request.method,
            scheme: self.scheme,
            authority: &head.request.host,
            path: head.path,
            protocol: None,
            headers: &head.headers,
            length: (!body.is_empty()).then_some(body.len() as u64),
        }
    }

    /// The head.
    pub(crate) fn parts(&self) -> RequestParts<'_> {
        RequestParts {
            method: &self.method,
            scheme: self.scheme,
            authority: &self.authority,
            path: &self.path,
            protocol: None,
            headers: &self.headers,
            length: (!self.body.is_empty()).then_some(self.body.len() as u64),
        }
    }
}

/// The largest window that leaves room for an update.
const WINDOW_BYTES: u32 = (1 << 30) - 1;
