//! Interceptors: functions around a call, or around each of its attempts.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::run::{Calling, Hopping, follow, repeat, send};
use crate::call::attempt::Reply;
use crate::call::request::{CallRequest, Contained};
use crate::client::handle::ClientRef;
use crate::{Error, Response};

/// What may look at a call, change its request or its response, respond itself, or repeat it. An `async` function of a
/// [`CallRequest`] and a [`Next`] is one.
///
/// It runs where the call is awaited. Dropping the call drops it.
///
/// ```
/// use std::time::Instant;
/// use anywire_client::{CallRequest, Client, Error, Next, Response};
///
/// async fn log(request: CallRequest, next: Next) -> Result<Response, Error> {
///     let (begin, line) = (Instant::now(), format!("{} {}", request.method(), request.url()));
///     let response = next.call(request).await?;
///     println!("{line} {} {:?}", response.status(), begin.elapsed());
///     Ok(response)
/// }
///
/// let client = Client::builder().intercept(log).build();
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Carries the call on, by [`Next::call`] as a rule.
    ///
    /// An error of its own is made by [`Error::custom`].
    fn intercept(&self, request: CallRequest, next: Next) -> Calling;
}

impl<F, C> Interceptor for F
where
    F: Fn(CallRequest, Next) -> C + Send + Sync + 'static,
    C: Future<Output = Result<Response, Error>> + Send + 'static,
{
    fn intercept(&self, request: CallRequest, next: Next) -> Calling {
        Box::pin(self(request, next))
    }
}

/// What is inside of an interceptor: the next one, or the call itself. A clone can send another request the same way.
#[derive(Debug, Clone)]
pub struct Next {
    client: ClientRef,
    level: Level,
    /// The number of interceptors passed.
    passed: usize,
    /// Within an attempt: what it has found out besides its response or its error.
    findings: Option<Arc<Mutex<Findings>>>,
}

/// What the requests that an attempt has sent say of another one, whatever its interceptors make of it.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// It must not be repeated, because a byte of a response has come.
    is_final: bool,
    /// The peer may have acted on it.
    was_sent: bool,
    /// Requests whose replies have not come. A request that an interceptor has dropped may have been sent.
    under_way: usize,
    /// Requests in all.
    requests: u32,
    /// The body that the attempt began with, which comes in pieces, if nobody has read any of it.
    body: Option<Contained>,
}

impl Findings {
    /// What was found by an attempt whose interceptors are done.
    pub(super) fn take(shared: &Mutex<Self>) -> Self {
        std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(shared: &Mutex<Self>) {
        let mut found = shared.lock().unwrap_or_else(PoisonError::into_inner);
        found.under_way += 1;
        found.requests = found.requests.saturating_add(1);
    }

    fn note(shared: &Mutex<Self>, reply: Reply) -> Result<Response, Error> {
        let mut found = shared.lock().unwrap_or_else(PoisonError::into_inner);
        found.under_way -= 1;
        let unanswered = match reply {
            Ok(response) => {
                found.was_sent = true;
                return Ok(response);
            }
            Err(unanswered) => *unanswered,
        };
        found.was_sent |= unanswered.error.may_have_been_processed();
        match unanswered.request {
            Some(request) => found.body = request.body.untouched(),
            None => found.is_final = true,
        }
        Err(unanswered.error)
    }

    fn was_sent(&self) -> bool {
        self.was_sent || self.under_way > 0
    }

    /// How many requests there were, if the peer may have acted on one of them; else 0.
    pub(super) fn sent_requests(&self) -> u32 {
        if self.was_sent() { self.requests } else { 0 }
    }

    /// The request for another attempt, if there may be one. `kept` is as it was before the interceptors.
    pub(super) fn request(self, mut kept: Box<CallRequest>) -> Option<Box<CallRequest>> {
        if self.is_final || (self.was_sent() && !kept.is_idempotent()) {
            return None;
        }
        if kept.body.is_taken() {
            kept.body = self.body?;
        }
        Some(kept)
    }
}

#[derive(Debug, Clone, Copy)]
enum Level {
    Call,
    Hop,
    Attempt,
}

impl Next {
    /// What is outermost.
    pub(super) fn of_call(client: ClientRef) -> Self {
        Self { client, level: Level::Call, passed: 0, findings: None }
    }

    pub(super) fn of_hop(client: ClientRef) -> Self {
        Self { client, level: Level::Hop, passed: 0, findings: None }
    }

    /// What an attempt finds out goes to `findings`.
    pub(super) fn of_attempt(client: ClientRef, findings: &Arc<Mutex<Findings>>) -> Self {
        Self { client, level: Level::Attempt, passed: 0, findings: Some(Arc::clone(findings)) }
    }

    #[cfg(feature = "rules")]
    pub(crate) fn config(&self) -> &crate::client::config::Config {
        self.client.inner().config()
    }

    /// Sends the request on; its response.
    ///
    /// # Errors
    /// What [`Call::send`](crate::Call::send) reports.
    pub fn call(self, request: CallRequest) -> Calling {
        let config = self.client.inner().config();
        let links = match self.level {
            Level::Call => &config.interceptors,
            Level::Hop => &config.hop_links,
            Level::Attempt => &config.attempt_links,
        };
        if let Some(link) = links.get(self.passed).cloned() {
            return link.intercept(request, Self { passed: self.passed + 1, ..self });
        }
        let request = Box::new(request);
        match self.level {
            Level::Call => Box::pin(follow(self.client, Hopping::Request(request))),
            Level::Hop => Box::pin(async move { repeat(&self.client, Hopping::Request(request)).await }),
            Level::Attempt => {
                let attempt = send(self.client, request);
                Box::pin(async move {
                    let Some(findings) = &self.findings else {
                        return attempt.await.map_err(|unanswered| unanswered.error);
                    };
                    Findings::begin(findings);
                    Findings::note(findings, attempt.await)
                })
            }
        }
    }
}

/// The interceptors of one level, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Links(Vec<Arc<dyn Interceptor>>);

impl Links {
    pub(crate) fn push(&mut self, link: impl Interceptor) {
        self.0.push(Arc::new(link));
    }

    /// Adds links behind these.
    pub(crate) fn append(&mut self, mut behind: Self) {
        self.0.append(&mut behind.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, at: usize) -> Option<&Arc<dyn Interceptor>> {
        self.0.get(at)
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} interceptors", self.0.len())
    }
}
