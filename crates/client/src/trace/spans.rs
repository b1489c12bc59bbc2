//! Spans of `tracing` around calls and attempts, in the words of OpenTelemetry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anywire_http::{Url, Version};
use tracing::field::Empty;
use tracing::span::Id;
use tracing::{Instrument, Span, info_span};

use super::TraceContext;
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Next};
use crate::{ClientBuilder, Error, Response};

impl ClientBuilder {
    /// Opens a span of `tracing` around each call and, within it, one around each of its attempts, up to the end of the response. A
    /// body that is taken [apart](Response::into_parts) from its response is beyond that end. Their fields have the [names of OpenTelemetry](https://opentelemetry.io/docs/specs/semconv/http/http-spans/) for clients. Default: no
    /// spans.
    ///
    /// Each attempt sends a field `traceparent` ([`TraceContext`]), which says that span. A call that has one, such as a request that a handler
    /// sends on, stays within its trace; others begin one, and send no `tracestate`. The ids are fields of the span, `trace_id` and `span_id`.
    ///
    /// Interceptors that are added before are around the spans, the others within.
    ///
    /// | field | of | says |
    /// | --- | --- | --- |
    /// | `http.request.method` | both | the method |
    /// | `url.full` | both | the URL, without credentials and signatures |
    /// | `server.address`, `server.port` | both | host and port of the URL |
    /// | `http.response.status_code` | both | the status |
    /// | `error.type` | both | [`Error::kind`], or the status if it is 400 or more |
    /// | `http.request.resend_count` | attempts | how many there were before, by retries and redirects; absent for the first one |
    /// | `network.protocol.version` | attempts | `1.1`, `2` |
    /// | `network.peer.address`, `network.peer.port` | attempts | the other end of the connection |
    pub fn spans(self) -> Self {
        self.intercept(CallSpans).intercept_attempts(AttemptSpans)
    }
}

/// Goes with a call as one of its extensions.
#[derive(Clone)]
struct Within {
    /// By its number: requests are kept for longer than the call lasts.
    span: Option<Id>,
    /// What the caller is within, or the begin of a trace.
    context: TraceContext,
    attempts: Arc<AtomicU64>,
}

struct CallSpans;

impl Interceptor for CallSpans {
    fn intercept(&self, mut request: CallRequest, next: Next) -> Calling {
        let span = info_span!(
            "http.call",
            http.request.method = request.method().as_str(),
            url.full = without_secrets(request.url()),
            server.address = request.url().host(),
            server.port = request.url().port(),
            http.response.status_code = Empty,
            "error.type" = Empty,
        );
        let context = given(&request).unwrap_or_else(|| {
            // What others say of a trace belongs to that one alone.
            request.remove_header("tracestate");
            TraceContext::new(!span.is_disabled())
        });
        request.extensions_mut().insert(Within { span: span.id(), context, attempts: Arc::default() });
        Box::pin(async move {
            let outcome = next.call(request).instrument(span.clone()).await;
            tell(&span, &outcome);
            outcome.map(|response| response.within(span))
        })
    }
}

struct AttemptSpans;

impl Interceptor for AttemptSpans {
    fn intercept(&self, mut request: CallRequest, next: Next) -> Calling {
        let Some(within) = request.extensions().get::<Within>().cloned() else { return next.call(request) };
        let context = within.context.child();
        let before = within.attempts.fetch_add(1, Ordering::Relaxed);
        let span = info_span!(
            parent: within.span,
            "http.request",
            otel.kind = "client",
            http.request.method = request.method().as_str(),
            url.full = without_secrets(request.url()),
            server.address = request.url().host(),
            server.port = request.url().port(),
            http.request.resend_count = Some(before).filter(|before| *before > 0),
            trace_id = format!("{:032x}", context.trace_id),
            span_id = format!("{:016x}", context.span_id),
            network.protocol.version = Empty,
            network.peer.address = Empty,
            network.peer.port = Empty,
            http.response.status_code = Empty,
            "error.type" = Empty,
        );
        let trace = (!span.is_disabled()).then(|| request.trace().clone());
        // Both are well-formed.
        let set = request.set_header("traceparent", context.to_string());
        debug_assert!(set.is_ok(), "the text has nothing that a field may not have");
        Box::pin(async move {
            let outcome = next.call(request).instrument(span.clone()).await;
            if let Some(trace) = trace
                && let Some(connection) =
                    trace.timeline().attempts.last().and_then(|it| it.connection.clone())
            {
                match connection.peer.location().parse::<std::net::SocketAddr>() {
                    Ok(peer) => {
                        span.record("network.peer.address", peer.ip().to_string());
                        span.record("network.peer.port", peer.port());
                    }
                    Err(_) => _ = span.record("network.peer.address", connection.peer.location()),
                }
            }
            if let Ok(response) = &outcome {
                span.record("network.protocol.version", version(response.version()));
            }
            tell(&span, &outcome);
            outcome.map(|response| response.within(span))
        })
    }
}

/// The trace that a request names, if it is one.
fn given(request: &CallRequest) -> Option<TraceContext> {
    let mut all = request.headers().get_all("traceparent");
    let text = all.next().filter(|_| all.next().is_none())?;
    str::from_utf8(text).ok()?.parse().ok()
}

/// How it has ended.
fn tell(span: &Span, outcome: &Result<Response, Error>) {
    match outcome {
        Ok(response) => {
            let status = response.status();
            span.record("http.response.status_code", status.as_u16());
            if status.as_u16() >= 400 {
                span.record("error.type", status.as_str());
            }
        }
        Err(error) => _ = span.record("error.type", error.last().kind()),
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

/// A URL has no name and password in this client. These parameters are the ones that OpenTelemetry says are secret.
fn without_secrets(url: &Url) -> String {
    let text = url.as_str();
    let Some((begin, query)) = text.split_once('?') else { return text.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if SECRET.contains(&name) => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    format!("{begin}?{}", pairs.collect::<Vec<_>>().join("&"))
}

const SECRET: [&str; 4] = ["AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"];
