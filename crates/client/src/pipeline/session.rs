//! A connection of HTTP/1 that calls share: their requests leave in as few writes as possible, and one read brings many responses.
//!
//! Only requests that are there whole share it, so that no caller's code runs between their bytes. Any other call has the connection
//! to itself, as if nothing were shared. Until the first response has come, each call has.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_http::{Buffer, StatusCode, Version};
use anywire_loops::clock::{self, precise};
use anywire_wire::{Connection, Output, Position};
use tokio::sync::oneshot;

use super::Pipelining;
use super::departures::Departures;
use super::line::{Broken, Line, Part, Stands};
use crate::Error;
use crate::budget::poll_truly;
use crate::context::LoopContext;
use crate::download::{Download, Pieces};
use crate::h1::{self, Upload, is_tls_alert};
use crate::io::Io;
use crate::job::{Event, Job, Outcome, drop_caught};
use crate::session::Life;
use crate::watchdog::{WaitsFor, Watchdog};

/// HTTP/1 on a connection that calls share.
pub(crate) struct Session {
    depth: usize,
    pub(super) line: Line<Piped>,
    /// A call that shares it with none.
    alone: h1::Session,
    pub(super) output: Output,
    input: Option<Buffer>,
    /// Calls that have ended, of which the pool has yet to be told.
    pub(super) ended: VecDeque<Outcome>,
    departures: Arc<Departures>,
    departures_waker: Waker,
    /// The peer has answered by HTTP/1.1 and keeps the connection.
    is_proven: bool,
    /// It has carried a call to its end.
    pub(super) used: bool,
    pub(super) life: Life,
    /// Why the wire takes nothing more. The peer may still have answered.
    pub(super) refused: Option<io::Error>,
    /// For how long the connection may wait for its next call, by the last response.
    idle: Duration,
    /// The reader of the response that is due has to read first.
    is_held_up: bool,
    /// Until when a response that is due is read though its caller has left, or several in a row.
    drained_until: Option<Instant>,
    /// What the connection's timer is set to.
    pub(super) timer_at: Option<Instant>,
}

/// A call in the line.
pub(crate) struct Piped {
    pub(super) job: Job,
    pub(super) download: Download,
    interim: usize,
    pub(super) watchdog: Watchdog,
    /// Its response is of HTTP/1.1.
    proves: bool,
}

impl Session {
    pub(crate) fn new(pipelining: Pipelining, context: &LoopContext) -> Self {
        let departures = Arc::<Departures>::default();
        let limits = context.config().limits.head.into();
        Self {
            depth: pipelining.depth,
            line: Line::new(limits, pipelining.drain_bytes),
            alone: h1::Session::new(limits),
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
            Life::Open if self.is_proven && self.alone.calls() == 0 => self.depth,
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
        self.line.len() + self.alone.calls() + self.ended.len()
    }

    /// Whether it can start a call now.
    pub(crate) fn may_start(&self, job: &Job) -> bool {
        self.alone.calls() == 0 && (!job.is_alone || self.line.is_empty())
    }

    /// Sets the task that carries it.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.departures.set_task(task);
    }

