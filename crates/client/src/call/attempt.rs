//! One attempt of a call: it finds a loop, puts the request into that loop's pool, and waits for the response.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anywire_http::Method;
use anywire_loops::TaskError;
use anywire_loops::clock::{self, precise};
use tokio::sync::oneshot;

use crate::call::callers::Caller;
use crate::call::job::Job;
use crate::call::request::CallRequest;
use crate::client::handle::ClientRef;
use crate::client::inner::Inner;
use crate::client::loops::ClientLoop;
use crate::pool::learnt::{Gathered, gather};
use crate::pool::loop_pools::LoopPools;
use crate::{Error, Response};

/// What comes of an attempt. A response has its request with it.
pub(crate) type Reply = Result<Response, Box<Unanswered>>;

/// An attempt without a response.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) error: Error,
    /// The request, if it may be sent again.
    pub(crate) request: Option<Box<CallRequest>>,
    /// So many requests were sent by interceptors of the attempt, and the peer may have acted on one, whatever the error says. 0 if there is
    /// nothing to add.
    pub(crate) requests: u32,
}

impl From<Error> for Box<Unanswered> {
    fn from(error: Error) -> Self {
        Self::new(Unanswered { error, request: None, requests: 0 })
    }
}

/// A request that is on its way once it is polled.
///
/// It uses no timer and no reactor of the thread that polls it. Dropping it ends it: it leaves the queue, or the connection that
/// carries it is closed.
#[derive(Debug)]
pub(crate) struct Attempt {
    client: ClientRef,
    state: State,
}

impl Attempt {
    pub(crate) fn new(client: ClientRef, request: Box<CallRequest>) -> Self {
        Self { client, state: State::New(request) }
    }

    pub(crate) fn client(&self) -> &ClientRef {
        &self.client
    }
}

impl Future for Attempt {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Self { client, state } = &mut *self;
        if let State::New(_) = state
            && let State::New(request) = std::mem::replace(state, State::Done)
        {
            match place(client.inner(), request, cx) {
                Ok(placed) => *state = State::Waiting(placed),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        let State::Waiting(placed) = state else { return Poll::Pending };
        let reply = ready!(placed.poll(cx));
        *state = State::Done;
        // It may have been on a connection. The loop that knew is gone.
        let Ok(reply) = reply else {
            return Poll::Ready(Err(Error::Loop { source: TaskError::Stopped, sent: true }.into()));
        };
        if let Err(unanswered) = &reply {
            client.inner().past().failed(&unanswered.error);
        }
        Poll::Ready(reply)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let State::Waiting(placed) = std::mem::replace(&mut self.state, State::Done) {
            let Placed { response, caller } = placed;
            // First the receiver: a pool that sees the count looks for closed receivers once.
            drop(response);
            self.client.inner().count_abandoned();
            // It may be the one of its batch that was woken.
            caller.inspect(|caller| caller.wake_others());
        }
    }
}

/// Waits on a loop of the client, because the thread that waits may have no timer. A loop has one, whoever else takes no more.
pub(crate) async fn pause(client: &ClientRef, pause: Duration) {
    let inner = client.inner();
    if inner.current_loop().is_some() {
        return tokio::time::sleep(pause).await;
    }
    let Ok(loops) = inner.loops() else { return };
    let waits =
        loops.list[inner.next_loop(loops, loops.list.len())].handle.spawn(move || tokio::time::sleep(pause));
    // A loop that has ended, or takes no more, refuses the attempt as well.
    drop(waits.await);
}

/// Puts a call into a pool, here or on another loop.
fn place(inner: &Arc<Inner>, request: Box<CallRequest>, cx: &Context<'_>) -> Result<Placed, Error> {
    if inner.is_closed() {
        return Err(Error::Shutdown { sent: false });
    }
    let (reply, response) = oneshot::channel();
    let local = LoopPools::here(inner);
    let loops = inner.loops()?;
    let index = match &local {
        Some(local) => loops.owner(local.index(), inner.owners(loops, &request.url)),
        None => inner.next_loop(loops, inner.owners(loops, &request.url)),
    };
    let Gathered { index, others } = gather(inner, local.as_deref(), loops, &request, index);
    if let Some(local) = local
        && local.index() == index
    {
        submit(&local, request, reply, Spread { may_borrow: true, loops_left: others });
        return Ok(Placed { response, caller: None });
    }
    let spread = Spread { may_borrow: false, loops_left: others };
    post(inner, &loops.list[index], index, request, reply, spread)?;
    Ok(Placed { response, caller: Caller::new(cx.waker()) })
}

/// Puts a call into a pool of another loop, in its next turn.
fn post(
    inner: &Arc<Inner>,
    target: &ClientLoop,
    index: usize,
    request: Box<CallRequest>,
    reply: oneshot::Sender<Reply>,
    spread: Spread,
) -> Result<(), Error> {
    if !target.take_calls() {
        return Err(Error::Shutdown { sent: false });
    }
    let shared = Arc::clone(inner);
    let posted = target.handle.post(move || {
        // A caller who left meanwhile is not to cost a connection.
        if !reply.is_closed() {
            submit(&LoopPools::on_this_loop(&shared, index), request, reply, spread);
        }
    });
    posted.map_err(|source| Error::Loop { source, sent: false })
}

/// What a call may have of other loops than the one that it is on: see the fields of [`Job`].
#[derive(Clone, Copy)]
struct Spread {
    may_borrow: bool,
    loops_left: usize,
}

fn submit(
    local: &Rc<LoopPools>,
    mut request: Box<CallRequest>,
    reply: oneshot::Sender<Reply>,
    spread: Spread,
) {
    // The true time: the loop's own may be behind by as long as a task has blocked it, and the call would end early.
    let now = precise();
    request.started.get_or_insert(now);
    let inner = local.inner();
    // An interceptor may have made it one: see `Call::send`.
    if request.method == Method::CONNECT {
        let _ = reply.send(Err(Error::Tunnel.into()));
        return;
    }
    let mut job = job(request, reply, spread, now);
    // A redirect, a rule or an interceptor may have led it to this origin.
    if let Err(error) = job.come_under(inner) {
        return job.give_up(error);
    }
    job.seen = local.see(&job.request, now);
    local.submit(job);
}

/// A call that is submitted `now`, and comes under the options of its origin next.
fn job(request: Box<CallRequest>, reply: oneshot::Sender<Reply>, spread: Spread, now: Instant) -> Job {
    let started = request.started.unwrap_or(now);
    Job {
        at: now,
        total_until: clock::after(started, request.options.total_timeout),
        stream_until: Some(request.options.stream_total_timeout)
            .filter(|limit| *limit != Duration::MAX)
            .map(|limit| clock::after(started, limit)),
        acquire_until: now,
        may_borrow: spread.may_borrow,
        loops_left: spread.loops_left,
        needs_fresh_connection: false,
        sent: false,
        negotiated: None,
        refusals: 0,
        needs_own_connection: false,
        seen: None,
        request,
        reply: Some(reply),
    }
}

/// A call that is with a loop.
#[derive(Debug)]
struct Placed {
    response: oneshot::Receiver<Reply>,
    /// Set for a call from outside.
    caller: Option<Arc<Caller>>,
}

impl Placed {
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, oneshot::error::RecvError>> {
        match &mut self.caller {
            None => Pin::new(&mut self.response).poll(cx),
            Some(caller) => {
                caller.wake_others();
                *caller = caller.of_task(cx.waker());
                let waker = Arc::clone(caller).into();
                Pin::new(&mut self.response).poll(&mut Context::from_waker(&waker))
            }
        }
    }
}

#[derive(Debug)]
enum State {
    New(Box<CallRequest>),
    Waiting(Placed),
    Done,
}

#[cfg(test)]
mod tests {
    use anywire_loops::Loops;

