//! What runs the chain: one hop after the other, and within each of them one attempt after the other.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anywire_loops::clock::precise;

use super::interceptor::{Findings, Next};
use super::redirect;
#[cfg(feature = "signatures")]
use super::sign;
use crate::call::attempt::{Attempt, Reply, Unanswered, pause};
use crate::call::request::CallRequest;
use crate::client::handle::ClientRef;
use crate::{Error, Response, Trace};

/// A call that some link carries on.
pub type Calling = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;

/// Sends a request through the whole chain.
pub(crate) fn call(client: ClientRef, mut request: Box<CallRequest>) -> Calling {
    // Before a link keeps a copy for another hop or attempt, which have one deadline together.
    request.started.get_or_insert_with(precise);
    if client.inner().config().interceptors.is_empty() {
        return Box::pin(follow(client, Hopping::Request(request)));
    }
    let findings = Arc::default();
    let calling = Next::of_call(client, &findings).call(*request);
    Box::pin(async move { calling.await.map_err(|error| Findings::tell(&findings, error)) })
}

/// Goes on from the outcome of a first attempt, which had no interceptor around it; gives it back if it is final.
#[cold]
pub(crate) fn carry_on(client: &ClientRef, reply: Reply) -> Result<Calling, Box<Reply>> {
    let config_for = |request| client.inner().config_for(request);
    let (wait, redirects) = match &reply {
        Ok(response) => response.request().map_or((None, false), |request| {
            let config = config_for(request);
            let wait = config.retries_of(request).after_status(request, response, 1);
            (wait, redirect::applies(&config.redirects_of(request), response))
        }),
        Err(unanswered) => match &unanswered.request {
            Some(request) => {
                let config = config_for(request);
                (config.retries_of(request).after_error(request, &unanswered.error, 1), false)
            }
            None => (None, false),
        },
    };
    match wait.is_some() || redirects {
        true => Ok(Box::pin(follow(client.clone(), Hopping::Answered(Box::new(reply), wait)))),
        false => Err(Box::new(reply)),
    }
}

/// Where a hop begins.
pub(super) enum Hopping {
    Request(Box<CallRequest>),
    /// Behind its first attempt, and the pause until the next one, if there is to be one. A hook has been asked, which may count.
    Answered(Box<Reply>, Option<Duration>),
}

/// Follows redirects, and repeats attempts within each hop.
pub(super) async fn follow(client: ClientRef, mut hop: Hopping) -> Result<Response, Error> {
    let mut history = Vec::new();
    loop {
        let carried = carry_hop(&client, hop).await;
        let mut response = carried.map_err(|error| error.behind_hops(history.len()))?;
        let Some(request) = response.take_request() else { return Ok(response.with_history(history)) };
        let config = client.inner().config_for(&request);
        let redirects = config.redirects_of(&request);
        if !redirect::applies(&redirects, &response) {
            return Ok(response.with_request(request).with_history(history));
        }
        match redirect::next(&redirects, &response, request, &history)? {
            redirect::Step::Stay(request) => {
                return Ok(response.with_request(request).with_history(history));
            }
            redirect::Step::Follow(next, hop_before) => {
                next.options.trace.iter().for_each(Trace::follow);
                history.push(hop_before);
                // Read to its end, its connection can carry the next hop.
                response.drain(config.limits.drain_bytes, pause(&client, config.timeouts.drain)).await;
                hop = Hopping::Request(next);
            }
        }
    }
}

/// Sends the request of a hop through the links that add to each of them. What they add is not for the next hop.
async fn carry_hop(client: &ClientRef, hop: Hopping) -> Result<Response, Error> {
    let request = match hop {
        Hopping::Request(request) if !client.inner().config().hop_links.is_empty() => request,
        hop => return repeat(client, hop).await,
    };
    let kept = Box::new(request.copy());
    let response = Next::of_hop(client.clone()).call(*request).await?;
    Ok(response.with_request_before_links(kept))
}

/// Makes attempts until one is final.
pub(super) async fn repeat(client: &ClientRef, hop: Hopping) -> Result<Response, Error> {
    // `was_sent`: the peer may have acted on an attempt before the present one.
    let (mut attempts, mut answered, mut was_sent) = (1, None, false);
    let (mut reply, mut decided) = match hop {
        Hopping::Answered(reply, wait) => (*reply, Some(wait)),
        Hopping::Request(request) => (attempt(client, request).await, None),
    };
    loop {
        let config_for = |request: &CallRequest| client.inner().config_for(request);
        let decided = decided.take();
        let (request, wait) = match reply {
            Ok(mut response) => {
                let Some(request) = response.take_request() else { return Ok(response) };
                let wait = decided.unwrap_or_else(|| {
                    config_for(&request).retries_of(&request).after_status(&request, &response, attempts)
                });
                let Some(wait) = wait else { return Ok(response.with_request(request)) };
                was_sent = true;
                let spent = Error::Status { url: response.url().to_string(), status: response.status() };
                let kept = Box::new(request.copy());
                let config = config_for(&request);
                let late = pause(client, config.timeouts.drain);
                let response = response.drain(config.limits.drain_bytes, late).await;
                answered = response.map(|response| response.with_request(kept));
                (request.as_retry(attempts, spent, was_sent), wait)
            }
            Err(unanswered) => {
                let Unanswered { error, request, requests } = *unanswered;
                // The budget allows no more, and no status is an error of the call.
                if let (Error::Retried { is_budget_spent: true, .. }, Some(response)) =
                    (&error, answered.take())
                {
                    return Ok(response);
                }
                let Some(request) = request else {
                    return Err(error.after(attempts, was_sent).behind_requests(requests));
                };
                let wait = decided.unwrap_or_else(|| {
                    config_for(&request).retries_of(&request).after_error(&request, &error, attempts)
                });
                let Some(wait) = wait else {
                    return Err(error.after(attempts, was_sent).behind_requests(requests));
                };
                was_sent |= requests > 0 || error.may_have_been_processed();
                (request.as_retry(attempts, error, was_sent), wait)
            }
        };
        attempts += 1;
        pause(client, wait).await;
        reply = attempt(client, request).await;
    }
}

/// Gives a request to the pool, signed if it is to be.
pub(super) async fn send(client: ClientRef, request: Box<CallRequest>) -> Reply {
    #[cfg(feature = "signatures")]
    if let Some(signing) = sign::Signing::of(&client, &request) {
        return signing.send(client, request).await;
    }
    Attempt::new(client, request).await
}

/// Sends a request once, through the interceptors of attempts.
async fn attempt(client: &ClientRef, request: Box<CallRequest>) -> Reply {
    if client.inner().config().attempt_links.is_empty() {
        return send(client.clone(), request).await;
    }
    let (kept, findings) = (Box::new(request.copy()), Arc::default());
    let request = request.with_body_of_attempt();
    match Next::of_attempt(client.clone(), &findings).call(*request).await {
        Ok(response) => Ok(response.with_request_before_attempt(kept)),
        Err(error) => {
            let findings = Findings::take(&findings);
            let requests = findings.sent_requests();
            Err(Box::new(Unanswered { error, request: findings.request(kept), requests }))
        }
    }
}
