//! One connection, as one task of its loop: idle without a buffer, or busy with an [`Exchange`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::exchange::{Exchange, Link, Turn};
use crate::lease::Kept;
use crate::service::{Ending, Service};

/// The task of one connection. Written by hand rather than as an `async fn`, so that an idle one is these few words:
/// buffers, decoder and handler live in an [`Exchange`], which idle connections do not have.
pub(crate) struct ConnectionTask {
    connection: Connection,
    service: Rc<Service>,
    deadline: Deadline,
    /// The first head is not complete. Its deadline runs from accept.
    fresh: bool,
    /// Where the service finds this task's waker; taken at the first poll.
    seat: Option<usize>,
    context: Option<Kept>,
    exchange: Option<Box<Exchange>>,
}

impl ConnectionTask {
    pub(crate) fn new(connection: Connection, service: Rc<Service>) -> Self {
        Self {
            connection,
            service,
            deadline: Deadline::new(),
            fresh: true,
            seat: None,
            context: None,
            exchange: None,
        }
    }

    /// Runs until there is nothing to do (`Pending`) or nothing left (`Ready`).
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut exchange = match self.exchange.take() {
            Some(busy) => busy,
            None => {
                let spare = self.service.take_spare();
                let Some(woken) = ready!(self.wake_up(cx, spare)) else { return Poll::Ready(()) };
                woken
            }
        };
        loop {
            let context = &mut self.context;
            let mut link = Link { connection: &mut self.connection, service: &self.service, context };
            match exchange.turn(cx, &mut link) {
                Poll::Ready(
                    Ok(idle @ (Turn::Idle | Turn::Nothing)) | Err(idle @ (Turn::Idle | Turn::Nothing)),
                ) => {
                    if idle == Turn::Idle {
                        self.fresh = false;
                        self.deadline.set(self.service.limits.idle_deadline);
                    }
                    let Some(woken) = ready!(self.wake_up(cx, exchange)) else { return Poll::Ready(()) };
                    exchange = woken;
                }
                Poll::Ready(Ok(Turn::Close) | Err(Turn::Close)) => return Poll::Ready(()),
                Poll::Ready(Ok(Turn::Abort) | Err(Turn::Abort)) => {
                    self.connection.abort();
                    return Poll::Ready(());
                }
                Poll::Pending => match self.wait(&mut exchange) {
                    Ok(false) => {
                        self.exchange = Some(exchange);
                        return Poll::Pending;
                    }
                    Ok(true) => {}
                    Err(Turn::Abort) => {
                        self.connection.abort();
                        return Poll::Ready(());
                    }
                    Err(_) => return Poll::Ready(()),
                },
            }
        }
    }

    /// Sets the timer for what the exchange waits for. `Ok(true)`: something has lasted too long, and the exchange takes
    /// another turn to say so.
    // Out of line: most requests are answered without waiting, and `run` is shorter without it.
    #[inline(never)]
    fn wait(&mut self, exchange: &mut Exchange) -> Result<bool, Turn> {
        let first_deadline = exchange.wait(Instant::now(), &self.service);
        self.fresh &= exchange.waits_for_first_head();
        if self.fresh {
            return Ok(false);
        }
        // Checked at each turn, not only when the timer fires: the timer is late by design, and a peer that wakes the
        // connection all the time would have it set anew each time. Checked after the turn, so that bytes which arrived
        // in time count although the loop was blocked.
        if exchange.expire(&self.connection, &self.service)? {
            return Ok(true);
        }
        match first_deadline {
            Some(after) => self.deadline.set(after),
            None => self.deadline.clear(),
        }
        Ok(false)
    }

    /// Gives an exchange with the first bytes of the next request, or none if the connection is over. While there are
    /// no bytes the exchange is back among the spare ones, so that waiting takes no buffer.
    fn wake_up(&mut self, cx: &mut Context<'_>, mut exchange: Box<Exchange>) -> Poll<Option<Box<Exchange>>> {
        if self.service.ending() != Ending::No {
            return Poll::Ready(None);
        }
        match exchange.fill(cx, &mut self.connection) {
            Poll::Ready(Ok(0)) => Poll::Ready(None),
            Poll::Ready(Ok(_)) => Poll::Ready(Some(exchange)),
            Poll::Ready(Err(_)) => {
                self.service.counters.wire_errors.increment();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.service.put_spare(exchange);
                Poll::Pending
            }
        }
    }

    /// Handles the timer of an idle connection and of one whose first head is late. `Ready`: the connection is over.
    #[cold]
    fn expire(&mut self) -> Poll<()> {
        match &mut self.exchange {
            Some(exchange) if self.fresh => {
                self.fresh = false;
                exchange.refuse_late_head(&self.service);
                Poll::Pending
            }
            // A busy connection checks its deadlines after its turn.
            Some(_) => Poll::Pending,
            None => {
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
        if this.seat.is_none() {
            this.seat = Some(this.service.sit(cx.waker().clone()));
            this.deadline.set(this.service.limits.head_deadline);
        }
        if this.service.ending() == Ending::Cut {
            this.connection.abort();
            return Poll::Ready(());
        }
        if let Some(exchange) = &mut this.exchange {
            exchange.time_passes(Instant::now());
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
        if let Some(seat) = self.seat {
            self.service.stand(seat);
        }
    }
}
