//! One connection, as one task of its loop: idle without a buffer, or driven by the [`Session`] of a protocol.

use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::context::FreeContext;
use crate::h1::{End, Env, Session};
use crate::service::{Ending, Service};

/// The task of one connection. Written by hand rather than as an `async fn`, so that an idle one is these few words:
/// buffers, decoder and handler live in a [`Session`], which idle connections do not have.
pub(crate) struct ConnectionTask {
    connection: Connection,
    service: Rc<Service>,
    deadline: Deadline,
    /// The first head is not complete. Its deadline runs from accept.
    fresh: bool,
    /// Where the service finds this task's waker. Registered at the first poll.
    key: Option<usize>,
    context: Option<FreeContext>,
    driver: Driver,
}

/// What drives a connection. It is chosen when the first bytes of a connection have come: by ALPN where the transport has
/// negotiated a protocol, else by those bytes. HTTP/1 is all there is, and refuses the preface of HTTP/2.
enum Driver {
    /// Nothing: between two requests.
    Idle,
    H1(Box<Session>),
}

impl ConnectionTask {
    pub(crate) fn new(connection: Connection, service: Rc<Service>) -> Self {
        Self {
            connection,
            service,
            deadline: Deadline::new(),
            fresh: true,
            key: None,
            context: None,
            driver: Driver::Idle,
        }
    }

    /// Runs until there is nothing to do (`Pending`) or nothing left (`Ready`).
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut session = match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::H1(busy) => busy,
            Driver::Idle => {
                let spare = self.service.take_spare();
                let Some(woken) = ready!(self.wake_up(cx, spare)) else { return Poll::Ready(()) };
                woken
            }
        };
        loop {
            let context = &mut self.context;
            let mut env = Env { connection: &mut self.connection, service: &self.service, context };
            let end = match session.turn(cx, &mut env) {
                Break(end) => end,
                Continue(()) => match self.wait(&mut session) {
                    Continue(false) => {
                        self.driver = Driver::H1(session);
                        return Poll::Pending;
                    }
                    Continue(true) => continue,
                    Break(end) => end,
                },
            };
            match end {
                End::Idle | End::BlankLines => {
                    if end == End::Idle {
                        self.fresh = false;
                        self.deadline.set(self.service.limits.idle_deadline);
                    }
                    let Some(woken) = ready!(self.wake_up(cx, session)) else { return Poll::Ready(()) };
                    session = woken;
                }
                End::Close => return Poll::Ready(()),
                End::Abort => {
                    self.connection.abort();
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Sets the timer for what the session waits for. `true`: a deadline has passed, and the session takes another turn to
    /// act on it.
    // Out of line: most requests are answered without waiting, and `run` is shorter without it.
    #[inline(never)]
    fn wait(&mut self, session: &mut Session) -> ControlFlow<End, bool> {
        let first_deadline = session.wait(Instant::now(), &self.service);
        self.fresh &= session.waits_for_first_head();
        if self.fresh {
            return Continue(false);
        }
        // Checked at each turn, not only when the timer fires: the timer is late by design, and a peer that wakes the
        // connection all the time sets it anew each time. Checked after the turn, so that bytes which arrived in time
        // count although the loop was blocked.
        if session.expire(&self.connection, &self.service)? {
            return Continue(true);
        }
        match first_deadline {
            Some(after) => self.deadline.set(after),
            None => self.deadline.clear(),
        }
        Continue(false)
    }

    /// Returns a session with the first bytes of the next request, or none if the connection is over. While there are no
    /// bytes the session is back among the spares, so that waiting takes no buffer.
    fn wake_up(&mut self, cx: &mut Context<'_>, mut session: Box<Session>) -> Poll<Option<Box<Session>>> {
        if self.service.ending() != Ending::No {
            return Poll::Ready(None);
        }
        match session.fill(cx, &mut self.connection) {
            Poll::Ready(Ok(0)) => Poll::Ready(None),
            Poll::Ready(Ok(_)) => Poll::Ready(Some(session)),
            Poll::Ready(Err(_)) => {
                self.service.counters.wire_errors.increment();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.service.put_spare(session);
                Poll::Pending
            }
        }
    }

    /// Handles the timer of an idle connection and of one whose first head is late. `Ready`: the connection is over.
    #[cold]
    fn expire(&mut self) -> Poll<()> {
        match &mut self.driver {
            Driver::H1(session) if self.fresh => {
                self.fresh = false;
                session.refuse_late_head(&self.service);
                Poll::Pending
            }
            // A busy connection checks its deadlines after its turn.
            Driver::H1(_) => Poll::Pending,
            Driver::Idle => {
                let counters = &self.service.counters;
                if self.fresh { &counters.head_timeouts } else { &counters.idle_timeouts }.increment();
                Poll::Ready(())
            }
        }
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.key.is_none() {
            this.key = Some(this.service.register(cx.waker().clone()));
            this.deadline.set(this.service.limits.head_deadline);
        }
        if this.service.ending() == Ending::Cut {
            this.connection.abort();
            return Poll::Ready(());
        }
        if let Driver::H1(session) = &mut this.driver {
            session.time_passes(Instant::now());
        }
        if this.deadline.poll_expired(cx).is_ready() {
            this.deadline.clear();
            if this.expire().is_ready() {
                return Poll::Ready(());
            }
        }
        this.run(cx)
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.service.deregister(key);
        }
    }
}
