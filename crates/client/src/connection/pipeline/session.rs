//! A connection of HTTP/1 that calls share: their requests leave in as few writes as possible, and one read brings many responses.
//!
//! Only requests that are there whole share it, so that no caller's code runs between their bytes. Any other call has the connection
//! to itself, as if nothing were shared. Until the first response has come, each call has.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_http::Buffer;
use anywire_loops::clock::precise;
use anywire_wire::{Output, Position};

use super::Pipelining;
use super::departures::Departures;
use super::line::Line;
use crate::Error;
use crate::call::job::{Job, Outcome};
use crate::connection::budget::poll_truly;
use crate::connection::download::Download;
use crate::connection::event::Event;
use crate::connection::h1::{self, Upload};
use crate::connection::io::Io;
use crate::connection::session::Life;
use crate::connection::turn::turn;
use crate::connection::watchdog::Watchdog;
use crate::contained::drop_caught;
use crate::pool::context::LoopContext;

/// HTTP/1 on a connection that calls share.
pub(crate) struct Session {
    depth: usize,
    pub(super) line: Line<Piped>,
    /// A call that has the connection to itself.
    unshared: h1::Session,
    pub(super) output: Output,
    pub(super) input: Option<Buffer>,
    /// Calls that have ended, of which the pool has yet to be told.
    pub(super) ended: VecDeque<Outcome>,
    departures: Arc<Departures>,
    departures_waker: Waker,
    /// The peer has answered by HTTP/1.1 and keeps the connection.
    pub(super) is_proven: bool,
    /// It has carried a call to its end.
    pub(super) used: bool,
    pub(super) life: Life,
    /// Why the wire takes nothing more. The peer may still have answered.
    pub(super) refused: Option<io::Error>,
    /// For how long the connection may wait for its next call, by the last response.
    pub(super) idle: Duration,
    /// The reader of the response that is due has to read first.
    pub(super) is_held_up: bool,
    /// Until when a response that is due is read though its caller has left, or several in a row.
    pub(super) drained_until: Option<Instant>,
    /// What the connection's timer is set to.
    pub(super) timer_at: Option<Instant>,
}

/// A call in the line.
pub(crate) struct Piped {
    pub(super) job: Job,
    pub(super) download: Download,
    pub(super) interim: usize,
    pub(super) watchdog: Watchdog,
    /// Its response is of HTTP/1.1.
    pub(super) proves: bool,
}

impl Session {
    pub(crate) fn new(pipelining: Pipelining, context: &LoopContext) -> Self {
        let departures = Arc::<Departures>::default();
        let limits = context.config().limits.head.into();
        Self {
            depth: pipelining.depth,
            line: Line::new(limits, pipelining.drain_bytes),
            unshared: h1::Session::new(limits),
            output: Output::new(),
            input: None,
            ended: VecDeque::new(),
            departures_waker: Arc::clone(&departures).into(),
            departures,
            is_proven: false,
            used: false,
            life: Life::Open,
            refused: None,
            idle: context.config().timeouts.idle,
            is_held_up: false,
            drained_until: None,
            timer_at: None,
        }
    }

    /// Calls that the connection can have at a time, the present ones included. 0 if it takes no more.
    pub(crate) fn capacity(&self) -> usize {
        match self.life {
            Life::Open if self.is_proven && self.unshared.calls() == 0 => self.depth,
            Life::Open => 1,
            Life::Closing | Life::Over => 0,
        }
    }

    /// Whether the peer has answered in a way that lets calls share the connection.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Calls on the connection. A call that has ended counts until the pool is told.
    pub(crate) fn calls(&self) -> usize {
        self.line.len() + self.unshared.calls() + self.ended.len()
    }

    /// Whether it can start a call now.
    pub(crate) fn may_start(&self, job: &Job) -> bool {
        self.unshared.calls() == 0 && (!job.needs_own_connection || self.line.is_empty())
    }

