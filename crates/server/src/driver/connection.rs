//! One connection, as one task of its loop: idle without a buffer, driven by the [`Session`] of a protocol, or out of
//! HTTP.

use std::future::Future;
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_http::Buffer;
use anywire_loops::clock::precise;
use anywire_loops::deadline::Deadline;
use anywire_mux::Upgraded;
use anywire_sys::send_queue::unsent_bytes;
use anywire_wire::Connection;
use bytes::Bytes;

use crate::context::Peer;
use crate::driver::h1::{Exit, Session};
use crate::driver::h2;
use crate::router::EndpointId;
use crate::service::{Ending, Service};
use crate::upgrade::{Continuation, UpgradeFuture};

/// The task of one connection. It is written by hand rather than as an `async fn` to keep idle connections small: buffers,
/// decoder and handler live in a [`Session`], which an idle connection does not have.
pub(crate) struct ConnectionTask {
    service: Rc<Service>,
    /// Where the service finds this task's waker. Registered at the first poll.
    key: Option<usize>,
    state: State,
}

enum State {
    Http(Http),
    /// The handler's continuation has the connection.
    Upgraded(UpgradeFuture, Option<EndpointId>),
    Closed,
}

impl ConnectionTask {
    pub(crate) fn new(connection: Connection, service: Rc<Service>) -> Self {
        let deadline = Deadline::new();
        deadline.set(service.limits.head_timeout);
        let driver = match agreed_protocol(&connection) {
            Some("h2") => Driver::H2(Box::new(h2::Session::new(Buffer::new(), &service))),
            _ => Driver::Idle,
        };
        let http = Http {
            connection,
            deadline,
            fresh: true,
            is_draining: false,
            at_start: true,
            peer: None,
            driver,
        };
        Self { service, key: None, state: State::Http(http) }
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.key.is_none() {
            this.key = Some(this.service.register(cx.waker().clone()));
        }
        // In each state: a connection that has left HTTP would otherwise keep all routes that come from then on.
        if this.service.is_replaced() {
            this.service = this.service.newest();
        }
        if let State::Http(http) = &mut this.state {
            let Some((continuation, endpoint, received)) = ready!(http.poll(&this.service, cx)) else {
                this.close();
                return Poll::Ready(());
            };
            if let State::Http(http) = std::mem::replace(&mut this.state, State::Closed) {
                this.service.counters.upgrades.increment();
                this.state =
                    State::Upgraded(continuation.run(Upgraded::new(http.connection, received)), endpoint);
            }
        }
        this.poll_upgraded(cx)
    }
}

impl ConnectionTask {
    /// The connection is over.
    fn close(&mut self) {
        if let State::Http(http) = std::mem::replace(&mut self.state, State::Closed) {
            http.drop_contained(&self.service);
        }
    }

    #[cold]
    fn poll_upgraded(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Upgraded(running, endpoint) = &mut self.state else { return Poll::Ready(()) };
        if self.service.ending() == Ending::Cut {
            self.service.count_cut();
            return Poll::Ready(());
        }
        let dispatch = &self.service.dispatch;
        dispatch.begins(*endpoint);
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
        dispatch.ends();
        polled.unwrap_or_else(|panic| {
            dispatch.note_panic(*endpoint, panic);
            Poll::Ready(())
        })
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Http(http) => {
                // The loop ends before the connection.
                self.service.dispatch.observers().cut();
                http.drop_contained(&self.service);
            }
            State::Upgraded(running, endpoint) => {
                self.service.dispatch.drop_contained(endpoint, running);
            }
            State::Closed => {}
        }
        if let Some(key) = self.key {
            self.service.deregister(key);
        }
    }
}

