//! One connection, as one task of its loop: idle without a buffer, or busy with an [`Exchange`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::exchange::{Exchange, Link, Turn, Waiting};
use crate::lease::Kept;
use crate::service::{Ending, Service};

/// The task of one connection. Written by hand rather than as an `async fn`, so that an idle one is these few words:
/// buffers, decoder and handler live in an [`Exchange`], which idle connections do not have.
pub(crate) struct ConnectionTask {
    connection: Connection,
    service: Rc<Service>,
    deadline: Deadline,
    waiting: Waiting,
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
            waiting: Waiting::Fresh,
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
                Poll::Ready(Ok(Turn::Idle) | Err(Turn::Idle)) => {
                    self.waiting = Waiting::Idle;
                    self.deadline.set(self.service.limits.idle_deadline);
                    let Some(woken) = ready!(self.wake_up(cx, exchange)) else { return Poll::Ready(()) };
                    exchange = woken;
                }
                Poll::Ready(Ok(Turn::Close) | Err(Turn::Close)) => return Poll::Ready(()),
                Poll::Ready(Ok(Turn::Abort) | Err(Turn::Abort)) => {
                    self.connection.abort();
                    return Poll::Ready(());
                }
                Poll::Pending => {
                    if let Some(waiting) = exchange.waits_anew(self.waiting) {
                        self.waiting = waiting;
                        self.deadline.set(waiting.limit(&self.service.limits));
                    }
                    self.exchange = Some(exchange);
                    return Poll::Pending;
                }
            }
        }
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

    /// What the end of the time means depends on what was waited for. `Ready`: the connection is over.
    fn expire(&mut self) -> Poll<()> {
        match (&mut self.exchange, self.waiting) {
            (Some(exchange), waiting) => match exchange.expire(waiting, &self.service) {
                Some(Turn::Abort) => {
                    self.connection.abort();
                    Poll::Ready(())
                }
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            },
            (None, _) => {
                self.service.counters.idle_timeouts.increment();
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
            this.deadline.set(this.waiting.limit(&this.service.limits));
        }
        if this.service.ending() == Ending::Cut {
            this.connection.abort();
            return Poll::Ready(());
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
