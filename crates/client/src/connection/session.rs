//! The protocol of a connection, which is chosen when it is made. Another protocol is another variant.

use std::task::{Context, Poll, Waker};

use anywire_wire::Connection;

use crate::call::job::{Job, Outcome};
use crate::connection::budget::poll_truly;
use crate::connection::event::Event;
use crate::connection::io::Io;
use crate::connection::pipeline::{self, Pipelining};
use crate::connection::{h1, h2};
use crate::contained::drop_caught;
use crate::pool::context::LoopContext;

/// The protocol that a connection speaks, and the calls that it carries.
pub(crate) enum Session {
    H1(h1::Session),
    H2(Box<h2::Session>),
    /// HTTP/1, whose calls share the connection.
    Piped(Box<pipeline::Session>),
    /// The connection is closed.
    Closed,
}

/// How far a connection that calls share is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    Open,
    /// It takes no more calls, and ends when those that it has are over.
    Closing,
    Over,
}

impl Life {
    /// The connection takes no more calls from the end of its lifetime on.
    pub(crate) fn end_in_time(&mut self, io: &Io, context: &LoopContext) {
        if *self == Self::Open && io.until <= io.polled_at {
            *self = Self::Closing;
            context.cells.lifetimes_ended.add(1);
        }
    }
}

impl Session {
    /// For a new connection.
    pub(crate) fn new(wire: &Connection, pipelining: Option<Pipelining>, context: &LoopContext) -> Self {
        let config = context.config();
        match pipelining {
            _ if config.speaks_http2(wire) => Self::H2(Box::new(h2::Session::new(context))),
            Some(pipelining) => Self::Piped(Box::new(pipeline::Session::new(pipelining, context))),
            None => Self::H1(h1::Session::new(config.limits.head.into())),
        }
    }

    /// Calls that the connection can have at a time, the present ones included. 0 if it takes no more.
    pub(crate) fn capacity(&self, context: &LoopContext) -> usize {
        match self {
            Self::H1(_) => 1,
            Self::H2(session) => session.capacity(context),
            Self::Piped(session) => session.capacity(),
            Self::Closed => 0,
        }
    }

    /// Calls on the connection. A call that has ended counts until the pool is told.
    pub(crate) fn calls(&self) -> usize {
        match self {
            Self::H1(session) => session.calls(),
            Self::H2(session) => session.calls(),
            Self::Piped(session) => session.calls(),
            Self::Closed => 0,
        }
    }

    /// Whether a call begins in the poll of its caller. Otherwise the connection's task takes it with its next turn, so that
    /// the requests of many callers leave in one write.
    pub(crate) fn begins_at_once(&self) -> bool {
        matches!(self, Self::H1(_))
    }

    /// Whether it can start a call now.
    pub(crate) fn may_start(&self, job: &Job) -> bool {
        match self {
            Self::Piped(session) => session.may_start(job),
            Self::H1(_) | Self::H2(_) | Self::Closed => true,
        }
    }

    /// Takes a call.
    pub(crate) fn start(&mut self, mut job: Job, host: &str, io: &mut Io, context: &LoopContext) {
        io.calls += 1;
        if let Some((seen, wire)) = job.seen().zip(io.wire.as_ref()) {
            seen.acquired(io.id, wire, matches!(self, Self::H2(_)));
        }
        match self {
            Self::H1(session) => session.start(job, host, context),
            Self::H2(session) => session.start(job, host, context),
            Self::Piped(session) => session.start(job, host, context),
            Self::Closed => drop_caught(job),
        }
    }

    /// Sends what the wire takes at once of a call that was just taken. `false` if the connection's task has to run.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        match self {
            Self::H1(session) => session.begin(cx, io, context),
            Self::H2(_) | Self::Piped(_) | Self::Closed => false,
        }
    }

    /// Sets the task that carries it.
    pub(crate) fn set_task(&self, task: &Waker) {
        match self {
            Self::H2(session) => session.set_task(task),
            Self::Piped(session) => session.set_task(task),
            Self::H1(_) | Self::Closed => {}
        }
    }

    /// Carries the calls on as far as they go. `cut` ends them.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        context: &LoopContext,
        cut: bool,
    ) -> Poll<Event> {
        match self {
            Self::H1(session) => session.poll(cx, io, context, cut),
            Self::H2(session) => session.poll(cx, io, context, cut),
            Self::Piped(session) => session.poll(cx, io, context, cut),
            Self::Closed => Poll::Ready(Event::Over(Outcome::Nothing)),
        }
    }

    /// Whether an idle connection can be given a call.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        match self {
            Self::H1(_) => poll_truly(cx, |cx| io.poll_broken(cx)).is_pending(),
            Self::H2(session) => session.is_alive(cx, io, context),
            Self::Piped(session) => session.is_alive(cx, io),
            Self::Closed => false,
        }
    }

    /// Tells the peer that an idle connection ends, where the protocol has words for that.
    pub(crate) fn go_away(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) {
        if let Self::H2(session) = self {
            session.go_away(cx, io, context);
        }
    }

    /// Drops its calls. A caller's body, or its error, may be dropped with them: a panic of theirs ends here.
    pub(crate) fn drop_calls(self) {
        match self {
            Self::H1(session) => drop_caught(session),
            Self::H2(mut session) => session.take().into_iter().for_each(drop_caught),
            Self::Piped(session) => session.drop_calls(),
            Self::Closed => {}
        }
    }
}
