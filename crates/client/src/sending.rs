//! The future of a call: it finds a loop, puts the call into that loop's pool, and waits for the response.

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_loops::clock::{self, precise};
use anywire_loops::{Task, TaskError};
use tokio::sync::oneshot;

use crate::handle::ClientRef;
use crate::inner::Inner;
use crate::job::{CallRequest, Job, Reply};
use crate::learnt::gather;
use crate::local::Local;
use crate::response::Source;
use crate::{Error, Response};

/// A call that is on its way once it is polled; the response's head, or why there is none.
///
/// `Send` and `'static`, and at home on any executor: it uses no timer and no reactor of the thread that polls it.
/// Dropping it cancels the call: it leaves the queue, or the connection that carries it is closed.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Sending {
    state: State,
}

impl Sending {
    pub(crate) fn new(client: ClientRef, request: Result<Box<CallRequest>, Error>) -> Self {
        let state = match request {
            Ok(mut request) => match request.known_response.take() {
                None => State::New { client, request },
                Some(known) => {
                    let collect_bytes = client.inner().config().limits.body_bytes;
                    let (head, body) = *known;
                    let response = Response::new(head, body, Source::Whole(request.url), collect_bytes, None);
                    State::Known(Ok(response))
                }
            },
            Err(error) => State::Known(Err(error)),
        };
        Self { state }
    }
}

impl Future for Sending {
    type Output = Reply;

    /// # Panics
    ///
    /// If polled again after it gave its response, as with other futures.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let (client, mut placed) = match std::mem::replace(&mut self.state, State::Done) {
            State::New { client, request } => match place(client.inner(), request) {
                Ok(placed) => (client, placed),
                Err(error) => return Poll::Ready(Err(error)),
            },
            State::Waiting { client, placed } => (client, placed),
            State::Known(reply) => return Poll::Ready(reply),
            State::Done => panic!("a call was polled after it had given its response"),
        };
        match Pin::new(&mut placed.response).poll(cx) {
            Poll::Pending => {
                self.state = State::Waiting { client, placed };
                Poll::Pending
            }
            Poll::Ready(Ok(reply)) => Poll::Ready(reply),
            Poll::Ready(Err(_)) => Poll::Ready(Err(placed.why_unanswered(cx))),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let State::Waiting { client, placed } = std::mem::replace(&mut self.state, State::Done) {
            // First the receiver: a pool that sees the count looks for closed receivers once.
            drop(placed);
            client.inner().count_abandoned();
        }
    }
}

/// Puts a call into a pool, here or on another loop.
fn place(inner: &Arc<Inner>, request: Box<CallRequest>) -> Result<Placed, Error> {
    if inner.is_closed() {
        return Err(Error::Shutdown { sent: false });
    }
    let (reply, response) = oneshot::channel();
    let local = Local::here(inner);
    let loops = inner.loops()?;
    let index = match &local {
        Some(local) => inner.owner_of(local.index(), loops.list.len()),
        None => inner.next_loop(loops),
    };
    let index = gather(inner, local.as_deref(), loops, &request, index);
    if let Some(local) = local
        && local.index() == index
    {
        submit(&local, request, reply);
        return Ok(Placed { response, hand_over: None });
    }
    let target = &loops.list[index];
    target.used.store(true, Ordering::Release);
    let shared = Arc::clone(inner);
    let hand_over = target.handle.spawn(move || {
        // A caller who left meanwhile is not to cost a connection.
        if !reply.is_closed() {
            submit(&Local::on_this_loop(&shared, index), request, reply);
        }
        ready(())
    });
    Ok(Placed { response, hand_over: Some(hand_over) })
}

fn submit(local: &Rc<Local>, request: Box<CallRequest>, reply: oneshot::Sender<Reply>) {
    // The true time: the loop's own may be behind by as long as a task has blocked it, and the call would end early.
    let now = precise();
    let timeouts = &local.inner().config().timeouts;
    local.submit(Job {
        at: now,
        total_until: clock::after(now, request.total_timeout),
        stream_until: Some(request.stream_total_timeout)
            .filter(|limit| *limit != Duration::MAX)
            .map(|limit| clock::after(now, limit)),
        acquire_until: clock::after(now, timeouts.acquire),
        resent: false,
        sent: false,
        negotiated: None,
        refusals: 0,
        request,
        reply: Some(reply),
    });
}

/// A call that is with a loop.
#[derive(Debug)]
struct Placed {
    response: oneshot::Receiver<Reply>,
    /// Set for a call from outside; asked only if there is no response.
    hand_over: Option<Task<()>>,
}

impl Placed {
    /// Why the loop dropped the call.
    fn why_unanswered(self, cx: &mut Context<'_>) -> Error {
        let refused = self.hand_over.map(|mut hand_over| Pin::new(&mut hand_over).poll(cx));
        match refused {
            Some(Poll::Ready(Err(source))) => Error::Loop { sent: source != TaskError::Full, source },
            // It may have been on a connection. The loop that knew is gone.
            _ => Error::Loop { source: TaskError::Stopped, sent: true },
        }
    }
}

#[derive(Debug)]
enum State {
    New {
        client: ClientRef,
        request: Box<CallRequest>,
    },
    Waiting {
        client: ClientRef,
        placed: Placed,
    },
    /// Before anything is sent.
    Known(Reply),
    Done,
}
