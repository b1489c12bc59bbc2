//! A busy connection: frames come in, and what is ready of all streams leaves in as few writes as possible.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use anywire_http::Buffer;
use anywire_http::h2::{Abuse, Error, Event};
use anywire_loops::clock::{after, precise};
use anywire_mux::Http2;

use super::deadlines::Lasting;
use crate::context::Peer;
use crate::driver::connection::{End, Env, is_cut};
use crate::driver::streams::Exchanges;
use crate::driver::timers::Timers;
use crate::observe::ExchangeEnd;
use crate::service::{Ending, Service};

/// The state of a connection that speaks HTTP/2.
pub(crate) struct Session {
    pub(crate) exchanges: Exchanges<Http2>,
    /// The stopwatches of the output, since the peer has not taken all of it at once. Those of requests are their streams'.
    pub(super) timers: Option<Box<Timers>>,
    /// When the last poll began. What has come since was not looked at yet.
    pub(super) polled_at: Option<Instant>,
    /// No request is under way.
    pub(super) idle: Lasting,
    /// A frame, or a head, has come in part.
    pub(super) partial: Lasting,
    /// The peer has ended its direction: there is nothing more to read, and it may wait for its responses.
    pub(super) input_ended: bool,
    /// The connection ends once the output has left.
    pub(super) is_closing: bool,
}

impl Session {
    /// A session for a connection of which `input` has the first bytes.
    pub(crate) fn new(input: Buffer, service: &Service) -> Self {
        service.counters.http2_connections.increment();
        let mut link = Http2::server(Arc::clone(&service.http2), precise(), input, service.take_output());
        link.engine.leave_refusals();
        Self {
            exchanges: Exchanges::new(link),
            timers: None,
            polled_at: None,
            idle: Lasting::No,
            partial: Lasting::No,
            input_ended: false,
            is_closing: false,
        }
    }

