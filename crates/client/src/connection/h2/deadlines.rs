//! What a connection waits for, and until when: each of its streams, the engine, or the end of its idleness.

use std::mem;
use std::task::Context;
use std::time::{Duration, Instant};

use anywire_http::h2::StreamMap;
use anywire_loops::clock::{self, precise};
use anywire_mux::Streams;
use anywire_wire::Output;
use slab::Slab;

use super::session::Session;
use super::stream::Tunnel;
use crate::connection::io::Io;
use crate::connection::session::Life;
use crate::connection::turn::Calls;
use crate::connection::watchdog::{Overdue, WaitsFor, Watchdog};
use crate::pool::context::LoopContext;

impl Calls for Session {
    fn are_late(&self, now: Instant) -> bool {
        self.schedule.is_late(now)
    }

    fn end_overdue(&mut self, now: Instant, overdue: Overdue, context: &LoopContext) {
        let mut late = Vec::new();
        let sent = self.schedule.sent_bytes;
        for (place, stream) in &mut self.streams {
            // The peer opens a window that all streams share, and our order says whose turn it is: what others have sent meanwhile was
            // taken as well.
            if stream.watchdog.is_write_late(now)
                && mem::replace(&mut stream.counted_bytes, sent) != sent
                && self.link.engine.has_window(stream.id)
            {
                stream.watchdog.peer_took();
                self.schedule.dirty.push(place);
            }
            if let Some(error) = overdue(&mut stream.watchdog, now, &stream.download, &stream.job, context) {
                late.push((place, error));
            }
        }
        let unopened = self.overdue_unopened(now, overdue, context);
        let watchdogs = self.streams.iter().map(|(_, stream)| &stream.watchdog);
        let watchdogs = watchdogs.chain(self.unopened.iter().map(|unopened| &unopened.watchdog));
        self.schedule.deadline = watchdogs.filter_map(Watchdog::until).min();
        for (place, error) in late {
            self.leave_if_silent(now, &error);
            self.fail(place, error, context);
        }
        for (job, error) in unopened {
            self.leave_if_silent(now, &error);
            self.ended.push_back(job.into_failure(error));
        }
    }

    fn carry_on(&mut self, cx: &mut Context<'_>, io: &mut Io, context: &LoopContext) -> bool {
        let Some(wire) = &mut io.wire else { return true };
        self.carry_streams_on(cx, wire, io.polled_at, context)
    }

    fn are_over(&self) -> bool {
        self.life == Life::Over
    }

    fn expire(&mut self, now: Instant, io: &Io, context: &LoopContext) {
        self.timer_at = None;
        self.watch(context);
        if self.link.engine.next_deadline().is_some_and(|at| at <= now)
            && let Err(error) = self.link.advance(now)
        {
            return self.break_off(error, context);
        }
        self.send_bodies_not_asked_for(now);
        if !self.is_empty() {
            if self.schedule.is_late(now) {
                self.end_overdue(now, Watchdog::overdue, context);
            }
            return;
        }
        if self.trims_at.is_some_and(|at| at <= now) {
            self.trim();
        }
        if self.has_rested(now) {
            self.life = Life::Over;
            // The `GOAWAY` goes with the last write.
            self.link.go_away();
            context.count_end(io.until);
        }
    }
}

impl Session {
    /// Whether it has been idle for too long.
    pub(super) fn has_rested(&self, now: Instant) -> bool {
        self.idle_until.is_some_and(|until| until <= now)
    }

    /// Sets what each stream waits for.
    fn watch(&mut self, context: &LoopContext) {
        let keeps_waiting = self.link.keeps_peer_waiting();
        let is_closed = self.link.is_window_closed();
        // Both are replaced.
        let changed = (mem::replace(&mut self.schedule.keeps_peer_waiting, keeps_waiting) != keeps_waiting)
            | (mem::replace(&mut self.schedule.is_window_closed, is_closed) != is_closed);
        if changed {
            // Each stream waits for something else now.
            self.schedule.dirty.extend(self.streams.iter().map(|(place, _)| place));
        }
        if self.schedule.dirty.is_empty() {
            return;
        }
        // The true time, since callers' bodies may have run for long.
        let now = precise();
        while let Some(place) = self.schedule.dirty.pop() {
            let Some(stream) = self.streams.get_mut(place) else { continue };
            let is_unsent = stream.ends_at > self.link.output.taken()
                || (stream.upload.is_waiting() && !stream.awaits_continue)
                || self.link.is_blocked(stream.id);
            let uploads = match stream.awaits_continue {
                true => stream.download.is_awaited(),
                false => stream.upload.is_streaming() && matches!(stream.tunnel, Tunnel::No),
            };
            let waits_for = match stream.tunnel {
                // The deadlines of HTTP have ended with it.
                Tunnel::Open(_) => WaitsFor::CallerTakes,
                Tunnel::CallerGone => WaitsFor::Body,
                Tunnel::No | Tunnel::Asked(_) => WaitsFor::of(is_unsent, &stream.download, uploads),
            };
            let waits_for = if keeps_waiting { waits_for.without_window() } else { waits_for };
            if stream.watchdog.watch(now, waits_for, &stream.download, &stream.job, context) {
                stream.counted_bytes = self.schedule.sent_bytes;
            }
            self.schedule.set_deadline(stream.watchdog.until());
        }
    }

    /// Sets what it waits for.
    pub(super) fn wait(&mut self, now: Instant, io: &Io, context: &LoopContext) {
        self.watch(context);
        if self.is_empty() && self.idle_until.is_none() {
            self.go_idle(now, context, io.until);
        }
        let deadlines =
            [self.schedule.deadline, self.link.engine.next_deadline(), self.idle_until, self.trims_at];
        let next = deadlines.into_iter().flatten().min();
        if let Some(next) = next
            && self.timer_at.is_none_or(|at| next < at)
        {
            self.timer_at = Some(next);
            io.timer.set_at(next);
        }
    }

    /// Begins to be idle.
    fn go_idle(&mut self, now: Instant, context: &LoopContext, until: Instant) {
        self.idle_until = Some(clock::after(now, context.config().timeouts.idle).min(until));
        self.schedule.deadline = None;
        self.timer_at = None;
        self.trims_at =
            (self.streams.capacity() > PLACES_KEPT).then(|| clock::after(now, TRIM_AFTER).min(until));
        if self.link.output.is_empty() {
            context.keep_output(mem::replace(&mut self.link.output, Output::new()));
        }
    }

    /// Frees what only a busy connection needs.
    pub(super) fn trim(&mut self) {
        self.trims_at = None;
        self.streams = Slab::new();
        self.places = StreamMap::default();
        self.wakers = Vec::new();
        self.schedule.clear();
        self.unflushed = Vec::new();
        self.ended.shrink_to_fit();
    }
}

/// Streams for which an idle connection keeps memory.
const PLACES_KEPT: usize = 8;

/// How long it keeps memory for as many as it has had. Between the calls of a caller who makes many at a time, and waits for all of
/// them, it would be given back and taken again: 900 instructions a call.
const TRIM_AFTER: Duration = Duration::from_secs(1);