    use super::*;
    use crate::Client;
    use crate::call::parse_url;
    use crate::pool::context::LoopContext;
    use crate::pool::queue::{Offer, Queue};

    /// Its caller has asked whether the client is closed before the shutdown, and goes on behind it.
    #[test]
    fn a_call_that_comes_to_its_loop_behind_the_shutdown_fails() {
        let loops = Loops::start(1).expect("loops start");
        for is_used in [false, true] {
            let client = Client::builder().on(&loops).build();
            let inner = Arc::clone(&client.handle.0);
            let url = parse_url("http://127.0.0.1:1/").expect("a URL");
            let target = &inner.loops().expect("they were given").list[0];
            let spread = Spread { may_borrow: false, loops_left: 0 };
            let call = || {
                let request = inner.request(Method::GET, url.clone()).expect("no options");
                let (reply, response) = oneshot::channel();
                (request, reply, response)
            };
            if is_used {
                assert!(target.take_calls());
            }
            let shutdown = move || async move { client.shutdown(Duration::ZERO).await };
            loops.get(0).spawn(shutdown).wait().expect("no panic");

            let (request, reply, _) = call();
            let posted = post(&inner, target, 0, request, reply, spread);
            assert!(matches!(posted, Err(Error::Shutdown { sent: false })), "{posted:?}");
            // Or it was posted before.
            let (request, reply, response) = call();
            let shared = Arc::clone(&inner);
            let submits =
                move || async move { submit(&LoopPools::on_this_loop(&shared, 0), request, reply, spread) };
            loops.get(0).spawn(submits).wait().expect("no panic");
            let unanswered = response.blocking_recv().expect("it is told").expect_err("it is shut down");
            assert!(matches!(unanswered.error, Error::Shutdown { sent: false }), "{:?}", unanswered.error);
            // Or another loop has passed it on.
            let (request, reply, response) = call();
            let job = job(request, reply, spread, precise());
            assert!(LoopPools::pass_on(&inner, 0, job).is_none(), "the loop has room");
            let unanswered = response.blocking_recv().expect("it is told").expect_err("it is shut down");
            assert!(matches!(unanswered.error, Error::Shutdown { sent: false }), "{:?}", unanswered.error);
        }
    }

    /// What no other address takes goes on waiting where it was, and not as if it had just come.
    #[test]
    fn a_call_that_goes_back_into_its_queue_has_waited_since_it_came() {
        let loops = Loops::start(1).expect("loops start");
        let client = Client::builder().on(&loops).build();
        let inner = Arc::clone(&client.handle.0);
        let waits = move || async move {
            let queue = Queue::new(&Rc::new(LoopContext::new(&inner, 0)));
            let url = parse_url("http://127.0.0.1:1/").expect("a URL");
            let request = inner.request(Method::GET, url).expect("no options");
            let (reply, _response) = oneshot::channel();
            let came =
                precise().checked_sub(Duration::from_secs(3)).expect("this machine has run for longer");
            queue.push(job(request, reply, Spread { may_borrow: false, loops_left: 0 }, came));
            let first = queue.remove_first().expect("it is wanted");
            assert_eq!(queue.len(), 0);
            queue.push_first(first);
            assert_eq!(queue.since(), Some(came));
            // One that gets a connection has its time from there.
            assert!(queue.pop(Offer::Used).expect("it is wanted").at > came);
        };
        loops.get(0).spawn(waits).wait().expect("no panic");
    }
}