    /// Takes a call, and encodes its request.
    pub(crate) fn start(&mut self, mut job: Job, host: &str, context: &LoopContext) {
        if self.life > Life::Open {
            return self.ended.push_back(Outcome::Again(job));
        }
        if job.is_alone {
            if self.used {
                self.alone.set_used();
            }
            return self.alone.start(job, host, context);
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
        let (download, watchdog) = (Download::Awaited, Watchdog::new());
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
        if self.alone.calls() > 0 {
            let polled = self.alone.poll(cx, io, context, cut);
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
        let now = precise();
        io.polled_at = now;
        if self.departures.take() {
            self.part_with_departed();
        }
        if now >= io.until && self.life == Life::Open {
            self.life = Life::Closing;
            context.cells.lifetimes_ended.add(1);
        }
        let has_expired = io.timer.poll_expired(cx).is_ready() || self.timer_at.is_some_and(|at| at <= now);
        if has_expired {
            // What is read below has come too late for these, whatever the timer did.
            self.end_overdue(now, Watchdog::overdue_in_all, context);
        }
        let mut waits = self.carry_on(cx, io, context);
        if has_expired && self.life < Life::Over && !self.line.is_empty() {
            // Behind the reading: it is no silence of the peer that the loop was blocked.
            self.timer_at = None;
            self.watch(precise(), io, context);
            match self.drained_until.is_some_and(|until| until <= now) {
                true => self.broken(Broken::Undrained, context),
                false => self.end_overdue(now, Watchdog::overdue, context),
            }
            waits = self.carry_on(cx, io, context);
        }
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

    /// Reads and writes until nothing more goes, or a call has ended. Returns whether it waits for the wire, or for a reader.
    fn carry_on(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        for _ in 0..READS_IN_A_ROW_MAX {
            self.receive(cx, context);
            self.rest_if_empty(io, context);
            if !self.ended.is_empty() || self.life == Life::Over || self.line.is_empty() {
                return true;
            }
            let Some(wire) = &mut io.wire else { return true };
            self.flush(cx, wire, context);
            if self.is_held_up || !self.poll_wanted(cx) {
                return true;
            }
            let input = self.input.get_or_insert_with(|| {
                Buffer::with_limit(context.config().limits.head.bytes.saturating_mul(2))
            });
            match wire.poll_read(cx, input.spare()) {
                Poll::Pending => {
                    self.input.take_if(|input| input.is_empty());
                    return true;
                }
                Poll::Ready(Ok(count @ 1..)) => {
                    input.filled(count);
                    context.received(count);
                    // Of a forwarded call counts what is decoded of it: nothing else would end one whose head comes byte by byte.
                    self.peer_gave(|job| !job.request.options.is_forwarded);
                }
                Poll::Ready(ended) => {
                    self.closed(cx, ended.err(), context);
                    return true;
                }
            }
        }
        false
    }

    /// Whether the reader of the response that is due asks for more than was read.
    fn poll_wanted(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.line.due() else { return true };
        match due.download.poll_wanted(cx) {
            Poll::Pending => {
                self.is_held_up = true;
                false
            }
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(())) => {
                self.leave(0);
                self.close_if_unwanted();
                // Another turn, without waiting for the wire.
                cx.waker().wake_by_ref();
                false
            }
        }
    }

    /// The peer has answered, which is no silence for these calls.
    fn peer_gave(&mut self, counts: fn(&Job) -> bool) {
        let calls = self.line.iter_mut().map(|stands| stands.call);
        calls.filter(|call| counts(&call.job)).for_each(|call| call.watchdog.peer_gave());
    }

    /// Takes the responses out of the input, as far as they are there and have readers with room.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, context: &LoopContext) {
        let (limits, taken, before) = (&context.config().limits, self.output.taken(), self.line.len());
        let ended = self.ended.len();
        let mut has_come = false;
        self.is_held_up = false;
        while let Some(input) = &mut self.input {
            if let Some(due) = self.line.due() {
                // Without input there may still be the end, which needs no room.
                let room = if input.is_empty() { Poll::Ready(Ok(())) } else { due.download.poll_room(cx) };
                match room {
                    Poll::Ready(Ok(())) => {}
                    Poll::Pending => {
                        self.is_held_up = true;
                        return;
                    }
                    Poll::Ready(Err(())) => {
                        self.leave(0);
                        continue;
                    }
                }
                if !self.used && due.download.is_awaited() && is_tls_alert(input.data()) {
                    let error = Error::SpeaksTls { origin: due.job.request.origin() };
                    return self.break_off(error, context);
                }
            }
            let part = self.line.next(input, taken);
            has_come |= matches!(part, Ok(Some(_)));
            match part {
                Ok(None) => break,
                Ok(Some(Part::Interim(call, head))) => {
                    call.interim += 1;
                    if call.interim > limits.interim_responses {
                        context.cells.too_many_interim.add(1);
                        let (origin, count) = (call.job.request.origin(), call.interim);
                        return self.break_off(Error::Interim { origin, count }, context);
                    }
                    if let Some(seen) = call.job.seen() {
                        seen.first_byte();
                    }
                    call.job.informed(&head);
                }
                Ok(Some(Part::Head(call, head, _))) if head.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    if let Some(seen) = call.job.seen() {
                        seen.head(&head);
                    }
                    let error = Error::Switched { origin: call.job.request.origin() };
                    return self.break_off(error, context);
                }
                Ok(Some(Part::Head(call, head, info))) => {
                    if let Some(seen) = call.job.seen() {
                        seen.first_byte();
                        seen.head(&head);
                    }
                    let reuse = h1::may_reuse(&head, &call.job.request, context);
                    call.proves = info.keep_alive && head.version() == Version::HTTP_11;
                    if reuse.is_none() {
                        self.life = self.life.max(Life::Closing);
                    }
                    self.idle = reuse.unwrap_or_default();
                    let length = info.framing.length();
                    call.download = Download::Here { head, length, body: Pieces::default(), trailers: None };
                }
                Ok(Some(Part::Data(call, data))) => {
                    if let Some(seen) = call.job.seen() {
                        seen.received(data.len());
                    }
                    call.download.data(data);
                }
                Ok(Some(Part::Trailers(call, fields))) => call.download.trailers(fields),
                Ok(Some(Part::Whole(call))) => {
                    self.used = true;
                    self.is_proven |= call.proves;
                    self.ended.push_back(call.download.finish(call.job, limits));
                }
                Err(broken) => return self.broken(broken, context),
            }
        }
        if self.line.is_over() {
            // The peer acts on none of the requests behind (RFC 9112 section 9.6).
            return self.displace_all(context);
        }
        if let Some(due) = self.line.due()
            && due.download.hand_out(&mut due.job, None, limits).is_err()
        {
            self.leave(0);
        }
        self.close_if_unwanted();
        if has_come || self.line.len() < before {
            self.peer_gave(|job| job.request.options.is_forwarded);
        }
        if self.line.len() < before && self.ended.len() == ended {
            // There are slots, though no call has ended.
            self.ended.push_back(Outcome::Nothing);
        }
    }

