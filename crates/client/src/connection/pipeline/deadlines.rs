//! What the calls of a connection wait for, and until when.

use std::task::{Context, Poll};
use std::time::Instant;

use anywire_http::Buffer;
use anywire_loops::clock::{self, precise};

use super::line::Broken;
use super::session::{Piped, Session};
use crate::Phase;
use crate::connection::io::Io;
use crate::connection::session::Life;
use crate::connection::turn::Calls;
use crate::connection::watchdog::{Overdue, WaitsFor, Watchdog};
use crate::pool::context::LoopContext;

impl Calls for Session {
    fn are_late(&self, now: Instant) -> bool {
        self.timer_at.is_some_and(|at| at <= now)
    }

    fn end_overdue(&mut self, now: Instant, overdue: Overdue, context: &LoopContext) {
        let (mut late, mut is_stuck) = (Vec::new(), false);
        for stands in self.line.iter_mut() {
            let Piped { job, download, watchdog, .. } = stands.call;
            if let Some(error) = overdue(watchdog, now, download, job, context) {
                // Calls behind it would wait for a response that does not come. A call behind others that is late for its own
                // response says nothing of theirs.
                is_stuck |= stands.at == 0 || error.phase() == Some(Phase::Write);
                late.push((stands.at, error));
            }
        }
        let has_begun = self.line.has_begun();
        for (at, error) in late {
            if let Some(mut call) = self.line.leave(at) {
                self.ended.push_back(call.download.fail(&mut call.job, error, has_begun && at == 0));
            }
        }
        if is_stuck {
            return self.displace_all(context);
        }
        self.forget_unsent();
        self.close_if_unwanted();
    }

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
                    self.peer_gave(Watchdog::peer_gave_bytes);
                }
                Poll::Ready(ended) => {
                    self.closed(cx, ended.err(), context);
                    return true;
                }
            }
        }
        false
    }

    fn are_over(&self) -> bool {
        self.life == Life::Over || self.line.is_empty()
    }

    fn expire(&mut self, now: Instant, io: &Io, context: &LoopContext) {
        self.timer_at = None;
        self.watch(precise(), io, context);
        match self.drained_until.is_some_and(|until| until <= now) {
            true => self.broken(Broken::Undrained, context),
            false => self.end_overdue(now, Watchdog::overdue, context),
        }
    }
}

impl Session {
    /// Sets what each call waits for, and until when.
    pub(super) fn watch(&mut self, now: Instant, io: &Io, context: &LoopContext) {
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
}

/// Reads of one poll: 128 KiB as a rule. A wire that always has more would otherwise keep the loop from its other tasks
/// and its clock.
const READS_IN_A_ROW_MAX: u32 = 8;
