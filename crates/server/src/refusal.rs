//! What the server refuses by itself, and the one place that words it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anywire_http::{Fault, IntoResponse, Method, Response, StatusCode};
use anywire_wire::Address;

use crate::contained::{dispose, drop_caught, text};
use crate::counters::Live;
use crate::layers::problem::Carried;

/// A request that the server answers by itself, because no handler can or could. [`Server::on_refusal`](crate::Server::on_refusal)
/// passes it to a function that logs it, or words the response.
///
/// What a handler, an extractor, or the router answers is none: such as a 404, or the 400 of a
/// [`Rejection`](crate::Rejection).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Refusal<'r> {
    /// Why.
    pub kind: RefusalKind,
    /// The status of the response.
    pub status: StatusCode,
    /// What the peer reads unless the response is worded.
    pub text: &'r str,
    /// Who is at fault.
    pub fault: Fault,
    /// The method of the route; `None` for a route that takes any, and if the route is not known.
    pub method: Option<&'r Method>,
    /// The path of the route as it was given, such as `/orders/{id}`. `None` if no handler was reached, and in a fallback.
    pub route: Option<&'r str>,
    /// The address of the peer. `None` if it is not at hand, such as when a task of the handler keeps the request.
    pub peer: Option<&'r Address>,
}

/// Why the server answers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The request cannot be understood: 400, or 501 and 505 for codings and versions that the server does not have.
    Malformed,
    /// Its head is larger than [`Limits::head`](crate::Limits::head): 414 or 431.
    TooLarge,
    /// Its head was not complete at [`Limits::head_timeout`](crate::Limits::head_timeout): 408.
    HeadTimeout,
    /// It asks for an upgrade with a body, which the handler did not read: 400.
    UpgradeWithBody,
    /// A CONNECT for another protocol (HTTP/2), of which the handler accepted none: 501.
    NoProtocol,
    /// The response was made of the request's body, which broke off: 400 or 408, or as in [`Malformed`](Self::Malformed).
    RequestBody,
    /// The body of the response failed before anything had left: 500, or 502 and 504 if it came from another server.
    ResponseBody,
    /// The handler panicked: 500.
    Panic,
    /// The handler's response would break the connection, such as by a line break in a field: 500.
    Unsendable,
    /// [`RouteLimits::concurrency`](crate::RouteLimits::concurrency) requests of its route were in work: 503, with
    /// `Retry-After: 1` unless the response is given another one.
    Concurrency,
    /// As many requests waited for the threads of its [pool](crate::Blocking::on_pool) as may: 503, with `Retry-After: 1` unless the
    /// response is given another one.
    PoolFull,
    /// No thread of its pool was free before its [queue deadline](crate::OnPool::queue_deadline): 503, with `Retry-After` as well.
    QueueDeadline,
    /// It waited for a thread of its pool when the server, or the pool, ended: 503, with `Retry-After` as well.
    PoolStopped,
    /// The handler was not ready at [`Limits::handler_timeout`](crate::Limits::handler_timeout): 503.
    HandlerTimeout,
}

impl RefusalKind {
    /// Its name, such as `head_timeout`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::HeadTimeout => "head_timeout",
            Self::UpgradeWithBody => "upgrade_with_body",
            Self::NoProtocol => "no_protocol",
            Self::RequestBody => "request_body",
            Self::ResponseBody => "response_body",
            Self::Panic => "panic",
            Self::Unsendable => "unsendable",
            Self::HandlerTimeout => "handler_timeout",
            Self::Concurrency => "concurrency",
            Self::PoolFull => "pool_full",
            Self::QueueDeadline => "queue_deadline",
            Self::PoolStopped => "pool_stopped",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Malformed
            | Self::HeadTimeout
            | Self::UpgradeWithBody
            | Self::NoProtocol
            | Self::RequestBody => Fault::Peer,
            Self::TooLarge
            | Self::HandlerTimeout
            | Self::Concurrency
            | Self::PoolFull
            | Self::QueueDeadline
            | Self::PoolStopped => Fault::Limit,
            Self::ResponseBody | Self::Panic | Self::Unsendable => Fault::Caller,
        }
    }
}

impl<'r> Refusal<'r> {
    /// Of this kind, with the response that it gets unless it is worded.
    pub(crate) fn new(kind: RefusalKind, status: StatusCode, text: &'r str) -> Self {
        Self { kind, status, text, fault: kind.fault(), method: None, route: None, peer: None }
    }

    /// Of this peer.
    pub(crate) fn of(mut self, peer: Option<&'r Address>) -> Self {
        self.peer = peer;
        self
    }

    /// The response that the peer gets unless it is worded: the status with the text.
    pub fn response(&self) -> Response {
        match self.text {
            "" => self.status.into(),
            text => (self.status, text.to_owned()).into_response(),
        }
    }
}

/// Words what a server refuses.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    hook: Option<Hook>,
}

type Hook = Arc<dyn Fn(&Refusal<'_>) -> Response + Send + Sync>;

impl Refusals {
    pub(crate) fn by<R: IntoResponse>(hook: impl Fn(&Refusal<'_>) -> R + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(move |refusal| hook(refusal).into_response())) }
    }

    /// Whether there is a hook.
    pub(crate) fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// The response. A hook that panics, or whose response cannot be sent whole, has no say.
    #[cold]
    pub(crate) fn word(&self, refusal: &Refusal<'_>, counters: &Live) -> Response {
        let Some(hook) = &self.hook else { return refusal.response() };
        let worded = catch_unwind(AssertUnwindSafe(|| hook(refusal)));
        let mut response = match worded {
            Ok(response) => response,
            Err(panic) => {
                counters.hook_panics.increment();
                tracing::error!(panic = text(&*panic), "the hook of refusals panicked");
                dispose(panic);
                return refusal.response();
            }
        };
        let fault = match response.fault() {
            Some(fault) => Some(fault.to_string()),
            None if response.body.as_full().is_none() => Some("its body streams".to_owned()),
            None => None,
        };
        let status = if is_error(response.status) { response.status } else { refusal.status };
        let kept = (std::mem::take(&mut response.headers), std::mem::take(&mut response.body));
        let mut plain = Response::from_parts(status, kept.0, kept.1);
        Carried::pass_on(&response, &mut plain);
        // Without what else a response carries, whose destructor may panic.
        if let Some(panic) = drop_caught(response) {
            counters.hook_panics.increment();
            dispose(panic);
        }
        match fault {
            None => plain,
            Some(cause) => {
                counters.failures.increment();
                tracing::error!(
                    status = status.as_u16(),
                    cause,
                    "the hook of refusals made a response that cannot be sent"
                );
                drop_caught(plain);
                refusal.response()
            }
        }
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals").field("has_hook", &self.has_hook()).finish()
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
