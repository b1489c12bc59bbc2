//! Interceptors: functions around a call, or around each of its attempts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// What the requests have found out besides their responses or errors.
    findings: Option<Arc<Mutex<Findings>>>,
}

/// What the requests that a call or an attempt has sent say of another one, whatever its interceptors make of it.
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
    /// What was found by an attempt whose interceptors are done. A request of theirs may be under way still, and is noted when it ends.
    pub(super) fn take(shared: &Mutex<Self>) -> Self {
        let mut found = Self::lock(shared);
        Self { body: found.body.take(), ..*found }
    }

    fn begin(shared: &Mutex<Self>) {
        let mut found = Self::lock(shared);
        found.under_way += 1;
        found.requests = found.requests.saturating_add(1);
    }

    /// Notes what has come of a request within a call.
    fn note_call(shared: &Mutex<Self>, outcome: &Result<Response, Error>) {
        let was_sent = outcome.as_ref().err().is_none_or(Error::may_have_been_processed);
        Self::lock(shared).end(was_sent);
    }

    /// Notes what has come of a request within an attempt.
    fn note(shared: &Mutex<Self>, reply: Reply) -> Result<Response, Error> {
        let mut found = Self::lock(shared);
        let unanswered = match reply {
            Ok(response) => {
                found.end(true);
                return Ok(response);
            }
            Err(unanswered) => *unanswered,
        };
        found.end(unanswered.error.may_have_been_processed());
        match unanswered.request {
            Some(request) => found.body = request.body.untouched(),
            None => found.is_final = true,
        }
        Err(unanswered.error)
    }

    fn end(&mut self, was_sent: bool) {
        self.under_way -= 1;
        self.was_sent |= was_sent;
    }

    /// Has an error say whether a request before it was sent.
    pub(super) fn tell(shared: &Mutex<Self>, error: Error) -> Error {
        let requests = Self::lock(shared).sent_requests();
        error.behind_requests(requests)
    }

    fn lock(shared: &Mutex<Self>) -> MutexGuard<'_, Self> {
        // Nothing panics while it is held.
        shared.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What is outermost. What a call finds out goes to `findings`.
    pub(super) fn of_call(client: ClientRef, findings: &Arc<Mutex<Findings>>) -> Self {
        Self { client, level: Level::Call, passed: 0, findings: Some(Arc::clone(findings)) }
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

    /// Sends the request on; its response. A request that a clone has sent before counts, too, when the error is asked whether
    /// [a peer may have acted](Error::may_have_been_processed) on the call.
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
            // Who runs the chain tells the error of the outermost link.
            let findings = self.findings.clone().filter(|_| self.passed > 0);
            let calling = link.intercept(request, Self { passed: self.passed + 1, ..self });
            return match findings {
                Some(findings) => {
                    Box::pin(async move { calling.await.map_err(|error| Findings::tell(&findings, error)) })
                }
                None => calling,
            };
        }
        let request = Box::new(request);
        match self.level {
            Level::Call => Box::pin(async move {
                let Some(findings) = self.findings else {
                    return follow(self.client, Hopping::Request(request)).await;
                };
                Findings::begin(&findings);
                let outcome = follow(self.client, Hopping::Request(request)).await;
                Findings::note_call(&findings, &outcome);
                outcome.map_err(|error| Findings::tell(&findings, error))
            }),
            Level::Hop => Box::pin(async move { repeat(&self.client, Hopping::Request(request)).await }),
            Level::Attempt => {
                let attempt = send(self.client, request);
                Box::pin(async move {
                    let Some(findings) = &self.findings else {
                        return attempt.await.map_err(|unanswered| unanswered.error);
                    };
                    Findings::begin(findings);
                    Findings::note(findings, attempt.await).map_err(|error| Findings::tell(findings, error))
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