    /// Does all that can be done now. Returns how the session ended, or `Continue` if it waits.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<End> {
        let now = precise();
        self.polled_at = Some(now);
        self.exchanges.begin_poll(cx.waker(), env.service);
        let link = &mut self.exchanges.link;
        if self.idle != Lasting::No && link.input.is_none() && link.output.is_empty() {
            link.output = env.service.take_output();
        }
        if env.service.ending() != Ending::No {
            link.engine.shut_down(after(now, env.service.limits.http2_shutdown_grace), link.output.buffer());
        }
        loop {
            if self.is_closing {
                return if self.flush(cx, env)?.is_ready() { Break(End::Linger) } else { Continue(()) };
            }
            self.receive(now, env);
            if self.is_closing {
                continue;
            }
            self.exchanges.poll(now, env.service);
            let is_last = self.exchanges.link.engine.is_drained() || self.input_ended;
            if is_last && self.exchanges.streams.is_empty() {
                self.is_closing = true;
                continue;
            }
            let was_full = !self.exchanges.link.has_room();
            let flushed = self.flush(cx, env)?;
            if was_full && flushed.is_ready() {
                continue;
            }
            // Otherwise it reads although the peer takes nothing: the peer may be as full, and wait for us to read (RFC 9113
            // section 5.2.2).
            if self.exchanges.link.is_full() || self.input_ended {
                return Continue(());
            }
            match self.exchanges.link.poll_read(cx, env.connection) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => {
                    if self.is_idle() {
                        return Break(End::Close);
                    }
                    self.end_input();
                }
                Poll::Ready(Err(error)) => {
                    if !(self.exchanges.streams.is_empty() && is_cut(&error)) {
                        env.service.counters.wire_errors.increment();
                    }
                    self.exchanges.abandon(env.service);
                    return Break(End::Close);
                }
                Poll::Pending => {
                    if self.is_idle() {
                        self.go_idle(env.service);
                    }
                    return Continue(());
                }
            }
        }
    }

    /// Whether a request is under way, or may be: the peer has not acknowledged yet that there are to be no more.
    pub(crate) fn may_have_request(&self) -> bool {
        !self.is_closing || !self.exchanges.link.output.is_empty()
    }

    /// The peer has ended its direction. It gets its responses within
    /// [`Limits::half_close_timeout`](crate::Limits).
    #[cold]
    fn end_input(&mut self) {
        self.input_ended = true;
        self.partial = Lasting::No;
        self.exchanges.link.go_away();
        self.exchanges.end_input();
    }

    /// Between two requests, with nothing to send or to take.
    fn is_idle(&self) -> bool {
        let link = &self.exchanges.link;
        self.exchanges.streams.is_empty()
            && link.engine.is_idle()
            && link.output.is_empty()
            && !self.is_closing
            && link.unread() == 0
    }

    /// Begins to be idle, and frees what only a busy connection needs. Frames that ask for nothing do not renew this.
    fn go_idle(&mut self, service: &Service) {
        self.idle.begin();
        self.exchanges.link.input = None;
        service.put_output(std::mem::take(&mut self.exchanges.link.output));
        self.exchanges.go_idle();
        self.timers = None;
    }

    /// Takes all events that are there.
    fn receive(&mut self, now: Instant, env: &Env<'_>) {
        let service = env.service;
        let before = self.exchanges.link.unread();
        let was_within_head = self.exchanges.link.engine.is_within_head();
        let mut rounds = 0;
        while !self.exchanges.link.is_full() && !self.input_ended {
            rounds += 1;
            match self.exchanges.link.receive(now) {
                Ok(None) => {
                    let link = &self.exchanges.link;
                    let is_within_head = link.engine.is_within_head();
                    let is_whole =
                        rounds > 1 || link.unread() < before && !(was_within_head && is_within_head);
                    let has_part = is_within_head || link.unread() > 0;
                    if is_whole || !has_part {
                        self.partial = Lasting::No;
                    }
                    if has_part {
                        self.partial.begin();
                    }
                    return;
                }
                Ok(Some(Event::Request { id, head, length, end })) => {
                    self.idle = Lasting::No;
                    let peer = || Peer::of(env.connection);
                    self.exchanges.begin(id, head, length, end, peer, service);
                }
                Ok(Some(Event::Data { id, data, end })) => {
                    let (length, stream) = (data.len(), self.exchanges.streams.get_mut(&id));
                    let has_reader = stream.is_some_and(|stream| stream.received(data, end, now, service));
                    self.exchanges.received(id, length, has_reader);
                }
                Ok(Some(Event::Trailers { id, fields })) => self.exchanges.received_trailers(id, fields),
                Ok(Some(Event::Reset { id, code, by_peer, .. })) => {
                    self.exchanges.lose(id, code, by_peer, || env.connection.peer(), service);
                }
                Ok(Some(Event::Refused { id, limit, asks_head })) => {
                    self.idle = Lasting::No;
                    self.exchanges.refuse(id, &limit, asks_head, &env.connection.peer(), service);
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    self.fail(error, service);
                    return;
                }
            }
        }
        // A part of a frame waits for us now, not for the peer.
        self.partial = Lasting::No;
    }

    /// Ends the connection for a fault of the peer. The engine has written a `GOAWAY`.
    #[cold]
    pub(super) fn fail(&mut self, error: Error, service: &Service) {
        let counters = &service.counters;
        match error {
            Error::Excess { what: Abuse::Resets, .. } => &counters.reset_floods,
            Error::Excess { what: Abuse::IdleFrames, .. } => &counters.frame_floods,
            Error::Excess { what: Abuse::Continuations, .. } => &counters.continuation_floods,
            Error::Excess { .. } => &counters.header_bombs,
            Error::Silent { .. } => &counters.silent_peers,
            _ => &counters.bad_requests,
        }
        .increment();
        tracing::debug!(%error, "a connection is refused");
        self.exchanges.end_by(ExchangeEnd::PeerFault);
        self.exchanges.abandon(service);
        self.is_closing = true;
    }

    /// Writes as much of the output as the wire takes. Ready once all of it has left.
    fn flush(&mut self, cx: &mut Context<'_>, env: &mut Env<'_>) -> ControlFlow<End, Poll<()>> {
        let link = &mut self.exchanges.link;
        if link.output.is_empty() {
            return Continue(Poll::Ready(()));
        }
        let unsent = link.output.unsent();
        let flushed = link.poll_flush(cx, env.connection);
        if flushed.is_pending() {
            self.timers.get_or_insert_default();
        }
        if let Some(timers) = &mut self.timers {
            timers.wrote(unsent.saturating_sub(link.output.unsent()), &env.service.limits);
        }
        let taken = link.output.taken();
        self.exchanges.flushed(taken);
        match flushed {
            Poll::Ready(Ok(())) => Continue(Poll::Ready(())),
            Poll::Ready(Err(_)) => {
                self.exchanges.abandon(env.service);
                env.service.counters.wire_errors.increment();
                Break(End::Close)
            }
            Poll::Pending => Continue(Poll::Pending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside it an idle connection has the tables of HPACK, and what it has in every version.
    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 928, "{} bytes", size_of::<Session>());
    }
}
