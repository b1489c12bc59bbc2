//! Interceptors: functions around a call, or around each of its attempts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Calling, Hopping, follow, repeat, send};
use crate::handle::ClientRef;
use crate::request::CallRequest;
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
    /// Within an attempt: set once it must not be repeated, because a byte of a response has come.
    is_final: Option<Arc<AtomicBool>>,
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
        Self { client, level: Level::Call, passed: 0, is_final: None }
    }

    pub(super) fn of_hop(client: ClientRef) -> Self {
        Self { client, level: Level::Hop, passed: 0, is_final: None }
    }

    /// What an attempt has found out besides its error goes to `is_final`.
    pub(super) fn of_attempt(client: ClientRef, is_final: &Arc<AtomicBool>) -> Self {
        Self { client, level: Level::Attempt, passed: 0, is_final: Some(Arc::clone(is_final)) }
    }

    #[cfg(feature = "rules")]
    pub(crate) fn config(&self) -> &crate::inner::Config {
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
            Level::Attempt => &config.attempt_interceptors,
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
                    attempt.await.map_err(|unanswered| {
                        if let Some(is_final) = self.is_final.filter(|_| unanswered.request.is_none()) {
                            is_final.store(true, Ordering::Relaxed);
                        }
                        unanswered.error
                    })
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
