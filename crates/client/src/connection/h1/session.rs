//! A connection's HTTP/1 state: the decoder, and the call that is on it.

use std::task::{Context, Poll, ready};

use anywire_http::h1::{Limits, ResponseDecoder};
use anywire_loops::clock::precise;
use bytes::Bytes;

use super::exchange::{End, Exchange};
use crate::call::job::{Job, Outcome};
use crate::connection::event::Event;
use crate::connection::io::Io;
use crate::connection::tunnel::{Tunnel, tunnel};
use crate::pool::context::LoopContext;

/// HTTP/1 on one connection. A request leaves when the response of the one before is complete.
pub(crate) struct Session {
    decoder: ResponseDecoder,
    /// A loan of the loop, because most connections of a pool are idle at most times.
    slot: Option<Slot>,
    /// Carries the call that has taken the wire out of HTTP.
    tunnel: Option<Tunnel>,
    /// Whether it has carried a call to its end.
    used: bool,
}

impl Session {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { decoder: ResponseDecoder::new(limits), slot: None, tunnel: None, used: false }
    }

    /// Calls that are on it.
    pub(crate) fn calls(&self) -> usize {
        usize::from(self.slot.is_some() || self.tunnel.is_some())
    }

    /// It has carried a call to its end, though not here.
    pub(crate) fn set_used(&mut self) {
        self.used = true;
    }

    /// Takes a call, and encodes its request.
    pub(crate) fn start(&mut self, job: Job, host: &str, context: &LoopContext) {
        if self.used {
            context.cells.reused.add(1);
        }
        self.decoder.request_method(&job.request.method);
        self.slot = Some(context.take_slot(Exchange::new(job, host, self.used, context)));
    }

    /// Sends at once what the wire takes of a request that is encoded whole. `false` if the connection's task has to
    /// run: a caller's body is polled by that task only, because a panic of the body ends the task that polls it.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        let (Some(exchange), Some(wire)) = (exchange_in(&mut self.slot), &mut io.wire) else { return false };
        exchange.is_whole() && exchange.begin(cx, wire, &io.timer, exchange.job.at, context)
    }

    /// Carries the call on as far as it goes; ready when it is over. `cut` ends it. An idle connection is ready when it is over.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        context: &LoopContext,
        cut: bool,
    ) -> Poll<Event> {
        if let Some(tunnel) = self.tunnel.as_mut().filter(|_| !cut) {
            return tunnel.as_mut().poll(cx).map(|()| Event::Over(Outcome::Nothing));
        }
        let (Some(exchange), Some(wire)) = (exchange_in(&mut self.slot), &mut io.wire) else {
            return io.poll_idle(cx, context);
        };
        if !exchange.has_begun() {
            exchange.begin(cx, wire, &io.timer, precise(), context);
        }
        let end = match cut {
            true => exchange.cut(),
            false => ready!(exchange.poll(cx, io, &mut self.decoder, context)),
        };
        Poll::Ready(self.end(end, io, context))
    }

    /// The call has left the connection, whose slot is free from here if it goes on.
    fn end(&mut self, end: End, io: &mut Io, context: &LoopContext) -> Event {
        self.used = true;
        let Some(mut slot) = self.slot.take() else { return Event::Over(Outcome::Nothing) };
        // Taken apart in its slot: moving all of it is 80 instructions each time.
        let Some(Exchange { job, download, input, reuse, .. }) = *slot else {
            return Event::Over(Outcome::Nothing);
        };
        *slot = None;
        context.keep_slot(slot);
        let limits = &context.config().limits;
        match end {
            End::Complete => {
                let goes_on = reuse.is_some_and(|idle| io.rest(idle, context));
                if goes_on && download.is_drained() {
                    context.cells.drained.add(1);
                }
                let outcome = download.finish(job, limits);
                if goes_on { Event::Open(outcome) } else { Event::Over(outcome) }
            }
            End::Upgrade => {
                let Some(wire) = io.wire.take() else { return Event::Over(Outcome::Nothing) };
                io.timer.clear();
                let received = input.map_or_else(Bytes::new, |input| Bytes::copy_from_slice(input.data()));
                let patience = job.request.options.read_timeout;
                let (upgraded, tunnel) = tunnel(wire, received, patience);
                self.tunnel = Some(tunnel);
                Event::Open(download.upgrade(job, upgraded, limits))
            }
            End::Resend => Event::Over(Outcome::Resubmit(Job { needs_fresh_connection: true, ..job })),
            End::Over(outcome) => Event::Over(outcome),
        }
    }
}

/// A place for an exchange, which the calls of a loop use again and again: allocating it took 300 instructions of a call.
pub(crate) type Slot = Box<Option<Exchange>>;

fn exchange_in(slot: &mut Option<Slot>) -> Option<&mut Exchange> {
    slot.as_mut()?.as_mut().as_mut()
}
