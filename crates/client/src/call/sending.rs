//! The future of a call.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_http::{Body, ResponseHead};

use crate::call::attempt::Attempt;
use crate::call::request::CallRequest;
use crate::chain::{self, Calling};
use crate::client::handle::ClientRef;
use crate::{Error, Response};

/// A call that is on its way once it is polled; the response's head, or why there is none.
///
/// `Send` and `'static`, and at home on any executor: it uses no timer and no reactor of the thread that polls it.
/// Dropping it cancels the call: it leaves the queue, or the connection that carries it is closed.
#[must_use = "a call does nothing until it is awaited"]
pub struct Sending {
    state: State,
}

/// How far it has come.
enum State {
    /// The first attempt, with no interceptor around it.
    First(Attempt),
    /// Some link of the chain has it.
    Chain(Calling),
    /// Before anything is sent.
    Known(Box<Result<Response, Error>>),
    Done,
}

impl Sending {
    pub(crate) fn new(client: ClientRef, request: Result<Box<CallRequest>, Error>) -> Self {
        let state = match request {
            Ok(mut request) => match Self::begin(&mut request) {
                Some(known) => {
                    let (head, body) = *known;
                    State::Known(Box::new(Ok(Response::whole(request, head, body, None))))
                }
                None if client.inner().config().has_links(&request) => {
                    State::Chain(chain::call(client, request))
                }
                None => State::First(Attempt::new(client, request)),
            },
            Err(error) => State::Known(Box::new(Err(error))),
        };
        Self { state }
    }

    /// The response, if it is known without a server.
    #[inline]
    fn begin(request: &mut CallRequest) -> Option<Box<(ResponseHead, Body)>> {
        if let Some(trace) = &request.options.trace {
            trace.begin();
        }
        request.known_response.take()
    }
}

impl Future for Sending {
    type Output = Result<Response, Error>;

    /// # Panics
    ///
    /// If polled again after it gave its response, as with other futures.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let polled = match &mut self.state {
                State::First(attempt) => match Pin::new(&mut *attempt).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(response)) if response.is_final() => Poll::Ready(Ok(response)),
                    Poll::Ready(reply) => match chain::carry_on(attempt.client(), reply) {
                        Ok(calling) => {
                            self.state = State::Chain(calling);
                            continue;
                        }
                        Err(reply) => Poll::Ready((*reply).map_err(|unanswered| unanswered.error)),
                    },
                },
                State::Chain(calling) => calling.as_mut().poll(cx),
                State::Known(_) => {
                    let State::Known(reply) = std::mem::replace(&mut self.state, State::Done) else {
                        continue;
                    };
                    return Poll::Ready(*reply);
                }
                State::Done => panic!("a call was polled after it had given its response"),
            };
            if polled.is_ready() {
                self.state = State::Done;
            }
            return polled;
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sending { .. }")
    }
}