    /// If nothing is left to do, the connection is idle from here, or over.
    fn rest_if_empty(&mut self, io: &Io, context: &LoopContext) {
        if !self.line.is_empty() || self.life == Life::Over {
            return;
        }
        self.timer_at = None;
        let is_clean = self.input.take().is_none_or(|input| input.is_empty()) && self.output.is_empty();
        if self.life == Life::Closing || !is_clean || !io.rest(self.idle, context) {
            self.life = Life::Over;
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

    /// Writes as much of the output as the wire takes.
    fn flush(&mut self, cx: &mut Context<'_>, wire: &mut Connection, context: &LoopContext) {
        if self.output.is_empty() {
            return;
        }
        let (before, unsent) = (self.output.taken(), self.output.unsent());
        let waiting = self.output.len();
        let flushed = self.output.poll_flush(cx, wire);
        context.sent(waiting - self.output.len());
        let taken = self.output.taken();
        if taken > before || self.output.unsent() < unsent {
            for stands in self.line.iter_mut().filter(|stands| stands.ends_at > before) {
                stands.call.job.sent |= taken > stands.begins_at;
                stands.call.watchdog.peer_took();
                if taken >= stands.ends_at
                    && let Some(seen) = stands.call.job.seen()
                {
                    seen.written();
                }
            }
        }
        if let Poll::Ready(Err(error)) = flushed {
            self.refused = Some(error);
            self.life = self.life.max(Life::Closing);
            self.output.clear();
        }
    }

    /// Sets what each call waits for, and until when.
    fn watch(&mut self, now: Instant, io: &Io, context: &LoopContext) {
        let (taken, is_refused, is_held_up) = (self.output.taken(), self.refused.is_some(), self.is_held_up);
        let mut next: Option<Instant> = None;
        for stands in self.line.iter_mut() {
            let is_unsent = stands.ends_at > taken && !is_refused;
            let Piped { job, download, watchdog, .. } = stands.call;
            let waits_for = match stands.at {
                0 => WaitsFor::of(is_unsent && !is_held_up, download, false),
                // The peer may write no more, and so read no more.
                _ if is_held_up => WaitsFor::OthersTake,
                _ => WaitsFor::of(is_unsent, download, false),
            };
            watchdog.watch(now, waits_for, download, job, context);
            next = next.into_iter().chain(watchdog.until()).min();
        }
        self.drained_until = match self.line.is_drained() {
            true => self.drained_until.or(Some(clock::after(now, context.config().timeouts.drain))),
            false => None,
        };
        next = next.into_iter().chain(self.drained_until).min();
        if let Some(next) = next
            && self.timer_at.is_none_or(|at| next < at)
        {
            self.timer_at = Some(next);
            io.timer.set_at(next);
        }
    }

    /// Takes out the calls whose callers have left before the head of their response.
    fn part_with_departed(&mut self) {
        let is_gone = |stands: &Stands<'_, Piped>| {
            stands.call.job.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
        };
        let gone: Vec<_> = self.line.iter_mut().filter(is_gone).map(|stands| stands.at).collect();
        gone.into_iter().for_each(|at| self.leave(at));
        self.forget_unsent();
        self.close_if_unwanted();
    }

    /// Takes out a call whose caller has left.
    fn leave(&mut self, at: usize) {
        let Some(call) = self.line.leave(at) else { return };
        if at == 0 && call.download.is_not_worth_draining() {
            self.drained_until = Some(precise());
        }
        drop_caught(call);
    }

    /// Drops abandoned requests that have not begun to leave.
    pub(super) fn forget_unsent(&mut self) {
        if let Some(position) = self.line.forget_unsent(self.output.taken())
            && self.output.truncate(position)
            && self.ended.is_empty()
        {
            // There are slots, though no call has ended.
            self.ended.push_back(Outcome::Nothing);
        }
    }

    /// Nobody waits for what the peer has yet to say.
    pub(super) fn close_if_unwanted(&mut self) {
        if self.line.calls() == 0 && !self.line.is_empty() {
            self.life = Life::Over;
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
        drop_caught(self.alone);
    }
}

/// Calls for which an idle connection keeps memory.
const PLACES_KEPT: usize = 2;

/// Reads of one poll: 128 KiB as a rule. A wire that always has more would otherwise keep the loop from its other tasks
/// and its clock.
const READS_IN_A_ROW_MAX: u32 = 8;