/// The connection and its loop, as a session is polled with them.
pub(crate) struct Env<'t> {
    pub(crate) connection: &'t mut Connection,
    pub(crate) service: &'t Service,
    pub(crate) peer: &'t mut Option<Arc<Peer>>,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In order: what was written reaches the peer.
    Close,
    /// As `Close`, though the peer may still send. A close with unread bytes in the socket would be a reset, which can overtake
    /// the last response (RFC 9112 section 9.6). So our direction ends, and the rest is discarded until the peer closes, too.
    Linger,
    /// Broken, or cut: reset.
    Abort,
}

/// A connection that speaks HTTP.
struct Http {
    connection: Connection,
    deadline: Deadline,
    /// The first head is not complete. Its deadline runs from accept.
    fresh: bool,
    /// Nothing has come, or what may be the preface of HTTP/2. That is taken as the first bytes of a connection alone.
    at_start: bool,
    /// The server shuts down, and the deadline of a connection without a request is that of the end.
    is_draining: bool,
    /// While no request has it. Made for the first one.
    peer: Option<Arc<Peer>>,
    driver: Driver,
}

/// What drives a connection. The handshake has agreed on it (ALPN), or it is chosen by the first bytes of a connection: a
/// client of HTTP/2 sends its preface first.
enum Driver {
    /// Nothing: between two requests of HTTP/1.
    Idle,
    H1(Box<Session>),
    /// Idle ones too, because both ends remember what was sent.
    H2(Box<h2::Session>),
    /// Nothing more: the connection ends.
    Lingering {
        /// Our direction has ended. Input is discarded until the peer closes.
        has_half_closed: bool,
    },
}

/// How a connection leaves HTTP: it is closed, or a continuation takes over, of this endpoint and with these bytes.
type Left = Option<(Continuation, Option<EndpointId>, Bytes)>;

impl Http {
    /// Drops it with what handlers have left in it.
    fn drop_contained(self, service: &Service) {
        match self.driver {
            Driver::Idle | Driver::Lingering { .. } => {}
            Driver::H1(mut session) => session.drop_stage(service),
            Driver::H2(mut session) => session.exchanges.drop_streams(service),
        }
    }