    /// Sets the task that carries it.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.departures.set_task(task);
    }

    /// Takes a call, and encodes its request.
    pub(crate) fn start(&mut self, mut job: Job, host: &str, context: &LoopContext) {
        if self.life > Life::Open {
            return self.ended.push_back(Outcome::Resubmit(job));
        }
        if job.needs_own_connection {
            if self.used {
                self.unshared.set_used();
            }
            return self.unshared.start(job, host, context);
        }
        let reply = job.reply.as_mut();
        let cx = &mut Context::from_waker(&self.departures_waker);
        if reply.is_none_or(|reply| poll_truly(cx, |cx| reply.poll_closed(cx)).is_ready()) {
            drop_caught(job);
            return self.ended.push_back(Outcome::Nothing);
        }
        if self.line.is_empty() && self.output.is_empty() {
            self.output = context.take_output();
        }
        let begins_at = self.output.end();
        if let Upload::Failed(source) = Upload::start(&mut job.request, host, &mut self.output) {
            // Nothing of it has left.
            let _ = self.output.truncate(begins_at);
            let (origin, sent) = (job.request.origin(), job.sent);
            return self.ended.push_back(job.into_failure(Error::RequestBody { origin, source, sent }));
        }
        if self.used {
            context.cells.reused.add(1);
        }
        if !self.line.is_empty() {
            context.cells.pipelined.add(1);
        }
        let method = job.request.method.clone();
        let (download, watchdog) = (Download::Awaited, Watchdog::new(&job.request));
        let piped = Piped { job, download, interim: 0, watchdog, proves: false };
        self.line.push(piped, &method, begins_at, self.output.end());
    }

    /// Does all that can be done now. Ready with the end of one of its calls, or with slots where there were none; pending if it
    /// waits. `cut` ends its calls.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        context: &LoopContext,
        cut: bool,
    ) -> Poll<Event> {
        if self.unshared.calls() > 0 {
            let polled = self.unshared.poll(cx, io, context, cut);
            self.used |= polled.is_ready();
            return polled;
        }
        if cut {
            self.cut();
        }
        if let Some(event) = self.next_event() {
            return Poll::Ready(event);
        }
        if self.line.is_empty() {
            let polled = io.poll_idle(cx, context);
            if polled.is_pending() {
                self.free_memory(context);
            }
            return polled;
        }
        io.polled_at = precise();
        if self.departures.take() {
            self.part_with_departed();
        }
        self.life.end_in_time(io, context);
        let waits = turn(self, cx, io, context);
        if let Some(event) = self.next_event() {
            return Poll::Ready(event);
        }
        if !waits {
            cx.waker().wake_by_ref();
        }
        self.watch(precise(), io, context);
        Poll::Pending
    }

    /// What the pool is to be told.
    fn next_event(&mut self) -> Option<Event> {
        let is_over = self.life == Life::Over;
        match self.ended.pop_front() {
            // Its place is free before the last of its calls is told, who may need one.
            Some(outcome) if is_over && self.ended.is_empty() => Some(Event::Over(outcome)),
            Some(outcome) => Some(Event::Open(outcome)),
            None if is_over => Some(Event::Over(Outcome::Nothing)),
            None => None,
        }
    }

    /// Frees what only a busy connection needs.
    fn free_memory(&mut self, context: &LoopContext) {
        self.line.shrink_to(PLACES_KEPT);
        self.ended.shrink_to(PLACES_KEPT);
        if self.output.is_empty() {
            context.keep_output(std::mem::take(&mut self.output));
        }
    }

    /// How far the wire has taken the requests.
    pub(super) fn taken(&self) -> Position {
        self.output.taken()
    }

    /// Whether an idle connection can be given a call.
    pub(crate) fn is_alive(&self, cx: &mut Context<'_>, io: &mut Io) -> bool {
        self.life == Life::Open && poll_truly(cx, |cx| io.poll_broken(cx)).is_pending()
    }

    /// Drops its calls. A panic of theirs ends here.
    pub(crate) fn drop_calls(mut self) {
        let rest = self.line.take_rest(self.output.taken());
        rest.into_iter().for_each(drop_caught);
        self.ended.into_iter().for_each(drop_caught);
        drop_caught(self.unshared);
    }
}

/// Calls for which an idle connection keeps memory.
const PLACES_KEPT: usize = 2;