    fn poll(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<Left> {
        match service.ending() {
            Ending::No => {}
            Ending::Draining => self.drain(service),
            Ending::Cut => {
                self.cut(service);
                return Poll::Ready(None);
            }
        }
        match &mut self.driver {
            Driver::Idle | Driver::Lingering { .. } => {}
            Driver::H1(session) => session.time_passes(precise()),
            Driver::H2(session) => session.time_passes(),
        }
        if self.deadline.poll_expired(cx).is_ready() {
            self.deadline.clear();
            if self.expire(service, cx).is_ready() {
                return Poll::Ready(None);
            }
        }
        self.run(service, cx)
    }

    /// Runs until there is nothing to do (`Pending`), or the connection leaves HTTP (`Ready`).
    fn run(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<Left> {
        let mut session = match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::H1(busy) => busy,
            Driver::H2(session) => return self.run_h2(session, service, cx),
            Driver::Lingering { has_half_closed } => return self.linger(has_half_closed, cx).map(|()| None),
            Driver::Idle => {
                let free = service.take_session();
                let Some(woken) = ready!(self.wake_up(service, cx, free)) else { return Poll::Ready(None) };
                woken
            }
        };
        loop {
            let mut env = Env { connection: &mut self.connection, service, peer: &mut self.peer };
            let exit = match session.poll(cx, &mut env) {
                Break(exit) => exit,
                Continue(()) => match self.wait(service, &mut session) {
                    Continue(false) => {
                        self.driver = Driver::H1(session);
                        return Poll::Pending;
                    }
                    Continue(true) => continue,
                    Break(end) => Exit::Over(end),
                },
            };
            match exit {
                Exit::Idle | Exit::BlankLines => {
                    self.at_start = false;
                    if exit == Exit::Idle {
                        self.fresh = false;
                        self.go_idle(service);
                    }
                    // Most often nothing has come meanwhile, and then no buffer is made ready to be read into.
                    if self.connection.poll_readable(cx).is_pending() {
                        service.put_session(session);
                        return Poll::Pending;
                    }
                    let Some(woken) = ready!(self.wake_up(service, cx, session)) else {
                        return Poll::Ready(None);
                    };
                    session = woken;
                }
                Exit::Over(end) => return self.end(end, Driver::H1(session), service, cx),
                Exit::Upgrade => return Poll::Ready(session.into_upgrade()),
                Exit::Http2 if !self.at_start => session.refuse_preface(&self.connection, service),
                Exit::Http2 => {
                    let session = Box::new(h2::Session::new(session.into_input(), service));
                    return self.run_h2(session, service, cx);
                }
            }
        }
    }

    /// As [`run`](Self::run), of a connection that speaks HTTP/2.
    fn run_h2(
        &mut self,
        mut session: Box<h2::Session>,
        service: &Service,
        cx: &mut Context<'_>,
    ) -> Poll<Left> {
        self.fresh = false;
        let end = loop {
            let mut env = Env { connection: &mut self.connection, service, peer: &mut self.peer };
            if let Break(end) = session.poll(cx, &mut env) {
                break end;
            }
            let now = precise();
            let first_deadline = session.wait(now, service);
            let acted = match first_deadline {
                Some(Duration::ZERO) => session.expire(&self.connection, service),
                // Nothing is late.
                _ => Continue(false),
            };
            match acted {
                Break(end) => break end,
                Continue(true) => {}
                Continue(false) => {
                    match first_deadline {
                        Some(after) => self.deadline.set_from(now, after),
                        None => self.deadline.clear(),
                    }
                    self.driver = Driver::H2(session);
                    return Poll::Pending;
                }
            }
        };
        self.end(end, Driver::H2(session), service, cx)
    }

    /// The session of a protocol has ended.
    fn end(&mut self, end: End, driver: Driver, service: &Service, cx: &mut Context<'_>) -> Poll<Left> {
        self.driver = driver;
        if end == End::Linger {
            self.deadline.set(service.limits.linger_timeout);
            return self.linger(false, cx).map(|()| None);
        }
        if end == End::Abort {
            self.connection.abort();
        }
        Poll::Ready(None)
    }

    /// Sets the timer for what the session waits for. Returns true if a deadline has passed, and the session is to
    /// be polled again to act on it.
    // Out of line: most requests are answered without waiting, and `run` is shorter without it.
    #[inline(never)]
    fn wait(&mut self, service: &Service, session: &mut Session) -> ControlFlow<End, bool> {
        let now = precise();
        let first_deadline = session.wait(now, service);
        self.fresh &= session.waits_for_first_head();
        if self.fresh {
            return Continue(false);
        }
        // Checked at each poll, not only when the timer fires: a peer that keeps waking the connection keeps moving the
        // timer. Checked after the session was polled, so that bytes which arrived in
        // time count even if the loop was blocked.
        if session.expire(&self.connection, &mut self.peer, service)? {
            return Continue(true);
        }
        match first_deadline {
            Some(after) => self.deadline.set_from(now, after),
            None => self.deadline.clear(),
        }
        Continue(false)
    }

    /// Returns a session with the first bytes of the next request, or none if the connection is over. While there are no
    /// bytes the session is back in the free list, so that waiting takes no buffer.
    fn wake_up(
        &mut self,
        service: &Service,
        cx: &mut Context<'_>,
        mut session: Box<Session>,
    ) -> Poll<Option<Box<Session>>> {
        match session.fill(cx, &mut self.connection) {
            Poll::Ready(Ok(0)) => Poll::Ready(None),
            Poll::Ready(Ok(_)) => {
                if self.at_start {
                    self.at_start = !session.begins_with_blank_line();
                }
                Poll::Ready(Some(session))
            }
            Poll::Ready(Err(error)) => {
                if !is_cut(&error) {
                    service.counters.wire_errors.increment();
                }
                Poll::Ready(None)
            }
            Poll::Pending => {
                service.put_session(session);
                Poll::Pending
            }
        }
    }

    /// Handles the timer of an idle connection and of one whose first head is late. `Ready`: the connection is over.
    #[cold]
    fn expire(&mut self, service: &Service, cx: &mut Context<'_>) -> Poll<()> {
        let counters = &service.counters;
        match &mut self.driver {
            Driver::H1(session) if self.fresh => {
                self.fresh = false;
                session.refuse_late_head(&self.connection, service);
                Poll::Pending
            }
            // A busy connection checks its deadlines once its session was polled.
            Driver::H1(_) | Driver::H2(_) => Poll::Pending,
            Driver::Lingering { .. } => {
                counters.linger_timeouts.increment();
                Poll::Ready(())
            }
            Driver::Idle => {
                // What has arrived is served, though the loop was busy until now. Empty lines renew no deadline.
                match self.wake_up(service, cx, service.take_session()) {
                    Poll::Ready(Some(session)) if !session.begins_with_blank_line() => {
                        self.fresh = false;
                        self.driver = Driver::H1(session);
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Ready(Some(_)) | Poll::Pending => {
                        if !self.is_draining {
                            if self.fresh { &counters.head_timeouts } else { &counters.idle_timeouts }
                                .increment();
                        }
                        self.deadline.set(service.limits.linger_timeout);
                        self.driver = Driver::Lingering { has_half_closed: false };
                    }
                }
                Poll::Pending
            }
        }
    }

    /// Begins to be idle.
    #[inline]
    fn go_idle(&self, service: &Service) {
        let limits = &service.limits;
        let is_ending = service.ending() != Ending::No;
        self.deadline.set(if is_ending { limits.shutdown_grace } else { limits.idle_timeout });
    }

    /// The server shuts down. A request that has arrived, or is on its way, is answered.
    #[cold]
    fn drain(&mut self, service: &Service) {
        if !std::mem::replace(&mut self.is_draining, true) && matches!(self.driver, Driver::Idle) {
            // The deadline is no longer that of the first head. If one begins, it has its time from then on, as any other.
            self.fresh = false;
            self.go_idle(service);
        }
    }

    /// The deadline of a shutdown has passed.
    #[cold]
    fn cut(&mut self, service: &Service) {
        let is_busy = match &self.driver {
            Driver::Idle | Driver::Lingering { .. } => false,
            Driver::H1(session) => session.has_request(),
            Driver::H2(session) => session.may_have_request(),
        };
        if is_busy {
            service.count_cut();
        }
        self.connection.abort();
    }

    /// Ends a connection without a request: half-close, then read until the peer closes, too, because a request may cross with
    /// that [end](End::Linger). It takes no buffer, because all idle connections may end at the same time.
    #[cold]
    fn linger(&mut self, mut has_half_closed: bool, cx: &mut Context<'_>) -> Poll<()> {
        if !has_half_closed {
            match self.connection.poll_half_close(cx) {
                Poll::Ready(Ok(())) => has_half_closed = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        self.driver = Driver::Lingering { has_half_closed };
        if has_half_closed {
            while let 1.. = ready!(self.connection.poll_read(cx, &mut [0; 1024])).unwrap_or(0) {}
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// The protocol that the handshake agreed on (ALPN, RFC 7301). Without one the first bytes tell.
pub(crate) fn agreed_protocol(connection: &Connection) -> Option<&str> {
    connection.negotiated()?.protocol.as_deref()
}

/// How much of what was written to a connection is still on its way, if the wire knows. A wire without a descriptor has no queue
/// behind it: the peer can read all that was written.
pub(crate) fn unsent(connection: &Connection) -> Option<u64> {
    connection.as_fd().and_then(|socket| unsent_bytes(socket).ok())
}

/// Whether TLS has ended without its `close_notify`. Between two requests nothing is lost by that, and many clients leave so;
/// within a request it is an error, because the rest of a body may be missing.
pub(crate) fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}
